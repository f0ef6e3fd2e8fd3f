"""Debian's Chromium, driven by Playwright, against the real server. Whatever a page logs as an error or its
Content-Security-Policy stopped, a dialog that was opened, and a request to another machine, fail the test."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Locator,
    Page,
    Request,
    expect,
    sync_playwright,
)

from ringfence.kernel.auth.model import Role
from tests.harness import Ringfence

expect.set_options(timeout=10_000)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-sync"]
HERE = Path(__file__).parent
AXE = HERE.parent.parent / "dashboard/node_modules/axe-core/axe.min.js"
# What a browser logs by itself of an answer that the test asked for.
EXPECTED = re.compile(r"Failed to load resource|net::ERR_|the server responded with a status of")
HOSTILE = "<img src=x onerror=alert(1)><svg onload=alert(1)> \u202egnp.exe [x](javascript:alert(1)) \"'" + "w" * 300


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One browser for each module, whose tests stay together."""
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Playwright keeps a loop running in this thread, where other modules' tests would stumble over it."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        yield browser
        browser.close()


@dataclass
class Seat:
    """A person at a browser."""

    server: Ringfence
    context: BrowserContext
    page: Page
    errors: list[str] = field(default_factory=list)

    def go(self, path: str = "") -> Page:
        self.page.goto(f"{self.server.url}/app/{path.lstrip('/')}")
        return self.page

    def another_tab(self) -> "Seat":
        tab = Seat(self.server, self.context, self.context.new_page(), self.errors)
        tab.listen()
        return tab

    def listen(self) -> None:
        def logged(message: ConsoleMessage) -> None:
            if message.type == "error" and not EXPECTED.search(message.text):
                self.errors.append(message.text)

        def opened(dialog: Dialog) -> None:
            if dialog.type != "beforeunload":
                self.errors.append(f"{dialog.type}: {dialog.message}")
            dialog.accept()

        def asked(request: Request) -> None:
            if not request.url.startswith((self.server.url, "blob:")):
                self.errors.append(f"another machine is asked: {request.url}")

        self.page.on("console", logged)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("dialog", opened)
        self.page.on("request", asked)

    def serious(self, *, colours: bool | None = None) -> list[str]:
        """What axe finds wrong for people who do not see, hear or point as others do; in colours, or but there."""
        if not self.page.evaluate("typeof window.axe === 'object'"):
            self.page.evaluate(AXE.read_text())
        rules: dict[bool | None, dict[str, Any]] = {
            None: {},
            True: {"runOnly": ["color-contrast"]},
            False: {"rules": {"color-contrast": {"enabled": False}}},
        }
        chosen = {"resultTypes": ["violations"], **rules[colours]}
        found = self.page.evaluate("chosen => axe.run(document, chosen)", chosen)
        return [
            f"{violation['id']}: {node['html'][:200]} — {node['failureSummary'][:300]}"
            for violation in found["violations"]
            if violation["impact"] in ("serious", "critical")
            for node in violation["nodes"]
        ]


Sit = Callable[..., Seat]


@pytest.fixture
def sit(server: Ringfence, chromium: Browser) -> Iterator[Sit]:
    """`sit()` signs a person in with a link of their own, in a browser of their own."""
    with sitting(server, chromium) as sit:
        yield sit


@contextmanager
def sitting(server: Ringfence, chromium: Browser) -> Iterator[Sit]:
    seats: list[Seat] = []

    def sit(name: str = "ada", role: Role = Role.ADMIN, **more: Any) -> Seat:
        more.setdefault("viewport", {"width": 1440, "height": 900})
        link = _invited(server, name, role)
        context = chromium.new_context(**more)
        seat = Seat(server, context, context.new_page())
        seat.listen()
        seats.append(seat)
        seat.page.goto(link)
        return seat

    yield sit
    for seat in seats:
        seat.context.close()
    assert [error for seat in seats for error in seat.errors] == []


def _invited(server: Ringfence, name: str, role: Role) -> str:
    people = {person["name"] for person in server.admin.get("/api/v1/people").json()["items"]}
    if name in people:
        answer = server.admin.post("/api/v1/signin-links", json={"person": name})
        return str(answer.json()["url"])
    answer = server.admin.post("/api/v1/people", json={"name": name, "role": role.value})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["signin_url"])


def project(server: Ringfence, name: str = "Apollo") -> str:
    return str(server.admin.post("/api/v1/projects", json={"name": name}).json()["id"])


def task(server: Ringfence, project_id: str, title: str, **more: Any) -> str:
    answer = server.admin.post(f"/api/v1/projects/{project_id}/tasks", json={"title": title, **more})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def fits(page: Page) -> bool:
    """Whether nothing stands out to the side."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"))


def nav(page: Page, name: str) -> Locator:
    return page.get_by_role("navigation", name="Pages").get_by_role("link", name=name)
