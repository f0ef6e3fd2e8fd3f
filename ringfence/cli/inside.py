"""What is done inside sandboxes: programs run there, files carried in and out, ports forwarded; and `ringfence run`."""

import contextlib
import json
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Exit, Option

from ringfence.cli import inert
from ringfence.cli import sandboxes as lives
from ringfence.cli.api import trust
from ringfence.cli.invocation import Invocation, alone
from ringfence.cli.problems import NotFound, Problem, Unreachable, Usage, of_status
from ringfence.cli.sandboxes import pairs, sandbox
from ringfence.cli.screen import Column, say, when
from ringfence.kernel.sizes import written

if TYPE_CHECKING:
    from ringfence.sdk import Client, Sandbox

__all__ = ["run", "sandbox"]

OPTIONS_FIRST = {"allow_interspersed_args": False}  # what stands behind the command's first word is the command's
TIMED_OUT = 124  # as timeout(1)
LISTED = [
    Column("mode", "mode"),
    Column("kind", "kind"),
    Column("size", lambda it: written(it["size"]), right=True),
    Column("modified", when("modified")),
    Column("name", lambda it: it["name"] + (f" -> {it['target']}" if it["target"] is not None else ""), whole=True),
]
PORTS = [
    Column("port", "port", right=True),
    Column("listens on", lambda it: it["addresses"]),
    Column("can be forwarded", "reachable"),
]

Words = Annotated[list[str] | None, Argument(metavar="COMMAND", help="The program and its arguments.")]
Where = Annotated[str, Argument(metavar="SANDBOX[:PATH]", help="A path is absolute, or relative to /workspace.")]
Env = Annotated[list[str] | None, Option("--env", "-e", help="NAME=value; may be repeated.")]
Workdir = Annotated[str | None, Option("--workdir", "-w", help="Where it runs; /workspace when it is not said.")]
Timeout = Annotated[str | None, Option(help="End it after so long: 90s, 30m, 8h.")]
Tty = Annotated[bool, Option("--tty", "-t", help="Give it this terminal.")]
Interactive = Annotated[bool, Option("--interactive", "-i", help="Give it this terminal's input, line by line.")]
NoStdin = Annotated[bool, Option("--no-stdin", "-n", help="Give it no input, though there is some.")]


@contextlib.contextmanager
def reached(run: Invocation) -> Iterator["Client"]:
    """A client of the server that is meant; its errors are ours."""
    from ringfence.sdk import Client, errors

    place = run.place
    found = trust(place)
    try:
        with Client(place.url, token=place.token, ca=None if isinstance(found, bool) else found) as client:
            yield client
    except errors.Answered as error:
        raise of_status(error.status)(error.detail, error.details) from None
    except errors.Unreachable as error:
        raise Unreachable(error.detail) from None
    except errors.RingfenceError as error:
        raise Problem(error.detail) from None


@contextlib.contextmanager
def entered(run: Invocation, word: str) -> Iterator["Sandbox"]:
    from ringfence.sdk import Sandbox

    found: Any = lives.find(run, word)
    with reached(run) as client:
        yield Sandbox(client, found)


# Programs -------------------------------------------------------------------------------------------------------------


@sandbox.verb("exec", context_settings=OPTIONS_FIRST)
def exec_in(
    run: Invocation,
    sandbox: lives.Which,
    command: Words = None,
    tty: Tty = False,
    interactive: Interactive = False,
    no_stdin: NoStdin = False,
    env: Env = None,
    workdir: Workdir = None,
    timeout: Timeout = None,
    detach: Annotated[bool, Option("--detach", "-d", help="Let it go on by itself, and print its id.")] = False,
) -> None:
    """Run a program in a sandbox: `exec web -- make test`. Ends with the program's own exit status."""
    words = _words(command, tty=tty)
    more = {"env": pairs(env, "--env"), "cwd": workdir, "timeout": lives.seconds(timeout, "--timeout")}
    with entered(run, sandbox) as box:
        if detach:
            begun = box.spawn(words, **more)  # type: ignore[arg-type]
            run.screen.done(begun, f"Runs in {box.name}: {begun['id']}", begun["id"])
            return
        if run.screen.as_json:
            result = box.exec(words, **more)  # type: ignore[arg-type]
            run.screen.json({**result.exec, "stdout": result.stdout, "stderr": result.stderr})
            raise Exit(_status(result.exec))
        raise Exit(_connected(box, words, more, tty=tty, stdin=not no_stdin and (interactive or _is_piped())))


def _words(given: list[str] | None, *, tty: bool) -> list[str]:
    words = [*(given or ())]
    if "--" in words and words[0].startswith("-") and words[0] != "--":
        raise Usage(f"options stand before the sandbox, and the command behind it: {words[0]} is not the command")
    if words[:1] == ["--"]:
        del words[0]
    if not words and not tty:
        raise Usage("which command? Name it last, as in `run -- ls -l`, or `sandbox exec SANDBOX -- ls -l`")
    return words or ["sh"]


def _is_piped() -> bool:
    """Whether somebody gives input; a terminal's is taken when it is asked for."""
    return not sys.stdin.isatty()


def _connected(box: "Sandbox", words: list[str], more: dict[str, Any], *, tty: bool, stdin: bool) -> int:
    from ringfence.cli.relay import Relay, terminal_size

    if tty and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Usage("this is no terminal: leave out --tty")
    with box.stream(words, pty=terminal_size() if tty else None, stdin=stdin and not tty, **more) as process:
        ended = Relay(process, raw=tty, feeds=stdin or tty).run()
    return _status(ended)


def _status(ended: Any) -> int:
    """The program's exit status; what else there is to say goes to standard error."""
    match ended["cause"]:
        case "timeout":
            say(sys.stderr, f"ringfence: it was ended after {ended['timeout']:g} s")
            return TIMED_OUT
        case "failed":
            say(sys.stderr, f"ringfence: {ended['argv'][0]} could not be started: {ended['error']}")
        case "lost":
            say(sys.stderr, "ringfence: its sandbox ended")
            return 1
    return int(ended["code"]) & 0xFF


@alone("run", context_settings=OPTIONS_FIRST)
def run(
    run: Invocation,
    command: Words = None,
    image: lives.Image = None,
    snapshot: lives.Snapshot = None,
    memory: lives.Memory = None,
    cpus: lives.Cpus = None,
    pids: lives.Pids = None,
    disk: lives.Disk = None,
    best_effort: lives.BestEffort = False,
    user: lives.AsUser = None,
    read_only: lives.ReadOnly = False,
    env: lives.Env = None,
    workdir: Workdir = None,
    timeout: Timeout = None,
    copied: Annotated[
        list[str] | None,
        Option("--cp", metavar="SRC[:DST]", help="A file or folder to be there, in /workspace; may be repeated."),
    ] = None,
    tty: Tty = False,
    interactive: Interactive = False,
    no_stdin: NoStdin = False,
    keep: Annotated[bool, Option("--keep", help="Leave the sandbox there afterwards.")] = False,
) -> None:
    """Run one command in a fresh sandbox.

    `ringfence run -- python3 -V`: it ends with the command's own exit status, and the sandbox is removed afterwards,
    whatever happens."""
    words = _words(command, tty=tty)
    copies = [_copied(one) for one in copied or ()]
    name = f"run-{secrets.token_hex(4)}"
    more = {"cwd": workdir, "timeout": lives.seconds(timeout, "--timeout")}
    with reached(run) as client, _removed(run, name, keep=keep):
        from ringfence.sdk import Sandbox

        facts = client.create_sandbox(
            name, image=image, snapshot=snapshot, memory=memory, cpus=cpus, pids=pids, disk=disk,
            best_effort=best_effort or None, user=user, read_only=read_only or None, env=pairs(env, "--env"),
        )  # fmt: skip
        box = Sandbox(client, facts)
        if keep:
            run.screen.note(f"{name} stays: `ringfence sandbox rm {name}` removes it")
        for source, target in copies:
            box.files.upload(source, target)
        if run.screen.as_json:
            result = box.exec(words, **more)  # type: ignore[arg-type]
            run.screen.json({**result.exec, "stdout": result.stdout, "stderr": result.stderr})
            status = _status(result.exec)
        else:
            status = _connected(box, words, more, tty=tty, stdin=not no_stdin and (interactive or _is_piped()))
    raise Exit(status)


@contextlib.contextmanager
def _removed(run: Invocation, name: str, *, keep: bool) -> Iterator[None]:
    """However this ends: also by a signal, also while it is being made."""
    from ringfence.cli.relay import interrupting

    with interrupting():
        try:
            yield
        finally:
            if not keep:
                run.api.ask("DELETE", lives.at(name), accept=(404,))  # 404: it was never made


def _copied(given: str) -> tuple[Path, str]:
    source, _, target = given.partition(":")
    path = Path(source)
    if not path.exists():
        raise NotFound(f"--cp: there is no {source} here")
    return path, target or path.resolve().name


# Files ----------------------------------------------------------------------------------------------------------------


@sandbox.verb("cp")
def cp(
    run: Invocation,
    source: Annotated[str, Argument(metavar="SRC", help="SANDBOX:PATH, a path of this machine, or - (input).")],
    target: Annotated[str, Argument(metavar="DST", help="SANDBOX:PATH, a path of this machine, or - (output).")],
) -> None:
    """Copy a file or a folder into a sandbox, or out of it: `cp src web:/workspace`."""
    out, into = _place(source), _place(target)
    if (out is None) == (into is None):
        raise Usage("one of SRC and DST is in a sandbox, as web:/workspace/file, and the other is on this machine")
    if into is not None:
        with entered(run, into[0]) as box:
            _carry_in(run, box, source, into[1])
    elif out is not None:
        with entered(run, out[0]) as box:
            _carry_out(run, box, out[1], target)


def _place(given: str) -> tuple[str, str] | None:
    """Sandbox and path; None: a path of this machine, which is said with a slash where it has a colon."""
    name, colon, inside = given.partition(":")
    return (name, inside or "/workspace") if colon and name and "/" not in name else None


def _carry_in(run: Invocation, box: "Sandbox", source: str, target: str) -> None:
    if source == "-":
        with tempfile.NamedTemporaryFile() as held:  # what is sent may have to be sent again
            shutil.copyfileobj(sys.stdin.buffer, held)
            held.flush()
            os.chmod(held.name, 0o644)  # noqa: PTH101
            box.files.upload(held.name, target)
        return
    path = Path(source)
    if not path.exists():
        raise NotFound(f"there is no {source} here")
    if target.endswith("/") or _is_folder(box, target):
        target = str(PurePosixPath(target) / path.resolve().name)
    with _busy(run, f"copying {source} to {box.name}:{target}"):
        box.files.upload(path, target)
    run.screen.note(f"{source} is {box.name}:{target}")


def _carry_out(run: Invocation, box: "Sandbox", source: str, target: str) -> None:
    if target == "-":
        with tempfile.TemporaryDirectory() as folder:
            held = Path(folder, "file")
            box.files.download(source, held)
            if held.is_dir():
                raise Usage(f"{source} is a folder: copy it to one")
            with held.open("rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer)
        return
    path = Path(target)
    if target.endswith("/") or path.is_dir():
        path = path / (PurePosixPath(source).name or box.name)
    if not path.parent.is_dir():
        raise NotFound(f"there is no folder {path.parent} here")
    with _busy(run, f"copying {box.name}:{source} to {path}"):
        box.files.download(source, path)
    run.screen.note(f"{box.name}:{source} is {path}")


def _is_folder(box: "Sandbox", path: str) -> bool:
    from ringfence.sdk import NotFound as Missing

    try:
        return box.files.stat(path)["kind"] == "directory"
    except Missing:
        return False


@contextlib.contextmanager
def _busy(run: Invocation, what: str) -> Iterator[None]:
    """On a terminal it shows that something goes on."""
    if run.screen.quiet or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(inert.line(what))):
        yield


@sandbox.verb("ls")
def ls(
    run: Invocation,
    where: Where,
    depth: Annotated[int, Option(min=0, help="How deep; 0: all there is.")] = 1,
) -> None:
    """What is in a folder of a sandbox."""
    name, path = _place(where) or (where, "/workspace")
    with entered(run, name) as box:
        run.screen.items(box.files.list(path, depth=depth), LISTED, "nothing is in it")


@sandbox.verb("cat")
def cat(run: Invocation, where: Where) -> None:
    """What a file of a sandbox holds, byte for byte."""
    place = _place(where)
    if place is None:
        raise Usage("which file? Write SANDBOX:PATH")
    with entered(run, place[0]) as box:
        _carry_out(run, box, place[1], "-")


@sandbox.verb("watch")
def watch(
    run: Invocation,
    where: Where,
    recursive: Annotated[bool, Option("--recursive", "-r", help="Folders below it, too.")] = False,
) -> None:
    """What changes in a folder of a sandbox, as it does, until Ctrl-C."""
    name, path = _place(where) or (where, "/workspace")
    with entered(run, name) as box, box.files.watch(path, recursive=recursive) as changes:
        run.screen.note(f"watching {box.name}:{path}; stop with Ctrl-C")
        for change in changes:
            if run.screen.as_json:
                run.screen.text(json.dumps(change))
            else:
                to = f" -> {change['to']}" if change["to"] is not None else ""
                run.screen.text(f"{change['event']:<10}  {inert.line(change['path'] + to)}")


# Ports ----------------------------------------------------------------------------------------------------------------


@sandbox.verb("ports")
def ports(run: Invocation, sandbox: lives.Which) -> None:
    """The TCP ports on which something listens in a sandbox."""
    with entered(run, sandbox) as box:
        run.screen.items(box.ports(), PORTS, "nothing listens")


@sandbox.verb("forward")
def forward(
    run: Invocation,
    sandbox: lives.Which,
    port: Annotated[str, Argument(metavar="[LOCAL:]PORT", help="LOCAL is the port on this machine. [the same]")],
) -> None:
    """Make a port of a sandbox one of this machine's loopback, until Ctrl-C."""
    local, colon, inside = port.rpartition(":")
    with entered(run, sandbox) as box:
        try:
            there, here = int(inside), int(local) if colon else int(inside)
        except ValueError:
            raise Usage(f"{port!r} is not a port: write 8000, or 9000:8000") from None
        try:
            opened = box.forward(there, local=here)
        except (OSError, OverflowError) as error:
            raise Problem(f"port {here} of this machine cannot be had ({error}): write another, as 0:{there}") from None
        with opened:
            reach = any(one["port"] == there and one["reachable"] for one in box.ports())
            run.screen.text(f"{opened.url} is port {there} of {box.name}; stop with Ctrl-C")
            if not reach:
                run.screen.note(f"nothing listens on port {there} there yet")
            opened.wait()
