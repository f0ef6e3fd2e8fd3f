"""The supervisor: one per data folder, and the processes it keeps alive.

    lock DIR/run/lock ──► listen ──► start the server ──► "ready" ──► DIR/run/server.json ──► tell who asked
                                       ▲          │ dies
                                       └──────────┘ after 1 s, 2 s, .. 30 s
    SIGTERM or SIGINT: the processes finish what they do; a second one ends them at once

Run by root, the server is a user of its own, and a spawner beside it keeps root (`ringfence.privileges`). Whenever one
of the two has been started, both are handed new socket pairs, by which they talk to each other alone.

The listening socket belongs to the supervisor: a server that died comes back on the same port, and who connects in the
meantime waits instead of being refused. A supervised process dies with its supervisor.

The command line imports this module for every command, so it keeps to the standard library.
"""

import contextlib
import ctypes
import errno
import fcntl
import http.client
import json
import os
import re
import selectors
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ringfence.kernel.processes import boot_id, process_started
from ringfence.privileges import folder, users, view
from ringfence.privileges.folder import Surprise
from ringfence.privileges.users import NoUser, User

if TYPE_CHECKING:
    from ringfence.settings import Settings

BACKLOG = 2048
READY_WITHIN = 300.0  # seconds: a large database may be migrated first
HEALTHY_WITHIN, ONE_ANSWER_WITHIN = 10.0, 1.0
FIRST_DELAY, LONGEST_DELAY = 1.0, 30.0
SETTLED = 60.0  # seconds a process lives until its next death counts as its first
LOG_BYTES, LOG_FILES = 10 << 20, 3
WORD_MOST = 1 << 16  # bytes that a process says once it is ready
LINE_MOST = 1 << 16
PAIRS = 10  # between server and spawner: each for one act at a time
_PR_SET_PDEATHSIG = 1
_STEERING = re.compile(rb"(?!\x1b\[[0-9;]{0,16}m|\t)[\x00-\x1f\x7f]")  # colours may pass
_HARMLESS = re.compile(r"PATH|LANG|LC_\w+|TZ|PG\w+|SSL_CERT_\w+|PYTHON\w+")
SPAWNER = "ringfence.fence.runtimes.native.spawner"


class StartError(Exception):
    """Why it cannot start, and what to do."""


class AlreadyRunning(Exception):
    """Another supervisor holds this data folder."""


# Who runs on a data folder --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A running Ringfence, as DIR/run/server.json tells of it to those who may read that file."""

    url: str
    pid: int  # of the supervisor
    started: int
    boot: str
    server_pid: int
    since: float
    version: str
    data: str
    token: str
    person: str
    elsewhere: str | None = None  # its URL for other machines, where it is another
    certificate: str | None = None  # what an HTTPS server shows; a client on this machine trusts this one alone

    @classmethod
    def on(cls, data: Path) -> "Running | None":
        """Who runs on this folder now; what a kill or a power cut left behind does not count."""
        found = cls.read(data)
        alive = found is not None and found.boot == boot_id() and process_started(found.pid) == found.started
        return found if alive else None

    @classmethod
    def read(cls, data: Path) -> "Running | None":
        try:
            return cls(**json.loads((data / "run/server.json").read_bytes()))
        except (OSError, ValueError, TypeError):
            return None

    def from_elsewhere(self, link: str) -> str | None:
        """A link of ours as other machines can follow it, where that is another."""
        followed = self.elsewhere is not None and link.startswith(self.url + "/")
        return f"{self.elsewhere}{link.removeprefix(self.url)}" if followed else None

    def write(self, data: Path) -> None:
        write_private(data / "run/server.json", json.dumps(asdict(self), indent=1) + "\n")


def write_private(path: Path, text: str) -> None:
    """Replace a file in one step; nobody but its owner can read it, at no time."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise


def servers_user() -> User | None:
    """Whom the server runs as; None: whoever starts it."""
    try:
        return users.servers()
    except NoUser as error:
        raise StartError(str(error)) from None


def make_folders(data: Path) -> None:
    if (user := servers_user()) is not None:
        try:
            folder.check(data, user)
        except Surprise as error:
            raise StartError(str(error)) from None
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    (data / "run").mkdir(exist_ok=True, mode=0o700)


class Lock:
    """Held by whoever may write to a data folder; the kernel drops it when they die."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self._file: BinaryIO | None = None

    def take(self) -> bool:
        """False: somebody else holds it."""
        try:
            make_folders(self.data)
            opened = os.open(self.data / "run/lock", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
            file = os.fdopen(opened, "ab", buffering=0)
        except OSError as error:
            raise StartError(
                f"the data folder {self.data} cannot be used ({error.strerror}): choose another with --data DIR"
            ) from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        file.truncate(0)
        file.write(f"{os.getpid()} {process_started(os.getpid())} {boot_id()}\n".encode())
        self._file = file
        return True

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    @staticmethod
    def holder(data: Path) -> int | None:
        """The process that holds it now, if its note in the file is true."""
        try:
            pid, started, boot = (data / "run/lock").read_text().split(" ")
            return int(pid) if boot.strip() == boot_id() and process_started(int(pid)) == int(started) else None
        except (OSError, ValueError):
            return None


# Listening ------------------------------------------------------------------------------------------------------------


def listen(settings: "Settings") -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((settings.host, settings.port))
        found.listen(BACKLOG)
    except BaseException:
        found.close()
        raise
    return found


def _listen_or_explain(settings: "Settings", predecessor: int | None) -> socket.socket:
    """`predecessor`: a server whose supervisor was killed; it holds the port until the kernel has ended it too."""
    give_up = time.monotonic() + 5
    while True:
        try:
            return listen(settings)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and predecessor is not None and time.monotonic() < give_up:
                if process_started(predecessor) is None:
                    predecessor = None
                time.sleep(0.02)
                continue
            raise StartError(_why_not(settings, error)) from None


def _why_not(settings: "Settings", error: OSError) -> str:
    where = f"{settings.host} port {settings.port}"
    if error.errno == errno.EADDRINUSE:
        holder = listener_on(settings.port)
        who = f"{holder[1]} (process {holder[0]})" if holder else "another process"
        return f"port {settings.port} is in use by {who}: choose another with --port, or --port 0 for any free one"
    if error.errno == errno.EACCES:
        return f"listening on {where} is not allowed to this user: choose a port above 1023 with --port"
    if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
        return f"this machine has no address {settings.host!r}: choose another with --host, such as 127.0.0.1"
    return f"listening on {where} failed ({error.strerror}): choose others with --host and --port"


def listener_on(port: int) -> tuple[int, str] | None:
    """The process that listens on a TCP port of this machine and its name, if we may see it."""
    sockets = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                    sockets.add(f"socket:[{fields[9]}]")
    for process in Path("/proc").iterdir() if sockets else ():
        if not process.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            if any(_link(fd) in sockets for fd in (process / "fd").iterdir()):
                return int(process.name), (process / "comm").read_text().strip()
    return None


def _link(path: Path) -> str:
    with contextlib.suppress(OSError):
        return str(path.readlink())
    return ""


def address(settings: "Settings", listening: socket.socket) -> str:
    """The URL under which this machine reaches the socket."""
    host, port = listening.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  recognised, not bound
    return f"{settings.scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def address_elsewhere(settings: "Settings", listening: socket.socket) -> str | None:
    """The URL under which other machines reach it, where that is another than ours."""
    if settings.public_url:
        return settings.public_url.rstrip("/")
    host, port = listening.getsockname()[:2]
    if host not in ("0.0.0.0", "::"):  # noqa: S104  recognised, not bound
        return None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
        probe.connect(("192.0.2.1", 9))  # sends nothing: it asks the kernel for the way, and our address on it
        return f"{settings.scheme}://{probe.getsockname()[0]}:{port}"
    return None


# Supervised processes -------------------------------------------------------------------------------------------------


class Process:
    """A supervised process: `python -m MODULE READY_FD ORDER_FD`.

    It reads its order (JSON) from the one descriptor, and writes one line of JSON to the other: what it has to say
    once it is ready, or `{"error": sentence}`. When it dies it is due to be started again, after a longer and longer
    while.
    """

    def __init__(
        self,
        module: str,
        selector: selectors.BaseSelector,
        order: Callable[[], dict[str, Any]],
        heard: Callable[[dict[str, Any]], None],
        keep: Sequence[int] = (),
        output: int | None = None,
        user: User | None = None,
        home: Path | None = None,
    ) -> None:
        """`user`: whom it becomes before it begins, with `home` and the program, and no more, within its reach."""
        self.restart_at: float | None = None
        self.ready_by: float | None = None
        self._module = module
        self._selector = selector
        self._order = order
        self._heard = heard
        self._keep = tuple(keep)
        self._output = output
        self._user = user
        self._home = home
        self.doorstep: socket.socket | None = None  # where it takes what is handed over while it lives
        self._popen: subprocess.Popen[bytes] | None = None
        self._ready_fd: int | None = None
        self._said = b""
        self._ready_at: float | None = None
        self._delay = FIRST_DELAY

    @property
    def pid(self) -> int | None:
        return None if self._popen is None else self._popen.pid

    def start(self) -> None:
        self.restart_at, self._said, self._ready_at = None, b"", None
        self._ready_fd, said = os.pipe()
        order = os.memfd_create("order")
        self._close_doorstep()
        self.doorstep, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            os.write(order, json.dumps({**self._order(), "doorstep": theirs.fileno()}).encode())
            os.lseek(order, 0, os.SEEK_SET)
            # -P: a folder `ringfence` where the user happens to be is not ours.
            command = [sys.executable, "-P", "-m", self._module, str(said), str(order)]
            self._popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL, stdout=self._output, stderr=self._output,
                pass_fds=(said, order, theirs.fileno(), *self._keep),
                env=None if self._home is None else _environment(self._home),
                # Ctrl-C is for the supervisor, which passes it on once; and nobody types for it on our terminal.
                start_new_session=True,
                preexec_fn=self._in_child(os.getpid(), said),  # noqa: PLW1509  the supervisor has one thread
            )  # fmt: skip
        finally:
            os.close(said)
            os.close(order)
            theirs.close()
        self.ready_by = time.monotonic() + READY_WITHIN
        self._selector.register(self._ready_fd, selectors.EVENT_READ, self._hear)

    def died(self) -> int | None:
        """Its exit status, if it has ended since this was last asked."""
        if self._popen is None or (status := self._popen.poll()) is None:
            return None
        self._popen = None
        self._stop_hearing()
        now = time.monotonic()
        if self._ready_at is not None and now - self._ready_at > SETTLED:
            self._delay = FIRST_DELAY
        self.restart_at = now + self._delay
        self._delay = min(self._delay * 2, LONGEST_DELAY)
        return status

    def tell(self, number: signal.Signals) -> None:
        if self._popen is not None:
            self._popen.send_signal(number)

    def end(self) -> None:
        """At once, and for good."""
        if self._popen is not None:
            self._popen.kill()
            self._popen.wait()
        self._stop_hearing()
        self._close_doorstep()

    def _in_child(self, supervisor: int, said: int) -> Callable[[], None]:
        """What the child does before it executes."""
        prctl = ctypes.CDLL(None).prctl

        def in_child() -> None:
            if self._user is not None:
                try:
                    view.enter([*view.program(), view.Needed(self._home or Path("/"), writable=True)])
                    view.become(self._user)
                    view.check_readable(self._user, view.program())
                except OSError as error:
                    sentence = (
                        f"the server is to be user {self._user.uid}, who must reach the program and the data: {error}; "
                        "put both where others may pass, such as /opt and /var/lib"
                    )
                    os.write(said, json.dumps({"error": sentence}).encode() + b"\n")
                    os._exit(1)
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # last: becoming another user undoes it
            if os.getppid() != supervisor:
                os._exit(1)

        return in_child

    def _close_doorstep(self) -> None:
        if self.doorstep is not None:
            self.doorstep.close()
            self.doorstep = None

    def _hear(self) -> None:
        assert self._ready_fd is not None
        chunk = os.read(self._ready_fd, 1 << 16)
        self._said += chunk
        if chunk and not self._said.endswith(b"\n") and len(self._said) <= WORD_MOST:
            return
        self._stop_hearing()
        if self._said:
            self._ready_at = time.monotonic()
            try:
                said = json.loads(self._said)
            except (ValueError, RecursionError):
                said = None
            self._heard(said if isinstance(said, dict) else {"error": "it said what nobody understands"})

    def _stop_hearing(self) -> None:
        self.ready_by = None
        if self._ready_fd is not None:
            self._selector.unregister(self._ready_fd)
            os.close(self._ready_fd)
            self._ready_fd = None


def _environment(home: Path) -> dict[str, str]:
    """What another user may know of ours."""
    kept = {name: value for name, value in os.environ.items() if _HARMLESS.fullmatch(name)}
    return {**kept, "HOME": str(home)}


class Paper:
    """A copy of a file that is for root's eyes only, for a process that is to know what it says."""

    def __init__(self, original: Path | None) -> None:
        assert original is not None
        self.original = original
        self.fd = os.memfd_create(original.name)
        self.path = f"/proc/self/fd/{self.fd}"

    def copy(self) -> None:
        """As it is now; as it was, where it cannot be read any more."""
        with contextlib.suppress(OSError):
            content = self.original.read_bytes()
            os.ftruncate(self.fd, 0)
            os.pwrite(self.fd, content, 0)


class Relay:
    """Lines for our own terminal from a process that is not to have it: it could read what is typed there."""

    def __init__(self) -> None:
        self.read_fd, self.write_fd = os.pipe()
        self._line = b""

    def take(self) -> None:
        *lines, self._line = (self._line + os.read(self.read_fd, 1 << 16)).split(b"\n")
        if len(self._line) > LINE_MOST:
            lines, self._line = [*lines, self._line], b""
        with contextlib.suppress(OSError):  # nobody reads any more
            for line in lines:
                os.write(2, _STEERING.sub(b" ", line) + b"\n")

    def drain(self) -> None:
        os.set_blocking(self.read_fd, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                self.take()


class Log:
    """A file for what processes print, renamed when it is full; the oldest goes."""

    def __init__(self, path: Path, limit: int = LOG_BYTES, files: int = LOG_FILES) -> None:
        self._path = path
        self._limit = limit
        self._files = files
        self.read_fd, self.write_fd = os.pipe()
        self._open()

    def _open(self) -> None:
        self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        self._size = os.fstat(self._fd).st_size

    def take(self) -> None:
        """Move what was printed into the file. On a full disk it is lost, and the processes go on."""
        self.write(os.read(self.read_fd, 1 << 16))

    def drain(self) -> None:
        """Take what is there, when nobody prints any more."""
        os.set_blocking(self.read_fd, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                self.take()

    def write(self, chunk: bytes) -> None:
        with contextlib.suppress(OSError):
            if self._size + len(chunk) > self._limit:
                self._turn()
            self._size += os.write(self._fd, chunk)

    def _turn(self) -> None:
        for number in range(self._files - 1, 0, -1):
            older = self._path.with_name(f"{self._path.name}.{number}")
            newer = self._path if number == 1 else self._path.with_name(f"{self._path.name}.{number - 1}")
            with contextlib.suppress(FileNotFoundError):
                newer.replace(older)
        os.close(self._fd)
        self._open()


# The supervisor -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Started:
    """What `ringfence up` tells: where it listens, and a link that signs a browser in, once."""

    running: Running
    link: str


class Supervisor:
    def __init__(
        self,
        settings: "Settings",
        version: str,
        owner: str,
        known_tokens: Sequence[str],
        started: Callable[[Started], None],
        notice: Callable[[str], None],
        log: Log | None = None,
    ) -> None:
        self._settings = settings
        self._version = version
        self._owner = owner
        self._known_tokens = list(known_tokens)
        self._started = started
        self._notice = notice
        self._log = log
        self._since = time.time()
        self._first = True  # until the server has been ready once
        self._asked_to_stop = 0
        self._told_to_stop = 0  # how many of these were passed on
        self._stop_by: float | None = None
        self._user: User | None = None
        self._output: Log | Relay | None = None  # where processes print; None: where we do
        self._papers: dict[str, Paper] = {}

    def run(self) -> None:
        """Until asked to stop. Raises AlreadyRunning, or StartError when the server does not come up."""
        self._user = servers_user()
        if self._user is not None and max(self._user.uid, self._user.gid) >= self._settings.uid_base:
            raise StartError(
                f"the server's user {self._user.uid} is one of the sandboxes', which begin at uid_base "
                f"{self._settings.uid_base}: set another uid_base, or `useradd --system {users.NAME}`"
            )
        lock = Lock(self._settings.data)
        if not lock.take():
            raise AlreadyRunning
        before = Running.read(self._settings.data)
        (self._settings.data / "run/server.json").unlink(missing_ok=True)
        try:
            make_over(self._settings.data, self._user)
            with self._listening(before) as listening, self._signals() as wake, selectors.DefaultSelector() as selector:
                selector.register(wake, selectors.EVENT_READ, lambda: wake.recv(4096))
                self._output = self._log or (Relay() if self._user is not None else None)
                if self._output is not None:
                    selector.register(self._output.read_fd, selectors.EVENT_READ, self._output.take)
                self._server = self._server_on(listening, selector)
                self._spawner = self._spawner_of(self._user, selector) if self._user is not None else None
                try:
                    for process in self._processes():
                        self._start(process)
                    self._watch(selector)
                finally:
                    for process in self._processes():
                        process.end()
        finally:
            if self._output is not None:
                self._output.drain()
            (self._settings.data / "run/server.json").unlink(missing_ok=True)
            lock.release()

    @contextlib.contextmanager
    def _listening(self, before: Running | None) -> Iterator[socket.socket]:
        orphan = before.server_pid if before is not None and before.boot == boot_id() else None
        with contextlib.closing(_listen_or_explain(self._settings, orphan)) as listening:
            self._url = address(self._settings, listening)
            self._elsewhere = address_elsewhere(self._settings, listening)
            self._settings = self._settings.model_copy(update={"port": listening.getsockname()[1]})
            if before is not None:
                self._known_tokens.insert(0, before.token)
            yield listening

    @contextlib.contextmanager
    def _signals(self) -> Iterator[socket.socket]:
        """A socket that becomes readable when a process has ended or somebody wants us to stop."""

        def stop(number: int, frame: object) -> None:
            self._asked_to_stop += 1

        numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        wake, wakeup = socket.socketpair()
        with wake, wakeup:
            wake.setblocking(False)
            wakeup.setblocking(False)
            old = {number: signal.signal(number, stop) for number in numbers}
            old[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda number, frame: None)
            signal.set_wakeup_fd(wakeup.fileno(), warn_on_full_buffer=False)
            try:
                yield wake
            finally:
                signal.set_wakeup_fd(-1)
                for number, handler in old.items():
                    signal.signal(number, handler)

    def _server_on(self, listening: socket.socket, selector: selectors.BaseSelector) -> Process:
        # Their files may be for root's eyes only: the server gets what is in them.
        if self._user is not None and self._settings.tls_cert is not None:
            self._papers = {"tls_cert": Paper(self._settings.tls_cert), "tls_key": Paper(self._settings.tls_key)}

        def order() -> dict[str, Any]:
            settings = self._settings.model_dump(mode="json")
            if isinstance(self._output, Relay) and self._settings.log_format == "auto" and os.isatty(2):
                settings["log_format"] = "console"
            for name, paper in self._papers.items():
                paper.copy()
                settings[name] = paper.path
            return {
                "settings": settings,
                "socket": listening.fileno(),
                "origin": self._url,
                "owner": self._owner,
                "tokens": self._known_tokens,
                "link": self._first,
                "spawned": self._user is not None,
            }

        keep = [listening.fileno(), *(paper.fd for paper in self._papers.values())]
        home = self._settings.data if self._user is not None else None
        return Process("ringfence.server", selector, order, self._server_said, keep, self._printed(), self._user, home)

    def _printed(self) -> int | None:
        return None if self._output is None else self._output.write_fd

    def _spawner_of(self, user: User, selector: selectors.BaseSelector) -> Process | None:
        if self._settings.runtime != "native":
            return None

        def order() -> dict[str, Any]:
            data, base = str(self._settings.data), self._settings.uid_base
            return {"data": data, "folder": folder.SANDBOXES, "uid_base": base, "listener": user.uid}

        return Process(SPAWNER, selector, order, self._spawner_said, output=self._printed())

    def _processes(self) -> list[Process]:
        return [self._server, *([self._spawner] if self._spawner is not None else [])]

    def _start(self, process: Process) -> None:
        process.start()
        if self._spawner is not None and self._server.doorstep is not None and self._spawner.doorstep is not None:
            introduce(self._server.doorstep, self._spawner.doorstep)

    def _watch(self, selector: selectors.BaseSelector) -> None:
        """Until the server has stopped because somebody wanted it to."""
        while True:
            due = [moment for process in self._processes() for moment in (process.restart_at, process.ready_by)]
            moments = [it for it in (*due, self._stop_by) if it is not None]
            wait = max(0.0, min(moments) - time.monotonic()) if moments else None
            for key, _ in selector.select(wait):
                key.data()
            died = [(process, status) for process in self._processes() if (status := process.died()) is not None]
            if self._asked_to_stop and self._server.pid is None:
                return
            for process, status in died:
                self._after_death(process, status)
            self._pass_on_stop()
            self._keep_deadlines()

    def _pass_on_stop(self) -> None:
        if self._asked_to_stop == self._told_to_stop:
            return
        self._told_to_stop = self._asked_to_stop
        gracefully = self._told_to_stop == 1
        self._notice("stopping" if gracefully else "stopping at once")
        self._server.tell(signal.SIGTERM if gracefully else signal.SIGKILL)
        self._stop_by = time.monotonic() + self._settings.drain_seconds + 5

    def _keep_deadlines(self) -> None:
        now = time.monotonic()
        for process in self._processes():
            if process.restart_at is not None and now >= process.restart_at:
                self._start(process)
            if process.ready_by is not None and now >= process.ready_by:
                self._notice(f"the {self._name(process)} was not ready within {READY_WITHIN:.0f} s")
                process.ready_by = now + READY_WITHIN
                process.tell(signal.SIGKILL)
        if self._stop_by is not None and now >= self._stop_by:
            self._stop_by = now + 1
            self._server.tell(signal.SIGKILL)

    def _name(self, process: Process) -> str:
        return "server" if process is self._server else "spawner"

    def _spawner_said(self, said: dict[str, Any]) -> None:
        if "error" in said:
            self._notice(str(said["error"]))

    def _server_said(self, said: dict[str, Any]) -> None:
        if not _is_welcome(said):
            reason = _printable(str(said.get("error", "it said what nobody understands")))
            for paper in self._papers.values():
                reason = reason.replace(paper.path, str(paper.original))
            if self._first:
                raise StartError(reason)
            self._notice(reason)
            self._server.tell(signal.SIGKILL)
            return
        self._known_tokens = [said["token"]]
        running = Running(
            url=self._url,
            pid=os.getpid(),
            started=process_started(os.getpid()) or 0,
            boot=boot_id(),
            server_pid=self._server.pid or 0,
            since=self._since,
            version=self._version,
            data=str(self._settings.data),
            token=said["token"],
            person=said["person"],
            elsewhere=self._elsewhere,
            certificate=str(self._settings.tls_cert.absolute()) if self._settings.tls_cert else None,
        )
        running.write(self._settings.data)
        if not self._first:
            self._notice("the server is back")
            return
        self._first = False
        if healthy(self._url, lambda: self._asked_to_stop > 0):
            self._started(Started(running, said["link"]))

    def _after_death(self, process: Process, status: int) -> None:
        name = self._name(process)
        how = f"signal {-status} ended it" if status < 0 else f"status {status}"
        if self._first and process is self._server:
            raise StartError(f"the server did not start ({how}); what it said is {self._where()}")
        assert process.restart_at is not None
        delay = process.restart_at - time.monotonic()
        self._notice(f"the {name} died ({how}) and is started again in {delay:.0f} s; what it said is {self._where()}")

    def _where(self) -> str:
        return "above" if self._log is None else f"in {self._settings.data / 'run/server.log'}"


def make_over(data: Path, user: User | None) -> None:
    """The data folder becomes the server's, as far as it is to be; for who holds its lock."""
    if user is None:
        return
    try:
        folder.make_over(data, user)
    except (Surprise, OSError) as error:
        raise StartError(f"the data folder cannot be made over to the server's user: {error}") from None


def introduce(server: socket.socket, spawner: socket.socket) -> None:
    """Hand the ends of new socket pairs to each; nobody else has them."""
    pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(PAIRS)]
    for doorstep, ends in ((server, 0), (spawner, 1)):
        with contextlib.suppress(OSError):  # it has died, and will be introduced when it is back
            socket.send_fds(doorstep, [b"pairs"], [pair[ends].fileno() for pair in pairs], socket.MSG_DONTWAIT)
    for pair in pairs:
        for end in pair:
            end.close()


def _is_welcome(said: dict[str, Any]) -> bool:
    """What the server says goes into files and onto terminals of root's."""
    words = [said.get("person"), said.get("token"), said.get("link") or ""]
    return all(isinstance(word, str) and word.isprintable() for word in words)


def _printable(text: str) -> str:
    return "".join(sign if sign.isprintable() else " " for sign in text)[:4000]


def healthy(url: str, unwanted: Callable[[], bool]) -> bool:
    """True when /readyz says so, False when nobody wants to know any more; StartError with its reason otherwise."""
    reason = ""
    give_up = time.monotonic() + HEALTHY_WITHIN
    while time.monotonic() < give_up:
        if unwanted():
            return False
        try:
            status, body = _ask_readyz(url)
            if status == 200:
                return True
            reason = _printable(str(json.loads(body)["database"]))
        except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError, RecursionError) as error:
            reason = str(error)
        time.sleep(0.05)
    raise StartError(f"{url}/readyz is not healthy: {reason}")


def _ask_readyz(url: str) -> tuple[int, bytes]:
    scheme, _, host = url.partition("://")
    if scheme == "https":
        # It is our own child, on a socket that we hold: what its certificate says is for others.
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            host, timeout=ONE_ANSWER_WITHIN, context=context
        )
    else:
        connection = http.client.HTTPConnection(host, timeout=ONE_ANSWER_WITHIN)
    with contextlib.closing(connection):
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        return answer.status, answer.read(WORD_MOST)


# Into the background, and out of it -----------------------------------------------------------------------------------


def detach(data: Path, run: Callable[[Callable[[dict[str, Any]], None], Log], None]) -> dict[str, Any] | None:
    """Run as a daemon, and return the first thing it reports (None: it died without a word).

    `run(report, log)` is called in a process of its own session, whose output goes to DIR/run/server.log.
    """
    make_folders(data)
    read_fd, write_fd = os.pipe()
    if (middle := os.fork()) == 0:
        os.close(read_fd)
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
        _as_daemon(data, write_fd, run)
    os.close(write_fd)
    os.waitpid(middle, 0)
    with os.fdopen(read_fd, "rb") as reports:
        line = reports.readline()
    return json.loads(line) if line else None


def _as_daemon(data: Path, report_fd: int, run: Callable[[Callable[[dict[str, Any]], None], Log], None]) -> None:
    def report(facts: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            os.write(report_fd, json.dumps(facts).encode() + b"\n")
            os.close(report_fd)

    status = 1
    try:
        log = Log(data / "run/server.log")
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(log.write_fd, 1)
        os.dup2(log.write_fd, 2)
        os.chdir("/")
        os.umask(0o077)
        run(report, log)
        status = 0
    except BaseException as error:
        report({"error": f"{type(error).__name__}: {error}"})
    finally:
        os._exit(status)


def stop(data: Path, deadline: float) -> bool:
    """Stop who runs on this folder, and wait until they are gone; False: nobody runs."""
    running = Running.on(data)
    pid = running.pid if running is not None else Lock.holder(data)
    if pid is None:
        return False
    started = process_started(pid)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        ask_again = time.monotonic() + deadline
        while process_started(pid) == started:
            if time.monotonic() > ask_again:
                os.kill(pid, signal.SIGTERM)
                ask_again += deadline
            time.sleep(0.01)
    return True
