"""The way of a task: claimed, moved, assigned, reviewed, given back."""

from collections.abc import Iterable
from typing import Any

from ringfence.board import model, store
from ringfence.board.acting import NOBODY, Acting, Doer, Going
from ringfence.board.dependencies import Dependencies
from ringfence.board.journal import record, step
from ringfence.board.model import Project, Status, Task
from ringfence.board.tasks import Tasks, where
from ringfence.crew.model import Mode
from ringfence.crew.proposals.model import Proposal
from ringfence.crew.proposals.service import Proposals
from ringfence.crew.service import Crew
from ringfence.kernel.auth.model import Principal, check_name
from ringfence.kernel.database import Transaction
from ringfence.kernel.errors import Conflict, Forbidden, Invalid, NotFound, RuleBroken
from ringfence.kernel.events.model import Actor
from ringfence.kernel.ids import new


class Flow:
    def __init__(
        self, acting: Acting, dependencies: Dependencies, tasks: Tasks, crew: Crew, proposals: Proposals
    ) -> None:
        self._acting = acting
        self._projects = acting.projects
        self._dependencies = dependencies
        self._tasks = tasks
        self._crew = crew
        crew.on_release.append(self.release_all)
        crew.holds_work = self.holds_work
        proposals.performers["claim"] = self._perform_claim
        proposals.performers["transition"] = self._perform_move
        proposals.performers["assign"] = self._perform_assign
        proposals.performers["unassign"] = self._perform_unassign
        proposals.performers["review"] = self._perform_review

    def claim(
        self,
        tx: Transaction,
        by: Principal,
        project_id: str,
        task_id: str,
        agent: str | None = None,
        *,
        approved: bool = False,
    ) -> Task | Proposal:
        """Hold the task for an agent: one of any number that try gets it, the others are told who has it."""
        project, task = self._acting.to_change(tx, by, project_id, task_id)
        doer = self._acting.doer(tx, by, agent, "claim tasks")
        if task.held and task.claimed_by == doer.name:
            return task
        self._claimable(tx, project, task, doer)
        self._check_mode(project, task, doer, approved)
        if (proposal := self._acting.proposed(tx, doer, approved, "claim", project, task, {})) is not None:
            return proposal
        return self._take(tx, doer, task)

    def claim_next(
        self, tx: Transaction, by: Principal, project_id: str, agent: str | None, tags: Iterable[str]
    ) -> Task | Proposal | None:
        """Claim the most urgent task that can be claimed; None when there is none."""
        found = self._tasks.claimable(tx, by, project_id, agent or by.name, tags)
        return None if found is None else self.claim(tx, by, project_id, found.id, agent)

    def _claimable(self, tx: Transaction, project: Project, task: Task, doer: Doer) -> None:
        where: dict[str, Any] = {"project": project.id, "agent": doer.name, "subject": task.id}
        if doer.agent is not None:
            self._crew.may_begin(doer.agent, "claim tasks")
        if task.held:
            raise Conflict(
                f"Task already claimed by {task.claimed_by}: choose another from the ready queue",
                code="already_claimed", claimed_by=task.claimed_by, **where,
            )  # fmt: skip
        if task.status not in model.WAITING:
            raise RuleBroken(
                f"Cannot claim task in {task.status} status" + (f": {task.holder} has it" if task.holder else ""),
                code="not_claimable", claimed_by=task.holder, **where,
            )  # fmt: skip
        if task.assigned_to not in (None, doer.name):
            raise Conflict(
                f"Task is assigned to {task.assigned_to}: choose another from the ready queue",
                code="assigned_to_another", assigned_to=task.assigned_to, **where,
            )  # fmt: skip
        if doer.agent is not None:
            self._projects.check_sees(tx, project, doer.name)
        self._acting.capable(tx, project, doer.name, task.required_capabilities, task.id, doer.agent)
        self._acting.not_waiting(tx, task)
        self._projects.admit(tx, project.id, Status.IN_PROGRESS, doer.name, task.id)

    def _check_mode(self, project: Project, task: Task, doer: Doer, approved: bool) -> None:
        if doer.agent is not None and doer.agent.mode is Mode.MANUAL and not approved and task.assigned_to != doer.name:
            raise Forbidden(
                f"{doer.name} is in manual mode: it works on what a person assigns to it, and claims nothing itself",
                code="autonomy_manual", project=project.id, agent=doer.name, subject=task.id,
            )  # fmt: skip

    def _take(self, tx: Transaction, doer: Doer, task: Task) -> Task:
        taken = task._replace(claimed_by=doer.name, assigned_to=doer.name, updated_at=tx.now)
        if task.status is Status.BACKLOG:
            taken = step(tx, doer, taken, Status.READY, "claimed")._replace(claimed_by=doer.name, assigned_to=doer.name)
        store.save(tx, task, taken)
        record(tx, "task_claimed", doer.actor, taken, {"agent": doer.name, "title": task.title}, agent=doer.name)
        self._crew.set_current_task(tx, doer.name, task.id)
        return taken

    def release(self, tx: Transaction, by: Principal, project_id: str, task_id: str, agent: str | None) -> Task:
        """Give a claimed task back to the queue."""
        _, task = self._acting.to_change(tx, by, project_id, task_id)
        doer = self._acting.doer(tx, by, agent, None)
        self._acting.must_hold(doer, task)
        if not task.held and task.status is not Status.IN_PROGRESS:
            raise RuleBroken(
                f"only a claimed task, or one in progress, can be given back; this is {task.status}"
                + ("" if task.claimed_by else ", and nobody claimed it"),
                code="not_held", project=task.project_id, agent=doer.name, subject=task.id,
            )  # fmt: skip
        return self._give_back(tx, doer.actor, task, "given back")

    def release_all(self, tx: Transaction, by: Actor, agent: str, reason: str) -> int:
        """Return what the agent claimed or works on to the queue."""
        for project in sorted({row[1] for row in tx.rows(store.WORKED_ON_BY, agent=agent)}):
            tx.row(store.LOCKED_PROJECT, id=project)
        held = [store.task_of(row) for row in tx.rows(store.WORKED_ON_BY, agent=agent)]
        for task in held:
            self._give_back(tx, by, task, reason)
        return len(held)

    def holds_work(self, tx: Transaction, agent: str) -> bool:
        return tx.row(store.HOLDS_WORK, agent=agent) is not None

    def _give_back(self, tx: Transaction, by: Actor, task: Task, reason: str) -> Task:
        holder = task.holder
        doer = Doer(NOBODY, by, by.name.rpartition(":")[2], None)
        returned = step(tx, doer, task, Status.READY, reason) if task.status is Status.IN_PROGRESS else task
        returned = returned.released()._replace(updated_at=tx.now)
        store.save(tx, task, returned)
        record(tx, "task_released", by, task, {"agent": holder, "title": task.title, "reason": reason}, agent=holder)
        if holder is not None:
            self._projects.refresh_current(tx, holder)
        return self._dependencies.settle(tx, returned)

    def move(
        self,
        tx: Transaction,
        by: Principal,
        project_id: str,
        task_id: str,
        agent: str | None,
        going: Going,
        *,
        approved: bool = False,
    ) -> Task | Proposal:
        project, task = self._acting.to_change(tx, by, project_id, task_id)
        doer = self._acting.doer(tx, by, agent, "move tasks")
        steps = model.path_of(task, going.to)
        takes = self._check_mover(tx, project, task, doer, going.to, approved)
        self._check_arrival(tx, project, task, doer, going, steps)
        payload = {
            "status": going.to.value,
            "note": going.note,
            "blocked_reason": going.blocked_reason,
            "blocked_by": going.blocked_by,
        }
        if (proposal := self._acting.proposed(tx, doer, approved, "transition", project, task, payload)) is not None:
            return proposal
        if takes:
            task = self._take(tx, doer, task)
        return self._go(tx, doer, task, going, steps)

    def _go(self, tx: Transaction, doer: Doer, before: Task, going: Going, steps: tuple[Status, ...]) -> Task:
        holder, task = before.holder, before
        if going.to is Status.DONE and self._signs(task, doer):
            task = self._signed(tx, doer, task, doer.name)
        for to in steps:
            task = step(tx, doer, task, to, going.note, going)
        if before.status is Status.BLOCKED:
            task = self._dependencies.kept(tx, doer.actor, task)
        store.save(tx, before, task)
        if before.status is Status.BLOCKED:
            self._dependencies.unblock_successors(tx, task)
        else:
            task = self._dependencies.settle(tx, task)
        if task.status is Status.DONE:
            self._completed(tx, task)
        if task.status is Status.BLOCKED:
            self._dependencies.block_successors(tx, task)
        if holder is not None:
            self._projects.refresh_current(tx, holder)
        return task

    def _check_mover(
        self, tx: Transaction, project: Project, task: Task, doer: Doer, to: Status, approved: bool
    ) -> bool:
        """Refuse who may not move this task; True when moving it means taking it first."""
        if doer.agent is None:
            return False
        if to is Status.IN_PROGRESS and task.status is Status.READY and task.claimed_by is None:
            self._claimable(tx, project, task, doer)
            self._check_mode(project, task, doer, approved)
            return True
        if doer.is_operator:
            return False
        reviews = task.status is Status.IN_REVIEW and doer.name in task.reviewers
        grooms = task.holder is None and task.created_by == doer.name and to is not Status.BACKLOG
        if doer.name not in (task.claimed_by, task.assigned_to) and not reviews and not grooms:
            whose = f"it is {task.holder}'s" if task.holder else "claim it first"
            raise Forbidden(
                f"{doer.name} cannot move this task: {whose}",
                code="not_yours", project=project.id, agent=doer.name, subject=task.id,
            )  # fmt: skip
        return False

    def _check_arrival(
        self, tx: Transaction, project: Project, task: Task, doer: Doer, going: Going, steps: tuple[Status, ...]
    ) -> None:
        worker = task.holder or (doer.name if doer.agent is not None else None)
        if Status.IN_PROGRESS in steps:
            self._acting.not_waiting(tx, task)
            if worker is not None:
                self._acting.capable(tx, project, worker, task.required_capabilities, task.id)
        if going.to is Status.DONE:
            self._check_reviewed(task, doer)
        if going.to is Status.BLOCKED and going.blocked_by:
            if going.blocked_by == task.id:
                raise Invalid("a task cannot block itself: blocked_by names another task")
            if self._acting.same_project(tx, project, going.blocked_by, "blocked_by").status is Status.DONE:
                raise Invalid(f"blocked_by: task {going.blocked_by} is done, and would never unblock this one")
        self._projects.admit(tx, project.id, going.to, worker, task.id)

    def _signs(self, task: Task, doer: Doer) -> bool:
        """A person who moves a task to done has reviewed it."""
        return doer.agent is None and doer.name not in (*task.reviewers, task.assigned_to)

    def _signed(self, tx: Transaction, doer: Doer, task: Task, reviewer: str) -> Task:
        record(tx, "task_reviewer_added", doer.actor, task, {"reviewer": reviewer}, agent=task.holder)
        return task._replace(reviewers=(*task.reviewers, reviewer), updated_at=tx.now)

    def _check_reviewed(self, task: Task, doer: Doer) -> None:
        """Enough have signed, not counting who works on it: they may have signed before they took it."""
        signed = [name for name in task.reviewers if name not in (task.assigned_to, task.claimed_by)]
        have = len(signed) + (1 if self._signs(task, doer) else 0)
        if have < task.required_reviewers:
            missing = task.required_reviewers - have
            raise RuleBroken(
                f"{task.required_reviewers} reviewers required, {have} signed: {missing} more must review it first "
                f"(POST …/tasks/{task.id}/reviewers/NAME)",
                code="review_missing", project=task.project_id, agent=task.holder, subject=task.id,
                required_reviewers=task.required_reviewers, reviewers=signed,
            )  # fmt: skip

    def _completed(self, tx: Transaction, task: Task) -> None:
        since = task.started_at if task.started_at is not None else 0
        reworks = tx.row(store.REWORKS, task=task.id, since=since)
        tx.run(
            store.ADD_COMPLETION,
            id=new("cmp"), task_id=task.id, project_id=task.project_id, agent=task.assigned_to,
            started_at=task.started_at, completed_at=task.completed_at, reworked=reworks[0] if reworks else 0,
        )  # fmt: skip
        for other in self._dependencies.blocked_by(tx, task):
            self._dependencies.unblock(tx, other, f"“{task.title}” ({task.id}) is done")

    def assign(
        self,
        tx: Transaction,
        by: Principal,
        project_id: str,
        task_id: str,
        agent: str,
        assigned_by: str | None,
        *,
        approved: bool = False,
    ) -> Task | Proposal:
        project, task = self._acting.to_change(tx, by, project_id, task_id)
        check_name(agent, "agent")
        doer = self._acting.doer(tx, by, assigned_by, "assign tasks")
        if not doer.is_operator and not doer.coordinates:
            raise Forbidden(
                "assigning takes an operator, or the scope coordinator: claim the task instead", subject=task.id
            )
        if task.status is Status.DONE:
            raise RuleBroken("a done task cannot be assigned: move it to backlog first", code="done", subject=task.id)
        if agent == doer.name:
            self._check_mode(project, task, doer, approved)
        self._projects.check_sees(tx, project, agent)
        self._acting.capable(tx, project, agent, task.required_capabilities, task.id)
        self._projects.admit(tx, project.id, Status.IN_PROGRESS, agent, task.id)
        if task.status is not Status.READY:
            self._projects.admit(tx, project.id, Status.READY, agent, task.id)
        proposal = self._acting.proposed(tx, doer, approved, "assign", project, task, {"agent": agent})
        if proposal is not None:
            return proposal
        ready = task
        if task.status is not Status.READY:
            ready = step(tx, doer, task, Status.READY, f"assigned to {agent}")
        claimed = ready.claimed_by if ready.claimed_by == agent else None
        assigned = ready._replace(assigned_to=agent, claimed_by=claimed, updated_at=tx.now)
        store.save(tx, task, assigned)
        told = {"title": task.title, "agent": agent, "by": doer.name}
        record(tx, "task_assigned", doer.actor, assigned, told, agent=agent)
        if task.status is Status.BLOCKED:
            self._dependencies.unblock_successors(tx, assigned)
        if task.holder is not None and task.holder != agent:
            self._projects.refresh_current(tx, task.holder)
        return assigned

    def unassign(
        self,
        tx: Transaction,
        by: Principal,
        project_id: str,
        task_id: str,
        agent: str | None = None,
        *,
        approved: bool = False,
    ) -> Task | Proposal:
        """Back to the backlog, and nobody's."""
        project, task = self._acting.to_change(tx, by, project_id, task_id)
        doer = self._acting.doer(tx, by, agent, "unassign tasks")
        if not doer.is_operator and not doer.coordinates:
            self._acting.must_hold(doer, task)
        if (proposal := self._acting.proposed(tx, doer, approved, "unassign", project, task, {})) is not None:
            return proposal
        back = task
        if task.status is not Status.BACKLOG:
            back = step(tx, doer, task, Status.BACKLOG, "unassigned")
        back = back._replace(assigned_to=None, claimed_by=None, updated_at=tx.now)
        store.save(tx, task, back)
        told = {"title": task.title, "agent": task.holder}
        record(tx, "task_unassigned", doer.actor, back, told, agent=task.holder)
        if task.status is Status.BLOCKED:
            self._dependencies.unblock_successors(tx, back)
        else:
            back = self._dependencies.settle(tx, back)
        if task.holder is not None:
            self._projects.refresh_current(tx, task.holder)
        return back

    def review(
        self, tx: Transaction, by: Principal, project_id: str, task_id: str, reviewer: str, *, approved: bool = False
    ) -> Task | Proposal:
        """Record that `reviewer` reviewed the task: an agent for itself, an operator for anybody but its worker."""
        project, task = self._acting.to_change(tx, by, project_id, task_id)
        check_name(reviewer, "reviewer")
        doer = self._acting.doer(tx, by, reviewer if by.is_agent or approved else None, "review tasks")
        if reviewer in (task.assigned_to, task.claimed_by):
            raise RuleBroken(
                f"{reviewer} works on this task, and cannot review it too", code="own_work", subject=task.id
            )
        if reviewer in task.reviewers:
            return task
        proposal = self._acting.proposed(tx, doer, approved, "review", project, task, {"reviewer": reviewer})
        if proposal is not None:
            return proposal
        reviewed = self._signed(tx, doer, task, reviewer)
        store.save(tx, task, reviewed)
        return reviewed

    def withdraw_review(self, tx: Transaction, by: Principal, project_id: str, task_id: str, reviewer: str) -> Task:
        _, task = self._acting.to_change(tx, by, project_id, task_id)
        doer = self._acting.doer(tx, by, reviewer if by.is_agent else None, "review tasks")
        if reviewer not in task.reviewers:
            raise NotFound(f"{reviewer!r:.80} is no reviewer of this task")
        changed = task._replace(reviewers=tuple(name for name in task.reviewers if name != reviewer), updated_at=tx.now)
        store.save(tx, task, changed)
        record(tx, "task_reviewer_removed", doer.actor, task, {"reviewer": reviewer}, agent=task.holder)
        return changed

    def _perform_claim(self, tx: Transaction, by: Principal, proposal: Proposal) -> object:
        return self.claim(tx, by, *where(proposal), proposal.agent, approved=True)

    def _perform_move(self, tx: Transaction, by: Principal, proposal: Proposal) -> object:
        asked = proposal.payload
        going = Going(Status(asked["status"]), asked["note"], asked["blocked_reason"], asked["blocked_by"])
        return self.move(tx, by, *where(proposal), proposal.agent, going, approved=True)

    def _perform_assign(self, tx: Transaction, by: Principal, proposal: Proposal) -> object:
        return self.assign(tx, by, *where(proposal), proposal.payload["agent"], proposal.agent, approved=True)

    def _perform_unassign(self, tx: Transaction, by: Principal, proposal: Proposal) -> object:
        return self.unassign(tx, by, *where(proposal), proposal.agent, approved=True)

    def _perform_review(self, tx: Transaction, by: Principal, proposal: Proposal) -> object:
        return self.review(tx, by, *where(proposal), proposal.payload["reviewer"], approved=True)
