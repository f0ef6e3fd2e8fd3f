"""The demo: make it, look at it, remove it."""

from ringfence.cli.invocation import Invocation, Noun
from ringfence.cli.screen import Column, Item, when

demo = Noun("demo", "A made-up project whose agents work by themselves, to see a board move.")

PATH = "/api/v1/demo"


def _state(found: Item) -> str:
    if not found["present"]:
        return "none"
    return "lives" if found["living"] else "rests"


FACTS = [
    Column("demo", _state),
    Column("project", "project"),
    Column("agents", "agents"),
    Column("started", when("started_at")),
    Column("by", "started_by"),
    Column("lives until", when("lives_until")),
]


@demo.verb("start")
def start(run: Invocation) -> None:
    """Make the demo; if there is one that rests, let it go on. It lives for 15 minutes."""
    run.screen.facts(run.api.post(PATH, {}).body, FACTS)


@demo.verb("status")
def status(run: Invocation) -> None:
    """Whether there is a demo, and whether its agents move."""
    run.screen.facts(run.api.get(PATH).body, FACTS)


@demo.verb("stop")
def stop(run: Invocation) -> None:
    """Remove the demo: its project, agents, messages and proposals. The events stay."""
    gone = run.api.delete(PATH).body
    run.screen.done(gone, "The demo is gone.", "")
