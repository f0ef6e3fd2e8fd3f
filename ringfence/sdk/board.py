"""Projects, files and tasks: what agents and operators do alike."""

from collections.abc import Iterable
from typing import Literal

from ringfence.sdk.asking import Asking
from ringfence.sdk.calls import Call, Repeat, Upload, content, file_path, given, path
from ringfence.sdk.errors import Forbidden, RuleBroken
from ringfence.sdk.steps import Steps, operation
from ringfence.sdk.views import (
    Board,
    Claimed,
    ClaimedNext,
    Comment,
    CreatedProject,
    Dependencies,
    Done,
    File,
    HistoryEntry,
    Limits,
    Metrics,
    Project,
    ProjectItem,
    Proposed,
    ReadyTask,
    Task,
    TaskItem,
    Uploaded,
    is_proposed,
)

V1 = ("api", "v1")
Tags = Iterable[str]


class Projects(Asking):
    @operation
    def create_project(
        self, name: str, *, visibility: Literal["open", "members"] | None = None
    ) -> Steps[CreatedProject]:
        return self._create(
            path(*V1, "projects"), CreatedProject, name=name, creator=self._acting, visibility=visibility
        )

    @operation
    def list_projects(self, agent: str | None = None) -> Steps[list[ProjectItem]]:
        """The projects you may see, or those that `agent` is a member of."""
        return self._list(path("projects"), ProjectItem, agent=agent)

    @operation
    def get_project(self, project_id: str) -> Steps[Project]:
        return self._get(path("projects", project_id), Project)

    @operation
    def delete_project(self, project_id: str) -> Steps[bool]:
        return self._agreed(self._remove(path("projects", project_id), Done))

    @operation
    def join_project(self, project_id: str, agent: str | None = None) -> Steps[bool]:
        """Make an agent, yourself when not named, a member."""
        return self._agreed(
            self._change("POST", path("projects", project_id, "join"), Done, {"agent": self._whom(agent)})
        )

    @operation
    def leave_project(self, project_id: str, agent: str | None = None) -> Steps[bool]:
        where = path(*V1, "projects", project_id, "leave")
        return self._agreed(self._change("POST", where, Done, {"agent": self._whom(agent)}))

    @operation
    def get_wip_limits(self, project_id: str) -> Steps[Limits]:
        return self._get(path(*V1, "projects", project_id, "wip"), Limits)

    @operation
    def set_wip_limit(
        self,
        project_id: str,
        status: str,
        limit: int | None,
        *,
        agent: str | None = None,
        scope: Literal["agent", "column"] = "agent",
    ) -> Steps[bool]:
        """Limit how many tasks may be in a column: of each agent, of one, or (scope `column`) of all together.

        None lifts the limit. For operators.
        """
        wanted = {"status": status, "limit": limit, "scope": scope, **given(agent=agent)}
        return self._agreed(self._change("PUT", path(*V1, "projects", project_id, "wip"), Done, wanted))

    @operation
    def get_board(self, project_id: str, lanes: Literal["none", "agent", "priority", "label"] = "none") -> Steps[Board]:
        """The columns with their tasks, cut into swim lanes."""
        return self._get(path(*V1, "projects", project_id, "board"), Board, lanes=lanes)

    @operation
    def metrics(self, project_id: str, days: int | None = None, agent: str | None = None) -> Steps[Metrics]:
        return self._get(path(*V1, "projects", project_id, "metrics"), Metrics, days=days, agent=agent)

    # Files ----------------------------------------------------------------------------------------------------------

    @operation
    def upload_file(self, project_id: str, filename: str, content: bytes) -> Steps[Uploaded]:
        """Put a file into the project; one of the same name is replaced."""
        where = path("projects", project_id, "files")
        return self._upload(where, Uploaded, Upload(filename, content), uploader=self._acting)

    @operation
    def download_file(self, project_id: str, filename: str) -> Steps[bytes]:
        where = file_path("projects", project_id, "files", name=filename)
        return self._ask(Call(method="GET", path=where, reads=content))

    @operation
    def list_files(self, project_id: str) -> Steps[list[File]]:
        return self._list(path("projects", project_id, "files"), File)

    @operation
    def delete_file(self, project_id: str, filename: str) -> Steps[bool]:
        return self._agreed(self._remove(file_path("projects", project_id, "files", name=filename), Done))


class Tasks(Asking):
    @operation
    def create_task(
        self,
        project_id: str,
        title: str,
        description: str = "",
        assigned_to: str | None = None,
        *,
        priority: str | None = None,
        required_capabilities: Tags | None = None,
        required_reviewers: int | None = None,
        parent_task_id: str | None = None,
        labels: Tags | None = None,
        depends_on: Iterable[str] | None = None,
        status: Literal["backlog", "ready"] | None = None,
    ) -> Steps[Task | Proposed]:
        """Write a task, with priority P0 (critical) to P3; P2 when not given."""
        return self._create(
            path("projects", project_id, "tasks"), Task,
            title=title, description=description, assigned_to=assigned_to, created_by=self._acting, priority=priority,
            required_capabilities=_list(required_capabilities), required_reviewers=required_reviewers,
            parent_task_id=parent_task_id, labels=_list(labels), depends_on=_list(depends_on), status=status,
        )  # fmt: skip

    @operation
    def list_tasks(
        self,
        project_id: str | None = None,
        *,
        status: str | None = None,
        agent: str | None = None,
        assigned_to: str | None = None,
        label: str | None = None,
        priority: str | None = None,
        search: str | None = None,
        parent_task_id: str | None = None,
        limit: int | None = None,
    ) -> Steps[list[Task]]:
        """Tasks by priority, then age: of a project, or all you may see. `agent`: assigned to it, or claimed by it."""
        where = path(*V1, "tasks") if project_id is None else path(*V1, "projects", project_id, "tasks")
        return self._list(
            where, Task, limit, status=status, agent=agent, assigned_to=assigned_to, label=label, priority=priority,
            q=search, parent=parent_task_id,
        )  # fmt: skip

    @operation
    def get_task(self, project_id: str, task_id: str) -> Steps[Task]:
        return self._get(_task(project_id, task_id), Task)

    @operation
    def ready_queue(
        self, project_id: str, *, agent: str | None = None, capabilities: Tags = (), limit: int | None = None
    ) -> Steps[list[ReadyTask]]:
        """What an agent, yourself when not named, could claim now, most urgent first."""
        return self._get(
            path("projects", project_id, "tasks", "ready"), list[ReadyTask],
            agent=agent or self._acting, capabilities=_list(capabilities), limit=limit,
        )  # fmt: skip

    @operation
    def edit_task(
        self,
        project_id: str,
        task_id: str,
        *,
        title: str | None = None,
        description: str | None = None,
        priority: str | None = None,
        required_capabilities: Tags | None = None,
        required_reviewers: int | None = None,
        labels: Tags | None = None,
        parent_task_id: str | None = None,
    ) -> Steps[Task | Proposed]:
        """Change what a task says; what is not given stays. An empty `parent_task_id`: no parent."""
        wanted = given(
            agent=self._acting, title=title, description=description, priority=priority,
            required_capabilities=_list(required_capabilities), required_reviewers=required_reviewers,
            labels=_list(labels), parent_task_id=parent_task_id,
        )  # fmt: skip
        return self._change("PATCH", _task(project_id, task_id), Task, wanted)

    @operation
    def delete_task(self, project_id: str, task_id: str) -> Steps[bool]:
        return self._agreed(self._remove(_task(project_id, task_id), Done))

    # Moving ---------------------------------------------------------------------------------------------------------

    def _move(
        self,
        project_id: str,
        task_id: str,
        status: str,
        blocked_reason: str | None,
        blocked_by: str | None,
        note: str | None,
    ) -> Steps[Task | Proposed]:
        """Moving is refused where the task already is, so a repeat looks whether the lost try had moved it."""
        where = _task(project_id, task_id)
        wanted = given(
            status=status, agent=self._acting, blocked_reason=blocked_reason, blocked_by=blocked_by, note=note
        )  # fmt: skip
        try:
            return (yield from self._change("PATCH", where, Task, wanted))
        except RuleBroken as error:
            if not error.repeated or error.code != "invalid_transition":
                raise
            task = yield from self._get(where, Task)
            if task["status"] != status:
                raise
            return task

    @operation
    def move_task(
        self,
        project_id: str,
        task_id: str,
        status: str,
        *,
        blocked_reason: str | None = None,
        blocked_by: str | None = None,
        note: str | None = None,
    ) -> Steps[Task | Proposed]:
        """Move a task, and get it as it is then; a refusal is raised, and says what is allowed."""
        return self._move(project_id, task_id, status, blocked_reason, blocked_by, note)

    @operation
    def transition_task(
        self,
        project_id: str,
        task_id: str,
        new_status: str,
        blocked_reason: str | None = None,
        blocked_by: str | None = None,
    ) -> Steps[bool]:
        """Move a task; False when that is refused, or waits for approval. `move_task` says why."""
        return self._agreed(self._move(project_id, task_id, new_status, blocked_reason, blocked_by, None))

    @operation
    def update_task(self, project_id: str, task_id: str, status: str) -> Steps[bool]:
        """As `transition_task`."""
        return self._agreed(self._move(project_id, task_id, status, None, None, None))

    # Claiming and assigning -----------------------------------------------------------------------------------------

    @operation
    def claim_task(self, project_id: str, task_id: str) -> Steps[Claimed | Proposed]:
        """Hold a task for yourself; of many that try, one gets it. `Conflict.claimed_by` tells the others who.

        An agent in advisory mode gets a `Proposed` instead (`is_proposed`): a person has to approve.
        """
        return self._change("POST", _task(project_id, task_id, "claim"), Claimed, given(agent=self._acting))

    @operation
    def claim_next(self, project_id: str, *, capabilities: Tags = ()) -> Steps[Task | Proposed | None]:
        """Claim the most urgent task you can; None when there is none."""
        wanted = given(agent=self._acting, capabilities=_list(capabilities))
        where = path(*V1, "projects", project_id, "claim-next")
        call: Steps[ClaimedNext | Proposed] = self._change("POST", where, ClaimedNext, wanted, Repeat.KEYED)
        claimed = yield from call
        return claimed if is_proposed(claimed) else claimed["task"]

    @operation
    def release_task(self, project_id: str, task_id: str) -> Steps[Task]:
        """Give a claimed task back to the queue."""
        where = _task(project_id, task_id, "release", v1=True)
        try:
            return (yield from self._change("POST", where, Task, given(agent=self._acting)))
        except Forbidden as error:
            if not _given_back(error):
                raise
            return (yield from self._get(_task(project_id, task_id), Task))

    @operation
    def assign_task(self, project_id: str, task_id: str, agent: str) -> Steps[bool]:
        """Make a task ready, for `agent`. For operators, and agents with the scope `coordinator`."""
        return self._agreed(self._change("POST", _task(project_id, task_id, "assign"), Done, {"agent": agent}))

    @operation
    def unassign_task(self, project_id: str, task_id: str) -> Steps[bool]:
        """Take a task from whoever has it: back to the backlog."""
        return self._agreed(self._unassign(project_id, task_id))

    def _unassign(self, project_id: str, task_id: str) -> Steps[object]:
        try:
            return (yield from self._change("POST", _task(project_id, task_id, "unassign"), Done))
        except Forbidden as error:
            if not _given_back(error):
                raise
            return None

    # Reviewing ------------------------------------------------------------------------------------------------------

    @operation
    def review_task(self, project_id: str, task_id: str, reviewer: str | None = None) -> Steps[bool]:
        """Sign a task as reviewed: an agent for itself, an operator for anybody but its worker."""
        where = _task(project_id, task_id, "reviewers", self._whom(reviewer))
        return self._agreed(self._change("POST", where, Done))

    @operation
    def withdraw_review(self, project_id: str, task_id: str, reviewer: str | None = None) -> Steps[bool]:
        return self._agreed(self._remove(_task(project_id, task_id, "reviewers", self._whom(reviewer), v1=True), Done))

    # What belongs to a task -----------------------------------------------------------------------------------------

    @operation
    def task_history(self, project_id: str, task_id: str, *, limit: int | None = None) -> Steps[list[HistoryEntry]]:
        """Every move with its note, oldest first."""
        return self._list(_task(project_id, task_id, "history", v1=True), HistoryEntry, limit)

    @operation
    def comment(self, project_id: str, task_id: str, body: str) -> Steps[Comment]:
        return self._create(_task(project_id, task_id, "comments", v1=True), Comment, body=body)

    @operation
    def comments(self, project_id: str, task_id: str, *, limit: int | None = None) -> Steps[list[Comment]]:
        return self._list(_task(project_id, task_id, "comments", v1=True), Comment, limit)

    @operation
    def delete_comment(self, project_id: str, task_id: str, comment_id: str) -> Steps[bool]:
        return self._agreed(self._remove(_task(project_id, task_id, "comments", comment_id, v1=True), Done))

    @operation
    def dependencies(self, project_id: str, task_id: str) -> Steps[Dependencies]:
        """What the task waits for, and what waits for it."""
        return self._get(_task(project_id, task_id, "dependencies", v1=True), Dependencies)

    @operation
    def add_dependency(self, project_id: str, task_id: str, depends_on: str) -> Steps[Task | Proposed]:
        """Let the task wait for another."""
        return self._create(_task(project_id, task_id, "dependencies", v1=True), Task, depends_on=depends_on)

    @operation
    def remove_dependency(self, project_id: str, task_id: str, depends_on: str) -> Steps[Task | Proposed]:
        left = yield from self._remove(_task(project_id, task_id, "dependencies", depends_on, v1=True), Task)
        return left if left is not None else (yield from self._get(_task(project_id, task_id), Task))

    @operation
    def attach_file(self, project_id: str, task_id: str, filename: str, content: bytes) -> Steps[Uploaded]:
        where = _task(project_id, task_id, "attachments", v1=True)
        return self._upload(where, Uploaded, Upload(filename, content), uploader=self._acting)

    @operation
    def list_attachments(self, project_id: str, task_id: str) -> Steps[list[File]]:
        return self._list(_task(project_id, task_id, "attachments", v1=True), File)

    @operation
    def download_attachment(self, project_id: str, task_id: str, filename: str) -> Steps[bytes]:
        return self._ask(Call(method="GET", path=_attachment(project_id, task_id, filename), reads=content))

    @operation
    def delete_attachment(self, project_id: str, task_id: str, filename: str) -> Steps[bool]:
        return self._agreed(self._remove(_attachment(project_id, task_id, filename), Done))

    @operation
    def find_tasks(
        self,
        *,
        agent: str | None = None,
        project_id: str | None = None,
        status: str | None = None,
        assigned_to: str | None = None,
    ) -> Steps[list[TaskItem]]:
        """Tasks in short, of all projects; without a filter, none."""
        return self._list(
            path("tasks"), TaskItem, agent=agent, project_id=project_id, status=status, assigned_to=assigned_to
        )


def _task(project_id: str, task_id: str, *more: str, v1: bool = False) -> str:
    return path(*(V1 if v1 else ()), "projects", project_id, "tasks", task_id, *more)


def _given_back(error: Forbidden) -> bool:
    """Whether the task is refused because an earlier try of the same had given it back."""
    return error.repeated and error.code == "not_yours"


def _attachment(project_id: str, task_id: str, filename: str) -> str:
    return file_path(*V1, "projects", project_id, "tasks", task_id, "attachments", name=filename)


def _list(values: Iterable[str] | None) -> list[str] | None:
    """A list for JSON; one text is one value, not its letters."""
    return None if values is None else [values] if isinstance(values, str) else list(values)
