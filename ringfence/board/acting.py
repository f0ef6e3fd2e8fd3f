"""Who acts on a task, and the rules that several use cases share.

Who acts is settled first: an agent as itself, a person as themself, or a person for an agent. Then the agent's own
rules apply (paused, revoked, autonomy, capabilities), and both names are recorded.
"""

from dataclasses import dataclass
from typing import Any

from ringfence.board import store
from ringfence.board.model import Project, Status, Task
from ringfence.board.projects import Projects
from ringfence.crew.links import LinkPolicy, external_link
from ringfence.crew.model import Mode, Standing
from ringfence.crew.proposals.model import Proposal
from ringfence.crew.proposals.service import Proposals
from ringfence.crew.service import Crew
from ringfence.kernel.auth.model import COORDINATOR, Principal, Role, TokenKind, check_name
from ringfence.kernel.database import Transaction
from ringfence.kernel.errors import Forbidden, Invalid, NotFound, RuleBroken
from ringfence.kernel.events.model import SYSTEM, Actor


@dataclass(frozen=True, slots=True)
class Doer:
    """Who acts: the name that is recorded, and, for an agent, how it stands."""

    by: Principal
    actor: Actor
    name: str
    agent: Standing | None

    @property
    def is_operator(self) -> bool:
        return self.by.may(Role.OPERATOR)

    @property
    def coordinates(self) -> bool:
        return self.by.is_agent and COORDINATOR in self.by.scopes


@dataclass(frozen=True, slots=True)
class Going:
    """A move as it was asked for."""

    to: Status
    note: str = ""
    blocked_reason: str | None = None
    blocked_by: str | None = None


NOBODY = Principal(TokenKind.API, "system")
THE_BOARD = Doer(NOBODY, SYSTEM, "system", None)
HUMAN = "human"  # what the hub's clients call the person who asks


class Acting:
    def __init__(self, projects: Projects, crew: Crew, proposals: Proposals, links: LinkPolicy) -> None:
        self.projects = projects
        self._crew = crew
        self._proposals = proposals
        self._links = links

    def task(self, tx: Transaction, by: Principal, project_id: str | None, task_id: str) -> Task:
        """The task, if `by` may see it."""
        row = tx.row(store.TASK, id=task_id)
        if row is None or (project_id is not None and row[1] != project_id):
            raise NotFound(f"Task not found: {task_id!r:.80} in project {project_id!r:.80}")
        self.projects.find(tx, by, row[1], change=False)
        return store.task_of(row)

    def to_change(self, tx: Transaction, by: Principal, project_id: str, task_id: str) -> tuple[Project, Task]:
        """The task and its project, which nobody else changes until this transaction ends."""
        project = self.projects.find(tx, by, project_id)
        row = tx.row(store.TASK, id=task_id)
        if row is None or row[1] != project.id:
            raise NotFound(f"Task not found: {task_id!r:.80} in project {project_id!r:.80}")
        return project, store.task_of(row)

    def doer(self, tx: Transaction, by: Principal, agent: str | None, doing: str | None) -> Doer:
        """Who acts here. An agent, registered or not, must be free to work, also when a person acts for it."""
        name = agent if agent and not (agent == HUMAN and by.is_person) else by.name
        actor = by.acting_for(name)
        if not by.is_agent and name == by.name:
            return Doer(by, actor, name, None)
        check_name(name, "agent")
        standing = self._crew.may_work(tx, name, doing) if doing is not None else self._crew.standing(tx, name)
        return Doer(by, actor, name, standing)

    def proposed(
        self,
        tx: Transaction,
        doer: Doer,
        approved: bool,
        action: str,
        project: Project,
        task: Task | None,
        payload: dict[str, Any],
    ) -> Proposal | None:
        """What an advisory agent wants to do waits for a person."""
        if approved or doer.agent is None or doer.agent.mode is not Mode.ADVISORY:
            return None
        return self._proposals.propose(
            tx, doer.actor, doer.name, action,
            project=project.id, task=None if task is None else task.id, payload=payload,
        )  # fmt: skip

    def capable(
        self,
        tx: Transaction,
        project: Project,
        name: str,
        required: tuple[str, ...],
        task_id: str | None,
        known: Standing | None = None,
    ) -> None:
        if not required:
            return
        standing = known or self._crew.standing(tx, name)
        if missing := sorted(set(required) - standing.capabilities):
            raise RuleBroken(
                f"Capabilities insufficient. Required: {', '.join(required)}, "
                f"have: {', '.join(sorted(standing.capabilities)) or 'none'}; {name} lacks {', '.join(missing)}",
                code="capabilities_insufficient", project=project.id, agent=name, subject=task_id, missing=missing,
            )  # fmt: skip

    def not_waiting(self, tx: Transaction, task: Task) -> None:
        if waiting := tx.rows(store.UNFINISHED, task=task.id):
            names = ", ".join(f"“{title}” ({other})" for other, title, *_ in waiting[:5])
            raise RuleBroken(
                f"Task waits for {names}",
                code="waiting", project=task.project_id, subject=task.id, waiting_for=[row[0] for row in waiting],
            )  # fmt: skip

    def must_hold(self, doer: Doer, task: Task) -> None:
        if not doer.is_operator and doer.name not in (task.claimed_by, task.assigned_to):
            whose = f"it is {task.holder}'s" if task.holder else "nobody has it"
            raise Forbidden(f"{doer.name} does not have this task: {whose}", code="not_yours", subject=task.id)

    def same_project(self, tx: Transaction, project: Project, task_id: str, field: str) -> Task:
        row = tx.row(store.TASK, id=task_id)
        if row is None or row[1] != project.id:
            raise Invalid(f"{field}: there is no task {task_id!r:.80} in this project", code="unknown_task")
        return store.task_of(row)

    def own(self, doer: Doer, task: Task, doing: str) -> None:
        """An agent changes what it wrote, while nobody else has it."""
        if doer.agent is None or doer.is_operator:
            return
        if task.created_by != doer.name or task.holder not in (None, doer.name):
            raise Forbidden(
                f"an agent {doing} only tasks it created, while nobody else has them", code="not_yours", subject=task.id
            )

    def no_links(self, by: Principal, *texts: str | None) -> None:
        """What people may write and agents may not: links that lead out. It takes a while: not for the writer."""
        for text in texts:
            if by.is_agent and text and (link := external_link(text, self._links)) is not None:
                raise RuleBroken(
                    f"external URL detected: {link}; agents write no links to hosts outside "
                    "(an operator may allow a host with the setting link_hosts)",
                    code="external_link", agent=by.name,
                )  # fmt: skip
