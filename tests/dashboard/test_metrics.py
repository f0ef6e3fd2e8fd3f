"""The figures of a project: what the server measured is drawn, stands under the pointer, and in the tables."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect

from ringfence.kernel.auth.model import Role
from tests.dashboard.conftest import Sit, fits, project, task
from tests.harness import Ringfence, running

DAY = 86_400
HOSTILE = "<img src=x onerror=alert(1)><svg onload=alert(1)> \u202egnp.exe [x](javascript:alert(1)) " + "w" * 300


@pytest.fixture
def server(tmp_path: Path, template: Path) -> Iterator[Ringfence]:
    """Agents stay through days that pass at once."""
    with running(tmp_path / "data", template, heartbeat_timeout=1e9, stale_after=1e9, token_days=400) as server:
        yield server


def signed_in(server: Ringfence) -> None:
    server.admin = server.client(server.token("admin", Role.ADMIN, lives=400 * DAY * 1_000_000))


def work(server: Ringfence, project_id: str, agent: httpx.Client, title: str = "Task", *, rework: bool = False) -> str:
    """A task that the agent did, in an hour."""
    made = task(server, project_id, title, status="ready")
    path = f"/api/v1/projects/{project_id}/tasks/{made}"
    assert agent.post(f"{path}/claim", json={}).status_code == 200
    steps = ["in_progress", "in_review", *(["in_progress", "in_review"] if rework else [])]
    for step in steps:
        answer = agent.patch(path, json={"status": step})
        assert answer.status_code == 200, answer.text
    server.clock.advance(3600)
    answer = server.admin.patch(path, json={"status": "done"})
    assert answer.status_code == 200, answer.text
    return made


def lived(server: Ringfence, days: int = 5, title: str = "Task") -> str:
    """A project in which two agents worked for some days up to now."""
    server.clock.advance(-days * DAY)
    signed_in(server)
    apollo = project(server)
    server.admin.patch(f"/projects/{apollo}/wip", json={"status": "in_progress", "limit": 4, "scope": "column"})
    claude, codex = server.agent("claude"), server.agent("codex")
    for day in range(days):
        for number in range(day % 3):
            work(server, apollo, claude, f"{title} {day}.{number}")
        work(server, apollo, codex, f"{title} {day}", rework=day == 1)
        if day < 2:
            begun = task(server, apollo, f"{title} that goes on", status="ready")
            claude.post(f"/api/v1/projects/{apollo}/tasks/{begun}/claim", json={})
            claude.patch(f"/api/v1/projects/{apollo}/tasks/{begun}", json={"status": "in_progress"})
        spent = day % 3 + 1
        server.clock.advance(DAY - spent * 3600)
    server.clock.ahead = 0
    return apollo


def measured(server: Ringfence, project_id: str, **params: Any) -> dict[str, Any]:
    return dict(server.admin.get(f"/api/v1/projects/{project_id}/metrics", params=params).json())


def tile(page: Page, name: str) -> Locator:
    return page.locator(f"[data-tile='{name}']")


def chart(page: Page, name: str) -> Locator:
    return page.locator(f"[data-chart='{name}']")


def drawn(page: Page, name: str) -> Locator:
    return chart(page, name).locator("svg.recharts-surface")


def test_the_figures_are_those_of_the_server(server: Ringfence, sit: Sit):
    apollo = lived(server)
    told = measured(server, apollo)
    page = sit("vera", Role.VIEWER).go(f"projects/{apollo}/metrics")
    expect(tile(page, "Completed")).to_contain_text(str(told["completions"]))
    expect(tile(page, "Median cycle time")).to_contain_text("1 h")
    expect(tile(page, "Reworked")).to_contain_text(f"1 of {told['completions']} went back from review")
    in_work = told["by_status"]["in_progress"]
    expect(tile(page, "In work now")).to_contain_text(f"{in_work} in progress, 0 in review")
    expect(drawn(page, "Throughput").locator(".recharts-bar-rectangle path")).to_have_count(
        sum(1 for day in told["throughput"] if day["completed"])
    )
    expect(drawn(page, "Cycle time").locator(".recharts-reference-line")).to_have_count(3)
    expect(chart(page, "Cycle time").get_by_role("listitem")).to_have_text([re.compile("1 h")] * 3)
    expect(drawn(page, "Cumulative flow").locator(".recharts-area-area")).to_have_count(6)
    expect(chart(page, "Cumulative flow").get_by_role("listitem").filter(has_text="Done")).to_contain_text(
        str(told["by_status"]["done"])
    )
    expect(chart(page, "Work in progress")).to_contain_text("Never above the limit")
    expect(chart(page, "Work in progress").get_by_role("listitem").filter(has_text="Limit")).to_contain_text("4")
    codex = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="codex"))
    expect(codex.get_by_role("cell").first).to_have_text("5")
    expect(page.get_by_role("rowheader", name=re.compile("Task 1 reworked|“Task 1” reworked"))).to_be_visible()


def test_the_exact_figures_are_under_the_pointer_and_under_the_arrows(server: Ringfence, sit: Sit):
    apollo = lived(server)
    told = measured(server, apollo, days=7)
    page = sit().go(f"projects/{apollo}/metrics?days=7")
    flow = drawn(page, "Cumulative flow")
    box = flow.bounding_box()
    assert box is not None
    flow.hover(position={"x": box["width"] - 9, "y": 100})
    exact = chart(page, "Cumulative flow").locator(".recharts-tooltip-wrapper")
    today = told["flow"][-1]
    expect(exact).to_contain_text(f"Done{today['done']}")
    expect(exact).to_contain_text(f"In progress{today['in_progress']}")
    drawn(page, "Throughput").focus()
    page.keyboard.press("ArrowRight")
    under = chart(page, "Throughput").locator(".recharts-tooltip-wrapper")
    expect(under).to_contain_text(re.compile(r"Completed\d"))
    first = under.inner_text()
    page.keyboard.press("ArrowRight")
    expect(under).not_to_have_text(first)
    bars = drawn(page, "Cycle time").locator(".recharts-bar-rectangle path")
    bars.first.hover()
    expect(chart(page, "Cycle time").locator(".recharts-tooltip-wrapper")).to_contain_text(
        f"Tasks{len(told['cycle_times_minutes'])}"
    )


def test_days_agent_and_tables_live_in_the_address(server: Ringfence, sit: Sit):
    apollo = lived(server)
    page = sit().go(f"projects/{apollo}/metrics")
    page.get_by_label("Days").select_option("7")
    expect(page).to_have_url(re.compile("days=7"))
    expect(tile(page, "Completed")).to_contain_text("in 7 days")
    page.get_by_label("Agent", exact=True).select_option("codex")
    expect(tile(page, "Completed")).to_contain_text("5")
    expect(tile(page, "In work now")).to_contain_text("0 in progress")
    page.get_by_role("button", name="Tables").click()
    expect(page).to_have_url(re.compile("agent=codex.*view=tables"))
    page.reload()
    expect(page.locator("svg.recharts-surface")).to_have_count(0)
    told = measured(server, apollo, days=7, agent="codex")
    cells = chart(page, "Throughput").get_by_role("cell")
    expect(cells).to_have_text([str(day["completed"]) for day in reversed(told["throughput"])])
    flow = chart(page, "Cumulative flow").get_by_role("row").nth(1).get_by_role("cell")
    columns = ("backlog", "ready", "blocked", "in_progress", "in_review", "done")
    expect(flow).to_have_text([str(told["flow"][-1][column]) for column in columns])
    wip = chart(page, "Work in progress").get_by_role("row").nth(1).get_by_role("cell")
    expect(wip).to_have_text([str(told["wip"][-1]["in_progress"]), str(told["wip"][-1]["in_progress_limit"])])
    expect(chart(page, "Cycle time").get_by_role("row").filter(has_text="Median")).to_contain_text("1 h")
    page.get_by_role("button", name="Charts").click()
    expect(drawn(page, "Throughput")).to_be_visible()
    page.get_by_role("link", name="claude").click()
    expect(page.get_by_label("Agent", exact=True)).to_have_value("claude")
    page.get_by_label("Days").select_option("365")
    expect(chart(page, "Throughput")).to_contain_text("Tasks completed each week")
    page.goto(f"{server.url}/app/projects/{apollo}/metrics?days=45&agent=nobody")
    expect(page.get_by_label("Days")).to_have_value("45")
    expect(chart(page, "Throughput")).to_contain_text("Nothing was completed in these days.")


def test_what_gets_done_is_measured_at_once(server: Ringfence, sit: Sit):
    apollo = project(server)
    page = sit().go(f"projects/{apollo}/metrics")
    expect(page.get_by_role("heading", name="Nothing to measure yet")).to_be_visible()
    claude = server.agent("claude")
    work(server, apollo, claude)
    server.clock.ahead = 0
    expect(tile(page, "Completed")).to_contain_text("1", timeout=8000)
    work(server, apollo, claude)
    expect(tile(page, "Completed")).to_contain_text("2", timeout=8000)


def test_a_limit_that_was_passed_shows(server: Ringfence, sit: Sit):
    apollo = lived(server, days=3)
    server.admin.patch(f"/projects/{apollo}/wip", json={"status": "in_progress", "limit": 1, "scope": "column"})
    page = sit().go(f"projects/{apollo}/metrics")
    expect(chart(page, "Work in progress")).to_contain_text("Above the limit on one day")
    server.admin.patch(f"/projects/{apollo}/wip", json={"status": "in_progress", "limit": 9, "scope": "column"})
    expect(chart(page, "Work in progress")).to_contain_text("Never above the limit")


def test_charts_are_loaded_when_they_are_looked_at(server: Ringfence, sit: Sit):
    apollo = lived(server, days=2)
    seat = sit()
    asked: list[str] = []
    seat.page.on("request", lambda request: asked.append(request.url))
    page = seat.go(f"projects/{apollo}")
    expect(page.locator("[data-count=done]")).to_be_visible()
    assert not any("metrics" in url for url in asked)
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Metrics").click()
    expect(drawn(page, "Throughput")).to_be_visible()
    assert any("metrics" in url for url in asked)


def test_what_cannot_be_had_is_said(server: Ringfence, sit: Sit):
    apollo = lived(server, days=2)
    page = sit().page
    page.route("**/api/v1/**/metrics*", lambda route: route.abort())
    page.goto(f"{server.url}/app/projects/{apollo}/metrics")
    expect(page.get_by_role("heading", name="The server is away")).to_be_visible(timeout=20_000)
    page.unroute("**/api/v1/**/metrics*")
    page.get_by_role("button", name="Try again").click()
    expect(drawn(page, "Throughput")).to_be_visible()
    page.goto(f"{server.url}/app/projects/prj_none/metrics")
    expect(page.get_by_role("heading", name="It is not here")).to_be_visible()


def test_the_page_is_for_everybody_and_fits_everywhere(server: Ringfence, sit: Sit):
    apollo = lived(server, days=4, title=HOSTILE)
    server.admin.patch(f"/api/v1/projects/{apollo}", json={"name": HOSTILE[:150]})
    seat = sit()
    page = seat.page
    for theme in ("dark", "light"):
        page.emulate_media(color_scheme=theme)
        for view in ("", "&view=tables"):
            page.set_viewport_size({"width": 1440, "height": 900})
            seat.go(f"projects/{apollo}/metrics?days=7{view}")
            expect(tile(page, "Completed")).to_be_visible()
            expect(chart(page, "Cumulative flow")).to_be_visible()
            assert seat.serious() == [], f"{theme} {view}"
            for width in (390, 768, 1440):
                page.set_viewport_size({"width": width, "height": 844})
                page.wait_for_function("width => innerWidth === width", arg=width)
                assert fits(page), f"{theme} at {width} {view}"
    expect(page.locator("img[src=x]")).to_have_count(0)
