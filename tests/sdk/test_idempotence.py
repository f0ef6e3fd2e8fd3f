"""The answer is lost after the server did the work: asked again, it is done once, and answered as the first time."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from ringfence.sdk import errors
from tests.harness import Ringfence
from tests.sdk.conftest import Lossy, Twin


class Scene:
    """An agent whose connection loses answers when told to, with something to work on."""

    def __init__(self, twin: Twin, server: Ringfence) -> None:
        self.server = server
        self.transport = Lossy()
        self.agent = twin.agent(transport=self.transport)
        self.agent.register()
        self.project = self.agent.create_project("p")["id"]
        self.task = self.agent.create_task(self.project, "t")["id"]
        self.other = self.agent.create_task(self.project, "other")["id"]

    def lose(self, answers: int = 1) -> None:
        self.transport.losses = answers
        self.transport.lost.clear()

    def count(self, kind: str) -> int:
        found = self.server.admin.get("/api/v1/audit", params={"kind": kind, "limit": 1000}).json()["items"]
        return len(found)


@pytest.fixture
def scene(twin: Twin, server: Ringfence) -> Scene:
    return Scene(twin, server)


CREATES: dict[str, tuple[str, Callable[[Any, Scene], Any]]] = {
    "create_project": ("project_created", lambda agent, scene: agent.create_project("once")),
    "create_task": ("task_created", lambda agent, scene: agent.create_task(scene.project, "once")),
    "send_message": ("message_sent", lambda agent, scene: agent.send_message("hermes", "once")),
    "broadcast": ("message_sent", lambda agent, scene: agent.broadcast("once")),
    "comment": ("task_commented", lambda agent, scene: agent.comment(scene.project, scene.task, "once")),
    "submit_checkpoint": ("checkpoint_submitted", lambda agent, scene: agent.submit_checkpoint(state="once")),
    "add_dependency": (
        "task_dependency_added",
        lambda agent, scene: agent.add_dependency(scene.project, scene.task, scene.other),
    ),
    "register": ("agent_registered", lambda agent, scene: agent.register()),
}


@pytest.mark.parametrize("name", CREATES)
def test_what_is_created_is_created_once(scene: Scene, name: str) -> None:
    kind, create = CREATES[name]
    create(scene.agent, scene) if name == "send_message" else None
    before = scene.count(kind)
    scene.lose(2)
    created = create(scene.agent, scene)
    assert len(scene.transport.lost) == 2
    assert created
    assert scene.count(kind) == before + 1
    keys = {request.headers["idempotency-key"] for request in scene.transport.sent[-3:]}
    assert len(keys) == 1


def test_the_answer_of_a_repeated_create_is_the_first_ones(scene: Scene) -> None:
    scene.lose()
    task = scene.agent.create_task(scene.project, "once")
    assert [found["id"] for found in scene.agent.list_tasks(scene.project) if found["title"] == "once"] == [task["id"]]


def test_a_lost_registration_still_gives_the_agent_its_token(twin: Twin, server: Ringfence) -> None:
    transport = Lossy(losses=1)
    agent = twin.agent("newcomer", transport=transport)
    assert agent.register()["token"].startswith("rfag_")
    assert len(transport.lost) == 1
    agent.create_project("as itself")
    event = server.admin.get("/api/v1/audit", params={"kind": "project_created", "limit": 1}).json()["items"][0]
    assert (event["actor"], event["via"]) == ("agent:newcomer", None)


def test_a_lost_enrolment_spends_one_use(twin: Twin, server: Ringfence) -> None:
    token = server.admin.post("/api/v1/enrolments", json={"uses": 1}).json()["token"]
    agent = twin.agent("newcomer", enrolment=token, transport=Lossy(losses=1))
    assert agent.register()["token"]
    assert agent.heartbeat()


def test_a_lost_claim_is_still_mine(scene: Scene) -> None:
    scene.lose()
    assert scene.agent.claim_task(scene.project, scene.task)["ok"] is True
    assert scene.count("task_claimed") == 1


def test_a_lost_move_is_done_once(scene: Scene) -> None:
    scene.lose()
    assert scene.agent.transition_task(scene.project, scene.task, "ready") is True
    assert scene.count("task_transition") == 1
    scene.lose()
    assert scene.agent.move_task(scene.project, scene.task, "blocked", blocked_reason="why")["status"] == "blocked"
    assert scene.count("task_transition") == 2


def test_a_lost_move_that_was_refused_is_refused(scene: Scene) -> None:
    scene.lose()
    assert scene.agent.transition_task(scene.project, scene.task, "done") is False


def test_a_lost_release_is_done_once(scene: Scene) -> None:
    scene.agent.claim_task(scene.project, scene.task)
    scene.lose()
    assert scene.agent.release_task(scene.project, scene.task)["claimed_by"] is None
    assert scene.count("task_released") == 1


def test_a_lost_unassign_is_done_once(scene: Scene) -> None:
    scene.agent.claim_task(scene.project, scene.task)
    scene.lose()
    assert scene.agent.unassign_task(scene.project, scene.task) is True


def test_a_lost_removal_is_a_removal(scene: Scene) -> None:
    scene.agent.upload_file(scene.project, "notes.txt", b"x")
    scene.agent.add_dependency(scene.project, scene.task, scene.other)
    scene.lose()
    assert scene.agent.delete_file(scene.project, "notes.txt") is True
    scene.lose()
    assert scene.agent.remove_dependency(scene.project, scene.task, scene.other)["waiting_for"] == []
    scene.lose()
    assert scene.agent.delete_task(scene.project, scene.task) is True
    assert scene.agent.delete_task(scene.project, scene.task) is False  # this one was gone before


def test_a_lost_upload_is_there_once(scene: Scene) -> None:
    scene.lose()
    assert scene.agent.upload_file(scene.project, "dir/notes.txt", b"\0\xff")["size"] == 2
    assert scene.agent.download_file(scene.project, "dir/notes.txt") == b"\0\xff"
    assert len(scene.agent.list_files(scene.project)) == 1


def test_a_lost_decision_is_one(twin: Twin, scene: Scene) -> None:
    transport = Lossy()
    operator = twin.operator(transport=transport)
    scene.agent.set_autonomy_mode("advisory")
    proposed = scene.agent.claim_task(scene.project, scene.task)["proposal"]
    transport.losses = 1
    assert operator.approve_proposal(proposed["id"])["state"] == "approved"
    other = scene.agent.claim_task(scene.project, scene.other)["proposal"]
    with pytest.raises(errors.Conflict):
        operator.approve_proposal(proposed["id"])
    transport.losses = 1
    assert operator.deny_proposal(other["id"], "not now")["state"] == "denied"
    third = scene.agent.create_task(scene.project, "propose this")["proposal"]
    scene.lose()
    assert scene.agent.withdraw_proposal(third["id"])["state"] == "withdrawn"


def test_reads_are_asked_for_again(scene: Scene) -> None:
    scene.lose(3)
    assert scene.agent.get_project(scene.project)["name"] == "p"
    assert len(scene.transport.lost) == 3


def test_claiming_the_next_task_again_gives_the_same_one(scene: Scene) -> None:
    scene.lose(2)
    claimed = scene.agent.claim_next(scene.project)
    assert claimed["id"] == scene.task
    assert len(scene.transport.lost) == 2
    assert len({request.headers["idempotency-key"] for request in scene.transport.sent[-3:]}) == 1
    assert scene.count("task_claimed") == 1
    assert [task["id"] for task in scene.agent.get_my_tasks()] == [scene.task]
    assert scene.agent.claim_next(scene.project)["id"] == scene.other  # asked anew, not again


def test_every_try_says_who_asks(scene: Scene) -> None:
    sent: list[httpx.Request] = scene.transport.sent
    scene.lose(2)
    scene.agent.create_project("once")
    assert len({request.headers["authorization"] for request in sent[-3:]}) == 1
