"""The record as people read it: in words, live, found again, opened, verified, and taken away."""

import csv
import io
import json
import re
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from ringfence.kernel.auth.model import Role
from ringfence.kernel.events import service
from ringfence.kernel.events.model import SYSTEM, Actor
from tests.dashboard.conftest import Sit, fits, nav, project, task
from tests.dashboard.test_live import WATCH
from tests.harness import Ringfence

HOSTILE = "<img src=x onerror=alert(1)><svg onload=alert(1)> \u202egnp.exe [x](javascript:alert(1)) \"'" + "w" * 300
FIELDS = (
    "title", "task", "agent", "name", "to", "was", "changed", "reason", "message", "result", "status", "limit",
    "project", "task_id", "note",
)  # fmt: skip
DOCUMENTED = Path(__file__).parent.parent.parent / "docs/events.md"


def tell(server: Ringfence, count: int = 1, kind: str = "told", data: dict[str, Any] | None = None, **more: str) -> int:
    """Record events; the number of the last one."""

    def use_case(tx: Any) -> None:
        for number in range(count):
            tx.record(kind, SYSTEM, {"name": f"number {number}", **(data or {})}, **more)

    server.write(use_case)
    return server.house.feed.last


def row(page: Page, text: str | re.Pattern[str]) -> Locator:
    return page.get_by_role("article").filter(has_text=text)


def rows(page: Page) -> Locator:
    return page.get_by_role("article")


def drawer(page: Page) -> Locator:
    return page.get_by_role("dialog")


def opener(found: Locator) -> Locator:
    return found.get_by_role("link", name=re.compile("^Event "))


# In words, and opened ------------------------------------------------------------------------------------------------


def test_events_are_told_in_words_and_open_as_what_changed(server: Ringfence, sit: Sit):
    apollo = project(server)
    claude = server.agent("claude", capabilities=["python"])
    parse = task(server, apollo, "Parse dates", status="ready", priority="P2")
    claude.post(f"/api/v1/projects/{apollo}/tasks/{parse}/claim", json={})
    claude.patch(f"/api/v1/projects/{apollo}/tasks/{parse}", json={"status": "in_progress"})
    server.admin.patch(f"/api/v1/projects/{apollo}/tasks/{parse}", json={"title": "Parse all dates", "priority": "P0"})
    server.admin.patch(f"/projects/{apollo}/wip", json={"status": "in_progress", "limit": 9})
    page = sit().go("activity")
    expect(row(page, "admin wrote “Parse dates”")).to_contain_text("Apollo")
    expect(row(page, "claude claimed “Parse dates”")).to_be_visible()
    expect(row(page, "claude moved “Parse dates” from ready to in progress")).to_be_visible()
    expect(row(page, "admin set the WIP limit of in progress to 9")).to_be_visible()
    edited = row(page, "admin changed the priority and the title of “Parse all dates”")
    expect(edited.get_by_role("time")).to_have_text("just now")
    edited.click(position={"x": 400, "y": 5})
    expect(page).to_have_url(re.compile(r"[?&]event=\d+"))
    opened = drawer(page)
    expect(opened.get_by_role("deletion").filter(has_text="Parse dates")).to_be_visible()
    expect(opened.get_by_role("insertion").filter(has_text="Parse all dates")).to_be_visible()
    expect(opened.get_by_role("deletion").filter(has_text="P2")).to_be_visible()
    expect(opened.get_by_role("insertion").filter(has_text="P0")).to_be_visible()
    expect(opened.get_by_text("As it is recorded")).to_be_visible()
    page.go_back()
    expect(drawer(page)).to_have_count(0)
    expect(page).to_have_url(re.compile(r"/app/activity$"))
    page.go_forward()
    expect(drawer(page)).to_be_visible()
    page.reload()
    expect(drawer(page).get_by_role("insertion").filter(has_text="Parse all dates")).to_be_visible()
    drawer(page).get_by_role("link", name="Parse all dates").last.click()
    expect(page).to_have_url(re.compile(f"projects/{apollo}.*task={parse}"))


def test_the_opened_event_shows_its_place_in_the_chain_and_leads_on(server: Ringfence, sit: Sit):
    apollo = project(server)
    parse = task(server, apollo, "Parse dates")
    server.admin.post(f"/api/v1/projects/{apollo}/tasks/{parse}/comments", json={"body": "All of *them*.\nReally."})
    event = server.admin.get("/api/v1/audit?kind=task_commented").json()["items"][0]
    page = sit().go(f"activity?event={event['seq']}")
    opened = drawer(page)
    expect(opened).to_contain_text(f"Event {event['seq']}")
    expect(opened).to_contain_text(event["hash"])
    expect(opened).to_contain_text(event["prev"])
    expect(opened.get_by_text("All of *them*.\nReally.", exact=True).last).to_be_visible()
    opened.get_by_text("As it is recorded").click()
    expect(opened.get_by_label("The event as JSON", exact=True)).to_contain_text('"kind": "task_commented"')
    opened.get_by_role("link", name=f"Event {event['seq'] - 1}").click()
    expect(opened).to_contain_text("wrote “Parse dates”")
    opened.get_by_role("button", name="Newer event").click()
    expect(opened).to_contain_text("commented on “Parse dates”")
    page.keyboard.press("j")
    expect(opened).to_contain_text("wrote “Parse dates”")
    page.keyboard.press("k")
    expect(opened).to_contain_text("commented on “Parse dates”")
    opened.get_by_role("link", name=parse).click()
    expect(page).to_have_url(re.compile(f"subject={parse}"))
    expect(rows(page)).to_have_count(2)
    page.get_by_role("button", name=f"No longer only about {parse}").click()
    expect(row(page, "made the project")).to_be_visible()
    page.goto(f"{server.url}/app/activity?event=999999")
    expect(page.get_by_role("heading", name="There is no such event")).to_be_visible()
    page.keyboard.press("Escape")
    expect(drawer(page)).to_have_count(0)


def test_refusals_stand_out_and_say_what_was_refused(server: Ringfence, sit: Sit):
    server.agent("claude").post("/agents/claude/pause", json={"reason": "x"})
    page = sit().go("activity")
    refusal = row(page, "claude was refused: Pause an agent")
    expect(refusal).to_have_attribute("data-kind", "refused")
    plain = row(page, "claude (through admin) registered")
    colors = [each.evaluate("each => getComputedStyle(each).backgroundColor") for each in (refusal, plain)]
    assert colors[0] != colors[1]
    page.get_by_role("button", name="Refusals").click()
    expect(rows(page)).to_have_count(1)
    expect(page).to_have_url(re.compile("kind="))
    opener(refusal).click()
    expect(drawer(page)).to_contain_text("this is for operators and admins")
    expect(drawer(page)).to_contain_text("Code")


def test_every_kind_is_shown_whatever_its_event_holds(server: Ringfence, sit: Sit):
    """Also of what a newer server recorded, or an older one."""
    kinds = sorted(set(re.findall(r"`([a-z]+_[a-z_]+|refused)`", DOCUMENTED.read_text())))
    assert len(kinds) > 40
    odd: list[dict[str, Any]] = [
        {},
        dict.fromkeys(FIELDS, 7),
        {"title": HOSTILE, "name": HOSTILE, "note": HOSTILE, "was": {"a": {"b": [1, {"c": None}]}}, "to": {"a": True}},
    ]

    def use_case(tx: Any) -> None:
        for kind in [*kinds, "made_up_by_a_later_server"]:
            for data in odd:
                tx.record(kind, Actor("agent:claude", "operator:ada"), data, subject="x")

    server.write(use_case)
    page = sit().go("activity?subject=x")
    expect(row(page, "made up by a later server")).to_have_count(3)
    first = server.house.feed.last - 3 * (len(kinds) + 1) + 1
    seen: set[str] = set()
    ends = time.monotonic() + 20
    while len(seen) < len(kinds) + 1 and time.monotonic() < ends:
        seen |= set(page.evaluate("[...document.querySelectorAll('article')].map(each => each.dataset.kind)"))
        page.mouse.wheel(0, 500)
        page.wait_for_timeout(50)
    assert set(kinds) <= seen
    for seq in range(first, first + 3 * len(kinds), 11):
        page.goto(f"{server.url}/app/activity?subject=x&event={seq}")
        expect(drawer(page).get_by_role("heading", level=2).last).not_to_be_empty()


# Live ----------------------------------------------------------------------------------------------------------------


def test_what_happens_is_shown_at_once_and_waits_while_somebody_reads(server: Ringfence, sit: Sit):
    tell(server, 150)
    page = sit().go("activity")
    expect(rows(page).first).to_be_visible()
    tell(server, 1, "project_created", {"name": "Gemini", "id": "prj_x"})
    expect(row(page, "made the project Gemini")).to_be_visible(timeout=2000)
    page.get_by_role("button", name="Live").click()
    tell(server, 3)
    pill = page.get_by_role("button", name="3 new events")
    expect(pill).to_be_visible()
    expect(row(page, "made the project Gemini")).to_be_in_viewport()
    page.get_by_role("button", name="Held").click()
    expect(pill).to_have_count(0)
    expect(row(page, "number 2").first).to_be_visible()
    page.mouse.wheel(0, 1500)
    expect(row(page, "made the project Gemini")).not_to_be_in_viewport()
    place = page.evaluate("scrollY")
    tell(server, 1)
    page.get_by_role("button", name="1 new event").click()
    expect(rows(page).first).to_be_in_viewport()
    assert place > 500
    assert page.evaluate("scrollY") == 0
    page.keyboard.press("p")
    expect(page.get_by_role("button", name="Held")).to_be_visible()


def test_what_is_looked_for_comes_live_too_and_nothing_else(server: Ringfence, sit: Sit):
    page = sit().go("activity?kind=told&agent=claude")
    expect(page.get_by_role("heading", name="Nothing of that kind happened")).to_be_visible()
    tell(server, 2, agent="codex")
    tell(server, 2, "other", agent="claude")
    tell(server, 1, agent="claude")
    expect(rows(page)).to_have_count(1)
    page.get_by_role("button", name="Clear").click()
    expect(row(page, "other")).to_have_count(2)
    expect(page).to_have_url(re.compile(r"/app/activity$"))


def test_nothing_is_lost_while_the_server_is_away(server: Ringfence, sit: Sit):
    tell(server, 5)
    page = sit().go("activity")
    expect(rows(page).first).to_be_visible()
    server.restart()
    tell(server, 1, "project_created", {"name": "Gemini", "id": "prj_x"})
    expect(row(page, "made the project Gemini")).to_be_visible(timeout=15_000)
    numbers = page.evaluate("[...document.querySelectorAll('article')].map(each => +each.dataset.seq)")
    assert numbers == list(range(numbers[0], numbers[0] - len(numbers), -1))


def test_five_hundred_events_a_second_leave_the_page_responsive(server: Ringfence, sit: Sit):
    page = sit().go("activity")
    expect(rows(page).first).to_be_visible()
    page.evaluate(WATCH)
    before, began, turns = server.house.feed.last, time.monotonic(), 0
    while time.monotonic() - began < 4:
        tell(server, 25, "message_sent", {"to": "codex", "content": "words " * 30})
        turns += 1
        time.sleep(max(0.0, began + turns * 0.05 - time.monotonic()))
    last = server.house.feed.last
    rate = (last - before) / (time.monotonic() - began)
    expect(page.locator(f"[data-seq='{last}']")).to_be_visible()
    longest = page.evaluate("window.longest")
    print(f"\n{rate:.0f} events/s for 4 s: the page was busy for at most {longest:.0f} ms at a time")
    assert rate > 300
    assert longest < 500
    assert rows(page).count() < 120


# Back in history -----------------------------------------------------------------------------------------------------


def test_thousands_are_paged_back_to_the_first_and_few_are_in_the_page(server: Ringfence, sit: Sit):
    tell(server, 3000)
    page = sit().go("activity")
    expect(rows(page).first).to_be_visible()
    ends = time.monotonic() + 25
    while not page.get_by_text("This is where the record begins.").is_visible():
        assert time.monotonic() < ends, "the beginning does not come"
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        page.wait_for_timeout(60)
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    expect(page.get_by_text("This is where the record begins.")).to_be_in_viewport()
    expect(page.locator("[data-seq='1']")).to_be_visible()
    assert rows(page).count() < 120
    assert page.evaluate("document.body.scrollHeight") > 100_000


def test_what_is_rare_is_found_far_back(server: Ringfence, sit: Sit, monkeypatch: pytest.MonkeyPatch):
    tell(server, 1, "project_created", {"name": "Gemini", "id": "prj_x"})
    tell(server, 2000)
    monkeypatch.setattr(service, "LOOKED", 100)
    page = sit().go("activity?kind=project_created")
    expect(row(page, "made the project Gemini")).to_be_visible()
    expect(page.get_by_text("This is where the record begins.")).to_be_visible()


# Filters -------------------------------------------------------------------------------------------------------------


def test_filters_live_in_the_address(server: Ringfence, sit: Sit):
    apollo, gemini = project(server), project(server, "Gemini")
    claude = server.agent("claude")
    server.agent("codex")
    for where in (apollo, gemini):
        made = task(server, where, f"Task of {where}", status="ready")
        claude.post(f"/api/v1/projects/{where}/tasks/{made}/claim", json={})
    page = sit().go("activity")
    kinds = page.get_by_role("combobox", name="Kinds of events")
    kinds.fill("claimed")
    page.get_by_role("option", name="Task claimed").click()
    expect(rows(page)).to_have_count(2)
    page.get_by_label("Of project").select_option(apollo)
    expect(rows(page)).to_have_count(1)
    expect(page).to_have_url(re.compile("task_claimed.*project=" + apollo))
    page.reload()
    expect(rows(page)).to_have_count(1)
    kinds.fill("Agents")
    page.get_by_role("option", name="Agents: all").click()
    page.get_by_label("Of project").select_option("")
    expect(row(page, "codex (through admin) registered")).to_be_visible()
    page.get_by_label("Agent", exact=True).select_option("claude")
    expect(row(page, "codex (through admin) registered")).to_have_count(0)
    expect(row(page, "claude (through admin) registered")).to_be_visible()
    expect(rows(page)).to_have_count(3)
    page.get_by_role("button", name="Remove Task claimed").click()
    expect(rows(page)).to_have_count(1)
    page.get_by_label("Agent", exact=True).select_option("codex")
    expect(row(page, "codex (through admin) registered")).to_be_visible()
    page.get_by_role("button", name="Clear").click()
    expect(row(page, "signed in")).to_be_visible()
    page.goto(f"{server.url}/app/activity?agent=nobody&project=prj_gone")
    expect(page.get_by_role("heading", name="Nothing of that kind happened")).to_be_visible()
    page.get_by_role("button", name="Show everything").click()
    expect(rows(page).first).to_be_visible()


def test_the_keyboard_goes_from_event_to_event(server: Ringfence, sit: Sit):
    last = tell(server, 60)
    page = sit().go("activity?kind=told")
    expect(rows(page).first).to_be_visible()
    page.keyboard.press("j")
    expect(page.locator(f"[data-seq='{last}'] a:last-of-type")).to_be_focused()
    for _ in range(30):
        page.keyboard.press("j")
    expect(page.locator(f"[data-seq='{last - 30}'] a:last-of-type")).to_be_focused()
    expect(page.locator(f"[data-seq='{last - 30}']")).to_be_in_viewport()
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    expect(drawer(page)).to_contain_text(f"Event {last - 29}")
    page.keyboard.press("Escape")
    expect(drawer(page)).to_have_count(0)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_contain_text("Next event")


# Verified, and taken away ---------------------------------------------------------------------------------------------


def chain(page: Page) -> Locator:
    return page.get_by_role("region", name="Verification of the record")


def test_the_chain_is_verified_now_and_everybody_sees_up_to_where(server: Ringfence, sit: Sit):
    last = tell(server, 40)
    ann, bob = sit("ann").go("activity"), sit("bob", Role.VIEWER).go("activity")
    expect(chain(ann)).to_contain_text("Not verified yet")
    expect(chain(bob).get_by_role("button")).to_have_count(0)
    chain(ann).get_by_role("button", name="Verify now").click()
    expect(chain(ann)).to_contain_text(re.compile(r"Events 1 to \d+ are as they were written"))
    expect(chain(ann)).to_contain_text("Verified just now by ann")
    expect(chain(bob)).to_contain_text("by ann")
    expect(row(bob, "ann had the record verified: all")).to_be_visible()
    tell(server, 7)
    ann.reload()
    expect(chain(ann)).to_contain_text("7 events since")
    with sqlite3.connect(server.settings.data / "ringfence.db", timeout=10) as database:
        database.execute('UPDATE events SET data = \'{"name":"nothing"}\' WHERE seq = ?', (last - 3,))
    chain(ann).get_by_role("button", name="Verify now").click()
    expect(chain(ann)).to_contain_text(f"The record was changed: event {last - 3} is not as it was written")
    expect(chain(bob)).to_contain_text("The record was changed")
    chain(ann).get_by_role("link", name=f"Open event {last - 3}").click()
    expect(drawer(ann)).to_contain_text(f"Event {last - 3}")


def test_a_long_chain_tells_how_far_it_is_and_can_be_stopped(
    server: Ringfence, sit: Sit, monkeypatch: pytest.MonkeyPatch
):
    tell(server, 20_000)
    monkeypatch.setattr(service, "WALK", 1)
    page = sit().go("activity")
    chain(page).get_by_role("button", name="Verify now").click()
    expect(chain(page)).to_contain_text(re.compile(r"Following the chain: [\d,]+ of 20,\d+ events"))
    bar = chain(page).get_by_role("progressbar")
    first = float(bar.get_attribute("value") or 0)
    page.wait_for_function(
        "first => document.querySelector('progress').value > first + 20", arg=first
    )  # it moves while one looks
    chain(page).get_by_role("button", name="Stop").click()
    expect(chain(page)).to_contain_text("Not verified yet")
    expect(page.get_by_role("status").filter(has_text="The server")).to_have_count(0)
    assert server.admin.get("/api/v1/audit?kind=audit_verified").json()["items"] == []


def test_a_verification_that_the_server_cuts_off_is_said_to_be(server: Ringfence, sit: Sit):
    page = sit().go("activity")
    page.route("**/api/v1/audit/verify", lambda route: route.fulfill(body="", content_type="text/event-stream"))
    chain(page).get_by_role("button", name="Verify now").click()
    expect(page.get_by_text("The server stopped before the end: verify once more.", exact=True)).to_be_visible()
    expect(chain(page).get_by_role("button", name="Verify now")).to_be_visible()


def test_what_is_shown_can_be_taken_away(server: Ringfence, sit: Sit):
    tell(server, 300, agent="claude")
    tell(server, 5, "other", agent="claude")
    page = sit("vera", Role.VIEWER).go("activity?kind=other&agent=claude")
    expect(rows(page)).to_have_count(5)
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name="As lines of JSON").click()
    assert re.fullmatch(r"ringfence-audit-\d{4}-\d\d-\d\d\.ndjson", download.value.suggested_filename)
    lines = [json.loads(line) for line in Path(download.value.path()).read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["other"] * 5
    page.get_by_role("button", name="Clear").click()
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name="As a table").click()
    table = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text())))
    assert [int(line["seq"]) for line in table] == list(range(1, len(table) + 1))
    assert len(table) > 305


# States and looks ----------------------------------------------------------------------------------------------------


def test_a_server_that_does_not_answer_is_said_and_asked_again(server: Ringfence, sit: Sit):
    tell(server, 300)
    page = sit().page
    away = threading.Event()
    away.set()
    page.route("**/api/v1/audit?*", lambda route: route.abort() if away.is_set() else route.continue_())
    page.goto(f"{server.url}/app/activity")
    expect(page.get_by_role("heading", name="The server is away")).to_be_visible()
    away.clear()
    page.get_by_role("button", name="Try again").click()
    expect(rows(page).first).to_be_visible()
    away.set()
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    again = page.get_by_role("alert").get_by_role("button", name="Try again")
    expect(again).to_be_visible()
    away.clear()
    again.click()
    expect(again).to_have_count(0)


def test_who_sees_only_some_projects_reads_only_those(server: Ringfence, sit: Sit):
    apollo, gemini = project(server), project(server, "Gemini")
    server.admin.post("/api/v1/people", json={"name": "eve", "role": "operator", "projects": [apollo]})
    seat = sit("eve")
    page = seat.go("activity")
    expect(row(page, "made the project Apollo")).to_be_visible()
    expect(row(page, "Gemini")).to_have_count(0)
    event = server.admin.get(f"/api/v1/audit?project={gemini}").json()["items"][0]["seq"]
    page.goto(f"{server.url}/app/activity?event={event}")
    expect(page.get_by_role("heading", name="There is no such event")).to_be_visible()


def test_the_page_is_for_everybody_and_fits_everywhere(server: Ringfence, sit: Sit):
    apollo = project(server, HOSTILE[:150])
    server.agent("claude").post("/agents/claude/pause", json={"reason": HOSTILE})
    made = task(server, apollo, HOSTILE[:400], description="w" * 100_000, labels=["<b>"])
    server.admin.post(f"/api/v1/projects/{apollo}/tasks/{made}/comments", json={"body": "w" * 100_000})
    server.admin.patch(f"/api/v1/projects/{apollo}/tasks/{made}", json={"description": HOSTILE, "title": "Calm"})
    tell(server, 2, "told", {"name": "w" * 100_000, "deep": {"a": ["w" * 5000] * 3}})
    seat = sit()
    page = seat.go("activity")
    edited = server.admin.get("/api/v1/audit?kind=task_changed").json()["items"][0]["seq"]
    for theme in ("dark", "light"):
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        expect(row(page, "changed the description")).to_be_visible()
        assert seat.serious() == []
        for width in (390, 768, 1440):
            page.set_viewport_size({"width": width, "height": 844})
            assert fits(page), f"{theme} at {width}"
            page.screenshot(path=f"/tmp/ringfence-activity-{theme}-{width}.png")
        for seq in (edited, server.house.feed.last):
            page.goto(f"{server.url}/app/activity?event={seq}")
            expect(drawer(page).get_by_text("In the chain")).to_be_visible()
            assert seat.serious() == []
            for width in (390, 768, 1440):
                page.set_viewport_size({"width": width, "height": 844})
                assert fits(page), f"event {seq}, {theme} at {width}"
        page.keyboard.press("Escape")
        expect(drawer(page)).to_have_count(0)
    page.goto(f"{server.url}/app/activity?kind=none_such")
    expect(page.get_by_role("heading", name="Nothing of that kind happened")).to_be_visible()
    assert seat.serious() == []
    expect(nav(page, "Activity")).to_have_attribute("aria-current", "page")
