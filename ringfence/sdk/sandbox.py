"""A sandbox as an object: programs, files and ports in it, and its life.

    with Sandbox.create() as box:
        print(box.exec("echo hello").stdout)

Made by `create` it is destroyed when the `with` is left; found by `client.sandbox(...)` it is not.
"""

import base64
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from typing_extensions import TypedDict, Unpack

from ringfence.sdk import sandboxes, views
from ringfence.sdk.asking import Asking
from ringfence.sdk.board import V1
from ringfence.sdk.calls import Call, Json, Repeat, content, given, path
from ringfence.sdk.errors import CommandFailed, RingfenceError, Unavailable, Unreachable
from ringfence.sdk.files import AsyncFiles, Files
from ringfence.sdk.forwards import AsyncForward, Forward
from ringfence.sdk.processes import AsyncProcess, Command, Process, Talk, asked_for
from ringfence.sdk.sandboxes import OnCrash, Size, SteersSandboxes, User
from ringfence.sdk.steps import Awaiting, Blocking, Steps, operation

if TYPE_CHECKING:
    from ringfence.sdk.clients import AsyncClient, Client

WAITED = 600.0  # seconds the server waits for a program's end when nobody says
MARGIN = 30.0


class Wanted(TypedDict, total=False):
    """What `create` may be told of the sandbox, as `Client.create_sandbox`."""

    image: str | None
    snapshot: str | None
    memory: Size | None
    cpus: float | None
    pids: int | None
    disk: Size | None
    memory_disk: bool | None
    best_effort: bool | None
    user: User | None
    read_only: bool | None
    env: Mapping[str, str] | None
    labels: Mapping[str, str] | None
    project: str | None
    agent: str | None
    ttl: float | None
    idle_timeout: float | None
    on_crash: OnCrash | None


@dataclass(frozen=True)
class Result:
    """What a program said, and how it ended."""

    stdout_bytes: bytes
    stderr_bytes: bytes
    exec: views.Exec

    @property
    def stdout(self) -> str:
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        return self.stderr_bytes.decode("utf-8", "replace")

    text = stdout

    @property
    def exit_code(self) -> int:
        """128 and the signal where it was killed by one."""
        return self.exec["code"] or 0

    @property
    def timed_out(self) -> bool:
        return self.exec["cause"] == "timeout"

    @property
    def truncated(self) -> bool:
        """It said more than the server keeps; these are the beginnings."""
        return self.exec["stdout_bytes"] > len(self.stdout_bytes) or self.exec["stderr_bytes"] > len(self.stderr_bytes)

    def check(self) -> Self:
        """Itself, if it ended with 0; else `CommandFailed`."""
        if self.exec["cause"] == "exited" and self.exit_code == 0:
            return self
        how = {
            "exited": f"ended with {self.exit_code}",
            "timeout": f"was ended after {self.exec['timeout']:g} s" if self.exec["timeout"] else "took too long",
            "failed": f"could not be started: {self.exec['error']}",
            "lost": "was lost: its sandbox ended",
        }.get(str(self.exec["cause"]), f"was killed by signal {self.exec['signal']}")
        said = self.stderr.strip()[-500:]
        raise CommandFailed(self, f"{' '.join(self.exec['argv'])[:200]} {how}" + (f": {said}" if said else ""))


class SandboxOperations(Asking):
    facts: views.Sandbox
    """What the server said of it last."""

    @property
    def id(self) -> str:
        return self.facts["id"]

    @property
    def name(self) -> str:
        return self.facts["name"]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} ({self.id}): {self.facts['state']}>"

    def _at(self, *parts: str) -> str:
        return path(*V1, "sandboxes", self.id, *parts)

    def _now(self, steps: Steps[views.Sandbox]) -> Steps[views.Sandbox]:
        self.facts = yield from steps
        return self.facts

    # Programs -------------------------------------------------------------------------------------------------------

    @operation
    def exec(
        self,
        command: Command,
        *,
        stdin: bytes | str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        check: bool = False,
    ) -> Steps[Result]:
        """Run a program, and wait for its end: a string is a line for the shell, a list a program and its arguments.

        It runs once, whatever becomes of the connection. After `timeout` seconds (600 when not given; 0: none) all it
        started is killed; what it said until then is in the result. With `check`, an end that is not 0 raises.
        """
        raw = stdin.encode() if isinstance(stdin, str) else stdin
        body = asked_for(
            command, env=None if env is None else dict(env), cwd=cwd, timeout=timeout,
            stdin_base64=None if raw is None else base64.b64encode(raw).decode(),
        )  # fmt: skip
        longest = WAITED if timeout is None else timeout or 30 * 24 * 3600.0
        answer: views.ExecAnswer = yield from self._ask(
            Call(
                method="POST", path=self._at("exec"), reads=Json(views.ExecAnswer), body=body, repeat=Repeat.KEYED,
                within=longest + MARGIN,
            )
        )  # fmt: skip
        said: dict[str, bytes] = {}
        for channel, size in (("stdout", answer["stdout_kept"]), ("stderr", answer["stderr_kept"])):
            text, packed = answer[channel], answer[f"{channel}_base64"]  # type: ignore[literal-required]
            said[channel] = text.encode() if packed is None else base64.b64decode(packed)
            if len(said[channel]) < size:  # an answer holds so much, the server more
                said[channel] = yield from SandboxOperations.exec_output.steps(self, answer["id"], channel)
        result = Result(said["stdout"], said["stderr"], answer)
        return result.check() if check else result

    @operation
    def spawn(
        self,
        command: Command,
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
    ) -> Steps[views.Exec]:
        """Start a program that goes on by itself; `get_exec` and `exec_output` tell of it, whoever asks."""
        body = asked_for(command, env=None if env is None else dict(env), cwd=cwd, timeout=timeout, detach=True)
        return self._change("POST", self._at("exec"), views.Exec, body, Repeat.KEYED)

    @operation
    def get_exec(self, exec_id: str) -> Steps[views.Exec]:
        return self._get(self._at("execs", exec_id), views.Exec)

    @operation
    def list_execs(self, *, running: bool | None = None, limit: int | None = None) -> Steps[list[views.Exec]]:
        """What was run in it, newest first."""
        return self._list(self._at("execs"), views.Exec, limit, running=running)

    @operation
    def exec_output(self, exec_id: str, channel: str = "stdout", *, offset: int | None = None) -> Steps[bytes]:
        """What it said so far, as far as that is kept."""
        query = {"channel": channel, "offset": offset}
        return self._ask(
            Call(method="GET", path=self._at("execs", exec_id, "output"), reads=content, query=query, within=120.0)
        )

    @operation
    def signal_exec(self, exec_id: str, signal: str | int = "TERM") -> Steps[views.Exec]:
        """To everything it started; `KILL` ends all of that."""
        return self._change("POST", self._at("execs", exec_id, "signal"), views.Exec, {"signal": signal}, Repeat.NEVER)

    # Ports ----------------------------------------------------------------------------------------------------------

    @operation
    def ports(self) -> Steps[list[views.Port]]:
        """On which something listens; what is `reachable` can be forwarded."""
        found = yield from self._get(self._at("ports"), views.Ports)
        return found["items"]

    # Its life -------------------------------------------------------------------------------------------------------

    @operation
    def refresh(self) -> Steps[views.Sandbox]:
        """Ask how it is; `facts` is the answer."""
        return self._now(sandboxes.SeesSandboxes.get_sandbox.steps(self, self.id))

    @operation
    def start(self) -> Steps[views.Sandbox]:
        return self._now(SteersSandboxes.start_sandbox.steps(self, self.id))

    @operation
    def stop(self, *, grace: float | None = None) -> Steps[views.Sandbox]:
        """SIGTERM to everything in it, `grace` seconds, then its end; its files stay."""
        return self._now(SteersSandboxes.stop_sandbox.steps(self, self.id, grace=grace))

    @operation
    def restart(self, *, grace: float | None = None) -> Steps[views.Sandbox]:
        return self._now(SteersSandboxes.restart_sandbox.steps(self, self.id, grace=grace))

    @operation
    def pause(self) -> Steps[views.Sandbox]:
        """Freeze everything in it, where it stands."""
        return self._now(SteersSandboxes.pause_sandbox.steps(self, self.id))

    @operation
    def resume(self) -> Steps[views.Sandbox]:
        return self._now(SteersSandboxes.resume_sandbox.steps(self, self.id))

    @operation
    def snapshot(self, name: str | None = None) -> Steps[views.Snapshot]:
        """Keep its files as they are now; `Sandbox.create(snapshot=…)` begins with them."""
        return SteersSandboxes.snapshot_sandbox.steps(self, self.id, name)

    @operation
    def stats(self) -> Steps[views.SandboxStats]:
        return sandboxes.SeesSandboxes.sandbox_stats.steps(self, self.id)

    @operation
    def logs(self, *, events: int | None = None) -> Steps[views.SandboxLogs]:
        return sandboxes.SeesSandboxes.sandbox_logs.steps(self, self.id, events=events)

    @operation
    def destroy(self) -> Steps[bool]:
        """At once, with its files."""
        return SteersSandboxes.destroy_sandbox.steps(self, self.id)

    def _streamed(
        self, command: Command, env: Mapping[str, str] | None, cwd: str | None, timeout: float | None,
        pty: tuple[int, int] | None, stdin: bool, detach: bool,
    ) -> tuple[Talk, dict[str, Any]]:  # fmt: skip
        size = None if pty is None else {"rows": pty[0], "columns": pty[1]}
        more = given(env=None if env is None else dict(env), cwd=cwd, timeout=timeout, pty=size)
        return Talk(self._at("exec", "ws")), asked_for(command, input=stdin, detach=detach, **more)


class Sandbox(SandboxOperations, Blocking):
    def __init__(self, client: Any, facts: views.Sandbox) -> None:
        self._client, self.facts = client, facts
        self._http, self._identity, self._patience = client._http, client._identity, client._patience
        self._acting = None
        self._owned = self._closes = False
        self.files = Files(self, facts["id"])

    @classmethod
    def create(cls, name: str | None = None, *, client: "Client | None" = None, **wanted: Unpack[Wanted]) -> Self:
        """Make one, and start it. Without a client it is made where the command line would make it: at RINGFENCE_URL
        with RINGFENCE_TOKEN, in the current context, or at the server of this machine."""
        chosen = client or here()
        try:
            box = cls(chosen, chosen.create_sandbox(name, **wanted))
        except BaseException:
            if client is None:
                chosen.close()
            raise
        box._owned, box._closes = True, client is None
        return box

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._owned:
                _left(error, self.destroy)
        finally:
            if self._closes:
                self._client.close()

    def stream(
        self,
        command: Command,
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        pty: tuple[int, int] | None = None,
        stdin: bool = False,
        detach: bool = False,
    ) -> Process:
        """Run a program, and be connected to it: iterate over what it says. `pty`: in a terminal of so many rows and
        columns. `stdin`: input will be written. Leaving ends it, unless `detach`."""
        talk, asked = self._streamed(command, env, cwd, timeout, pty, stdin, detach)
        return Process(self._client._sockets.open(talk.where), talk, asked)

    def forward(self, port: int, *, local: int = 0) -> Forward:
        """A port of this machine's loopback (a free one, or `local`) that leads to that port in the sandbox."""
        return Forward(self._client._sockets, self._at("ports", str(port)), local)


class AsyncSandbox(SandboxOperations, Awaiting):
    """`Sandbox` for asyncio: `async with await AsyncSandbox.create() as box`."""

    def __init__(self, client: Any, facts: views.Sandbox) -> None:
        self._client, self.facts = client, facts
        self._http, self._identity, self._patience = client._http, client._identity, client._patience
        self._acting = None
        self._owned = self._closes = False
        self.files = AsyncFiles(self, facts["id"])

    @classmethod
    async def create(
        cls, name: str | None = None, *, client: "AsyncClient | None" = None, **wanted: Unpack[Wanted]
    ) -> Self:
        """As `Sandbox.create`."""
        chosen = client or here_awaited()
        try:
            box = cls(chosen, await chosen.create_sandbox(name, **wanted))
        except BaseException:
            if client is None:
                await chosen.close()
            raise
        box._owned, box._closes = True, client is None
        return box

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._owned:
                try:
                    await self.destroy()
                except (Unreachable, Unavailable):
                    if error is None:
                        raise
        finally:
            if self._closes:
                await self._client.close()

    async def stream(
        self,
        command: Command,
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  of the program, in the sandbox
        pty: tuple[int, int] | None = None,
        stdin: bool = False,
        detach: bool = False,
    ) -> AsyncProcess:
        """As `Sandbox.stream`."""
        talk, asked = self._streamed(command, env, cwd, timeout, pty, stdin, detach)
        return await AsyncProcess.begun(await self._client._sockets.open_awaited(talk.where), talk, asked)

    async def forward(self, port: int, *, local: int = 0) -> AsyncForward:
        """As `Sandbox.forward`."""
        return await AsyncForward.opened(self._client._sockets, self._at("ports", str(port)), local)


def _left(error: BaseException | None, destroy: Any) -> None:
    """What went wrong inside is told, not that the sandbox could not be removed after it."""
    with contextlib.suppress(*(() if error is None else (Unreachable, Unavailable))):
        destroy()


def here() -> "Client":
    from ringfence.sdk.clients import Client

    return Client(**_place())


def here_awaited() -> "AsyncClient":
    from ringfence.sdk.clients import AsyncClient

    return AsyncClient(**_place())


def _place() -> dict[str, Any]:
    """Where the command line would go, and as whom."""
    from ringfence.cli.api import trust
    from ringfence.cli.places import Wanted as WantedPlace
    from ringfence.cli.problems import Problem

    try:
        place = WantedPlace().place()
        found = trust(place)
    except Problem as problem:
        raise RingfenceError(str(problem)) from None
    return {"url": place.url, "token": place.token, "ca": None if isinstance(found, bool) else found}
