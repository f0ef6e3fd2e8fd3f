"""What tests of the fence start from: a server whose sandboxes live in memory."""

import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from ringfence.fence.runtimes.dummy import Dummy
from ringfence.kernel.auth.model import Role
from tests.harness import Ringfence, running

SANDBOXES = "/api/v1/sandboxes"
WITHIN = 20.0


def until(happened: Callable[[], Any], what: str, within: float = WITHIN) -> Any:
    """What `happened` returns once it is true."""
    give_up = time.monotonic() + within
    while time.monotonic() < give_up:
        if found := happened():
            return found
        time.sleep(0.01)
    raise AssertionError(f"{what}: not within {within} s")


class Fenced:
    """A server with the dummy runtime, and short ways to its sandboxes."""

    def __init__(self, server: Ringfence, dummy: Dummy) -> None:
        self.server = server
        self.dummy = dummy

    @property
    def admin(self) -> httpx.Client:
        return self.server.admin

    def operator(self, name: str = "olga", **more: Any) -> httpx.Client:
        return self.server.client(self.server.token(name, Role.OPERATOR, **more))

    def viewer(self, **more: Any) -> httpx.Client:
        return self.server.client(self.server.token("vera", Role.VIEWER, **more))

    def create(self, by: httpx.Client | None = None, **body: Any) -> dict[str, Any]:
        made = (by or self.admin).post(SANDBOXES, json=body)
        assert made.status_code == 201, made.text
        return dict(made.json())

    def post(self, sandbox: str, verb: str, by: httpx.Client | None = None, **body: Any) -> httpx.Response:
        return (by or self.admin).post(f"{SANDBOXES}/{sandbox}/{verb}", json=body)

    def did(self, sandbox: str, verb: str, **body: Any) -> dict[str, Any]:
        answer = self.post(sandbox, verb, **body)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def show(self, sandbox: str) -> dict[str, Any]:
        found = self.admin.get(f"{SANDBOXES}/{sandbox}")
        assert found.status_code == 200, found.text
        return dict(found.json())

    def state(self, sandbox: str) -> str:
        return str(self.show(sandbox)["state"])

    def listed(self, by: httpx.Client | None = None, **params: Any) -> list[str]:
        found = (by or self.admin).get(SANDBOXES, params=params)
        assert found.status_code == 200, found.text
        return [each["name"] for each in found.json()["items"]]

    def events(self, sandbox: str | None = None, kind: str | None = None) -> list[dict[str, Any]]:
        """What the audit log tells, oldest first."""
        narrowed = {name: value for name, value in (("subject", sandbox), ("kind", kind)) if value is not None}
        found = self.admin.get("/api/v1/audit", params={"newest_first": "false", "limit": 1000, **narrowed})
        return list(found.json()["items"])

    def kinds(self, sandbox: str) -> list[str]:
        return [event["kind"] for event in self.events(sandbox)]

    def until_state(self, sandbox: str, state: str) -> dict[str, Any]:
        until(lambda: self.state(sandbox) == state, f"{sandbox} is {state}")
        return self.show(sandbox)

    def restart(self) -> None:
        """The server stops and starts; the sandboxes do not notice."""
        self.server.restart()
        self.server.admin = self.server.client(self.server.admin_token)


def refused(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The problem, if the answer is this refusal."""
    assert answer.status_code == status, answer.text
    problem: dict[str, Any] = answer.json()
    assert problem["code"] == code, problem
    return problem


@pytest.fixture
def dummy() -> Iterator[Dummy]:
    folder = Path(tempfile.mkdtemp(prefix="fence"))
    found = Dummy(folder)
    yield found
    found.end_world()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def fence(tmp_path: Path, template: Path, leaving: deque[Ringfence], dummy: Dummy) -> Iterator[Fenced]:
    with running(tmp_path / "data", template, runtime=dummy, sandbox_grace=2) as server:
        yield Fenced(server, dummy)


@pytest.fixture
def fence_with(tmp_path: Path, template: Path, dummy: Dummy) -> Iterator[Callable[..., Fenced]]:
    """A server with settings of the test's own."""
    open_ones: list[Any] = []

    def make(**settings: Any) -> Fenced:
        context = running(tmp_path / "data", template, runtime=dummy, **settings)
        open_ones.append(context)
        return Fenced(context.__enter__(), dummy)

    yield make
    for context in open_ones:
        context.__exit__(None, None, None)
