"""A server that is killed and comes back at once, those who use its sandboxes meanwhile, and what is left of it all.

Tortured   the server in a process of its own, on a socket that outlives it, and its data folder
Load       threads that create, run, read and destroy; whoever meets a dead server asks again, with the same key
Killer     kills the server, wardens and bubblewraps, at random
"""

import contextlib
import itertools
import os
import random
import selectors
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import httpx

from ringfence.fence.runtimes.native.cgroups import Cgroups
from ringfence.server import listen
from ringfence.settings import Settings
from ringfence.supervisor import Process

SANDBOXES = "/api/v1/sandboxes"
READY_WITHIN = 60.0
SETTLED_WITHIN = 90.0
ROUNDS, LINES = 30, 200  # of what a writer says
SAYS = (
    f'echo "$1" >> /workspace/ran; i=0; while [ $i -lt {ROUNDS} ]; do i=$((i+1)); seq -f "$1 $i %g" 1 {LINES}; '
    'echo "$1 $i" >&2; sleep 0.02; done'
)
ASKS = 'echo "$1" >> /workspace/ran; echo "$1"'


def said_by(key: str) -> tuple[bytes, bytes]:
    """All that a writer says, on both channels."""
    rounds = range(1, ROUNDS + 1)
    out = "".join(f"{key} {i} {n}\n" for i, n in itertools.product(rounds, range(1, LINES + 1)))
    return out.encode(), "".join(f"{key} {i}\n" for i in rounds).encode()


class Tortured:
    def __init__(self, data: Path) -> None:
        data.mkdir(mode=0o711)
        wanted = Settings(data=data, port=0, log_level="error", quota_sandboxes=0, sandbox_grace=0)
        self.data = data
        self.known: set[str] = set()  # every sandbox that ever was
        self._socket = listen(wanted)
        self._settings = wanted.model_copy(update={"port": self._socket.getsockname()[1]})
        self.url = f"http://127.0.0.1:{self._settings.port}"
        self.token = ""
        self._selector = selectors.DefaultSelector()
        self._log = (data.parent / "said").open("ab")
        # The thread that starts it must live on: the kernel ends it with that one.
        self._process = Process(
            "ringfence.server", self._selector, self._order, self._heard, [self._socket.fileno()], self._log.fileno()
        )
        self._is_ready = False
        self.start()
        self.await_ready()

    def _order(self) -> dict[str, Any]:
        return {
            "settings": self._settings.model_dump(mode="json"), "socket": self._socket.fileno(), "origin": self.url,
            "owner": "admin", "tokens": [self.token] if self.token else [], "link": False,
        }  # fmt: skip

    def _heard(self, said: dict[str, Any]) -> None:
        assert "error" not in said, said
        self.token = said["token"]
        self._is_ready = True

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def start(self) -> None:
        self._is_ready = False
        self._process.start()

    def kill(self) -> None:
        self._process.end()

    def await_ready(self) -> None:
        give_up = time.monotonic() + READY_WITHIN
        while not self._is_ready:
            assert time.monotonic() < give_up, f"the server did not come back: {self.said()}"
            assert self._process.died() is None, f"the server ended by itself: {self.said()}"
            for found, _ in self._selector.select(0.1):
                found.data()

    def said(self) -> str:
        return Path(self._log.name).read_text(errors="replace")[-4000:]

    def close(self) -> None:
        """Everything ends, whatever state it is in."""
        self.kill()
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._socket.close()
        self._selector.close()
        self._log.close()

    def client(self) -> httpx.Client:
        headers = {"authorization": f"Bearer {self.token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60, trust_env=False, verify=False)

    # What there is of it on this host

    @property
    def boxes(self) -> set[str]:
        with contextlib.suppress(FileNotFoundError):
            return {path.name for path in (self.data / "sandboxes/boxes").iterdir()}
        return set()

    def processes(self) -> dict[int, str]:
        """Of its sandboxes, with the program that each runs; the server is none of them."""
        self.known |= self.boxes
        mine, below = os.fsencode(self.data), {f"ringfence:{box}".encode() for box in self.known}
        found: dict[int, str] = {}
        parents: dict[int, int] = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                pid, words = int(folder.name), (folder / "cmdline").read_bytes()
                name, _, rest = (folder / "stat").read_text().rpartition(")")
                parents[pid] = int(rest.split()[1])
                if any(word in below for word in words.split(b"\0")) or (mine in words and pid != self._process.pid):
                    found[pid] = name.partition("(")[2]
        for pid in parents:
            at = pid
            while at not in found and parents.get(at, 0) > 1:
                at = parents[at]
            if at in found:
                found.setdefault(pid, "inside")
        return found

    def leftovers(self) -> dict[str, object]:
        """What must not be there once every sandbox is destroyed."""
        sandboxes = self.data / "sandboxes"
        return {
            "processes": self.processes(),
            "children of the server": _children(self.pid),
            "mounts": [
                line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(self.data) in line
            ],
            "groups": [str(path) for path in _groups(self.data)],
            "boxes": sorted(self.boxes),
            "trash": [path.name for path in (sandboxes / "trash").iterdir()],
            "keys": [path.name for path in (self.data / "fence/keys").iterdir()],
            "outputs": [str(path) for path in (self.data / "execs").rglob("*")],
            "ids": [path.name for path in _ids() if str(sandboxes / "boxes") in _holder(path)],
        }

    def descriptors(self) -> Counter[str]:
        """What the server has open, by kind; its database's readers, of which there are more or fewer, left out."""
        kinds: Counter[str] = Counter()
        for link in Path(f"/proc/{self.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                target = str(link.readlink())
                if "ringfence.db" not in target:
                    kinds[target if target.startswith("/") else target.partition(":")[0]] += 1
        return kinds


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def _mounts() -> list[str]:
    return Path("/proc/self/mountinfo").read_text().splitlines()


def _groups(data: Path) -> Iterator[Path]:
    own = blake2b(os.fsencode(data / "sandboxes"), digest_size=6).hexdigest()
    for parent in Cgroups.find(f"ringfence-{own}").parents.values():
        yield from (path for path in parent.iterdir() if path.is_dir())


def _holder(entry: Path) -> str:
    """Which folder has a range of ids; one that is gone has none, whatever is written there."""
    with contextlib.suppress(FileNotFoundError):
        folder = entry.read_text()
        return folder if folder and os.path.lexists(folder) else ""
    return ""


def _ids() -> Iterator[Path]:
    with contextlib.suppress(FileNotFoundError, PermissionError):
        yield from (path for path in Path("/run/ringfence/ids").iterdir() if path.name.isdigit())


# Those who use it -----------------------------------------------------------------------------------------------------


@dataclass
class Written:
    """A writer that was started."""

    sandbox: str
    key: str
    exec: str
    read: bytes = b""  # what a follower was told


@dataclass
class Load:
    server: Tortured
    homes: list[str]  # sandboxes that stay
    over: threading.Event = field(default_factory=threading.Event)
    written: list[Written] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)  # keys whose program was told to have ended well
    made: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)
    _keys: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    def begin(self) -> None:
        work = [self._write, self._write, self._follow, self._ask, self._ask, self._make, self._make, self._keep]
        for act in work:
            thread = threading.Thread(target=self._work, args=(act,), name=act.__name__)
            thread.start()
            self._threads.append(thread)

    def end(self) -> None:
        self.over.set()
        for thread in self._threads:
            thread.join(SETTLED_WITHIN)
            assert not thread.is_alive(), f"{thread.name} hangs"
        assert not self.problems, self.problems

    def _work(self, act: Callable[[httpx.Client, random.Random], None]) -> None:
        dice = random.Random(act.__name__)
        with self.server.client() as client:
            while not self.over.is_set():
                try:
                    act(client, dice)
                except Exception as problem:
                    self.problems.append(f"{act.__name__}: {problem!r}")
                    return

    def _ask_again(self, client: httpx.Client, method: str, path: str, key: str = "", **body: Any) -> httpx.Response:
        """Until somebody answers."""
        headers = {"idempotency-key": key} if key else {}
        give_up = time.monotonic() + SETTLED_WITHIN
        while True:
            with contextlib.suppress(httpx.TransportError):
                answer = client.request(method, path, headers=headers, json=body or None)
                if answer.status_code != 503:
                    if answer.status_code >= 500:
                        raise AssertionError(f"{method} {path}: {answer.status_code} {answer.text}")
                    return answer
            assert time.monotonic() < give_up, f"{method} {path}: nobody answers"
            self.over.wait(0.02)

    def _command(self, script: str, key: str) -> dict[str, Any]:
        return {"argv": ["sh", "-c", script, "torture", key]}

    def _write(self, client: httpx.Client, dice: random.Random) -> None:
        home, key = dice.choice(self.homes), f"w{next(self._keys)}"
        answer = self._ask_again(
            client, "POST", f"{SANDBOXES}/{home}/exec", key=f"torture-{key}", detach=True, **self._command(SAYS, key)
        )
        if answer.is_success:
            self.written.append(Written(home, key, answer.json()["id"]))
        self.over.wait(0.3)

    def _follow(self, client: httpx.Client, dice: random.Random) -> None:
        """Read one from its beginning, on and on after each break."""
        written = dice.choice(self.written) if self.written else None
        if written is None or written.read:
            self.over.wait(0.05)
            return
        path = f"{SANDBOXES}/{written.sandbox}/execs/{written.exec}"
        while not self.over.is_set():
            with contextlib.suppress(httpx.TransportError):
                query = {"follow": "true", "offset": str(len(written.read))}
                with client.stream("GET", f"{path}/output", params=query) as answer:
                    if answer.status_code == 200:
                        for piece in answer.iter_raw():
                            written.read += piece
            if self._ask_again(client, "GET", path).json()["state"] == "ended":
                return

    def _ask(self, client: httpx.Client, dice: random.Random) -> None:
        home, key = dice.choice(self.homes), f"a{next(self._keys)}"
        answer = self._ask_again(
            client, "POST", f"{SANDBOXES}/{home}/exec", key=f"torture-{key}", **self._command(ASKS, key)
        )
        if answer.status_code == 200 and answer.json()["cause"] == "exited":
            assert answer.json()["stdout"] == f"{key}\n", answer.text
            self.answered.append(key)
        self.over.wait(0.05)

    def _make(self, client: httpx.Client, dice: random.Random) -> None:
        made = self._ask_again(client, "POST", SANDBOXES, key=f"torture-m{next(self._keys)}", labels={"made": "yes"})
        self.made[str(made.status_code)] += 1
        if not made.is_success:
            return
        sandbox = made.json()["id"]
        if dice.random() < 0.7:
            self._ask_again(client, "POST", f"{SANDBOXES}/{sandbox}/exec", argv=["sh", "-c", "echo hello", "torture"])
        if dice.random() < 0.8:
            gone = self._ask_again(client, "DELETE", f"{SANDBOXES}/{sandbox}")
            assert gone.json()["state"] == "destroyed", gone.text

    def _keep(self, client: httpx.Client, dice: random.Random) -> None:
        """Start those again that stopped for having crashed too often."""
        for home in self.homes:
            state = self._ask_again(client, "GET", f"{SANDBOXES}/{home}").json()["state"]
            if state in ("failed", "stopped", "lost"):
                self._ask_again(client, "POST", f"{SANDBOXES}/{home}/start")
        self.over.wait(0.2)


# Who kills ------------------------------------------------------------------------------------------------------------


@dataclass
class Killer:
    server: Tortured
    dice: random.Random
    killed: Counter[str] = field(default_factory=Counter)

    def strike(self) -> None:
        what = self.dice.choices(["server", "warden", "bubblewrap", "both"], [4, 5, 4, 2])[0]
        if what in ("warden", "both") and not self._kill(("warden",), "warden"):
            what = "server"
        if what == "bubblewrap" and not self._kill(("bwrap", "launch"), what, within=0.3):
            what = "reaper" if self._kill(("reaper",), "reaper") else "server"
        if what in ("server", "both"):
            self.server.kill()
            self.killed["server"] += 1
            self.server.start()
            if self.dice.random() < 0.7:
                self.server.await_ready()

    def _kill(self, names: Collection[str], what: str, within: float = 0.0) -> bool:
        give_up = time.monotonic() + within
        while True:
            found = [pid for pid, name in self.server.processes().items() if name in names]
            if found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.dice.choice(found), signal.SIGKILL)
                    self.killed[what] += 1
                    return True
            if time.monotonic() >= give_up:
                return False
