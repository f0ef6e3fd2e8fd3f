"""The entry of `ringfence`: its nouns, each imported when it is used, and what becomes of errors."""

import errno
import importlib
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import Abort, Exit, TyperException

from ringfence.cli import inert
from ringfence.cli.invocation import Noun, ReaderGone, before_noun
from ringfence.cli.problems import EXIT_CODES, INTERRUPTED, Problem, Usage

HERE, WORK, CREW, RECORD, ACCESS, SHELL = (
    "Ringfence on this machine", "Work", "Crew", "Record", "Access", "This command"
)  # fmt: skip

# Each module is imported when its noun is used: what is not needed costs no time.
NOUNS: dict[str, tuple[str, str, str]] = {
    "up": ("running", HERE, "Start Ringfence here, and keep it running."),
    "down": ("running", HERE, "Stop the Ringfence that runs here."),
    "status": ("running", HERE, "Whether a server runs, where, and who you are there."),
    "doctor": (
        "doctor",
        HERE,
        "What this machine can hold up, by trying; what is missing, and the command that mends it.",
    ),
    "backup": ("backups", HERE, "Copies of everything: make one, put one back."),
    "project": ("projects", WORK, "Projects: a board, its members, limits and files."),
    "task": ("tasks", WORK, "Tasks: units of work on a board."),
    "run": ("inside", WORK, "Run one command in a fresh sandbox."),
    "sandbox": ("inside", WORK, "Sandboxes: machines of their own for agents, fenced."),
    "image": ("images", WORK, "Images: root filesystems that sandboxes begin with."),
    "snapshot": ("sandboxes", WORK, "Snapshots: the files of sandboxes as they were."),
    "proposal": ("proposals", WORK, "What advisory agents want to do: approve or deny."),
    "demo": ("demo", WORK, "A made-up project whose agents work by themselves, to see a board move."),
    "agent": ("agents", CREW, "Agents: see, pause, resume, revoke, change their mode."),
    "message": ("messages", CREW, "Messages between agents and people."),
    "event": ("events", RECORD, "Everything that happens, as it happens."),
    "audit": ("events", RECORD, "The audit log: read, verify, prune."),
    "login": ("access", ACCESS, "Sign in to a server, or make a link that signs a browser in."),
    "logout": ("access", ACCESS, "Forget a server's token, and revoke it there."),
    "token": ("access", ACCESS, "Tokens for people and scripts."),
    "person": ("access", ACCESS, "People: invite, list, change."),
    "enrolment": ("access", ACCESS, "Tokens with which agents register themselves."),
    "config": ("config", SHELL, "Settings of the server, and contexts of this command."),
    "completion": ("shell", SHELL, "Print the completion script of a shell."),
    "version": ("shell", SHELL, "Print the version."),
}

COMPLETING = "_RINGFENCE_COMPLETE"
EPILOG = "Exit codes: " + "; ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES.items()) + "."


class Nouns(TyperGroup):
    """The nouns as the table tells of them; the one that is used is imported."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, (_, panel, about) in NOUNS.items():
            self.commands[name] = TyperCommand(name, help=about, rich_help_panel=panel, callback=None)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        if args[0] in NOUNS:
            return args[0], load(args[0]), args[1:]
        return super().resolve_command(ctx, args)


def load(name: str) -> Any:
    """The command, or group of commands, of that name."""
    module = importlib.import_module(f"ringfence.cli.{NOUNS[name][0]}")
    found = getattr(module, name)
    return typer.main.get_group(found.app) if isinstance(found, Noun) else typer.main.get_command(found)


def build() -> Any:
    app = typer.Typer(
        name="ringfence",
        cls=Nouns,
        help="Ringfence: a workplace for autonomous coding agents, fenced by you.",
        epilog=EPILOG,
        no_args_is_help=True,
        add_completion=False,
        context_settings={"help_option_names": ["--help", "-h"]},
    )

    app.callback()(before_noun)
    return typer.main.get_command(app)


def main() -> int:
    _provide_streams()
    code = _ended()
    try:
        sys.stdout.flush()
    except OSError as error:
        _close_output()
        return code if code or isinstance(error, BrokenPipeError) else _fail(_told_by(error), Problem.exit_code)
    return code


def _ended() -> int:
    """Run the command; its exit code."""
    if COMPLETING in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()
    try:
        code = build().main(prog_name="ringfence", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except Exit as exit_:
        return exit_.exit_code
    except (Abort, KeyboardInterrupt):
        return INTERRUPTED
    except ReaderGone:
        _close_output()
        return 0
    except SystemExit as exit_:  # what typer and rich make of a broken pipe, and of a request for completions
        if exit_.code != 1 or COMPLETING in os.environ:
            raise
        _close_output()
        return 0
    except Problem as problem:
        return _fail(str(problem), problem.exit_code)
    except TyperException as wrong:
        return _misunderstood(wrong)
    except OSError as error:
        return _fail(_told_by(error), Problem.exit_code)
    except Exception as error:
        if isinstance(error, UnicodeEncodeError) and error.reason == "surrogates not allowed":
            return _fail("what was given holds bytes that are no UTF-8 text: give it as UTF-8", Usage.exit_code)
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        return _fail(f"this is a mistake in Ringfence, please report it: {type(error).__name__}: {error} ({where})", 1)


def _misunderstood(wrong: TyperException) -> int:
    context = getattr(wrong, "ctx", None)
    sentence = " ".join(wrong.format_message().replace("Value error, ", "").split()).rstrip(". ")
    if type(wrong).__name__ == "NoArgsIsHelpError":
        return Usage.exit_code  # the help was printed
    path = context.command_path if context is not None else "ringfence"
    return _fail(f"{sentence}; `{path} --help` tells more", Usage.exit_code)


def _fail(sentence: str, code: int) -> int:
    try:
        print(f"ringfence: {inert.line(sentence)}", file=sys.stderr, flush=True)
    except OSError:
        pass
    return code


def _told_by(error: OSError) -> str:
    if error.errno == errno.ENOSPC and not error.filename:
        return "the output cannot be written: the disk under it is full"
    return f"{error.filename}: {error.strerror}" if error.filename else str(error)


def _provide_streams() -> None:
    """Started with one of them closed (`>&-`), what we open next would take its place."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, number)
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115


def _close_output() -> None:
    """What is still buffered cannot be written; without this the interpreter would complain at its exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
