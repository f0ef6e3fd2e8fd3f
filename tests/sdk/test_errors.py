"""The server's errors arrive as the SDK's own, with all that was said."""

import inspect
from pathlib import Path

import pytest

from ringfence import AgentClient
from ringfence.kernel import errors as theirs
from ringfence.sdk import errors
from tests.harness import Ringfence, running
from tests.sdk.conftest import Twin


def _classes(module: object) -> dict[str, type]:
    return {name: kind for name, kind in vars(module).items() if inspect.isclass(kind) and issubclass(kind, Exception)}


def test_every_error_of_the_server_has_its_class_here() -> None:
    ours = _classes(errors)
    for name, kind in _classes(theirs).items():
        if name in ("RingfenceError", "Refused"):
            continue
        title = kind.default_code.replace("_", " ")  # type: ignore[attr-defined]
        assert errors._BY_TITLE[title] is ours[name]
        assert issubclass(ours[name], errors.Refused) == issubclass(kind, theirs.Refused)


def test_the_tree_that_is_drawn_is_the_tree_there_is() -> None:
    drawn = [line for line in (errors.__doc__ or "").splitlines() if "─" in line]
    names = {line.split("─ ")[1].split()[0] for line in drawn}
    assert names == _classes(errors).keys() - {"RingfenceError"}


def test_an_error_carries_what_the_server_said_and_what_was_asked(twin: Twin) -> None:
    agent = twin.registered()
    with pytest.raises(errors.NotFound) as caught:
        agent.get_project("prj_none")
    error = caught.value
    assert (error.status, error.code) == (404, "not_found")
    assert error.asked == "GET /projects/prj_none"
    assert error.request_id is not None
    assert error.request_id.startswith("req_")
    assert "project not found" in error.detail
    assert str(error) == f"{error.detail} [GET /projects/prj_none, 404 not_found, request {error.request_id}]"


def test_a_lost_race_tells_who_won(twin: Twin) -> None:
    winner, loser = twin.registered("winner"), twin.registered("loser")
    project = winner.create_project("race")["id"]
    task = winner.create_task(project, "t", "")["id"]
    winner.claim_task(project, task)
    with pytest.raises(errors.Conflict, match="already claimed by winner") as caught:
        loser.claim_task(project, task)
    assert caught.value.claimed_by == "winner"


def test_a_broken_rule_tells_what_is_allowed(twin: Twin) -> None:
    agent = twin.registered()
    project = agent.create_project("p")["id"]
    task = agent.create_task(project, "t")["id"]
    with pytest.raises(errors.RuleBroken) as caught:
        agent.move_task(project, task, "done")
    assert caught.value.details["allowed"] == ["ready", "blocked"]


def test_a_documented_path_that_answers_404_as_400_is_still_not_found(twin: Twin) -> None:
    agent = twin.registered()
    project = agent.create_project("p")["id"]
    with pytest.raises(errors.NotFound, match="Task not found") as caught:
        agent.claim_task(project, "tsk_none")
    assert caught.value.status == 400


def test_a_wrong_token_is_unauthenticated(twin: Twin) -> None:
    with pytest.raises(errors.Unauthenticated):
        twin.agent(token="rfag_wrong").list_projects()


def test_an_agent_is_forbidden_what_operators_do(twin: Twin) -> None:
    agent = twin.registered()
    project = agent.create_project("p")["id"]
    assert agent.set_wip_limit(project, "in_progress", 9) is False
    operator = twin.operator(token=agent._identity.token)
    with pytest.raises(errors.Forbidden) as caught:
        operator.pause_agent("claude")
    assert caught.value.code == "role"


def test_a_mistake_of_the_program_is_raised_where_a_refusal_is_false(twin: Twin) -> None:
    agent = twin.registered()
    project = agent.create_project("p")["id"]
    task = agent.create_task(project, "t")["id"]
    assert agent.transition_task(project, task, "done") is False
    with pytest.raises(errors.Invalid):
        agent.transition_task(project, task, "finished")
    with pytest.raises(TypeError):
        agent.transition_task(project)
    with pytest.raises(ValueError, match="a name or an id"):
        agent.transition_task(project, "", "ready")


def test_too_many_messages_say_when_the_next_one_may_go(template: Path, tmp_path: Path) -> None:
    with (
        running(tmp_path / "data", template, message_rate=2) as server,
        AgentClient(server.url, "claude", token=server.admin_token) as agent,
    ):
        agent.register()
        agent.send_message("hermes", "1")
        agent.send_message("hermes", "2")
        with pytest.raises(errors.RateLimited) as caught:
            agent.send_message("hermes", "3")
        assert caught.value.retry_after is not None
        assert 30 < caught.value.retry_after <= 60
        server.clock.advance(58.5)
        assert agent.send_message("hermes", "after a wait")["content"] == "after a wait"


def test_a_server_that_is_not_there_is_unreachable(twin: Twin, server: Ringfence) -> None:
    agent = twin.agent(url="http://127.0.0.1:9", token="rfag_x", retries=1)
    with pytest.raises(errors.Unreachable) as caught:
        agent.list_projects()
    assert not caught.value.maybe_done
    assert agent.heartbeat() is False
    assert agent.unregister() is False
    assert agent.ensure_registered() is False
