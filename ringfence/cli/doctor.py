"""What this machine can hold up of a sandbox. Works without a server."""

import asyncio
import contextlib
import os
from pathlib import Path
from typing import Annotated, Any

from typer import Exit, Option

from ringfence.cli import inert
from ringfence.cli.invocation import Invocation, alone
from ringfence.cli.problems import WARNED, Problem
from ringfence.cli.running import load_settings
from ringfence.cli.screen import Column
from ringfence.privileges import view

FINDINGS = [
    Column("", "level", whole=True),
    Column("what", "title", whole=True),
    Column("found", "found", prose=True),
]


@alone("doctor")
def doctor(
    run: Invocation, data: Annotated[Path | None, Option(help="The folder that holds all state.")] = None
) -> None:
    """What this machine can hold up, by trying; what is missing, and the command that mends it.

    Needs no server. Exits with 0 where all is well, 1 where no sandbox can run, 8 where something is not held up.
    """
    from ringfence.fence.doctor.routes import diagnosis_view
    from ringfence.fence.doctor.service import diagnosed

    settings = load_settings(data=data)
    if os.geteuid() == 0 and settings.data.is_dir():
        with contextlib.suppress(OSError):  # as the spawner sees it
            view.enter([*view.program(), view.Needed(settings.data, writable=True)])
    found: dict[str, Any] = dict(diagnosis_view(asyncio.run(diagnosed(settings))))
    if run.screen.as_json:
        run.screen.json(found)
    elif run.screen.quiet:
        run.screen.text(found["level"])
    else:
        _show(run, found)
    if found["level"] != "ok":
        raise Exit(WARNED if found["level"] == "warning" else Problem.exit_code)


def _show(run: Invocation, found: dict[str, Any]) -> None:
    run.screen.items(found["findings"], FINDINGS, "")
    mending = [it for it in found["findings"] if it["fix"]]
    if mending:
        run.screen.text("\nWhat mends it:")
    for it in mending:
        run.screen.text(inert.block(f"\n  {it['title']}\n    {it['fix']}"))
    words = {"ok": "All is well.", "warning": "Sandboxes run here.", "missing": "No sandbox can run here."}
    run.screen.text(f"\n{words[found['level']]}")
