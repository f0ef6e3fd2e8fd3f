"""What tests of agents share: the events, and time that passes while the server watches."""

import asyncio
from typing import Any, cast

import httpx

from ringfence.kernel.database import Transaction
from ringfence.kernel.events.model import Actor
from tests.harness import Ringfence


def events(server: Ringfence, kind: str) -> list[dict[str, Any]]:
    """What events of this kind tell, oldest first."""
    page = server.admin.get("/api/v1/audit", params={"kind": kind, "newest_first": "false", "limit": 1000}).json()
    return [{**item["data"], "by": item["actor"], "via": item["via"]} for item in page["items"]]


def agent(server: Ringfence, name: str) -> dict[str, Any]:
    answer = server.admin.get(f"/api/v1/crew/{name}")
    assert answer.status_code == 200, answer.text
    return cast(dict[str, Any], answer.json())


def status(server: Ringfence, name: str) -> str:
    return cast(str, agent(server, name)["status"])


def beat(client: httpx.Client, name: str, times: int = 1) -> dict[str, Any]:
    for _ in range(times):
        answer = client.post(f"/agents/{name}/heartbeat")
        assert answer.status_code == 200, answer.text
    return cast(dict[str, Any], answer.json())


def refused(answer: httpx.Response, status_code: int, code: str) -> str:
    assert (answer.status_code, answer.json()["code"]) == (status_code, code), answer.text
    return cast(str, answer.json()["error"])


def returns(server: Ringfence, count: int) -> list[tuple[str, str]]:
    """Whose claims were returned and why, as a room is told that returns `count` of them each time."""
    told: list[tuple[str, str]] = []

    def hook(tx: Transaction, by: Actor, name: str, reason: str) -> int:
        told.append((name, reason))
        return count

    server.house.crew.on_release.append(hook)
    return told


def by_hand(server: Ringfence) -> Ringfence:
    """From now on the server sweeps when the test says so."""
    asyncio.run_coroutine_threadsafe(server.house.housekeeping.close(), server.loop).result(20)
    sweep(server)
    return server


def sweep(server: Ringfence) -> None:
    server.write(server.house.liveness.sweep)


def watch(server: Ringfence, seconds: float, step: float = 5) -> None:
    """Time passes, and the server looks every `step` seconds."""
    while seconds > 0:
        server.clock.advance(min(step, seconds))
        seconds -= step
        sweep(server)
