"""The first minutes: a link is pasted, three steps lead to a task that moves, or the demo shows how it is."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from ringfence.kernel.auth.model import Role
from tests.dashboard.conftest import Sit, nav
from tests.harness import Ringfence, running


@pytest.fixture
def server(tmp_path: Path, template: Path) -> Iterator[Ringfence]:
    with running(tmp_path / "data", template) as server:
        yield server


def test_a_pasted_link_signs_in_and_what_is_no_link_is_named(server: Ringfence, chromium: Browser):
    link = server.admin.post("/api/v1/people", json={"name": "ada", "role": "admin"}).json()["signin_url"]
    page = chromium.new_page()
    page.goto(f"{server.url}/app/crew")
    field = page.get_by_label("Your link")
    for wrong, why in (
        ("hello", "That is no sign-in link"),
        (link.replace("127.0.0.1", "other.example"), "is for other"),
    ):
        field.fill(wrong)
        field.press("Enter")
        expect(page.get_by_text(why)).to_be_visible()
    field.fill(link)
    field.press("Enter")
    expect(page).to_have_url(f"{server.url}/app/crew")  # where they wanted to go
    expect(page.get_by_role("heading", name="Crew", exact=True)).to_be_visible()
    page.context.clear_cookies()
    page.goto(link)
    expect(page.get_by_role("heading", name="This link was used already")).to_be_visible()
    page.context.close()


def test_three_steps_lead_from_nothing_to_a_task_that_an_agent_moved(server: Ringfence, sit: Sit):
    page = sit().page
    expect(page.get_by_role("heading", name="Welcome to Ringfence")).to_be_visible()
    page.get_by_label("Name").fill("Apollo")
    page.get_by_role("button", name="Create").click()
    page.get_by_label("Title").fill("Parse dates")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Make a token for it").click()
    expect(page.get_by_text("Waiting for your agent…")).to_be_visible()
    lines = page.locator("pre").inner_text()
    done = subprocess.run(["bash", "-c", lines], check=False, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    expect(page.get_by_text("my-agent works on “Parse dates”")).to_be_visible()
    page.get_by_role("link", name="See it on the board").click()
    expect(page.get_by_role("region", name="In progress", exact=True)).to_contain_text("Parse dates")


def test_the_demo_is_one_click_away_moves_and_is_one_click_gone(server: Ringfence, sit: Sit):
    page = sit().page
    page.get_by_role("button", name="Show me with demo data").click()
    banner = page.get_by_role("complementary", name="Demo data")
    expect(banner).to_contain_text("Its agents work by themselves")
    expect(nav(page, "Inbox")).to_contain_text("2")
    expect(page.locator("[data-card]").first).to_be_visible()
    before = page.locator("main").inner_text()
    for _ in range(8):
        server.clock.advance(2.1)
        server.write(server.house.demos.step)
    page.wait_for_function("before => document.querySelector('main').innerText !== before", arg=before)
    banner.get_by_role("button", name="Remove").click()
    expect(page.get_by_role("heading", name="Welcome to Ringfence")).to_be_visible()
    assert server.admin.get("/projects").json() == []
    assert server.admin.get("/api/v1/crew").json()["items"] == []


def test_a_viewer_is_told_to_look_around_and_is_given_no_step(server: Ringfence, sit: Sit):
    page = sit("vera", Role.VIEWER).page
    expect(page.get_by_role("heading", name="There is no project yet")).to_be_visible()
    expect(page.get_by_role("main").get_by_role("button")).to_have_count(0)
    server.admin.post("/api/v1/projects", json={"name": "Apollo"})
    expect(page.get_by_role("heading", name="You may look around")).to_be_visible()


def test_everything_up_to_a_finished_task_is_done_from_the_keyboard(server: Ringfence, chromium: Browser):
    """No pointer: the mouse of this page would fail the test."""
    link = server.admin.post("/api/v1/people", json={"name": "ada", "role": "admin"}).json()["signin_url"]
    server.agent("claude")
    page = chromium.new_page()
    page.add_init_script("addEventListener('pointerdown', () => { throw new Error('a pointer was used') })")
    page.goto(f"{server.url}/app/")
    expect(page.get_by_label("Your link")).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.type(link)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Welcome to Ringfence")).to_be_visible()

    def tab_to(name: str, role: str = "button") -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.get_by_role(role, name=name, exact=True).and_(page.locator(":focus")).count():  # type: ignore[arg-type]
                outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
                assert outline != "none", f"nobody sees that {name} has the focus"
                return
        raise AssertionError(f"the tabulator does not lead to {name}")

    tab_to("Name", "textbox")
    page.keyboard.type("Apollo")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Title")).to_be_focused()
    page.keyboard.type("Parse dates")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Make a token for another")).to_be_visible()
    page.keyboard.press("Control+k")
    expect(page.get_by_placeholder("A command, a page")).to_be_focused()
    page.keyboard.type("go to board")
    page.keyboard.press("Enter")
    card = page.get_by_role("link", name="Parse dates")
    expect(card).to_be_visible()
    page.keyboard.press("c")
    expect(page.get_by_role("dialog", name="New task").get_by_label("Title")).to_be_focused()
    page.keyboard.type("Zones")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("link", name="Zones")).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("j")
    expect(page.locator("[data-place]:focus")).to_have_count(1)
    page.get_by_role("link", name="Parse dates").focus()
    page.keyboard.press("Enter")
    drawer = page.get_by_role("dialog", name="Task")
    expect(drawer.get_by_role("heading", name="Parse dates")).to_be_visible()
    for to in ("In progress", "In review", "Done"):
        page.keyboard.press("s")
        place = page.get_by_role("button", name=re.compile(f"^{to}"))
        expect(place).to_be_visible()
        for _ in range(8):
            if place.and_(page.locator(":focus")).count():
                break
            page.keyboard.press("ArrowDown")
        expect(place).to_be_focused()
        page.keyboard.press("Enter")
        expect(place).to_have_count(0)
        expect(drawer.get_by_role("button", name=f"State: {to}")).to_be_focused()
    page.keyboard.press("m")
    expect(drawer.get_by_label("Write a comment")).to_be_focused()
    page.keyboard.type("All done")
    page.keyboard.press("Control+Enter")
    expect(drawer.get_by_role("list", name="Comments")).to_contain_text("All done")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(drawer).to_have_count(0)
    expect(page.get_by_role("region", name="Done", exact=True)).to_contain_text("Parse dates")
    page.keyboard.press("g")
    page.keyboard.press("c")
    expect(page.get_by_role("link", name="claude", exact=True)).to_be_visible()
    page.keyboard.press("j")
    expect(page.get_by_role("link", name="claude", exact=True)).to_be_focused()
    page.keyboard.press("p")
    asked = page.get_by_role("alertdialog")
    expect(asked).to_be_visible()
    for _ in range(8):
        if asked.get_by_label("Reason").and_(page.locator(":focus")).count():
            break
        page.keyboard.press("Tab")
    page.keyboard.type("Later")
    page.keyboard.press("Enter")
    expect(page.get_by_role("row").filter(has_text="claude")).to_contain_text("Paused")
    page.context.close()
