"""Agents: see them, and steer them."""

from typing import Annotated, Any, Literal, cast, get_args

from typer import Argument, Option

from ringfence.cli.api import Json, path
from ringfence.cli.invocation import Invocation, Noun
from ringfence.cli.problems import NotFound, Usage
from ringfence.cli.screen import Column, plain, when

agent = Noun("agent", "Agents: see, pause, resume, revoke, change their mode.")

Mode = Literal["fully_autonomous", "advisory", "manual"]
Status = Literal["online", "busy", "revoked", "stalled", "stale", "offline"]
MODES = get_args(Mode)
COLUMNS = [
    Column("name", "name", whole=True),
    Column("status", "status"),
    Column("type", "type"),
    Column("mode", "autonomy_mode"),
    Column("capabilities", "capabilities"),
    Column("task", "current_task_id"),
    Column("last seen", when("last_seen")),
]
FACTS = [
    *COLUMNS[:4],
    Column("mode at most", "autonomy_ceiling"),
    *COLUMNS[4:],
    Column("description", "description", prose=True),
    Column("registered", when("registered_at")),
    Column("paused", when("paused_at")),
    Column("paused because", "pause_reason"),
    Column("revocation", "revocation_id"),
    Column("stalled", when("stalled_at")),
    Column("checkpoints", "checkpoint_sequence"),
    Column("missed", "missed_checkpoints"),
    Column("metadata", "metadata"),
]
CHECKPOINTS = [
    Column("number", "sequence", right=True),
    Column("when", when("timestamp")),
    Column("task", "task_id"),
    Column("state", "state", prose=True),
    Column("rationale", "rationale", prose=True),
]
PULSE = [
    Column("checkpoint due", "checkpoint_due"),
    Column("paused", "paused"),
    Column("revoked", lambda it: it["revocation"] and it["revocation"]["revocation_id"]),
    Column("because", lambda it: it["revocation"] and it["revocation"]["reason"], prose=True),
]
REVOCATIONS = [
    Column("id", "id", whole=True),
    Column("agent", "agent"),
    Column("reason", "reason", prose=True),
    Column("issued", when("issued_at")),
    Column("by", "issued_by"),
    Column("flush", "flush_required"),
    Column("acknowledged", lambda it: when("acknowledged_at")(it) if it["acknowledged"] else "no"),
]
PROFILES = [
    Column("agent", "agent", whole=True),
    Column("capabilities", "tags"),
    Column("description", "description", prose=True),
]

Name = Annotated[str, Argument(metavar="AGENT", help="Its name, or how the name begins.")]
Reason = Annotated[str, Option("--reason", "-r", help="Why; the agent is told.")]
Type = Annotated[str | None, Option("--type", help="Only agents of this type.")]


def at(name: str, *parts: str) -> str:
    return "/api/v1/crew" + path(name, *parts)


def find(run: Invocation, word: str) -> Json:
    """The agent of that name, or whose name alone begins like this."""
    try:
        exact: Json = run.api.get(at(word))
        return exact
    except NotFound:
        begun = [it for it in run.api.every("/api/v1/crew") if it["name"].startswith(word)]
        if not begun:
            raise
    if len(begun) > 1:
        raise Usage(f"{word!r} may be any of these agents: {', '.join(it['name'] for it in begun[:20])}")
    return begun[0]


@agent.verb("list")
def list_agents(
    run: Invocation,
    status: Annotated[Status | None, Option(help="Only those; busy is paused.")] = None,
    type: Type = None,
    capability: Annotated[str | None, Option(help="That can do this.")] = None,
) -> None:
    """The agents, by name."""
    found = run.api.every("/api/v1/crew", status=status, type=type, capability=capability)
    run.screen.items(found, COLUMNS, "no agents")


@agent.verb("show")
def show(run: Invocation, agent: Name) -> None:
    """One agent."""
    found = find(run, agent)
    run.screen.facts(run.api.get(at(found["name"])), FACTS)


@agent.verb("register")
def register(
    run: Invocation,
    name: Annotated[str, Argument(help="A name for the agent.")],
    type: Annotated[str | None, Option("--type", help="Such as claude, codex.")] = None,
    mode: Annotated[Mode | None, Option(help="How far it goes alone.")] = None,
    capability: Annotated[list[str] | None, Option(help="What it can do; may be repeated.")] = None,
    scope: Annotated[list[str] | None, Option(help="What it may besides: coordinator.")] = None,
) -> None:
    """Register an agent, and print its token. It is shown this once."""
    body = {
        "name": name, "type": type, "autonomy_mode": mode, "capabilities": capability or None, "scopes": scope or None
    }  # fmt: skip
    made = run.api.post("/api/v1/crew", body).body
    run.screen.note(f"Registered {name} ({made['autonomy_mode']}). Its token, for RINGFENCE_TOKEN:")
    run.screen.done(made, made["token"] or "(as before)", made["token"])


@agent.verb("unregister")
def unregister(run: Invocation, agent: Name) -> None:
    """Take an agent off the roster: its claims return, its tokens end."""
    name = find(run, agent)["name"]
    run.screen.confirm(f"Unregister {name}? Its claims return, and its tokens end.")
    run.screen.done(run.api.delete(at(name)).body, f"Unregistered {name}.", name)


@agent.verb("mode")
def mode(
    run: Invocation,
    agent: Annotated[str | None, Argument(help="Its name; with --all leave it out.")] = None,
    mode: Annotated[Mode | None, Argument(help="Without it, show the mode.")] = None,
    ceiling: Annotated[Mode | None, Option(help="How far the agent may set its own mode.")] = None,
    every: Annotated[bool, Option("--all", help="All agents, and those to come.")] = False,
    type: Type = None,
) -> None:
    """Set how far an agent goes alone; without a mode, show it."""
    if every and mode is None and agent is not None:
        if agent not in MODES:
            raise Usage(f"--all takes a mode and no name, and {agent!r} is none of {', '.join(MODES)}")
        agent, mode = None, cast(Mode, agent)
    if every and agent is None:
        answer: Any = (
            run.api.get("/api/v1/crew/autonomy")
            if mode is None
            else run.api.put("/api/v1/crew/autonomy", {"mode": mode, "ceiling": ceiling, "agent_type": type}).body
        )
        changed = plain(answer.get("updated_agents"))
        told = "" if mode is None else f"; changed: {changed}"
        run.screen.done(answer, f"{answer['mode']}, at most {answer['ceiling']}{told}", answer["mode"])
        return
    if agent is None or every or type is not None:
        raise Usage("name an agent, or use --all (with --type for some of them)")
    name = find(run, agent)["name"]
    if mode is None and ceiling is None:
        found = run.api.get(at(name))
    else:
        found = run.api.post(at(name, "autonomy"), {"mode": mode, "ceiling": ceiling}).body
    sentence = f"{name}: {found['autonomy_mode']}, at most {found['autonomy_ceiling']}"
    run.screen.done(found, sentence, found["autonomy_mode"])


@agent.verb("pause")
def pause(
    run: Invocation,
    agent: Annotated[str | None, Argument(help="Its name; with --all leave it out.")] = None,
    reason: Reason = "",
    every: Annotated[bool, Option("--all", help="All agents.")] = False,
    type: Type = None,
    only_new: Annotated[bool, Option("--only-new", help="Only new work stops; what was begun goes on.")] = False,
) -> None:
    """Pause an agent, at once: it keeps what it holds, and may do nothing."""
    body = {"reason": reason or None, "freeze": False if only_new else None}
    if every:
        _nobody(agent)
        found = run.api.post("/api/v1/crew/pause", {**body, "agent_type": type}).body
        run.screen.done(found, f"Paused: {plain(found['paused'])}")
        return
    name = find(run, _somebody(agent, type))["name"]
    run.screen.done(run.api.post(at(name, "pause"), body).body, f"Paused {name}.", name)


@agent.verb("resume")
def resume(
    run: Invocation,
    agent: Annotated[str | None, Argument(help="Its name; with --all leave it out.")] = None,
    every: Annotated[bool, Option("--all", help="All agents.")] = False,
    type: Type = None,
) -> None:
    """Let a paused agent go on."""
    if every:
        _nobody(agent)
        found = run.api.post("/api/v1/crew/resume", {"agent_type": type}).body
        run.screen.done(found, f"Resumed: {plain(found['resumed'])}")
        return
    name = find(run, _somebody(agent, type))["name"]
    run.screen.done(run.api.post(at(name, "resume")).body, f"Resumed {name}.", name)


def _nobody(agent: str | None) -> None:
    if agent is not None:
        raise Usage(f"--all means every agent: leave out {agent!r}")


def _somebody(agent: str | None, type: str | None) -> str:
    if agent is None or type is not None:
        raise Usage("name an agent, or use --all (with --type for some of them)")
    return agent


@agent.verb("revoke")
def revoke(
    run: Invocation,
    agent: Name,
    reason: Reason = "",
    no_flush: Annotated[bool, Option("--no-flush", help="Leave its claims and unread messages.")] = False,
) -> None:
    """Halt an agent until it acknowledges; its claims return, and its unread messages are set aside."""
    name = find(run, agent)["name"]
    run.screen.confirm(f"Revoke {name}? It is halted{'' if no_flush else ', and its claims return'}.")
    body = {"reason": reason or None, "flush_required": False if no_flush else None}
    made = run.api.post(at(name, "revoke"), body).body
    run.screen.done(made, f"Revoked {name} ({made['revocation_id']}).", made["revocation_id"])


@agent.verb("revocations")
def revocations(run: Invocation, agent: Annotated[str | None, Argument(help="Its name. [all agents]")] = None) -> None:
    """Revocations, newest first."""
    url = "/api/v1/revocations" if agent is None else at(agent, "revocations")
    run.screen.items(run.api.every(url), REVOCATIONS, "no revocations")


@agent.verb("capabilities")
def capabilities(
    run: Invocation,
    agent: Annotated[str | None, Argument(help="Its name. [all agents]")] = None,
    tags: Annotated[list[str] | None, Argument(help="What it can do, instead of what it could before.")] = None,
    description: Annotated[str | None, Option(help="In a sentence.")] = None,
    match: Annotated[str | None, Option(help="Which agents have this capability.")] = None,
) -> None:
    """What agents can do; with capabilities after the name, set them."""
    if match is not None:
        found = run.api.get("/api/v1/capabilities/match", tag=match)
        if run.screen.as_json:
            run.screen.json(found)
            return
        run.screen.items([{"agent": name} for name in found["agents"]], PROFILES[:1], f"nobody can {match}")
        return
    if agent is not None and (tags or description is not None):
        name = find(run, agent)["name"]
        made = run.api.post(at(name, "capabilities"), {"tags": tags or [], "description": description}).body
        run.screen.done(made, f"{name}: {plain(made['tags'])}", name)
        return
    profiles = run.api.every("/api/v1/capabilities")
    if agent is not None:
        name = find(run, agent)["name"]
        profiles = [it for it in profiles if it["agent"] == name]
    run.screen.items(profiles, PROFILES, "no agents")


@agent.verb("acknowledge")
def acknowledge(
    run: Invocation, agent: Name, revocation: Annotated[str | None, Argument(help="Its id. [what waits]")] = None
) -> None:
    """Say that a revoked agent has halted: it may begin again."""
    name = find(run, agent)["name"]
    if revocation is None:
        waits = run.api.get(at(name, "revocation"))
        if not waits["pending"]:
            raise Usage(f"{name} is not revoked: there is nothing to acknowledge")
        revocation = waits["revocation_id"]
    answer = run.api.post(at(name, "revocation", "ack"), {"revocation_id": revocation}).body
    run.screen.done(answer, f"{name} has acknowledged {revocation}.", revocation)


@agent.verb("heartbeat")
def heartbeat(run: Invocation, agent: Name) -> None:
    """Give an agent's sign of life, and show what the server has to say to it."""
    name = find(run, agent)["name"]
    run.screen.facts(run.api.post(at(name, "heartbeat")).body, PULSE)


@agent.verb("checkpoint")
def checkpoint(
    run: Invocation,
    agent: Name,
    state: Annotated[str, Argument(help="What it is doing.")],
    rationale: Annotated[str | None, Option("--rationale", "-r", help="Why.")] = None,
    task: Annotated[str | None, Option("--task", "-t", help="The task it is about: the whole id.")] = None,
) -> None:
    """Submit a checkpoint of an agent: it is no longer stalled."""
    name = find(run, agent)["name"]
    made = run.api.post(at(name, "checkpoint"), {"state": state, "rationale": rationale, "task_id": task}).body
    run.screen.done(made, f"Checkpoint {made['sequence']} of {name}.", made["id"])


@agent.verb("checkpoints")
def checkpoints(
    run: Invocation, agent: Name, limit: Annotated[int | None, Option(min=1, help="At most so many.")] = 20
) -> None:
    """An agent's checkpoints, newest first."""
    name = find(run, agent)["name"]
    run.screen.items(run.api.every(at(name, "checkpoints"), limit=limit), CHECKPOINTS, "no checkpoints")
