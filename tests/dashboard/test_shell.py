"""The frame around all pages: signing in, getting about, themes, and whether changes arrive."""

import pytest
from playwright.sync_api import Browser, expect

from tests.dashboard.conftest import Sit, nav, project, task
from tests.harness import Ringfence

# Whether scripts of these names were fetched whole.
FETCHED = """(names) => {
  const fetched = performance.getEntriesByType('resource').filter(({ responseEnd }) => responseEnd > 0)
  return names.every((name) => fetched.some((entry) => entry.name.includes(`/assets/${name}-`)))
}"""


def test_nobody_is_told_how_to_sign_in(server: Ringfence, chromium: Browser):
    page = chromium.new_page()
    page.goto(server.url)
    expect(page).to_have_url(f"{server.url}/app/")
    expect(page.get_by_role("heading", name="Sign in with a link")).to_be_visible()
    page.close()


def test_a_link_signs_in_and_leads_to_the_board(server: Ringfence, sit: Sit):
    apollo = project(server)
    page = sit().page
    expect(page).to_have_url(f"{server.url}/app/projects/{apollo}")
    expect(nav(page, "Board")).to_have_attribute("aria-current", "page")


def test_signing_out_ends_the_session(server: Ringfence, sit: Sit):
    page = sit().page
    page.get_by_role("button", name="Account of ada").click()
    page.get_by_role("menuitem", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in with a link")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="Sign in with a link")).to_be_visible()


def test_the_theme_is_kept(server: Ringfence, sit: Sit):
    page = sit(color_scheme="dark").page
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.get_by_role("button", name="Account of ada").click()
    page.get_by_role("menuitem", name="Light").click()
    assert page.evaluate(ground) != dark
    page.reload()
    expect(page.get_by_role("button", name="Account of ada")).to_be_visible()
    assert page.evaluate(ground) != dark


def test_keys_lead_everywhere_and_are_listed(server: Ringfence, sit: Sit):
    project(server)
    page = sit().page
    expect(nav(page, "Board")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("c")
    expect(page).to_have_url(f"{server.url}/app/crew")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_contain_text("Go to Inbox")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    page.get_by_placeholder("A command, a page").fill("go to people")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{server.url}/app/people")
    page.go_back()
    expect(page).to_have_url(f"{server.url}/app/crew")


def test_a_new_project_is_made_from_every_page(server: Ringfence, sit: Sit):
    page = sit().go("people")
    page.get_by_role("button", name="New project").click()
    page.get_by_label("Name").fill("Artemis")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_label("Project", exact=True)).to_contain_text("Artemis")
    expect(page).to_have_url(f"{server.url}/app/projects/{server.admin.get('/projects').json()[0]['id']}")


def test_an_absent_server_is_seen_and_its_return_too(server: Ringfence, sit: Sit):
    project(server)
    page = sit().page
    stream = page.locator("[data-stream]")
    expect(stream).to_have_attribute("data-stream", "live")
    server.stop()
    expect(stream).to_contain_text("Changes do not arrive")
    server.start()
    expect(stream).to_have_attribute("data-stream", "live")
    expect(stream).to_be_empty()
    server.admin.post("/api/v1/projects", json={"name": "Made later"})
    expect(page.get_by_label("Project", exact=True)).to_contain_text("Made later")


@pytest.mark.parametrize("label, heading", [("Crew", "Crew"), ("Project", "Apollo"), ("Messages", "Messages")])
def test_a_page_opened_while_the_server_is_away_comes_by_itself(server: Ringfence, sit: Sit, label: str, heading: str):
    project(server)
    page = sit().page
    expect(page.locator("[data-stream=live]")).to_be_attached()
    expect(page.get_by_role("heading", name="No tasks yet")).to_be_visible()
    page.evaluate("window.same = true")
    server.stop()
    nav(page, label).click()
    expect(page.get_by_role("heading", name="The server is away")).to_be_visible()
    expect(page.get_by_text("This page opens by itself when it is back.")).to_be_visible()
    server.start()
    expect(page.get_by_role("heading", name=heading, exact=True)).to_be_visible()
    expect(page.get_by_role("heading", name="The server is away")).to_have_count(0)
    assert page.evaluate("window.same"), "the page was loaded anew"


def test_what_opens_over_a_page_is_there_before_it_is_wanted(server: Ringfence, sit: Sit):
    apollo = project(server)
    task(server, apollo, "Parse dates")
    page = sit().page
    expect(page.get_by_role("link", name="Parse dates")).to_be_visible()
    parts = ["Palette", "Shortcuts", "NewProject", "TaskDrawer", "NewTask", "Chooser", "MarkdownRendered"]
    page.wait_for_function(FETCHED, arg=parts)
    server.stop()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    expect(page.get_by_placeholder("A command, a page")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("link", name="Parse dates").click()
    drawer = page.get_by_role("dialog", name="Task")
    expect(drawer.get_by_role("heading", name="The server is away")).to_be_visible()
    server.start()
    expect(drawer.get_by_role("heading", name="Parse dates")).to_be_visible()


def test_a_page_of_an_older_build_says_that_it_must_be_loaded_anew(server: Ringfence, sit: Sit):
    project(server)
    seat = sit()
    page = seat.page
    expect(page.get_by_role("heading", name="No tasks yet")).to_be_visible()
    page.route("**/assets/Crew-*.js", lambda route: route.fulfill(status=404))
    nav(page, "Crew").click()
    expect(page.get_by_role("heading", name="There is a newer dashboard")).to_be_visible()
    assert "Outdated" in seat.errors.pop()  # which React logs
    page.unroute("**/assets/Crew-*.js")
    page.get_by_role("button", name="Load the page anew").click()
    expect(page.get_by_role("heading", name="Crew", exact=True)).to_be_visible()


def test_tabs_share_one_stream_and_the_last_one_goes_on(server: Ringfence, sit: Sit):
    project(server)
    first = sit()
    expect(first.page.locator("[data-stream=live]")).to_be_attached()
    second, third = first.another_tab(), first.another_tab()
    for tab in (second, third):
        expect(tab.go("crew").locator("[data-stream=live]")).to_be_attached()
    assert server.house.feed.subscribers == 1
    first.page.close()
    server.admin.post("/api/v1/projects", json={"name": "Made later"})
    for tab in (second, third):
        expect(tab.page.get_by_label("Project", exact=True)).to_contain_text("Made later")
    assert server.house.feed.subscribers == 1
