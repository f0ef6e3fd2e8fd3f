"""An open dashboard while much happens, and while the server dies: what it shows is what is so."""

import contextlib
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from ringfence import AgentClient
from ringfence.sdk.errors import RingfenceError
from ringfence.sdk.views import is_proposed
from tests.dashboard.conftest import Sit, project
from tests.harness import Ringfence
from tests.kernel.process import Process

COLUMNS = ("backlog", "ready", "in_progress", "in_review", "blocked", "done")
AGENTS = 20
# Counts what keeps the page from answering, in milliseconds.
WATCH = """() => {
  window.longest = 0
  new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) window.longest = Math.max(window.longest, duration)
  }).observe({ type: 'longtask' })
}"""


def shown(page: Page) -> dict[str, int]:
    return {column: int(page.locator(f"[data-count={column}]").inner_text().split()[0]) for column in COLUMNS}


def expect_board(page: Page, admin: httpx.Client, project_id: str) -> None:
    """The page comes to show exactly what the server holds, by itself."""
    tasks = admin.get(f"/projects/{project_id}/tasks").json()
    held = Counter(task["status"] for task in tasks)
    for column in COLUMNS:
        expect(page.locator(f"[data-count={column}]")).to_contain_text(str(held[column]))
    assert shown(page) == {column: held[column] for column in COLUMNS}


@contextlib.contextmanager
def working(url: str, token: str, project_id: str) -> Iterator[list[int]]:
    """Twenty agents that claim, finish and reopen nothing but their own work, through everything. Yields what each
    brought to review."""
    done, stop = [0] * AGENTS, threading.Event()

    def work(number: int) -> None:
        agent = AgentClient(url, f"agent-{number}", "test", token=token, timeout=5.0, retries=0)
        while not stop.wait(random.uniform(0.02, 0.1)):
            with contextlib.suppress(RingfenceError):
                agent.ensure_registered()
                task = agent.claim_next(project_id)
                if task is not None and not is_proposed(task):
                    agent.transition_task(project_id, task["id"], "in_progress")
                    agent.transition_task(project_id, task["id"], random.choice(["in_review", "blocked", "ready"]))
                    done[number] += 1

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(AGENTS)]
    for thread in threads:
        thread.start()
    yield done
    stop.set()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()


def test_a_server_killed_under_an_open_board_with_twenty_agents_leaves_no_wrong_state(
    tmp_path: Path, template: Path, chromium: Browser
):
    server = Process(tmp_path / "data", template, wip_in_review=1000)
    server.keep_port()
    admin = server.client()
    apollo = admin.post("/api/v1/projects", json={"name": "Apollo"}).json()["id"]
    for number in range(120):
        admin.post(f"/projects/{apollo}/tasks", json={"title": f"Task {number}", "status": "ready"})
    link = admin.post("/api/v1/people", json={"name": "ada", "role": "viewer"}).json()["signin_url"]
    page = chromium.new_page(viewport={"width": 1440, "height": 900})
    try:
        page.goto(link)
        expect(page.locator("[data-count=ready]")).to_contain_text("120")
        page.evaluate("window.same = true")
        with working(server.url, server.token, apollo) as done:
            for _ in range(3):
                reached = sum(done) + 10
                _until_done(done, reached)
                server.kill()
                server.start()
        admin.close()
        expect(page.locator("[data-stream=live]")).to_be_attached()
        expect_board(page, server.client(), apollo)
        assert page.evaluate("window.same"), "the page was loaded anew"
    finally:
        page.close()
        server.kill()


def _until_done(done: list[int], reached: int, most: float = 30) -> None:
    ends = time.monotonic() + most
    while sum(done) < reached:
        assert time.monotonic() < ends, "the agents do not get on"
        time.sleep(0.02)


def test_five_hundred_events_a_second_leave_the_page_responsive(server: Ringfence, sit: Sit):
    apollo = project(server)
    for number in range(40):
        server.admin.post(f"/projects/{apollo}/tasks", json={"title": f"Task {number}"})
    page = sit().page
    expect(page.locator("[data-count=backlog]")).to_contain_text("40")
    page.evaluate(WATCH)
    ids = [task["id"] for task in server.admin.get(f"/projects/{apollo}/tasks").json()]
    before, began = server.house.feed.last, time.monotonic()

    def move(tx: object) -> None:
        for task_id in ids[:25]:
            _toggle(server, tx, apollo, task_id)

    turns = 0
    while time.monotonic() - began < 4:
        server.write(move)
        turns += 1
        time.sleep(max(0.0, began + turns * 0.05 - time.monotonic()))
    rate = (server.house.feed.last - before) / (time.monotonic() - began)
    expect_board(page, server.admin, apollo)
    longest = page.evaluate("window.longest")
    print(f"\n{rate:.0f} events/s for 4 s: the page was busy for at most {longest:.0f} ms at a time")
    assert rate > 300
    assert longest < 500


def _toggle(server: Ringfence, tx: object, project_id: str, task_id: str) -> None:
    from ringfence.board.acting import Going
    from ringfence.board.model import Status
    from ringfence.kernel.auth.model import Principal, Role, TokenKind

    board = server.house.board
    by = Principal(TokenKind.API, "admin", Role.ADMIN)
    task = board.tasks.find(tx, by, project_id, task_id)  # type: ignore[arg-type]
    to = Status.READY if task.status is Status.BACKLOG else Status.BACKLOG
    board.flow.move(tx, by, project_id, task_id, None, Going(to, "", None, None))  # type: ignore[arg-type]


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_who_loses_access_while_looking_is_signed_out(server: Ringfence, sit: Sit, role: str):
    from ringfence.kernel.auth.model import Role

    project(server)
    page = sit("eve", Role(role)).page
    expect(page.locator("[data-stream=live]")).to_be_attached()
    server.admin.patch("/api/v1/people/eve", json={"disabled": True})
    expect(page.get_by_role("heading", name="signed out")).to_be_visible()
