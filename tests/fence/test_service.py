"""Sandboxes over HTTP, on the dummy runtime: who may do what, and what is refused with which words."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from ringfence.kernel.auth.model import Role, TokenKind
from tests.fence.conftest import SANDBOXES, Fenced, refused, until


def test_a_sandbox_is_created_runs_and_is_destroyed(fence: Fenced):
    box = fence.create(name="alpha", memory="64M", labels={"team": "a"}, env={"A": "1"})
    assert box["state"] == "running"
    assert box["limits"]["memory"] == 64 << 20
    assert box["requested"] == ["memory"]
    assert box["enforced"]["memory"] == "dictionary"
    assert box["owner"] == "operator:admin"
    assert fence.show("alpha") == fence.show(box["id"]) == box
    assert fence.admin.delete(f"{SANDBOXES}/alpha").json()["state"] == "destroyed"
    assert fence.admin.delete(f"{SANDBOXES}/{box['id']}").json()["state"] == "destroyed", "a repeat is harmless"
    assert fence.admin.get(f"{SANDBOXES}/alpha").status_code == 404
    assert fence.state(box["id"]) == "destroyed"
    assert fence.listed() == []
    assert fence.listed(state="destroyed") == ["alpha"]
    assert fence.kinds(box["id"]) == [
        "sandbox_created", "sandbox_started", "sandbox_destroying", "sandbox_destroyed",
    ]  # fmt: skip
    assert not fence.dummy.link_folder(box["id"]).exists()


def test_a_name_is_made_up_and_is_unique_among_the_living(fence: Fenced):
    first, second = fence.create(), fence.create()
    assert first["name"] != second["name"]
    refused(fence.admin.post(SANDBOXES, json={"name": first["name"]}), 409, "name_taken")
    for bad in ("Alpha", "a_b", "-a", "a-", "", "a" * 64, "a\nb", "../x"):
        assert fence.admin.post(SANDBOXES, json={"name": bad}).status_code == 400, bad
    fence.admin.delete(f"{SANDBOXES}/{first['name']}")
    assert fence.create(name=first["name"])["id"] != first["id"]


def test_everything_can_be_asked_for_and_asking_again_is_harmless(fence: Fenced):
    box = fence.create()["id"]
    for verb, state in (
        ("start", "running"), ("pause", "paused"), ("pause", "paused"), ("resume", "running"), ("resume", "running"),
        ("stop", "stopped"), ("stop", "stopped"), ("start", "running"), ("restart", "running"),
        ("recreate", "running"), ("pause", "paused"), ("stop", "stopped"), ("restart", "running"),
    ):  # fmt: skip
        assert fence.did(box, verb)["state"] == state, verb
    assert fence.show(box)["restarts"] == 0, "nothing of this was a crash"


def test_what_cannot_be_asked_now_is_refused_and_recorded(fence: Fenced):
    box = fence.create()["id"]
    fence.did(box, "pause")
    problem = refused(fence.post(box, "start"), 409, "sandbox_paused")
    assert "resume it first" in problem["detail"]
    fence.did(box, "stop")
    refused(fence.post(box, "pause"), 409, "sandbox_stopped")
    refused(fence.post(box, "resume"), 409, "sandbox_stopped")
    assert [event["data"]["code"] for event in fence.events(box, "refused")] == ["sandbox_paused", "sandbox_stopped"]
    fence.admin.delete(f"{SANDBOXES}/{box}")
    refused(fence.post(box, "start"), 409, "sandbox_destroyed")


def test_recreating_keeps_the_sandbox_and_forgets_its_files(fence: Fenced):
    box = fence.create(name="beta", labels={"k": "v"}, ttl=1000)
    fence.dummy._boxes[box["id"]].files["/workspace/x"] = b"x"
    fence.did("beta", "restart")
    assert "/workspace/x" in fence.dummy._boxes[box["id"]].files
    again = fence.did("beta", "recreate")
    assert {again[name] == box[name] for name in ("id", "name", "labels", "limits", "ttl")} == {True}
    assert "/workspace/x" not in fence.dummy._boxes[box["id"]].files


def test_a_create_is_answered_at_once_when_nobody_waits(fence: Fenced):
    made = fence.admin.post(SANDBOXES, json={"wait": False})
    assert made.status_code == 202
    assert made.json()["state"] == "creating"
    fence.until_state(made.json()["id"], "running")


def test_a_repeated_create_makes_one_sandbox(fence: Fenced):
    keyed = {"idempotency-key": "one"}
    answers = [fence.admin.post(SANDBOXES, json={"name": "once"}, headers=keyed) for _ in range(3)]
    assert {answer.status_code for answer in answers} == {201}
    assert {answer.json()["id"] for answer in answers} == {answers[0].json()["id"]}
    assert answers[1].headers["idempotency-replayed"] == "true"
    refused(fence.admin.post(SANDBOXES, json={}, headers=keyed), 409, "idempotency_key_reused")
    found: list[str] = []

    def create() -> None:
        answer = fence.server.client(fence.server.admin_token).post(
            SANDBOXES, json={"name": "race"}, headers={"idempotency-key": "two"}
        )
        found.append(f"{answer.json()['id']} {answer.json()['state']}")

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert found[0].endswith(" running")


def test_sandboxes_are_made_side_by_side(fence: Fenced):
    made: list[dict[str, Any]] = []
    threads = [threading.Thread(target=lambda: made.append(fence.create())) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({box["id"] for box in made}) == 20
    assert {box["state"] for box in made} == {"running"}


# Limits and quotas ----------------------------------------------------------------------------------------------------


def test_a_limit_that_cannot_be_held_up_is_refused_with_what_would_enable_it(fence: Fenced):
    problem = refused(fence.admin.post(SANDBOXES, json={"disk": "1G"}), 422, "unsupported")
    assert "use another runtime" in problem["detail"]
    assert "best_effort" in problem["detail"]
    assert fence.listed() == [], "nothing was made"
    box = fence.create(disk="1G", best_effort=True)
    assert box["limits"]["disk"] == 1 << 30
    assert "disk" not in box["enforced"]
    assert fence.create(disk="1G", memory_disk=True, best_effort=True)["state"] == "running"


def test_defaults_are_best_effort_and_shown(fence_with: Callable[..., Fenced]):
    fence = fence_with(sandbox_memory="96M", sandbox_cpus=1.5, sandbox_pids=0, sandbox_disk="1G")
    box = fence.create()
    assert box["limits"] == {"memory": 96 << 20, "cpus": 1.5, "pids": None, "disk": 1 << 30}
    assert box["requested"] == []
    assert set(box["enforced"]) == {"memory", "cpus"}


@pytest.mark.parametrize("memory", ["", "12", "1X", "-1", "1 G", 0, -5, 1.5, "3M", "9" * 14, True, None])
def test_sizes_are_understood_or_refused(fence: Fenced, memory: object):
    answer = fence.admin.post(SANDBOXES, json={"memory": memory})
    assert answer.status_code == (201 if memory is None else 400), answer.text


def test_what_the_host_does_not_have_is_refused(fence: Fenced):
    problem = refused(fence.admin.post(SANDBOXES, json={"image": "debian:12"}), 422, "unknown_image")
    assert "there are: host" in problem["detail"]
    assert fence.admin.post(SANDBOXES, json={"user": "nobody"}).status_code == 400
    assert fence.admin.post(SANDBOXES, json={"env": {"A=B": "x"}}).status_code == 400
    assert fence.admin.post(SANDBOXES, json={"colour": "red"}).status_code == 400
    assert fence.admin.post(SANDBOXES, json={"project": "prj_none"}).status_code == 404


def test_each_owner_has_a_quota_of_sandboxes_and_of_memory(fence_with: Callable[..., Fenced]):
    fence = fence_with(quota_sandboxes=2, quota_memory="300M")
    olga = fence.operator()
    first = fence.create(olga, memory="100M")
    fence.create(olga, memory="100M")
    refused(olga.post(SANDBOXES, json={"memory": "10M"}), 409, "quota")
    fence.create(memory="100M")  # somebody else's
    olga.delete(f"{SANDBOXES}/{first['id']}")
    problem = refused(olga.post(SANDBOXES, json={"memory": "250M"}), 409, "quota")
    assert "ask for less" in problem["detail"]
    fence.create(olga, memory="200M")
    assert [event["data"]["code"] for event in fence.events(kind="refused")] == ["quota"], "the second is a repeat"


# Who may --------------------------------------------------------------------------------------------------------------


def test_operators_steer_and_viewers_read(fence: Fenced):
    box = fence.create()["id"]
    vera, olga = fence.viewer(), fence.operator()
    assert vera.get(f"{SANDBOXES}/{box}").status_code == 200
    assert vera.get(f"{SANDBOXES}/{box}/logs").status_code == 200
    assert vera.get(f"{SANDBOXES}/{box}/stats").status_code == 200
    for verb in ("start", "stop", "restart", "pause", "resume", "recreate", "snapshots"):
        refused(vera.post(f"{SANDBOXES}/{box}/{verb}", json={}), 403, "role")
    refused(vera.post(SANDBOXES, json={}), 403, "role")
    refused(vera.delete(f"{SANDBOXES}/{box}"), 403, "role")
    refused(vera.patch(f"{SANDBOXES}/{box}", json={"labels": {}}), 403, "role")
    assert olga.post(f"{SANDBOXES}/{box}/pause", json={}).status_code == 200
    assert fence.server.client().get(SANDBOXES).status_code == 401


def test_an_agent_sees_its_own_sandbox_and_steers_none(fence: Fenced):
    claude, codex = (fence.server.agent(name) for name in ("claude", "codex"))
    box = fence.create(agent="claude", name="hers")["id"]
    fence.create(name="nobodys")
    assert fence.listed(claude) == ["hers"]
    assert fence.listed(codex) == []
    assert claude.get(f"{SANDBOXES}/{box}").json()["agent"] == "claude"
    assert codex.get(f"{SANDBOXES}/{box}").status_code == 404
    assert codex.get(f"{SANDBOXES}/hers").status_code == 404
    for verb in ("start", "stop", "pause", "resume", "recreate", "snapshots"):
        refused(claude.post(f"{SANDBOXES}/{box}/{verb}", json={}), 403, "role")
    refused(claude.delete(f"{SANDBOXES}/{box}"), 403, "role")
    refused(claude.post(SANDBOXES, json={}), 403, "role")
    assert claude.get("/api/v1/snapshots").status_code == 403


def test_people_with_some_projects_see_and_make_only_theirs(fence: Fenced):
    projects = [
        fence.admin.post("/projects", json={"name": name, "creator": "admin"}).json()["id"] for name in ("one", "two")
    ]
    mine, other, nobodys = (fence.create(project=project) for project in (*projects, None))
    limited = fence.operator("lena", projects=[projects[0]])
    assert fence.listed(limited) == [mine["name"]]
    for box in (other, nobodys):
        assert limited.get(f"{SANDBOXES}/{box['id']}").status_code == 404
        assert limited.post(f"{SANDBOXES}/{box['id']}/stop", json={}).status_code == 404
        assert limited.delete(f"{SANDBOXES}/{box['name']}").status_code == 404
    assert limited.post(SANDBOXES, json={"project": projects[1]}).status_code == 404
    assert "say which `project`" in limited.post(SANDBOXES, json={}).json()["detail"]
    fence.create(limited, project=projects[0])
    taken = fence.admin.post(f"{SANDBOXES}/{other['id']}/snapshots", json={}).json()
    assert limited.get("/api/v1/snapshots").json()["items"] == []
    assert limited.get(f"/api/v1/snapshots/{taken['name']}").status_code == 404
    body = {"project": projects[0], "snapshot": taken["name"]}
    assert limited.post(SANDBOXES, json=body).status_code == 404


def test_events_of_sandboxes_are_for_those_who_see_them(fence: Fenced):
    project = fence.admin.post("/projects", json={"name": "one", "creator": "admin"}).json()["id"]
    claude = fence.server.agent("claude")
    hers, other, mine = (fence.create(**more)["id"] for more in ({"agent": "claude"}, {}, {"project": project}))

    lena = fence.server.token("lena", Role.OPERATOR, projects=[project])
    events = fence.server.client(lena).get("/api/v1/audit", params={"limit": 1000}).json()["items"]
    assert {event["subject"] for event in events if event["kind"].startswith("sandbox_")} == {mine}
    assert other not in {event["subject"] for event in events}
    shown = claude.get(f"{SANDBOXES}/{hers}/logs").json()["events"]
    assert [event["kind"] for event in shown] == ["sandbox_created", "sandbox_started"]


def test_an_enrolment_token_reaches_no_sandbox(fence: Fenced):
    enrolment = fence.server.client(fence.server.token("", kind=TokenKind.ENROLMENT, uses=1))
    assert enrolment.get(SANDBOXES).status_code == 403
    assert enrolment.post(SANDBOXES, json={}).status_code == 403


# Changing, finding ----------------------------------------------------------------------------------------------------


def test_name_labels_and_times_are_changed(fence: Fenced):
    box = fence.create(name="old", ttl=100)
    fence.create(name="other")

    def change(**body: Any) -> Any:
        return fence.admin.patch(f"{SANDBOXES}/{box['id']}", json=body)

    changed = change(name="new", labels={"a": "b"}, ttl=0, idle_timeout=60).json()
    assert (changed["name"], changed["labels"]) == ("new", {"a": "b"})
    assert (changed["ttl"], changed["expires_at"], changed["idle_timeout"]) == (None, None, 60)
    refused(change(name="other"), 409, "name_taken")
    assert change(name="No").status_code == 400
    assert fence.show("new")["id"] == box["id"]
    told = [event["data"]["changed"] for event in fence.events(box["id"], "sandbox_changed")]
    assert told == [{"name": "new", "labels": {"a": "b"}, "ttl": None, "idle_timeout": 60}]


def test_the_list_is_paged_and_filtered(fence: Fenced):
    names = [
        fence.create(name=f"box-{number}", labels={"n": str(number % 2)}, agent="claude")["name"] for number in range(5)
    ]
    fence.create(name="plain")
    fence.did("box-0", "stop")
    found: list[str] = []
    cursor = None
    while True:
        page = fence.admin.get(SANDBOXES, params={"limit": 2, **({"cursor": cursor} if cursor else {})}).json()
        found += [each["name"] for each in page["items"]]
        if (cursor := page["next"]) is None:
            break
    assert found == ["plain", *reversed(names)]
    assert fence.listed(label="n=1") == ["box-3", "box-1"]
    assert fence.listed(label=["n=1", "n"]) == ["box-3", "box-1"]
    assert fence.listed(label="n", state="stopped") == ["box-0"]
    assert len(fence.listed(agent="claude")) == 5
    assert fence.listed(owner="operator:nobody") == []
    assert fence.admin.get(SANDBOXES, params={"state": "gone"}).status_code == 400


def test_logs_tell_its_life_and_what_its_warden_said(fence: Fenced):
    box = fence.create()["id"]
    fence.dummy._boxes[box].said = b"warden: hello\n"
    fence.did(box, "pause")
    logs = fence.admin.get(f"{SANDBOXES}/{box}/logs").json()
    assert [event["kind"] for event in logs["events"]] == ["sandbox_created", "sandbox_started", "sandbox_paused"]
    assert logs["said"] == "warden: hello\n"
    assert [event["kind"] for event in fence.admin.get(f"{SANDBOXES}/{box}/logs?limit=1").json()["events"]] == [
        "sandbox_paused"
    ]
    stats = fence.admin.get(f"{SANDBOXES}/{box}/stats").json()
    assert (stats["state"], stats["pids"], stats["memory"]) == ("paused", 1, None)


# Snapshots ------------------------------------------------------------------------------------------------------------


def test_a_sandbox_begins_with_the_files_of_a_snapshot(fence: Fenced):
    box = fence.create(name="first")["id"]
    fence.dummy._boxes[box].files["/workspace/kept"] = b"12345"
    taken = fence.admin.post(f"{SANDBOXES}/first/snapshots", json={"name": "clean"})
    assert taken.status_code == 201, taken.text
    assert taken.json()["size"] == 5
    assert fence.state(box) == "running", "it stood still only for a moment"
    assert fence.dummy._boxes[box].moving.is_set()
    fence.dummy._boxes[box].files["/workspace/later"] = b""
    second = fence.create(snapshot="clean")
    assert fence.dummy._boxes[second["id"]].files["/workspace/kept"] == b"12345"
    assert "/workspace/later" not in fence.dummy._boxes[second["id"]].files
    assert second["snapshot"] == taken.json()["id"]
    refused(fence.admin.post(f"{SANDBOXES}/first/snapshots", json={"name": "clean"}), 409, "name_taken")
    refused(fence.admin.delete("/api/v1/snapshots/clean"), 409, "snapshot_used")
    fence.admin.delete(f"{SANDBOXES}/{second['id']}")
    assert fence.admin.delete("/api/v1/snapshots/clean").status_code == 200
    assert fence.dummy._snapshots == {}
    assert fence.admin.get("/api/v1/snapshots").json()["items"] == []
    assert fence.admin.post(SANDBOXES, json={"snapshot": "clean"}).status_code == 404


@pytest.mark.parametrize("verb", ["restart", "recreate"])
def test_what_would_be_done_twice_is_done_once(fence: Fenced, verb: str):
    box = fence.create()["id"]
    keyed = {"idempotency-key": verb}
    lives = []
    for _ in range(2):
        answer = fence.admin.post(f"{SANDBOXES}/{box}/{verb}", json={}, headers=keyed)
        assert (answer.status_code, answer.json()["state"]) == (200, "running")
        lives.append(fence.dummy._boxes[box].life)
    assert lives[0] == lives[1]


def test_a_repeated_snapshot_is_taken_once(fence: Fenced):
    box = fence.create()["id"]
    keyed = {"idempotency-key": "snap"}
    answers = [fence.admin.post(f"{SANDBOXES}/{box}/snapshots", json={"name": "s"}, headers=keyed) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].json() == answers[1].json()
    assert len(fence.dummy._snapshots) == 1


# Time -----------------------------------------------------------------------------------------------------------------


def test_a_sandbox_ends_with_its_time_to_live(fence: Fenced):
    box, other = fence.create(ttl=100)["id"], fence.create(ttl=1000)["id"]
    fence.server.clock.advance(101)
    fence.until_state(box, "destroyed")
    assert fence.state(other) == "running"
    assert fence.kinds(box)[-2:] == ["sandbox_expired", "sandbox_destroyed"]
    assert fence.events(box)[-2]["actor"] == "system"


def test_a_sandbox_in_which_nothing_runs_is_stopped_and_one_that_works_is_not(fence: Fenced):
    idle, busy, touched = (fence.create(idle_timeout=300)["id"] for _ in range(3))
    session = begin(fence, busy, "sleep", "3600")
    fence.server.clock.advance(200)
    fence.server.loop.call_soon_threadsafe(fence.server.house.lives.touch, touched)
    fence.server.clock.advance(150)
    fence.until_state(idle, "stopped")
    assert fence.kinds(idle)[-2:] == ["sandbox_idle", "sandbox_stopped"]
    fence.server.clock.advance(140)
    assert fence.state(busy) == "running"
    assert fence.state(touched) == "running"
    fence.server.clock.advance(200)
    fence.until_state(touched, "stopped")
    assert fence.state(busy) == "running"
    fence.server.loop.call_soon_threadsafe(session.signal, 9)
    until(lambda: not sessions(fence, busy), "the program ended")
    fence.server.clock.advance(400)
    fence.until_state(busy, "stopped")


def test_a_stopped_sandbox_does_not_become_idle_and_starts_fresh(fence: Fenced):
    box = fence.create(idle_timeout=100)["id"]
    fence.did(box, "stop")
    fence.server.clock.advance(500)
    fence.did(box, "start")
    fence.server.write(fence.server.house.fence.sweep)
    assert fence.state(box) == "running"


def test_destroyed_sandboxes_are_forgotten_after_a_while(fence: Fenced):
    box = fence.create()["id"]
    fence.admin.delete(f"{SANDBOXES}/{box}")
    fence.server.clock.advance(8 * 86400)
    fence.server.write(fence.server.house.fence.forget)
    fence.server.admin = fence.server.client(fence.server.token("admin", Role.ADMIN))
    assert fence.admin.get(f"{SANDBOXES}/{box}").status_code == 404
    assert "sandbox_destroyed" in fence.kinds(box), "its events stay"


# Ending programs ------------------------------------------------------------------------------------------------------


def begin(fence: Fenced, sandbox: str, *argv: str) -> Any:
    """A program in the sandbox, by the link."""
    from ringfence.fence.link.model import Start

    lives = fence.server.house.lives

    async def start() -> Any:
        sandbox_now = await fence.server.house.database.read(
            lambda tx: fence.server.house.fence.again(tx, sandbox, held=False)
        )
        link = await lives.link(sandbox_now)
        words = tuple(word.encode() for word in argv)
        return await link.start(Start(id=bytes(8) + sandbox[-8:].encode(), argv=words))

    return fence.server.run(start())


def sessions(fence: Fenced, sandbox: str) -> int:
    owner = fence.server.house.lives._owners[sandbox]
    return 0 if owner.link is None else len(owner.link.sessions())


def test_stopping_gives_programs_time_to_end(fence: Fenced):
    box = fence.create()["id"]
    session = begin(fence, box, "sleep", "3600")
    fence.did(box, "stop", grace=5)
    ended = fence.server.run(session.exit())
    assert (ended.signal, ended.why) == (15, "signalled"), "it was asked to end"


def test_stopping_without_a_grace_ends_programs_at_once(fence: Fenced):
    box = fence.create()["id"]
    session = begin(fence, box, "sleep", "3600")
    fence.did(box, "stop", grace=0)
    assert fence.server.run(session.exit()).why == "lost"
