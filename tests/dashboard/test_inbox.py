"""What agents ask: shown in words, answered by pointer, thumb and keyboard, gone when it is answered anywhere."""

import re
from typing import Any

import httpx
from playwright.sync_api import Locator, Page, expect

from ringfence.kernel.auth.model import Role
from tests.dashboard.conftest import Sit, fits, nav, project, task
from tests.harness import Ringfence

HOSTILE = "<img src=x onerror=alert(1)> \u202egnp.exe [x](javascript:alert(1)) " + "w" * 300


def advisor(server: Ringfence, name: str = "claude") -> httpx.Client:
    return server.agent(name, autonomy_mode="advisory", capabilities=["python"])


def write(agent: httpx.Client, project_id: str, title: str, **more: Any) -> str:
    """The id of the proposal to write a task."""
    answer = agent.post(f"/api/v1/projects/{project_id}/tasks", json={"title": title, **more})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["proposal"]["id"])


def change(agent: httpx.Client, project_id: str, task_id: str, **more: Any) -> str:
    answer = agent.patch(f"/api/v1/projects/{project_id}/tasks/{task_id}", json=more)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["proposal"]["id"])


def own_task(server: Ringfence, project_id: str, agent: str, title: str, **more: Any) -> str:
    """A task that the agent wrote, so that it may change it."""
    return task(server, project_id, title, created_by=agent, **more)


def state(server: Ringfence, proposal: str) -> dict[str, Any]:
    return dict(server.admin.get(f"/api/v1/proposals/{proposal}").json())


def card(page: Page, text: str) -> Locator:
    return page.locator("[data-item]").filter(has_text=text)


def note(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Note")


def test_every_action_is_told_in_words_and_shows_what_would_change(server: Ringfence, sit: Sit):
    apollo = project(server)
    claude = advisor(server)
    parse = task(server, apollo, "Parse dates", assigned_to="claude", status="ready")
    server.admin.patch(f"/api/v1/projects/{apollo}/tasks/{parse}", json={"status": "in_progress"})
    change(claude, apollo, parse, status="in_review", note="All formats are covered by tests.")
    theirs = task(server, apollo, "Read the calendar", created_by="admin", status="ready")
    claude.post(f"/api/v1/projects/{apollo}/tasks/{theirs}/claim", json={})
    claude.post(f"/api/v1/projects/{apollo}/tasks/{theirs}/reviewers/claude")
    server.admin.post("/api/v1/crew/claude/autonomy", json={"mode": "fully_autonomous"})
    mine = claude.post(
        f"/api/v1/projects/{apollo}/tasks",
        json={"title": "Zones", "description": "One\nTwo\nThree", "labels": ["old"], "priority": "P2"},
    ).json()["id"]
    server.admin.post("/api/v1/crew/claude/autonomy", json={"mode": "advisory"})
    change(claude, apollo, mine, title="Time zones", description="One\n2\nThree", labels=["new"], priority="P1")
    assert claude.delete(f"/api/v1/projects/{apollo}/tasks/{mine}").status_code == 202
    claude.post(f"/api/v1/projects/{apollo}/tasks/{mine}/dependencies", json={"depends_on": parse})
    write(claude, apollo, "Leap seconds", description="**Careful**", labels=["time"])
    claude.post("/agents/claude/checkpoint", json={"state": "reviewing", "rationale": "Dates come first."})
    page = sit().go("inbox")
    expect(nav(page, "Inbox")).to_contain_text("7")
    expect(page).to_have_title("(7) Inbox · Ringfence")
    move = card(page, "in review")
    expect(move).to_contain_text("claude wants to move “Parse dates” from in progress to in review")
    expect(move).to_contain_text("All formats are covered by tests.")
    expect(move.get_by_role("link", name="Apollo")).to_have_attribute("href", f"/app/projects/{apollo}")
    expect(move.get_by_role("link", name="“Parse dates”")).to_have_attribute("href", re.compile(parse))
    expect(card(page, "claim")).to_contain_text("claude wants to claim “Read the calendar”")
    expect(card(page, "sign the review")).to_contain_text("of “Read the calendar”")
    expect(card(page, "delete")).to_contain_text("claude wants to delete “Zones”")
    expect(card(page, "wait for")).to_contain_text("let “Zones” wait for “Parse dates”")
    edit = card(page, "wants to change")
    expect(edit).to_contain_text("change the description, the labels, the priority and the title of “Zones”")
    edit.get_by_role("button", name="What would change").click()
    expect(edit.get_by_role("deletion").filter(has_text="P2")).to_be_visible()
    expect(edit.get_by_role("insertion").filter(has_text="P1")).to_be_visible()
    expect(edit.locator("[data-sign='-']")).to_have_text("-Two")
    expect(edit.locator("[data-sign='+']")).to_have_text("+2")
    expect(edit).to_contain_text("Dates come first.")
    new = card(page, "write a new task")
    expect(new).to_contain_text("“Leap seconds”")
    new.get_by_role("button", name="What would change").click()
    expect(new.locator("strong", has_text="Careful")).to_be_visible()
    expect(page).to_have_url(re.compile("open=prp_"))
    page.reload()
    expect(new.locator("strong", has_text="Careful")).to_be_visible()


def test_answers_by_mouse_are_done_and_kept_with_their_notes(server: Ringfence, sit: Sit):
    apollo = project(server)
    claude = advisor(server)
    first, second, third = (write(claude, apollo, title) for title in ("One", "Two", "Three"))
    page = sit().go("inbox")
    card(page, "“One”").get_by_role("button", name="Approve", exact=True).click()
    expect(card(page, "“One”")).to_have_count(0)
    card(page, "“Two”").get_by_role("button", name="Deny").click()
    note(page).fill("Not this week")
    card(page, "“Two”").get_by_role("button", name="Deny").click()
    expect(card(page, "“Two”")).to_have_count(0)
    card(page, "“Three”").get_by_role("button", name="Approve with a note").click()
    note(page).fill("Gladly")
    note(page).press("Enter")
    expect(page.get_by_role("heading", name="Nothing waits for you")).to_be_visible()
    expect(page).to_have_title("Inbox · Ringfence")
    assert [state(server, each)["state"] for each in (first, second, third)] == ["approved", "denied", "approved"]
    assert [state(server, each)["note"] for each in (second, third)] == ["Not this week", "Gladly"]
    assert {each["title"] for each in server.admin.get(f"/projects/{apollo}/tasks").json()} == {"One", "Three"}
    page.get_by_role("tab", name="History").click()
    expect(page.get_by_text("by ada")).to_have_count(3)
    page.get_by_label("State").select_option("denied")
    expect(page).to_have_url(re.compile(r"state=denied"))
    expect(page.get_by_text("by ada")).to_have_count(1)
    expect(page.get_by_text("Not this week")).to_be_visible()
    page.get_by_label("State").select_option("failed")
    expect(page.get_by_role("heading", name="Nothing was answered yet")).to_be_visible()


def test_the_keyboard_answers_and_goes_on_to_the_next(server: Ringfence, sit: Sit):
    apollo = project(server)
    claude = advisor(server)
    ids = [write(claude, apollo, title) for title in ("One", "Two", "Three", "Four")]
    page = sit().go("inbox")
    expect(page.get_by_role("article")).to_have_count(4)
    page.keyboard.press("j")
    expect(card(page, "“One”")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(card(page, "“Two”")).to_be_focused()
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    expect(card(page, "“One”").get_by_role("button", name="What would change")).to_have_attribute(
        "aria-expanded", "true"
    )
    page.keyboard.press("a")
    expect(card(page, "“One”")).to_have_count(0)
    expect(card(page, "“Two”")).to_be_focused()
    page.keyboard.press("d")
    expect(note(page)).to_be_focused()
    page.keyboard.press("Escape")
    expect(card(page, "“Two”")).to_be_focused()
    page.keyboard.press("d")
    page.keyboard.type("No, and no")
    page.keyboard.press("Enter")
    expect(card(page, "“Three”")).to_be_focused()
    page.keyboard.press("Shift+A")
    page.keyboard.type("Fine")
    page.keyboard.press("Enter")
    expect(card(page, "“Four”")).to_be_focused()
    page.keyboard.press("x")
    expect(page.get_by_text("1 of 1 selected")).to_be_visible()
    found = [state(server, each) for each in ids]
    assert [each["state"] for each in found] == ["approved", "denied", "approved", "pending"]
    assert [each["note"] for each in found] == ["", "No, and no", "Fine", ""]
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_contain_text("Deny, with a note")


def test_a_deletion_asks_and_many_are_answered_at_once(server: Ringfence, sit: Sit):
    apollo = project(server)
    claude = server.agent("claude")
    mine = claude.post(f"/api/v1/projects/{apollo}/tasks", json={"title": "Old"}).json()["id"]
    server.admin.post("/api/v1/crew/claude/autonomy", json={"mode": "advisory"})
    claude.delete(f"/api/v1/projects/{apollo}/tasks/{mine}")
    page = sit().go("inbox")
    card(page, "“Old”").get_by_role("button", name="Approve", exact=True).click()
    ask = page.get_by_role("alertdialog")
    expect(ask).to_contain_text("It cannot be brought back.")
    ask.get_by_role("button", name="Cancel").click()
    assert server.admin.get(f"/api/v1/tasks/{mine}").status_code == 200
    page.keyboard.press("a")
    page.get_by_role("alertdialog").get_by_role("button", name="Approve and delete").click()
    expect(page.get_by_role("heading", name="Nothing waits for you")).to_be_visible()
    assert server.admin.get(f"/api/v1/tasks/{mine}").status_code == 404
    ids = [write(claude, apollo, f"Task {number}") for number in range(5)]
    expect(page.get_by_role("article")).to_have_count(5)
    page.get_by_label("Select all").check()
    page.get_by_role("article").first.get_by_role("checkbox").uncheck()
    page.get_by_role("button", name="Deny 4").click()
    note(page).fill("Too many")
    ask.get_by_role("button", name="Deny 4").click()
    expect(page.get_by_role("article")).to_have_count(1)
    assert [state(server, each)["state"] for each in ids] == ["pending"] + ["denied"] * 4
    assert state(server, ids[4])["note"] == "Too many"


def test_what_others_answered_and_what_failed_is_said_in_its_place(server: Ringfence, sit: Sit):
    apollo = project(server)
    claude = advisor(server)
    theirs, taken = write(claude, apollo, "Theirs"), task(server, apollo, "Taken", status="ready")
    claude.post(f"/api/v1/projects/{apollo}/tasks/{taken}/claim", json={})
    page = sit().go("inbox")
    expect(page.get_by_role("article")).to_have_count(2)
    server.admin.post(f"/api/v1/proposals/{theirs}/deny", json={"note": "I was quicker"})
    gone = card(page, "“Theirs”")
    expect(gone).to_contain_text("Denied")
    expect(gone).to_contain_text("by admin")
    expect(gone).to_contain_text("I was quicker")
    gone.get_by_role("button", name="Put away").click()
    expect(page.get_by_role("article")).to_have_count(1)
    server.agent("codex").post(f"/api/v1/projects/{apollo}/tasks/{taken}/claim", json={})
    card(page, "claim").get_by_role("button", name="Approve", exact=True).click()
    failed = card(page, "claim")
    expect(failed).to_contain_text("Failed")
    expect(failed).to_contain_text("already claimed by codex")
    expect(nav(page, "Inbox")).not_to_contain_text("1")
    late = write(claude, apollo, "Arrives by itself")
    expect(card(page, "Arrives by itself")).to_be_visible()
    claude.post(f"/api/v1/proposals/{late}/withdraw", json={})
    expect(card(page, "Arrives by itself")).to_contain_text("Withdrawn")
    page.get_by_role("tab", name="History").click()
    page.get_by_label("State").select_option("failed")
    expect(page.get_by_role("listitem").filter(has_text="already claimed by codex")).to_be_visible()


def test_a_paused_agents_proposal_waits_and_says_why(server: Ringfence, sit: Sit):
    apollo = project(server)
    write(advisor(server), apollo, "Later")
    server.admin.post("/agents/claude/pause", json={})
    page = sit().go("inbox")
    card(page, "Later").get_by_role("button", name="Approve", exact=True).click()
    expect(page.get_by_text("is paused: resume it first").first).to_be_visible()
    expect(card(page, "Later").get_by_role("button", name="Deny")).to_be_visible()


def test_a_viewer_reads_and_answers_nothing(server: Ringfence, sit: Sit):
    apollo = project(server)
    claude = advisor(server)
    write(claude, apollo, "Look")
    write(advisor(server, "codex"), project(server, "Gemini"), "Elsewhere")
    page = sit("vera", Role.VIEWER).go("inbox")
    expect(card(page, "“Look”")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("Approve|Deny"))).to_have_count(0)
    expect(page.get_by_role("checkbox")).to_have_count(0)
    page.keyboard.press("j")
    page.keyboard.press("a")
    page.get_by_label("Agent").select_option("codex")
    expect(page.get_by_role("article")).to_have_count(1)
    page.get_by_label("Of project").select_option(apollo)
    expect(page.get_by_role("heading", name="Nothing here waits for you")).to_be_visible()
    page.goto(f"{server.url}/app/inbox?agent=claude")
    expect(card(page, "“Look”")).to_be_visible()
    assert server.admin.get("/api/v1/proposals", params={"state": "pending"}).json()["items"][1]["state"] == "pending"


def test_the_inbox_is_for_everybody_and_fits_everywhere(server: Ringfence, sit: Sit):
    apollo = project(server, HOSTILE[:150])
    claude = server.agent("claude")
    mine = claude.post(f"/api/v1/projects/{apollo}/tasks", json={"title": HOSTILE, "description": "a"}).json()["id"]
    server.admin.post("/api/v1/crew/claude/autonomy", json={"mode": "advisory"})
    change(claude, apollo, mine, title="Calm", description=HOSTILE)
    opened = write(claude, apollo, HOSTILE, description=HOSTILE * 20)
    seat = sit()
    for theme in ("dark", "light"):
        seat.page.emulate_media(color_scheme=theme)
        page = seat.go(f"inbox?open={opened}")
        expect(page.get_by_role("article")).to_have_count(2)
        expect(card(page, "write a new task").get_by_text("description")).to_be_visible()
        assert seat.serious() == []
        for width in (390, 768, 1440):
            page.set_viewport_size({"width": width, "height": 844})
            assert fits(page), f"{theme} at {width}"
    card(page, "wants to change").get_by_role("button", name="Deny").click()
    assert seat.serious() == []
    note(page).press("Enter")
    page.goto(f"{server.url}/app/inbox?tab=history")
    expect(page.get_by_text("by ada")).to_be_visible()
    for width in (390, 768, 1440):
        page.set_viewport_size({"width": width, "height": 844})
        assert fits(page)
    assert seat.serious() == []


def test_a_thumb_approves_on_a_phone(server: Ringfence, sit: Sit):
    apollo = project(server)
    proposal = write(advisor(server), apollo, "From the train")
    page = sit(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True).go("inbox")
    button = card(page, "From the train").get_by_role("button", name="Approve", exact=True)
    box = button.bounding_box()
    assert box is not None
    assert box["height"] >= 44
    assert box["width"] >= 100
    button.tap()
    expect(page.get_by_role("heading", name="Nothing waits for you")).to_be_visible()
    assert state(server, proposal)["state"] == "approved"
