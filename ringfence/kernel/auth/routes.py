"""People, tokens and signing in, over HTTP."""

from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import Field
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from typing_extensions import TypedDict

from ringfence.kernel.auth.model import NAME, Person, Role, Token
from ringfence.kernel.auth.service import Auth
from ringfence.kernel.clock import iso, iso_or_none
from ringfence.kernel.database import Transaction
from ringfence.kernel.errors import Unauthenticated
from ringfence.kernel.http.application import cookie_name
from ringfence.kernel.http.endpoint import Access, Answer, Api, Call, Fields, Nothing, Page
from ringfence.kernel.http.openapi import Listed
from ringfence.settings import Settings

PEOPLE = 1000  # on a page, when the caller does not say

Name = Annotated[str, Field(min_length=1, max_length=64, json_schema_extra={"pattern": NAME})]
Projects = Annotated[list[Annotated[str, Field(max_length=64)]], Field(max_length=1000)]
Days = Annotated[float, Field(ge=0, le=36500, description="0: never expires.")]


class PersonView(TypedDict):
    name: str
    role: Role
    projects: list[str] | None
    created_at: str
    created_by: str
    disabled: bool


class Invited(PersonView):
    signin_url: str
    expires_minutes: float


class TokenView(TypedDict):
    id: str
    kind: str
    subject: str
    note: str
    role: Role | None
    scopes: list[str]
    projects: list[str] | None
    created_at: str
    created_by: str
    expires_at: str | None
    uses_left: int | None
    last_used_at: str | None
    revoked_at: str | None


class NewToken(TokenView):
    token: str


class Me(TypedDict):
    kind: str
    name: str
    role: Role | None
    scopes: list[str]
    projects: list[str] | None
    token: str
    csrf: str | None


class SigninLink(TypedDict):
    url: str
    expires_minutes: float


class InviteBody(Fields):
    name: Name
    role: Role = Role.VIEWER
    projects: Projects | None = Field(None, description="The projects they may see; null: all.")


class ChangeBody(Fields):
    role: Role | None = None
    projects: Projects | None = None
    all_projects: bool = False
    disabled: bool | None = None


class TokenBody(Fields):
    name: Name = Field(description="Whose token it is: a person, or a name for a script.")
    role: Role = Role.VIEWER
    projects: Projects | None = None
    note: Annotated[str, Field(max_length=200)] = ""
    days: Days | None = None


class EnrolmentBody(Fields):
    uses: Annotated[int, Field(ge=1, le=100_000)] = 1
    scopes: Annotated[list[Annotated[str, Field(max_length=32)]], Field(max_length=10)] = []
    projects: Projects | None = None
    note: Annotated[str, Field(max_length=200)] = ""
    days: Days | None = None


class SigninBody(Fields):
    person: Name | None = Field(None, description="Yourself, when not given.")


class PageQuery(Fields):
    limit: Annotated[int, Field(ge=1, le=1000)] | None = None
    cursor: Annotated[str, Field(max_length=200)] | None = None


class SigninQuery(Fields):
    code: Annotated[str, Field(max_length=200)] = ""
    next: Annotated[str, Field(max_length=500)] = "/"


def person_view(person: Person) -> PersonView:
    return {
        "name": person.name,
        "role": person.role,
        "projects": None if person.projects is None else list(person.projects),
        "created_at": iso(person.created_at),
        "created_by": person.created_by,
        "disabled": person.disabled_at is not None,
    }


def token_view(token: Token) -> TokenView:
    return {
        "id": token.id,
        "kind": token.kind,
        "subject": token.subject,
        "note": token.note,
        "role": token.role,
        "scopes": list(token.scopes),
        "projects": None if token.projects is None else list(token.projects),
        "created_at": iso(token.created_at),
        "created_by": token.created_by,
        "expires_at": iso_or_none(token.expires_at),
        "uses_left": token.uses_left,
        "last_used_at": iso_or_none(token.last_used_at),
        "revoked_at": iso_or_none(token.revoked_at),
    }


def signin_url(settings: Settings, origin: str, code: str) -> str:
    return f"{settings.public_url.rstrip('/') or origin}/signin?code={code}"


def _own_path(path: str) -> str:
    """Only a path of ours: never another site to be sent on to."""
    return path if path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() else "/"


def _by_https(settings: Settings, request: Request) -> bool:
    """Whether the browser speaks TLS, to us or to the reverse proxy that public_url names."""
    public = urlsplit(settings.public_url)
    return request.url.scheme == "https" or (public.scheme == "https" and request.url.netloc == public.netloc)


def _redirect(to: str) -> Response:
    response = RedirectResponse(to, 303)
    response.headers["referrer-policy"] = "no-referrer"
    response.headers["cache-control"] = "no-store"
    return response


def _reads_pages(request: Request) -> bool:
    """Whether a browser asks, for a person to read the answer."""
    return "text/html" in request.headers.get("accept", "")


def routes(auth: Auth, settings: Settings, page: str | None = None) -> Api:
    """`page`: where people sign in, if there is such a page."""
    api = Api("people")

    def link(call: Call[Any, Any], code: str) -> str:
        return signin_url(settings, f"{call.request.url.scheme}://{call.request.url.netloc}", code)

    @api.route("GET", "/api/v1/me", access=Access.READ, answers=Me)
    async def me(call: Call[Fields, Fields]) -> Me:
        """Who you are, by which token, and the CSRF token of a browser session."""
        who = call.principal
        return {
            "kind": who.kind,
            "name": who.name,
            "role": who.role,
            "scopes": sorted(who.scopes),
            "projects": None if who.projects is None else sorted(who.projects),
            "token": who.token_id,
            "csrf": who.csrf or None,
        }

    @api.route("GET", "/signin", access=Access.OPEN, query=SigninQuery, status=303, also={200: None}, media="text/html")
    async def sign_in(call: Call[Fields, SigninQuery]) -> Response:
        """Sign a browser in with a one-time code. One that cannot be used leads a browser to the page that says why."""
        note = call.request.headers.get("user-agent", "")
        try:
            _, session = await call.write(lambda tx: auth.sign_in(tx, call.query.code, note))
        except Unauthenticated as error:
            if page is None or not _reads_pages(call.request):
                raise
            return _redirect(f"{page}?signin={error.details.get('reason', 'unknown')}")
        response = _redirect(_own_path(call.query.next))
        response.set_cookie(
            cookie_name(settings, call.request.scope), session, httponly=True, samesite="lax",
            secure=_by_https(settings, call.request), max_age=int(settings.session_days * 86400),
        )  # fmt: skip
        return response

    @api.route("POST", "/api/v1/signout", access=Access.READ, body=Nothing)
    async def sign_out(call: Call[Fields, Fields]) -> Answer:
        """End this session, or revoke the token this was asked with."""
        await call.write(lambda tx: auth.revoke_token(tx, call.principal, call.principal.token_id))
        return Answer({"status": "ok"})

    @api.route("POST", "/api/v1/signin-links", access=Access.VIEW, body=SigninBody, answers=SigninLink, status=201)
    async def make_link(call: Call[SigninBody, Fields]) -> Answer:
        """A one-time sign-in link, for yourself or (admins) for somebody else."""

        def make(tx: Transaction) -> SigninLink:
            code = auth.create_signin_link(tx, call.principal, call.body.person, call.seed)
            return {"url": link(call, code), "expires_minutes": settings.signin_minutes}

        return await call.commit(make)

    @api.route("GET", "/api/v1/people", access=Access.VIEW, query=PageQuery, answers=Listed(PersonView))
    async def list_people(call: Call[Fields, PageQuery]) -> Page:
        """The people of this installation, by name."""
        limit = call.query.limit or PEOPLE
        found = await call.read(lambda tx: auth.list_people(tx, call.query.cursor or "", limit))
        return Page([person_view(person) for person in found], found[-1].name if len(found) == limit else None)

    @api.route("POST", "/api/v1/people", access=Access.CONFIGURE, body=InviteBody, answers=Invited, status=201)
    async def invite(call: Call[InviteBody, Fields]) -> Answer:
        """Invite a person: the answer holds their one-time sign-in link."""
        body = call.body

        def make(tx: Transaction) -> Invited:
            person, code = auth.invite(tx, call.principal, body.name, body.role, body.projects, call.seed)
            return {**person_view(person), "signin_url": link(call, code), "expires_minutes": settings.signin_minutes}

        return await call.commit(make)

    @api.route("PATCH", "/api/v1/people/{name}", access=Access.CONFIGURE, body=ChangeBody, answers=PersonView)
    async def change_person(call: Call[ChangeBody, Fields]) -> Answer:
        """Change a person's role, projects, or whether they may sign in."""
        body = call.body
        return await call.commit(
            lambda tx: person_view(
                auth.change_person(
                    tx, call.principal, call["name"],
                    role=body.role, projects=body.projects, all_projects=body.all_projects, disabled=body.disabled,
                )
            )
        )  # fmt: skip

    @api.route("GET", "/api/v1/tokens", access=Access.VIEW, query=PageQuery, answers=Listed(TokenView))
    async def list_tokens(call: Call[Fields, PageQuery]) -> Page:
        """Tokens and sessions: your own, or (admins) all. Never their values."""
        limit = call.query.limit or settings.page_size
        found = await call.read(lambda tx: auth.list_tokens(tx, call.principal, call.query.cursor or "", limit))
        return Page([token_view(token) for token in found], found[-1].id if len(found) == limit else None)

    @api.route("POST", "/api/v1/tokens", access=Access.VIEW, body=TokenBody, answers=NewToken, status=201)
    async def create_token(call: Call[TokenBody, Fields]) -> Answer:
        """A token for a person or a script; its value is in this answer and nowhere else."""
        body = call.body

        def make(tx: Transaction) -> NewToken:
            token, secret = auth.create_token(
                tx, call.principal, body.name, body.role,
                projects=body.projects, note=body.note, days=body.days, seed=call.seed,
            )  # fmt: skip
            return {**token_view(token), "token": secret}

        return await call.commit(make)

    @api.route("POST", "/api/v1/enrolments", access=Access.STEER, body=EnrolmentBody, answers=NewToken, status=201)
    async def create_enrolment(call: Call[EnrolmentBody, Fields]) -> Answer:
        """A token with which agents register themselves, as often as it has uses."""
        body = call.body

        def make(tx: Transaction) -> NewToken:
            token, secret = auth.create_enrolment(
                tx, call.principal,
                uses=body.uses, scopes=body.scopes, projects=body.projects, note=body.note, days=body.days,
                seed=call.seed,
            )  # fmt: skip
            return {**token_view(token), "token": secret}

        return await call.commit(make)

    @api.route("DELETE", "/api/v1/tokens/{token_id}", access=Access.VIEW, answers=TokenView)
    async def revoke_token(call: Call[Fields, Fields]) -> Answer:
        """Revoke a token or a session, at once."""
        return await call.commit(lambda tx: token_view(auth.revoke_token(tx, call.principal, call["token_id"])))

    return api
