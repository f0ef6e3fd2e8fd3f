"""Tasks that wait for other tasks.

A task is claimable when all it depends on is done. One that depends on a blocked task is blocked with it, for the
same reason, and returns to where it was when that passes; one whose predecessor was deleted stays blocked until a
person looks. Lines of tasks are long: what passes along them does so in a loop, not by recursion.
"""

from collections.abc import Callable, Iterable
from functools import partial

from ringfence.board import model, store
from ringfence.board.acting import THE_BOARD, Acting, Doer, Going
from ringfence.board.journal import record, step
from ringfence.board.model import Project, Status, Task
from ringfence.crew.proposals.model import Proposal
from ringfence.crew.proposals.service import Proposals
from ringfence.kernel.auth.model import Principal
from ringfence.kernel.database import Transaction
from ringfence.kernel.errors import NotFound, RuleBroken
from ringfence.kernel.events.model import SYSTEM, Actor


class Dependencies:
    def __init__(self, acting: Acting, proposals: Proposals) -> None:
        self._acting = acting
        for action, use_case in (("depend", self.depend), ("independ", self.independ)):
            proposals.performers[action] = partial(_perform, use_case)

    def depend(
        self,
        tx: Transaction,
        by: Principal,
        project_id: str,
        task_id: str,
        other: str,
        agent: str | None = None,
        *,
        approved: bool = False,
    ) -> Task | Proposal:
        """Let the task wait for another."""
        project, task = self._acting.to_change(tx, by, project_id, task_id)
        doer = self._tying(tx, by, task, agent)
        asked = {"depends_on": other}
        if (proposal := self._acting.proposed(tx, doer, approved, "depend", project, task, asked)) is not None:
            return proposal
        if self.add(tx, project, task, other):
            record(tx, "task_dependency_added", doer.actor, task, asked)
        return self.settle(tx, task)

    def independ(
        self,
        tx: Transaction,
        by: Principal,
        project_id: str,
        task_id: str,
        other: str,
        agent: str | None = None,
        *,
        approved: bool = False,
    ) -> Task | Proposal:
        """Let the task wait for the other no longer."""
        project, task = self._acting.to_change(tx, by, project_id, task_id)
        doer = self._tying(tx, by, task, agent)
        asked = {"depends_on": other}
        if tx.row(store.EDGE, task=task.id, other=other) is None:
            raise NotFound(f"the task does not depend on {other!r:.80}")
        if (proposal := self._acting.proposed(tx, doer, approved, "independ", project, task, asked)) is not None:
            return proposal
        tx.run(store.REMOVE_EDGE, task=task.id, other=other)
        record(tx, "task_dependency_removed", doer.actor, task, asked)
        if task.blocked_by == other and task.blocked_from is not None:
            return self.unblock(tx, task, "it waits for it no longer")
        return task

    def _tying(self, tx: Transaction, by: Principal, task: Task, agent: str | None) -> Doer:
        doer = self._acting.doer(tx, by, agent, "edit tasks")
        self._acting.own(doer, task, "ties")
        return doer

    def add(self, tx: Transaction, project: Project, task: Task, other: str) -> bool:
        """False when the task waits for the other already."""
        self._acting.same_project(tx, project, other, "depends_on")
        if tx.row(store.EDGE, task=task.id, other=other) is not None:
            return False
        if other == task.id or tx.row(store.SUCCESSORS, task=task.id) is not None:  # else nothing leads back
            edges: dict[str, list[str]] = {}
            for before, after in tx.rows(store.EDGES, project=project.id):
                edges.setdefault(before, []).append(after)
            if (circle := _path(edges, other, task.id)) is not None:
                told = [*circle[:20], "…", task.id] if len(circle) > 21 else circle
                raise RuleBroken(
                    f"that would be a circle: {' → '.join([task.id, *told])}", code="dependency_cycle", subject=task.id
                )
        tx.run(store.ADD_EDGE, task_id=task.id, depends_on=other)
        return True

    def settle(self, tx: Transaction, task: Task) -> Task:
        """A task that has come to wait for a blocked one is blocked too."""
        if task.status not in model.WAITING or task.held or (cause := self._blocked_cause(tx, task)) is None:
            return task
        return self.block(tx, task, _because(*cause), cause[0], task.status)

    def _blocked_cause(self, tx: Transaction, task: Task) -> tuple[str, str, str | None, str | None] | None:
        """A blocked predecessor: its id, title, reason, and where it returns to."""
        for other_id, title, status, reason, blocked_from in tx.rows(store.UNFINISHED, task=task.id):
            if status == Status.BLOCKED:
                return other_id, title, reason, blocked_from
        return None

    def block_successors(self, tx: Transaction, task: Task, *, newly: bool = True) -> None:
        """Block what waits for it. Was it blocked already, for another reason, only those it blocks are told: one that
        a person let go on nevertheless goes on."""
        causes = [(task, newly)]
        while causes:
            cause, newly = causes.pop()
            because = _because(cause.id, cause.title, cause.blocked_reason, cause.blocked_from)
            for other in map(store.task_of, tx.rows(store.SUCCESSORS, task=cause.id)):
                waits = newly and other.status in model.WAITING and not other.held
                if waits or (other.blocked_by == cause.id and other.blocked_from is not None):
                    came = other.blocked_from or other.status
                    causes.append((self._block(tx, other, because, cause.id, came), waits))

    def unblock_successors(self, tx: Transaction, task: Task) -> None:
        passed = [task]
        while passed:
            cause = passed.pop()
            for other in self.blocked_by(tx, cause):
                if other.blocked_from is not None:
                    freed = self._unblock(tx, other, f"“{cause.title}” ({cause.id}) is no longer blocked")
                    if freed.status is not Status.BLOCKED:
                        passed.append(freed)

    def blocked_by(self, tx: Transaction, task: Task) -> list[Task]:
        return [store.task_of(row) for row in tx.rows(store.BLOCKED_BY, task=task.id)]

    def block(self, tx: Transaction, task: Task, reason: str, by: str | None, came: Status | None) -> Task:
        """The board itself blocks a task; where the cause may pass, it remembers where the task returns to."""
        blocked = self._block(tx, task, reason, by, came)
        self.block_successors(tx, blocked)
        return blocked

    def orphan(self, tx: Transaction, tasks: Iterable[Task], reason: str) -> None:
        """What these waited for is gone: they stay blocked until a person looks."""
        found = [task for task in tasks if task.status in model.WAITING or task.status is Status.BLOCKED]
        # All of them before what follows from any: one may wait for another.
        for task, blocked in [(task, self._block(tx, task, reason, None, None)) for task in found]:
            self.block_successors(tx, blocked, newly=task.status is not Status.BLOCKED)

    def _block(self, tx: Transaction, task: Task, reason: str, by: str | None, came: Status | None) -> Task:
        if task.status is Status.BLOCKED:
            return self._still_blocked(tx, task, reason, by, came)
        going = Going(Status.BLOCKED, reason, reason, by)
        blocked = step(tx, THE_BOARD, task, Status.BLOCKED, reason, going)._replace(blocked_from=came)
        store.save(tx, task, blocked)
        return blocked

    def _still_blocked(self, tx: Transaction, task: Task, reason: str, by: str | None, came: Status | None) -> Task:
        blocked = task._replace(blocked_reason=reason, blocked_by=by, blocked_from=came, updated_at=tx.now)
        store.save(tx, task, blocked)
        changed = {"blocked_reason": reason, "blocked_by": by}
        was = {"blocked_reason": task.blocked_reason, "blocked_by": task.blocked_by}
        record(tx, "task_changed", SYSTEM, blocked, {"changed": sorted(changed), "to": changed, "was": was})
        return blocked

    def unblock(self, tx: Transaction, task: Task, reason: str) -> Task:
        """What blocked it has passed: back to where it was, unless something else blocks it too."""
        freed = self._unblock(tx, task, reason)
        if freed.status is not Status.BLOCKED:
            self.unblock_successors(tx, freed)
        return freed

    def _unblock(self, tx: Transaction, task: Task, reason: str) -> Task:
        to = task.blocked_from or Status.READY
        if (cause := self._blocked_cause(tx, task)) is not None:
            return self._still_blocked(tx, task, _because(*cause), cause[0], to)
        freed = self.kept(tx, SYSTEM, step(tx, THE_BOARD, task, to, reason))
        store.save(tx, task, freed)
        return freed

    def kept(self, tx: Transaction, by: Actor, task: Task) -> Task:
        """A task that was blocked and claimed comes back to its claimant, while the WIP limits have room for it."""
        if not task.held:
            return task
        try:
            self._acting.projects.admit(tx, task.project_id, Status.IN_PROGRESS, task.claimed_by, task.id)
        except RuleBroken as full:
            told = {"agent": task.claimed_by, "title": task.title, "reason": full.message}
            record(tx, "task_released", by, task, told, agent=task.claimed_by)
            return task.released()
        return task


def _perform(use_case: Callable[..., object], tx: Transaction, by: Principal, proposal: Proposal) -> object:
    where = proposal.project or "", proposal.task or "", proposal.payload["depends_on"]
    return use_case(tx, by, *where, proposal.agent, approved=True)


def _because(task_id: str, title: str, reason: str | None, blocked_from: str | None) -> str:
    """Why a successor is blocked: the first cause, however long the line to it is."""
    if blocked_from is not None and reason is not None:
        return reason
    return f"waits for “{title}” ({task_id}), which is blocked" + (f": {reason}" if reason else "")


def _path(edges: dict[str, list[str]], start: str, goal: str) -> list[str] | None:
    """A way from `start` to `goal`, or None."""
    came: dict[str, str | None] = {start: None}
    ahead = [start]
    while ahead:
        here = ahead.pop()
        if here == goal:
            way = [here]
            while (before := came[way[-1]]) is not None:
                way.append(before)
            return way[::-1]
        for following in edges.get(here, []):
            if following not in came:
                came[following] = here
                ahead.append(following)
    return None
