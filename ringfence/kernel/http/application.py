"""The ASGI application around the endpoints: what happens to every request, in this order.

request id, log, metrics          a number for each request, one line for what went wrong
Host                              an IP address, or a name we were told: no DNS rebinding
Origin                            ours, or none
route                             404, 405
who                               bearer token, or session cookie; a cookie needs the CSRF header to change things
whether they may                  Endpoint.access
body and query                    bounded, typed
handler                           its error, or its answer, as JSON
"""

import asyncio
import contextlib
import ipaddress
import itertools
import logging
import re
import sys
import time
from collections.abc import Callable
from urllib.parse import quote, urlsplit

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from pydantic_core import to_json
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ringfence.kernel.auth.model import Principal, TokenKind
from ringfence.kernel.auth.service import Auth
from ringfence.kernel.errors import (
    Forbidden,
    Invalid,
    NotFound,
    RateLimited,
    Refused,
    RingfenceError,
    TooLarge,
    Unauthenticated,
)
from ringfence.kernel.events.model import Actor
from ringfence.kernel.http.endpoint import Access, Answer, Call, Endpoint, Page, Server, parse_body, parse_query
from ringfence.kernel.http.stream import Stream
from ringfence.settings import Settings

log = logging.getLogger("ringfence.http")
NOBODY = Principal(TokenKind.API, "nobody")
UPLOAD_OVERHEAD = 64 * 1024
BODY_SECONDS = 60.0  # a body that takes longer is not waited for
BYTES = "application/octet-stream"
METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(?::[0-9]{1,5})?", re.ASCII)
_HIDDEN_NAMES = re.compile(r"[\x00-\x1f\x7f]")


_HTTP_SCHEMES = {"ws": "http", "wss": "https"}


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "ringfence_http_requests", "Requests answered.", ["method", "route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "ringfence_http_request_seconds", "Time to an answer.", ["route"], registry=self.registry,
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5),
        )  # fmt: skip
        self.in_flight = Gauge("ringfence_http_requests_in_flight", "Requests being answered.", registry=self.registry)
        # The library looks its labels up anew each time, under a lock; routes and statuses are few.
        self._counters: dict[tuple[str, str, int], Counter] = {}
        self._timers: dict[str, Histogram] = {}

    def count(self, method: str, route: str, status: int) -> None:
        key = (method if method in METHODS else "other", route, status)
        counter = self._counters.get(key)
        if counter is None:
            counter = self._counters[key] = self.requests.labels(key[0], route, str(status))
        counter.inc()

    def time(self, route: str, seconds: float) -> None:
        timer = self._timers.get(route)
        if timer is None:
            timer = self._timers[route] = self.seconds.labels(route)
        timer.observe(seconds)


def cookie_name(settings: Settings, scope: Scope) -> str:
    """Cookies are shared by all ports of a host, so the port is in the name."""
    server = scope.get("server") or ("", settings.port)
    return f"ringfence_{server[1]}"


class Resource:
    """All methods of one path."""

    def __init__(self, endpoints: list[Endpoint], server: Server, auth: Auth) -> None:
        self._endpoints = {endpoint.method: endpoint for endpoint in endpoints}
        self._server = server
        self._auth = auth
        self.path = endpoints[0].path
        self.allow = ", ".join(sorted({*self._endpoints, *({"HEAD"} if "GET" in self._endpoints else ())}))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["ringfence.route"] = self.path
        method = scope["method"]
        endpoint = self._endpoints.get("GET" if method == "HEAD" else method)
        if endpoint is None:
            raise HTTPException(405, headers={"allow": self.allow})
        request = Request(scope, receive)
        try:
            response = await self._answer(endpoint, request)
        except RingfenceError as error:
            if (at_root := endpoint.errors.get(type(error))) is not None:
                scope["ringfence.status"] = at_root
            raise
        await response(scope, receive, send)

    async def _answer(self, endpoint: Endpoint, request: Request) -> ASGIApp:
        principal = await self._principal(endpoint, request)
        if endpoint.access is not Access.OPEN and not endpoint.access.admits(principal):
            raise Forbidden(
                f"{endpoint.summary}: this is for {endpoint.access.value}; you are {_described(principal)}",
                code="role", subject=f"{endpoint.method} {endpoint.path}",
            )  # fmt: skip
        for value in request.path_params.values():
            if _HIDDEN_NAMES.search(value):
                raise NotFound("there is nothing here: names hold no control characters")
        query = parse_query(endpoint.query, request)
        body = await self._body(endpoint, request)
        answer = await endpoint.handler(Call(request, endpoint, self._server, principal, body, query))
        if isinstance(answer, Stream) and principal is not NOBODY:
            answer.allowed = lambda: self._still(principal, request)
        return _response(answer, endpoint, request)

    async def _still(self, principal: Principal, request: Request) -> bool:
        """Whether who asked may still do what they could when they asked."""
        try:
            return principal == await self._auth.holder(request.scope["ringfence.secret"])
        except RingfenceError:
            return False

    async def _principal(self, endpoint: Endpoint, request: Request) -> Principal:
        header = request.headers.get("authorization")
        if header is not None:
            scheme, _, secret = header.partition(" ")
            if scheme.lower() != "bearer" or not secret.strip():
                if endpoint.access is Access.OPEN:
                    return NOBODY
                raise Unauthenticated("the Authorization header is not `Bearer TOKEN`")
            request.scope["ringfence.secret"] = secret.strip()
        elif session := request.cookies.get(cookie_name(self._server.settings, request.scope)):
            request.scope["ringfence.secret"] = session
        else:
            if endpoint.access is Access.OPEN:
                return NOBODY
            raise Unauthenticated(
                "who are you? Send `Authorization: Bearer TOKEN`, "
                "or sign in with the link that `ringfence login --link` prints"
            )
        try:
            principal = await self._auth.principal(request.scope["ringfence.secret"])
            if header is None:
                _check_browser(principal, endpoint, request)
        except Unauthenticated:
            if endpoint.access is Access.OPEN:
                return NOBODY
            raise
        return principal

    async def _body(self, endpoint: Endpoint, request: Request) -> object:
        if endpoint.upload:
            _limit(request, self._server.settings.max_file + UPLOAD_OVERHEAD)
            return None
        if endpoint.raw:
            _limit(request, self._server.settings.max_transfer or sys.maxsize)
            return None
        if endpoint.body is None:
            return None
        raw = await _read(request, self._server.settings.max_body)
        request.scope["ringfence.body"] = raw
        return parse_body(endpoint.body, raw)


def _check_browser(principal: Principal, endpoint: Endpoint, request: Request) -> None:
    """A cookie comes along by itself, so a change asks for what another site's page cannot send."""
    if principal.kind is not TokenKind.SESSION:
        raise Unauthenticated("this cookie is no session: sign in again")
    if request.method in SAFE_METHODS or endpoint.access is Access.OPEN:
        return
    if request.headers.get("x-ringfence-csrf") != principal.csrf:
        raise Forbidden("the header X-Ringfence-CSRF is missing or wrong: GET /api/v1/me tells it", code="csrf")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    wanted = "multipart/form-data" if endpoint.upload else BYTES if endpoint.raw else "application/json"
    announced = request.headers.get("transfer-encoding") or request.headers.get("content-length", "0")
    if (endpoint.body is not None or endpoint.upload or endpoint.raw) and kind != wanted and announced != "0":
        raise Invalid(f"with a session cookie the content type must be {wanted}", code="content_type")


def _described(principal: Principal) -> str:
    if principal.is_agent:
        return f"agent {principal.name!r}"
    return f"{principal.role} {principal.name!r}" if principal.role else f"the holder of an {principal.kind} token"


async def _read(request: Request, limit: int) -> bytes:
    length = request.headers.get("content-length")
    if length is not None and int(length) > limit:
        raise TooLarge(f"the body has {length} bytes; at most {limit} are taken here")
    chunks, size = [], 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                size += len(chunk)
                if size > limit:
                    raise TooLarge(f"the body has more than {limit} bytes")
                chunks.append(chunk)
    except TimeoutError:
        raise _too_slow() from None
    return b"".join(chunks)


def _too_slow() -> Invalid:
    return Invalid(f"the body did not arrive within {BODY_SECONDS:g} s", code="too_slow", http_status=408)


def _limit(request: Request, limit: int) -> None:
    """Stop reading an upload where it grows past `limit`, whatever length it announced, or takes too long."""
    receive, size = request.receive, 0

    async def bounded() -> Message:
        nonlocal size
        try:
            message = await asyncio.wait_for(receive(), BODY_SECONDS)
        except TimeoutError:
            raise _too_slow() from None
        size += len(message.get("body", b""))
        if size > limit:
            raise TooLarge(f"the upload has more than {limit} bytes")
        return message

    request._receive = bounded


def _response(answer: object, endpoint: Endpoint, request: Request) -> ASGIApp:
    if isinstance(answer, Response):
        return answer
    if not isinstance(answer, Answer):
        answer = Answer(answer, endpoint.status)
    headers = answer.headers or {}
    body = answer.body
    if isinstance(body, Page):
        if endpoint.path.startswith("/api/"):
            body = {"items": body.items, "next": body.next}
        else:
            if body.next is not None:
                following = request.url.include_query_params(cursor=body.next)
                headers = {**headers, "link": f'<{quote(request.scope["path"])}?{following.query}>; rel="next"'}
            body = body.items
    return Response(to_json(body), answer.status, headers, media_type="application/json")


class Gatekeeper:
    """Around everything: the request's id, its Host and Origin, its errors as problem+json."""

    def __init__(self, app: ASGIApp, server: Server, auth: Auth, metrics: Metrics) -> None:
        self._app = app
        self._server = server
        self._auth = auth
        self._metrics = metrics
        self._started = f"{time.time_ns() // 1000:x}-"
        self._requests = itertools.count(1)
        settings = server.settings
        public = urlsplit(settings.public_url)
        self._hosts = {
            "localhost",
            "hub",
            "hub.ringfence",
            settings.host.lower(),
            *map(str.lower, settings.allowed_hosts),
        }
        self._hosts |= {public.hostname} if public.hostname else set()
        self._public_origin = f"{public.scheme}://{public.netloc}".lower() if public.hostname else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._other(scope, receive, send)
            return
        started = time.perf_counter()
        headers = Headers(scope=scope)
        request_id = headers.get("x-request-id", "")
        if not _REQUEST_ID.fullmatch(request_id):
            request_id = f"req_{self._started}{next(self._requests):x}"
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message.get("headers", ()),
                    (b"x-request-id", request_id.encode()),
                    (b"x-content-type-options", b"nosniff"),
                ]
            await send(message)

        self._metrics.in_flight.inc()
        try:
            try:
                self._check_origin(headers, scope)
                await self._app(scope, receive, send_with_id)
            except ClientDisconnect:
                status = 499
            except Exception as error:
                if status:  # the answer is under way: all that is left is to cut it off
                    raise
                response = await self._problem(error, scope, request_id)
                await response(scope, receive, send_with_id)
        finally:
            self._metrics.in_flight.dec()
            took = time.perf_counter() - started
            route = scope.get("ringfence.route", "-")
            self._metrics.count(scope["method"], route, status)
            if not scope.get("ringfence.stream"):
                self._metrics.time(route, took)
            level = logging.ERROR if status >= 500 else logging.INFO if status >= 400 or took > 1 else logging.DEBUG
            if log.isEnabledFor(level):
                facts = {"request_id": request_id, "method": scope["method"], "path": scope["path"][:200]}
                log.log(level, "request", extra={**facts, "status": status, "ms": round(took * 1000, 1)})

    async def _other(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The lifespan, and WebSockets: a page of another site may open those, so they are checked alike."""
        if scope["type"] != "websocket":
            await self._app(scope, receive, send)
            return
        answered = False

        async def send_noted(message: Message) -> None:
            nonlocal answered
            answered = True
            await send(message)

        try:
            self._check_origin(Headers(scope=scope), scope)
            await self._app(scope, receive, send_noted)
        except Exception as error:
            request_id = f"req_{self._started}{next(self._requests):x}"
            response = await self._problem(error, scope, request_id)
            if answered:
                await send({"type": "websocket.close", "code": 1011, "reason": request_id})
            else:
                await response(scope, receive, send)

    def _check_origin(self, headers: Headers, scope: Scope) -> None:
        host = headers.get("host", "")
        name = _host_name(host)
        if name not in self._hosts and not _is_address(name):
            raise Forbidden(
                f"this server does not answer to the name {host[:120]!r}: "
                "reach it by address, or name it in the setting allowed_hosts",
                code="unknown_host", subject="host",
            )  # fmt: skip
        origin = headers.get("origin")
        scheme = _HTTP_SCHEMES.get(scope["scheme"], scope["scheme"])
        if origin is not None and origin.lower() not in (f"{scheme}://{host}".lower(), self._public_origin):
            raise Forbidden(
                f"requests from pages of {origin[:120]!r} are not taken here", code="foreign_origin", subject="origin"
            )

    async def _problem(self, error: Exception, scope: Scope, request_id: str) -> Response:
        if isinstance(error, HTTPException):
            error = _from_starlette(error, scope)
        if isinstance(error, MultiPartException):
            error = Invalid(f"the upload is not valid multipart/form-data: {error.message}")
        if not isinstance(error, RingfenceError):
            log.error("unexpected", extra={"request_id": request_id, "path": scope["path"][:200]}, exc_info=error)
            error = RingfenceError(f"something went wrong here; the server's log has it under {request_id}")
        if isinstance(error, Refused) and not error.recorded:
            await self._record(error, scope)
        status = int(scope.get("ringfence.status") or error.http_status or error.status)
        headers = {"www-authenticate": "Bearer"} if status == 401 else {}
        if isinstance(error, RateLimited):
            headers["retry-after"] = str(error.retry_after)
        if "allow" in error.details:
            headers["allow"] = str(error.details["allow"])
        told = problem(error, status, request_id)
        told |= {name: value for name, value in error.details.items() if name not in told}
        return Response(to_json(told, fallback=str), status, headers, media_type="application/problem+json")

    async def _record(self, refusal: Refused, scope: Scope) -> None:
        """Put a refusal that happened at the door into the audit log."""
        secret = scope.get("ringfence.secret")
        principal: Principal | None = None
        if secret is not None:
            with contextlib.suppress(RingfenceError):
                principal = await self._auth.holder(secret)

        def refuse(_: object) -> None:
            raise refusal

        client = scope.get("client")
        actor = principal.actor if principal else Actor(f"nobody:{client[0] if client else '?'}")
        with contextlib.suppress(RingfenceError):
            await self._server.database.write(refuse, actor)


def problem(error: RingfenceError, status: int, request_id: str) -> dict[str, object]:
    return {
        "type": f"urn:ringfence:error:{error.code}",
        "title": error.default_code.replace("_", " "),
        "status": status,
        "detail": error.message,
        "code": error.code,
        "error": error.message,
        "request_id": request_id,
    }


def _from_starlette(error: HTTPException, scope: Scope) -> RingfenceError:
    if error.status_code == 405:
        allow = (error.headers or {}).get("allow", "")
        return Invalid(
            f"{scope['method']} is not possible here; possible: {allow}",
            code="method_not_allowed", http_status=405, allow=allow,
        )  # fmt: skip
    if error.status_code == 404:
        return NotFound(
            f"there is nothing at {scope['path'][:200]!r}: /openapi.json lists what there is", code="no_such_path"
        )
    return Invalid(str(error.detail), http_status=error.status_code)


def _host_name(host: str) -> str:
    """The name without its port; empty when it is none."""
    found = _HOST.fullmatch(host.lower())
    return found[1].strip("[]").rstrip(".") if found else ""


def _is_address(name: str) -> bool:
    """A page that rebinds a name needs a name; an address cannot be rebound."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Paths:
    """Finds what answers a path: fixed paths by look-up, the others by Starlette's router, hot ones first."""

    def __init__(self, inner: Starlette, resources: list[Resource]) -> None:
        self._inner = inner
        self._fixed = {resource.path: resource for resource in resources if "{" not in resource.path}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self._inner
        fixed = self._fixed.get(scope["path"]) if scope["type"] == "http" else None
        if fixed is not None:
            scope["path_params"] = {}
            await fixed(scope, receive, send)
        else:
            await self._inner.router(scope, receive, send)


def application(
    endpoints: list[Endpoint],
    server: Server,
    auth: Auth,
    metrics: Metrics,
    *,
    routes: list[BaseRoute],
    lifespan: Callable[[Starlette], contextlib.AbstractAsyncContextManager[None]],
) -> ASGIApp:
    by_path: dict[str, list[Endpoint]] = {}
    for endpoint in sorted(endpoints, key=lambda endpoint: (not endpoint.hot, endpoint.path.count("{"))):
        by_path.setdefault(endpoint.path, []).append(endpoint)
    resources = [Resource(several, server, auth) for several in by_path.values()]
    with_parts = [Route(resource.path, resource) for resource in resources if "{" in resource.path]
    inner = Starlette(routes=[*with_parts, *routes], lifespan=lifespan)
    inner.router.redirect_slashes = False
    return Gatekeeper(Paths(inner, resources), server, auth, metrics)
