"""What tests of the board start from."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.harness import Ringfence


class Project:
    """A project, and short ways to work in it as an admin."""

    def __init__(self, server: Ringfence, **body: Any) -> None:
        self.server = server
        self.admin = server.admin
        made = self.admin.post("/projects", json={"name": "apollo", "creator": "admin", **body})
        assert made.status_code == 201, made.text
        self.id: str = made.json()["id"]
        self.path = f"/projects/{self.id}"

    def task(self, title: str = "a task", **body: Any) -> str:
        made = self.admin.post(f"{self.path}/tasks", json={"title": title, **body})
        assert made.status_code == 201, made.text
        return str(made.json()["id"])

    def show(self, task: str) -> dict[str, Any]:
        found = self.admin.get(f"/api/v1{self.path}/tasks/{task}")
        assert found.status_code == 200, found.text
        return dict(found.json())

    def move(self, task: str, status: str, client: httpx.Client | None = None, **body: Any) -> httpx.Response:
        return (client or self.admin).patch(f"{self.path}/tasks/{task}", json={"status": status, **body})

    def moved(self, task: str, *statuses: str, **body: Any) -> dict[str, Any]:
        for status in statuses:
            answer = self.move(task, status, **body)
            assert answer.status_code == 200, answer.text
        return self.show(task)

    def claim(self, task: str, client: httpx.Client | None = None, **body: Any) -> httpx.Response:
        return (client or self.admin).post(f"{self.path}/tasks/{task}/claim", json=body)

    def ready(self, agent: str | None = None, client: httpx.Client | None = None) -> list[str]:
        found = (client or self.admin).get(f"{self.path}/tasks/ready", params={"agent": agent} if agent else {})
        assert found.status_code == 200, found.text
        return [task["id"] for task in found.json()]

    def limit(self, status: str, limit: int | None, **body: Any) -> None:
        answer = self.admin.patch(f"{self.path}/wip", json={"status": status, "limit": limit, **body})
        assert answer.status_code == 200, answer.text


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
