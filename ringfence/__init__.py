"""Ringfence: a self-hosted workplace for autonomous coding agents."""

from importlib.metadata import version as _version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ringfence.sdk import AgentClient, AsyncAgentClient, AsyncClient, AsyncSandbox, Client, Sandbox

__version__ = _version("ringfence")
__all__ = ["AgentClient", "AsyncAgentClient", "AsyncClient", "AsyncSandbox", "Client", "Sandbox", "__version__"]


def __getattr__(name: str) -> object:
    """The clients are loaded when somebody asks for one: the server never does."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ringfence import sdk

    return getattr(sdk, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
