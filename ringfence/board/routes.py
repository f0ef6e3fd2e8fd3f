"""The board over HTTP: the hub's documented paths at the root, the same and more under /api/v1."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from starlette.datastructures import UploadFile
from starlette.responses import Response

from ringfence.board import metrics, model, store, views
from ringfence.board.acting import Going
from ringfence.board.files import File
from ringfence.board.model import Project, Status, Task
from ringfence.board.projects import Projects
from ringfence.board.service import Board
from ringfence.board.tasks import Edit
from ringfence.crew.proposals.model import Proposal
from ringfence.crew.proposals.routes import Proposed, proposed
from ringfence.kernel.auth.model import Principal
from ringfence.kernel.clock import iso
from ringfence.kernel.database import Transaction
from ringfence.kernel.errors import Invalid, NotFound, StorageFull, TooLarge
from ringfence.kernel.http.endpoint import Access, Answer, Api, Call, Fields, Nothing, Page
from ringfence.kernel.http.openapi import Listed

P = "/projects/{project_id}"
T = f"{P}/tasks/{{task_id}}"
V1 = "/api/v1"
LATEST = 1000  # completions that are told one by one


def both(path: str) -> tuple[str, str]:
    return path, V1 + path


def routes(board: Board) -> list[Api]:
    return [project_routes(board), task_routes(board), talk_routes(board), file_routes(board)]


# Projects -------------------------------------------------------------------------------------------------------------


def project_routes(board: Board) -> Api:
    api = Api("projects")
    projects, files, blobs = board.projects, board.files, board.blobs

    def item(tx: Transaction, project: Project) -> views.ProjectItem:
        return views.project_item(project, projects.members(tx, project))

    def created(tx: Transaction, by: Principal, body: views.NewOwnProject | views.NewProject) -> views.CreatedProject:
        project = projects.create(tx, by, body.name, body.creator or by.name, body.visibility)
        return {
            "id": project.id,
            "name": project.name,
            "created_at": iso(project.created_at),
            "creator": project.creator,
            "visibility": project.visibility,
        }

    @api.route("POST", "/projects", access=Access.ACT, body=views.NewProject, answers=views.CreatedProject, status=201)
    @api.route(
        "POST", f"{V1}/projects", access=Access.ACT, body=views.NewOwnProject, answers=views.CreatedProject, status=201
    )
    async def create(call: Call[views.NewOwnProject, Fields]) -> Answer:
        """Create a project; its creator is its first member."""
        await board.check_links(call.principal, call.body.name)
        return await call.commit(lambda tx: created(tx, call.principal, call.body))

    @api.route(
        "GET", *both("/projects"), access=Access.READ, query=views.ProjectQuery, answers=Listed(views.ProjectItem)
    )
    async def list_projects(call: Call[Fields, views.ProjectQuery]) -> Page:
        """The projects you may see."""
        query = call.query
        limit = query.limit or (1000 if call.at_root else call.server.settings.page_size)

        def find(tx: Transaction) -> Page:
            found = projects.page(tx, call.principal, query.agent or None, query.cursor or "", limit)
            return Page([item(tx, project) for project in found], found[-1].id if len(found) == limit else None)

        return await call.read(find)

    @api.route("GET", *both(P), access=Access.READ, answers=views.ProjectView)
    async def show(call: Call[Fields, Fields]) -> views.ProjectView:
        """A project, with its members, files and WIP limits."""

        def find(tx: Transaction) -> views.ProjectView:
            project = projects.find(tx, call.principal, call["project_id"], change=False)
            limits = projects.limits(tx, project)
            found = files.page(tx, call.principal, project.id, "", "", 1000)
            return {
                **item(tx, project),
                "files": {file.filename: views.file_facts(file) for file in found},
                "wip_limits": limits.each,
                "wip_limits_by_agent": limits.agents,
                "wip_limits_of_columns": limits.columns,
            }

        return await call.read(find)

    @api.route("PATCH", f"{V1}{P}", access=Access.STEER, body=views.ProjectChange, answers=views.ProjectItem)
    async def change(call: Call[views.ProjectChange, Fields]) -> Answer:
        """Rename a project, or open it to all agents or to its members only."""
        body = call.body
        return await call.commit(
            lambda tx: item(tx, projects.change(tx, call.principal, call["project_id"], body.name, body.visibility))
        )

    @api.route("DELETE", *both(P), access=Access.ACT, answers=views.Ok)
    async def delete(call: Call[Fields, Fields]) -> views.Ok:
        """Delete a project with its tasks and files."""
        unused = await call.write(lambda tx: projects.delete(tx, call.principal, call["project_id"]))
        await asyncio.to_thread(blobs.remove, unused)
        return {"status": "ok"}

    @api.route("POST", *both(f"{P}/join"), access=Access.ACT, body=views.ForAgent, answers=views.Ok)
    async def join(call: Call[views.ForAgent, Fields]) -> Answer:
        """Make an agent a member of the project."""
        return await call.commit(_ok(lambda tx: projects.join(tx, call.principal, call["project_id"], call.body.agent)))

    @api.route("POST", f"{V1}{P}/leave", access=Access.ACT, body=views.ForAgent, answers=views.Ok)
    async def leave(call: Call[views.ForAgent, Fields]) -> Answer:
        """End an agent's membership."""
        return await call.commit(
            _ok(lambda tx: projects.leave(tx, call.principal, call["project_id"], call.body.agent))
        )

    @api.route("GET", f"{V1}{P}/wip", access=Access.READ, answers=views.LimitsView)
    async def limits(call: Call[Fields, Fields]) -> views.LimitsView:
        """The project's WIP limits: of each agent, of single agents, of columns."""
        return await call.read(
            lambda tx: views.limits_view(
                projects.limits(tx, projects.find(tx, call.principal, call["project_id"], change=False))
            )
        )

    @api.route("PATCH", *both(f"{P}/wip"), access=Access.STEER, body=views.LimitBody, answers=views.Ok)
    @api.route("PUT", f"{V1}{P}/wip", access=Access.STEER, body=views.LimitBody, answers=views.Ok)
    async def set_limit(call: Call[views.LimitBody, Fields]) -> Answer:
        """Limit how many tasks may be in a column; null lifts the limit."""
        body = call.body

        def use_case(tx: Transaction) -> None:
            status = model.status(body.status)
            projects.set_limit(tx, call.principal, call["project_id"], status, body.limit, body.agent, body.scope)

        return await call.commit(_ok(use_case))

    @api.route("GET", *both(f"{P}/metrics"), access=Access.READ, query=views.MetricsQuery, answers=views.MetricsView)
    async def project_metrics(call: Call[Fields, views.MetricsQuery]) -> views.MetricsView:
        """Cycle times, throughput, rework, and the cumulative flow of the last days."""
        return await call.read(lambda tx: _metrics(tx, projects, call))

    return api


def _metrics(tx: Transaction, projects: Projects, call: Call[Fields, views.MetricsQuery]) -> views.MetricsView:
    project_id, days = call["project_id"], call.query.days
    try:
        projects.find(tx, call.principal, project_id, change=False)
    except NotFound:
        if not call.at_root:
            raise
        project_id = ""  # as documented: a project that does not exist has done nothing
    period = metrics.Period.ending(tx.now, days)
    standing = metrics.standing(tx, project_id)
    course = metrics.course(tx, project_id, period)
    by_all = metrics.completions(tx, project_id, period)
    load = course.load
    done = by_all
    if agent := call.query.agent:
        done = [each for each in by_all if each.agent == agent]
        load = course.of(agent)
    cycles = metrics.cycle_minutes(done)
    ordered = sorted(cycles)
    return {
        "total_tasks": sum(standing.by_status.values()),
        "by_status": standing.by_status,
        "avg_cycle_time_minutes": standing.average_minutes,
        "completed_count": standing.by_status[Status.DONE],
        "agent_throughput": standing.done_per_agent,
        "median_cycle_time_minutes": metrics.quantile(ordered, 0.5),
        "p85_cycle_time_minutes": metrics.quantile(ordered, 0.85),
        "p95_cycle_time_minutes": metrics.quantile(ordered, 0.95),
        "cycle_times_minutes": cycles,
        "completions": len(done),
        "reworked": sum(1 for each in done if each.reworked),
        "latest": [views.completion_view(each) for each in done[-LATEST:]],
        "agents": [views.agent_cycles(summary) for summary in metrics.per_agent(by_all, period)],
        "throughput": [{"day": day, "completed": number} for day, number in metrics.throughput(done, period)],
        "flow": [views.flow_day(day, columns) for day, columns in course.flow],
        "wip": views.wip_days(load, period),
        "loads": [views.agent_load(each) for each in course.agents],
    }


# Tasks ----------------------------------------------------------------------------------------------------------------


def task_routes(board: Board) -> Api:
    api = Api("tasks")
    projects, blobs = board.projects, board.blobs

    @api.route(
        "POST", *both(f"{P}/tasks"), access=Access.ACT, body=views.NewTask,
        answers=views.TaskView, status=201, also={202: Proposed},
    )  # fmt: skip
    async def create(call: Call[views.NewTask, Fields]) -> Answer:
        """Write a task."""
        body = call.body
        await board.check_links(call.principal, *_words(body))

        def use_case(tx: Transaction) -> object:
            edit = _edit(body, body.model_fields_set | {"priority"})
            made = board.tasks.create(
                tx, call.principal, call["project_id"], body.created_by or None, edit,
                assigned_to=body.assigned_to or None, depends_on=body.depends_on, status=model.status(body.status),
            )  # fmt: skip
            return _answered(tx, board, made)

        return await call.commit(use_case)

    async def listed(call: Call[Any, Any], filters: dict[str, Any]) -> Page:
        query: views.TaskQuery = call.query
        limit = query.limit or (1000 if call.at_root else call.server.settings.page_size)
        filters = {name: value for name, value in (filters | _filters(query)).items() if value is not None}

        def find(tx: Transaction) -> Page:
            found = board.tasks.page(tx, call.principal, filters, _place(query.cursor), limit)
            return Page(_views(tx, board, found), _cursor(found[-1]) if len(found) == limit else None)

        return await call.read(find)

    @api.route("GET", *both(f"{P}/tasks"), access=Access.READ, query=views.TaskQuery, answers=Listed(views.TaskView))
    async def list_tasks(call: Call[Fields, views.TaskQuery]) -> Page:
        """The project's tasks by priority, then age."""
        try:
            return await listed(call, {"project": call["project_id"]})
        except NotFound:
            if not call.at_root:
                raise
            return Page([], None)  # as documented

    @api.route("GET", f"{V1}/tasks", access=Access.READ, query=views.AllTasksQuery, answers=Listed(views.TaskView))
    async def all_tasks(call: Call[Fields, views.AllTasksQuery]) -> Page:
        """The tasks of all projects you may see."""
        return await listed(call, {"project": call.query.project_id})

    @api.route("GET", "/tasks", access=Access.READ, query=views.AllTasksQuery, answers=Listed(views.TaskItem))
    async def find_tasks(call: Call[Fields, views.AllTasksQuery]) -> Page:
        """Tasks of all projects, by agent, project or status; without a filter, none."""
        query = call.query
        wanted = {"agent": query.agent, "project": query.project_id, "status": query.status, "to": query.assigned_to}
        if not any(wanted.values()):
            return Page([], None)
        limit = query.limit or 1000
        filters = {"project": query.project_id or None, **_filters(query)}
        filters = {name: value for name, value in filters.items() if value is not None}
        try:
            found = await call.read(
                lambda tx: board.tasks.page(tx, call.principal, filters, _place(query.cursor), limit)
            )
        except NotFound:
            return Page([], None)
        return Page([views.task_item(task) for task in found], _cursor(found[-1]) if len(found) == limit else None)

    @api.route(
        "GET",
        *both(f"{P}/tasks/ready"),
        access=Access.READ,
        query=views.ReadyQuery,
        answers=Listed(views.ReadyItem),
        hot=True,
    )
    async def ready(call: Call[Fields, views.ReadyQuery]) -> Page:
        """What an agent could claim now, most urgent first."""
        query = call.query
        tags = [tag for given in query.capabilities for tag in given.split(",")]
        found = await call.read(
            lambda tx: board.tasks.ready(tx, call.principal, call["project_id"], query.agent or None, tags, query.limit)
        )
        return Page([views.ready_item(task) for task in found], None)

    @api.route("GET", f"{V1}/tasks/{{task_id}}", access=Access.READ, answers=views.TaskView)
    @api.route("GET", *both(T), access=Access.READ, answers=views.TaskView)
    async def show(call: Call[Fields, Fields]) -> views.TaskView:
        """A task."""
        project_id = call.request.path_params.get("project_id")
        return await call.read(
            lambda tx: _view(tx, board, board.tasks.find(tx, call.principal, project_id, call["task_id"]))
        )

    @api.route(
        "PATCH", *both(T), access=Access.ACT, body=views.TaskChange,
        answers=views.TaskView, also={202: Proposed}, hot=True,
    )  # fmt: skip
    async def change(call: Call[views.TaskChange, Fields]) -> Answer:
        """Move a task (`status`), or edit it; without either, read it."""
        body, ids = call.body, (call["project_id"], call["task_id"])
        await board.check_links(call.principal, *_words(body), body.note, body.blocked_reason)

        def use_case(tx: Transaction) -> object:
            agent = body.agent or None
            edit = _edit(body, body.model_fields_set)
            found: Task | Proposal = board.tasks.find(tx, call.principal, *ids)
            if edit.changes():
                found = board.tasks.edit(tx, call.principal, *ids, agent, edit)
            if body.status is not None:
                going = Going(model.status(body.status), body.note, body.blocked_reason, body.blocked_by)
                found = board.flow.move(tx, call.principal, *ids, agent, going)
            return _answered(tx, board, found)

        return await call.commit(use_case)

    @api.route("DELETE", *both(T), access=Access.ACT, answers=views.Ok, also={202: Proposed})
    async def delete(call: Call[Fields, Fields]) -> Answer:
        """Delete a task; what waited for it is blocked, with the reason."""
        found = await call.write(lambda tx: board.tasks.delete(tx, call.principal, call["project_id"], call["task_id"]))
        if isinstance(found, Proposal):
            return proposed(found)
        await asyncio.to_thread(blobs.remove, found)
        return Answer({"status": "ok"})

    @api.route(
        "POST", *both(f"{T}/claim"), access=Access.ACT, body=views.ForAnybody,
        answers=views.Claimed, also={202: Proposed}, hot=True, errors={NotFound: 400},
    )  # fmt: skip
    async def claim(call: Call[views.ForAnybody, Fields]) -> Answer:
        """Claim a task: it is held for you, and for nobody else."""
        agent = _whom(call, call.body.agent)

        def use_case(tx: Transaction) -> object:
            found = board.flow.claim(tx, call.principal, call["project_id"], call["task_id"], agent)
            return proposed(found) if isinstance(found, Proposal) else {"ok": True, "task_id": found.id}

        return await call.commit(use_case)

    @api.route(
        "POST", *both(f"{P}/claim-next"), access=Access.ACT, body=views.ClaimNextBody,
        answers=views.ClaimedNext, also={202: Proposed}, creates=True,
    )  # fmt: skip
    async def claim_next(call: Call[views.ClaimNextBody, Fields]) -> Answer:
        """Claim the most urgent task you can; `task` is null when there is none."""
        body = call.body

        def use_case(tx: Transaction) -> object:
            found = board.flow.claim_next(tx, call.principal, call["project_id"], body.agent or None, body.capabilities)
            if isinstance(found, Proposal):
                return proposed(found)
            return {"task": None if found is None else _view(tx, board, found)}

        return await call.commit(use_case)

    @api.route("POST", f"{V1}{T}/release", access=Access.ACT, body=views.ForAnybody, answers=views.TaskView)
    async def release(call: Call[views.ForAnybody, Fields]) -> Answer:
        """Give a claimed task back to the queue."""
        ids = (call["project_id"], call["task_id"])
        return await call.commit(
            lambda tx: _view(tx, board, board.flow.release(tx, call.principal, *ids, call.body.agent or None))
        )

    @api.route(
        "POST", *both(f"{T}/assign"), access=Access.ACT, body=views.AssignBody,
        answers=dict[str, Any], also={202: Proposed}, errors={NotFound: 400},
    )  # fmt: skip
    async def assign(call: Call[views.AssignBody, Fields]) -> Answer:
        """Assign a task to an agent: it becomes ready, for that agent."""
        ids, body = (call["project_id"], call["task_id"]), call.body

        def use_case(tx: Transaction) -> object:
            found = board.flow.assign(tx, call.principal, *ids, body.agent, body.assigned_by or None)
            return proposed(found) if isinstance(found, Proposal) else {"ok": True}

        return await call.commit(use_case)

    @api.route(
        "POST", *both(f"{T}/unassign"), access=Access.ACT, body=Nothing,
        answers=dict[str, Any], also={202: Proposed}, errors={NotFound: 400},
    )  # fmt: skip
    async def unassign(call: Call[Fields, Fields]) -> Answer:
        """Take a task from whoever has it: back to the backlog."""

        def use_case(tx: Transaction) -> object:
            found = board.flow.unassign(tx, call.principal, call["project_id"], call["task_id"])
            return proposed(found) if isinstance(found, Proposal) else {"ok": True}

        return await call.commit(use_case)

    @api.route(
        "POST", *both(f"{T}/reviewers/{{name}}"), access=Access.ACT, body=Nothing,
        answers=views.Ok, also={202: Proposed},
    )  # fmt: skip
    async def review(call: Call[Fields, Fields]) -> Answer:
        """Record a review: an agent signs for itself, an operator for anybody but the task's worker."""

        def use_case(tx: Transaction) -> object:
            found = board.flow.review(tx, call.principal, call["project_id"], call["task_id"], call["name"])
            return proposed(found) if isinstance(found, Proposal) else {"status": "ok"}

        return await call.commit(use_case)

    @api.route("DELETE", f"{V1}{T}/reviewers/{{name}}", access=Access.ACT, answers=views.Ok)
    async def withdraw_review(call: Call[Fields, Fields]) -> Answer:
        """Take a review back."""
        ids = (call["project_id"], call["task_id"], call["name"])
        return await call.commit(_ok(lambda tx: board.flow.withdraw_review(tx, call.principal, *ids)))

    @api.route("GET", f"{V1}{P}/board", access=Access.READ, query=views.BoardQuery, answers=views.BoardView)
    async def whole_board(call: Call[Fields, views.BoardQuery]) -> views.BoardView:
        """The board in its columns, cut into swim lanes by agent, priority or label."""

        def find(tx: Transaction) -> views.BoardView:
            project = projects.find(tx, call.principal, call["project_id"], change=False)
            found = _views(tx, board, board.tasks.page(tx, call.principal, {"project": project.id}, None, 10_000))
            return {
                "project": views.project_item(project, projects.members(tx, project)),
                "wip_limits": views.limits_view(projects.limits(tx, project)),
                "lanes": _lanes(found, call.query.lanes),
            }

        return await call.read(find)

    @api.route("GET", f"{V1}{P}/cards", access=Access.READ, query=views.CardsQuery, answers=views.CardsView)
    async def cards(call: Call[Fields, views.CardsQuery]) -> views.CardsView:
        """All tasks of a project as its board shows them, without their descriptions; or those named by `id`.

        `moves` says where a task may go from each column (`held`: one that is claimed)."""

        def find(tx: Transaction) -> views.CardsView:
            project = projects.find(tx, call.principal, call["project_id"], change=False)
            return {
                "project": views.project_item(project, projects.members(tx, project)),
                "wip_limits": views.limits_view(projects.limits(tx, project)),
                "moves": views.moves(),
                "cards": _some_cards(tx, project.id, call.query.id) if call.query.id else _all_cards(tx, project.id),
            }

        return await call.read(find)

    return api


# Dependencies, comments, history --------------------------------------------------------------------------------------


def talk_routes(board: Board) -> Api:
    api = Api("tasks")

    @api.route("GET", f"{V1}{T}/dependencies", access=Access.READ, answers=views.Dependencies)
    async def dependencies(call: Call[Fields, Fields]) -> views.Dependencies:
        """What the task waits for, and what waits for it."""

        def find(tx: Transaction) -> views.Dependencies:
            task = board.tasks.find(tx, call.principal, call["project_id"], call["task_id"])
            before, after = tx.rows(store.PREDECESSORS, task=task.id), tx.rows(store.SUCCESSORS, task=task.id)
            return {
                "depends_on": [views.task_item(store.task_of(row)) for row in before],
                "needed_by": [views.task_item(store.task_of(row)) for row in after],
            }

        return await call.read(find)

    @api.route(
        "POST", f"{V1}{T}/dependencies", access=Access.ACT, body=views.DependBody,
        answers=views.TaskView, status=201, also={202: Proposed},
    )  # fmt: skip
    async def depend(call: Call[views.DependBody, Fields]) -> Answer:
        """Let the task wait for another."""
        ids = (call["project_id"], call["task_id"], call.body.depends_on)
        return await call.commit(lambda tx: _answered(tx, board, board.dependencies.depend(tx, call.principal, *ids)))

    @api.route(
        "DELETE", f"{V1}{T}/dependencies/{{other}}", access=Access.ACT, answers=views.TaskView, also={202: Proposed}
    )
    async def independ(call: Call[Fields, Fields]) -> Answer:
        """Let the task wait for the other no longer."""
        ids = (call["project_id"], call["task_id"], call["other"])
        return await call.commit(lambda tx: _answered(tx, board, board.dependencies.independ(tx, call.principal, *ids)))

    @api.route("GET", f"{V1}{T}/history", access=Access.READ, query=views.PageQuery, answers=Listed(views.HistoryView))
    async def history(call: Call[Fields, views.PageQuery]) -> Page:
        """Every move of the task, with its note, oldest first."""
        limit = call.query.limit or call.server.settings.page_size

        def find(tx: Transaction) -> Page:
            task = board.tasks.find(tx, call.principal, call["project_id"], call["task_id"])
            rows = tx.rows(store.MOVES_OF_TASK, task=task.id, cursor=call.query.cursor or "", limit=limit)
            items = [
                {"id": row[0], "from": row[1] or None, "to": row[2], "at": iso(row[3]), "by": row[4], "note": row[5]}
                for row in rows
            ]
            return Page(items, rows[-1][0] if len(rows) == limit else None)

        return await call.read(find)

    @api.route("GET", f"{V1}{T}/comments", access=Access.READ, query=views.PageQuery, answers=Listed(views.CommentView))
    async def comments(call: Call[Fields, views.PageQuery]) -> Page:
        """What was said about the task, oldest first."""
        limit = call.query.limit or call.server.settings.page_size

        def find(tx: Transaction) -> Page:
            task = board.tasks.find(tx, call.principal, call["project_id"], call["task_id"])
            rows = tx.rows(store.COMMENTS, task=task.id, cursor=call.query.cursor or "", limit=limit)
            items = [{"id": row[0], "author": row[1], "body": row[2], "created_at": iso(row[3])} for row in rows]
            return Page(items, rows[-1][0] if len(rows) == limit else None)

        return await call.read(find)

    @api.route(
        "POST", f"{V1}{T}/comments", access=Access.ACT, body=views.CommentBody, answers=views.CommentView, status=201
    )
    async def comment(call: Call[views.CommentBody, Fields]) -> Answer:
        """Say something about the task."""
        await board.check_links(call.principal, call.body.body)

        def use_case(tx: Transaction) -> views.CommentView:
            made = board.tasks.comment(tx, call.principal, call["project_id"], call["task_id"], call.body.body)
            return {"id": made, "author": call.principal.name, "body": call.body.body, "created_at": iso(tx.now)}

        return await call.commit(use_case)

    @api.route("DELETE", f"{V1}{T}/comments/{{comment_id}}", access=Access.ACT, answers=views.Ok)
    async def delete_comment(call: Call[Fields, Fields]) -> Answer:
        """Delete a comment: your own, or (operators) anybody's."""
        ids = (call["project_id"], call["task_id"], call["comment_id"])
        return await call.commit(_ok(lambda tx: board.tasks.delete_comment(tx, call.principal, *ids)))

    return api


# Files ----------------------------------------------------------------------------------------------------------------


def file_routes(board: Board) -> Api:
    api = Api("files")
    files, blobs = board.files, board.blobs
    attachments = f"{V1}{T}/attachments"

    def task_of(call: Call[Any, Any]) -> str:
        return str(call.request.path_params.get("task_id", ""))

    def check_task(tx: Transaction, call: Call[Any, Any]) -> None:
        if task_id := task_of(call):
            board.tasks.find(tx, call.principal, call["project_id"], task_id)

    @api.route(
        "POST",
        f"{P}/files",
        access=Access.ACT,
        answers=views.Uploaded,
        upload=True,
        creates=True,
        errors={NotFound: 400, TooLarge: 400},
    )
    @api.route(
        "POST", f"{V1}{P}/files", attachments, access=Access.ACT, answers=views.Uploaded, upload=True, status=201
    )
    async def upload(call: Call[Fields, Fields]) -> Answer:
        """Upload a file (multipart: `file`, and `uploader` when acting for an agent); the same name replaces it."""
        uploader, filename, content = await _uploaded(call)

        def may(tx: Transaction) -> None:
            check_task(tx, call)
            board.projects.find(tx, call.principal, call["project_id"], change=False)

        await call.read(may)
        await asyncio.to_thread(files.check, call.principal, content)
        checksum = await asyncio.to_thread(blobs.put, content)

        def use_case(tx: Transaction) -> views.Uploaded:
            file = files.add(
                tx, call.principal, call["project_id"], task_of(call), uploader, filename, checksum, len(content)
            )
            return {"filename": file.filename, "checksum": file.checksum, "size": file.size}

        return await call.commit(use_case, content=f"{filename}\n{uploader}\n{checksum}".encode())

    @api.route(
        "GET",
        *both(f"{P}/files"),
        attachments,
        access=Access.READ,
        query=views.PageQuery,
        answers=Listed(views.FileView),
    )
    async def list_files(call: Call[Fields, views.PageQuery]) -> Page:
        """The files, by name."""
        limit = call.query.limit or (1000 if call.at_root else call.server.settings.page_size)

        def find(tx: Transaction) -> list[File]:
            check_task(tx, call)
            return files.page(tx, call.principal, call["project_id"], task_of(call), call.query.cursor or "", limit)

        found = await call.read(find)
        return Page([views.file_view(file) for file in found], found[-1].filename if len(found) == limit else None)

    @api.route(
        "GET", *both(f"{P}/files/{{filename:path}}"), f"{attachments}/{{filename:path}}",
        access=Access.READ, media="application/octet-stream",
    )  # fmt: skip
    async def download(call: Call[Fields, Fields]) -> Response:
        """A file's bytes."""

        def find(tx: Transaction) -> File:
            check_task(tx, call)
            return files.get(tx, call.principal, call["project_id"], task_of(call), call["filename"])

        file = await call.read(find)
        content = await asyncio.to_thread(blobs.get, file.checksum)
        headers = {
            "etag": f'"{file.checksum}"',
            "content-disposition": f'attachment; filename="{file.filename.rpartition("/")[2]}"',
            "content-security-policy": "sandbox",
        }
        return Response(content, headers=headers, media_type="application/octet-stream")

    @api.route(
        "DELETE", *both(f"{P}/files/{{filename:path}}"), f"{attachments}/{{filename:path}}",
        access=Access.ACT, answers=views.Ok,
    )  # fmt: skip
    async def delete(call: Call[Fields, Fields]) -> Answer:
        """Delete a file: your own, or (operators) anybody's."""

        def use_case(tx: Transaction) -> None:
            check_task(tx, call)
            files.delete(tx, call.principal, call["project_id"], task_of(call), call["filename"])

        return await call.commit(_ok(use_case))

    return api


async def _uploaded(call: Call[Any, Any]) -> tuple[str | None, str, bytes]:
    """Who is said to upload, under which name, what."""
    if not call.request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        raise Invalid("file required: send it as multipart/form-data, with `-F file=@PATH` for curl")
    most = call.server.settings.max_file
    too_large = TooLarge(f"File too large (max {most} bytes)", code="file_too_large")
    try:
        async with call.request.form(max_files=1, max_fields=4, max_part_size=64 * 1024) as form:
            file, said = form.get("file"), form.get("uploader")
            if not isinstance(file, UploadFile) or not file.filename:
                raise Invalid("file required: the field `file` with a file name")
            if isinstance(said, UploadFile):
                raise Invalid("uploader: a name, not a file")
            uploader, filename, content = said or None, model.file_name(file.filename), await file.read()
    except TooLarge:
        raise too_large from None
    except OSError as error:
        raise StorageFull(f"the upload cannot be kept ({error.strerror}): free some space, then repeat") from None
    if len(content) > most:
        raise too_large
    return uploader, filename, content


# Between the JSON and the room's own types ----------------------------------------------------------------------------


def _ok(use_case: Callable[[Transaction], object]) -> Callable[[Transaction], views.Ok]:
    def done(tx: Transaction) -> views.Ok:
        use_case(tx)
        return {"status": "ok"}

    return done


def _whom(call: Call[Any, Any], agent: str | None) -> str | None:
    """At the root an operator says for which agent, as documented; an agent is itself."""
    if agent is None and call.at_root and not call.principal.is_agent:
        raise Invalid("agent required: who claims?")
    return agent or None


def _words(body: views.NewTask | views.TaskChange) -> tuple[str | None, ...]:
    """What of the body people will read."""
    return (body.title, body.description, *(body.labels or ()), *(body.required_capabilities or ()))


def _edit(body: views.NewTask | views.TaskChange, given: Iterable[str]) -> Edit:
    """What of the body edits a task; only fields that were given count."""
    given = set(given)

    def field(name: str) -> Any:
        return getattr(body, name) if name in given else None

    priority, tags, labels, parent = (
        field(name) for name in ("priority", "required_capabilities", "labels", "parent_task_id")
    )
    return Edit(
        title=field("title"),
        description=field("description"),
        priority=None if priority is None else model.priority(priority),
        required_capabilities=None if tags is None else model.capabilities(tags),
        required_reviewers=field("required_reviewers"),
        labels=None if labels is None else model.labels(labels),
        parent_task_id=parent or None,
        no_parent="parent_task_id" in given and not parent and isinstance(body, views.TaskChange),
    )


def _filters(query: views.TaskQuery) -> dict[str, Any]:
    return {
        "status": None if not query.status else model.status(query.status).value,
        "agent": query.agent or None,
        "assigned_to": query.assigned_to or None,
        "label": query.label or None,
        "priority": None if not query.priority else int(model.priority(query.priority)),
        "q": query.q or None,
        "parent": query.parent or None,
        "unblocked": None if query.include_blocked else True,
    }


def _cursor(task: Task) -> str:
    return f"{int(task.priority)}-{task.created_at}-{task.id}"


def _place(cursor: str | None) -> tuple[int, int, str] | None:
    if not cursor:
        return None
    priority, _, rest = cursor.partition("-")
    created, _, task_id = rest.partition("-")
    if not (
        priority.isascii() and priority.isdigit() and created.isascii() and created.isdigit() and len(cursor) < 100
    ):
        raise Invalid("this cursor is none of ours: leave it out to begin anew", code="invalid_cursor")
    return min(int(priority), 9), min(int(created), 1 << 62), task_id


def _answered(tx: Transaction, board: Board, found: Task | Proposal) -> object:
    return proposed(found) if isinstance(found, Proposal) else _view(tx, board, found)


def _view(tx: Transaction, board: Board, task: Task) -> views.TaskView:
    subtasks = [row[0] for row in tx.rows(store.SUBTASKS, parent=task.id)]
    return views.task_view(task, subtasks, board.tasks.unfinished(tx, task))


def _views(tx: Transaction, board: Board, tasks: list[Task]) -> list[views.TaskView]:
    """Many tasks at once: their subtasks and predecessors are read per project."""
    children: dict[str, list[str]] = {}
    waiting: dict[str, list[str]] = {}
    for project_id in {task.project_id for task in tasks}:
        for parent, child in tx.rows(store.SUBTASKS_OF_PROJECT, project=project_id):
            children.setdefault(parent, []).append(child)
        for task_id, other in tx.rows(store.UNFINISHED_OF_PROJECT, project=project_id):
            waiting.setdefault(task_id, []).append(other)
    return [views.task_view(task, children.get(task.id, []), waiting.get(task.id, [])) for task in tasks]


def _all_cards(tx: Transaction, project: str) -> list[views.CardView]:
    waiting: dict[str, list[str]] = {}
    for task_id, other in tx.rows(store.UNFINISHED_OF_PROJECT, project=project):
        waiting.setdefault(task_id, []).append(other)
    children = Counter(parent for parent, _ in tx.rows(store.SUBTASKS_OF_PROJECT, project=project))
    comments: dict[str, int] = dict(tx.rows(store.COMMENT_COUNTS, project=project))
    return [
        views.card_view(card, waiting.get(card.id, []), children[card.id], comments.get(card.id, 0))
        for card in map(store.card_of, tx.rows(store.CARDS, project=project))
    ]


def _some_cards(tx: Transaction, project: str, ids: list[str]) -> list[views.CardView]:
    rows = [row for task_id in dict.fromkeys(ids) if (row := tx.row(store.CARD, project=project, id=task_id))]
    found = []
    for card in map(store.card_of, rows):
        waiting = [row[0] for row in tx.rows(store.UNFINISHED, task=card.id)]
        comments = tx.row(store.COMMENT_COUNT, task=card.id)
        found.append(
            views.card_view(card, waiting, len(tx.rows(store.SUBTASKS, parent=card.id)), comments[0] if comments else 0)
        )
    return found


def _lanes(tasks: list[views.TaskView], by: str) -> list[views.Lane]:
    lanes: dict[str | None, dict[str, list[views.TaskView]]] = {}
    for task in tasks:
        labels: list[str | None] = [*task["labels"]]
        cuts: dict[str, list[str | None]] = {
            "agent": [task["assigned_to"]], "priority": [task["priority"]], "label": labels or [None],
        }  # fmt: skip
        for name in cuts.get(by, [None]):
            columns = lanes.setdefault(name, {str(status): [] for status in Status})
            columns[task["status"]].append(task)
    empty: dict[str, list[views.TaskView]] = {str(status): [] for status in Status}
    named = sorted(name for name in lanes if name is not None)
    ordered: list[str | None] = [*named, *([None] if None in lanes else [])]
    return [{"lane": name, "columns": lanes[name]} for name in ordered] or [{"lane": None, "columns": empty}]
