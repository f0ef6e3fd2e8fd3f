"""Really trying: a namespace, a sandbox that runs a command, a table in its network."""

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from ringfence.fence.link.links import WardenLinks
from ringfence.fence.link.model import Links, Start, Why
from ringfence.fence.lives import Unkept
from ringfence.fence.model import Blueprint, Limits
from ringfence.fence.posture.host import held
from ringfence.fence.runtimes.model import Capabilities, Runtime
from ringfence.fence.runtimes.native import bwrap
from ringfence.fence.runtimes.native.runtime import Native
from ringfence.kernel.errors import RingfenceError
from ringfence.kernel.ids import new

ROUNDS = 3
WITHIN = 20.0
AMOUNTS = Limits(memory=64 << 20, cpus=0.5, pids=32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What came of it; an error is empty where all went well."""

    bubblewrap: str = ""  # its path
    no_bubblewrap: str = ""
    namespace_error: str = ""
    sandbox_error: str = ""
    milliseconds: float = 0.0  # from nothing to the end of its first command
    capabilities: Capabilities | None = None
    held: dict[str, int | None] = field(default_factory=dict)  # of AMOUNTS, as the kernel has it
    paused: bool = False
    table_error: str = ""
    idmap_error: str = ""


async def tried(runtime: Runtime | None, why_none: str) -> Trial:
    """With an open runtime; `why_none` says why there is none."""
    found: dict[str, object] = {}
    # What the server itself may do says nothing where the spawner does it: its sandboxes do.
    spawned = isinstance(runtime, Native) and runtime.by_root and os.geteuid() != 0
    try:
        program = await asyncio.to_thread(bwrap.find)
        found["bubblewrap"] = str(program)
        if not spawned:
            found["namespace_error"] = await asyncio.to_thread(_namespace, program)
    except bwrap.NoBubblewrap as error:
        found["no_bubblewrap"] = str(error)
    if runtime is None:
        found["sandbox_error"] = why_none
    else:
        found |= await _sandboxes(runtime)
    for name in () if spawned else ("table", "idmap"):
        found[f"{name}_error"] = await asyncio.to_thread(_kernel, name)
    return Trial(**found)  # type: ignore[arg-type]


def _namespace(program: Path) -> str:
    command: list[str | Path] = [
        program,
        "--unshare-user",
        "--unshare-pid",
        "--unshare-net",
        "--ro-bind",
        "/",
        "/",
        "/bin/true",
    ]
    return _said(command)


def _kernel(what: str) -> str:
    return _said([sys.executable, "-m", "ringfence.fence.doctor.kernel", what])


def _said(command: Sequence[str | Path]) -> str:
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=WITHIN, stdin=subprocess.DEVNULL,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if ran.returncode == 0 else (ran.stderr.strip() or f"exit status {ran.returncode}")[-500:]


async def _sandboxes(runtime: Runtime) -> dict[str, object]:
    links = WardenLinks()
    capabilities = runtime.capabilities()
    possible = {name: getattr(AMOUNTS, name) for name in ("memory", "cpus", "pids") if name in capabilities.limits}
    limits = Limits(**possible, requested=frozenset(possible))
    found: dict[str, object] = {"capabilities": capabilities}
    times = []
    try:
        for round in range(ROUNDS):
            plan = Blueprint(id=new("sbx"), hostname="doctor", image="host", limits=limits)
            last = found if round == ROUNDS - 1 else None
            times.append(await _one(runtime, links, plan, last))
    except (RingfenceError, OSError, TimeoutError) as error:
        found["sandbox_error"] = getattr(error, "message", "") or str(error) or type(error).__name__
    finally:
        await links.close()
    return {**found, "milliseconds": median(times) * 1000 if times else 0.0}


async def _one(runtime: Runtime, links: Links, plan: Blueprint, found: dict[str, object] | None) -> float:
    began = time.monotonic()
    try:
        await runtime.create(plan)
        key = os.urandom(32)
        await links.listen(plan.id, runtime.link_folder(plan.id), key, Unkept())
        life = await runtime.start(plan, key)
        link = await links.link(plan.id, WITHIN)
        session = await link.start(Start(id=os.urandom(16), argv=(b"/bin/true",), timeout=WITHIN))
        exit = await asyncio.wait_for(session.exit(), WITHIN)
        took = time.monotonic() - began
        if exit.why is not Why.EXITED or exit.code:
            raise RingfenceError(f"a command in the sandbox ended with {exit.why} {exit.code}: {exit.error}")
        if found is not None:
            found["held"] = await asyncio.to_thread(held, life.pid)
            with contextlib.suppress(RingfenceError, OSError, TimeoutError):
                await runtime.pause(plan.id)
                await runtime.resume(plan.id)
                found["paused"] = True
        return took
    finally:
        await links.forget(plan.id)
        await runtime.destroy(plan.id)
