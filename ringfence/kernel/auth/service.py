"""Use cases of people and tokens, and the look-up that turns a request's token into a principal."""

import json
import time
from collections.abc import Callable, Iterable

from ringfence.kernel.auth import store
from ringfence.kernel.auth.model import (
    SCOPES,
    Person,
    Principal,
    Role,
    Token,
    TokenKind,
    check_name,
    csrf_of,
    fingerprint,
    new_secret,
)
from ringfence.kernel.clock import DAY, MINUTE
from ringfence.kernel.database import Database, Row, Transaction
from ringfence.kernel.errors import Conflict, Forbidden, Invalid, NotFound, Unauthenticated
from ringfence.kernel.events.model import SYSTEM, Actor, Event
from ringfence.kernel.ids import new
from ringfence.settings import Settings

CACHED = 10_000
EVERYBODY = 100_000  # more people than an installation has
CACHE_SECONDS = 5.0  # the longest another server's revocation can take to be seen when notifications fail
HARMLESS = {"token_created", "person_invited", "person_signed_in"}  # nothing that was known changes with these
FORGET_AFTER = 90 * DAY  # expired and revoked tokens stay listed this long


class Auth:
    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        database.on_commit.append(self.observe)
        self._cache: dict[bytes, tuple[Principal, int | None, float]] = {}
        self._changes = 0  # how often the cache was emptied
        self._used: dict[str, int] = {}
        # People and agents share one set of names; the crew knows the agents'.
        self.is_agent: Callable[[Transaction, str], bool] = lambda tx, name: False
        self.on_use: list[Callable[[Principal], None]] = []  # told of every call somebody makes with a token

    # Looking up -----------------------------------------------------------------------------------------------------

    async def principal(self, secret: str) -> Principal:
        """Who makes this call."""
        principal = await self.holder(secret)
        self._used[principal.token_id] = self._database.clock.now()
        for told in self.on_use:
            told(principal)
        return principal

    async def holder(self, secret: str) -> Principal:
        """Who holds this token now; asking is no use of it."""
        key = fingerprint(secret)
        now = self._database.clock.now()
        cached = self._cache.get(key)
        if cached is not None and time.monotonic() - cached[2] < CACHE_SECONDS:
            principal, expires_at, _ = cached
        else:
            changes = self._changes
            principal, expires_at = await self._database.read(lambda tx: _look_up(tx, key, secret))
            if len(self._cache) >= CACHED:
                self._cache.clear()
            if changes == self._changes:  # else what was read may be what was changed meanwhile
                self._cache[key] = (principal, expires_at, time.monotonic())
        if expires_at is not None and expires_at <= now:
            raise Unauthenticated("this token has expired: ask for a new one", code="token_expired")
        return principal

    def observe(self, events: list[Event]) -> None:
        """Forget what a change of people or tokens made untrue, on whichever server it was made."""
        if any(event.kind.startswith(("token_", "person_")) and event.kind not in HARMLESS for event in events):
            self._cache.clear()
            self._changes += 1

    def flush_used(self, tx: Transaction) -> None:
        used, self._used = self._used, {}
        for token_id, at in list(used.items()):  # the loop's thread may still be adding to it
            tx.run(store.TOUCH_TOKEN, which=token_id, at=at)

    def forget(self, tx: Transaction) -> None:
        tx.run(store.FORGET_TOKENS, before=tx.now - FORGET_AFTER)
        tx.run(store.FORGET_ANSWERS, before=tx.now - DAY)

    # Tokens ---------------------------------------------------------------------------------------------------------

    def issue(
        self,
        tx: Transaction,
        by: Actor,
        kind: TokenKind,
        subject: str,
        *,
        role: Role | None = None,
        scopes: Iterable[str] = (),
        projects: Iterable[str] | None = None,
        note: str = "",
        lives: int | None = None,
        uses: int | None = None,
        seed: bytes | None = None,
    ) -> tuple[Token, str]:
        """A new token and its value, which is shown this once. `lives` is in microseconds; None: never expires."""
        scopes = tuple(sorted(scopes))
        if unknown := set(scopes) - SCOPES:
            raise Invalid(f"there is no scope {min(unknown)!r}; there is: {', '.join(sorted(SCOPES))}")
        secret = new_secret(kind, seed)
        held = None if projects is None else tuple(sorted(projects))
        expires_at = None if lives is None else tx.now + lives
        token = Token(
            new("tok"), kind, subject, note, role, scopes, held, tx.now, by.name, expires_at, uses, None, None
        )
        tx.run(
            store.ADD_TOKEN,
            id=token.id, kind=kind, subject=subject, note=note, role=role, scopes=json.dumps(scopes),
            projects=_json_or_none(held), created_at=tx.now, created_by=by.name, expires_at=expires_at,
            uses_left=uses, last_used_at=None, revoked_at=None, hash=fingerprint(secret),
        )  # fmt: skip
        told = {"token": token.id, "kind": kind, "subject": subject, "role": role, "scopes": scopes, "uses": uses}
        tx.record("token_created", by, told, subject=token.id)
        return token, secret

    def create_token(
        self,
        tx: Transaction,
        by: Principal,
        subject: str,
        role: Role,
        *,
        projects: Iterable[str] | None = None,
        note: str = "",
        days: float | None = None,
        seed: bytes | None = None,
    ) -> tuple[Token, str]:
        """A token for a person or a script. Nobody hands out more than they have."""
        self._within(by, role, projects)
        check_name(subject)
        person = self.find_person(tx, subject)
        if person is None and self.is_agent(tx, subject):
            raise Conflict(f"{subject!r} is an agent: give the token another name", code="name_taken")
        if person is not None and person.name != by.name and not by.may(Role.ADMIN):
            raise Forbidden(f"only an admin may make a token for {subject!r}")
        return self.issue(
            tx,
            by.actor,
            TokenKind.API,
            subject,
            role=role,
            projects=projects,
            note=note,
            lives=self._life(days),
            seed=seed,
        )

    def create_enrolment(
        self,
        tx: Transaction,
        by: Principal,
        *,
        uses: int = 1,
        scopes: Iterable[str] = (),
        projects: Iterable[str] | None = None,
        note: str = "",
        days: float | None = None,
        seed: bytes | None = None,
    ) -> tuple[Token, str]:
        """A token with which `uses` agents may register themselves."""
        self._within(by, Role.OPERATOR, projects)
        return self.issue(
            tx, by.actor, TokenKind.ENROLMENT, "", scopes=scopes, projects=projects, note=note, lives=self._life(days),
            uses=uses, seed=seed,
        )  # fmt: skip

    def revoke_token(self, tx: Transaction, by: Principal, token_id: str) -> Token:
        row = tx.row(store.TOKEN, id=token_id)
        token = None if row is None else _token(row)
        if token is None or not (by.may(Role.ADMIN) or by.name in (token.subject, token.created_by.partition(":")[2])):
            raise NotFound(f"there is no token {token_id!r} of yours")
        if tx.run(store.REVOKE_TOKEN, which=token_id, at=tx.now):
            tx.record("token_revoked", by.actor, {"token": token_id, "subject": token.subject}, subject=token_id)
        row = tx.row(store.TOKEN, id=token_id)
        assert row is not None
        return _token(row)

    def revoke_tokens_of(self, tx: Transaction, by: Actor, subject: str, kind: TokenKind) -> None:
        if count := tx.run(store.REVOKE_TOKENS_OF, who=subject, what=kind, at=tx.now):
            tx.record("token_revoked", by, {"subject": subject, "kind": kind, "count": count}, subject=subject)

    def list_tokens(self, tx: Transaction, by: Principal, cursor: str, limit: int) -> list[Token]:
        """An admin sees every token, anybody else their own."""
        if by.may(Role.ADMIN):
            return [_token(row) for row in tx.rows(store.TOKENS, cursor=cursor, limit=limit)]
        return [_token(row) for row in tx.rows(store.TOKENS_OF, subject=by.name, cursor=cursor, limit=limit)]

    def spend(self, tx: Transaction, by: Principal) -> None:
        """Use up one use of an enrolment token; two at once cannot share the last one."""
        if not tx.run(store.SPEND_TOKEN, which=by.token_id, at=tx.now):
            raise Unauthenticated("this enrolment token is used up: ask an operator for another", code="token_used_up")

    # Signing in -----------------------------------------------------------------------------------------------------

    def signin_link(self, tx: Transaction, by: Actor, person: str, seed: bytes | None = None) -> str:
        """A code that signs `person` in, once, with all they have."""
        found = self.person(tx, person)
        return self._signin_link(tx, by, found.name, found.role, found.projects, seed)

    def create_signin_link(self, tx: Transaction, by: Principal, person: str | None, seed: bytes | None = None) -> str:
        """A code for yourself, with what this token has, or (by an admin) for somebody else."""
        found = self.person(tx, person or by.name)
        if found.name == by.name and by.role is not None:
            return self._signin_link(tx, by.actor, found.name, by.role, by.projects, seed)
        if not by.may(Role.ADMIN):
            raise Forbidden("only an admin may make a sign-in link for somebody else")
        self._within(by, found.role, found.projects)
        return self.signin_link(tx, by.actor, found.name, seed)

    def _signin_link(
        self, tx: Transaction, by: Actor, name: str, role: Role, projects: Iterable[str] | None, seed: bytes | None
    ) -> str:
        lives = int(self._settings.signin_minutes * MINUTE)
        return self.issue(tx, by, TokenKind.SIGNIN, name, role=role, projects=projects, lives=lives, uses=1, seed=seed)[
            1
        ]

    def sign_in(self, tx: Transaction, code: str, note: str) -> tuple[Principal, str]:
        """Trade a one-time code for a session."""
        row = tx.row(store.TOKEN_BY_HASH, hash=fingerprint(code))
        token = None if row is None else _token(row)
        usable = token is not None and token.kind is TokenKind.SIGNIN and (token.expires_at or 0) > tx.now
        if token is None or not usable or not tx.run(store.SPEND_TOKEN, which=token.id, at=tx.now):
            raise Unauthenticated(
                "this sign-in link was used already, or has expired: make a new one with `ringfence login --link`",
                code="signin_failed",
                reason=_unusable(token, tx.now),
            )
        person = self.person(tx, token.subject)
        actor = Actor(f"operator:{person.name}")
        _, secret = self.issue(
            tx, actor, TokenKind.SESSION, person.name, role=token.role, projects=token.projects, note=note[:200],
            lives=int(self._settings.session_days * DAY),
        )  # fmt: skip
        tx.record("person_signed_in", actor, {"name": person.name, "from": note[:200]}, subject=person.name)
        return _look_up(tx, fingerprint(secret), secret)[0], secret

    # People ---------------------------------------------------------------------------------------------------------

    def invite(
        self,
        tx: Transaction,
        by: Principal | None,
        name: str,
        role: Role,
        projects: Iterable[str] | None = None,
        seed: bytes | None = None,
    ) -> tuple[Person, str]:
        """A new person, and the one-time link that lets them in. `by` None: the installation itself."""
        check_name(name)
        if by is not None:
            self._within(by, role, projects)
        if self.named(tx, name) or self.is_agent(tx, name):
            raise Conflict(f"the name {name!r} is taken: choose another", code="name_taken")
        actor = SYSTEM if by is None else by.actor
        held = _json_or_none(projects)
        tx.run(
            store.ADD_PERSON, name=name, role=role, projects=held, created_at=tx.now, created_by=actor.name,
            disabled_at=None,
        )  # fmt: skip
        told = {"name": name, "role": role, "projects": None if projects is None else sorted(projects)}
        tx.record("person_invited", actor, told, subject=name)
        return self.person(tx, name), self.signin_link(tx, actor, name, seed)

    def change_person(
        self,
        tx: Transaction,
        by: Principal,
        name: str,
        *,
        role: Role | None,
        projects: Iterable[str] | None,
        all_projects: bool,
        disabled: bool | None,
    ) -> Person:
        person = self.find_person(tx, name)
        if person is None:
            raise NotFound(f"there is no person {name!r}")
        disabled_at = person.disabled_at if disabled is None else (person.disabled_at or tx.now) if disabled else None
        held = None if all_projects else person.projects if projects is None else tuple(sorted(projects))
        changed = Person(name, role or person.role, held, person.created_at, person.created_by, disabled_at)
        self._within(by, changed.role, changed.projects)
        if _administers(person) and not _administers(changed) and self._last_admin(tx, name):
            raise Conflict(
                f"{name!r} is the last admin of everything: make somebody else an admin first", code="last_admin"
            )
        tx.run(store.SET_PERSON, who=name, role=changed.role, projects=_json_or_none(held), disabled_at=disabled_at)
        was = {"role": person.role, "projects": person.projects, "disabled": person.disabled_at is not None}
        told = {"name": name, "role": changed.role, "projects": held, "disabled": disabled_at is not None, "was": was}
        tx.record("person_changed", by.actor, told, subject=name)
        if disabled_at:
            for kind in (TokenKind.SESSION, TokenKind.API, TokenKind.SIGNIN):
                self.revoke_tokens_of(tx, by.actor, name, kind)
        if disabled_at or _has_less(changed, person):
            self._revoke_made_by(tx, by.actor, name)
        return changed

    def _revoke_made_by(self, tx: Transaction, by: Actor, maker: str) -> None:
        """What somebody made for scripts, enrolments and others, they know the values of; so too what those made."""
        makers = [maker]
        for name in makers:
            for token in map(_token, tx.rows(store.LIVE_MADE_BY, maker=f"operator:{name}")):
                if token.subject != maker and token.kind in (TokenKind.API, TokenKind.ENROLMENT, TokenKind.SIGNIN):
                    tx.run(store.REVOKE_TOKEN, which=token.id, at=tx.now)
                    tx.record("token_revoked", by, {"token": token.id, "subject": token.subject}, subject=token.id)
                    if token.subject and token.subject not in makers and self.find_person(tx, token.subject) is None:
                        makers.append(token.subject)

    def person(self, tx: Transaction, name: str) -> Person:
        """An enabled person."""
        person = self.find_person(tx, name)
        if person is None or person.disabled_at is not None:
            raise NotFound(f"there is no person {name!r}")
        return person

    def find_person(self, tx: Transaction, name: str) -> Person | None:
        row = tx.row(store.PERSON, name=name)
        return None if row is None else _person(row)

    def list_people(self, tx: Transaction, cursor: str = "", limit: int = EVERYBODY) -> list[Person]:
        """By name."""
        return [_person(row) for row in tx.rows(store.PEOPLE, cursor=cursor, limit=limit)]

    def _last_admin(self, tx: Transaction, name: str) -> bool:
        admins = [_person(row) for row in tx.rows(store.ADMINS)]  # locked: no two of them remove each other
        return not any(_administers(person) and person.name != name for person in admins)

    def named(self, tx: Transaction, name: str) -> bool:
        """Whether a person or a script goes by this name."""
        if tx.row(store.PERSON, name=name) is not None:
            return True
        return tx.row(store.LIVE_OF_KIND, subject=name, kind=TokenKind.API) is not None

    def _life(self, days: float | None) -> int | None:
        """0 days: never expires."""
        days = self._settings.token_days if days is None else days
        return None if days == 0 else int(days * DAY)

    def _within(self, by: Principal, role: Role, projects: Iterable[str] | None) -> None:
        if not by.may(role):
            raise Forbidden(f"you are {by.role or 'an agent'}: you cannot give the role {role}")
        if by.projects is not None and (projects is None or not set(projects) <= by.projects):
            raise Forbidden("you cannot give access to projects you cannot see: name some of yours")


def _unusable(token: Token | None, now: int) -> str:
    """Why a code signs nobody in, for whoever holds it."""
    if token is None or token.kind is not TokenKind.SIGNIN:
        return "unknown"
    if token.revoked_at is not None:
        return "revoked"
    if token.uses_left == 0:
        return "used"
    return "expired"


def _look_up(tx: Transaction, key: bytes, secret: str) -> tuple[Principal, int | None]:
    row = tx.row(store.TOKEN_BY_HASH, hash=key)
    token = None if row is None else _token(row)
    if token is None or token.kind is TokenKind.SIGNIN:
        raise Unauthenticated(
            "this token is not known here: sign in again, or ask an admin for one", code="token_unknown"
        )
    if token.revoked_at is not None:
        raise Unauthenticated("this token was revoked: ask an admin for a new one", code="token_revoked")
    role, projects = token.role, None if token.projects is None else frozenset(token.projects)
    person = tx.row(store.PERSON, name=token.subject) if role is not None else None
    if role is not None and person is not None:
        role, projects = _limited(role, projects, _person(person))
    csrf = csrf_of(secret) if token.kind is TokenKind.SESSION else ""
    principal = Principal(token.kind, token.subject, role, frozenset(token.scopes), projects, token.id, csrf)
    return principal, token.expires_at


def _limited(role: Role, projects: frozenset[str] | None, person: Person) -> tuple[Role, frozenset[str] | None]:
    """A token never opens more than its person may open now."""
    if person.disabled_at is not None:
        raise Unauthenticated(f"{person.name!r} may no longer sign in", code="person_disabled")
    role = min(role, person.role, key=list(Role).index)
    if person.projects is not None:
        own = frozenset(person.projects)
        projects = own if projects is None else projects & own
    return role, projects


def _administers(person: Person) -> bool:
    return person.role is Role.ADMIN and person.projects is None and person.disabled_at is None


def _has_less(now: Person, before: Person) -> bool:
    if not now.role.covers(before.role):
        return True
    return now.projects is not None and (before.projects is None or not set(before.projects) <= set(now.projects))


def _person(row: Row) -> Person:
    name, role, projects, created_at, created_by, disabled_at = row
    return Person(
        name, Role(role), None if projects is None else tuple(json.loads(projects)), created_at, created_by, disabled_at
    )


def _token(row: Row) -> Token:
    token_id, kind, subject, note, role, scopes, projects, *rest = row
    return Token(
        token_id,
        TokenKind(kind),
        subject,
        note,
        None if role is None else Role(role),
        tuple(json.loads(scopes)),
        None if projects is None else tuple(json.loads(projects)),
        *rest,
    )


def _json_or_none(values: Iterable[str] | None) -> str | None:
    return None if values is None else json.dumps(sorted(values))
