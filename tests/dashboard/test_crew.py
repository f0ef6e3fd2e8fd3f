"""The crew: who is here and how far they may go, decided one by one and all together, and what became of it."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from ringfence.kernel.auth.model import Role
from tests.dashboard.conftest import Sit, project, task
from tests.dashboard.test_board import told
from tests.fence.conftest import until
from tests.harness import Ringfence, running


@pytest.fixture
def server(tmp_path: Path, template: Path) -> Iterator[Ringfence]:
    with running(tmp_path / "data", template) as server:
        yield server


def row(page: Page, name: str) -> Locator:
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=name, exact=True))


def asked(page: Page) -> Locator:
    return page.get_by_role("alertdialog")


def said_by(*argv: str) -> str:
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_agents_stand_with_all_that_one_must_know_and_are_found(server: Ringfence, sit: Sit):
    apollo = project(server)
    claude = server.agent("claude", type="coder", capabilities=["python", "api"])
    codex = server.agent("codex", type="reviewer", capabilities=["review"], autonomy_mode="advisory")
    parse = task(server, apollo, "Parse dates", status="ready")
    claude.post(f"/api/v1/projects/{apollo}/tasks/{parse}/claim", json={})
    claude.post("/agents/claude/checkpoint", json={"state": "reading", "rationale": "first things first"})
    claude.post("/api/v1/messages", json={"to": "codex", "content": "Look, please"})
    page = sit().go("crew")
    mine = row(page, "claude")
    for said in ("coder · python · api", "Online", "Parse dates", "#1"):
        expect(mine).to_contain_text(said)
    expect(mine.get_by_role("link", name="1 messages of claude")).to_be_visible()
    expect(page.get_by_label("Mode of codex")).to_have_value("advisory")
    page.get_by_label("Capability").select_option("review")
    expect(page).to_have_url(re.compile("capability=review"))
    expect(row(page, "claude")).to_have_count(0)
    page.get_by_label("Capability").select_option("")
    page.keyboard.press("Escape")
    page.locator("body").press("/")
    page.keyboard.type("coder")
    expect(row(page, "codex")).to_have_count(0)
    page.get_by_label("Find an agent").fill("nobody")
    page.get_by_role("button", name="Show all").click()
    expect(row(page, "codex")).to_be_visible()
    codex.post("/agents/codex/heartbeat", json={})
    server.agent("goose")
    expect(row(page, "goose")).to_be_visible()  # by itself
    mine.get_by_role("link", name="Parse dates").click()
    expect(page).to_have_url(re.compile(f"projects/{apollo}.*task={parse}"))


def test_one_is_paused_resumed_revoked_and_unregistered_with_reasons_that_stay(server: Ringfence, sit: Sit):
    apollo = project(server)
    claude = server.agent("claude")
    parse = task(server, apollo, "Parse dates", status="ready")
    claude.post(f"/api/v1/projects/{apollo}/tasks/{parse}/claim", json={})
    page = sit().go("crew/claude")
    page.get_by_role("button", name="Pause…").click()
    asked(page).get_by_label("Only stop new work").check()
    asked(page).get_by_label("Reason").fill("Out for lunch")
    asked(page).get_by_role("button", name="Pause", exact=True).click()
    expect(page.get_by_role("complementary", name="Facts")).to_contain_text("Out for lunch")
    paused = server.admin.get("/api/v1/crew/claude").json()
    assert (paused["pause_reason"], paused["frozen"]) == ("Out for lunch", False)
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause…")).to_be_visible()
    assert server.admin.get("/api/v1/crew/claude").json()["paused_at"] is None
    page.keyboard.press("Shift+R")
    expect(asked(page)).to_contain_text("1 task returns to the queue")
    expect(asked(page)).to_contain_text("Parse dates")
    asked(page).get_by_label("Reason").fill("It went astray")
    asked(page).get_by_role("button", name="Revoke").click()
    page.get_by_role("link", name="Revocations").click()
    expect(page.get_by_text("Not acknowledged")).to_be_visible()
    expect(page.get_by_text("It went astray")).to_be_visible()
    assert server.admin.get(f"/api/v1/tasks/{parse}").json()["claimed_by"] is None
    assert claude.post(f"/api/v1/projects/{apollo}/tasks/{parse}/claim", json={}).status_code in (403, 409, 423)
    directive = server.admin.get("/api/v1/crew/claude").json()["revocation_id"]
    claude.post("/api/v1/crew/claude/revocation/ack", json={"revocation_id": directive})
    expect(page.get_by_text("Acknowledged", exact=True)).to_be_visible()
    page.get_by_role("button", name=re.compile("^Actions for claude")).click()
    page.get_by_role("menuitem", name="Unregister…").click()
    asked(page).get_by_role("button", name="Unregister").click()
    expect(page.get_by_role("heading", name="No agent of this name is registered")).to_be_visible()
    page.get_by_role("link", name="Events").click()
    expect(page.get_by_text("agent unregistered")).to_be_visible()


def test_all_are_decided_about_at_once_and_those_to_come_too(server: Ringfence, sit: Sit):
    for name in ("claude", "codex", "goose"):
        server.agent(name, type="coder" if name == "goose" else "other")
    page = sit().go("crew")

    def choose(item: str) -> None:
        page.get_by_role("button", name="All agents").click()
        page.get_by_role("menuitem", name=item).click()

    choose("Set mode…")
    asked(page).get_by_label("Which agents").select_option("coder")
    asked(page).get_by_label("Mode", exact=True).select_option("manual")
    asked(page).get_by_role("button", name="Set mode").click()
    expect(page.get_by_label("Mode of goose")).to_have_value("manual")
    expect(page.get_by_label("Mode of claude")).to_have_value("fully_autonomous")
    expect(page.get_by_text("those of the type coder manual")).to_be_visible()
    assert server.agent("later", type="coder") is not None
    assert server.admin.get("/api/v1/crew/later").json()["autonomy_mode"] == "manual"
    page.get_by_label("Mode of claude").select_option("advisory")
    choose("Pause…")
    asked(page).get_by_label("Reason").fill("Fire drill")
    asked(page).get_by_role("button", name="Pause all").click()
    for name in ("claude", "codex", "goose", "later"):
        expect(row(page, name)).to_contain_text("Paused")
    choose("Resume…")
    asked(page).get_by_role("button", name="Resume").click()
    expect(told(page, "4 agents resumed")).to_be_visible()
    expect(row(page, "codex")).to_contain_text("Online")
    modes = {each["name"]: each["autonomy_mode"] for each in server.admin.get("/api/v1/crew").json()["items"]}
    assert modes == {"claude": "advisory", "codex": "fully_autonomous", "goose": "manual", "later": "manual"}


def test_several_are_chosen_by_mouse_and_by_keys(server: Ringfence, sit: Sit):
    for number in range(5):
        server.agent(f"worker-{number}")
    page = sit().go("crew")
    page.get_by_label("Select worker-1").click()
    page.get_by_label("Select worker-3").click(modifiers=["Shift"])
    bar = page.get_by_role("region", name="Selected agents")
    expect(bar).to_contain_text("3 selected")
    bar.get_by_role("button", name="Pause…").click()
    asked(page).get_by_role("button", name="Pause", exact=True).click()
    expect(row(page, "worker-2")).to_contain_text("Paused")
    bar.get_by_role("button", name="Clear").click()
    page.keyboard.press("j")
    expect(page.get_by_role("link", name="worker-4", exact=True)).to_be_focused()
    for _ in range(3):
        page.keyboard.press("k")
    expect(page.get_by_role("link", name="worker-1", exact=True)).to_be_focused()
    page.keyboard.press("r")
    expect(row(page, "worker-1")).to_contain_text("Online")
    page.keyboard.press("m")
    asked(page).get_by_label("Mode").select_option("manual")
    asked(page).get_by_role("button", name="Set mode").press("Enter")
    expect(page.get_by_label("Mode of worker-1", exact=True)).to_have_value("manual")
    paused = [each["name"] for each in server.admin.get("/api/v1/crew").json()["items"] if each["paused_at"]]
    assert paused == ["worker-2", "worker-3"]


def test_who_is_registered_connects_with_the_very_lines_that_are_shown(server: Ringfence, sit: Sit):
    page = sit().go("crew")
    page.get_by_role("button", name="Register the first agent").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Name").fill("claude")
    form.get_by_label("Type").fill("coder")
    form.get_by_label("Capabilities").fill("python, api")
    form.get_by_label("Mode").select_option("advisory")
    form.get_by_role("button", name="Register").click()
    expect(form).to_contain_text("Waiting for its first sign of life")
    found = server.admin.get("/api/v1/crew/claude").json()
    assert (found["autonomy_mode"], found["capabilities"], found["type"]) == ("advisory", ["python", "api"], "coder")
    lines = form.get_by_role("region", name="How to connect it")
    script = lines.locator("pre").inner_text()
    said_by(sys.executable, "-c", script)
    expect(form).to_contain_text("claude is connected")
    form.get_by_role("button", name="curl").click()
    curl = lines.locator("pre").inner_text()
    assert '"status":"ok"' in said_by("bash", "-c", curl)
    form.get_by_role("button", name="Close").last.click()
    page.keyboard.press("n")
    form.get_by_role("button", name="A token for several").click()
    form.get_by_label("How many agents").fill("2")
    form.get_by_role("button", name="Make the token").click()
    expect(form).to_contain_text("Good for 2 registrations")
    script = lines.locator("pre").inner_text()
    said_by(sys.executable, "-c", script)
    expect(form).to_contain_text("my-agent has registered.")


def test_an_agents_page_shows_what_it_did_and_what_it_is_and_both_change_live(server: Ringfence, sit: Sit):
    apollo = project(server)
    claude = server.agent("claude", autonomy_mode="advisory", capabilities=["python"], metadata={"model": "large"})
    task(server, apollo, "Read the calendar", assigned_to="claude", status="ready")
    page = sit().go("crew/claude")
    expect(page.get_by_role("link", name="Read the calendar").first).to_be_visible()
    page.get_by_role("link", name="Checkpoints").click()
    expect(page.get_by_role("heading", name="No checkpoints")).to_be_visible()
    for number in range(2):
        claude.post("/agents/claude/checkpoint", json={"state": f"step {number}", "rationale": "because"})
    expect(page.get_by_role("listitem").filter(has_text="#2")).to_contain_text("step 1")
    page.get_by_role("link", name="Proposals").click()
    claude.post(f"/api/v1/projects/{apollo}/tasks", json={"title": "More"})
    expect(page.get_by_role("link", name="Decide in the inbox")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("listitem").filter(has_text="#2")).to_be_visible()
    facts = page.get_by_role("complementary", name="Facts")
    expect(facts).to_contain_text("large")
    facts.get_by_label("Add a capability").fill("api, review")
    facts.get_by_label("Add a capability").press("Enter")
    facts.get_by_role("button", name="Remove python").click()
    facts.get_by_role("button", name="Describe it").click()
    facts.get_by_label("Description").fill("Reads first")
    facts.get_by_role("button", name="Save").click()
    expect(facts).to_contain_text("Reads first")
    facts.get_by_label("Ceiling").select_option("fully_autonomous")
    expect(facts).to_contain_text("It may raise its own mode up to autonomous.")
    kept = {"autonomy_ceiling": "fully_autonomous", "description": "Reads first"}
    until(lambda: kept.items() <= server.admin.get("/api/v1/crew/claude").json().items(), "it is kept")
    assert sorted(server.admin.get("/api/v1/crew/claude").json()["capabilities"]) == ["api", "review"]


def test_a_viewer_decides_nothing_about_the_crew(server: Ringfence, sit: Sit):
    server.agent("claude")
    page = sit("vera", Role.VIEWER).go("crew")
    expect(row(page, "claude")).to_contain_text("Autonomous")
    expect(page.get_by_role("checkbox")).to_have_count(0)
    expect(page.get_by_role("button", name=re.compile("Actions|Register|All agents"))).to_have_count(0)
    for key in ("n", "j", "p", "r", "m", "x", "Shift+R"):
        page.keyboard.press(key)
    expect(page.get_by_role("alertdialog")).to_have_count(0)
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_two_hundred_agents_are_few_rows_and_scroll_smoothly(server: Ringfence, sit: Sit):
    for number in range(200):
        server.agent(f"worker-{number:03}", capabilities=["python"])
    page = sit().go("crew")
    expect(row(page, "worker-000")).to_be_visible()
    assert page.get_by_role("row").count() < 60
    for _ in range(12):
        page.mouse.wheel(0, 1200)
        page.wait_for_timeout(20)
    expect(row(page, "worker-199")).to_be_visible()
    assert page.get_by_role("row").count() < 60
