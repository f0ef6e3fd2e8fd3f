"""Several people and many tasks: what one does the others see at once, and a board of thousands stays smooth."""

import statistics

from playwright.sync_api import Page, expect

from ringfence.board.model import Status
from ringfence.board.tasks import Edit
from ringfence.kernel.auth.model import Principal, Role, TokenKind
from ringfence.kernel.database import Transaction
from tests.dashboard.conftest import Sit, project, task
from tests.dashboard.test_live import WATCH
from tests.harness import Ringfence

TASKS = 5000
AGREE = 200  # milliseconds
# When a card came to be in a column, by the clock that all browsers of this machine share.
SEEN = """([title, column]) => {
  window.seen = null
  const there = () => [...document.querySelectorAll(`[data-column=${column}] [data-card]`)].some(
    (card) => card.textContent.includes(title))
  const look = () => { if (window.seen === null && there()) window.seen = Date.now() }
  new MutationObserver(look).observe(document.body, { childList: true, subtree: true, characterData: true })
}"""


def moved_by_key(page: Page, title: str, to: str) -> None:
    page.get_by_role("link", name=title, exact=True).focus()
    page.keyboard.press("m")
    page.get_by_role("option", name=to, exact=True).click()


def test_two_browsers_agree_within_200_ms(server: Ringfence, sit: Sit):
    apollo = project(server)
    titles = [f"Task {number}." for number in range(9)]
    for title in titles:
        task(server, apollo, title)
    ann, bob = sit("ann").page, sit("bob", Role.VIEWER).page
    for page in (ann, bob):
        expect(page.get_by_role("link", name=titles[-1], exact=True)).to_be_visible()
    later = []
    for title in titles:
        for page in (ann, bob):
            page.evaluate(SEEN, [title, "ready"])
        moved_by_key(ann, title, "Ready")
        times = []
        for page in (ann, bob):
            page.wait_for_function("() => window.seen !== null")
            times.append(page.evaluate("window.seen"))
        later.append(times[1] - times[0])
    print(f"\nthe other browser showed it {statistics.median(later):.0f} ms later, {max(later):.0f} ms at most")
    assert sorted(later)[2] <= AGREE  # a busy machine delays some of the nine; what waits for its turn delays all


def test_five_thousand_tasks_are_few_cards_in_the_page_and_stay_smooth(server: Ringfence, sit: Sit):
    apollo = project(server)
    by = Principal(TokenKind.API, "admin", Role.ADMIN)

    def write(tx: Transaction) -> None:
        for number in range(TASKS // 10):
            edit = Edit(title=f"Task {number}", description="words " * 20, labels=(f"label-{number % 7}",))
            status = Status.READY if number % 2 else Status.BACKLOG
            server.house.board.tasks.create(tx, by, apollo, by.name, edit, depends_on=(), status=status)

    for _ in range(10):
        server.write(write)
    seat = sit()
    page = seat.page
    expect(page.locator("[data-count=backlog]")).to_contain_text(str(TASKS // 2))
    expect(page.locator("[data-card]").first).to_be_visible()
    page.evaluate(WATCH)
    column = page.locator("[data-column=backlog]")
    box = column.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 60, box["y"] + 200)
    for _ in range(30):
        page.mouse.wheel(0, 900)
        page.wait_for_timeout(16)
    cards = page.locator("[data-card]").count()
    page.get_by_role("searchbox").fill("task 77")
    expect(page.get_by_text("tasks hidden")).to_be_visible()
    page.get_by_role("searchbox").fill("")
    server.admin.post(f"/api/v1/projects/{apollo}/tasks", json={"title": "One more"})
    expect(page.locator("[data-count=backlog]")).to_contain_text(str(TASKS // 2 + 1))
    longest = page.evaluate("window.longest")
    print(f"\n{cards} cards are in the page; it was busy for at most {longest:.0f} ms at a time")
    assert cards < 150
    assert longest < 500
