"""What the demo tells: a made-up project, who works in it, and what they say."""

from dataclasses import dataclass

from ringfence.board.model import Priority, Status
from ringfence.crew.model import Mode

PROJECT = "Demo: Apollo"


@dataclass(frozen=True, slots=True)
class Role:
    name: str
    does: str
    capabilities: tuple[str, ...]
    mode: Mode = Mode.FULLY_AUTONOMOUS


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A task as the story begins; `agent` took it as far as `status`."""

    title: str
    about: str = ""
    status: Status = Status.BACKLOG
    priority: Priority = Priority.P2
    labels: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    agent: str | None = None
    reviewer: str | None = None
    after: tuple[str, ...] = ()
    state: str = ""  # of the agent's checkpoint
    blocked_reason: str = ""
    comments: tuple[tuple[str, str], ...] = ()


ADA, GRACE, KEN, LINUS, MARGARET = "demo-ada", "demo-grace", "demo-ken", "demo-linus", "demo-margaret"

CREW = (
    Role(ADA, "backend", ("python", "api", "database")),
    Role(GRACE, "security", ("python", "security"), Mode.ADVISORY),
    Role(KEN, "frontend", ("typescript", "ui")),
    Role(LINUS, "infrastructure", ("python", "infra", "api")),
    Role(MARGARET, "quality", ("python", "testing", "ui")),
)

P0, P1, P2, P3 = Priority
TASKS = (
    Draft(
        title="Telemetry: accept readings in batches",
        about="One request per reading is too slow above 200 readings/s.\n\n"
        "- `POST /readings` takes up to 1,000 at once\n"
        "- a bad reading is refused **by its index**; the others are kept\n"
        "- the old form goes on working",
        status=Status.DONE, priority=P1, labels=("telemetry", "api"), capabilities=("api",),
        agent=LINUS, reviewer=ADA,
        comments=((LINUS, "1,000 readings in 41 ms here. The index of a refused one is in `errors[].at`."),),
    ),
    Draft(
        title="Colours that are told apart without seeing red",
        status=Status.DONE, priority=P2, labels=("ui", "accessibility"), capabilities=("ui",),
        agent=KEN, reviewer=MARGARET,
    ),
    Draft(
        title="Pin the versions of what the build downloads",
        status=Status.DONE, priority=P2, labels=("infra", "security"), capabilities=("infra",),
        agent=LINUS, reviewer=MARGARET,
    ),
    Draft(
        title="Guidance: burn time drifts after a restart",
        about="After a restart the burn is up to 0.4 s too long: the clock's offset is applied twice.\n\n"
        "```\nt0=101.2 offset=0.4 → start=101.6 … resumed start=102.0\n```",
        status=Status.IN_REVIEW, priority=P0, labels=("guidance", "bug"), capabilities=("python",),
        agent=ADA,
        state="the offset is applied once; test with three restarts added",
        comments=(
            (MARGARET, "I can reproduce it with two restarts in a row, too."),
            (ADA, "Both come from `resume()`. Fixed in one place, with a test for each."),
        ),
    ),
    Draft(
        title="Show the age of a reading, not only its time",
        status=Status.IN_REVIEW, priority=P3, labels=("ui",), capabilities=("ui",), agent=KEN,
        state="done; screenshots in the change",
    ),
    Draft(
        title="Ground station: reconnect without losing a frame",
        about="Frames that arrive while the link is down are dropped. Keep the last 30 s, and replay them.",
        status=Status.IN_PROGRESS, priority=P0, labels=("link",), capabilities=("api",), agent=ADA,
        state="ring buffer is in; replay in order is next",
    ),
    Draft(
        title="Trajectory page: zoom by wheel and by pinch",
        status=Status.IN_PROGRESS, priority=P1, labels=("ui",), capabilities=("typescript",), agent=KEN,
        state="wheel works; pinch jumps on the first move",
        comments=((KEN, "The jump comes from the first touch having no distance yet."),),
    ),
    Draft(
        title="Run the slow tests at night only",
        status=Status.IN_PROGRESS, priority=P2, labels=("testing", "infra"), capabilities=("infra",), agent=LINUS,
        state="marked 41 tests; 212 s become 48 s",
    ),
    Draft(
        title="Property tests for the frame parser",
        about="Any bytes in, no exception out; what is parsed is written back as the same bytes.",
        status=Status.IN_PROGRESS, priority=P1, labels=("testing", "link"), capabilities=("testing",), agent=MARGARET,
        state="round trip holds for 50,000 examples; lengths of zero are next",
    ),
    Draft(
        title="Keys of the ground station in the vault, not in the file",
        status=Status.BLOCKED, priority=P0, labels=("security",), capabilities=("python",), agent=MARGARET,
        blocked_reason="the vault's address for staging is not known: ask whoever runs it",
        comments=((MARGARET, "The code is ready; all that is missing is the address."),),
    ),
    Draft(
        title="Rotate those keys every 30 days",
        status=Status.BACKLOG, priority=P2, labels=("security",), capabilities=("security",),
        after=("Keys of the ground station in the vault, not in the file",),
    ),
    Draft(
        title="Refuse frames that were signed more than 5 minutes ago",
        about="A recorded frame can be sent again. Compare the signed time with ours, and keep the ids of 5 minutes.",
        status=Status.READY, priority=P0, labels=("security", "link"), capabilities=("security",),
    ),
    Draft(
        title="Export a mission's readings as CSV",
        status=Status.READY, priority=P1, labels=("telemetry", "api"), capabilities=("api",),
    ),
    Draft(
        title="Keyboard: move through the timeline by arrows",
        status=Status.READY, priority=P2, labels=("ui", "accessibility"), capabilities=("ui",),
    ),
    Draft(
        title="Show the replayed frames in another shade",
        status=Status.BACKLOG, priority=P2, labels=("ui", "link"), capabilities=("ui",),
        after=("Ground station: reconnect without losing a frame",),
    ),
    Draft(
        title="Alarm when no reading came for 20 s",
        status=Status.BACKLOG, priority=P1, labels=("telemetry",), capabilities=("python",),
    ),
    Draft(
        title="Index readings by sensor and time",
        about="The page of one sensor scans the whole table: 1.9 s at 4 million rows.",
        status=Status.BACKLOG, priority=P1, labels=("telemetry", "database"), capabilities=("database",),
    ),
    Draft(
        title="Say in the README how to fly without a satellite",
        status=Status.BACKLOG, priority=P3, labels=("docs",),
    ),
)  # fmt: skip

# What the advisory agent would like to have written, and needs a person for.
EXTRA = Draft(
    title="Agree with each station on who may command a burn",
    about="Today every station may. I suggest a list for each mission, checked before a command is sent.",
    priority=P1, labels=("security", "guidance"), capabilities=("security",),
)  # fmt: skip

# What agents write when the board runs dry, in this order; then they reopen what was done.
LATER = (
    Draft(title="Telemetry: tell the unit of each reading", priority=P2, labels=("telemetry", "api"),
          capabilities=("api",)),
    Draft(title="Timeline: jump to the next event", priority=P2, labels=("ui",), capabilities=("ui",)),
    Draft(title="Fuzz the uplink's decoder for an hour", priority=P1, labels=("testing", "link"),
          capabilities=("testing",)),
    Draft(title="Back up the readings every night", priority=P1, labels=("infra", "database"),
          capabilities=("infra",)),
    Draft(title="Guidance: log why a burn was cut short", priority=P1, labels=("guidance",), capabilities=("python",)),
    Draft(title="Dark theme for the control room", priority=P3, labels=("ui",), capabilities=("typescript",)),
    Draft(title="Limit what a sensor may send in a second", priority=P0, labels=("security", "telemetry"),
          capabilities=("security",)),
    Draft(title="Paging for the list of missions", priority=P2, labels=("api",), capabilities=("api",)),
    Draft(title="Explain the orbit's numbers on hover", priority=P3, labels=("ui", "docs"), capabilities=("ui",)),
    Draft(title="Move the build to the smaller machine", priority=P2, labels=("infra",), capabilities=("infra",)),
    Draft(title="Test the abort from every state", priority=P0, labels=("testing", "guidance"),
          capabilities=("testing",)),
    Draft(title="Compress readings that are older than a week", priority=P2, labels=("database",),
          capabilities=("database",)),
    Draft(title="Say which station a frame came from", priority=P2, labels=("link",)),
    Draft(title="Warn before two burns overlap", priority=P1, labels=("guidance",), capabilities=("python",)),
)  # fmt: skip

REASONS = (
    "it is next in the queue, and close to what I did last",
    "nothing else waits for me, and this one is urgent",
    "I read the code around it already: it is a small change",
)
STATES = (
    "reading the code around it",
    "wrote a test that fails as described",
    "the test passes; looking at what else calls it",
    "cleaning up, then the change is ready",
    "measured before and after: 38 % less time",
    "waiting for the tests of the whole project",
    "two edge cases left",
)
RATIONALES = (
    "small steps, so that each can be reviewed by itself",
    "the shortest change that fixes the cause, not the symptom",
    "what callers see stays as it was",
)
COMMENTS = (
    "Found the cause: it was read before it was written.",
    "The change is smaller than I thought: 31 lines, most of them tests.",
    "I left the old form in place; it logs a warning once.",
    "Should this hold for stations without a clock, too? I assume yes.",
    "Measured: p99 went from 140 ms to 22 ms.",
)
REWORK = (
    "the test passes without the change: it does not test it",
    "an empty list is not handled",
    "please say in the docs what changed",
)
BLOCKS = (
    "the staging station does not answer since this morning",
    "needs a decision: keep readings for a month, or for a year?",
    "the test data of mission 11 is not in the repository",
)
UNBLOCKED = "that is settled: going on"
REVIEWED = ("read it line by line: good", "tried it here: works", "good; one name could be shorter")
TOLD = (
    "I touch `link.py` next. Tell me if you are in it.",
    "Your change and mine meet in the parser: I wait until yours is in.",
    "Could you look at my change when you have a minute?",
    "The slow test is mine, I am on it.",
    "Is there a reason why frames have no number?",
)
ANSWERED = ("Go ahead, I am elsewhere.", "Yes, in a minute.", "Thanks, I will.", "No reason that I know of.", "Done.")

THREAD = "frames"
TALK = (
    (ADA, MARGARET, "I keep the last 30 s of frames. Does the parser care when some arrive twice?"),
    (MARGARET, ADA, "It does not today. I can refuse what it has seen, by number."),
    (ADA, MARGARET, "Do that, please; then replay needs no state of its own."),
)
NOTES = (
    (KEN, LINUS, "The preview of the trajectory page is up. Is the new build machine ready for it?"),
    (LINUS, KEN, "From tomorrow. Until then use the old one."),
)
