"""The board: six columns of cards that are moved by pointer, finger and key, filtered, cut into lanes and worked on
together; and what it says before, and after, something is refused."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from ringfence.kernel.auth.model import Role
from tests.dashboard.conftest import Sit, project, task
from tests.harness import Ringfence

NAMES = {
    "backlog": "Backlog", "ready": "Ready", "in_progress": "In progress", "in_review": "In review",
    "blocked": "Blocked", "done": "Done",
}  # fmt: skip


def column(page: Page, status: str) -> Locator:
    return page.get_by_role("region", name=NAMES[status], exact=True)


def card(within: Page | Locator, title: str) -> Locator:
    page = within if isinstance(within, Page) else within.page
    return within.locator("[data-card]").filter(has=page.get_by_role("link", name=title, exact=True))


def told(page: Page, words: str) -> Locator:
    return page.get_by_role("region", name=re.compile("^Notifications")).get_by_role("listitem").filter(has_text=words)


def facts(server: Ringfence, task_id: str) -> dict[str, Any]:
    return dict(server.admin.get(f"/api/v1/tasks/{task_id}").json())


def status_of(server: Ringfence, task_id: str) -> str:
    return str(facts(server, task_id)["status"])


def expect_facts(server: Ringfence, task_id: str, **wanted: Any) -> None:
    """The server comes to hold these: the page shows them before it was answered."""
    ends = time.monotonic() + 5
    while {name: facts(server, task_id).get(name) for name in wanted} != wanted and time.monotonic() < ends:
        time.sleep(0.02)
    assert {name: facts(server, task_id).get(name) for name in wanted} == wanted


@contextmanager
def holding(page: Page, address: str) -> Iterator[Callable[[], None]]:
    """Requests of this address wait until the test lets them go on, which waits for the first."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    def go_on() -> None:
        while not held:
            page.wait_for_timeout(10)
        for route in held:
            route.continue_()

    page.route(address, hold)
    yield go_on
    page.unroute(address)


def move(server: Ringfence, project_id: str, task_id: str, *steps: str, **more: Any) -> None:
    for step in steps:
        answer = server.admin.patch(f"/api/v1/projects/{project_id}/tasks/{task_id}", json={"status": step, **more})
        assert answer.status_code == 200, answer.text


def limit(server: Ringfence, project_id: str, status: str, most: int | None, **more: Any) -> None:
    body = {"status": status, "limit": most, "scope": "column", **more}
    answer = server.admin.put(f"/api/v1/projects/{project_id}/wip", json=body)
    assert answer.status_code == 200, answer.text


def middle(place: Locator) -> tuple[float, float]:
    box = place.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + min(box["height"] / 2, 200)


@contextmanager
def carried(page: Page, what: Locator, to: Locator) -> Iterator[None]:
    """The pointer holds the card over a column; it is dropped at the end."""
    page.mouse.move(*middle(what))
    page.mouse.down()
    x, y = middle(to)
    page.mouse.move(x - 20, y, steps=4)
    page.mouse.move(x, y, steps=2)
    yield
    page.mouse.up()


@contextmanager
def changes(page: Page) -> Iterator[list[str]]:
    """What the page asked the server to change meanwhile."""
    asked: list[str] = []

    def note(request: Any) -> None:
        if request.method != "GET":
            asked.append(f"{request.method} {request.url}")

    page.on("request", note)
    yield asked
    page.remove_listener("request", note)


def test_six_columns_hold_the_cards_with_what_one_must_know(server: Ringfence, sit: Sit):
    apollo = project(server)
    server.agent("claude", capabilities=["python"])
    first = task(server, apollo, "Parse dates", priority="P0", labels=["bug"], required_capabilities=["python"])
    task(server, apollo, "Zones", parent_task_id=first, depends_on=[first])
    task(server, apollo, "Leap", depends_on=[task(server, apollo, "Seconds")])
    for number in range(2):
        comment = {"body": f"Comment {number}"}
        server.admin.post(f"/api/v1/projects/{apollo}/tasks/{first}/comments", json=comment)
    server.admin.post(f"/api/v1/projects/{apollo}/tasks/{first}/assign", json={"agent": "claude"})
    move(server, apollo, first, "in_progress")
    move(server, apollo, first, "blocked", blocked_reason="No disk")
    page = sit().page
    for status in NAMES:
        expect(column(page, status)).to_be_visible()
    parse = card(column(page, "blocked"), "Parse dates")
    for words in ("No disk", "bug", "python", "claude"):
        expect(parse).to_contain_text(words)
    expect(parse.get_by_role("img", name="P0, critical")).to_be_visible()
    expect(parse.get_by_title("2 comments")).to_be_visible()
    expect(parse.get_by_title("1 subtask")).to_be_visible()
    zones = card(column(page, "blocked"), "Zones")
    expect(zones).to_contain_text("waits for “Parse dates”")
    expect(card(page, "Leap")).to_contain_text("Waits for 1 other task")
    expect(zones.get_by_title("Part of another task")).to_be_visible()
    expect(zones.locator("time")).to_have_attribute("title", re.compile(r"Written .*20\d\d"))
    expect(column(page, "done")).to_contain_text("Nothing is done yet.")


def test_a_pointer_drags_a_card_and_is_told_beforehand_where_it_may_not_go(server: Ringfence, sit: Sit):
    apollo = project(server)
    one = task(server, apollo, "Parse dates", status="ready")
    page = sit().page
    mine = card(page, "Parse dates")
    with changes(page) as asked:
        with carried(page, mine, column(page, "done")):
            said = column(page, "done").locator("[data-drop=refused][data-over]")
            expect(said).to_contain_text("From Ready a task goes to")
            expect(column(page, "in_progress").locator("[data-drop=may]")).to_be_attached()
            expect(page.locator("[data-said]")).to_contain_text("Done: not possible.")
        expect(told(page, "From Ready a task goes to")).to_be_visible()
        expect(card(column(page, "ready"), "Parse dates")).to_be_visible()
        assert asked == []
    with carried(page, mine, column(page, "in_progress")):
        expect(column(page, "in_progress").locator("[data-drop=may][data-over]")).to_contain_text("Drop to move")
    expect(card(column(page, "in_progress"), "Parse dates")).to_be_visible()
    expect(page.locator("[data-count=in_progress]")).to_contain_text("1")
    expect_facts(server, one, status="in_progress")
    expect(page).to_have_url(re.compile(r"projects/prj_\w+$"))


def test_a_finger_drags_a_card_after_a_moment_and_scrolls_before(server: Ringfence, sit: Sit):
    apollo = project(server)
    one = task(server, apollo, "Parse dates", status="ready")
    seat = sit(viewport={"width": 1024, "height": 768}, has_touch=True, is_mobile=True)
    page = seat.page
    expect(card(page, "Parse dates")).to_be_visible()
    finger = seat.context.new_cdp_session(page)

    def touch(kind: str, x: float = 0, y: float = 0) -> None:
        points = [] if kind == "touchEnd" else [{"x": x, "y": y}]
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    start, end = middle(card(page, "Parse dates")), middle(column(page, "in_progress"))
    touch("touchStart", *start)
    touch("touchMove", start[0] + 40, start[1])
    touch("touchEnd")
    expect(page.locator("[data-lifted]")).to_have_count(0)
    touch("touchStart", *start)
    expect(page.locator("[data-lifted]")).to_have_count(1)
    for step in range(1, 6):
        touch("touchMove", start[0] + (end[0] - start[0]) * step / 5, start[1] + (end[1] - start[1]) * step / 5)
    expect(column(page, "in_progress").locator("[data-over]")).to_contain_text("Drop to move")
    touch("touchEnd")
    expect(card(column(page, "in_progress"), "Parse dates")).to_be_visible()
    expect_facts(server, one, status="in_progress")


def test_the_keyboard_lifts_a_card_and_hears_where_it_may_go(server: Ringfence, sit: Sit):
    apollo = project(server)
    one = task(server, apollo, "Parse dates", status="ready")
    page = sit().page
    said = page.locator("[data-said]")
    expect(card(page, "Parse dates")).to_be_visible()
    page.keyboard.press("j")
    expect(card(page, "Parse dates").get_by_role("link")).to_be_focused()
    page.keyboard.press("Space")
    expect(said).to_contain_text("Lifted “Parse dates”, in Ready. Left and right choose a column")
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    expect(said).to_contain_text("In review: not possible. From Ready a task goes to")
    page.keyboard.press("Escape")
    expect(said).to_have_text("Put back where it was.")
    page.keyboard.press("Space")
    page.keyboard.press("ArrowRight")
    expect(said).to_contain_text("In progress: it may go here.")
    page.keyboard.press("Space")
    expect(said).to_have_text("Dropped in In progress.")
    expect(card(column(page, "in_progress"), "Parse dates").get_by_role("link")).to_be_focused()
    expect_facts(server, one, status="in_progress")


def test_a_refusal_of_the_server_takes_the_card_back_and_says_why(server: Ringfence, sit: Sit):
    apollo = project(server)
    one = task(server, apollo, "Parse dates", status="ready")
    page = sit().page
    with holding(page, "**/api/v1/projects/*/tasks/*") as go_on:
        with carried(page, card(page, "Parse dates"), column(page, "in_progress")):
            pass
        expect(card(column(page, "in_progress"), "Parse dates")).to_be_visible()
        expect(page.locator("[data-count=in_progress]")).to_contain_text("1")
        limit(server, apollo, "in_progress", 0)  # after it was dropped, and before the server has heard of that
        go_on()
    expect(card(column(page, "ready"), "Parse dates")).to_be_visible()
    expect(card(column(page, "in_progress"), "Parse dates")).to_have_count(0)
    expect(told(page, "limit")).to_be_visible()
    assert status_of(server, one) == "ready"


def test_what_waits_or_lacks_reviews_or_capabilities_is_refused_in_words(server: Ringfence, sit: Sit):
    apollo = project(server)
    server.agent("claude")
    before = task(server, apollo, "Collect formats")
    task(server, apollo, "Waiting", status="ready", depends_on=[before])
    review = task(server, apollo, "Reviewed", required_reviewers=3, status="ready")
    move(server, apollo, review, "in_progress", "in_review")
    hard = task(server, apollo, "Hard", required_capabilities=["rust"])
    page = sit().page
    for title, to, why in (
        ("Waiting", "in_progress", "It waits for “Collect formats”."),
        ("Reviewed", "done", "2 more reviews are missing, besides yours."),
    ):
        with carried(page, card(page, title), column(page, to)):
            expect(column(page, to).locator("[data-over]")).to_contain_text(why)
    card(page, "Hard").get_by_role("link").focus()
    page.keyboard.press("a")
    choice = page.get_by_role("option").filter(has_text="claude")
    expect(choice).to_contain_text("claude lacks rust.")
    expect(choice).to_have_attribute("aria-disabled", "true")
    assert status_of(server, hard) == "backlog"


def test_blocking_asks_for_the_reason(server: Ringfence, sit: Sit):
    apollo = project(server)
    one = task(server, apollo, "Parse dates", status="ready")
    page = sit().page
    with carried(page, card(page, "Parse dates"), column(page, "blocked")):
        expect(column(page, "blocked").locator("[data-over]")).to_contain_text("You are asked for the reason.")
    ask = page.get_by_role("dialog", name="What blocks it?")
    expect(ask.get_by_role("button", name="Move to Blocked")).to_be_disabled()
    ask.get_by_label("Reason").fill("The disk is full")
    page.keyboard.press("Control+Enter")
    expect(card(column(page, "blocked"), "Parse dates")).to_contain_text("The disk is full")
    expect_facts(server, one, blocked_reason="The disk is full")


def test_limits_are_shown_changed_and_kept(server: Ringfence, sit: Sit):
    apollo = project(server)
    server.agent("claude")
    one, two = (task(server, apollo, title, status="ready") for title in ("One", "Two"))
    move(server, apollo, one, "in_progress")
    page = sit().page
    progress = column(page, "in_progress")
    progress.hover()
    progress.get_by_role("button", name="Limits of In progress").click()
    form = page.get_by_role("form", name="Limits of In progress")
    form.get_by_label("All together").fill("1")
    form.get_by_label("A limit for one agent").select_option("claude")
    form.get_by_label("Limit of claude").fill("2")
    form.get_by_role("button", name="Save").click()
    expect(form).to_have_count(0)
    gauge = progress.get_by_role("button", name="Limits of In progress: 1 of 1")
    expect(gauge).to_have_text("1/1")
    expect(gauge).to_have_attribute("data-full", "true")
    found = server.admin.get(f"/api/v1/projects/{apollo}").json()
    assert found["wip_limits_of_columns"]["in_progress"] == 1
    assert found["wip_limits_by_agent"] == {"claude": {"in_progress": 2}}
    with carried(page, card(page, "Two"), progress):
        expect(progress.locator("[data-over]")).to_contain_text("The column is full: 1 of 1.")
    assert status_of(server, two) == "ready"
    gauge.click()
    form.get_by_label("All together").fill("")
    form.get_by_role("button", name="No limit of its own for claude").click()
    form.get_by_role("button", name="Save").click()
    expect(gauge).to_have_count(0)
    assert server.admin.get(f"/api/v1/projects/{apollo}").json()["wip_limits_by_agent"] == {}


def test_lanes_cut_the_board_by_agent_priority_and_label(server: Ringfence, sit: Sit):
    apollo = project(server)
    server.agent("claude")
    one = task(server, apollo, "One", labels=["ui", "bug"], priority="P1")
    task(server, apollo, "Two", priority="P3")
    server.admin.post(f"/api/v1/projects/{apollo}/tasks/{one}/assign", json={"agent": "claude"})
    page = sit().page

    def cut(by: str) -> None:
        page.get_by_role("button", name=re.compile("^Lanes")).click()
        page.get_by_role("menuitemradio", name=by).click()

    def lane(name: str) -> Locator:
        return page.get_by_role("region", name=name, exact=True)

    cut("By agent")
    expect(page).to_have_url(re.compile("lanes=agent"))
    expect(card(lane("claude").locator("[data-column=ready]"), "One")).to_be_visible()
    expect(card(lane("Unassigned").locator("[data-column=backlog]"), "Two")).to_be_visible()
    cut("By priority")
    expect(card(lane("P1 High"), "One")).to_be_visible()
    expect(card(lane("P3 Low"), "Two")).to_be_visible()
    cut("By label")
    expect(card(lane("bug"), "One")).to_be_visible()
    expect(card(lane("ui"), "One")).to_be_visible()
    expect(card(lane("No label"), "Two")).to_be_visible()
    ui = page.get_by_role("button", name=re.compile("ui"))
    ui.click()
    expect(card(lane("ui"), "One")).to_have_count(0)
    with carried(page, card(lane("bug"), "One"), lane("bug").locator("[data-column=in_progress]")):
        expect(page.locator("[data-drop=may][data-over]")).to_contain_text("Drop to move")
    expect(card(lane("bug").locator("[data-column=in_progress]"), "One")).to_be_visible()
    page.reload()
    expect(card(lane("bug").locator("[data-column=in_progress]"), "One")).to_be_visible()
    cut("No lanes")
    expect(column(page, "backlog")).to_be_visible()


def test_filters_and_search_live_in_the_address(server: Ringfence, sit: Sit):
    apollo = project(server)
    server.agent("claude")
    one = task(server, apollo, "Parse dates", labels=["bug"], priority="P0", description="RFC 3339 and mail")
    task(server, apollo, "Draw charts", labels=["ui"], required_capabilities=["typescript"])
    server.admin.post(f"/api/v1/projects/{apollo}/tasks/{one}/assign", json={"agent": "claude"})
    page = sit().page
    both = page.locator("[data-card]")
    expect(both).to_have_count(2)
    page.keyboard.press("/")
    page.keyboard.type("charts")
    expect(both).to_have_count(1)
    expect(page).to_have_url(re.compile("q=charts"))
    expect(page.get_by_text("1 task hidden")).to_be_visible()
    page.get_by_role("searchbox").fill("rfc 3339")
    expect(card(page, "Parse dates")).to_be_visible()
    expect(both).to_have_count(1)
    page.get_by_role("button", name="Clear all").click()
    for facet, value in (("Assignee", "claude"), ("Priority", "P0 Critical"), ("Label", "bug")):
        page.get_by_role("button", name="Filter").click()
        page.get_by_role("menuitem", name=facet).press("ArrowRight")
        page.get_by_role("menuitemcheckbox", name=value).press("Enter")
        page.keyboard.press("Escape")
        expect(card(page, "Parse dates")).to_be_visible()
        expect(both).to_have_count(1)
    for part in ("agent=", "priority=", "label="):
        assert part in page.url
    page.reload()
    expect(both).to_have_count(1)
    page.get_by_role("button", name="Without Label: bug").click()
    expect(page).not_to_have_url(re.compile("label="))
    page.go_back()  # filters take the address's place, so this leaves the board
    expect(page).not_to_have_url(re.compile(f"projects/{apollo}"))
    page.go_forward()
    expect(page.get_by_role("button", name="Without Assignee: claude")).to_be_visible()


def test_back_closes_what_was_opened(server: Ringfence, sit: Sit):
    apollo = project(server)
    one = task(server, apollo, "Parse dates")
    page = sit().page
    card(page, "Parse dates").get_by_role("link").click()
    drawer = page.get_by_role("dialog", name="Task")
    expect(drawer).to_be_visible()
    expect(page).to_have_url(re.compile(f"task={one}"))
    page.go_back()
    expect(drawer).to_have_count(0)
    page.go_forward()
    expect(drawer.get_by_role("heading", name="Parse dates")).to_be_visible()
    page.reload()
    expect(drawer.get_by_role("heading", name="Parse dates")).to_be_visible()
    page.keyboard.press("Escape")
    expect(drawer).to_have_count(0)
    expect(page).to_have_url(re.compile(f"projects/{apollo}$"))
    expect(card(page, "Parse dates").get_by_role("link")).to_be_focused()


def test_tasks_are_written_in_place_one_after_the_other(server: Ringfence, sit: Sit):
    apollo = project(server)
    task(server, apollo, "There already")
    page = sit().page
    column(page, "ready").get_by_role("button", name="Add to Ready").click()
    field = page.get_by_label("Title of a new task in Ready")
    for title in ("One", "Two"):
        field.fill(title)
        field.press("Enter")
        expect(card(column(page, "ready"), title)).to_be_visible()
        expect(field).to_have_value("")
    field.press("Escape")
    expect(column(page, "ready").get_by_role("button", name="Add to Ready")).to_be_focused()
    assert {each["title"] for each in server.admin.get(f"/projects/{apollo}/tasks").json()} == {
        "One", "Two", "There already",
    }  # fmt: skip


def test_many_are_chosen_and_changed_at_once_and_each_refusal_is_told_once(server: Ringfence, sit: Sit):
    apollo = project(server)
    server.agent("claude")
    ids = [task(server, apollo, f"Task {number}") for number in range(4)]
    late = task(server, apollo, "Late", status="ready")
    move(server, apollo, late, "in_progress")
    page = sit().page
    bar = page.get_by_role("toolbar", name="The chosen tasks")
    card(page, "Task 0").get_by_role("link").focus()
    page.keyboard.press("x")
    card(page, "Task 3").click(modifiers=["Shift"])
    expect(bar).to_contain_text("4 tasks chosen")
    bar.get_by_role("button", name="Labels").click()
    page.get_by_placeholder("Find or add a label").fill("later")
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    bar.get_by_role("button", name="Priority").click()
    page.get_by_role("option", name=re.compile("P0 Critical")).click()
    expect(told(page, "4 tasks made P0.")).to_be_visible()
    with carried(page, card(page, "Task 1"), column(page, "ready")):
        expect(page.locator("[data-carried]")).to_contain_text("4")
    expect(page.locator("[data-count=ready]")).to_contain_text("4")
    for each in ids:
        expect_facts(server, each, status="ready", priority="P0", labels=["later"])
    card(page, "Late").get_by_role("link").focus()
    page.keyboard.press("x")
    expect(bar).to_contain_text("5 tasks chosen")
    bar.get_by_role("button", name="Move").click()
    expect(page.get_by_role("option", name=re.compile("^Backlog"))).to_contain_text("4 of 5")
    page.get_by_role("option", name=re.compile("^Backlog")).click()
    expect(told(page, "4 of 5 moved to Backlog; 1 was refused")).to_be_visible()
    expect(page.locator("[data-count=backlog]")).to_contain_text("4")
    page.keyboard.press("Escape")
    expect(bar).to_have_count(0)
    card(page, "Task 0").get_by_role("link").focus()
    page.keyboard.press("Delete")
    page.get_by_role("alertdialog").get_by_role("button", name="Delete").click()
    expect(card(page, "Task 0")).to_have_count(0)
    expect_facts(server, ids[0], code="not_found")


def test_the_menu_of_a_card_does_what_one_may_with_it(server: Ringfence, sit: Sit):
    apollo = project(server)
    agent = server.agent("claude")
    one = task(server, apollo, "Parse dates", status="ready")
    agent.post(f"/api/v1/projects/{apollo}/tasks/{one}/claim", json={})
    page = sit().page
    expect(card(page, "Parse dates").get_by_role("img", name="claimed")).to_be_visible()
    card(page, "Parse dates").click(button="right")
    page.get_by_role("menuitem", name="Give back to the queue").click()
    expect(card(page, "Parse dates")).to_contain_text("Unassigned")
    card(page, "Parse dates").hover()
    page.get_by_role("button", name="Actions for Parse dates").click()
    page.get_by_role("menuitem", name="Move to").press("ArrowRight")
    done = page.get_by_role("menuitem", name=re.compile("^Done"))
    expect(done).to_have_attribute("aria-disabled", "true")
    expect(done).to_contain_text("From Ready a task goes to")
    page.get_by_role("menuitem", name="In progress", exact=True).press("Enter")
    expect(card(column(page, "in_progress"), "Parse dates")).to_be_visible()
    move(server, apollo, one, "in_review")
    card(column(page, "in_review"), "Parse dates").click(button="right")
    page.get_by_role("menuitem", name="Sign the review").click()
    expect(card(page, "Parse dates").get_by_title("1 of 1 review")).to_be_visible()
    expect_facts(server, one, reviewers=["ada"])


def test_columns_close_and_stay_closed(server: Ringfence, sit: Sit):
    apollo = project(server)
    task(server, apollo, "One")
    page = sit().page
    backlog = column(page, "backlog")
    backlog.hover()
    backlog.get_by_role("button", name="Close Backlog").click()
    expect(card(page, "One")).to_have_count(0)
    page.reload()
    page.get_by_role("button", name="Open Backlog").click()
    expect(card(page, "One")).to_be_visible()


def test_a_new_board_says_what_comes_first(server: Ringfence, sit: Sit):
    project(server)
    page = sit().page
    expect(page.get_by_role("heading", name="No tasks yet")).to_be_visible()
    expect(page.get_by_role("link", name="Register an agent")).to_be_visible()
    page.get_by_role("button", name="Write the first task").click()
    page.get_by_label("Title").fill("The first")
    page.keyboard.press("Control+Enter")
    expect(card(column(page, "backlog"), "The first")).to_be_visible()


def test_a_board_that_is_not_there_says_so_and_one_that_is_deleted_too(server: Ringfence, sit: Sit):
    apollo = project(server)
    task(server, apollo, "One")
    seat = sit()
    page = seat.page
    expect(card(page, "One")).to_be_visible()
    server.admin.delete(f"/api/v1/projects/{apollo}")
    expect(page.get_by_role("heading", name="It is not here")).to_be_visible()
    seat.go("projects/prj_nowhere")
    expect(page.get_by_role("heading", name="It is not here")).to_be_visible()


def test_cards_show_grey_shapes_until_they_are_there(server: Ringfence, sit: Sit):
    apollo = project(server)
    task(server, apollo, "One")
    seat = sit()
    with holding(seat.page, "**/cards") as go_on:
        seat.go(f"projects/{apollo}")
        expect(seat.page.get_by_role("status", name="Loading the board")).to_be_visible()
        go_on()
    expect(card(seat.page, "One")).to_be_visible()


def test_a_viewer_sees_the_board_and_nothing_to_change_it_with(server: Ringfence, sit: Sit):
    apollo = project(server)
    task(server, apollo, "Parse dates", status="ready")
    limit(server, apollo, "ready", 5)
    page = sit("eve", Role.VIEWER).page
    mine = card(page, "Parse dates")
    mine.hover()
    for name in ("New task", "New project", "Add to Ready", "Choose Parse dates", "Actions for Parse dates"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    with changes(page) as asked:
        with carried(page, mine, column(page, "in_progress")):
            expect(page.locator("[data-drop]")).to_have_count(0)
        mine.get_by_role("link").focus()
        for key in ("x", "Space", "m", "a", "Delete", "c", "."):
            page.keyboard.press(key)
        mine.click(button="right")
        expect(page.get_by_role("menu")).to_have_count(0)
        expect(page.get_by_role("dialog")).to_have_count(0)
        assert asked == []
    page.get_by_role("button", name="Limits of Ready: 1 of 5").click()
    form = page.get_by_role("form", name="Limits of Ready")
    expect(form).to_contain_text("All together: 5 tasks")
    expect(form.get_by_role("spinbutton")).to_have_count(0)
    expect(form.get_by_role("button")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(form).to_have_count(0)
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(keys).to_contain_text("Search this board")
    expect(keys).not_to_contain_text("Delete")


@pytest.mark.parametrize("lanes", ["", "?lanes=agent"])
def test_a_phone_shows_one_column_at_a_time_and_moves_by_menu(server: Ringfence, sit: Sit, lanes: str):
    apollo = project(server)
    one = task(server, apollo, "Parse dates", status="ready")
    seat = sit(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = seat.go(f"projects/{apollo}{lanes}")
    expect(page.get_by_role("tab", name="Ready")).to_have_attribute("aria-selected", "true")
    page.get_by_role("button", name="Actions for Parse dates").tap()
    page.get_by_role("menuitem", name="Move to").tap()
    page.get_by_role("menuitem", name="In progress", exact=True).tap()
    expect(page.locator("[data-card]")).to_have_count(0)
    page.get_by_role("tab", name="In progress").tap()
    expect(card(page, "Parse dates")).to_be_visible()
    expect(page).to_have_url(re.compile("column=in_progress"))
    expect_facts(server, one, status="in_progress")
