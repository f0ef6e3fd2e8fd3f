"""The Python client: `AgentClient` for agents, `Client` for people's scripts, `Sandbox` for work in a sandbox, each
with a twin for asyncio."""

from ringfence.sdk import errors, views
from ringfence.sdk.agent import Handler
from ringfence.sdk.clients import AgentClient, AsyncAgentClient, AsyncClient, Client
from ringfence.sdk.errors import (
    CommandFailed,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    NotRegistered,
    RateLimited,
    Refused,
    RingfenceError,
    RuleBroken,
    Unauthenticated,
    Unavailable,
    Unreachable,
)
from ringfence.sdk.events import AsyncEventStream, Event, EventStream
from ringfence.sdk.processes import AsyncProcess, Output, Process
from ringfence.sdk.sandbox import AsyncSandbox, Result, Sandbox
from ringfence.sdk.views import Claimed, Message, Proposed, Task, is_proposed

__all__ = [
    "AgentClient",
    "AsyncAgentClient",
    "AsyncClient",
    "AsyncEventStream",
    "AsyncProcess",
    "AsyncSandbox",
    "Claimed",
    "Client",
    "CommandFailed",
    "Conflict",
    "Event",
    "EventStream",
    "Forbidden",
    "Handler",
    "Invalid",
    "Message",
    "NotFound",
    "NotRegistered",
    "Output",
    "Process",
    "Proposed",
    "RateLimited",
    "Refused",
    "Result",
    "RingfenceError",
    "RuleBroken",
    "Sandbox",
    "Task",
    "Unauthenticated",
    "Unavailable",
    "Unreachable",
    "errors",
    "is_proposed",
    "views",
]
