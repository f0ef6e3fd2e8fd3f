"""The board against a small model of it, by random steps, through its services and a real database.

The model is written from the documents, not from the code: what each step is allowed, and what it changes. After every
step the stored board must be the model's, no limit may be exceeded, and the events alone must tell the same board.
"""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from ringfence.app import House, build
from ringfence.board import store
from ringfence.board.acting import Going
from ringfence.board.model import Status
from ringfence.board.tasks import Edit
from ringfence.crew.service import Registration
from ringfence.kernel import migrations
from ringfence.kernel.auth.model import Principal, Role, TokenKind
from ringfence.kernel.database import Query, Transaction, UseCase
from ringfence.kernel.errors import RingfenceError
from ringfence.kernel.events.model import SYSTEM, Event
from ringfence.kernel.events.service import verify
from ringfence.kernel.events.store import listing
from ringfence.settings import Settings

ADMIN = Principal(TokenKind.API, "admin", Role.ADMIN)
MOVES = {
    "backlog": {"ready", "blocked"},
    "ready": {"in_progress", "blocked", "backlog"},
    "in_progress": {"in_review", "blocked", "ready"},
    "in_review": {"done", "in_progress"},
    "blocked": {"ready", "backlog"},
    "done": {"backlog"},
}
WAITING = {"backlog", "ready"}
_numbers = itertools.count(1)


class No(Exception):
    """The model refuses a step."""


@dataclass
class Card:
    """A task as the model knows it."""

    id: str
    needs: frozenset[str]
    writer: str
    status: str = "backlog"
    assigned: str | None = None
    claimed: str | None = None
    signed: set[str] = field(default_factory=set)
    after: set[str] = field(default_factory=set)
    blocker: str | None = None  # the task that a person named as the cause
    came: str | None = None  # where it returns to, if the board blocked it

    @property
    def held(self) -> bool:
        return self.status == "ready" and self.claimed is not None

    @property
    def holder(self) -> str | None:
        return self.claimed or self.assigned

    @property
    def facts(self) -> tuple[object, ...]:
        return self.status, self.assigned, self.claimed, frozenset(self.signed)

    def let_go(self) -> None:
        if self.claimed == self.assigned:
            self.assigned = None
        self.claimed = None


class Model:
    def __init__(self) -> None:
        self.cards: dict[str, Card] = {}
        self.able: dict[str, frozenset[str]] = {}
        self.each = 2
        self.column: int | None = None

    def counted(self, agent: str | None, besides: Card) -> int:
        return sum(
            (card.status == "in_progress" or card.held) and (agent is None or card.assigned == agent)
            for card in self.cards.values()
            if card is not besides
        )

    def has_room(self, agent: str | None, card: Card) -> bool:
        mine = agent is None or self.counted(agent, card) < self.each
        return mine and (self.column is None or self.counted(None, card) < self.column)

    def need(self, true: object) -> None:
        if not true:
            raise No

    def waits(self, card: Card) -> bool:
        return any(self.cards[other].status != "done" for other in card.after)

    def capable(self, agent: str, card: Card) -> bool:
        return card.needs <= self.able[agent]

    # Steps

    def check_claim(self, agent: str, card: Card) -> None:
        self.need(not card.held and card.status in WAITING and card.assigned in (None, agent))
        self.need(self.capable(agent, card) and not self.waits(card) and self.has_room(agent, card))

    def claim(self, agent: str, card: Card) -> None:
        if card.held and card.claimed == agent:
            return
        self.check_claim(agent, card)
        card.status, card.claimed, card.assigned = "ready", agent, agent

    def move(self, agent: str | None, card: Card, to: str, blocker: Card | None) -> None:
        straight = card.held and to == "in_review"
        self.need(straight or to in MOVES[card.status])
        takes = agent is not None and to == "in_progress" and card.status == "ready" and card.claimed is None
        if agent is not None and takes:
            self.check_claim(agent, card)
        elif agent is not None:
            has = agent in (card.claimed, card.assigned)
            reviews = card.status == "in_review" and agent in card.signed
            grooms = card.holder is None and card.writer == agent and to != "backlog"
            self.need(has or reviews or grooms)
        worker = card.holder or agent
        if to == "in_progress" or straight:
            self.need(not self.waits(card))
            self.need(worker is None or self.capable(worker, card))
        if to == "done":
            signed = card.signed - {card.assigned, card.claimed} | ({"admin"} if agent is None else set())
            self.need(signed)
        if to == "in_progress":
            self.need(self.has_room(worker, card))
        if blocker is not None and to == "blocked":
            self.need(blocker is not card and blocker.status != "done")
        if takes:
            card.claimed = card.assigned = agent
        if to == "done" and agent is None:
            card.signed.add("admin")
        self.go(card, to, blocker)

    def go(self, card: Card, to: str, blocker: Card | None = None) -> None:
        came, card.status = card.status, to
        card.blocker = card.came = None
        match to:
            case "in_progress" if came == "in_review":
                card.signed = set()
            case "backlog":
                card.let_go()
                card.signed = set()
            case "ready" if came != "blocked":
                card.let_go()
            case "blocked":
                card.blocker = None if blocker is None else blocker.id
                self.block_followers(card)
            case "done":
                card.claimed = None
                for other in [each for each in self.cards.values() if each.blocker == card.id]:
                    self.free(other, "ready")
        if came == "blocked":
            self.keep(card)
            self.free_followers()
        else:
            self.settle(card)

    def keep(self, card: Card) -> None:
        if card.held and not self.has_room(card.claimed, card):
            card.let_go()

    def is_stuck(self, card: Card) -> bool:
        return any(self.cards[other].status == "blocked" for other in card.after)

    def free(self, card: Card, to: str) -> None:
        if self.is_stuck(card):
            card.blocker, card.came = None, card.came or to
        else:
            self.go(card, card.came or to)

    def free_followers(self) -> None:
        for card in list(self.cards.values()):
            if card.came is not None and not self.is_stuck(card):
                self.go(card, card.came)

    def settle(self, card: Card) -> None:
        if card.status in WAITING and not card.held and self.is_stuck(card):
            self.board_blocks(card)

    def board_blocks(self, card: Card) -> None:
        came, card.status = card.status, "blocked"
        card.came, card.blocker = came, None
        self.block_followers(card)

    def block_followers(self, card: Card) -> None:
        for other in self.cards.values():
            if card.id in other.after and other.status in WAITING and not other.held:
                self.board_blocks(other)

    def assign(self, card: Card, agent: str) -> None:
        self.need(card.status != "done" and self.capable(agent, card) and self.has_room(agent, card))
        came = card.status
        if came not in ("ready", "blocked"):
            card.let_go()
        card.status, card.blocker, card.came = "ready", None, None
        card.claimed = card.claimed if card.claimed == agent else None
        card.assigned = agent
        if came == "blocked":
            self.free_followers()

    def unassign(self, card: Card) -> None:
        came = card.status
        if came != "backlog":
            card.signed = set()
        card.status, card.assigned, card.claimed, card.blocker, card.came = "backlog", None, None, None, None
        if came == "blocked":
            self.free_followers()
        else:
            self.settle(card)

    def release(self, agent: str, card: Card) -> None:
        self.need(agent in (card.claimed, card.assigned) and (card.held or card.status == "in_progress"))
        card.status = "ready"
        card.let_go()
        self.settle(card)

    def lose(self, agent: str) -> None:
        for card in list(self.cards.values()):
            begun = card.status == "in_progress" and card.assigned == agent
            if begun or (card.claimed == agent and (card.held or card.status == "blocked")):
                card.status = "ready" if begun else card.status
                card.let_go()
                self.settle(card)

    def sign(self, agent: str, card: Card) -> None:
        self.need(agent not in (card.assigned, card.claimed))
        card.signed.add(agent)

    def depend(self, card: Card, other: Card) -> None:
        ahead, seen = [other], set()
        while ahead:
            here = ahead.pop()
            self.need(here is not card)
            if here.id not in seen:
                seen.add(here.id)
                ahead += [self.cards[each] for each in here.after]
        card.after.add(other.id)
        self.settle(card)

    def delete(self, card: Card) -> None:
        del self.cards[card.id]
        orphans = [
            other for other in self.cards.values()
            if (card.id in other.after and card.status != "done") or other.blocker == card.id
        ]  # fmt: skip
        for other in self.cards.values():
            other.after.discard(card.id)
        for other in orphans:
            if other.status in WAITING:
                other.status = "blocked"
                self.block_followers(other)
            if other.status == "blocked":
                other.came = other.blocker = None
        self.free_followers()


def replayed(events: list[Event]) -> dict[str, tuple[object, ...]]:
    """The board as its events alone tell it, every step of which follows the last."""
    cards: dict[str, Card] = {}
    for event, following in itertools.zip_longest(events, events[1:]):
        told, subject = event.payload, event.subject or ""
        card = cards.get(subject)
        if event.kind == "task_created":
            task = told["task"]
            cards[subject] = Card(subject, frozenset(), "", task["status"], task["assigned_to"])
        elif event.kind == "task_deleted":
            del cards[subject]
        elif card is None:
            continue
        elif event.kind == "task_transition":
            came, went = told["old_status"], told["new_status"]
            assert came == card.status, "a step begins where the last one ended"
            by_hand = following is not None and following.kind in ("task_assigned", "task_unassigned")
            assert went in MOVES[came] or (by_hand and went in WAITING and following.subject == subject), told
            card.status, card.assigned, card.claimed = went, told["assigned_to"], told["claimed_by"]
            if went == "backlog" or (came, went) == ("in_review", "in_progress"):
                card.signed = set()
        elif event.kind == "task_claimed":
            card.assigned = card.claimed = told["agent"]
        elif event.kind == "task_assigned":
            card.assigned, card.claimed = told["agent"], card.claimed if card.claimed == told["agent"] else None
        elif event.kind == "task_unassigned":
            card.assigned = card.claimed = None
        elif event.kind == "task_released":
            card.let_go()
        elif event.kind == "task_reviewer_added":
            card.signed.add(told["reviewer"])
    return {card.id: card.facts for card in cards.values()}


class Running:
    """A house without its doors, on a loop of the test's own."""

    def __init__(self, data: Path) -> None:
        configured = Settings(data=data)
        migrations.upgrade(configured)
        self.runner = asyncio.Runner()
        self.house: House = build(configured)
        self.runner.run(self.house.database.open())

    def write(self, use_case: UseCase[Any], by: Principal = ADMIN) -> Any:
        return self.runner.run(self.house.database.write(use_case, by.actor))

    def close(self) -> None:
        self.runner.run(self.house.database.close())
        self.runner.close()


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    found = Running(tmp_path_factory.mktemp("stateful"))
    yield found
    found.close()


ALL_TASKS = store.listing(frozenset({"project"}))
EVENTS = Query(listing(frozenset({"project"}), 0, newest_first=False))
NEXT = {"backlog": "ready", "ready": "in_progress", "in_progress": "in_review", "in_review": "done", "blocked": "ready",
        "done": "backlog"}  # fmt: skip


# Hypothesis likes small numbers and repeats itself: the steps of a seed differ with where it is met.
SEEDS = st.integers(0, 1 << 32)
BURST = 5


@dataclass(frozen=True)
class Step:
    """The same step on the board and in the model."""

    board: UseCase[Any]
    model: Callable[[Model], None]
    by: Principal = ADMIN


class BoardMachine(RuleBasedStateMachine):
    def __init__(self, running: Running) -> None:
        super().__init__()
        self.running = running
        self.house = running.house.board
        self.model = Model()
        self.steps = 0

    @initialize()
    def begin(self) -> None:
        number = next(_numbers)
        self.agents = [f"a{number}-{index}" for index in range(3)]
        able = (frozenset({"code"}), frozenset({"code", "docs"}), frozenset[str]())
        self.model.able = dict(zip(self.agents, able, strict=True))

        def set_up(tx: Transaction) -> str:
            for name, tags in self.model.able.items():
                self.running.house.crew.register(tx, ADMIN, Registration(name=name, capabilities=sorted(tags)))
            project = self.house.projects.create(tx, ADMIN, "x", "admin", "open")
            self.house.projects.set_limit(tx, ADMIN, project.id, Status.IN_PROGRESS, 2, None, "agent")
            self.house.projects.set_limit(tx, ADMIN, project.id, Status.IN_REVIEW, None, None, "agent")
            return project.id

        self.project: str = self.running.write(set_up)
        for needs, before in (
            ((), ()),
            (("code",), (0,)),
            ((), (1,)),
            ((), (0,)),
            ((), (2, 3)),
            (("code", "docs"), ()),
        ):
            self.write_task(ADMIN, needs, [list(self.model.cards)[at] for at in before])

    def write_task(self, by: Principal, needs: tuple[str, ...], before: list[str]) -> None:
        edit = Edit(title="x", required_capabilities=needs)
        made = self.running.write(
            lambda tx: self.house.tasks.create(tx, by, self.project, None, edit, depends_on=before), by
        )
        card = Card(made.id, frozenset(needs), by.name, after=set(before))
        self.model.cards[card.id] = card
        self.model.settle(card)

    def step(self, random: Random) -> Step:
        """Some step, possible or not."""
        flow, project = self.house.flow, self.project
        card = random.choice(list(self.model.cards.values()))
        task, other = card.id, random.choice(list(self.model.cards))
        name = random.choice(self.agents)
        agent = Principal(TokenKind.AGENT, name)
        by, mover = random.choice(((ADMIN, None), (agent, name), (agent, name)))
        to = random.choice((NEXT[card.status], NEXT[card.status], "blocked", random.choice(list(MOVES))))
        cause = other if to == "blocked" and random.random() < 0.5 else None
        going = Going(Status(to), blocked_by=cause)
        likely = [
            Step(
                lambda tx: flow.claim(tx, agent, project, task),
                lambda model: model.claim(name, model.cards[task]), agent,
            ),
            Step(
                lambda tx: flow.move(tx, by, project, task, None, going),
                lambda model: model.move(mover, model.cards[task], to, model.cards[cause] if cause else None), by,
            ),
        ]  # fmt: skip
        rare = [
            Step(
                lambda tx: flow.assign(tx, ADMIN, project, task, name, None),
                lambda model: model.assign(model.cards[task], name),
            ),
            Step(
                lambda tx: flow.unassign(tx, ADMIN, project, task),
                lambda model: model.unassign(model.cards[task]),
            ),
            Step(
                lambda tx: flow.release(tx, agent, project, task, None),
                lambda model: model.release(name, model.cards[task]), agent,
            ),
            Step(
                lambda tx: flow.release_all(tx, SYSTEM, name, "offline"),
                lambda model: model.lose(name),
            ),
            Step(
                lambda tx: flow.review(tx, agent, project, task, name),
                lambda model: model.sign(name, model.cards[task]), agent,
            ),
            Step(
                lambda tx: self.house.dependencies.depend(tx, ADMIN, project, task, other),
                lambda model: model.depend(model.cards[task], model.cards[other]),
            ),
            *[
                Step(
                    lambda tx: self.house.tasks.delete(tx, ADMIN, project, task),
                    lambda model: model.delete(model.cards[task]),
                )
                for _ in range(len(self.model.cards) > 5)
            ],
        ]  # fmt: skip
        return random.choice(random.choice((likely, likely, rare)))

    def after(self, step: Step) -> Model | None:
        """The model after the step; None: it refuses."""
        model = deepcopy(self.model)
        try:
            step.model(model)
        except No:
            return None
        return model

    @rule(seed=SEEDS)
    def try_anything(self, seed: int) -> None:
        random = Random(f"{seed} {self.steps}")
        for _ in range(BURST):
            self.take(self.step(random))

    @rule(seed=SEEDS)
    def do_what_is_possible(self, seed: int) -> None:
        random = Random(f"{seed} {self.steps}")
        for _ in range(BURST * 4):
            step = self.step(random)
            if self.after(step) is not None:
                self.take(step)

    def take(self, step: Step) -> None:
        self.steps += 1
        refusal = None
        try:
            self.running.write(step.board, step.by)
        except RingfenceError as error:
            refusal = error
        model = self.after(step)
        if model is None:
            assert refusal is not None, "the board did what the model refuses"
        else:
            assert refusal is None, f"the board refused: {refusal}"
            self.model = model
            self.check()

    @rule(seed=SEEDS)
    def create(self, seed: int) -> None:
        random = Random(seed)
        if len(self.model.cards) < 10:
            by = random.choice((ADMIN, Principal(TokenKind.AGENT, random.choice(self.agents))))
            before = [random.choice(list(self.model.cards)) for _ in range(random.randrange(3))]
            self.write_task(by, random.choice(((), ("code",))), before)

    @rule(each=st.integers(1, 3), column=st.one_of(st.none(), st.integers(2, 5)))
    def change_limits(self, each: int, column: int | None) -> None:
        """Lowering a limit takes nothing away; it is checked from what there is."""

        def change(tx: Transaction) -> None:
            for limit, scope in ((each, "agent"), (column, "column")):
                self.house.projects.set_limit(tx, ADMIN, self.project, Status.IN_PROGRESS, limit, None, scope)

        self.running.write(change)
        self.model.each, self.model.column = each, column

    @invariant()
    def the_board_is_the_models(self) -> None:
        if hasattr(self, "project"):
            self.check()

    def check(self) -> None:
        stored = self.running.write(
            lambda tx: [
                store.task_of(row)
                for row in tx.rows(
                    ALL_TASKS, project=self.project, after_priority=-1, after_created=-1, after_id="", limit=100
                )
            ]
        )
        found = {
            task.id: (task.status.value, task.assigned_to, task.claimed_by, frozenset(task.reviewers))
            for task in stored
        }
        assert found == {card.id: card.facts for card in self.model.cards.values()}
        for task in stored:
            assert (task.blocked_reason is None and task.blocked_by is None) or task.status is Status.BLOCKED
            assert task.claimed_by is None or task.claimed_by == task.assigned_to
            assert (task.completed_at is not None) == (task.status is Status.DONE)
            assert task.started_at is not None or task.status in (Status.BACKLOG, Status.READY, Status.BLOCKED)

    def teardown(self) -> None:
        if not hasattr(self, "project"):
            return
        events = self.running.write(
            lambda tx: [
                Event(*row) for row in tx.rows(EVENTS, cursor=-1, end=1 << 62, project=self.project, limit=10_000)
            ]
        )
        assert replayed(events) == {card.id: card.facts for card in self.model.cards.values()}
        verdict = self.running.runner.run(verify(self.running.house.database))
        assert verdict.ok, verdict.problem


def test_the_board_does_what_its_model_does(house: Running):
    run_state_machine_as_test(
        lambda: BoardMachine(house),  # type: ignore[arg-type]
        settings=settings(
            max_examples=20,
            stateful_step_count=20,
            phases=[Phase.generate],  # a seed cannot be made smaller
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
