"""Takes pictures of every page of the dashboard: a real server with the demo's board, a past to measure, and a browser.

python -m tests.picture FOLDER [NAME...]   every page, in both themes and on a phone, or those of these names
python -m tests.picture --docs             those in docs/pictures
"""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from playwright.sync_api import Browser, Page, expect, sync_playwright

from ringfence.demo import story
from ringfence.kernel import migrations
from ringfence.kernel.auth.model import Role
from ringfence.settings import Settings
from tests.dashboard.conftest import FLAGS, Seat, sitting
from tests.harness import Ringfence, running

HERE = Path(__file__).parent.parent
DOCS = HERE / "docs/pictures"
DAY = 86_400
STEPS, PACE = 6, 100  # of the demo's agents, and the seconds between two: its board is ten minutes old
PAGES = {
    "board": "projects/{project}",
    "lanes": "projects/{project}?lanes=agent",
    "task": "projects/{project}?task={task}",
    "dependencies": "projects/{project}?task={waiting}&tab=dependencies",
    "history": "projects/{project}?task={task}&tab=history",
    "metrics": "projects/{past}/metrics?days=14",
    "tables": "projects/{past}/metrics?days=14&view=tables",
    "project": "projects/{project}/settings",
    "inbox": "inbox",
    "answered": "inbox?tab=history",
    "crew": "crew",
    "agent": "crew/demo-ada",
    "checkpoints": "crew/demo-ada?tab=checkpoints",
    "messages": "messages?open=thread:frames",
    "graph": "messages?view=graph",
    "activity": "activity",
    "event": "activity?kind=task_transition&event={event}",
    "people": "people",
    "tokens": "people?tab=tokens",
    "invite": "people?open=invite",
    "account": "account",
    "start": "start",
}
IN_DOCS = {  # the name of a picture: its page, its theme, and whether it is a phone's
    "board": ("board", "dark", False),
    "task": ("task", "light", False),
    "metrics": ("metrics", "dark", False),
    "crew": ("crew", "light", False),
    "graph": ("graph", "dark", False),
    "activity": ("activity", "light", False),
    "inbox": ("inbox", "dark", True),
}
SCREEN = {"viewport": {"width": 1280, "height": 800}}
WIDE = {"viewport": {"width": 1440, "height": 900}}
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


@contextmanager
def furnished() -> Iterator[tuple[Ringfence, dict[str, str]]]:
    """A server with a project that has a past, the demo in the middle of its work, and some people."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        migrations.upgrade(Settings(data=data))
        with running(data, heartbeat_timeout=1e9, stale_after=1e9, token_days=400) as server:
            past = _past(server, days=14)
            server.clock.advance(-STEPS * PACE)
            demo = server.admin.post("/api/v1/demo", json={}).json()
            for _ in range(STEPS):
                server.clock.advance(PACE)
                server.write(server.house.demos.step)
            server.clock.ahead = 0
            for name, role in (("grace", "admin"), ("linus", "operator"), ("margaret", "viewer")):
                server.admin.post("/api/v1/people", json={"name": name, "role": role})
            yield server, _places(server, demo["project"], past)


def _past(server: Ringfence, days: int) -> str:
    """Two weeks in which three agents worked."""
    chance = Random(7)  # the same days each time
    server.clock.advance(-days * DAY)
    server.admin = server.client(server.token("admin", Role.ADMIN, lives=400 * DAY * 1_000_000))
    project: str = server.admin.post("/api/v1/projects", json={"name": "Mercury"}).json()["id"]
    path = f"/api/v1/projects/{project}/tasks"
    agents = {name: server.agent(name, type="coder") for name in ("claude", "codex", "goose")}
    server.admin.put(f"/api/v1/projects/{project}/wip", json={"status": "in_progress", "limit": 5, "scope": "column"})
    titles = iter(draft.title for draft in [*story.TASKS, *story.LATER] * 4)
    for _ in range(days):
        spent = 0
        for name, agent in agents.items():
            for _ in range(chance.choice((0, 1, 1, 2))):
                task = server.admin.post(path, json={"title": next(titles), "status": "ready"}).json()["id"]
                agent.post(f"{path}/{task}/claim", json={})
                agent.patch(f"{path}/{task}", json={"status": "in_progress"})
                hours = chance.choice((1, 1, 2, 2, 3, 5))
                server.clock.advance(hours * 1800)
                spent += hours * 1800
                if chance.random() < 0.15:
                    continue
                agent.patch(f"{path}/{task}", json={"status": "in_review", "note": f"{name} is done"})
                if chance.random() < 0.85:
                    server.admin.patch(f"{path}/{task}", json={"status": "done"})
        server.clock.advance(max(0, DAY - spent))
    server.clock.ahead = 0
    return project


def _places(server: Ringfence, project: str, past: str) -> dict[str, str]:
    tasks = {task["title"]: task["id"] for task in server.admin.get(f"/projects/{project}/tasks").json()}
    moved = server.admin.get("/api/v1/audit", params={"kind": "task_transition", "newest_first": True}).json()["items"]
    return {
        "project": project,
        "past": past,
        "task": tasks["Guidance: burn time drifts after a restart"],
        "waiting": tasks["Ground station: reconnect without losing a frame"],
        "event": str(moved[3]["seq"]),
    }


def picture(seat: Seat, address: str, target: Path) -> None:
    page = seat.go(address)
    still(page)
    target.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=target, animations="disabled", caret="hide")


def still(page: Page) -> None:
    """Everything is there: nothing loads, nothing moves."""
    expect(page.locator("h1, [role=dialog]").first).to_be_attached()
    expect(page.locator("[role=status][aria-label^=Loading]")).to_have_count(0)
    page.mouse.move(0, 0)
    page.wait_for_timeout(800)  # charts and the graph come to rest


def take(folder: Path, names: list[str]) -> None:
    with furnished() as (server, places), browser() as chromium, sitting(server, chromium) as sit:
        for device, kind in (("wide", WIDE), ("phone", PHONE)):
            for theme in ("dark", "light"):
                seat = sit(color_scheme=theme, reduced_motion="reduce", **kind)
                for name in names or PAGES:
                    picture(seat, PAGES[name].format(**places), folder / f"{name}-{device}-{theme}.png")


def take_for_docs() -> None:
    with furnished() as (server, places), browser() as chromium, sitting(server, chromium) as sit:
        for name, (page, theme, phone) in IN_DOCS.items():
            seat = sit(color_scheme=theme, reduced_motion="reduce", **(PHONE if phone else SCREEN))
            picture(seat, PAGES[page].format(**places), DOCS / f"{name}.png")


@contextmanager
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        yield found
        found.close()


if __name__ == "__main__":
    if sys.argv[1:] == ["--docs"]:
        take_for_docs()
    else:
        take(Path(sys.argv[1]), sys.argv[2:])
