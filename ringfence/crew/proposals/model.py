"""What a proposal is.

pending ──approve──► approved   done, in the same transaction
        │        └─► failed     it could no longer be done: `result` says why
        ├─deny─────► denied
        └─withdraw─► withdrawn  by its agent, or because the agent was revoked or left: `note` says why
"""

import hashlib
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ringfence.kernel.errors import TooLarge

PENDING = 100  # of one agent
PAYLOAD_BYTES = 128 * 1024
WHY_LENGTH = 2000


class ProposalState(StrEnum):
    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    FAILED = "failed"
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True, slots=True)
class Proposal:
    id: str
    agent: str
    action: str
    project: str | None
    task: str | None
    payload: dict[str, Any]
    why: str
    state: ProposalState
    created_at: int
    decided_at: int | None
    decided_by: str | None
    note: str
    result: dict[str, Any] | None  # of what was done: its id; of what failed: its error and code


def payload_text(payload: dict[str, Any]) -> str:
    """The payload as it is stored; equal payloads are equal texts."""
    text = json.dumps(payload, ensure_ascii=False, sort_keys=True)
    if (size := len(text.encode("utf-8", "surrogatepass"))) > PAYLOAD_BYTES:
        raise TooLarge(f"the proposal has {size} bytes; at most {PAYLOAD_BYTES} can wait for a person")
    return text


def fingerprint(agent: str, action: str, project: str | None, task: str | None, payload: str) -> str:
    """The same for equal proposals."""
    return hashlib.sha256(json.dumps([agent, action, project, task, payload]).encode()).hexdigest()


def outcome(value: object) -> dict[str, Any] | None:
    """What is kept of what an approved action returned: the thing's id, or a dictionary as it is."""
    if isinstance(value, dict):
        return value
    found = getattr(value, "id", None)
    return {"id": found} if isinstance(found, str) else None
