"""Use cases of the demo. Whatever happens in it goes through the rooms' own services, as the agents themselves."""

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from random import Random

from ringfence.board.acting import Going
from ringfence.board.model import Status
from ringfence.board.service import Board
from ringfence.crew.checkpoints import Checkpoints
from ringfence.crew.control import Control
from ringfence.crew.messages.service import Messages
from ringfence.crew.model import Agent
from ringfence.crew.proposals.service import Proposals
from ringfence.crew.service import Crew, Registration, check_unlimited
from ringfence.demo import store, story
from ringfence.demo.acts import Acts, actor_of
from ringfence.demo.model import LIFE, PACE, PULSE, Demo, Scene, Worker, choose
from ringfence.kernel.auth.model import Principal, TokenKind
from ringfence.kernel.auth.service import Auth
from ringfence.kernel.database import Transaction
from ringfence.kernel.errors import NotFound, RingfenceError

TYPE = "demo"
NEWEST = "~"
ALL = 1000
DUE = 4  # heartbeats since the last checkpoint


@dataclass(frozen=True, slots=True)
class Rooms:
    """What the demo plays in."""

    auth: Auth
    crew: Crew
    control: Control
    checkpoints: Checkpoints
    proposals: Proposals
    messages: Messages
    board: Board


class Demos:
    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        self._acts = Acts(rooms.crew, rooms.control, rooms.checkpoints, rooms.proposals, rooms.messages, rooms.board)

    def find(self, tx: Transaction, by: Principal) -> Demo | None:
        row = tx.row(store.DEMO)
        demo = None if row is None else store.demo(row)
        return demo if demo is not None and by.sees(demo.project) else None

    # Starting -------------------------------------------------------------------------------------------------------

    def start(self, tx: Transaction, by: Principal) -> Demo:
        """The demo, living from now on; the one there is, if there is one."""
        check_unlimited(by, "start the demo")
        row = tx.row(store.DEMO_HELD)
        if row is not None and self._is_there(tx, store.demo(row)):
            return self._wake(tx, by, store.demo(row))
        if row is not None:
            self._clear(tx, by, store.demo(row))
        names = {role.name: self._free_name(tx, role.name) for role in story.CREW}
        project = self._rooms.board.projects.create(tx, by, story.PROJECT, by.name, "members").id
        demo = Demo(project, tuple(names.values()), tx.now, by.name, tx.now + LIFE, tx.now + PACE, 0)
        tx.run(store.ADD, **store.columns(demo))
        for role in story.CREW:
            self._hire(tx, by, project, names[role.name], role)
        self._set_limits(tx, by, project)
        self._write_board(tx, by, project, names)
        self._talk(tx, names)
        self._propose(tx, project, names)
        tx.record("demo_started", by.actor, {"project": project, "agents": list(demo.agents)}, project=project)
        return demo

    def _is_there(self, tx: Transaction, demo: Demo) -> bool:
        """People may delete its project like any other."""
        with contextlib.suppress(NotFound):
            self._rooms.board.projects.find(tx, _nobody(), demo.project, change=False)
            return True
        return False

    def _wake(self, tx: Transaction, by: Principal, demo: Demo) -> Demo:
        if tx.now < demo.lives_until:
            return demo
        tx.run(store.RENEW, until=tx.now + LIFE, at=tx.now)
        told = {"project": demo.project, "agents": list(demo.agents)}
        tx.record("demo_started", by.actor, told, project=demo.project)
        return replace(demo, lives_until=tx.now + LIFE, next_at=tx.now)

    def _free_name(self, tx: Transaction, wanted: str) -> str:
        """People may have an agent of that name: the demo's is another."""
        name, number = wanted, 1
        while self._rooms.auth.is_agent(tx, name) or self._rooms.auth.named(tx, name):
            number += 1
            name = f"{wanted}-{number}"
        return name

    def _hire(self, tx: Transaction, by: Principal, project: str, name: str, role: story.Role) -> None:
        """An agent without a token: nobody but the demo can be it."""
        told = {"demo": project, "role": role.does}
        wanted = Registration(name=name, type=TYPE, metadata=told, capabilities=role.capabilities)
        agent, _ = self._rooms.crew.register(tx, actor_of(name), wanted)
        if agent.mode is not role.mode:
            self._rooms.control.set_mode(tx, by, name, role.mode, None)
        self._rooms.board.projects.join(tx, by, project, name)

    def _set_limits(self, tx: Transaction, by: Principal, project: str) -> None:
        limits = self._rooms.board.projects.set_limit
        limits(tx, by, project, Status.IN_PROGRESS, 2, None, "agent")
        limits(tx, by, project, Status.IN_REVIEW, 5, None, "column")

    def _write_board(self, tx: Transaction, by: Principal, project: str, names: dict[str, str]) -> None:
        written: dict[str, str] = {}
        for draft in story.TASKS:
            after = [written[title] for title in draft.after]
            written[draft.title] = self._acts.write(tx, by, project, draft, after)
            for author, text in draft.comments:
                self._rooms.board.tasks.comment(tx, actor_of(names[author]), project, written[draft.title], text)
            if draft.agent is not None:
                reviewer = None if draft.reviewer is None else names[draft.reviewer]
                self._bring_on(tx, project, written[draft.title], draft, names[draft.agent], reviewer)

    def _bring_on(
        self, tx: Transaction, project: str, task: str, draft: story.Draft, agent: str, reviewer: str | None
    ) -> None:
        """Let the agent take the task as far as the story has it."""
        flow, who = self._rooms.board.flow, actor_of(agent)
        flow.claim(tx, who, project, task)
        flow.move(tx, who, project, task, agent, Going(Status.IN_PROGRESS))
        if draft.state:
            self._acts.checkpoint(tx, agent, task, draft.state, story.RATIONALES[0])
        if draft.status is Status.BLOCKED:
            flow.move(tx, who, project, task, agent, Going(Status.BLOCKED, "", draft.blocked_reason))
        if draft.status in (Status.IN_REVIEW, Status.DONE):
            flow.move(tx, who, project, task, agent, Going(Status.IN_REVIEW, "ready to be looked at"))
        if draft.status is Status.DONE and reviewer is not None:
            flow.review(tx, actor_of(reviewer), project, task, reviewer)
            flow.move(tx, who, project, task, agent, Going(Status.DONE))

    def _talk(self, tx: Transaction, names: dict[str, str]) -> None:
        for sender, to, text in story.TALK:
            self._acts.send(tx, names[sender], names[to], text, thread=story.THREAD)
        for sender, to, text in story.NOTES:
            self._acts.send(tx, names[sender], names[to], text)

    def _propose(self, tx: Transaction, project: str, names: dict[str, str]) -> None:
        """What waits for a person from the first moment on: a claim, and a task to be written."""
        advisor = names[story.GRACE]
        self._acts.propose_claim(tx, project, advisor, story.REASONS[0])
        self._acts.write(tx, actor_of(advisor), project, story.EXTRA, [])

    # Living ---------------------------------------------------------------------------------------------------------

    def step(self, tx: Transaction) -> None:
        """A chore: what one agent does next, and everybody's sign of life."""
        row = tx.row(store.DEMO_HELD)
        demo = None if row is None else store.demo(row)
        if demo is None or not demo.next_at <= tx.now < demo.lives_until or not self._is_there(tx, demo):
            return
        tx.run(store.STEPPED, at=tx.now + PACE)
        agents = self._agents(tx, demo)
        for agent in agents:
            if tx.now - agent.last_heartbeat >= PULSE:
                self._rooms.crew.heartbeat(tx, actor_of(agent.name), agent.name)
        chance = Random(f"{demo.started_at} {demo.steps}")  # noqa: S311  nothing is kept safe by it
        scene = self._scene(tx, demo, agents)
        act = choose(scene, chance)
        if act is None:
            return
        with contextlib.suppress(RingfenceError), tx.savepoint():  # people changed something: then nothing happens
            self._acts.do(tx, demo, scene, act, chance)

    def _agents(self, tx: Transaction, demo: Demo) -> list[Agent]:
        """Those that are still the demo's own."""
        found = []
        for name in demo.agents:
            with contextlib.suppress(NotFound):
                agent = self._rooms.crew.agent(tx, name)
                if agent.type == TYPE and agent.metadata.get("demo") == demo.project:
                    found.append(agent)
        return found

    def _scene(self, tx: Transaction, demo: Demo, agents: Iterable[Agent]) -> Scene:
        tasks = self._rooms.board.tasks.page(tx, _nobody(), {"project": demo.project}, None, ALL)
        return Scene(
            now=tx.now,
            workers=tuple(self._worker(tx, demo, agent) for agent in agents),
            tasks=tuple(tasks),
            more_to_write=self._acts.next_to_write(tasks) is not None,
        )

    def _worker(self, tx: Transaction, demo: Demo, agent: Agent) -> Worker:
        rooms, name = self._rooms, agent.name
        who = actor_of(name)
        directive = None if agent.revocation is None else rooms.crew.revocation(tx, agent.revocation)
        pending, _ = rooms.proposals.page(tx, who, NEWEST, ALL, state="pending", agent=name, project="")
        unread, _ = rooms.messages.inbox(tx, who, name, unread=True, limit=1)
        return Worker(
            name=name,
            mode=agent.mode,
            paused=agent.paused_at is not None,
            halted_for=None if directive is None else tx.now - directive.issued_at,
            proposed=len(pending),
            unread=bool(unread),
            queue=rooms.board.tasks.claimable(tx, who, demo.project, name, ()) is not None,
            due=agent.tick >= DUE,
        )

    # Removing -------------------------------------------------------------------------------------------------------

    def remove(self, tx: Transaction, by: Principal) -> list[str]:
        """Remove all that the demo made, but for the events; the checksums of files that nothing names any more."""
        check_unlimited(by, "remove the demo")
        row = tx.row(store.DEMO_HELD)
        if row is None:
            raise NotFound("there is no demo here: POST /api/v1/demo makes one")
        return self._clear(tx, by, store.demo(row))

    def _clear(self, tx: Transaction, by: Principal, demo: Demo) -> list[str]:
        unused: list[str] = []
        with contextlib.suppress(NotFound):
            unused = self._rooms.board.projects.delete(tx, by, demo.project)
        for agent in self._agents(tx, demo):
            self._rooms.crew.erase(tx, by, agent.name)
            self._rooms.proposals.erase(tx, agent.name)
            self._rooms.messages.erase(tx, agent.name)
        tx.run(store.REMOVE)
        told = {"project": demo.project, "agents": list(demo.agents)}
        tx.record("demo_removed", by.actor, told, project=demo.project)
        return unused


def _nobody() -> Principal:
    return Principal(TokenKind.API, "system")
