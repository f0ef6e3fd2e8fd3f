"""What a task's history is told: a line for each move, and the event that goes with each change."""

from typing import Any

from ringfence.board import model, store
from ringfence.board.acting import Doer, Going
from ringfence.board.model import Move, Status, Task
from ringfence.kernel.clock import iso
from ringfence.kernel.database import Transaction
from ringfence.kernel.events.model import Actor
from ringfence.kernel.ids import new


def step(tx: Transaction, doer: Doer, task: Task, to: Status, note: str, going: Going | None = None) -> Task:
    """One step, with its line in the task's history and its event; the caller saves the task."""
    moved = model.stepped(task, to, tx.now)
    if to is Status.BLOCKED and going is not None:
        moved = moved._replace(blocked_reason=going.blocked_reason or None, blocked_by=going.blocked_by or None)
    line = Move(task.status.value, to.value, iso(tx.now), doer.name).as_json()
    moved = moved._replace(recent=(*task.recent, line)[-model.RECENT :])
    add_move(tx, moved, task.status.value, to.value, doer.name, note)
    told = {
        "title": task.title,
        "old_status": task.status.value,
        "new_status": to.value,
        "by": doer.name,
        "note": note,
        "assigned_to": moved.assigned_to,
        "claimed_by": moved.claimed_by,
    }
    if to is Status.BLOCKED:
        told |= {"blocked_reason": moved.blocked_reason, "blocked_by": moved.blocked_by}
    record(tx, "task_transition", doer.actor, moved, told, agent=task.holder)
    return moved


def add_move(tx: Transaction, task: Task, came: str, went: str, by: str, note: str) -> None:
    tx.run(
        store.ADD_MOVE,
        id=new("mov"), task_id=task.id, project_id=task.project_id, came=came, went=went,
        at=tx.now, by=by, note=note, agent=task.assigned_to,
    )  # fmt: skip


def record(tx: Transaction, kind: str, by: Actor, task: Task, told: dict[str, Any], agent: str | None = None) -> None:
    tx.record(
        kind, by, {"project": task.project_id, "task_id": task.id, "title": task.title, **told},
        project=task.project_id, subject=task.id, agent=agent,
    )  # fmt: skip
