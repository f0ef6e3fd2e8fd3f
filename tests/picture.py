"""Draws what the command shows of a small working day, as an SVG: a real server on a temporary folder."""

import io
import os
import pty
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from ringfence import AgentClient
from ringfence.kernel import migrations
from ringfence.settings import Settings
from tests.harness import Ringfence, running

WIDTH = 118


def work(server: Ringfence) -> str:
    admin = server.admin
    project: str = admin.post("/projects", json={"name": "apollo", "creator": "admin"}).json()["id"]
    agents = {}
    for name, tags in {"claude": ["code", "review"], "codex": ["code"], "hermes": ["review", "testing"]}.items():
        agents[name] = AgentClient(server.url, name, name, token=server.admin_token)
        agents[name].register()
        agents[name].set_capabilities(tags)
    wanted = (
        ("Parse dates without a zone", "P1", "claude"),
        ("Retry uploads that time out", "P0", "codex"),
        ("Explain the exit codes", "P3", None),
        ("Test the importer against old files", "P2", "hermes"),
        ("Move the cache out of the request", "P1", None),
    )
    tasks = {}
    for title, priority, agent in wanted:
        body = {"title": title, "priority": priority, "status": "ready"}
        tasks[title] = admin.post(f"/projects/{project}/tasks", json=body).json()["id"]
        if agent is not None:
            agents[agent].claim_task(project, tasks[title])
    agents["claude"].transition_task(project, tasks["Parse dates without a zone"], "in_review")
    agents["codex"].transition_task(project, tasks["Retry uploads that time out"], "in_progress")
    admin.post("/agents/hermes/autonomy", json={"mode": "advisory"})
    agents["hermes"].transition_task(project, tasks["Test the importer against old files"], "in_progress")
    return project


def shown(server: Ringfence, *command: str) -> str:
    """What a terminal of this width shows."""
    program = [sys.executable, "-m", "ringfence.cli.main", *command]
    env = {**os.environ, "RINGFENCE_URL": server.url, "RINGFENCE_TOKEN": server.admin_token}
    env |= {"COLUMNS": str(WIDTH), "TERM": "xterm-256color", "FORCE_COLOR": "1"}
    main, side = pty.openpty()
    with subprocess.Popen(program, stdout=side, stderr=side, env=env) as process:
        os.close(side)
        chunks = []
        while True:
            try:
                chunk = os.read(main, 65536)
            except OSError:
                break
            if not chunk:
                break
            chunks.append(chunk)
        assert process.wait(20) == 0, b"".join(chunks)
    os.close(main)
    return b"".join(chunks).decode().replace("\r\n", "\n")


def draw(target: Path) -> None:
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    with tempfile.TemporaryDirectory() as folder:
        migrations.upgrade(Settings(data=Path(folder)))
        with running(Path(folder)) as server:
            work(server)
            for command in (["task", "list"], ["agent", "list"], ["proposal", "list"]):
                console.print(f"[bold green]$[/] [bold]ringfence {' '.join(command)}[/]")
                console.print(Text.from_ansi(shown(server, *command)))
    # No font is fetched from anywhere.
    form = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.S).replace("Fira Code", "monospace")
    target.write_text(console.export_svg(title="Ringfence", code_format=form))


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
