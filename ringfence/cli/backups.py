"""Copies of everything: make one, put one back."""

import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from ringfence.cli.invocation import Invocation, Noun
from ringfence.cli.places import default_data
from ringfence.cli.problems import Problem
from ringfence.supervisor import Running

backup = Noun("backup", "Copies of everything: make one, put one back.")

STDOUT = Path("-")


@backup.verb("create")
def create(
    run: Invocation,
    output: Annotated[Path | None, Option("--output", "-o", help="Where to; - is standard output. [here]")] = None,
    data: Annotated[Path | None, Option(help="The data folder, whether a server runs on it or not.")] = None,
) -> None:
    """Copy everything into one file, while the server works: the database as it is at one moment, and the files.

    It holds the hashes of all tokens: keep it where nobody else reads.
    """
    output = output or Path(time.strftime("ringfence-%Y%m%dT%H%M%S.tar", time.gmtime()))
    if data is not None and Running.on(folder := data.expanduser().absolute()) is None:
        from ringfence.cli.offline import backed_up

        with backed_up(folder) as chunks:
            size = _write(run, output, chunks)
    else:
        if data is not None:
            run.go_to(data=data)
        with run.api.download("POST", "/api/v1/backup") as chunks:
            size = _write(run, output, chunks)
    if output != STDOUT:
        facts = {"path": str(output), "size": size}
        run.screen.done(facts, f"Everything is in {output} ({size / 1e6:.1f} MB).", str(output))


@backup.verb("restore")
def restore(
    run: Invocation,
    backup: Annotated[Path, Argument(help="The file; - is standard input.")],
    data: Annotated[Path | None, Option(help="The data folder to fill; it must hold no database.")] = None,
) -> None:
    """Put a backup into an empty data folder, and verify it. People, tokens and agents are those of then."""
    from ringfence.cli.offline import restored

    folder = (data or Path(os.environ.get("RINGFENCE_DATA") or default_data())).expanduser().absolute()
    try:
        with sys.stdin.buffer if backup == STDOUT else backup.open("rb") as source:
            found = restored(source, folder)
    except OSError as error:
        raise Problem(f"{error.filename or backup}: {error.strerror}") from None
    facts: dict[str, Any] = {"data": str(folder), **found}
    hint = "" if folder == default_data() else f" --data {folder}"
    told = f"Restored {found['events']} events and {found['files']} files; the log is what was written."
    run.screen.done(facts, f"{told}\nStart it: ringfence up{hint}", str(folder))


def _write(run: Invocation, output: Path, chunks: Iterable[bytes]) -> int:
    """How many bytes it has. Another file of that name stays until this one is whole."""
    if output == STDOUT:
        return sum(sys.stdout.buffer.write(chunk) for chunk in chunks)
    if output.exists():
        run.screen.confirm(f"{output} is there already. Replace it?")
    part = output.with_name(f".{output.name}.part")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as file:
            size = sum(file.write(chunk) for chunk in chunks)
            file.flush()
            os.fsync(file.fileno())
        part.replace(output)
    except OSError as error:
        raise Problem(f"{output} cannot be written: {error.strerror}") from None
    finally:
        part.unlink(missing_ok=True)
    return size
