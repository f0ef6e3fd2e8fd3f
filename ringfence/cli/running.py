"""Ringfence on this machine: up, down, status."""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Option

import ringfence
from ringfence.cli.api import Api
from ringfence.cli.invocation import Invocation, alone
from ringfence.cli.places import Contexts, Wanted, config_folder, default_data
from ringfence.cli.problems import Problem, Unreachable
from ringfence.cli.screen import Column, Screen, moment, say
from ringfence.fence.runtimes.native.living import Living, living
from ringfence.supervisor import (
    AlreadyRunning,
    Lock,
    Log,
    Running,
    Started,
    StartError,
    Supervisor,
    detach,
    healthy,
    stop,
)

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["auto", "console", "json"]
STARTING_WITHIN = 30.0  # seconds another `up` may take until it serves
STOPPING_WITHIN = 30.0
STOPPED_AT_ONCE = 8  # sandboxes
NAMED = 5  # of those that are told of


@alone("up")
def up(
    run: Invocation,
    host: Annotated[str | None, Option(help="The address to listen on; 0.0.0.0: all. [127.0.0.1]")] = None,
    port: Annotated[int | None, Option(help="The port to listen on; 0: any free one. [8080]")] = None,
    data: Annotated[Path | None, Option(help="The folder that holds all state.")] = None,
    config: Annotated[Path | None, Option(help="A settings file. [DATA/ringfence.toml]")] = None,
    database: Annotated[str | None, Option(help="A postgresql:// URL; better in RINGFENCE_DATABASE.")] = None,
    public_url: Annotated[str | None, Option(help="Where people reach it, behind a reverse proxy.")] = None,
    tls_cert: Annotated[Path | None, Option(help="Certificate chain (PEM): serve HTTPS.")] = None,
    tls_key: Annotated[Path | None, Option(help="Key of the certificate (PEM).")] = None,
    log_level: Annotated[Level | None, Option(help="How much is logged. [info]")] = None,
    log_format: Annotated[Format | None, Option(help="auto: console on a terminal, else json. [auto]")] = None,
    detach_: Annotated[bool, Option("--detach", help="Go on in the background; return once it is healthy.")] = False,
) -> None:
    """Start Ringfence here, and keep it running.

    Prints where it listens, and a link that signs a browser in, once. The first start makes you its first person.
    Ctrl-C stops it when what is under way is done; a second Ctrl-C at once.
    """
    settings = load_settings(
        data=data, config=config, host=host, port=port, database=database, public_url=public_url,
        tls_cert=tls_cert, tls_key=tls_key, log_level=log_level, log_format=log_format,
    )  # fmt: skip
    if (running := Running.on(settings.data)) is not None:
        _already(run.screen, running)
        return

    def supervisor(started: Callable[[Started], None], notice: Callable[[str], None], log: Log | None) -> Supervisor:
        known = _known_tokens(settings.data)
        return Supervisor(settings, ringfence.__version__, owner(), known, started, notice, log)

    def announce(url: str, link: str, running: Running) -> None:
        _keep(run.screen, running)
        _announce(run.screen, url, link, running, detached=detach_)

    try:
        if detach_:
            _detached(settings.data, supervisor, announce)
        else:

            def started(it: Started) -> None:
                with until_reader_leaves():
                    announce(it.running.url, it.link, it.running)

            supervisor(started, _notice, None).run()
    except AlreadyRunning:
        _already(run.screen, _wait_for(settings.data))
    except StartError as error:
        raise Problem(str(error)) from None


@contextlib.contextmanager
def until_reader_leaves() -> Iterator[None]:
    """`up | head -n 1` goes on serving."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _notice(sentence: str) -> None:
    """Where nobody reads any more (`up | tee` and Ctrl-C) the stop goes on all the same."""
    with contextlib.suppress(OSError):
        say(sys.stderr, f"ringfence: {sentence}")


def _detached(data: Path, supervisor: Any, announce: Callable[[str, str, Running], None]) -> None:
    def daemon(report: Callable[[dict[str, Any]], None], log: Log) -> None:
        def notice(sentence: str) -> None:
            log.write(f"ringfence: {sentence}\n".encode())

        try:
            supervisor(lambda it: report({"url": it.running.url, "link": it.link}), notice, log).run()
        except AlreadyRunning:
            report({"already": True})
        except StartError as error:
            report({"error": str(error)})

    try:
        said = detach(data, daemon)
    except OSError as error:
        raise StartError(
            f"the data folder {data} cannot be used ({error.strerror}): choose another with --data DIR"
        ) from None
    if said is None:
        raise StartError(f"it did not start; what it said is in {data / 'run/server.log'}")
    if said.get("already"):
        raise AlreadyRunning
    if "error" in said:
        raise StartError(said["error"])
    running = Running.on(data)
    if running is None:
        raise StartError(f"it stopped again; what it said is in {data / 'run/server.log'}")
    announce(said["url"], said["link"], running)


def load_settings(**flags: Any) -> Any:
    from ringfence.settings import Settings, SettingsError

    try:
        return Settings.load(config=flags.pop("config", None), **flags)
    except SettingsError as error:
        raise Problem(str(error)) from None


def owner() -> str:
    """Who the first person is to be; the server says `admin` where the name is not possible."""
    return os.environ.get("SUDO_USER") or os.environ.get("USER") or os.environ.get("LOGNAME") or "admin"


def _known_tokens(data: Path) -> list[str]:
    try:
        contexts = Contexts(config_folder())
    except Problem:
        return []
    name = contexts.of_data(data)
    token = contexts.known[name].token if name is not None else None
    return [token] if token else []


def _keep(screen: Screen, running: Running) -> None:
    """Remember the token in the user's configuration; without a home it is in the data folder only."""
    try:
        Contexts(config_folder()).keep_local(Path(running.data), running.url, running.token)
    except Problem as error:
        screen.note(f"note: {error}")


def _announce(screen: Screen, url: str, link: str, running: Running, *, detached: bool) -> None:
    facts = {
        "url": url, "elsewhere": running.elsewhere, "signin_url": link, "data": running.data, "pid": running.pid,
        "person": running.person,
    }  # fmt: skip
    if screen.as_json:
        screen.json(facts)
        return
    if screen.quiet:
        screen.text(url)
        return
    hint = "" if Path(running.data) == default_data() else f" --data {running.data}"
    screen.text(f"Ringfence {running.version} runs at {url}")
    if running.elsewhere is not None:
        screen.text(f"From other machines: {running.elsewhere}")
        if running.elsewhere.startswith("http://"):
            screen.note("note: over http:// others on the way can read tokens: see --tls-cert, and --public-url")
    screen.text(f"Data: {running.data}")
    screen.text(f"\nSign in as {running.person}, once, with this link:\n\n  {link}\n")
    if (other := running.from_elsewhere(link)) is not None:
        screen.text(f"or, from another machine or a phone:\n\n  {other}\n")
    screen.text(f"Another link: ringfence login --link{hint}")
    screen.text(f"Stop it:      ringfence down{hint}" if detached else "Stop it:      Ctrl-C")


def _already(screen: Screen, running: Running) -> None:
    link = fresh_link(running)
    if not screen.as_json and not screen.quiet:
        screen.text(f"Ringfence runs already on {running.data} (process {running.pid}).")
    _announce(screen, running.url, link, running, detached=True)


def fresh_link(running: Running) -> str:
    api = Api(Wanted(data=Path(running.data)).place({}))
    try:
        link: str = api.post("/api/v1/signin-links").body["url"]
        return link
    finally:
        api.close()


def _wait_for(data: Path) -> Running:
    """Somebody else is starting it: wait until they have."""
    give_up = time.monotonic() + STARTING_WITHIN
    while time.monotonic() < give_up:
        if (running := Running.on(data)) is not None:
            return running
        time.sleep(0.05)
    holder = Lock.holder(data)
    who = f"process {holder}" if holder is not None else "another process"
    raise Problem(f"{who} works on {data}, and serves nothing: wait for it, or end it")


@alone("down")
def down(
    run: Invocation,
    data: Annotated[Path | None, Option(help="The data folder it runs on.")] = None,
    all_: Annotated[bool, Option("--all", help="Stop the sandboxes too; their files stay.")] = False,
) -> None:
    """Stop the Ringfence that runs here.

    What is under way is finished first. Sandboxes go on, and what runs in them, unless --all is given. It is no error
    when none runs.
    """
    folder = (data or Path(os.environ.get("RINGFENCE_DATA") or default_data())).expanduser().absolute()
    try:
        ended = _ask_sandboxes_to_stop(run.screen, folder) if all_ else []
        stopped = stop(folder, STOPPING_WITHIN)
        ended += _end_sandboxes(folder) if all_ else []
        left = living(folder)
    except PermissionError:
        raise Problem(f"the Ringfence on {folder} belongs to another user: stop it as that user, or as root") from None
    facts = {
        "data": str(folder), "stopped": stopped, "sandboxes_stopped": _told(ended), "sandboxes_left": _told(left),
    }  # fmt: skip
    sentences = [f"Stopped: {folder}" if stopped else f"No Ringfence runs on {folder}."]
    if ended:
        sentences.append(f"Stopped {_counted(ended)}.")
    if left:
        hint = "" if data is None else f" --data {folder}"
        sentences.append(f"{_counted(left)} {_go_on(left)} on; to stop that too: ringfence down --all{hint}")
    run.screen.done(facts, "\n".join(sentences))


def _ask_sandboxes_to_stop(screen: Screen, data: Path) -> list[Living]:
    """The server does it, so that programs are asked to end first, and everybody is told who did it."""
    running = Running.on(data)
    found = living(data) if running is not None else []
    if running is None or not found:
        return []
    try:
        healthy(running.url, lambda: False)
    except StartError as error:
        screen.note(f"note: sandboxes are ended at once: {error}")
        return []
    api = Api(Wanted(data=data).place({}))
    try:
        with ThreadPoolExecutor(STOPPED_AT_ONCE) as pool:
            problems = list(pool.map(lambda sandbox: _stopped(api, sandbox), found))
    finally:
        api.close()
    for problem in filter(None, problems):
        screen.note(f"note: {problem}")
    return [sandbox for sandbox, problem in zip(found, problems, strict=True) if problem is None]


def _stopped(api: Api, sandbox: Living) -> str | None:
    try:
        api.post(f"/api/v1/sandboxes/{sandbox.id}/stop")
    except Problem as problem:
        return f"sandbox {sandbox.name} was not stopped by the server, and is ended: {problem}"
    return None


def _end_sandboxes(data: Path) -> list[Living]:
    """Those that no server stopped: there is none, or it does not answer."""
    found = living(data)
    for sandbox in found:
        sandbox.box.kill()
    return found


def _told(sandboxes: list[Living]) -> list[dict[str, str]]:
    return [{"id": sandbox.id, "name": sandbox.name} for sandbox in sandboxes]


def _counted(sandboxes: list[Living]) -> str:
    names = ", ".join(sandbox.name for sandbox in sandboxes[:NAMED])
    more = f" and {len(sandboxes) - NAMED} more" if len(sandboxes) > NAMED else ""
    return f"{len(sandboxes)} {'sandbox' if len(sandboxes) == 1 else 'sandboxes'} ({names}{more})"


def _go_on(sandboxes: list[Living]) -> str:
    return "goes" if len(sandboxes) == 1 else "go"


@alone("status")
def status(run: Invocation) -> None:
    """Whether a server runs, where, and who you are there."""
    facts: dict[str, Any] = {}
    try:
        place = run.place
        facts |= {"url": place.url, "found_by": place.source}
        ready = run.api.ask("GET", "/readyz", accept=(200, 503)).body
    except Unreachable:
        if run.screen.as_json:
            run.screen.json({**facts, "status": "unreachable"})
        raise
    facts |= {name: ready[name] for name in ("status", "version", "database", "disk")}
    if place.token:
        me = run.api.get("/api/v1/me")
        facts |= {"you": me["name"], "role": me["role"] or me["kind"]}
    running = Running.on(Path(place.source)) if place.source.startswith("/") else None
    if running is not None:
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(running.since))
        facts |= {"data": running.data, "pid": running.pid, "server_pid": running.server_pid, "since": since}
    columns = [
        Column("Status", "status"), Column("Address", "url"), Column("Version", "version"),
        Column("Database", "database"), Column("Disk", "disk"), Column("You", "you"), Column("Role", "role"),
        Column("Data", "data"), Column("Process", "pid"),
        Column("Since", lambda it: moment(it.get("since"), seconds=True)), Column("Found by", "found_by"),
    ]  # fmt: skip
    run.screen.facts(facts, columns)
    if ready["status"] != "ok":
        raise Problem(f"{place.url} is not ready: {ready['database']}")
    if ready["disk"] == "full":
        raise Problem("the disk that holds the data is full: changes are refused until you free some space")
