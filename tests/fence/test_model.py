"""The rules of a sandbox's life."""

import dataclasses
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence.fence.model import (
    CRASH_WINDOW,
    CRASHES,
    FLOW,
    LIMITS,
    NAME,
    SHORT_LIFE,
    Action,
    Enforced,
    Limits,
    OnCrash,
    Sandbox,
    State,
    User,
    Wanted,
    check_sandbox_name,
    crash_delay,
    crashes_with,
    is_crash_loop,
    is_needed,
    unenforceable,
    with_defaults,
)
from ringfence.kernel.clock import SECOND
from ringfence.kernel.errors import Conflict, Invalid

BOX = Sandbox(
    id="sbx_1", name="box", node="nod_1", labels={}, owner="operator:ann", project=None, agent=None, runtime="dummy",
    image="host", user=User.AGENT, read_only=False, memory_disk=False, limits=Limits(), best_effort=False, env={},
    snapshot=None, on_crash=OnCrash.RESTART, ttl=None, expires_at=None, idle_timeout=None, state=State.CREATING,
    wanted=Wanted.RUNNING, enforced=Enforced(), life=None, cause=None, error="", restarts=0, crashes=(), created_at=0,
    started_at=None, ended_at=None, active_at=0, destroyed_at=None,
)  # fmt: skip

# What each action does when it succeeds: written from the drawing, not from the code.
LEADS = {
    Action.START: State.RUNNING,
    Action.STOP: State.STOPPED,
    Action.PAUSE: State.PAUSED,
    Action.RESUME: State.RUNNING,
    Action.DESTROY: State.DESTROYED,
    Action.RESTART: State.RUNNING,
    Action.RECREATE: State.CREATING,
}


def test_an_action_is_done_needed_or_refused_with_what_to_do_instead():
    for state in State:
        box = dataclasses.replace(BOX, state=state)
        for action in Action:
            try:
                needed = is_needed(action, box)
            except Conflict as refusal:
                assert refusal.code == f"sandbox_{state}"
                assert re.search(r"(wait|resume|start|create|logs)", refusal.message), refusal.message
                continue
            if not needed:
                assert LEADS[action] is state or (action is Action.STOP and state in (State.FAILED, State.LOST))


@given(st.lists(st.sampled_from(list(LEADS)), max_size=12))
def test_whatever_is_asked_the_life_follows_the_drawing(actions: list[Action]):
    box = dataclasses.replace(BOX, state=State.RUNNING)
    for action in actions:
        try:
            needed = is_needed(action, box)
        except Conflict:
            continue
        if not needed:
            continue
        if action is Action.RESTART and box.state is not State.STOPPED:
            box = box.stepped(State.STOPPED) if box.state is not State.FAILED else box
        box = box.stepped(LEADS[action])
        if box.state is State.CREATING:
            box = box.stepped(State.RUNNING)
    assert box.state in State


def test_nothing_follows_destroyed_and_everything_can_be_destroyed():
    assert not FLOW[State.DESTROYED]
    assert all(State.DESTROYED in FLOW[state] for state in State if state is not State.DESTROYED)
    with pytest.raises(AssertionError):
        dataclasses.replace(BOX, state=State.DESTROYED).stepped(State.RUNNING)


def test_paused_stopped_and_unfinished_sandboxes_cannot_be_used():
    for state in State:
        box = dataclasses.replace(BOX, state=state)
        if state is State.RUNNING:
            assert is_needed(Action.USE, box)
        else:
            with pytest.raises(Conflict):
                is_needed(Action.USE, box)


# Crashes --------------------------------------------------------------------------------------------------------------

lives = st.lists(
    st.tuples(st.integers(0, 3 * SHORT_LIFE // SECOND), st.one_of(st.none(), st.integers(0, 200))), max_size=30
)


@given(lives)
def test_a_loop_is_five_short_lives_within_ten_minutes_and_nothing_else(history: list[tuple[int, int | None]]):
    now, short = 0, list[int]()
    crashes: tuple[int, ...] = ()
    for gap, lived in history:
        now += gap * SECOND
        crashes = crashes_with(crashes, now, None if lived is None else lived * SECOND)
        if lived is None or lived < 60:
            short.append(now)
        within = [at for at in short if now - at < CRASH_WINDOW]
        assert is_crash_loop(crashes) == (len(within) >= CRASHES)


@given(st.lists(st.integers(0, 10**9), max_size=CRASHES - 1))
def test_what_is_no_loop_is_started_again_soon(crashes: list[int]):
    assert 0 <= crash_delay(crashes) <= 1


# Names and limits -----------------------------------------------------------------------------------------------------


@given(st.text(alphabet="abcz019-._A/ \n\0é", max_size=70))
def test_a_name_is_one_label_of_a_dns_name(name: str):
    if re.fullmatch(r"[a-z0-9-]{1,63}", name) and not name.startswith("-") and not name.endswith("-"):
        assert check_sandbox_name(name) == name
        assert re.search(NAME, name)
    else:
        with pytest.raises(Invalid):
            check_sandbox_name(name)


sizes = st.one_of(st.none(), st.integers(1, 1000))
some_limits = st.builds(Limits, memory=sizes, cpus=sizes, pids=sizes, disk=sizes)


@given(some_limits, some_limits, st.booleans(), st.sets(st.sampled_from(LIMITS)), st.booleans())
def test_what_was_asked_for_is_strict_and_defaults_are_not(
    asked: Limits, defaults: Limits, best_effort: bool, can: set[str], memory_disk: bool
):
    limits = with_defaults(asked, defaults, best_effort=best_effort)
    for name in LIMITS:
        wanted = getattr(asked, name)
        assert getattr(limits, name) == (getattr(defaults, name) if wanted is None else wanted)
        assert (name in limits.requested) == (wanted is not None and not best_effort)
    lacking = unenforceable(limits, dict.fromkeys(can, "somehow"), memory_disk=memory_disk)
    if lacking is None:
        assert limits.requested <= can | ({"disk"} if memory_disk else set())
    else:
        assert lacking in limits.requested
        assert lacking not in can
