"""Tasks as they are written and found."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ringfence.board import model, store
from ringfence.board.acting import Acting
from ringfence.board.dependencies import Dependencies
from ringfence.board.journal import add_move, record
from ringfence.board.model import Priority, Project, Status, Task, Waiting
from ringfence.crew.model import Mode
from ringfence.crew.proposals.model import Proposal
from ringfence.crew.proposals.service import Proposals
from ringfence.crew.service import Crew
from ringfence.kernel.auth.model import Principal, Role, check_name
from ringfence.kernel.database import Transaction
from ringfence.kernel.errors import Forbidden, Invalid, NotFound, RuleBroken
from ringfence.kernel.ids import new

ANCESTORS = 10_000  # a longer line of parents is a mistake
TOLD = 200  # characters of a description
BEFORE_ALL = (-1, -1, "")


@dataclass(frozen=True, slots=True)
class Edit:
    """What may be changed of a task; None: left as it is."""

    title: str | None = None
    description: str | None = None
    priority: Priority | None = None
    required_capabilities: tuple[str, ...] | None = None
    required_reviewers: int | None = None
    labels: tuple[str, ...] | None = None
    parent_task_id: str | None = None
    no_parent: bool = False

    def changes(self) -> dict[str, Any]:
        fields = ("title", "description", "priority", "required_capabilities", "required_reviewers", "labels")
        found = {name: value for name in fields if (value := getattr(self, name)) is not None}
        if self.no_parent:
            found["parent_task_id"] = None
        elif self.parent_task_id is not None:
            found["parent_task_id"] = self.parent_task_id
        return found


class Tasks:
    def __init__(self, acting: Acting, dependencies: Dependencies, crew: Crew, proposals: Proposals) -> None:
        self._acting = acting
        self._projects = acting.projects
        self._dependencies = dependencies
        self._crew = crew
        self.find = acting.task
        proposals.performers["create_task"] = self._perform_create
        proposals.performers["edit_task"] = self._perform_edit
        proposals.performers["delete_task"] = self._perform_delete

    def page(
        self, tx: Transaction, by: Principal, filters: dict[str, Any], after: tuple[int, int, str] | None, limit: int
    ) -> list[Task]:
        """Tasks by priority, then age; fewer than `limit` only at the end."""
        if (project := filters.get("project")) is not None:
            self._projects.find(tx, by, project, change=False)
        if (label := filters.get("label")) is not None:
            filters = {**filters, "label": store.like(f'"{label}"')}
        if (text := filters.get("q")) is not None:
            filters = {**filters, "q": store.like(text), "q_id": text}
        query = store.listing(frozenset(filters) - {"q_id"})
        values = {name: value for name, value in filters.items() if name != "unblocked"}
        seen: dict[str, bool] = {}
        found: list[Task] = []
        place = after or BEFORE_ALL
        while True:
            rows = tx.rows(
                query, after_priority=place[0], after_created=place[1], after_id=place[2], limit=limit, **values
            )
            for task in map(store.task_of, rows):
                place = _place(task)
                if task.project_id not in seen:
                    seen[task.project_id] = project is not None or self._sees(tx, by, task.project_id)
                if seen[task.project_id]:
                    found.append(task)
            if len(rows) < limit or len(found) >= limit:
                return found[:limit]

    def ready(
        self, tx: Transaction, by: Principal, project_id: str, agent: str | None, tags: Iterable[str], limit: int
    ) -> list[Waiting]:
        """What `agent` could claim now, most urgent first; without an agent, what anybody could."""
        project = self._projects.find(tx, by, project_id, change=False)
        if by.is_agent:
            by.acting_for(agent or by.name)
            agent = agent or by.name
        wanted = _wanted(tags)
        standing = self._crew.standing(tx, agent) if agent is not None else None
        if standing is not None and standing.registered:
            wanted = standing.capabilities if wanted is None else standing.capabilities & wanted
        queue = self._queue(tx, project, agent, limit)
        return list(islice((task for task in queue if _within(task, wanted)), limit))

    def claimable(
        self, tx: Transaction, by: Principal, project_id: str, agent: str, tags: Iterable[str]
    ) -> Waiting | None:
        """The most urgent task that `agent` may claim, by what is known of it; `tags` only narrow that."""
        project = self._projects.find(tx, by, project_id)
        standing, wanted = self._crew.standing(tx, agent), _wanted(tags)
        capable = standing.capabilities if wanted is None else standing.capabilities & wanted
        assigned = standing.mode is Mode.MANUAL and (by.is_agent or agent != by.name)
        for task in self._queue(tx, project, agent, 100):
            if _within(task, capable) and (task.assigned_to == agent or not assigned):
                return task
        return None

    def _queue(self, tx: Transaction, project: Project, agent: str | None, chunk: int) -> Iterator[Waiting]:
        """The ready queue, read as far as it is asked for."""
        place = BEFORE_ALL
        while True:
            rows = tx.rows(
                store.READY_QUEUE,
                project=project.id, agent=agent or "", anybody=int(agent is None),
                priority=place[0], created_at=place[1], id=place[2], limit=chunk,
            )  # fmt: skip
            for task in map(store.waiting_of, rows):
                place = _place(task)
                yield task
            if len(rows) < chunk:
                return

    def _sees(self, tx: Transaction, by: Principal, project_id: str) -> bool:
        try:
            self._projects.find(tx, by, project_id, change=False)
        except NotFound:
            return False
        return True

    def unfinished(self, tx: Transaction, task: Task) -> list[str]:
        """The predecessors that `task` still waits for."""
        return [row[0] for row in tx.rows(store.UNFINISHED, task=task.id)]

    def create(
        self,
        tx: Transaction,
        by: Principal,
        project_id: str,
        creator: str | None,
        edit: Edit,
        *,
        assigned_to: str | None = None,
        depends_on: Iterable[str] = (),
        status: Status = Status.BACKLOG,
        approved: bool = False,
    ) -> Task | Proposal:
        project = self._projects.find(tx, by, project_id)
        doer = self._acting.doer(tx, by, creator, "create tasks")
        if status not in model.WAITING:
            raise Invalid(f"a new task is in backlog or ready, not in {status}")
        self._agent_writes(tx, by, edit, project)
        if edit.parent_task_id is not None:
            self._acting.same_project(tx, project, edit.parent_task_id, "parent_task_id")
        if assigned_to is not None:
            check_name(assigned_to, "assigned_to")
            if doer.agent is not None and assigned_to != doer.name and not doer.coordinates and not doer.is_operator:
                raise Forbidden("assigning takes the scope coordinator: leave out assigned_to", project=project.id)
            if doer.agent is not None and doer.agent.mode is Mode.MANUAL and assigned_to == doer.name and not approved:
                raise Forbidden(
                    f"{doer.name} is in manual mode: it works on what a person assigns to it",
                    code="autonomy_manual", project=project.id, agent=doer.name,
                )  # fmt: skip
            self._projects.check_sees(tx, project, assigned_to)
            self._acting.capable(tx, project, assigned_to, edit.required_capabilities or (), None)
        asked = {"assigned_to": assigned_to, "depends_on": list(depends_on), "status": status.value}
        payload = {"title": edit.title or "", **_as_payload(edit), **asked}
        if (proposal := self._acting.proposed(tx, doer, approved, "create_task", project, None, payload)) is not None:
            return proposal
        task = Task(
            new("tsk"), project.id, edit.title or "", edit.description or "", status,
            Priority.P2 if edit.priority is None else edit.priority,
            assigned_to, None, edit.required_capabilities or (),
            1 if edit.required_reviewers is None else edit.required_reviewers, (), doer.name,
            edit.parent_task_id, edit.labels or (), None, None, None, (), tx.now, tx.now, None, None, None,
        )  # fmt: skip
        self._projects.admit(tx, project.id, status, assigned_to, task.id)
        tx.run(store.ADD_TASK, **store.columns(task))
        add_move(tx, task, "", status.value, doer.name, "created")
        for other in dict.fromkeys(depends_on):
            self._dependencies.add(tx, project, task, other)
        summary = {
            "id": task.id, "title": task.title, "status": task.status.value, "priority": int(task.priority),
            "assigned_to": task.assigned_to, "required_capabilities": list(task.required_capabilities),
        }  # fmt: skip
        record(tx, "task_created", doer.actor, task, {"task": summary})
        return self._dependencies.settle(tx, task)

    def edit(
        self,
        tx: Transaction,
        by: Principal,
        project_id: str,
        task_id: str,
        agent: str | None,
        edit: Edit,
        *,
        approved: bool = False,
    ) -> Task | Proposal:
        project, task = self._acting.to_change(tx, by, project_id, task_id)
        doer = self._acting.doer(tx, by, agent, "edit tasks")
        changes = edit.changes()
        self._acting.own(doer, task, "edits")
        self._agent_writes(tx, by, edit, project)
        proposal = self._acting.proposed(tx, doer, approved, "edit_task", project, task, _as_payload(edit))
        if proposal is not None:
            return proposal
        if edit.parent_task_id is not None:
            self._check_parent(tx, project, task, edit.parent_task_id)
        changed = task._replace(updated_at=tx.now, **changes)
        store.save(tx, task, changed)
        now, was = _told(_as_payload(edit)), _told(_as_payload(_as_edit(task)))
        told = {"changed": sorted(changes), "to": now, "was": {name: was.get(name) for name in now}}
        record(tx, "task_changed", doer.actor, changed, told)
        return changed

    def delete(
        self,
        tx: Transaction,
        by: Principal,
        project_id: str,
        task_id: str,
        agent: str | None = None,
        *,
        approved: bool = False,
    ) -> list[str] | Proposal:
        """Remove the task. What waited for it is blocked, with the reason. Returns checksums nothing names any more."""
        project, task = self._acting.to_change(tx, by, project_id, task_id)
        doer = self._acting.doer(tx, by, agent, "delete tasks")
        self._acting.own(doer, task, "deletes")
        if (proposal := self._acting.proposed(tx, doer, approved, "delete_task", project, task, {})) is not None:
            return proposal
        rows = [] if task.status is Status.DONE else tx.rows(store.SUCCESSORS, task=task.id)
        waiting = {found.id: found for found in [*map(store.task_of, rows), *self._dependencies.blocked_by(tx, task)]}
        checksums = [row[1] for row in tx.rows(store.FILES, project=project.id, task=task.id, cursor="", limit=100_000)]
        tx.run(store.DELETE_FILES_OF_TASK, project=project.id, task=task.id)
        tx.run(store.DELETE_TASK, id=task.id)
        record(tx, "task_deleted", doer.actor, task, {"title": task.title})
        gone = f"waited for “{task.title}” ({task.id}), which was deleted"
        self._dependencies.orphan(tx, waiting.values(), gone)
        if task.holder is not None:
            self._projects.refresh_current(tx, task.holder)
        return [checksum for checksum in checksums if tx.row(store.CHECKSUM_USED, checksum=checksum) is None]

    def comment(self, tx: Transaction, by: Principal, project_id: str, task_id: str, body: str) -> str:
        """The id of the new comment."""
        _, task = self._acting.to_change(tx, by, project_id, task_id)
        self._acting.doer(tx, by, None, "comment")
        comment_id = new("cmt")
        tx.run(store.ADD_COMMENT, id=comment_id, task_id=task.id, author=by.name, body=body, created_at=tx.now)
        told = {"comment": comment_id, "author": by.name, "body": body[:200]}
        record(tx, "task_commented", by.actor, task, told, agent=task.holder)
        return comment_id

    def delete_comment(self, tx: Transaction, by: Principal, project_id: str, task_id: str, comment_id: str) -> None:
        _, task = self._acting.to_change(tx, by, project_id, task_id)
        self._acting.doer(tx, by, None, "delete comments")
        row = tx.row(store.COMMENT, id=comment_id, task=task.id)
        if row is None:
            raise NotFound(f"there is no comment {comment_id!r:.80} on this task")
        if not by.may(Role.OPERATOR) and row[2] != by.name:
            raise Forbidden("only its author or an operator deletes a comment", subject=task.id)
        tx.run(store.DELETE_COMMENT, id=comment_id)
        record(tx, "task_comment_deleted", by.actor, task, {"comment": comment_id, "author": row[2]})

    def _agent_writes(self, tx: Transaction, by: Principal, edit: Edit, project: Project) -> None:
        """What people may write and agents may not: work that nobody reviews."""
        if by.is_agent and edit.required_reviewers is not None and edit.required_reviewers < 1:
            raise RuleBroken(
                "a task that an agent writes takes at least one reviewer", code="review_missing", project=project.id
            )

    def _check_parent(self, tx: Transaction, project: Project, task: Task, parent_id: str) -> None:
        parent: Task | None = self._acting.same_project(tx, project, parent_id, "parent_task_id")
        for _ in range(ANCESTORS):
            if parent is None:
                return
            if parent.id == task.id:
                raise RuleBroken("a task cannot be its own ancestor", code="parent_cycle", subject=task.id)
            row = tx.row(store.TASK, id=parent.parent_task_id) if parent.parent_task_id else None
            parent = None if row is None else store.task_of(row)

    def _perform_create(self, tx: Transaction, by: Principal, proposal: Proposal) -> object:
        asked = proposal.payload
        return self.create(
            tx, by, proposal.project or "", proposal.agent, _from_payload(asked),
            assigned_to=asked["assigned_to"], depends_on=asked["depends_on"],
            status=Status(asked["status"]), approved=True,
        )  # fmt: skip

    def _perform_edit(self, tx: Transaction, by: Principal, proposal: Proposal) -> object:
        return self.edit(tx, by, *where(proposal), proposal.agent, _from_payload(proposal.payload), approved=True)

    def _perform_delete(self, tx: Transaction, by: Principal, proposal: Proposal) -> object:
        return self.delete(tx, by, *where(proposal), proposal.agent, approved=True)


def where(proposal: Proposal) -> tuple[str, str]:
    return proposal.project or "", proposal.task or ""


def _place(task: Task | Waiting) -> tuple[int, int, str]:
    return int(task.priority), task.created_at, task.id


def _wanted(tags: Iterable[str]) -> frozenset[str] | None:
    return frozenset(tag.strip().lower() for tag in tags) or None


def _within(task: Waiting, capabilities: frozenset[str] | None) -> bool:
    return capabilities is None or capabilities.issuperset(task.required_capabilities)


def _as_payload(edit: Edit) -> dict[str, Any]:
    return {
        name: value.name if isinstance(value, Priority) else list(value) if isinstance(value, tuple) else value
        for name, value in edit.changes().items()
    }


def _as_edit(task: Task) -> Edit:
    """The edit that would make the task what it is."""
    return Edit(
        task.title, task.description, task.priority, task.required_capabilities, task.required_reviewers, task.labels,
        task.parent_task_id, no_parent=task.parent_task_id is None,
    )  # fmt: skip


def _told(payload: dict[str, Any]) -> dict[str, Any]:
    """As an event says it: a long text by its beginning."""
    return {name: value[:TOLD] if name == "description" else value for name, value in payload.items()}


def _from_payload(asked: dict[str, Any]) -> Edit:
    parent = asked.get("parent_task_id")
    tags, labels = asked.get("required_capabilities"), asked.get("labels")
    return Edit(
        title=asked.get("title"),
        description=asked.get("description"),
        priority=Priority[asked["priority"]] if "priority" in asked else None,
        required_capabilities=None if tags is None else tuple(tags),
        required_reviewers=asked.get("required_reviewers"),
        labels=None if labels is None else tuple(labels),
        parent_task_id=parent,
        no_parent="parent_task_id" in asked and parent is None,
    )
