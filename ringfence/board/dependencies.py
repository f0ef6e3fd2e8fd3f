"""Tasks that wait for other tasks.

A task is claimable when all it depends on is done. One that depends on a blocked task is blocked with it, and returns
to where it was when that passes; one whose predecessor was deleted stays blocked until a person looks.
"""

from ringfence.board import model, store
from ringfence.board.acting import THE_BOARD, Acting, Going
from ringfence.board.journal import record, step
from ringfence.board.model import Project, Status, Task
from ringfence.kernel.auth.model import Principal
from ringfence.kernel.database import Transaction
from ringfence.kernel.errors import NotFound, RuleBroken
from ringfence.kernel.events.model import SYSTEM


class Dependencies:
    def __init__(self, acting: Acting) -> None:
        self._acting = acting

    def depend(self, tx: Transaction, by: Principal, project_id: str, task_id: str, other: str) -> Task:
        """Let the task wait for another."""
        project, task = self._acting.to_change(tx, by, project_id, task_id)
        self._acting.own(self._acting.doer(tx, by, None, "edit tasks"), task, "ties")
        self.add(tx, project, task, other)
        record(tx, "task_dependency_added", by.actor, task, {"depends_on": other})
        return self.settle(tx, task)

    def independ(self, tx: Transaction, by: Principal, project_id: str, task_id: str, other: str) -> Task:
        _, task = self._acting.to_change(tx, by, project_id, task_id)
        self._acting.own(self._acting.doer(tx, by, None, "edit tasks"), task, "ties")
        if not tx.run(store.REMOVE_EDGE, task=task.id, other=other):
            raise NotFound(f"the task does not depend on {other!r:.80}")
        record(tx, "task_dependency_removed", by.actor, task, {"depends_on": other})
        if task.blocked_by == other and task.blocked_from is not None:
            return self.unblock(tx, task, "it waits for it no longer")
        return task

    def add(self, tx: Transaction, project: Project, task: Task, other: str) -> None:
        self._acting.same_project(tx, project, other, "depends_on")
        edges: dict[str, list[str]] = {}
        for before, after in tx.rows(store.EDGES, project=project.id):
            edges.setdefault(before, []).append(after)
        if other in edges.get(task.id, []):
            return
        if (circle := _path(edges, other, task.id)) is not None:
            raise RuleBroken(
                f"that would be a circle: {' → '.join([task.id, *circle])}", code="dependency_cycle", subject=task.id
            )
        tx.run(store.ADD_EDGE, task_id=task.id, depends_on=other)

    def settle(self, tx: Transaction, task: Task) -> Task:
        """A task that has come to wait for a blocked one is blocked too."""
        for other_id, title, status, reason in tx.rows(store.UNFINISHED, task=task.id):
            if status == Status.BLOCKED and task.status in model.WAITING and not task.held:
                return self.block(tx, task, _blocked_because(other_id, title, reason), other_id, task.status)
        return task

    def block_successors(self, tx: Transaction, task: Task) -> None:
        for row in tx.rows(store.SUCCESSORS, task=task.id):
            other = store.task_of(row)
            if other.status in model.WAITING and not other.held:
                because = _blocked_because(task.id, task.title, task.blocked_reason)
                self.block(tx, other, because, task.id, other.status)

    def unblock_successors(self, tx: Transaction, task: Task) -> None:
        for other in self.blocked_by(tx, task):
            if other.blocked_from is not None:
                self.unblock(tx, other, f"“{task.title}” ({task.id}) is no longer blocked")

    def blocked_by(self, tx: Transaction, task: Task) -> list[Task]:
        return [store.task_of(row) for row in tx.rows(store.BLOCKED_BY, task=task.id)]

    def block(self, tx: Transaction, task: Task, reason: str, by: str | None, came: Status | None) -> Task:
        """The board itself blocks a task; where the cause may pass, it remembers where the task returns to."""
        if task.status is Status.BLOCKED:
            blocked = task._replace(blocked_reason=reason, blocked_by=by, blocked_from=None, updated_at=tx.now)
            store.save(tx, task, blocked)
            record(tx, "task_changed", SYSTEM, blocked, {"changed": ["blocked_reason"], "blocked_reason": reason})
            return blocked
        going = Going(Status.BLOCKED, reason, reason, by)
        blocked = step(tx, THE_BOARD, task, Status.BLOCKED, reason, going)._replace(blocked_from=came)
        store.save(tx, task, blocked)
        self.block_successors(tx, blocked)
        return blocked

    def unblock(self, tx: Transaction, task: Task, reason: str) -> Task:
        to = task.blocked_from or Status.READY
        freed = step(tx, THE_BOARD, task, to, reason)
        store.save(tx, task, freed)
        self.unblock_successors(tx, freed)
        return freed


def _blocked_because(task_id: str, title: str, reason: str | None) -> str:
    return f"waits for “{title}” ({task_id}), which is blocked" + (f": {reason}" if reason else "")


def _path(edges: dict[str, list[str]], start: str, goal: str) -> list[str] | None:
    """A way from `start` to `goal`, or None."""
    ways, seen = [[start]], {start}
    while ways:
        way = ways.pop()
        if way[-1] == goal:
            return way
        for following in edges.get(way[-1], []):
            if following not in seen:
                seen.add(following)
                ways.append([*way, following])
    return None
