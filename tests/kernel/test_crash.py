"""What was acknowledged survives: kill -9 in the middle of everything, and a disk that is full."""

import asyncio
import random
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from ringfence.kernel import migrations
from ringfence.kernel.clock import Clock
from ringfence.kernel.database import connect
from ringfence.kernel.errors import StorageFull
from ringfence.kernel.events.service import Verdict, verify
from ringfence.settings import Settings
from tests.harness import fill_up, running
from tests.kernel.conftest import Place
from tests.kernel.process import Process, process

WRITERS = 16
ROUNDS = 20


async def write_until_killed(server: Process, label: str, writes: int) -> tuple[dict[str, str], list[str]]:
    """Sixteen writers, and a kill after so many answers: what was acknowledged (note → id), and what was not."""
    acknowledged: dict[str, str] = {}
    open_ended: list[str] = []
    headers = {"authorization": f"Bearer {server.token}"}

    async def writer(client: httpx.AsyncClient, number: int) -> None:
        for count in range(10_000):
            note = f"{label}-{number}-{count}"
            try:
                answer = await client.post("/api/v1/enrolments", json={"note": note}, headers={"idempotency-key": note})
            except httpx.HTTPError:
                open_ended.append(note)
                return
            assert answer.status_code == 201
            acknowledged[note] = answer.json()["id"]
            if len(acknowledged) == writes:
                server.kill()

    async with httpx.AsyncClient(
        base_url=server.url, headers=headers, trust_env=False, verify=False, timeout=20
    ) as client:
        await asyncio.gather(*(writer(client, number) for number in range(WRITERS)))
    return acknowledged, open_ended


def check(data: Path, acknowledged: dict[str, str]) -> set[str]:
    """Every acknowledged write is there with its event, once, and the chain holds; the notes of all there are."""
    with sqlite3.connect(data / "ringfence.db") as connection:
        rows = connection.execute("SELECT note, id FROM tokens WHERE kind = 'enrolment'").fetchall()
        told = [row for (row,) in connection.execute("SELECT subject FROM events WHERE kind = 'token_created'")]
    kept = dict(rows)
    assert len(kept) == len(rows)
    assert acknowledged.items() <= kept.items()
    assert len(set(told)) == len(told)
    assert set(kept.values()) <= set(told)
    return set(kept)


async def verdict(data: Path) -> Verdict:
    place = Place.__new__(Place)
    place.url, place.data = "", data
    database = place.database()
    await database.open()
    try:
        return await verify(database)
    finally:
        await database.close()


def test_kill_9_in_the_middle_of_sixteen_writers_twenty_times_loses_nothing(tmp_path: Path, template: Path) -> None:
    data, acknowledged, chance = tmp_path / "data", dict[str, str](), random.Random(7)
    server = Process(data, template)
    heads: list[str] = []
    for number in range(ROUNDS):
        started = time.monotonic()
        done, open_ended = asyncio.run(write_until_killed(server, f"r{number}", chance.randint(20, 120)))
        acknowledged |= done
        kept = check(data, acknowledged)
        walked = asyncio.run(verdict(data))
        assert walked.ok, walked.problem
        heads.append(walked.head)
        server.start()
        # Who was not answered asks again with the same key: done once, whether or not it was done before.
        with server.client() as client:
            repeated = client.get("/api/v1/me")
            assert repeated.status_code == 200
        assert {note for note in kept if note.startswith(f"r{number}-")} <= {*done, *open_ended}
        assert time.monotonic() - started < 10  # under 2 s on a machine with nothing else to do
    with server.client() as client:
        for head in heads:
            assert client.get("/api/v1/audit/verify", params={"head": head}).json()["ok"]
    server.kill()
    check(data, acknowledged)


def test_who_was_not_answered_repeats_with_the_key_and_it_is_done_once(tmp_path: Path, template: Path) -> None:
    data = tmp_path / "data"
    server = Process(data, template)
    token = server.token
    acknowledged, open_ended = asyncio.run(write_until_killed(server, "x", 60))
    before = check(data, acknowledged)
    server.start()
    with httpx.Client(
        base_url=server.url, headers={"authorization": f"Bearer {token}"}, trust_env=False, verify=False
    ) as client:
        for note in [*open_ended, *acknowledged]:
            answer = client.post("/api/v1/enrolments", json={"note": note}, headers={"idempotency-key": note})
            assert answer.status_code == 201
            assert ("idempotency-replayed" in answer.headers) is (note in before)
            assert answer.json()["id"] == acknowledged.get(note, answer.json()["id"])
            secret = {"authorization": f"Bearer {answer.json()['token']}"}
            assert client.get("/api/v1/me", headers=secret).status_code == 403  # known: the same secret as then
    server.kill()
    assert check(data, acknowledged) == {*open_ended, *acknowledged}
    assert asyncio.run(verdict(data)).ok


# A full disk ----------------------------------------------------------------------------------------------------------


def fill(client: httpx.Client, label: str) -> tuple[list[str], httpx.Response]:
    """Write until it is refused: what was acknowledged, and the refusal."""
    kept: list[str] = []
    for number in range(5000):
        answer = client.post("/api/v1/enrolments", json={"note": f"{label}-{number}-" + "x" * 150})
        if answer.status_code != 201:
            return kept, answer
        kept.append(answer.json()["id"])
    raise AssertionError("the disk did not fill")


def survives_a_full_disk(client: httpx.Client, free_space: Callable[[], None]) -> None:
    kept, refusal = fill(client, "a")
    assert refusal.status_code == 507, refusal.text
    assert refusal.headers["content-type"] == "application/problem+json"
    told = refusal.json()
    assert (told["code"], told["status"]) == ("storage_full", 507)
    assert "free some space" in told["detail"]
    for _ in range(5):
        assert client.post("/api/v1/enrolments", json={"note": "y" * 200}).status_code in (201, 507)
        assert client.get("/ping").status_code == 200
    listed: list[str] = []
    cursor: str | None = ""
    while cursor is not None:  # what is there can be read
        page = client.get("/api/v1/tokens", params={"limit": 1000, "cursor": cursor}).json()
        listed += [token["id"] for token in page["items"]]
        cursor = page["next"]
    assert set(kept) <= set(listed)
    assert client.get("/readyz").status_code in (200, 503)
    free_space()
    again = client.post("/api/v1/enrolments", json={"note": "again"})
    assert again.status_code == 201
    verdict = client.get("/api/v1/audit/verify").json()
    assert verdict["ok"], verdict
    assert verdict["checked"] >= len(kept) + 2


def test_a_quota_that_is_reached_refuses_clearly_loses_nothing_and_works_again(tmp_path: Path, template: Path) -> None:
    with process(tmp_path / "data", template) as server, server.client() as client:
        client.get("/api/v1/tokens")
        server.limit_files(1 << 20)
        survives_a_full_disk(client, lambda: server.limit_files(1 << 30))


def test_a_full_disk_refuses_clearly_loses_nothing_and_works_again(small_disk: Path, template: Path) -> None:
    ballast = small_disk / "ballast"
    with running(small_disk / "data", template) as server:
        ballast.write_bytes(b"x" * (2 << 20))

        def free_space() -> None:
            told = server.admin.get("/readyz")  # what is there is served on
            assert (told.status_code, told.json()["status"], told.json()["disk"]) == (200, "ok", "full")
            ballast.unlink()

        assert server.admin.get("/readyz").json()["disk"] == "ok"
        survives_a_full_disk(server.admin, free_space)
        assert server.admin.get("/readyz").json()["disk"] == "ok"
        server.restart()
        assert server.admin.get("/api/v1/audit/verify").json()["ok"]


def test_a_full_disk_at_the_first_start_is_told_in_a_sentence(small_disk: Path) -> None:
    ballast = fill_up(small_disk)
    with pytest.raises(StorageFull, match=r"full; .* free some space"):
        migrations.upgrade(Settings(data=small_disk))
    ballast.unlink()
    migrations.upgrade(Settings(data=small_disk))


async def test_a_full_disk_at_a_later_start_is_told_in_a_sentence(small_disk: Path) -> None:
    settings = Settings(data=small_disk)
    migrations.upgrade(settings)
    database = connect("", small_disk, Clock())
    await database.open()
    await database.close()
    ballast = fill_up(small_disk)
    with pytest.raises(StorageFull, match=r"full; .* free some space"):
        migrations.upgrade(settings)
    with pytest.raises(StorageFull, match=r"full; .* free some space"):
        await connect("", small_disk, Clock()).open()
    ballast.unlink()
    migrations.upgrade(settings)
