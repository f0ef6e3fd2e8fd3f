"""Every page, asked the same: is it for everybody, does it fit everywhere, does it run what strangers wrote, and what
does it say while it waits, when there is nothing, and when something is wrong."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from ringfence.kernel.auth.model import Role
from tests.dashboard.conftest import Seat, fits, project, sitting
from tests.dashboard.world import hostile_world
from tests.harness import Ringfence, running

WIDTHS = (390, 768, 1440)
# What can be asked for, by its address.
PAGES = {
    "board": "projects/{project}",
    "lanes": "projects/{project}?lanes=label",
    "comments": "projects/{project}?task={task}",
    "dependencies": "projects/{project}?task={task}&tab=dependencies",
    "attachments": "projects/{project}?task={task}&tab=attachments",
    "history": "projects/{project}?task={task}&tab=history",
    "metrics": "projects/{project}/metrics",
    "tables": "projects/{project}/metrics?view=tables",
    "project": "projects/{project}/settings",
    "inbox": "inbox?open={proposal}",
    "answered": "inbox?tab=history",
    "crew": "crew",
    "agent": "crew/claude",
    "checkpoints": "crew/claude?tab=checkpoints",
    "revocations": "crew/claude?tab=revocations",
    "proposals": "crew/codex?tab=proposals",
    "events": "crew/claude?tab=events",
    "conversations": "messages",
    "conversation": "messages?open=pair:ada,claude",
    "graph": "messages?view=graph",
    "counts": "messages?view=counts",
    "activity": "activity",
    "event": "activity?event={event}",
    "people": "people",
    "tokens": "people?tab=tokens",
    "account": "account",
    "start": "start",
}
FORMS = {
    "invite": "people?open=invite",
    "token": "people?tab=tokens&open=token",
    "enrolment": "people?tab=tokens&open=enrolment",
    "message": "messages?to=",
}
# What the page would hold had it taken somebody's text for its own.
INTRUDERS = """() => [...document.querySelectorAll('*')].filter((each) =>
  each.matches('iframe, object, embed, base, meta[http-equiv], [href^="javascript:" i], [href^="data:" i]')
  || (each.matches('script, img') && !each.src.startsWith(location.origin + '/app/'))
  || each.getAttributeNames().some((name) => name.startsWith('on'))
).map((each) => each.outerHTML.slice(0, 200))"""
# Controls that stand out at the side, unless what they are in scrolls.
OUTSIDE = """() => {
  const seen = (each) => { // how far it reaches where it is not cut off; null: it can be scrolled to
    let { left, right } = each.getBoundingClientRect()
    for (let box = each.parentElement; box !== null && box !== document.body; box = box.parentElement) {
      const { overflowX } = getComputedStyle(box)
      const around = box.getBoundingClientRect()
      if (/auto|scroll/.test(overflowX) && box.scrollWidth > box.clientWidth) return null
      if (overflowX !== 'visible' && left < around.right - 8) right = Math.min(right, around.right)
      if (getComputedStyle(box).position === 'fixed') break
    }
    return [left, right]
  }
  const controls = document.querySelectorAll('a[href], button, input, select, textarea, [tabindex="0"]')
  return [...controls].filter((each) => {
    const { width, height } = each.getBoundingClientRect()
    if (width < 2 || height < 2 || !each.checkVisibility({ visibilityProperty: true })) return false
    const [left, right] = seen(each) ?? [0, 0]
    return left < -1 || right > innerWidth + 1
  }).map((each) => each.outerHTML.slice(0, 200))
}"""
DRAWN = "() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))"
LOADING = "[role=status][aria-label^=Loading]"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, template: Path) -> Iterator[Ringfence]:
    with running(tmp_path_factory.mktemp("data"), template) as server:
        yield server


@pytest.fixture(scope="module")
def world(server: Ringfence) -> dict[str, str]:
    return hostile_world(server)


@pytest.fixture(scope="module")
def seat(server: Ringfence, world: dict[str, str], chromium: Browser) -> Iterator[Seat]:
    with sitting(server, chromium) as sit:
        yield sit(reduced_motion="reduce")


def lasting(look: Callable[[], list[str]]) -> list[str]:
    """What is found when everything came to rest: colours take a frame or two to follow the theme."""
    ends = time.monotonic() + 2
    while (found := look()) and time.monotonic() < ends:
        pass
    return found


def wide(page: Page) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})


def settled(page: Page) -> None:
    expect(page.locator("h1, [role=dialog]").first).to_be_visible()
    expect(page.locator(LOADING)).to_have_count(0)
    page.evaluate("document.fonts.ready")


def expect_for_everybody(seat: Seat) -> None:
    """In both themes, at every width, also for those who do not see, hear or point as others do."""
    page = seat.page
    wide(page)
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        page.evaluate(DRAWN)
        assert lasting(lambda: seat.serious(colours=True)) == [], theme
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 844})
        page.wait_for_function("width => innerWidth === width", arg=width)
        page.evaluate(DRAWN)
        assert fits(page), f"something stands out at {width}"
        assert page.evaluate(OUTSIDE) == [], f"out of reach at {width}"
        if width != 768:
            assert seat.serious(colours=False) == []


# While it waits, when something is wrong, and when it is there -------------------------------------------------------

FRAME = re.compile(r"/api/v1/(me|events)(\?|$)")


@contextmanager
def held(page: Page) -> Iterator[list[Route]]:
    """What pages ask for waits for what the test makes of it."""
    waiting: list[Route] = []

    def hold(route: Route) -> None:
        if FRAME.search(route.request.url):
            route.continue_()
        else:
            waiting.append(route)

    page.route("**/api/v1/**", hold)
    yield waiting
    page.unroute("**/api/v1/**")
    for route in waiting:
        route.abort()


def refuse(page: Page, waiting: list[Route], until: Locator) -> None:
    ends = time.monotonic() + 10
    while not until.is_visible():
        assert time.monotonic() < ends, "nothing is said of the refusal"
        while waiting:
            problem = {"status": 400, "code": "weather", "detail": "It rains here."}
            waiting.pop().fulfill(status=400, content_type="application/problem+json", json=problem)
        page.wait_for_timeout(20)


def expect_waits_and_comes(seat: Seat, address: str) -> None:
    """It says that it loads, then why it cannot; asked again, it comes."""
    page = seat.page
    wrong = page.get_by_role("alert").filter(has_text="It rains here.")
    with held(page) as waiting:
        seat.go(address)
        expect(page.locator(LOADING).first).to_be_visible()
        refuse(page, waiting, wrong.first)
        assert lasting(seat.serious) == []
    while wrong.count() > 0:
        again = wrong.last.get_by_role("button", name="Try again")
        again.click()
        expect(again).not_to_be_visible()


@pytest.mark.parametrize("name", [*PAGES, *FORMS])
def test_a_page_waits_fails_and_comes_for_everybody_and_runs_nothing_of_what_strangers_wrote(
    world: dict[str, str], seat: Seat, name: str
):
    page = seat.page
    wide(page)
    if name in FORMS:
        seat.go(FORMS[name])
    else:
        expect_waits_and_comes(seat, PAGES[name].format(**world))
    settled(page)
    assert page.evaluate(INTRUDERS) == []
    expect_for_everybody(seat)
    assert page.evaluate(INTRUDERS) == []
    assert seat.errors == []


# Where there is nothing ----------------------------------------------------------------------------------------------

EMPTY = {
    "projects/{project}": "No tasks yet",
    "projects/{project}?task=tsk_none": "There is no such task",
    "projects/{project}/metrics": "Nothing to measure yet",
    "projects/prj_none": "It is not here",
    "projects/prj_none/settings": "There is no such project",
    "inbox": "Nothing waits for you",
    "inbox?tab=history": "Nothing was answered yet",
    "crew": "No agent works here yet",
    "crew/nobody": "No agent of this name is registered",
    "messages": "Nobody has said anything yet",
    "messages?view=graph": "No agent has written to another yet",
    "messages?view=counts": "No agent has written to another yet",
    "activity?kind=none_such": "Nothing of that kind happened",
    "activity?event=999999": "There is no such event",
    "people?tab=tokens&q=nobody": "None of these",
    "nowhere": "There is nothing at this address",
}


def test_where_there_is_nothing_a_page_says_what_comes_there(template: Path, tmp_path: Path, chromium: Browser):
    with running(tmp_path / "data", template) as server, sitting(server, chromium) as sit:
        seat = sit(reduced_motion="reduce", viewport={"width": 390, "height": 844})
        empty = project(server)
        for path, said in EMPTY.items():
            page = seat.go(path.format(project=empty))
            expect(page.get_by_role("heading", name=said)).to_be_visible()
            assert lasting(seat.serious) == [], said
            assert fits(page), said


def test_who_is_not_signed_in_and_who_is_new_is_welcome_in_every_way(template: Path, tmp_path: Path, chromium: Browser):
    with running(tmp_path / "data", template) as server, sitting(server, chromium) as sit:
        seat = sit(reduced_motion="reduce")
        expect(seat.page.get_by_role("heading", name="Welcome to Ringfence")).to_be_visible()
        expect_for_everybody(seat)
        seat.context.clear_cookies()
        seat.page.goto(f"{server.url}/app/?signin=used")
        expect(seat.page.get_by_role("heading", name="This link was used already")).to_be_visible()
        expect_for_everybody(seat)


# What others may not -------------------------------------------------------------------------------------------------

# All that somebody who may only look finds to press and to fill in; what is new is put here by whoever made it.
CONTROLS = """() => [...document.querySelectorAll('button, input, select, textarea')]
  .filter((each) => each.checkVisibility({ visibilityProperty: true }))
  .map((each) => (each.ariaLabel || each.labels?.[0]?.innerText || each.innerText || each.title).replace(/\\s+/g, ' '))
"""
ANYWHERE = "Project|Commands .*|Account of vera|Copy .*|Close|Agent|Of project|Show all( [\\d,]+ characters)?|More"
BOARD = "Search this board|Filter|Lanes.*|Limits of .*|Close .*|.* tasks?"
TASK = "(Comments|Dependencies|Attachments)( \\d)?|History"
FIGURES = "Days|Charts|Tables|Zoom in|Zoom out|Arrange anew"
LISTS = "Waiting|State|(All|Paused|Online|Offline|Stale) \\d|Type|Capability|Find an? .*|Unacknowledged|People|Kind"
RECORD = "Live|Export|Kinds of events|Refusals|Newer event|Older event"
OWN = "My tokens and sessions|New token|Filter by name or note|Revoke session of vera|Sign out|Make a link"
LOOKS = "Light|Dark|As the system"
FOR_VIEWERS = re.compile("|".join((ANYWHERE, BOARD, TASK, FIGURES, LISTS, RECORD, OWN, LOOKS)))


def test_a_viewer_finds_no_control_that_they_may_not_use(world: dict[str, str], server: Ringfence, chromium: Browser):
    with sitting(server, chromium) as sit:
        seat = sit("vera", Role.VIEWER)
        found: dict[str, list[str]] = {}
        for name, path in PAGES.items():
            settled(seat.go(path.format(**world)))
            for said in seat.page.evaluate(CONTROLS):
                if not FOR_VIEWERS.fullmatch(said):
                    found.setdefault(said, []).append(name)
        assert not found, found
