"""How each deed of a demo agent is done: as that agent, by the room's own use case."""

from collections.abc import Callable, Iterable
from functools import partial
from random import Random

from ringfence.board.acting import Going
from ringfence.board.model import Status, Task
from ringfence.board.service import Board
from ringfence.board.tasks import Edit
from ringfence.crew.checkpoints import Checkpoints
from ringfence.crew.control import Control
from ringfence.crew.messages.model import compose
from ringfence.crew.messages.service import Messages
from ringfence.crew.model import Mode
from ringfence.crew.proposals.model import Proposal
from ringfence.crew.proposals.service import Proposals
from ringfence.crew.service import Crew
from ringfence.demo import story
from ringfence.demo.model import Act, Deed, Demo, Scene
from ringfence.kernel.auth.model import Principal, TokenKind
from ringfence.kernel.database import Transaction

Doing = Callable[[Transaction, Demo, Scene, Act, Random], object]


class Acts:
    def __init__(
        self,
        crew: Crew,
        control: Control,
        checkpoints: Checkpoints,
        proposals: Proposals,
        messages: Messages,
        board: Board,
    ) -> None:
        self._crew = crew
        self._control = control
        self._checkpoints = checkpoints
        self._proposals = proposals
        self._messages = messages
        self._board = board
        self._doing: dict[Deed, Doing] = {
            Deed.CLAIM: self._claim,
            Deed.START: partial(self._move, to=Status.IN_PROGRESS),
            Deed.CHECKPOINT: self._report,
            Deed.COMMENT: self._comment,
            Deed.HAND_IN: partial(self._move, to=Status.IN_REVIEW, words=("ready to be looked at",)),
            Deed.REWORK: partial(self._move, to=Status.IN_PROGRESS, words=story.REWORK),
            Deed.REVIEW: self._review,
            Deed.FINISH: partial(self._move, to=Status.DONE),
            Deed.BLOCK: partial(self._move, to=Status.BLOCKED, words=story.BLOCKS),
            Deed.UNBLOCK: partial(self._move, to=Status.READY, words=(story.UNBLOCKED,)),
            Deed.WRITE: self._write_next,
            Deed.REOPEN: partial(self._move, to=Status.BACKLOG, words=("it came back on staging",)),
            Deed.TELL: self._tell,
            Deed.ANSWER: self._answer,
            Deed.ACKNOWLEDGE_REVOCATION: self._halt,
        }

    def do(self, tx: Transaction, demo: Demo, scene: Scene, act: Act, chance: Random) -> None:
        self._doing[act.deed](tx, demo, scene, act, chance)

    # What the beginning of the story uses, too ----------------------------------------------------------------------

    def write(self, tx: Transaction, by: Principal, project: str, draft: story.Draft, after: Iterable[str]) -> str:
        """The id of the task, or of the proposal to write it."""
        edit = Edit(
            title=draft.title,
            description=draft.about,
            priority=draft.priority,
            required_capabilities=draft.capabilities,
            labels=draft.labels,
        )
        status = Status.READY if draft.status is Status.READY else Status.BACKLOG
        return self._board.tasks.create(tx, by, project, by.name, edit, depends_on=after, status=status).id

    def checkpoint(self, tx: Transaction, agent: str, task: str, state: str, rationale: str) -> None:
        self._checkpoints.submit(
            tx, actor_of(agent), agent, task_id=task, state=state, rationale=rationale, metadata={}
        )

    def send(
        self, tx: Transaction, sender: str, to: str, text: str, *, thread: str | None = None, answers: str | None = None
    ) -> None:
        who = actor_of(sender)
        links = self._messages.links
        outgoing = compose(who, links, sender=sender, to=to, content=text, thread=thread, reply_to=answers)
        self._messages.send(tx, outgoing)

    def propose_claim(self, tx: Transaction, project: str, agent: str, why: str) -> Proposal | None:
        """What claiming comes to for an advisory agent, with the reason that a person is to weigh."""
        who = actor_of(agent)
        task = self._board.tasks.claimable(tx, who, project, agent, ())
        if task is None:
            return None
        return self._proposals.propose(
            tx, who.actor, agent, "claim", project=project, task=task.id, payload={}, why=why
        )

    def next_to_write(self, tasks: Iterable[Task]) -> story.Draft | None:
        known = {task.title for task in tasks}
        return next((draft for draft in story.LATER if draft.title not in known), None)

    # What a step does -----------------------------------------------------------------------------------------------

    def _claim(self, tx: Transaction, demo: Demo, scene: Scene, act: Act, chance: Random) -> None:
        worker = next(one for one in scene.workers if one.name == act.agent)
        if worker.mode is Mode.ADVISORY:
            self.propose_claim(tx, demo.project, act.agent, chance.choice(story.REASONS))
        else:
            self._board.flow.claim_next(tx, actor_of(act.agent), demo.project, act.agent, ())

    def _move(
        self,
        tx: Transaction,
        demo: Demo,
        scene: Scene,
        act: Act,
        chance: Random,
        *,
        to: Status,
        words: tuple[str, ...] = ("",),
    ) -> None:
        said = chance.choice(words)
        going = Going(to, "", said) if to is Status.BLOCKED else Going(to, said)
        self._board.flow.move(tx, actor_of(act.agent), demo.project, act.task or "", act.agent, going)

    def _report(self, tx: Transaction, demo: Demo, scene: Scene, act: Act, chance: Random) -> None:
        self.checkpoint(tx, act.agent, act.task or "", chance.choice(story.STATES), chance.choice(story.RATIONALES))

    def _comment(self, tx: Transaction, demo: Demo, scene: Scene, act: Act, chance: Random) -> None:
        text = chance.choice(story.COMMENTS)
        self._board.tasks.comment(tx, actor_of(act.agent), demo.project, act.task or "", text)

    def _review(self, tx: Transaction, demo: Demo, scene: Scene, act: Act, chance: Random) -> None:
        who, task = actor_of(act.agent), act.task or ""
        if chance.random() < 0.5:
            self._board.tasks.comment(tx, who, demo.project, task, chance.choice(story.REVIEWED))
        self._board.flow.review(tx, who, demo.project, task, act.agent)

    def _write_next(self, tx: Transaction, demo: Demo, scene: Scene, act: Act, chance: Random) -> None:
        draft = self.next_to_write(scene.tasks)
        if draft is not None:
            self.write(tx, actor_of(act.agent), demo.project, draft, ())

    def _tell(self, tx: Transaction, demo: Demo, scene: Scene, act: Act, chance: Random) -> None:
        others = [worker.name for worker in scene.workers if worker.name != act.agent]
        if others:
            self.send(tx, act.agent, chance.choice(others), chance.choice(story.TOLD))

    def _answer(self, tx: Transaction, demo: Demo, scene: Scene, act: Act, chance: Random) -> None:
        who = actor_of(act.agent)
        unread, _ = self._messages.inbox(tx, who, act.agent, unread=True, limit=1)
        for message in unread:
            self._messages.mark_delivered(tx, act.agent, [message.id])
            self._messages.acknowledge(tx, who, message.id)
            if message.sender in demo.agents and message.reply_to is None:
                self.send(tx, act.agent, message.sender, chance.choice(story.ANSWERED), answers=message.id)

    def _halt(self, tx: Transaction, demo: Demo, scene: Scene, act: Act, chance: Random) -> None:
        """It was revoked, and says that it has stopped."""
        directive = self._crew.agent(tx, act.agent).revocation
        if directive is not None:
            self._control.acknowledge(tx, actor_of(act.agent), act.agent, directive)


def actor_of(agent: str) -> Principal:
    """The agent itself: it holds no token, so nobody but the demo is it."""
    return Principal(TokenKind.AGENT, agent)
