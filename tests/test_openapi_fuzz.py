"""The whole OpenAPI document against a running server, by schemathesis: as an admin, as an agent, and as nobody.

Nothing in the document is left out. Event streams never end, so of those the head of the answer is what is checked.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS
from schemathesis.core.result import Ok

from ringfence.fence.runtimes.dummy import Dummy
from ringfence.kernel.auth.model import Role, TokenKind
from tests.harness import Ringfence, running
from tests.kernel.wire import Stream

EXAMPLES = int(os.environ.get("RINGFENCE_FUZZ_EXAMPLES", "3"))  # of each kind, for each operation and caller
CALLERS = ("admin", "agent", "nobody")
CHECKED = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "missing_required_header",
    "unsupported_method",
)


class Target:
    """A server with something of everything in it, and who calls it."""

    def __init__(self, server: Ringfence) -> None:
        self.server = server
        self.schema = schemathesis.openapi.from_dict(server.admin.get("/openapi.json").json())
        self.schema.config.update(base_url=server.url)
        self.operations: dict[str, Any] = {}
        for found in self.schema.get_all_operations():
            assert isinstance(found, Ok), found
            self.operations[found.ok().label] = found.ok()
        self.known: dict[str, str] = {}
        self.changed = True  # since the last refill

    def refill(self) -> None:
        """What the operation before may have removed."""
        if not self.changed:
            return
        self.server.admin = admin = self.server.client(self.server.token("admin", Role.ADMIN))
        for name in ("claude", "codex"):
            admin.post("/agents/register", json={"name": name})
            for ending in ("resume", "revocation/ack"):
                admin.post(f"/api/v1/crew/{name}/{ending}", json={})
        project = admin.post("/api/v1/projects", json={"name": "Fuzzed"}).json()["id"]
        task = admin.post(f"/api/v1/projects/{project}/tasks", json={"title": "t", "status": "ready"}).json()["id"]
        other = admin.post(f"/api/v1/projects/{project}/tasks", json={"title": "u"}).json()["id"]
        admin.post(f"/projects/{project}/files", files={"file": ("a.txt", b"a")}, data={"uploader": "admin"})
        sandbox = admin.post("/api/v1/sandboxes", json={"agent": "claude"}).json()
        snapshot = admin.post(f"/api/v1/sandboxes/{sandbox['id']}/snapshots", json={}).json()
        sent = admin.post("/api/v1/messages", json={"to": "claude", "content": "hello"}).json()
        self.known = {
            "project_id": project, "task_id": task, "name": "claude", "one": "claude", "agent": "claude",
            "other": other, "filename": "a.txt", "message_id": sent["id"], "thread_id": sent.get("thread") or "x",
            "sandbox": sandbox["id"], "snapshot": snapshot["id"],
        }  # fmt: skip

    def headers(self, caller: str) -> dict[str, str]:
        """Fresh for each operation, too: some sign out."""
        match caller:
            case "admin":
                return {"authorization": f"Bearer {self.server.token('admin', Role.ADMIN)}"}
            case "agent":
                return {"authorization": f"Bearer {self.server.token('claude', kind=TokenKind.AGENT)}"}
        return {}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory, template: Path) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("fuzz")
    dummy = Dummy(folder / "boxes")
    with running(folder, template, runtime=dummy, message_rate=0, quota_sandboxes=0, sandbox_grace=0.1) as server:
        yield Target(server)
    dummy.end_world()


def labels() -> list[str]:
    """What there is to try, as the tests are collected: the same document, without a server."""
    from ringfence.app import build
    from ringfence.kernel.http.openapi import document
    from ringfence.settings import Settings

    paths = document(build(Settings(data=Path("/nonexistent"))).endpoints)["paths"]
    return [f"{method.upper()} {path}" for path, methods in paths.items() for method in methods]


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("label", labels())
def test_an_operation_does_what_the_document_says(target: Target, label: str, caller: str) -> None:
    target.refill()
    operation, headers = target.operations[label], target.headers(caller)
    if label in ("GET /events", "GET /api/v1/events"):
        token = headers.get("authorization", "").removeprefix("Bearer ")
        stream = Stream(target.server.port, token)
        assert stream.status == (200 if token else 401)
        stream.close()
        return
    target.changed = not label.startswith("GET")
    checks = [CHECKS.get_one(name) for name in CHECKED]
    takes_something = bool(operation.definition.raw["parameters"] or "requestBody" in operation.definition.raw)
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE) if takes_something else (GenerationMode.POSITIVE,):
        _try(target, operation, mode, headers, checks)


def _try(target: Target, operation: Any, mode: GenerationMode, headers: dict[str, str], checks: list[Any]) -> None:
    @seed(20261118)
    @settings(
        max_examples=EXAMPLES if headers else 1,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=mode), st.booleans())
    def one(case: Any, aim: bool) -> None:
        if aim and mode is GenerationMode.POSITIVE:  # at something that is there
            known = {name: target.known[name] for name in case.path_parameters or {} if name in target.known}
            case.path_parameters = {**(case.path_parameters or {}), **known}
        case.call_and_validate(headers=headers, checks=checks, timeout=20)

    one()
