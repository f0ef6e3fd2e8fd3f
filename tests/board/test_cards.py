"""What the board's page is made of: every task of a project, small, or those that changed."""

from typing import Any

import pytest

from tests.board.conftest import Project, refused


def cards(project: Project, *ids: str) -> list[dict[str, Any]]:
    found = project.admin.get(f"/api/v1{project.path}/cards", params={"id": list(ids)} if ids else {})
    assert found.status_code == 200, found.text
    return list(found.json()["cards"])


def test_a_card_says_what_the_task_says(project_on_either: Project):
    project = project_on_either
    first = project.task("first", labels=["ui"], required_capabilities=["code"], priority="P1", description="x" * 1000)
    second = project.task("second", depends_on=[first], parent_task_id=first, priority="P0")
    project.act(first, "comments", body="one")
    project.act(first, "comments", body="two")
    whole = cards(project)
    assert [card["id"] for card in whole] == [second, first]
    assert cards(project, first, second, "tsk_nobody") == [whole[1], whole[0]]
    for card in whole:
        task = project.show(card["id"])
        same = card.keys() & task.keys() - {"subtasks"}
        assert {name: card[name] for name in same} == {name: task[name] for name in same}
        assert "description" not in card
    assert (whole[1]["subtasks"], whole[1]["comments"]) == (1, 2)
    assert whole[0]["waiting_for"] == [first]


def test_a_task_of_another_project_is_no_card_of_this_one(project: Project):
    other = Project(project.server)
    assert cards(project, other.task()) == []


def test_the_board_says_where_a_task_may_go(project: Project):
    claude = project.agent()
    told = project.admin.get(f"/api/v1{project.path}/cards").json()
    for status, allowed in told["moves"].items():
        task = project.task()
        if status == "held":
            project.claimed(task, claude)
        else:
            ways = {
                "ready": ["ready"], "in_progress": ["ready", "in_progress"], "blocked": ["blocked"],
                "in_review": ["ready", "in_progress", "in_review"],
                "done": ["ready", "in_progress", "in_review", "done"],
            }  # fmt: skip
            project.moved(task, *ways.get(status, []))
        assert refused(project.move(task, status.replace("held", "done")), 400, "invalid_transition")["allowed"] == (
            allowed
        )


def test_limits_come_along(project: Project):
    project.limit("in_progress", 7, scope="column")
    told = project.admin.get(f"/api/v1{project.path}/cards").json()
    assert told["wip_limits"] == project.admin.get(f"/api/v1{project.path}/wip").json()


@pytest.mark.parametrize("many", [201, 500])
def test_too_many_ids_are_refused(project: Project, many: int):
    answer = project.admin.get(f"/api/v1{project.path}/cards", params={"id": ["tsk_x"] * many})
    refused(answer, 400, "invalid_query")


def test_who_does_not_see_the_project_sees_no_cards(project: Project):
    secret = Project(project.server, visibility="members")
    stranger = project.agent()
    assert stranger.client.get(f"/api/v1{secret.path}/cards").status_code == 404
    assert stranger.client.get(f"/api/v1{project.path}/cards").status_code == 200
