"""The real `ringfence` command, against a real server in a temporary folder."""

import contextlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from ringfence.supervisor import Running
from tests.forks import command

RINGFENCE = str(Path(sys.executable).parent / "ringfence")
WITHIN = 30.0


def until(happened: Callable[[], Any], what: str, within: float = WITHIN) -> Any:
    """What `happened` returns once it is true."""
    give_up = time.monotonic() + within
    while time.monotonic() < give_up:
        if found := happened():
            return found
        time.sleep(0.01)
    raise AssertionError(f"{what}: not within {within} s")


@dataclass(frozen=True)
class Said:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Cli:
    """`ringfence`, run by somebody with a home of their own."""

    def __init__(self, home: Path, **env: str) -> None:
        self.home = home
        self.data = home / "data"
        self.config = home / "config"
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "USER": "alice",
        }
        self.env |= {"RINGFENCE_CONFIG_DIR": str(self.config), "RINGFENCE_DATA": str(self.data), **env}

    def __call__(self, *words: object, given: str = "", cwd: Path | None = None, **env: str) -> Said:
        with tempfile.TemporaryDirectory() as folder:
            streams = [Path(folder, name) for name in ("in", "out", "err")]
            for stream, text in zip(streams, (given, "", ""), strict=True):
                stream.write_text(text)
            code = command([*map(str, words)], streams, {**self.env, **env}, cwd or self.home, WITHIN + 30)
            said = Said(code, streams[1].read_text(), streams[2].read_text())
        assert "Traceback" not in said.err + said.out, said.err
        return said

    def ok(self, *words: object, **more: Any) -> str:
        said = self(*words, **more)
        assert said.code == 0, said
        return said.out

    def json(self, *words: object, **more: Any) -> Any:
        return json.loads(self.ok(*words, "--json", **more))

    def start(self, *words: str, **env: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [RINGFENCE, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env={**self.env, **env}, cwd=self.home,
        )  # fmt: skip

    def up(self, *words: str) -> Running:
        self.ok("up", "--port", "0", "--detach", *words)
        return self.running

    def api(self, method: str, path: str, **body: Any) -> Any:
        """Straight to the server, where the command is not what is tried."""
        running = self.running
        headers = {"authorization": f"Bearer {running.token}"}
        answer = httpx.request(
            method, running.url + path, headers=headers, json=body, timeout=WITHIN, trust_env=False, verify=False
        )
        assert answer.is_success, answer.text
        return answer.json()

    @property
    def running(self) -> Running:
        found = Running.on(self.data)
        assert found is not None
        return found

    def stop(self) -> None:
        self("down", "--all")
        if (left := Running.on(self.data)) is not None:
            os.kill(left.pid, signal.SIGKILL)


class Terminal:
    """The command on a terminal of its own; what it draws is text with escape sequences."""

    def __init__(self, cli: Cli, *words: str, columns: int = 120) -> None:
        self.screen = ""
        env = {**cli.env, "COLUMNS": str(columns), "LINES": "40"}
        self._pid, self._fd = pty.fork()
        if self._pid == 0:
            os.chdir(cli.home)
            os.execve(RINGFENCE, [RINGFENCE, *words], env)

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def see(self, pattern: str) -> None:
        """Read on until the pattern is on the screen."""
        give_up = time.monotonic() + WITHIN
        while not re.search(pattern, self.screen):
            assert time.monotonic() < give_up, f"{pattern!r} did not appear in {self.screen!r}"
            if not self._read(0.05):
                assert re.search(pattern, self.screen), f"{pattern!r} is not in {self.screen!r}"

    def end(self) -> int:
        """Its exit status, once it has ended."""
        while self._read(WITHIN):
            pass
        os.close(self._fd)
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])

    def _read(self, wait: float) -> bool:
        if not select.select([self._fd], [], [], wait)[0]:
            return True
        with contextlib.suppress(OSError):
            chunk = os.read(self._fd, 65536)
            self.screen += chunk.decode(errors="replace")
            return bool(chunk)
        return False


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    """Somebody on whose machine nothing runs yet."""
    found = Cli(tmp_path)
    yield found
    found.stop()


@pytest.fixture(scope="session")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """Somebody on whose machine a server runs; shared, so tests name their things apart."""
    found = Cli(tmp_path_factory.mktemp("office"))
    try:
        found.up()
        yield found
    finally:
        found.stop()
