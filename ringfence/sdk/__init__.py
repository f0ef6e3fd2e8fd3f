"""The Python client: `AgentClient` for agents, `Client` for people's scripts, each with a twin for asyncio."""

from ringfence.sdk import errors, views
from ringfence.sdk.agent import Handler
from ringfence.sdk.clients import AgentClient, AsyncAgentClient, AsyncClient, Client
from ringfence.sdk.errors import (
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
from ringfence.sdk.views import Claimed, Message, Proposed, Task, is_proposed

__all__ = [
    "AgentClient",
    "AsyncAgentClient",
    "AsyncClient",
    "AsyncEventStream",
    "Claimed",
    "Client",
    "Conflict",
    "Event",
    "EventStream",
    "Forbidden",
    "Handler",
    "Invalid",
    "Message",
    "NotFound",
    "NotRegistered",
    "Proposed",
    "RateLimited",
    "Refused",
    "RingfenceError",
    "RuleBroken",
    "Task",
    "Unauthenticated",
    "Unavailable",
    "Unreachable",
    "errors",
    "is_proposed",
    "views",
]
