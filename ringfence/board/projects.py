"""Use cases of projects: who belongs to them, who may see them, and how much may be in progress."""

from dataclasses import dataclass

from ringfence.board import store
from ringfence.board.model import Project, Status
from ringfence.kernel.auth.model import Principal, Role, check_name
from ringfence.kernel.database import Transaction
from ringfence.kernel.errors import Forbidden, Invalid, NotFound, RuleBroken
from ringfence.kernel.events.model import Event
from ringfence.kernel.ids import new
from ringfence.settings import Settings


@dataclass(frozen=True, slots=True)
class Limits:
    """How many tasks may be in a column: of each agent, of one agent, of all together."""

    each: dict[str, int]
    agents: dict[str, dict[str, int]]
    columns: dict[str, int]


class Projects:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._closed: dict[str, set[str]] = {}

    # Who sees what --------------------------------------------------------------------------------------------------

    def load(self, tx: Transaction) -> None:
        """Learn which projects are for members only, so that the event feed can ask without a query."""
        self._closed = {}
        for project, member in tx.rows(store.CLOSED_PROJECTS):
            self._closed.setdefault(project, set()).update([] if member is None else [member])

    def observe(self, events: list[Event]) -> None:
        for event in events:
            if event.project is None or not event.kind.startswith(("project_", "agent_joined", "agent_left")):
                continue
            told = event.payload
            if told.get("visibility") == "open":
                self._closed.pop(event.project, None)
            elif told.get("visibility") == "members":
                self._closed[event.project] = set(told["members"])
            elif event.project in self._closed:
                change = set.add if event.kind == "agent_joined_project" else set.discard
                change(self._closed[event.project], told["agent"])

    def sees(self, by: Principal, project: str | None) -> bool:
        """Whether `by` may see what belongs to the project (None: to no project)."""
        if not by.sees(project):
            return False
        closed = self._closed.get(project) if project is not None else None
        return closed is None or not by.is_agent or by.name in closed

    def find(self, tx: Transaction, by: Principal, project_id: str, *, change: bool = True) -> Project:
        """The project, if `by` may see it; to change something in it, it is locked."""
        row = tx.row(store.LOCKED_PROJECT if change else store.PROJECT, id=project_id)
        project = None if row is None else store.project_of(row)
        if project is None or not self._may_see(tx, by, project):
            raise NotFound(f"project not found: {project_id!r:.80}; GET /projects lists those you may see")
        return project

    def _may_see(self, tx: Transaction, by: Principal, project: Project) -> bool:
        if not by.sees(project.id):
            return False
        closed = by.is_agent and project.visibility == "members"
        return not closed or tx.row(store.MEMBER, project=project.id, name=by.name) is not None

    # Use cases ------------------------------------------------------------------------------------------------------

    def create(self, tx: Transaction, by: Principal, name: str, creator: str, visibility: str) -> Project:
        if by.projects is not None:
            raise Forbidden("your access is limited to some projects: ask somebody with access to all to create one")
        actor = by.acting_for(creator)
        project = Project(new("prj"), name, check_name(creator, "creator"), visibility, tx.now)
        tx.run(
            store.ADD_PROJECT,
            id=project.id, name=name, creator=creator, visibility=visibility, created_at=tx.now,
        )  # fmt: skip
        tx.run(store.ADD_MEMBER, project_id=project.id, name=creator, joined_at=tx.now)
        defaults = {Status.IN_PROGRESS: self._settings.wip_in_progress, Status.IN_REVIEW: self._settings.wip_in_review}
        for status, limit in defaults.items():
            tx.run(store.ADD_LIMIT, project_id=project.id, status=status.value, agent=store.ANY, wip_limit=limit)
        told = {"id": project.id, "name": name, "creator": creator, "visibility": visibility, "members": [creator]}
        tx.record("project_created", actor, told, project=project.id, subject=project.id)
        return project

    def page(self, tx: Transaction, by: Principal, member: str | None, cursor: str, limit: int) -> list[Project]:
        """Those `by` may see; at most `limit`, fewer where some of them are hidden from it."""
        if member is not None:
            rows = tx.rows(store.PROJECTS_OF, name=member, cursor=cursor, limit=limit)
        else:
            rows = tx.rows(store.ALL_PROJECTS, cursor=cursor, limit=limit)
        return [project for project in map(store.project_of, rows) if self._may_see(tx, by, project)]

    def change(
        self, tx: Transaction, by: Principal, project_id: str, name: str | None, visibility: str | None
    ) -> Project:
        project = self.find(tx, by, project_id)
        changed = Project(
            project.id, name or project.name, project.creator, visibility or project.visibility, project.created_at
        )
        tx.run(store.SET_PROJECT, which=project.id, new_name=changed.name, new_visibility=changed.visibility)
        told = {
            "id": project.id, "name": changed.name, "visibility": changed.visibility,
            "members": self.members(tx, project),
        }  # fmt: skip
        tx.record("project_changed", by.actor, told, project=project.id, subject=project.id)
        return changed

    def delete(self, tx: Transaction, by: Principal, project_id: str) -> list[str]:
        """Remove the project with all that is in it; the checksums of files that nothing names any more."""
        project = self.find(tx, by, project_id)
        if not by.may(Role.OPERATOR) and project.creator != by.name:
            raise Forbidden("only an operator, or the agent that created it, deletes a project", project=project.id)
        checksums = {row[0] for row in tx.rows(store.CHECKSUMS_OF_PROJECT, project=project.id)}
        tx.run(store.DELETE_PROJECT, id=project.id)
        tx.record("project_deleted", by.actor, {"id": project.id, "name": project.name}, project=project.id)
        return [checksum for checksum in checksums if tx.row(store.CHECKSUM_USED, checksum=checksum) is None]

    def join(self, tx: Transaction, by: Principal, project_id: str, agent: str) -> None:
        """An agent joins an open project itself; into one for members an operator lets it."""
        actor = by.acting_for(agent)
        project = self.find(tx, by, project_id)
        check_name(agent, "agent")
        if tx.row(store.MEMBER, project=project.id, name=agent) is None:
            tx.run(store.ADD_MEMBER, project_id=project.id, name=agent, joined_at=tx.now)
            told = {"project": project.id, "agent": agent}
            tx.record("agent_joined_project", actor, told, project=project.id, agent=agent)

    def leave(self, tx: Transaction, by: Principal, project_id: str, agent: str) -> None:
        actor = by.acting_for(agent)
        project = self.find(tx, by, project_id)
        if tx.run(store.REMOVE_MEMBER, project=project.id, name=agent):
            told = {"project": project.id, "agent": agent}
            tx.record("agent_left_project", actor, told, project=project.id, agent=agent)

    def members(self, tx: Transaction, project: Project) -> list[str]:
        return [row[0] for row in tx.rows(store.MEMBERS, project=project.id)]

    # WIP limits -----------------------------------------------------------------------------------------------------

    def limits(self, tx: Transaction, project: Project) -> Limits:
        limits = Limits({}, {}, {})
        for status, agent, limit in tx.rows(store.LIMITS, project=project.id):
            if agent == store.ANY:
                limits.each[status] = limit
            elif agent == store.COLUMN:
                limits.columns[status] = limit
            else:
                limits.agents.setdefault(agent, {})[status] = limit
        return limits

    def set_limit(
        self,
        tx: Transaction,
        by: Principal,
        project_id: str,
        status: Status,
        limit: int | None,
        agent: str | None,
        scope: str,
    ) -> None:
        """Limit a column, for each agent, for one, or for all together (scope `column`); None lifts the limit."""
        project = self.find(tx, by, project_id)
        if scope == "column" and agent is not None:
            raise Invalid("a column's limit is for all together: leave out agent, or scope")
        who = store.COLUMN if scope == "column" else store.ANY if agent is None else check_name(agent, "agent")
        tx.run(store.REMOVE_LIMIT, project=project.id, status=status.value, agent=who)
        if limit is not None:
            tx.run(store.ADD_LIMIT, project_id=project.id, status=status.value, agent=who, wip_limit=limit)
        told = {"project": project.id, "status": status.value, "limit": limit, "agent": agent, "scope": scope}
        tx.record("wip_limit_changed", by.actor, told, project=project.id, subject=project.id)

    def admit(self, tx: Transaction, project: Project, status: Status, agent: str | None, besides: str) -> None:
        """Refuse one more task in the column, for its agent or in all, when a limit says so."""
        limits: dict[str, int] = dict(
            tx.rows(store.LIMITS_FOR, project=project.id, status=status.value, agent=agent or store.ANY)
        )
        mine = limits.get(agent, limits.get(store.ANY)) if agent is not None else None
        for limit, who in ((mine, agent), (limits.get(store.COLUMN), None)):
            if limit is None:
                continue
            if _count(tx, project, status, who, besides) >= limit:
                whose = f"{who} in {status}" if who is not None else f"{status}, all together"
                raise RuleBroken(
                    f"WIP limit reached for {whose} (limit: {limit}); finish or return something first, "
                    "or let an operator raise the limit",
                    code="wip_limit", project=project.id, agent=agent, subject=besides, limit=limit,
                )  # fmt: skip


def _count(tx: Transaction, project: Project, status: Status, agent: str | None, besides: str) -> int:
    in_progress = status is Status.IN_PROGRESS
    params: dict[str, str] = {"project": project.id, "besides": besides}
    if not in_progress:
        params["status"] = status.value
    if agent is not None:
        params["agent"] = agent
    row = tx.row(store.COUNTS[in_progress, agent is not None], **params)
    assert row is not None
    return int(row[0])
