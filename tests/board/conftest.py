"""What tests of the board start from."""

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from ringfence.kernel.auth.model import Role
from tests.harness import Ringfence, running

STATES = ("backlog", "ready", "in_progress", "in_review", "blocked", "done")
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Agent:
    name: str
    client: httpx.Client


class Project:
    """A project, and short ways to work in it as an admin."""

    def __init__(self, server: Ringfence, **body: Any) -> None:
        self.server = server
        self.admin = server.admin
        made = self.admin.post("/projects", json={"name": "apollo", "creator": "admin", **body})
        assert made.status_code == 201, made.text
        self.id: str = made.json()["id"]
        self.path = f"/projects/{self.id}"

    def agent(self, *capabilities: str, name: str = "agent", **more: Any) -> Agent:
        """A freshly registered agent of a name that nobody else has."""
        unique = f"{name}-{next(_numbers)}"
        return Agent(unique, self.server.agent(unique, capabilities=list(capabilities), **more))

    def operator(self, **more: Any) -> httpx.Client:
        """Another person, an operator."""
        return self.server.client(self.server.token(f"person-{next(_numbers)}", Role.OPERATOR, **more))

    def task(self, title: str = "a task", **body: Any) -> str:
        made = self.admin.post(f"{self.path}/tasks", json={"title": title, **body})
        assert made.status_code == 201, made.text
        return str(made.json()["id"])

    def show(self, task: str) -> dict[str, Any]:
        found = self.admin.get(f"/api/v1{self.path}/tasks/{task}")
        assert found.status_code == 200, found.text
        return dict(found.json())

    def move(self, task: str, status: str, by: Agent | httpx.Client | None = None, **body: Any) -> httpx.Response:
        return self.client(by).patch(f"{self.path}/tasks/{task}", json={"status": status, **body})

    def moved(self, task: str, *statuses: str, **body: Any) -> dict[str, Any]:
        for status in statuses:
            answer = self.move(task, status, **body)
            assert answer.status_code == 200, answer.text
        return self.show(task)

    def client(self, by: Agent | httpx.Client | None) -> httpx.Client:
        return self.admin if by is None else by.client if isinstance(by, Agent) else by

    def claim(self, task: str, by: Agent | httpx.Client | None = None, **body: Any) -> httpx.Response:
        return self.client(by).post(f"{self.path}/tasks/{task}/claim", json=body)

    def claimed(self, task: str, by: Agent) -> str:
        answer = self.claim(task, by)
        assert answer.status_code == 200, answer.text
        return task

    def act(self, task: str, what: str, by: Agent | httpx.Client | None = None, **body: Any) -> httpx.Response:
        """POST something to the task under /api/v1."""
        return self.client(by).post(f"/api/v1{self.path}/tasks/{task}/{what}", json=body)

    def assign(self, task: str, agent: Agent, by: Agent | httpx.Client | None = None, **body: Any) -> httpx.Response:
        return self.act(task, "assign", by, agent=agent.name, **body)

    def sign(self, task: str, by: Agent) -> httpx.Response:
        return by.client.post(f"{self.path}/tasks/{task}/reviewers/{by.name}")

    def events(self, **filters: Any) -> list[dict[str, Any]]:
        """What the audit log tells, oldest first."""
        found = self.admin.get(
            "/api/v1/audit", params={"project": self.id, "newest_first": "false", "limit": 1000, **filters}
        )
        assert found.status_code == 200, found.text
        return list(found.json()["items"])

    def ready(self, agent: str | None = None, by: Agent | httpx.Client | None = None) -> list[str]:
        found = self.client(by).get(f"{self.path}/tasks/ready", params={"agent": agent} if agent else {})
        assert found.status_code == 200, found.text
        return [task["id"] for task in found.json()]

    def limit(self, status: str, limit: int | None, **body: Any) -> None:
        answer = self.admin.patch(f"{self.path}/wip", json={"status": status, "limit": limit, **body})
        assert answer.status_code == 200, answer.text


def refused(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The problem, if the answer is this refusal."""
    assert answer.status_code == status, answer.text
    problem: dict[str, Any] = answer.json()
    assert problem["code"] == code, problem
    assert problem["error"] == problem["detail"]
    return problem


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, template: Path) -> Iterator[Ringfence]:
    """One server for the tests of a module: each has a project of its own."""
    with running(tmp_path_factory.mktemp("server") / "data", template) as found:
        yield found


@pytest.fixture
def fresh(tmp_path: Path, template: Path, leaving: deque[Ringfence]) -> Iterator[Ringfence]:
    """A server of the test's own, whose clock it may move."""
    with running(tmp_path / "data", template, leaving) as found:
        yield found


@pytest.fixture
def project(server: Ringfence) -> Project:
    return Project(server)


@pytest.fixture
def project_on_either(either: Ringfence) -> Project:
    return Project(either)


@pytest.fixture
def in_state(project: Project) -> Callable[[str], str]:
    """A task brought to a state by the documented way."""
    ways = {
        "backlog": [],
        "ready": ["ready"],
        "in_progress": ["ready", "in_progress"],
        "in_review": ["ready", "in_progress", "in_review"],
        "blocked": ["blocked"],
        "done": ["ready", "in_progress", "in_review", "done"],
    }

    def bring(state: str) -> str:
        task = project.task(f"to {state}")
        project.moved(task, *ways[state])
        return task

    return bring
