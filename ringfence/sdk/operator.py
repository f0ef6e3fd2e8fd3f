"""What a person, or a person's script, does: steer agents, decide proposals, hand out tokens, read the record."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from ringfence.sdk.board import V1, Projects, Tasks
from ringfence.sdk.calls import given, path
from ringfence.sdk.crew import Crew, Messages
from ringfence.sdk.sandboxes import SteersSandboxes
from ringfence.sdk.steps import Steps, operation
from ringfence.sdk.views import (
    AllModes,
    Demo,
    Diagnosis,
    Done,
    Invited,
    LoggedEvent,
    Me,
    Message,
    Mode,
    NewToken,
    Paused,
    Person,
    Policy,
    ProjectItem,
    Proposal,
    Registered,
    Removed,
    Resumed,
    RetentionDays,
    Revocation,
    Revoked,
    SigninLink,
    Standing,
    Tagged,
    Token,
    Verdict,
)

ModeName = Literal["fully_autonomous", "advisory", "manual"]
RoleName = Literal["viewer", "operator", "admin"]


class OperatorOperations(Projects, Tasks, Crew, Messages, SteersSandboxes):
    @operation
    def me(self) -> Steps[Me]:
        return self._get(path(*V1, "me"), Me)

    # Projects -------------------------------------------------------------------------------------------------------

    @operation
    def change_project(
        self, project_id: str, *, name: str | None = None, visibility: Literal["open", "members"] | None = None
    ) -> Steps[ProjectItem]:
        """Rename a project, or open it to all agents or to its members only."""
        wanted = given(name=name, visibility=visibility)
        return self._change("PATCH", path(*V1, "projects", project_id), ProjectItem, wanted)

    # Agents ---------------------------------------------------------------------------------------------------------

    @operation
    def register_agent(
        self,
        name: str,
        type: str = "unknown",
        *,
        metadata: Mapping[str, Any] | None = None,
        autonomy_mode: ModeName | None = None,
        capabilities: Iterable[str] | str | None = None,
        scopes: Iterable[str] = (),
    ) -> Steps[Registered]:
        """Register an agent; the answer's `token` is for it, and shown this once."""
        tags = capabilities if capabilities is None or isinstance(capabilities, str) else list(capabilities)
        return self._create(
            path("agents", "register"), Registered,
            name=name, type=type, metadata=metadata, autonomy_mode=autonomy_mode, capabilities=tags,
            scopes=list(scopes),
        )  # fmt: skip

    @operation
    def unregister_agent(self, agent: str) -> Steps[bool]:
        return self._agreed(self._remove(path("agents", agent), Done))

    @operation
    def set_capabilities(self, agent: str, tags: Iterable[str] | str, description: str = "") -> Steps[Tagged]:
        wanted = tags if isinstance(tags, str) else list(tags)
        return self._change(
            "POST", path("agents", agent, "capabilities"), Tagged, {"tags": wanted, "description": description}
        )

    @operation
    def set_autonomy_mode(self, agent: str, mode: ModeName, *, ceiling: ModeName | None = None) -> Steps[Mode]:
        """How far an agent goes alone, and (`ceiling`) how far it may set its own mode."""
        return self._change("POST", path("agents", agent, "autonomy"), Mode, given(mode=mode, ceiling=ceiling))

    @operation
    def set_all_autonomy_modes(
        self, mode: ModeName, *, agent_type: str | None = None, ceiling: ModeName | None = None
    ) -> Steps[AllModes]:
        """The mode of all agents, or all of a type, and of those that come later."""
        wanted = given(mode=mode, agent_type=agent_type, ceiling=ceiling)
        return self._change("POST", path("autonomy", "set-mode"), AllModes, wanted)

    @operation
    def get_autonomy_policy(self) -> Steps[Policy]:
        """How far agents to come may go, in general and by type."""
        return self._get(path(*V1, "crew", "autonomy"), Policy)

    @operation
    def pause_agent(self, agent: str, reason: str = "", *, freeze: bool = True) -> Steps[Standing]:
        """Let an agent do nothing more until it is resumed; `freeze=False`: it begins nothing new."""
        return self._change("POST", path("agents", agent, "pause"), Standing, {"reason": reason, "freeze": freeze})

    @operation
    def resume_agent(self, agent: str) -> Steps[Standing]:
        return self._change("POST", path("agents", agent, "resume"), Standing)

    @operation
    def pause_all(self, reason: str = "", *, agent_type: str | None = None, freeze: bool = True) -> Steps[list[str]]:
        """Pause every agent, or every one of a type; their names."""
        wanted = given(reason=reason, agent_type=agent_type, freeze=freeze)
        paused = yield from self._change("POST", path(*V1, "crew", "pause"), Paused, wanted)
        return paused["paused"]

    @operation
    def resume_all(self, reason: str = "", *, agent_type: str | None = None) -> Steps[list[str]]:
        wanted = given(reason=reason, agent_type=agent_type)
        resumed = yield from self._change("POST", path(*V1, "crew", "resume"), Resumed, wanted)
        return resumed["resumed"]

    @operation
    def revoke_agent(self, agent: str, reason: str = "", *, flush: bool = True) -> Steps[Revoked]:
        """Halt an agent. With a flush its claims return, and its unread messages are set aside."""
        return self._create(path("agents", agent, "revoke"), Revoked, reason=reason, flush_required=flush)

    @operation
    def revocations(self, agent: str | None = None, *, limit: int | None = None) -> Steps[list[Revocation]]:
        where = path(*V1, "revocations") if agent is None else path(*V1, "crew", agent, "revocations")
        return self._list(where, Revocation, limit)

    # Proposals ------------------------------------------------------------------------------------------------------

    @operation
    def approve_proposal(self, proposal_id: str, note: str | None = None) -> Steps[Proposal]:
        """Let it be done, now; `Conflict` when it no longer can be."""
        return self._decide(proposal_id, "approve", "approved", note)

    @operation
    def deny_proposal(self, proposal_id: str, note: str | None = None) -> Steps[Proposal]:
        return self._decide(proposal_id, "deny", "denied", note)

    # Messages -------------------------------------------------------------------------------------------------------

    @operation
    def list_messages(
        self, agent: str | None = None, *, unread: bool = False, thread: str | None = None, limit: int | None = None
    ) -> Steps[list[Message]]:
        """An agent's inbox; everybody's messages when none is named."""
        return self._list(
            path(*V1, "messages"), Message, limit, agent=agent, unread="true" if unread else None, thread=thread
        )

    @operation
    def ack(self, message_id: str, agent: str | None = None) -> Steps[bool]:
        """Acknowledge a message, in the place of an agent when one is named."""
        return self._agreed(self._change("POST", path("messages", message_id, "ack"), Done, given(agent=agent)))

    # People and tokens ----------------------------------------------------------------------------------------------

    @operation
    def list_people(self) -> Steps[list[Person]]:
        return self._list(path(*V1, "people"), Person)

    @operation
    def invite_person(
        self, name: str, role: RoleName = "viewer", *, projects: Iterable[str] | None = None
    ) -> Steps[Invited]:
        """The answer's `signin_url` lets them in, once; `projects` None: they see all."""
        return self._create(path(*V1, "people"), Invited, name=name, role=role, projects=_listed(projects))

    @operation
    def change_person(
        self,
        name: str,
        *,
        role: RoleName | None = None,
        projects: Iterable[str] | None = None,
        all_projects: bool | None = None,
        disabled: bool | None = None,
    ) -> Steps[Person]:
        """What is not given stays as it is. It applies at once, to what they are signed in with too."""
        wanted = given(role=role, projects=_listed(projects), all_projects=all_projects, disabled=disabled)
        return self._change("PATCH", path(*V1, "people", name), Person, wanted)

    @operation
    def create_signin_link(self, person: str | None = None) -> Steps[SigninLink]:
        """A link that signs a browser in, once: yours, or (for admins) somebody else's."""
        return self._create(path(*V1, "signin-links"), SigninLink, person=person)

    @operation
    def create_enrolment(
        self,
        uses: int = 1,
        *,
        scopes: Iterable[str] = (),
        projects: Iterable[str] | None = None,
        note: str = "",
        days: float | None = None,
    ) -> Steps[NewToken]:
        """A token with which `uses` agents register themselves."""
        return self._create(
            path(*V1, "enrolments"),
            NewToken,
            uses=uses,
            scopes=list(scopes),
            projects=_listed(projects),
            note=note,
            days=days,
        )

    @operation
    def create_token(
        self,
        name: str,
        role: RoleName = "viewer",
        *,
        projects: Iterable[str] | None = None,
        note: str = "",
        days: float | None = None,
    ) -> Steps[NewToken]:
        """A token for a person or a script; its value is in this answer and nowhere else."""
        return self._create(
            path(*V1, "tokens"), NewToken, name=name, role=role, projects=_listed(projects), note=note, days=days
        )

    @operation
    def list_tokens(self, *, limit: int | None = None) -> Steps[list[Token]]:
        return self._list(path(*V1, "tokens"), Token, limit)

    @operation
    def revoke_token(self, token_id: str) -> Steps[bool]:
        return self._agreed(self._remove(path(*V1, "tokens", token_id), Token))

    # The host -------------------------------------------------------------------------------------------------------

    @operation
    def doctor(self) -> Steps[Diagnosis]:
        """What the server's host can hold up of a sandbox, by trying, and what would mend what it cannot."""
        return self._get(path(*V1, "doctor"), Diagnosis)

    # The demo -------------------------------------------------------------------------------------------------------

    @operation
    def demo(self) -> Steps[Demo]:
        """Whether there is a demo, and whether its agents move."""
        return self._get(path(*V1, "demo"), Demo)

    @operation
    def start_demo(self) -> Steps[Demo]:
        """Make a project whose agents work by themselves for 15 minutes, or let the one there is go on."""
        return self._create(path(*V1, "demo"), Demo)

    @operation
    def stop_demo(self) -> Steps[bool]:
        """Remove the demo with all that it made, but for the events."""
        return self._agreed(self._remove(path(*V1, "demo"), Done))

    # The record -----------------------------------------------------------------------------------------------------

    @operation
    def audit(
        self,
        *,
        kind: str | None = None,
        actor: str | None = None,
        agent: str | None = None,
        project: str | None = None,
        subject: str | None = None,
        newest_first: bool = True,
        limit: int | None = 100,
    ) -> Steps[list[LoggedEvent]]:
        """Every change and every refusal."""
        return self._list(
            path(*V1, "audit"), LoggedEvent, limit, kind=kind, actor=actor, agent=agent, project=project,
            subject=subject, newest_first=str(newest_first).lower(),
        )  # fmt: skip

    @operation
    def verify_audit(self, head: str | None = None) -> Steps[Verdict]:
        """Whether the record is as it was written."""
        return self._get(path(*V1, "audit", "verify"), Verdict, head=head)

    # How long things are kept ---------------------------------------------------------------------------------------

    @operation
    def get_retention(self) -> Steps[RetentionDays]:
        """How many days events, and acknowledged messages, are kept; 0: for ever."""
        return self._get(path(*V1, "retention"), RetentionDays)

    @operation
    def set_retention(
        self, *, events_days: float | None = None, messages_days: float | None = None
    ) -> Steps[RetentionDays]:
        """From now on; what is not given stays as it is."""
        wanted = given(events_days=events_days, messages_days=messages_days)
        return self._change("PUT", path(*V1, "retention"), RetentionDays, wanted)

    @operation
    def prune_audit(self, days: float) -> Steps[int]:
        """Remove older events, now; how many went. The chain goes on, and verifies."""
        return self._prune("audit", days)

    @operation
    def prune_messages(self, days: float) -> Steps[int]:
        """Remove what expired, and what was acknowledged or set aside so long ago; how many deliveries went."""
        return self._prune("messages", days)

    def _prune(self, what: str, days: float) -> Steps[int]:
        pruned = yield from self._change("POST", path(*V1, what, "prune"), Removed, {"days": days})
        return pruned["removed"]


def _listed(values: Iterable[str] | None) -> list[str] | None:
    return None if values is None else list(values)
