"""The audit log for people: found by what they look for, one by one, verified before their eyes, and taken away."""

import csv
import io
import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from ringfence.kernel.auth.model import Role, TokenKind
from ringfence.kernel.events import service
from ringfence.kernel.events.model import SYSTEM, Actor
from tests.harness import Ringfence, running

CLAUDE = Actor("agent:claude")


def tell(server: Ringfence, *kinds: str, by: Actor = SYSTEM, **more: str) -> int:
    """Record events of these kinds; the number of the last one."""

    def use_case(tx: Any) -> None:
        for kind in kinds:
            tx.record(kind, by, {"about": kind}, **more)

    server.write(use_case)
    return server.house.feed.last


def found(server: Ringfence, **params: Any) -> list[dict[str, Any]]:
    """Page after page, three at a time."""
    items: list[dict[str, Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        page = server.admin.get(
            "/api/v1/audit", params={"limit": 3, **params, **({"cursor": cursor} if cursor else {})}
        )
        assert page.status_code == 200, page.text
        items += page.json()["items"]
        cursor = page.json()["next"]
    return items


def numbers(items: list[dict[str, Any]]) -> list[int]:
    return [item["seq"] for item in items]


def test_events_of_several_kinds_are_found_together(either: Ringfence):
    tell(either, *["noise", "one", "noise", "two", "noise"] * 3)
    items = found(either, kind=["one", "two"])
    assert [item["kind"] for item in items] == ["two", "one"] * 3
    assert numbers(items) == sorted(numbers(items), reverse=True)
    assert numbers(found(either, kind=["one", "two"], newest_first=False)) == sorted(numbers(items))
    assert numbers(found(either, kind="one")) == numbers(items)[1::2]
    assert found(either, kind="never") == []


def test_what_involves_an_agent_is_what_it_did_and_what_concerns_it(either: Ringfence):
    did = tell(either, "one", by=CLAUDE)
    tell(either, "one", by=Actor("agent:codex"))
    concerns = tell(either, "two", agent="claude")
    tell(either, "two", agent="codex")
    tell(either, "one", by=Actor("operator:claude"))
    assert numbers(found(either, involves="claude")) == [concerns, did]
    assert numbers(found(either, agent="claude")) == [concerns]
    assert numbers(found(either, involves="claude", kind=["one"])) == [did]


@pytest.mark.parametrize("newest_first", [True, False])
def test_a_page_looks_at_so_many_events_and_says_where_to_go_on(
    server: Ringfence, monkeypatch: pytest.MonkeyPatch, newest_first: bool
):
    wanted = [tell(server, "rare", *["noise"] * 40) - 40 for _ in range(3)]
    monkeypatch.setattr(service, "LOOKED", 10)
    page = server.admin.get("/api/v1/audit", params={"kind": "rare", "newest_first": newest_first}).json()
    assert len(page["items"]) < 3
    assert page["next"] is not None
    order = sorted(wanted, reverse=newest_first)
    assert numbers(found(server, kind="rare", newest_first=newest_first)) == order
    tell(server, "placed", project="prj_a")
    assert server.admin.get("/api/v1/audit?project=prj_a").json()["next"] is None


def test_one_event_is_shown_with_what_chains_it(either: Ringfence):
    last = tell(either, "one", "two")
    event = either.admin.get(f"/api/v1/audit/events/{last}").json()
    assert (event["seq"], event["kind"], event["data"]) == (last, "two", {"about": "two"})
    assert event["prev"] == either.admin.get(f"/api/v1/audit/events/{last - 1}").json()["hash"]
    for missing in (0, -1, last + 100, 10**30, "one", "٣"):
        answer = either.admin.get(f"/api/v1/audit/events/{missing}")
        assert answer.status_code == 404, answer.text
    assert either.admin.get("/api/v1/audit/verify").json()["ok"]


def test_a_person_with_some_projects_sees_one_event_only_of_those(server: Ringfence):
    project = server.admin.post("/api/v1/projects", json={"name": "Mine"}).json()["id"]
    mine, other = tell(server, "one", project=project), tell(server, "one", project="prj_other")
    person = server.client(server.token("eve", Role.VIEWER, projects=[project]))
    assert person.get(f"/api/v1/audit/events/{mine}").status_code == 200
    assert person.get(f"/api/v1/audit/events/{other}").status_code == 404
    taken = person.get("/api/v1/audit/export.ndjson").text
    assert f'"seq":{mine},' in taken
    assert f'"seq":{other},' not in taken


# Taken away -----------------------------------------------------------------------------------------------------------


def test_an_export_is_the_whole_log_as_lines_of_json(either: Ringfence):
    tell(either, *["told"] * 600)
    expected = found(either, limit=1000, newest_first=False)
    answer = either.admin.get("/api/v1/audit/export.ndjson")
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert answer.headers["content-disposition"].startswith('attachment; filename="ringfence-audit-20')
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [line["seq"] for line in lines] == numbers(expected)
    assert lines[-1] == expected[-1]


def test_an_export_as_a_table_holds_no_formulas_and_only_what_was_asked_for(server: Ringfence):
    def use_case(tx: Any) -> None:
        tx.record("told", Actor("@evil"), {"a": 'b,"c"\n\u202e'}, subject="=cmd|'/c calc'!A0", project="prj_a")

    server.write(use_case)
    tell(server, "other")
    answer = server.admin.get("/api/v1/audit/export.csv", params={"project": "prj_a"})
    assert answer.headers["content-type"].startswith("text/csv")
    [head, row] = list(csv.reader(io.StringIO(answer.text)))
    line = dict(zip(head, row, strict=True))
    assert (line["kind"], line["actor"], line["subject"]) == ("told", "'@evil", "'=cmd|'/c calc'!A0")
    assert json.loads(line["data"]) == {"a": 'b,"c"\n\u202e'}
    assert server.admin.get("/api/v1/audit/export.csv?kind=never").text.splitlines() == [",".join(head)]


def test_an_export_ends_though_events_go_on(server: Ringfence):
    tell(server, *["told"] * 1000)
    last = server.house.feed.last
    with server.admin.stream("GET", "/api/v1/audit/export.ndjson") as answer:
        lines = answer.iter_lines()
        next(lines)
        tell(server, *["later"] * 1000)
        assert json.loads(list(lines)[-1])["seq"] == last


def test_agents_take_nothing_away(server: Ringfence):
    agent = server.agent("claude")
    for path in ("export.ndjson", "export.csv", "events/1", "verification"):
        assert agent.get(f"/api/v1/audit/{path}").status_code == 403


# Verified -------------------------------------------------------------------------------------------------------------


def walked(client: httpx.Client) -> list[tuple[str, dict[str, Any]]]:
    """The events of a verification."""
    with client.stream("POST", "/api/v1/audit/verify") as answer:
        assert answer.status_code == 200, answer.read()
        blocks = "".join(answer.iter_text()).strip().split("\n\n")
    pairs = [block.split("\n") for block in blocks]
    return [(kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for kind, data in pairs]


def kept(server: Ringfence) -> Any:
    return server.admin.get("/api/v1/audit/verification").json()


def test_a_verification_tells_how_far_it_came_and_is_kept(either: Ringfence):
    assert kept(either)["last"] is None
    for _ in range(5):
        tell(either, *["told"] * 1000)
    last = either.house.feed.last
    told = walked(either.admin)
    progress = [data for kind, data in told if kind == "progress"]
    assert [data["checked"] for data in progress] == [2000, 4000, last, last]
    assert {data["of"] for data in progress} == {last}
    kind, verdict = told[-1]
    assert (kind, verdict["ok"], verdict["checked"], verdict["last"]) == ("verdict", True, last, last)
    [event] = found(either, kind="audit_verified")
    assert (event["actor"], event["data"]) == ("operator:admin", verdict)
    now = kept(either)
    assert now["newest"] == last + 1
    assert now["last"] == {**verdict, "time": event["time"], "by": "operator:admin"}
    assert walked(either.admin)[-1][1]["checked"] == last + 1
    assert kept(either)["last"]["checked"] == last + 1


def test_what_is_wrong_is_kept_with_where_it_is(tmp_path: Path, template: Path):
    with running(tmp_path / "data", template) as server:
        last = tell(server, *["told"] * 20)
        _sql(server, f"UPDATE events SET data = '{{}}' WHERE seq = {last - 5}")
        verdict = walked(server.admin)[-1][1]
        assert (verdict["ok"], verdict["at"]) == (False, last - 5)
        assert verdict["problem"] == f"event {last - 5} is not as it was written"
        assert verdict["checked"] == verdict["last"] == last - 6
        assert kept(server)["last"]["problem"] == verdict["problem"]
        _sql(server, f"DELETE FROM events WHERE seq BETWEEN {last - 9} AND {last - 7}")
        verdict = walked(server.admin)[-1][1]
        assert (verdict["problem"], verdict["at"]) == (f"events {last - 9} to {last - 7} are missing", last - 6)


def _sql(server: Ringfence, text: str) -> None:
    import sqlite3

    with sqlite3.connect(server.settings.data / "ringfence.db", timeout=10) as connection:
        connection.execute(text)


def test_one_verification_runs_at_a_time_and_who_leaves_stops_it(server: Ringfence, monkeypatch: pytest.MonkeyPatch):
    tell(server, *["told"] * 10_000)
    monkeypatch.setattr(service, "WALK", 1)
    other = server.client(server.admin_token)
    with server.admin.stream("POST", "/api/v1/audit/verify") as answer:
        chunks = answer.iter_bytes()
        assert next(chunks).startswith(b"event: progress")
        refused = other.post("/api/v1/audit/verify")
        assert (refused.status_code, refused.json()["code"]) == (409, "verifying")
    monkeypatch.setattr(service, "WALK", 2000)
    ends = time.monotonic() + 10
    while (again := other.post("/api/v1/audit/verify")).status_code == 409:
        assert time.monotonic() < ends, "the verification goes on without anybody"
    assert again.status_code == 200
    assert len(found(server, kind="audit_verified")) == 1


def test_viewers_see_what_was_verified_and_have_nothing_verified(server: Ringfence):
    viewer = server.client(server.token("vera", Role.VIEWER))
    assert viewer.post("/api/v1/audit/verify").status_code == 403
    walked(server.admin)
    assert viewer.get("/api/v1/audit/verification").json()["last"]["ok"] is True
    agent = server.client(server.token("claude", kind=TokenKind.AGENT))
    assert agent.post("/api/v1/audit/verify").status_code == 403
