"""The README's first five minutes, word for word."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, Terminal, until

README = (Path(__file__).parent.parent / "README.md").read_text()
FIRST_FIVE_MINUTES = README.partition("## The first five minutes")[2].partition("\n## ")[0]


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Cli]:
    found = Cli(tmp_path)
    found.up()
    yield found
    found.stop()


def blocks(language: str) -> list[str]:
    found = re.findall(r"(?ms)^```(\w*)\n(.*?)^```$", FIRST_FIVE_MINUTES)
    return [text for of, text in found if of == language]


def commands(block: str) -> list[list[str]]:
    lines = [shlex.split(line, comments=True) for each in block.splitlines() for line in each.split("&&")]
    assert all(words[0] == "ringfence" for words in lines)
    return [words[1:] for words in lines]


def test_the_first_five_minutes_work_as_written(newcomer: Cli) -> None:
    first, sandboxes, then = blocks("")
    said = [newcomer.ok(*words) for words in commands(first)]
    enrolment = said[-1].strip()
    assert enrolment.startswith("rfen_")
    [program] = blocks("python")
    assert "http://127.0.0.1:8080" in program
    program = program.replace("http://127.0.0.1:8080", newcomer.running.url).replace("rfen_…", enrolment)
    subprocess.run([sys.executable, "-c", program], env={**os.environ, **newcomer.env}, check=True, timeout=60)
    [task] = newcomer.json("task", "list", "--project", "apollo")
    assert (task["status"], task["assigned_to"]) == ("in_review", "claude")
    try_sandboxes(newcomer, commands(sandboxes))
    follow, *steer = commands(then)
    assert follow == ["event", "tail", "-f"]
    with newcomer.start(*follow) as following:
        for words in steer:
            newcomer.ok(*words)
        told = following.stdout
        assert told is not None
        until(lambda: "agent_paused" in told.readline(), "it is told that claude was paused")
        following.terminate()
    assert newcomer.json("agent", "show", "claude")["status"] == "busy"


def try_sandboxes(newcomer: Cli, written: list[list[str]]) -> None:
    (newcomer.home / "src").mkdir()
    (newcomer.home / "src/dates.py").write_text("import time\n")
    run, *stays, shell = written
    assert newcomer.ok(*run).startswith("Python 3")
    for words in stays:
        newcomer.ok(*words)
    terminal = Terminal(newcomer, *shell)
    terminal.see(r"\$ ")
    terminal.type("head src/*; exit\r")
    terminal.see("import time")
    assert terminal.end() == 0
