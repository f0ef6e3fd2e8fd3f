"""A Ringfence in which everything that somebody may write holds what should never be run, nor break a page."""

import json
from typing import Any

from tests.dashboard.conftest import HOSTILE, project, task
from tests.harness import Ringfence

LONG = "w" * 100_000
MARKDOWN = (
    f"# {HOSTILE}\n\n[a](javascript:alert(1)) [b](data:text/html,x) ![c](https://evil.example/x.png)\n\n"
    "<b onclick=alert(1)>\n\n"
    "<script>alert(1)</script>\n\n<iframe src='javascript:alert(1)'></iframe>\n\n```\n" + "c" * 400 + "\n```\n\n"
    "| a | b |\n|---|---|\n| " + "t" * 300 + " | x |\n\n<https://example.org/\u202egpj.exe>\n\n" + "y" * 3000
)
MANY = ["in_progress", "in_review", "blocked", "ready"]


def hostile_world(server: Ringfence) -> dict[str, str]:
    """The ids by which its pages are found."""
    admin = server.admin
    apollo = project(server, HOSTILE[:200])
    path = f"/api/v1/projects/{apollo}"
    claude, _ = (_worker(server, name) for name in ("claude", "w" * 64))
    made = task(
        server, apollo, HOSTILE[:500], description=MARKDOWN, status="ready", labels=["<b>", "<svg onload=alert(1)>"],
        required_capabilities=[],
    )  # fmt: skip
    part = task(server, apollo, LONG[:500], description=LONG, parent_task_id=made, depends_on=[made])
    task(server, apollo, HOSTILE[:500], depends_on=[part], labels=["w" * 40])
    _ok(claude.post(f"{path}/tasks/{made}/claim", json={}))
    for step in ("in_progress", "in_review"):
        _ok(claude.patch(f"{path}/tasks/{made}", json={"status": step, "note": HOSTILE}))
    blocked = task(server, apollo, "Blocked", status="ready")
    _ok(admin.patch(f"{path}/tasks/{blocked}", json={"status": "in_progress"}))
    _ok(admin.patch(f"{path}/tasks/{blocked}", json={"status": "blocked", "blocked_reason": HOSTILE}))
    for who, body in ((admin, MARKDOWN), (claude, HOSTILE), (claude, LONG)):
        _ok(who.post(f"{path}/tasks/{made}/comments", json={"body": body}))
    for place in (f"{path}/files", f"{path}/tasks/{made}/attachments"):
        for name in ("run.svg", "a/b/index.html", "w" * 200):
            _ok(admin.post(place, files={"file": (name, b"<svg onload=alert(1)>", "image/svg+xml")}))
    _ok(claude.post("/agents/claude/checkpoint", json={"state": HOSTILE * 20, "rationale": LONG[:16_000],
                                                        "task_id": made, "metadata": {HOSTILE: HOSTILE}}))  # fmt: skip
    _messages(server, claude)
    proposal = _proposals(server, apollo, made)
    _people(server, apollo)
    _ok(admin.post("/api/v1/crew/claude/pause", json={"reason": HOSTILE}))
    events = admin.get("/api/v1/audit", params={"kind": "task_commented"}).json()["items"]
    return {"project": apollo, "task": made, "proposal": proposal, "event": str(events[0]["seq"])}


def _ok(answer: Any) -> dict[str, Any]:
    assert answer.status_code < 300, answer.text
    found: dict[str, Any] = answer.json()
    return found


def _worker(server: Ringfence, name: str) -> Any:
    agent = server.agent(
        name, type="<img src=x onerror=alert(1)>", capabilities=["<svg onload=alert(1)>", "w" * 64],
        metadata={HOSTILE: HOSTILE, "deep": json.loads("[" * 20 + "]" * 20)},
    )  # fmt: skip
    tags = {"tags": ["<svg onload=alert(1)>", "w" * 64], "description": HOSTILE * 4}
    _ok(server.admin.post(f"/api/v1/crew/{name}/capabilities", json=tags))
    return agent


def _messages(server: Ringfence, claude: Any) -> None:
    server.admin.post("/api/v1/people", json={"name": "ada", "role": "admin"})
    for to in ("w" * 64, "ada", "*"):
        for content in (HOSTILE, LONG[:20_000]):
            _ok(claude.post("/api/v1/messages", json={"to": to, "content": content, "thread": "t" * 64}))
            _ok(claude.post("/api/v1/messages", json={"to": to, "content": content}))


def _proposals(server: Ringfence, project_id: str, task_id: str) -> str:
    codex = server.agent("codex", autonomy_mode="advisory")
    path = f"/api/v1/projects/{project_id}/tasks"
    made = [codex.post(path, json={"title": HOSTILE[:500], "description": HOSTILE * 20}) for _ in range(3)]
    ids = [str(answer.json()["proposal"]["id"]) for answer in made]
    _ok(server.admin.post(f"/api/v1/proposals/{ids[0]}/deny", json={"note": HOSTILE}))
    return ids[1]


def _people(server: Ringfence, project_id: str) -> None:
    admin = server.admin
    _ok(admin.post("/api/v1/people", json={"name": "v" * 64, "role": "viewer", "projects": [project_id]}))
    _ok(admin.post("/api/v1/tokens", json={"name": "v" * 64, "note": HOSTILE[:200], "projects": [project_id]}))
    _ok(admin.post("/api/v1/enrolments", json={"note": HOSTILE[:200], "projects": [project_id]}))
