"""A task, opened over the board: read, written, moved, reviewed, tied to others, and all of it kept."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from ringfence.kernel.auth.model import Role
from tests.dashboard.conftest import Seat, Sit, project, task
from tests.dashboard.test_board import expect_facts, facts, told
from tests.harness import Ringfence, running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, template: Path) -> Iterator[Ringfence]:
    with running(tmp_path_factory.mktemp("data"), template) as server:
        yield server


def opened(seat: Seat, project_id: str, task_id: str, tab: str = "comments") -> Locator:
    drawer = seat.go(f"projects/{project_id}?task={task_id}&tab={tab}").get_by_role("dialog", name="Task")
    expect(drawer.get_by_role("tab", name="History")).to_be_visible()
    return drawer


def tab(drawer: Locator, name: str) -> Locator:
    return drawer.get_by_role("tab", name=name)


def chosen(within: Locator, field: str, value: str) -> None:
    """Type it into a field that offers what one may mean, and take the first."""
    within.get_by_role("combobox", name=field).fill(value)
    within.get_by_role("combobox", name=field).press("Enter")


def test_a_task_is_written_with_all_that_it_can_have(server: Ringfence, sit: Sit):
    apollo = project(server)
    server.agent("ann", capabilities=["python"])
    first = task(server, apollo, "Seconds")
    page = sit().go(f"projects/{apollo}")
    expect(page.get_by_role("link", name="Seconds")).to_be_visible()
    page.keyboard.press("c")
    form = page.get_by_role("dialog", name="New task")
    form.get_by_label("Title").fill("Leap years")
    form.get_by_role("textbox", name="Description").fill("**All** of them")
    form.get_by_role("tab", name="Preview").click()
    expect(form.locator("strong")).to_have_text("All")
    form.get_by_label("Priority").select_option("P0")
    form.get_by_label("Signatures needed").fill("2")
    chosen(form, "Labels", "time")
    chosen(form, "Capabilities", "python")
    chosen(form, "Who does it", "ann")
    chosen(form, "Waits for", "Seconds")
    form.get_by_label("Create another").check()
    form.get_by_role("button", name="Create").click()
    expect(form.get_by_label("Title")).to_have_value("")
    form.get_by_label("Title").fill("Dropped")
    form.get_by_role("button", name="Close").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Drop it").click()
    made = next(each for each in server.admin.get(f"/projects/{apollo}/tasks").json() if each["title"] == "Leap years")
    expect_facts(
        server, made["id"], priority="P0", labels=["time"], required_capabilities=["python"], required_reviewers=2,
        assigned_to="ann", description="**All** of them", waiting_for=[first],
    )  # fmt: skip
    told(page, "The task is created.").get_by_role("button", name="Open").click()
    expect(page.get_by_role("dialog", name="Task")).to_contain_text("Leap years")


def test_what_a_task_says_is_edited_in_place_and_two_writers_do_not_overwrite_each_other(server: Ringfence, sit: Sit):
    apollo = project(server)
    one = task(server, apollo, "Parse dates", description="As *mail* has them")
    path = f"/api/v1/projects/{apollo}/tasks/{one}"
    seat = sit()
    drawer = opened(seat, apollo, one)
    expect(drawer.locator("em")).to_have_text("mail")
    drawer.get_by_role("button", name="Edit the title").click()
    drawer.get_by_label("Title").fill("Parse all dates")
    drawer.get_by_label("Title").press("Enter")
    expect(drawer.get_by_role("heading", name="Parse all dates")).to_be_visible()
    seat.page.keyboard.press("e")
    field = drawer.get_by_label("Description, as Markdown")
    field.fill("Mine")
    server.admin.patch(path, json={"description": "Theirs"})
    expect(drawer.get_by_role("alert")).to_contain_text("admin changed the description while you were writing")
    expect(drawer.get_by_role("button", name="Save")).to_be_disabled()
    drawer.get_by_role("button", name="Keep mine").click()
    field.press("Control+Enter")
    expect(field).to_have_count(0)
    expect(drawer.get_by_role("region", name="Description")).to_contain_text("Mine")
    expect_facts(server, one, title="Parse all dates", description="Mine")
    seat.page.keyboard.press("e")
    field.fill("Never sent")
    drawer.get_by_role("button", name="Close").click()
    asked = seat.page.get_by_role("alertdialog")
    expect(asked).to_contain_text("Drop what you wrote?")
    asked.get_by_role("button", name="Cancel").click()
    expect(field).to_have_value("Never sent")
    drawer.get_by_role("button", name="Close").click()
    asked.get_by_role("button", name="Drop it").click()
    expect(drawer).to_have_count(0)
    expect_facts(server, one, description="Mine")


def test_it_is_moved_assigned_labelled_and_made_part_of_another_and_the_way_stays_known(server: Ringfence, sit: Sit):
    apollo = project(server)
    server.agent("bob")
    one, larger = task(server, apollo, "Zones"), task(server, apollo, "Calendar")
    seat = sit()
    page, drawer = seat.page, opened(seat, apollo, one)
    drawer.get_by_label("Priority").select_option("P1")
    chosen(drawer, "Labels", "time")
    chosen(drawer, "Required capabilities", "python")
    chosen(drawer, "Part of", "Calendar")
    expect(drawer.get_by_role("link", name="Calendar")).to_be_visible()
    expect_facts(server, one, priority="P1", labels=["time"], required_capabilities=["python"], parent_task_id=larger)
    drawer.get_by_role("button", name="Remove python").click()
    expect_facts(server, one, required_capabilities=[])
    drawer.get_by_role("button", name=re.compile("^Who has it: Nobody")).click()
    chosen(page.locator("body"), "Assign to", "bob")
    expect(drawer.get_by_role("button", name=re.compile("^Who has it: bob assigned"))).to_be_visible()
    expect_facts(server, one, assigned_to="bob", status="ready")
    drawer.get_by_role("button", name="State: Ready").click()
    expect(page.get_by_role("button", name=re.compile("^Done"))).to_be_disabled()
    page.get_by_label("A note for the history").fill("begun by hand")
    page.get_by_role("button", name=re.compile("^In progress")).click()
    expect(drawer.get_by_role("button", name="State: In progress")).to_be_visible()
    drawer.get_by_role("button", name="State: In progress").click()
    page.get_by_role("button", name=re.compile("^Blocked")).click()
    page.get_by_label("What blocks it").fill("No list of zones")
    chosen(page.locator("body"), "Blocked by", "Calendar")
    page.get_by_role("button", name="Block", exact=True).click()
    expect(drawer).to_contain_text("No list of zones")
    expect_facts(server, one, status="blocked", blocked_reason="No list of zones", blocked_by=larger)
    tab(drawer, "History").click()
    expect(page).to_have_url(re.compile("tab=history"))
    moves = drawer.get_by_role("list", name="History").get_by_role("listitem")
    expect(moves.nth(0)).to_contain_text("Blocked")
    expect(moves.nth(1)).to_contain_text("begun by hand")
    expect(drawer.get_by_role("region", name="Cycle time")).to_contain_text("so far")
    expect(drawer.get_by_role("list", name="Time in each state")).to_contain_text("Backlog")
    page.reload()
    expect(moves.nth(0)).to_contain_text("Blocked")


def test_it_is_signed_by_reviewers_and_only_then_done(server: Ringfence, sit: Sit):
    apollo = project(server)
    one = task(server, apollo, "Zones", required_reviewers=2, status="ready")
    for step in ("in_progress", "in_review"):
        server.admin.patch(f"/api/v1/projects/{apollo}/tasks/{one}", json={"status": step})
    seat = sit()
    page, drawer = seat.page, opened(seat, apollo, one)
    expect(drawer).to_contain_text("0 of 2 signed")
    drawer.get_by_role("button", name="State: In review").click()
    expect(page.get_by_role("button", name=re.compile("^Done"))).to_contain_text("1 more must sign it first")
    page.keyboard.press("Escape")
    drawer.get_by_role("button", name="Sign", exact=True).click()
    expect(drawer).to_contain_text("1 of 2 signed")
    drawer.get_by_role("button", name="More about reviews").click()
    chosen(page.locator("body"), "Record a review by", "grace")
    expect(drawer).to_contain_text("2 of 2 signed")
    page.keyboard.press("Escape")
    drawer.get_by_role("button", name="Take back the review of grace").click()
    expect(drawer).to_contain_text("1 of 2 signed")
    drawer.get_by_role("button", name="More about reviews").click()
    page.get_by_label("Signatures needed").fill("1")
    page.get_by_label("Signatures needed").press("Enter")
    expect(drawer).to_contain_text("1 of 1 signed")
    page.keyboard.press("Escape")
    drawer.get_by_role("button", name="State: In review").click()
    page.get_by_role("button", name=re.compile("^Done")).click()
    expect_facts(server, one, status="done", reviewers=["ada"], required_reviewers=1)


def test_comments_come_and_go_live_and_subtasks_are_written_one_after_the_other(server: Ringfence, sit: Sit):
    apollo = project(server)
    one = task(server, apollo, "Zones")
    path = f"/api/v1/projects/{apollo}/tasks/{one}"
    seat = sit()
    page, drawer = seat.page, opened(seat, apollo, one)
    page.keyboard.press("m")
    field = drawer.get_by_label("Write a comment")
    expect(field).to_be_focused()
    field.fill("Read [RFC 9557](https://example.org/9557)")
    field.press("Control+Enter")
    said = drawer.get_by_role("list", name="Comments").get_by_role("listitem")
    expect(said).to_have_count(1)
    expect(said.get_by_role("link", name="RFC 9557")).to_have_attribute("rel", "noopener noreferrer nofollow")
    server.admin.post(f"{path}/comments", json={"body": "Seen from elsewhere"})
    expect(said.filter(has_text="Seen from elsewhere")).to_be_visible()
    said.first.get_by_role("button", name="Delete the comment of ada").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Delete").click()
    expect(said).to_have_count(1)
    drawer.get_by_role("button", name="Add a subtask").click()
    for title in ("Names", "Offsets"):
        drawer.get_by_label("Title of the subtask").fill(title)
        drawer.get_by_label("Title of the subtask").press("Enter")
        expect(drawer.get_by_role("region", name="Subtasks").get_by_role("link", name=title)).to_be_visible()
    drawer.get_by_label("Title of the subtask").press("Escape")
    expect(drawer.get_by_role("region", name="Subtasks")).to_contain_text("0 of 2 done")
    assert len(facts(server, one)["subtasks"]) == 2


def test_what_it_waits_for_is_drawn_and_led_through_and_untied(server: Ringfence, sit: Sit):
    apollo = project(server)
    before, after = task(server, apollo, "Seconds"), task(server, apollo, "Years")
    one = task(server, apollo, "Days", depends_on=[before])
    seat = sit()
    page, drawer = seat.page, opened(seat, apollo, one, "dependencies")
    chosen(drawer, "Let another wait for it", "Years")
    needed = drawer.get_by_role("region", name="Needed by")
    expect(needed.get_by_role("link", name="Years")).to_be_visible()
    expect_facts(server, after, waiting_for=[one])
    picture = drawer.locator("figure svg")
    expect(picture).to_have_attribute("aria-label", "Dependencies: Days waits for Seconds; Years waits for Days")
    expect(picture.locator("path[d^=M]")).to_have_count(4)
    picture.get_by_role("link", name="Backlog: Seconds").click()
    expect(drawer.get_by_role("heading", name="Seconds")).to_be_visible()
    expect(page).to_have_url(re.compile(f"task={before}"))
    page.go_back()
    expect(drawer.get_by_role("heading", name="Days")).to_be_visible()
    drawer.get_by_role("combobox", name="Let it wait for").fill("Years")
    expect(page.get_by_role("option", name="Nothing is called that.")).to_be_visible()
    drawer.get_by_role("combobox", name="Let it wait for").press("Escape")
    drawer.get_by_role("button", name="Untie Years").click()
    expect(needed).to_contain_text("Nothing waits for it.")
    expect_facts(server, after, waiting_for=[])


def test_files_are_attached_replaced_taken_and_removed(server: Ringfence, sit: Sit, tmp_path: Path):
    apollo = project(server)
    one = task(server, apollo, "Zones")
    path = f"/api/v1/projects/{apollo}/tasks/{one}/attachments"
    seat = sit()
    page, drawer = seat.page, opened(seat, apollo, one, "attachments")
    hostile = "<img src=x onerror=alert(1)> \u202egnp.exe"
    page.get_by_label("Files to upload").set_input_files({"name": hostile, "mimeType": "text/html", "buffer": b"<b>"})
    expect(drawer.get_by_role("link", name="img-src-x-onerror-alert-1-gnp.exe", exact=True)).to_be_visible()
    for text in (b"one", b"two"):
        page.get_by_label("Files to upload").set_input_files(
            {"name": "z.txt", "mimeType": "text/plain", "buffer": text}
        )
        if text == b"two":
            page.get_by_role("alertdialog").get_by_role("button", name="Replace").click()
        expect(drawer.get_by_role("button", name="Delete z.txt")).to_be_visible()
    expect(drawer.get_by_role("list", name="Uploads")).to_have_count(0)
    with page.expect_download() as download:
        drawer.get_by_role("link", name="Download z.txt").click()
    assert Path(download.value.path()).read_bytes() == b"two"
    drawer.get_by_role("button", name="Delete z.txt").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("alertdialog")).to_have_count(0)
    expect(drawer.get_by_role("link", name="Download z.txt")).to_have_count(0)
    assert len(server.admin.get(path).json()["items"]) == 1


def test_who_deletes_an_open_task_is_told_to_whom_reads_it(server: Ringfence, sit: Sit):
    apollo = project(server)
    one = task(server, apollo, "Zones")
    iris, vera = sit("iris"), sit("vera", Role.VIEWER)
    theirs = opened(vera, apollo, one)
    drawer = opened(iris, apollo, one)
    expect(theirs.get_by_role("button", name=re.compile("Edit|Sign|State|Comment|More"))).to_have_count(0)
    expect(theirs.get_by_role("textbox")).to_have_count(0)
    drawer.get_by_role("button", name="More", exact=True).click()
    iris.page.get_by_role("menuitem", name="Delete the task").click()
    iris.page.get_by_role("alertdialog").get_by_role("button", name="Delete").click()
    expect(drawer).to_have_count(0)
    expect(told(iris.page, "The task is deleted.")).to_be_visible()
    expect(theirs.get_by_role("heading", name="This task was deleted")).to_be_visible()
    expect(theirs).to_contain_text("iris deleted “Zones”")


def test_a_refused_change_is_taken_back_with_the_reason(server: Ringfence, sit: Sit):
    apollo = project(server)
    one = task(server, apollo, "Zones", priority="P2")
    seat = sit()
    page, drawer = seat.page, opened(seat, apollo, one)
    problem = {"status": 409, "code": "moon", "detail": "The moon is full."}
    page.route(
        f"**/tasks/{one}",
        lambda route: (
            route.continue_()
            if route.request.method == "GET"
            else route.fulfill(status=409, content_type="application/problem+json", json=problem)
        ),
    )
    drawer.get_by_label("Priority").select_option("P0")
    expect(page.get_by_text("The moon is full.").first).to_be_visible()
    expect(drawer.get_by_label("Priority")).to_have_value("P2")
