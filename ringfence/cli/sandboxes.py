"""Sandboxes: make them, steer them, look at them."""

from typing import Annotated, Any, Literal

from typer import Argument, Exit, Option

from ringfence.cli import inert
from ringfence.cli.api import Json, path
from ringfence.cli.invocation import FULL_ID, Invocation, Noun
from ringfence.cli.problems import WARNED, Problem, Usage
from ringfence.cli.screen import Column, Item, moment, plain, when
from ringfence.kernel.sizes import written

sandbox = Noun("sandbox", "Sandboxes: machines of their own for agents, fenced.")
snapshot = Noun("snapshot", "Snapshots: the files of sandboxes as they were.")

ALL = "/api/v1/sandboxes"
SNAPSHOTS = "/api/v1/snapshots"
State = Literal["creating", "running", "paused", "stopped", "failed", "lost", "destroyed"]
User = Literal["agent", "root"]
OnCrash = Literal["restart", "stop"]
NAMES = {"memory": written, "disk": written, "cpus": plain, "pids": plain}


def limits_of(it: Item) -> str:
    """Each limit with how it is held up; one that is not says so."""
    held = it["enforced"]
    return ", ".join(
        f"{name} {NAMES[name](value)} ({held.get(name, 'not held up')})"
        for name, value in it["limits"].items()
        if value is not None
    )


def _bytes(field: str) -> Any:
    return lambda it: "-" if it.get(field) is None else written(it[field])


def _seconds(field: str) -> Any:
    return lambda it: "-" if it.get(field) is None else f"{it[field]:g} s"


COLUMNS = [
    Column("id", "id", whole=True),
    Column("name", "name", whole=True),
    Column("state", "state"),
    Column("image", "image"),
    Column("agent", "agent"),
    Column("owner", "owner"),
    Column("created", when("created_at")),
]
FACTS = [
    *COLUMNS[:4],
    Column("error", "error", prose=True),
    Column("cause", "cause"),
    Column("restarts", "restarts"),
    Column("limits", limits_of),
    Column("user", "user"),
    Column("read-only", lambda it: it["read_only"] or None),
    Column("labels", lambda it: [f"{name}={value}" for name, value in it["labels"].items()]),
    Column("env", lambda it: sorted(it["env"])),
    Column("project", "project"),
    *COLUMNS[4:],
    Column("started", when("started_at")),
    Column("ended", when("ended_at")),
    Column("expires", when("expires_at")),
    Column("stops when idle for", _seconds("idle_timeout")),
    Column("snapshot", "snapshot"),
    Column("runtime", "runtime"),
    Column("on", "node"),
]
STATS = [
    Column("state", "state"),
    Column("processor time", lambda it: "-" if it["cpu_us"] is None else f"{it['cpu_us'] / 1e6:.2f} s"),
    Column("memory", _bytes("memory")),
    Column("memory at most", _bytes("memory_peak")),
    Column("killed for memory", "memory_kills"),
    Column("processes", "pids"),
    Column("disk", _bytes("disk")),
    Column("read", _bytes("read_bytes")),
    Column("written", _bytes("written_bytes")),
]
TAKEN = [
    Column("id", "id", whole=True),
    Column("name", "name", whole=True),
    Column("size", _bytes("size"), right=True),
    Column("image", "image"),
    Column("of", "sandbox"),
    Column("owner", "owner"),
    Column("taken", when("created_at")),
]

CHECKED = [
    Column("came to", "verdict", whole=True),
    Column("check", "title", prose=True),
    Column("what came of it", "found", prose=True),
]

Which = Annotated[str, Argument(metavar="SANDBOX", help="Its name or id, or how the id begins.")]
Image = Annotated[str | None, Option(help="What it begins with. [the server's sandbox_image]")]
Memory = Annotated[str | None, Option(help="Such as 512M, 2G.")]
Cpus = Annotated[float | None, Option(help="Processors, such as 1.5.")]
Pids = Annotated[int | None, Option(help="Processes and threads.")]
Disk = Annotated[str | None, Option(help="What it may write, such as 2G.")]
Env = Annotated[list[str] | None, Option("--env", "-e", help="NAME=value; may be repeated.")]
Label = Annotated[list[str] | None, Option("--label", "-l", help="NAME=value; may be repeated.")]
AsUser = Annotated[User | None, Option(help="Who programs run as.")]
ReadOnly = Annotated[bool, Option("--read-only", help="Only /tmp, /home/agent and /workspace can be written.")]
MemoryDisk = Annotated[bool, Option("--memory-disk", help="What is written lives in memory, sized by --disk.")]
BestEffort = Annotated[bool, Option("--best-effort", help="Take limits that this host cannot hold up.")]
Project = Annotated[str | None, Option("--project", "-p", help="The project's id or name.")]
Agent = Annotated[str | None, Option(help="The agent whose it is.")]
Snapshot = Annotated[str | None, Option(help="Begin with the files of this snapshot.")]
Ttl = Annotated[str | None, Option(help="How long it lives: 90s, 30m, 8h, 7d; 0: for ever.")]
Idle = Annotated[str | None, Option("--idle", help="Stop it after so long with nothing running; 0: never.")]
Grace = Annotated[
    float | None, Option(min=0, max=50, help="Seconds programs have to end. [the server's sandbox_grace]")
]


def at(word: str, *parts: str) -> str:
    return ALL + path(word, *parts)


def find(run: Invocation, word: str) -> Json:
    """The sandbox of that name or id, or whose id alone begins or ends like this."""
    if FULL_ID.fullmatch(word):
        exact: Json = run.api.get(at(word))
        return exact
    return run.pick(word, run.api.every(ALL), "sandbox", "name")


def pairs(given: list[str] | None, option: str) -> dict[str, str] | None:
    found: dict[str, str] = {}
    for each in given or ():
        name, equals, value = each.partition("=")
        if not name or not equals:
            raise Usage(f"{option} {each!r} is not NAME=value")
        found[name] = value
    return found or None


_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(given: str | None, option: str) -> float | None:
    if given is None:
        return None
    number, unit = (given[:-1], given[-1]) if given[-1:] in _UNITS else (given, "s")
    try:
        return float(number) * _UNITS[unit]
    except ValueError:
        raise Usage(f"{option} {given!r} is not a time: write 90s, 30m, 8h or 7d") from None


@sandbox.verb("create")
def create(
    run: Invocation,
    name: Annotated[str | None, Argument(help="Made up when missing.")] = None,
    image: Image = None,
    snapshot: Snapshot = None,
    memory: Memory = None,
    cpus: Cpus = None,
    pids: Pids = None,
    disk: Disk = None,
    memory_disk: MemoryDisk = False,
    best_effort: BestEffort = False,
    user: AsUser = None,
    read_only: ReadOnly = False,
    env: Env = None,
    label: Label = None,
    project: Project = None,
    agent: Agent = None,
    ttl: Ttl = None,
    idle: Idle = None,
    on_crash: Annotated[OnCrash | None, Option(help="What to do when it crashes.")] = None,
    no_wait: Annotated[bool, Option("--no-wait", help="Do not wait until it runs.")] = False,
) -> None:
    """Create a sandbox, and start it."""
    made = run.api.post(
        ALL,
        {
            "name": name, "image": image, "snapshot": snapshot, "memory": memory, "cpus": cpus, "pids": pids,
            "disk": disk, "memory_disk": memory_disk or None, "best_effort": best_effort or None, "user": user,
            "read_only": read_only or None, "env": pairs(env, "--env"), "labels": pairs(label, "--label"),
            "project": run.project(project) if project else None, "agent": agent, "ttl": seconds(ttl, "--ttl"),
            "idle_timeout": seconds(idle, "--idle"), "on_crash": on_crash, "wait": False if no_wait else None,
        },
    ).body  # fmt: skip
    run.screen.done(made, f"Created {made['name']} ({made['id']}): {made['state']}.", made["id"])
    unheld = [name for name, value in made["limits"].items() if value is not None and name not in made["enforced"]]
    if unheld and made["state"] == "running":
        run.screen.note(f"note: this host does not hold up: {', '.join(unheld)}")


@sandbox.verb("list")
def list_sandboxes(
    run: Invocation,
    state: Annotated[State | None, Option(help="Only those; destroyed ones are left out otherwise.")] = None,
    project: Project = None,
    agent: Agent = None,
    owner: Annotated[str | None, Option(help="As operator:ann.")] = None,
    label: Annotated[list[str] | None, Option("--label", "-l", help="NAME or NAME=value; may be repeated.")] = None,
) -> None:
    """The sandboxes you may see, newest first."""
    which = run.project(project) if project else None
    found = run.api.every(ALL, state=state, project=which, agent=agent, owner=owner, label=label)
    run.screen.items(found, COLUMNS, "no sandboxes")


@sandbox.verb("show")
def show(run: Invocation, sandbox: Which) -> None:
    """One sandbox, with its limits and how each is held up."""
    run.screen.facts(find(run, sandbox), FACTS)


@sandbox.verb("change")
def change(
    run: Invocation,
    sandbox: Which,
    name: Annotated[str | None, Option(help="Another name.")] = None,
    label: Label = None,
    ttl: Ttl = None,
    idle: Idle = None,
) -> None:
    """Change its name, labels, time to live or idle timeout."""
    body = {
        "name": name, "labels": pairs(label, "--label"), "ttl": seconds(ttl, "--ttl"),
        "idle_timeout": seconds(idle, "--idle"),
    }  # fmt: skip
    if all(value is None for value in body.values()):
        raise Usage("nothing to change: give --name, --label, --ttl or --idle")
    run.screen.facts(run.api.patch(at(find(run, sandbox)["id"]), body).body, FACTS)


@sandbox.verb("logs")
def logs(
    run: Invocation,
    sandbox: Which,
    lines: Annotated[int, Option("--lines", "-n", min=1, max=1000, help="So many of the last events.")] = 100,
) -> None:
    """What happened to it, and what its warden said last."""
    found = run.api.get(at(find(run, sandbox)["id"], "logs"), limit=lines)
    if run.screen.as_json:
        run.screen.json(found)
        return
    hidden = {"sandbox", "name", "node", "state"}
    for it in found["events"]:
        more = " ".join(f"{name}={plain(value)}" for name, value in it["data"].items() if name not in hidden)
        actor, kind, told = (inert.line(text) for text in (it["actor"], it["kind"], more))
        run.screen.feed_line(f"{it['seq']:>7}", moment(it["time"], seconds=True), kind, actor, told)
    if found["said"]:
        run.screen.text(inert.block(found["said"]).rstrip("\n"))


@sandbox.verb("stats")
def stats(run: Invocation, sandbox: Which) -> None:
    """What it uses now."""
    run.screen.facts(run.api.get(at(find(run, sandbox)["id"], "stats")), STATS)


@sandbox.verb("check")
def check(
    run: Invocation,
    sandbox: Which,
    every: Annotated[bool, Option("--all", help="Show what is held up, too.")] = False,
    strict: Annotated[bool, Option("--strict", help="Exit with 8 where something was warned of.")] = False,
) -> None:
    """Try its fence from inside: exits with 1 where it does not hold."""
    found = run.api.post(at(find(run, sandbox)["id"], "check"), {}).body
    shown = [it for it in found["checks"] if every or it["verdict"] != "pass"]
    if run.screen.as_json:
        run.screen.json(found)
    elif run.screen.quiet:
        run.screen.text(found["verdict"])
    else:
        if shown:
            run.screen.items(shown, CHECKED, "")
        counts = [f"{found['passed']} held up", f"{found['failed']} not", f"{found['warned']} warned of"]
        run.screen.text(f"{', '.join(counts)}, {found['skipped']} not tried; {found['seconds']:.2f} s")
    if found["failed"]:
        raise Exit(Problem.exit_code)
    if found["warned"] and strict:
        raise Exit(WARNED)


def _act(run: Invocation, word: str, verb: str, told: str, **body: object) -> None:
    found = run.api.post(at(find(run, word)["id"], verb), body).body
    run.screen.done(found, f"{told} {found['name']}.", found["id"])


@sandbox.verb("start")
def start(run: Invocation, sandbox: Which) -> None:
    """Start it again, with its files."""
    _act(run, sandbox, "start", "Started")


@sandbox.verb("stop")
def stop(run: Invocation, sandbox: Which, grace: Grace = None) -> None:
    """End what runs in it: SIGTERM, a grace, then everything. Its files stay."""
    _act(run, sandbox, "stop", "Stopped", grace=grace)


@sandbox.verb("restart")
def restart(run: Invocation, sandbox: Which, grace: Grace = None) -> None:
    """Stop it, and start it again."""
    _act(run, sandbox, "restart", "Restarted", grace=grace)


@sandbox.verb("pause")
def pause(run: Invocation, sandbox: Which) -> None:
    """Freeze everything in it, where it stands."""
    _act(run, sandbox, "pause", "Paused")


@sandbox.verb("resume")
def resume(run: Invocation, sandbox: Which) -> None:
    """Let it go on where it stood."""
    _act(run, sandbox, "resume", "Resumed")


@sandbox.verb("recreate")
def recreate(run: Invocation, sandbox: Which) -> None:
    """Make it anew from its image: its files are gone, its id, name and limits stay."""
    found = find(run, sandbox)
    run.screen.confirm(f"Recreate {found['name']}? Its files will be gone.")
    _act(run, found["id"], "recreate", "Recreated")


@sandbox.verb("rm")
def remove(
    run: Invocation, sandbox: Annotated[list[str], Argument(metavar="SANDBOX", help="Its name or id; or several.")]
) -> None:
    """End sandboxes at once, and remove their files."""
    found = [find(run, word) for word in sandbox]
    names = ", ".join(it["name"] for it in found)
    run.screen.confirm(f"Remove {names}, with what runs there and all files?")
    for it in found:
        run.screen.done(run.api.delete(at(it["id"])).body, f"Removed {it['name']}.", it["id"])


# Snapshots ------------------------------------------------------------------------------------------------------------


@sandbox.verb("snapshot")
def take(
    run: Invocation, sandbox: Which, name: Annotated[str | None, Argument(help="Made up when missing.")] = None
) -> None:
    """Keep its files as they are now; `sandbox create --snapshot` begins with them."""
    made = run.api.post(at(find(run, sandbox)["id"], "snapshots"), {"name": name}).body
    run.screen.done(made, f"Kept {written(made['size'])} as {made['name']} ({made['id']}).", made["id"])


@snapshot.verb("list")
def list_snapshots(run: Invocation) -> None:
    """The snapshots you may see, newest first."""
    run.screen.items(run.api.every(SNAPSHOTS), TAKEN, "no snapshots")


@snapshot.verb("rm")
def remove_snapshot(run: Invocation, snapshot: Annotated[str, Argument(help="Its name or id.")]) -> None:
    """Remove a snapshot that no sandbox begins with."""
    run.screen.confirm(f"Remove the snapshot {snapshot}?")
    gone = run.api.delete(SNAPSHOTS + path(snapshot)).body
    run.screen.done(gone, f"Removed {gone['name']}.", gone["id"])
