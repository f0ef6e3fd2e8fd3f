"""People: invited, given a role, disabled; their tokens and sessions, seen and ended; and oneself."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from ringfence.kernel.auth.model import Role
from tests.dashboard.conftest import Sit, project
from tests.harness import Ringfence, running


@pytest.fixture
def server(tmp_path: Path, template: Path) -> Iterator[Ringfence]:
    with running(tmp_path / "data", template) as server:
        yield server


def row(page: Page, text: str) -> Locator:
    return page.get_by_role("row").filter(has_text=text)


def act(page: Page, person: str, item: str) -> None:
    page.get_by_role("button", name=f"Actions for {person}").click()
    page.get_by_role("menuitem", name=item).click()


def asks(server: Ringfence, token: str, path: str = "/api/v1/me") -> int:
    return httpx.get(f"{server.url}{path}", headers={"authorization": f"Bearer {token}"}, trust_env=False).status_code


def test_somebody_is_invited_to_one_project_signs_in_is_lowered_and_disabled(
    server: Ringfence, sit: Sit, chromium: Browser
):
    apollo = project(server)
    project(server, "Gemini")
    page = sit().go("people")
    expect(row(page, "ada")).to_be_visible()
    page.keyboard.press("i")
    form = page.get_by_role("dialog")
    form.get_by_label("Name").fill("evelyn")
    form.get_by_label("operator").check()
    form.get_by_label("Only these").check()
    form.get_by_label("Apollo").check()
    form.get_by_role("button", name="Invite").click()
    expect(form).to_contain_text("evelyn is invited")
    link = re.search(r"http://\S+", form.locator("pre").inner_text())
    assert link is not None
    theirs = chromium.new_page()
    theirs.goto(link[0])
    expect(theirs).to_have_url(f"{server.url}/app/projects/{apollo}")
    expect(theirs.get_by_label("Project", exact=True).get_by_role("option")).to_have_text(["Apollo"])
    expect(theirs.get_by_role("button", name="New task")).to_be_visible()
    form.get_by_role("button", name="Done").click()
    expect(row(page, "evelyn")).to_contain_text("Apollo")
    act(page, "evelyn", "Role and projects…")
    form.get_by_label("viewer").check()
    form.get_by_label("All projects").check()
    form.get_by_role("button", name="Save").click()
    expect(row(page, "evelyn")).to_contain_text("viewer")
    expect(theirs.get_by_role("button", name="New task")).to_have_count(0)  # at once, where they look
    act(page, "evelyn", "Disable…")
    page.get_by_role("alertdialog").get_by_role("button", name="Disable").click()
    expect(row(page, "evelyn")).to_contain_text("disabled")
    expect(theirs.get_by_role("heading", name="You were signed out")).to_be_visible()
    theirs.goto(link[0])
    expect(theirs.get_by_role("heading", name=re.compile("used already|withdrawn"))).to_be_visible()
    act(page, "evelyn", "Enable")
    expect(row(page, "evelyn")).not_to_contain_text("disabled")
    act(page, "evelyn", "New sign-in link…")
    again = re.search(r"http://\S+", form.locator("pre").inner_text())
    assert again is not None
    theirs.goto(again[0])
    expect(theirs.get_by_role("button", name="Account of evelyn")).to_be_visible()
    expect(theirs.get_by_label("Project", exact=True).get_by_role("option")).to_have_count(2)
    theirs.context.close()


def test_a_token_is_made_shown_once_works_and_ends(server: Ringfence, sit: Sit):
    page = sit().go("people?tab=tokens")
    page.get_by_role("button", name="New token").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Whose it is").fill("nightly")
    form.get_by_label("operator").check()
    form.get_by_label("Works for").select_option("7")
    form.get_by_label("Note").fill("the nightly script")
    form.get_by_role("button", name="Make the token").click()
    token = form.locator("pre").first.inner_text().strip()
    assert asks(server, token) == 200
    form.get_by_role("button", name="Done").click()
    expect(page.get_by_text(token)).to_have_count(0)
    mine = row(page, "the nightly script")
    for said in ("nightly", "Token", "operator"):
        expect(mine).to_contain_text(said)
    page.get_by_label("Filter by name or note").fill("nightly")
    expect(page).to_have_url(re.compile("q=nightly"))
    expect(page.get_by_role("row")).to_have_count(2)
    mine.get_by_role("button", name="Revoke token of nightly").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("heading", name="None of these")).to_be_visible()
    assert asks(server, token) == 401
    page.get_by_label("State").select_option("all")
    expect(row(page, "the nightly script")).to_contain_text("revoked")


def test_an_agent_is_let_in_by_an_enrolment_that_is_made_here(server: Ringfence, sit: Sit):
    page = sit().go("people?tab=tokens")
    page.get_by_role("button", name="Let an agent in").click()
    form = page.get_by_role("dialog")
    form.get_by_label("How many agents").fill("2")
    form.get_by_role("button", name="Make the token").click()
    token = form.locator("pre").first.inner_text().strip()
    registered = server.client(token).post("/agents/register", json={"name": "claude"})
    assert registered.status_code == 201
    form.get_by_role("button", name="Done").click()
    page.get_by_label("Kind").select_option("enrolment")
    expect(row(page, "New agents")).to_contain_text("1 left")


def test_one_sees_where_one_is_signed_in_and_ends_each_and_all_others(server: Ringfence, sit: Sit):
    here, phone, office = sit(), sit(), sit()
    for seat in (here, phone, office):
        expect(seat.page.get_by_role("button", name="Account of ada")).to_be_visible()
    page = here.go("account")
    sessions = page.get_by_role("list", name="Sessions").get_by_role("listitem")
    expect(sessions).to_have_count(3)
    expect(sessions.first).to_contain_text("this browser")
    sessions.nth(1).get_by_role("button", name="Sign out").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Revoke").click()
    expect(sessions).to_have_count(2)
    page.get_by_role("button", name="Sign out all others").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Sign out all others").click()
    expect(sessions).to_have_count(1)
    for seat in (phone, office):
        expect(seat.page.get_by_role("heading", name="You were signed out")).to_be_visible()
    page.get_by_role("button", name="Make a link").click()
    link = page.locator("pre").first.inner_text().strip()
    phone.page.goto(link)
    expect(phone.page.get_by_role("button", name="Account of ada")).to_be_visible()
    expect(sessions).to_have_count(2)
    expect(page.get_by_text("This address reaches only this machine.")).to_be_visible()
    page.get_by_role("radiogroup", name="Theme").get_by_text("Light").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")


def test_who_does_not_administer_sees_only_their_own(server: Ringfence, sit: Sit):
    server.token("somebody-elses", Role.VIEWER)
    page = sit("olga", Role.OPERATOR).go("people")
    expect(row(page, "olga")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("Invite|Actions"))).to_have_count(0)
    page.get_by_role("tab", name="My tokens and sessions").click()
    expect(row(page, "olga")).to_be_visible()
    expect(row(page, "somebody-elses")).to_have_count(0)
    page.get_by_role("button", name="New token").click()
    form = page.get_by_role("dialog")
    expect(form.get_by_role("radio", name=re.compile("^(viewer|operator)"))).to_have_count(2)
    expect(form.get_by_role("radio", name=re.compile("^admin"))).to_have_count(0)
