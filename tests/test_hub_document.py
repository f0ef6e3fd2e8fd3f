"""The hub's own document, followed to the letter: its curl lines (with a token), its tables, its flow."""

import json
import shlex
import subprocess
from typing import Any

import pytest

from tests.harness import Ringfence


def curl(server: Ringfence, line: str, token: str | None = None) -> tuple[int, Any]:
    """Run a line of the document against the server; the status and the parsed answer."""
    words = shlex.split(line.replace("\\\n", " ").replace("http://hub:8080", server.url))
    assert words[0] == "curl"
    header = f"Authorization: Bearer {token or server.admin_token}"
    command = ["curl", "-s", "-w", "\n%{http_code}", "-H", header, *words[1:]]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=20).stdout
    body, _, status = output.rpartition("\n")
    return int(status), json.loads(body)


@pytest.fixture
def flow(server: Ringfence) -> dict[str, str]:
    """Where the document begins: an agent and a project with a task."""
    server.agent("claude", capabilities=["code", "review"])
    project = server.admin.post("/projects", json={"name": "p", "creator": "claude"}).json()["id"]
    body = {"title": "t", "required_capabilities": ["code"]}
    task = server.admin.post(f"/projects/{project}/tasks", json=body).json()["id"]
    return {"project": project, "task": task}


def test_the_autonomy_lines_work_as_written(server: Ringfence, flow):
    one = """curl -X POST http://hub:8080/agents/claude/autonomy -d '{"mode":"advisory"}'"""
    status, answer = curl(server, one)
    assert (status, answer["name"], answer["autonomy_mode"]) == (200, "claude", "advisory")
    status, answer = curl(server, """curl -X POST http://hub:8080/autonomy/set-mode -d '{"mode":"manual"}'""")
    assert status == 200
    assert (answer["mode"], answer["updated_agents"]) == ("manual", ["claude"])


def test_the_wip_line_works_as_written(server: Ringfence, flow):
    line = f"""curl -X PATCH http://hub:8080/projects/{flow["project"]}/wip \\
      -d '{{"status":"in_progress","limit":5}}'"""
    assert curl(server, line) == (200, {"status": "ok"})
    shown = server.admin.get(f"/projects/{flow['project']}").json()
    assert shown["wip_limits"] == {"in_progress": 5, "in_review": 5}


def test_the_ready_queue_line_works_as_written(server: Ringfence, flow):
    url = f"http://hub:8080/projects/{flow['project']}/tasks/ready?agent=claude&capabilities=code&capabilities=review"
    status, answer = curl(server, f'curl "{url}"')
    assert status == 200
    expected = {"id": flow["task"], "title": "t", "priority": "P2", "required_capabilities": ["code"]}
    assert answer == [expected]


def test_the_metrics_line_works_as_written(server: Ringfence, flow):
    status, answer = curl(server, f"curl http://hub:8080/projects/{flow['project']}/metrics")
    assert status == 200
    documented = {"total_tasks", "by_status", "avg_cycle_time_minutes", "completed_count", "agent_throughput"}
    assert documented <= set(answer)
    assert answer["total_tasks"] == 1


def test_the_intervention_lines_work_as_written(server: Ringfence, flow):
    pause = """curl -X POST http://hub:8080/agents/claude/pause -d '{"reason":"reviewing output"}'"""
    status, answer = curl(server, pause)
    assert (status, answer["name"], answer["status"]) == (200, "claude", "busy")
    status, answer = curl(server, "curl -X POST http://hub:8080/agents/claude/resume")
    assert (status, answer["name"], answer["status"]) == (200, "claude", "online")
    revoke = """curl -X POST http://hub:8080/agents/claude/revoke -d '{"reason":"policy violation"}'"""
    status, answer = curl(server, revoke)
    assert status == 200
    assert {"revocation_id", "agent", "issued_at"} <= set(answer)


DOCUMENTED = """
POST /agents/register
POST /agents/{name}/heartbeat
DELETE /agents/{name}
GET /agents
POST /agents/{name}/autonomy
POST /agents/{name}/capabilities
POST /agents/{name}/pause
POST /agents/{name}/resume
POST /agents/{name}/revoke
GET /agents/{name}/revocation
POST /agents/{name}/revocation/ack
POST /agents/{name}/checkpoint
GET /agents/{name}/checkpoint
POST /autonomy/set-mode
GET /revocation/history
GET /capabilities
GET /capabilities/match
POST /messages/send
GET /messages/{agent}
POST /messages/{id}/ack
GET /messages/history/{a}/{b}
GET /messages/graph
POST /projects
GET /projects
GET /projects/{id}
DELETE /projects/{id}
POST /projects/{id}/join
PATCH /projects/{id}/wip
POST /projects/{id}/files
GET /projects/{id}/files/{filename}
POST /projects/{id}/tasks
GET /projects/{id}/tasks
GET /projects/{id}/tasks/ready
POST /projects/{id}/tasks/{tid}/claim
POST /projects/{id}/tasks/{tid}/assign
POST /projects/{id}/tasks/{tid}/unassign
PATCH /projects/{id}/tasks/{tid}
POST /projects/{id}/tasks/{tid}/reviewers/{name}
GET /projects/{id}/metrics
GET /tasks
GET /events
GET /ping
POST /ping
GET /audit/log
"""


def test_every_documented_endpoint_is_there(server: Ringfence):
    def shape(path: str) -> str:
        return "/".join("{}" if part.startswith("{") else part for part in path.split("/"))

    have = {(endpoint.method, shape(endpoint.path)) for endpoint in server.house.endpoints}
    for line in DOCUMENTED.strip().splitlines():
        method, path = line.split()
        assert (method, shape(path)) in have, line


def test_the_documented_flow_from_claim_to_done(server: Ringfence, flow):
    """backlog → claim → in_progress → in_review → a reviewer → done, by an admin acting for the agent throughout."""
    path = f"/projects/{flow['project']}/tasks/{flow['task']}"
    admin = server.admin
    assert admin.post(f"{path}/claim", json={"agent": "claude"}).json() == {"ok": True, "task_id": flow["task"]}
    for status in ("in_progress", "in_review"):
        answer = admin.patch(path, json={"status": status, "agent": "claude"})
        assert (answer.status_code, answer.json()["status"]) == (200, status)
    assert admin.post(f"{path}/reviewers/hermes").json() == {"status": "ok"}
    answer = admin.patch(path, json={"status": "done", "agent": "claude"})
    assert (answer.status_code, answer.json()["status"]) == (200, "done")
    log = admin.get("/audit/log").json()
    assert {"timestamp", "agent", "action", "details"} == set(log[-1])
    assert [entry["details"]["new_status"] for entry in log if entry["action"] == "task_transition"] == [
        "ready", "in_progress", "in_review", "done",
    ]  # fmt: skip
    assert {entry["details"].get("via") for entry in log if entry["action"] == "task_claimed"} == {"operator:admin"}


def test_the_events_have_the_documented_names_and_fields(server: Ringfence, flow):
    path = f"/projects/{flow['project']}/tasks/{flow['task']}"
    server.admin.post(f"{path}/claim", json={"agent": "claude"})
    server.admin.post("/messages/send", json={"from": "claude", "to": "hermes", "content": "x" * 300})
    server.admin.post("/agents/claude/checkpoint", json={"task_id": flow["task"], "state": "s"})
    server.admin.post("/agents/claude/revoke", json={"reason": "r"})
    fields = {
        "agent_registered": {"name", "type", "autonomy_mode", "capabilities"},
        "project_created": {"id", "name", "creator"},
        "task_created": {"project", "task"},
        "task_transition": {"project", "task_id", "title", "new_status", "by"},
        "task_claimed": {"project", "task_id", "agent", "title"},
        "message_sent": {"id", "from", "to", "content", "type", "timestamp"},
        "checkpoint_submitted": {"agent", "task_id", "state", "sequence"},
        "agent_revoked": {"agent", "revocation_id", "reason", "flush_required"},
    }
    seen: dict[str, dict[str, Any]] = {}
    with server.admin.stream("GET", "/events", params={"after": 0}) as stream:
        kind = ""
        for line in stream.iter_lines():
            name, _, value = line.partition(": ")
            if name == "event":
                kind = value
            elif name == "data":
                seen[kind] = json.loads(value)
            if set(fields) <= set(seen):
                break
    for kind, wanted in fields.items():
        assert wanted | {"time", "seq"} <= set(seen[kind]), kind
    assert seen["task_created"]["task"]["priority"] == 2
    assert seen["message_sent"]["content"] == "x" * 200
