"""Roles, principals and names: plain facts and pure rules."""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field
from enum import StrEnum

from ringfence.kernel.errors import Forbidden, Invalid
from ringfence.kernel.events.model import Actor


class Role(StrEnum):
    VIEWER = "viewer"  # reads
    OPERATOR = "operator"  # steers
    ADMIN = "admin"  # configures

    def covers(self, other: "Role") -> bool:
        order = list(Role)
        return order.index(self) >= order.index(other)


class TokenKind(StrEnum):
    API = "api"  # a person or their script
    AGENT = "agent"  # one agent, and nothing else
    ENROLMENT = "enrolment"  # registers agents, as often as it has uses
    SIGNIN = "signin"  # a one-time link for a browser
    SESSION = "session"  # a signed-in browser


COORDINATOR = "coordinator"  # the scope with which an agent may assign tasks to others
SCOPES = frozenset({COORDINATOR})

NAME = r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$"
_NAME = re.compile(NAME)
# Words that stand where a name could stand in a path.
_RESERVED = {"graph", "history", "send", "register", "host", "human", "system", "capabilities", "all"}


@dataclass(frozen=True, slots=True)
class Principal:
    """Who makes a request, and what they may touch. `projects` None: all of them."""

    kind: TokenKind
    name: str
    role: Role | None = None  # of a person; an agent has none
    scopes: frozenset[str] = frozenset()
    projects: frozenset[str] | None = None
    token_id: str = ""
    csrf: str = field(default="", repr=False)

    @property
    def is_agent(self) -> bool:
        return self.kind is TokenKind.AGENT

    @property
    def is_person(self) -> bool:
        return self.role is not None

    @property
    def actor(self) -> Actor:
        return Actor(f"{'agent' if self.is_agent else 'operator' if self.is_person else self.kind}:{self.name}")

    def may(self, role: Role) -> bool:
        return self.role is not None and self.role.covers(role)

    def sees(self, project: str | None) -> bool:
        return self.projects is None or project is None or project in self.projects

    def acting_for(self, agent: str) -> Actor:
        """The actor to record when this principal acts in the name of `agent`; an agent acts as itself only."""
        if self.is_agent:
            if agent != self.name:
                raise Forbidden(
                    f"this token is agent {self.name!r}'s: it cannot act as {agent!r}",
                    code="not_yourself",
                    agent=self.name,
                )
            return self.actor
        if agent == self.name:
            return self.actor
        return Actor(f"agent:{agent}", via=self.actor.name)


@dataclass(frozen=True, slots=True)
class Person:
    name: str
    role: Role
    projects: tuple[str, ...] | None
    created_at: int
    created_by: str
    disabled_at: int | None


@dataclass(frozen=True, slots=True)
class Token:
    """A token as it may be shown: never its value."""

    id: str
    kind: TokenKind
    subject: str
    note: str
    role: Role | None
    scopes: tuple[str, ...]
    projects: tuple[str, ...] | None
    created_at: int
    created_by: str
    expires_at: int | None
    uses_left: int | None
    last_used_at: int | None
    revoked_at: int | None


def check_name(name: str, what: str = "name") -> str:
    """The name, if people, agents, addresses and paths can all carry it."""
    if not _NAME.fullmatch(name):
        raise Invalid(
            f"{what} {name[:80]!r} is not possible: "
            "use 1 to 64 of A-Z a-z 0-9 . _ @ -, beginning with a letter or digit",
            code="invalid_name",
        )
    if name.lower() in _RESERVED:
        raise Invalid(f"{what} {name!r} is reserved: choose another", code="invalid_name")
    return name


def new_secret(kind: TokenKind, seed: bytes | None = None) -> str:
    """A token's value. A seed makes it repeatable, so that a repeated request is answered with the same token."""
    body = secrets.token_urlsafe(32) if seed is None else hmac.new(seed, kind.encode(), hashlib.sha256).hexdigest()
    return f"rf{kind[:2]}_{body}"


def fingerprint(secret: str) -> bytes:
    """What is stored of a token. Its 256 random bits need no slow hash."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def csrf_of(session: str) -> str:
    return hmac.new(session.encode(), b"csrf", hashlib.sha256).hexdigest()[:40]
