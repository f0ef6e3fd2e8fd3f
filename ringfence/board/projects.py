"""Use cases of projects: who belongs to them, who may see them, and how much may be in progress."""

from dataclasses import dataclass

from ringfence.board import store
from ringfence.board.model import Project, Status
from ringfence.crew.service import Crew
from ringfence.kernel.auth.model import Principal, Role, check_name
from ringfence.kernel.database import Transaction
from ringfence.kernel.errors import Forbidden, Invalid, NotFound, RuleBroken
from ringfence.kernel.events.model import Actor, Event
from ringfence.kernel.ids import new
from ringfence.settings import Settings


@dataclass(frozen=True, slots=True)
class Limits:
    """How many tasks may be in a column: of each agent, of one agent, of all together."""

    each: dict[str, int]
    agents: dict[str, dict[str, int]]
    columns: dict[str, int]


class Projects:
    def __init__(self, settings: Settings, crew: Crew) -> None:
        self._settings = settings
        self._crew = crew
        self._readers: dict[str, set[str] | None] = {}  # the agents that see each project; None: all

    # Who sees what --------------------------------------------------------------------------------------------------

    def load(self, tx: Transaction) -> None:
        """Learn which agents see which projects, so that the event feed can ask without a query."""
        readers: dict[str, set[str] | None] = {}
        for project, visibility, member in tx.rows(store.READERS):
            known = readers.setdefault(project, None if visibility == "open" else set())
            if known is not None and member is not None:
                known.add(member)
        self._readers = readers

    def observe(self, events: list[Event]) -> None:
        for event in events:
            if event.project is None or not event.kind.startswith(("project_", "agent_joined", "agent_left")):
                continue
            told = event.payload
            if "visibility" in told:
                self._readers[event.project] = None if told["visibility"] == "open" else set(told["members"])
            elif (readers := self._readers.get(event.project)) is not None and "agent" in told:
                change = set.add if event.kind == "agent_joined_project" else set.discard
                change(readers, told["agent"])

    def sees(self, by: Principal, project: str | None) -> bool:
        """Whether `by` may see what belongs to the project (None: to no project).

        Of one that was deleted before this server started nobody knows whom it was open to: then no agent.
        """
        if project is None or not by.is_agent or not by.sees(project):
            return by.sees(project)
        readers = self._readers.get(project, set())
        return readers is None or by.name in readers

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

    def check_sees(self, tx: Transaction, project: Project, agent: str) -> None:
        """Refuse work for an agent that could not see it."""
        if project.visibility == "members" and tx.row(store.MEMBER, project=project.id, name=agent) is None:
            raise RuleBroken(
                f"{agent} is no member of this project, which is for members only: let it join first",
                code="not_a_member", project=project.id, agent=agent,
            )  # fmt: skip

    def _actor(self, tx: Transaction, by: Principal, name: str, doing: str) -> Actor:
        """Who is recorded. An agent, or a person acting for one, must be free to work."""
        actor = by.acting_for(name)
        if by.is_agent or name != by.name:
            self._crew.may_work(tx, check_name(name, "agent"), doing)
        return actor

    # Use cases ------------------------------------------------------------------------------------------------------

    def create(self, tx: Transaction, by: Principal, name: str, creator: str, visibility: str) -> Project:
        if by.projects is not None:
            raise Forbidden("your access is limited to some projects: ask somebody with access to all to create one")
        actor = self._actor(tx, by, creator, "create projects")
        project = Project(new("prj"), name, creator, visibility, tx.now)
        tx.run(
            store.ADD_PROJECT,
            id=project.id, name=name, creator=creator, visibility=visibility, created_at=tx.now,
        )  # fmt: skip
        tx.run(store.ADD_MEMBER, project_id=project.id, name=creator, joined_at=tx.now)
        defaults = {Status.IN_PROGRESS: self._settings.wip_in_progress, Status.IN_REVIEW: self._settings.wip_in_review}
        for status, limit in defaults.items():
            _limit(tx, project, status, store.ANY, limit)
        told = {"id": project.id, "name": name, "creator": creator, "visibility": visibility, "members": [creator]}
        tx.record("project_created", actor, told, project=project.id, subject=project.id)
        return project

    def page(self, tx: Transaction, by: Principal, member: str | None, cursor: str, limit: int) -> list[Project]:
        """Those `by` may see; fewer than `limit` only at the end."""
        found: list[Project] = []
        while True:
            if member is not None:
                rows = tx.rows(store.PROJECTS_OF, name=member, cursor=cursor, limit=limit)
            else:
                rows = tx.rows(store.ALL_PROJECTS, cursor=cursor, limit=limit)
            found += [project for project in map(store.project_of, rows) if self._may_see(tx, by, project)]
            if len(rows) < limit or len(found) >= limit:
                return found[:limit]
            cursor = rows[-1][0]

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
            "members": self.members(tx, project), "was": {"name": project.name, "visibility": project.visibility},
        }  # fmt: skip
        tx.record("project_changed", by.actor, told, project=project.id, subject=project.id)
        return changed

    def delete(self, tx: Transaction, by: Principal, project_id: str) -> list[str]:
        """Remove the project with all that is in it; the checksums of files that nothing names any more."""
        project = self.find(tx, by, project_id)
        actor = self._actor(tx, by, by.name, "delete projects")
        if not by.may(Role.OPERATOR) and project.creator != by.name:
            raise Forbidden("only an operator, or the agent that created it, deletes a project", project=project.id)
        checksums = {row[0] for row in tx.rows(store.CHECKSUMS_OF_PROJECT, project=project.id)}
        holders = [row[0] for row in tx.rows(store.HOLDERS, project=project.id)]
        tx.run(store.DELETE_PROJECT, id=project.id)
        tx.record("project_deleted", actor, {"id": project.id, "name": project.name}, project=project.id)
        for agent in holders:
            self.refresh_current(tx, agent)
        return [checksum for checksum in checksums if tx.row(store.CHECKSUM_USED, checksum=checksum) is None]

    def join(self, tx: Transaction, by: Principal, project_id: str, agent: str) -> None:
        """An agent joins an open project itself; into one for members an operator lets it."""
        project = self.find(tx, by, project_id)
        actor = self._actor(tx, by, agent, "join projects")
        if tx.row(store.MEMBER, project=project.id, name=agent) is None:
            tx.run(store.ADD_MEMBER, project_id=project.id, name=agent, joined_at=tx.now)
            told = {"project": project.id, "agent": agent}
            tx.record("agent_joined_project", actor, told, project=project.id, agent=agent)

    def leave(self, tx: Transaction, by: Principal, project_id: str, agent: str) -> None:
        project = self.find(tx, by, project_id)
        actor = by.acting_for(agent)
        if tx.run(store.REMOVE_MEMBER, project=project.id, name=agent):
            told = {"project": project.id, "agent": agent}
            tx.record("agent_left_project", actor, told, project=project.id, agent=agent)

    def members(self, tx: Transaction, project: Project) -> list[str]:
        return [row[0] for row in tx.rows(store.MEMBERS, project=project.id)]

    def refresh_current(self, tx: Transaction, agent: str) -> None:
        """Tell the crew which of the tasks it holds an agent works on."""
        row = tx.row(store.HOLDS_WORK, agent=agent)
        self._crew.set_current_task(tx, agent, row[0] if row else None)

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
        held = {(column, whose): number for column, whose, number in tx.rows(store.LIMITS, project=project.id)}
        tx.run(store.REMOVE_LIMIT, project=project.id, status=status.value, agent=who)
        _limit(tx, project, status, who, limit)
        told = {
            "project": project.id, "status": status.value, "limit": limit, "agent": agent, "scope": scope,
            "was": {"limit": held.get((status.value, who))},
        }  # fmt: skip
        tx.record("wip_limit_changed", by.actor, told, project=project.id, subject=project.id)

    def admit(self, tx: Transaction, project_id: str, status: Status, agent: str | None, besides: str) -> None:
        """Refuse one more task in the column, for its agent or in all, when a limit says so."""
        limits: dict[str, int] = dict(
            tx.rows(store.LIMITS_FOR, project=project_id, status=status.value, agent=agent or store.ANY)
        )
        mine = limits.get(agent, limits.get(store.ANY)) if agent is not None else None
        for limit, who in ((mine, agent), (limits.get(store.COLUMN), None)):
            if limit is None:
                continue
            if _count(tx, project_id, status, who, besides) >= limit:
                whose = f"{who} in {status}" if who is not None else f"{status}, all together"
                raise RuleBroken(
                    f"WIP limit reached for {whose} (limit: {limit}); finish or return something first, "
                    "or let an operator raise the limit",
                    code="wip_limit", project=project_id, agent=agent, subject=besides, limit=limit,
                )  # fmt: skip


def _limit(tx: Transaction, project: Project, status: Status, who: str, limit: int | None) -> None:
    held = {"project_id": project.id, "status": status.value, "agent": who, "wip_limit": limit}
    if limit is not None:
        tx.run(store.ADD_LIMIT, **held)
    tx.run(store.ADD_LIMIT_CHANGE, id=new("lim"), at=tx.now, **held)


def _count(tx: Transaction, project_id: str, status: Status, agent: str | None, besides: str) -> int:
    in_progress = status is Status.IN_PROGRESS
    params: dict[str, str] = {"project": project_id, "besides": besides}
    if not in_progress:
        params["status"] = status.value
    if agent is not None:
        params["agent"] = agent
    row = tx.row(store.COUNTS[in_progress, agent is not None], **params)
    assert row is not None
    return int(row[0])
