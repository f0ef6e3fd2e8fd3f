"""What a room declares of one endpoint, and what its handler is given.

    @api.post("/projects/{project_id}/tasks/{task_id}/claim", Access.ACT, ClaimBody, answers=Claimed)
    async def claim(call: Call) -> Body:
        return await call.commit(lambda tx: ...)

Everything a door must do the same way for every request happens here once: who asks, whether they may, the body as a
typed object with unknown fields refused by name, the Idempotency-Key, the answer. `openapi.py` reads the same
declarations, so what is documented is what runs.
"""

import hashlib
import hmac
import math
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import from_json, to_json
from starlette.requests import Request

from ringfence.kernel.auth import store as auth_store
from ringfence.kernel.auth.model import Principal, Role, TokenKind, new_secret
from ringfence.kernel.database import Database, Transaction, UseCase
from ringfence.kernel.errors import Conflict, Invalid, RingfenceError
from ringfence.kernel.events.model import Actor
from ringfence.settings import Settings

B = TypeVar("B", bound="Fields")
Q = TypeVar("Q", bound="Fields")
T = TypeVar("T")
Body = Any  # what can be written as JSON, or an Answer
_KEY = re.compile(r"[ -~]{1,255}")


class Fields(BaseModel):
    """A body or a query: unknown fields are refused by name."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _possible(cls, given: object) -> object:
        _check(given)
        return given


class Nothing(Fields):
    """No fields."""


def _check(value: object) -> None:
    """Refuse what PostgreSQL cannot keep, and what JSON cannot say though the parser reads it."""
    if isinstance(value, str):
        if "\0" in value:
            raise ValueError("the character U+0000 is not possible in text")
    elif isinstance(value, dict):
        for key, item in value.items():
            _check(key)
            _check(item)
    elif isinstance(value, list):
        for item in value:
            _check(item)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is not a number that JSON knows")


class Access(Enum):
    """Who may call an endpoint. What they may do there to whom is the service's to decide."""

    OPEN = "anybody, without a token"
    READ = "any person, any agent"
    ENROL = "operators, agents, and holders of an enrolment token"
    ACT = "operators and agents"
    VIEW = "any person"
    STEER = "operators and admins"
    CONFIGURE = "admins"

    def admits(self, principal: Principal) -> bool:
        match self:
            case Access.OPEN:
                return True
            case Access.READ:
                return principal.is_person or principal.is_agent
            case Access.ENROL:
                return principal.kind is TokenKind.ENROLMENT or Access.ACT.admits(principal)
            case Access.ACT:
                return principal.is_agent or principal.may(Role.OPERATOR)
            case Access.VIEW:
                return principal.is_person
            case Access.STEER:
                return principal.may(Role.OPERATOR)
            case Access.CONFIGURE:
                return principal.may(Role.ADMIN)


@dataclass(frozen=True, slots=True)
class Answer:
    body: object
    status: int = 200
    headers: dict[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """A list in pieces: at the root an array with a `Link` to the next piece, under /api/v1 `{items, next}`."""

    items: list[Any]
    next: str | None


@dataclass(frozen=True, slots=True)
class Server:
    """What every call can reach."""

    database: Database
    settings: Settings


class Call(Generic[B, Q]):
    """One request, understood."""

    __slots__ = ("_key", "_moment", "body", "endpoint", "principal", "query", "request", "server")

    def __init__(
        self, request: Request, endpoint: "Endpoint", server: Server, principal: Principal, body: Any, query: Any
    ) -> None:
        self.request = request
        self.endpoint = endpoint
        self.server = server
        self.principal = principal
        self.body: B = body
        self.query: Q = query
        self._key = request.headers.get("idempotency-key") if endpoint.creates else None
        self._moment: int | None = None  # when this was done first
        if self._key is not None and not _KEY.fullmatch(self._key):
            raise Invalid("an Idempotency-Key has 1 to 255 printable ASCII characters", code="invalid_idempotency_key")

    def __getitem__(self, name: str) -> str:
        """A part of the path."""
        return cast(str, self.request.path_params[name])

    @property
    def at_root(self) -> bool:
        """Whether the hub's documented path was called, not ours under /api/v1."""
        return not self.endpoint.path.startswith("/api/")

    @property
    def seed(self) -> bytes | None:
        """What a secret made by this call may be derived from, so that a repeat is answered with the same secret.

        Only the caller can compute it: it takes the token it called with. Another moment makes another secret, when
        the key is used again after its first answer was forgotten.
        """
        if self._moment is None:
            return None
        bearer = self.request.scope["ringfence.secret"]
        return hmac.new(bearer.encode(), f"{self._moment} {self._key}".encode(), hashlib.sha256).digest()

    def once(self) -> tuple[bytes, bytes] | None:
        """The Idempotency-Key of this caller, and what was asked with it, as hashes; for what keeps them itself."""
        if self._key is None:
            return None
        scope = self.request.scope
        key = hashlib.sha256(f"{self.principal.token_id}:{self._key}".encode()).digest()
        asked = b"%s %s?%s\n" % (scope["method"].encode(), scope["path"].encode(), scope["query_string"])
        return key, hashlib.sha256(asked + cast(bytes, scope.get("ringfence.body", b""))).digest()

    async def read(self, use_case: UseCase[T]) -> T:
        return await self.server.database.read(use_case)

    async def write(self, use_case: UseCase[T], by: Actor | None = None) -> T:
        return await self.server.database.write(use_case, by or self.principal.actor)

    async def commit(self, use_case: UseCase[Any], by: Actor | None = None, *, content: bytes | None = None) -> Answer:
        """Write, and answer with what the use case returned. A repeat with the same Idempotency-Key is answered as
        the first was, and changes nothing. `content` stands for an upload, whose raw body differs with each sending."""
        actor = by or self.principal.actor
        if self._key is None:
            return _answer(await self.server.database.write(use_case, actor), self.endpoint.status)
        if self.endpoint.upload and content is None:
            raise Invalid("an Idempotency-Key is not possible here", code="invalid_idempotency_key")
        return await self.server.database.write(lambda tx: self._once(tx, use_case, content), actor)

    async def answered(self) -> Answer | None:
        """What a repeat was answered the first time; for what takes more than one transaction."""
        return None if self._key is None else await self.read(lambda tx: self._known(tx, None)[2])

    def _known(self, tx: Transaction, content: bytes | None) -> tuple[bytes, bytes, Answer | None]:
        """The key and the request as they are kept, and the answer that this was given before."""
        assert self._key is not None
        raw = content if content is not None else cast(bytes, self.request.scope.get("ringfence.body", b""))
        # Not by name: enrolment tokens have none, and a secret in the answer is derived from the token.
        key = hashlib.sha256(f"{self.principal.token_id}:{self._key}".encode()).digest()
        scope = self.request.scope
        asked = b"%s %s?%s\n%s" % (scope["method"].encode(), scope["path"].encode(), scope["query_string"], raw)
        request = hashlib.sha256(asked).digest()
        known = tx.row(auth_store.ANSWERED, key=key)
        if known is None:
            return key, request, None
        if bytes(known[0]) != request:
            raise Conflict(
                "this Idempotency-Key was used for another request: use a new one", code="idempotency_key_reused"
            )
        self._moment = known[3]
        assert self.seed is not None
        body = from_json(_with_secrets(known[2], self.seed))
        return key, request, Answer(body, known[1], {"idempotency-replayed": "true"})

    def _once(self, tx: Transaction, use_case: UseCase[Any], content: bytes | None) -> Answer:
        key, request, known = self._known(tx, content)
        if known is not None:
            return known
        self._moment = tx.now
        answer = _answer(use_case(tx), self.endpoint.status)
        assert self.seed is not None
        text = _without_secrets(to_json(answer.body).decode(), self.seed)
        tx.run(auth_store.ADD_ANSWER, key=key, request=request, status=answer.status, body=text, created_at=tx.now)
        return answer


def _answer(body: object, status: int) -> Answer:
    return body if isinstance(body, Answer) else Answer(body, status)


def _without_secrets(text: str, seed: bytes) -> str:
    """An answer as it may be kept: the secrets in it, all derived from `seed`, as their names."""
    for kind in TokenKind:
        text = text.replace(new_secret(kind, seed), f"\u0001{kind}\u0001")
    return text


def _with_secrets(text: str, seed: bytes) -> str:
    for kind in TokenKind:
        text = text.replace(f"\u0001{kind}\u0001", new_secret(kind, seed))
    return text


Handler = Callable[[Call[Any, Any]], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    method: str
    path: str
    access: Access
    handler: Handler
    body: type[Fields] | None
    query: type[Fields]
    answers: Any  # the type of the answer, for the document
    status: int
    creates: bool
    summary: str
    description: str
    tag: str
    hot: bool
    upload: bool
    raw: bool  # the body is bytes, as many as the setting max_transfer allows, read by the handler as they come
    media: str
    also: dict[int, Any]  # other successful answers
    errors: dict[type[RingfenceError], int]  # statuses that this documented path answers differently


class Api:
    """The endpoints of one room."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.endpoints: list[Endpoint] = []

    def route(
        self,
        method: str,
        *paths: str,
        access: Access,
        body: type[Fields] | None = None,
        query: type[Fields] = Nothing,
        answers: Any = None,
        status: int = 200,
        creates: bool = False,
        hot: bool = False,
        upload: bool = False,
        raw: bool = False,
        media: str = "application/json",
        also: dict[int, Any] | None = None,
        errors: dict[type[RingfenceError], int] | None = None,
    ) -> Callable[[Handler], Handler]:
        """Declare the handler on every path. `errors` applies at the root only: there documented codes are kept."""

        def declare(handler: Handler) -> Handler:
            lines = (handler.__doc__ or handler.__name__).strip().split("\n", 1)
            description = " ".join(lines[1].split()) if len(lines) > 1 else ""
            for path in paths:
                at_root = not path.startswith("/api/")
                self.endpoints.append(
                    Endpoint(
                        method, path, access, handler, body, query, answers, status, creates or status == 201,
                        lines[0].rstrip("."), description, self.tag, hot, upload, raw, media, also or {},
                        errors or {} if at_root else {},
                    )
                )  # fmt: skip
            return handler

        return declare


def parse_body(model: type[B], raw: bytes) -> B:
    """The body as the endpoint's type, whatever content type it was sent with."""
    try:
        return model.model_validate_json(raw or b"{}", strict=True)
    except ValidationError as error:
        raise Invalid(explain(error, model), code="invalid_body") from None


def parse_query(model: type[Q], request: Request) -> Q:
    if not request.scope["query_string"]:
        return _nothing_asked(model)
    given: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        field = model.model_fields.get(name)
        if field is not None and "list" in str(field.annotation):
            given.setdefault(name, []).append(value)
        elif name in given:
            raise Invalid(f"query parameter {name!r:.120} is given twice: give it once", code="invalid_query")
        else:
            given[name] = value
    return _query(model, given)


def _query(model: type[Q], given: dict[str, Any]) -> Q:
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise Invalid(explain(error, model, "query parameter"), code="invalid_query") from None


_defaults: dict[type[Fields], Fields] = {}


def _nothing_asked(model: type[Q]) -> Q:
    """What most requests ask: a query's defaults, which are the same each time."""
    found = _defaults.get(model)
    if found is None:
        found = _defaults[model] = _query(model, {})
    return cast(Q, found)


def explain(error: ValidationError, model: type[BaseModel], what: str = "field") -> str:
    """One sentence for all that is wrong, naming each field."""
    problems = error.errors(include_url=False, include_context=False)
    missing = [str(problem["loc"][-1]) for problem in problems if problem["type"] == "missing"]
    sentences = [f"{' and '.join(missing)} required"] if missing else []
    for problem in problems:
        place = ".".join(map(str, problem["loc"]))
        if problem["type"] == "missing":
            continue
        if problem["type"] == "extra_forbidden":
            known = ", ".join(field.alias or name for name, field in model.model_fields.items()) or "none"
            sentences.append(f"{what} {place!r:.120} is not known here; known are: {known}")
        elif problem["type"] == "model_type":
            sentences.append(f"{place or 'the body'} must be a JSON object: {{…}}")
        elif problem["type"] == "json_invalid":
            sentences.append(f"the body is not valid JSON: {problem['msg'].removeprefix('Invalid JSON: ')}")
        else:
            message = problem["msg"].removeprefix("Value error, ")
            sentences.append(f"{place}: {message}" if place else message)
    return "; ".join(sentences[:10])
