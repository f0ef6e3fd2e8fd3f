"""Who may come in: login, logout, tokens, people, enrolment."""

import getpass
import sys
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from typer import Argument, Option

from ringfence.cli.api import Api, path
from ringfence.cli.invocation import Invocation, Noun, alone
from ringfence.cli.places import Context, Contexts, Place, config_folder
from ringfence.cli.problems import NotAllowed, NotFound, Problem, Usage
from ringfence.cli.screen import Column, when
from ringfence.supervisor import Running

Role = Literal["viewer", "operator", "admin"]

token = Noun("token", "Tokens for people and scripts.")
person = Noun("person", "People: invite, list, change.")
enrolment = Noun("enrolment", "Tokens with which agents register themselves.")

TOKENS = [
    Column("id", "id", whole=True),
    Column("kind", "kind"),
    Column("of", "subject"),
    Column("role", "role"),
    Column("note", "note", prose=True),
    Column("created", when("created_at")),
    Column("expires", lambda it: "never" if not it["expires_at"] else when("expires_at")(it)),
    Column("last used", when("last_used_at")),
    Column("state", lambda it: "revoked" if it["revoked_at"] else "ok"),
]
PEOPLE = [
    Column("name", "name", whole=True),
    Column("role", "role"),
    Column("projects", lambda it: "all" if it["projects"] is None else it["projects"]),
    Column("since", when("created_at")),
    Column("invited by", "created_by"),
    Column("state", lambda it: "disabled" if it["disabled"] else "ok"),
]

Can = Annotated[Role, Option("--role", help="What it opens: viewer reads, operator steers, admin configures.")]
Projects = Annotated[list[str] | None, Option("--project", help="Only this project; may be repeated.")]
Days = Annotated[float | None, Option(help="How long it lives; 0: for ever.")]
Note = Annotated[str, Option(help="What it is for.")]


# Signing in -----------------------------------------------------------------------------------------------------------


@alone("login")
def login(
    run: Invocation,
    url: Annotated[str | None, Argument(help="The server to sign in to.")] = None,
    link: Annotated[bool, Option("--link", help="Print a link that signs a browser in, once.")] = False,
    name: Annotated[str | None, Option(help="Keep the server under this name. [its host]")] = None,
    person: Annotated[str | None, Option(help="With --link: for this person (admins).")] = None,
    ca: Annotated[Path | None, Option(help="A file of certificates (PEM) to trust for it.")] = None,
) -> None:
    """Sign in to a server, or make a link that signs a browser in.

    Reads your token from the terminal, or from standard input in a pipe. It is kept in the configuration folder, which
    only you can read, and the server becomes the current context.
    """
    if link:
        _link(run, url, person)
        return
    if url is None:
        raise Usage("name the server: `ringfence login URL`; or `ringfence login --link` for a browser's sign-in link")
    trusted = str(ca.absolute()) if ca is not None else None
    place = Place(url=url.rstrip("/"), token=run.wanted.token or _ask_token(url), ca=trusted)
    if urlsplit(place.url).scheme not in ("http", "https") or not urlsplit(place.url).hostname:
        raise Usage(f"{url!r} is not an http:// or https:// address")
    api = Api(place)
    try:
        me = api.get("/api/v1/me")
    finally:
        api.close()
    contexts = Contexts(config_folder())
    name = name or urlsplit(place.url).netloc
    contexts.known[name] = Context(url=place.url, token=place.token, ca=place.ca)
    contexts.current = name
    contexts.save()
    facts = {"context": name, "url": place.url, "name": me["name"], "role": me["role"], "kind": me["kind"]}
    run.screen.done(facts, f"Signed in to {place.url} as {me['name']} ({me['role'] or me['kind']}).")


def _ask_token(url: str) -> str:
    given = getpass.getpass(f"Token for {url}: ") if sys.stdin.isatty() else sys.stdin.readline()
    if not given.strip():
        raise NotAllowed(f"no token was given: ask an admin of {url} for one (`ringfence token create`)")
    return given.strip()


def _link(run: Invocation, url: str | None, person: str | None) -> None:
    if url is not None:
        run.go_to(url)
    made = run.api.post("/api/v1/signin-links", {"person": person}).body
    if person is not None:
        made["url"] = _for_others(run, made["url"])
    elif (other := _for_others(run, made["url"])) != made["url"]:
        run.screen.note(f"note: from another machine or a phone: {other}")
    run.screen.done(made, made["url"], made["url"])


def _for_others(run: Invocation, link: str) -> str:
    """A link for somebody who may sit at another machine."""
    local = Running.on(Path(run.place.source)) if run.place.source.startswith("/") else None
    return (local and local.from_elsewhere(link)) or link


@alone("logout")
def logout(
    run: Invocation,
    name: Annotated[str | None, Argument(help="The context. [the current one]")] = None,
    keep: Annotated[bool, Option("--keep", help="Forget the token here, but do not revoke it.")] = False,
) -> None:
    """Forget a server's token, and revoke it there."""
    contexts = Contexts(config_folder())
    name = name or contexts.current
    if name is None:
        raise NotFound("you are signed in nowhere: `ringfence config get-contexts` lists where you were")
    known = contexts.get(name)
    if known.data is not None:
        raise Problem(f"{name!r} is the Ringfence of this machine: its command line needs the token")
    revoked = False
    if not keep and known.url and known.token:
        api = Api(Place(url=known.url, token=known.token, ca=known.ca))
        try:
            api.post("/api/v1/signout")
            revoked = True
        except Problem as problem:
            run.screen.note(f"note: the token could not be revoked: {problem}")
        finally:
            api.close()
    del contexts.known[name]
    contexts.current = None if contexts.current == name else contexts.current
    contexts.save()
    run.screen.done({"context": name, "revoked": revoked}, f"Signed out of {name}.")


# Tokens ---------------------------------------------------------------------------------------------------------------


@token.verb("create")
def create(
    run: Invocation,
    name: Annotated[str, Option(help="Whose it is: a person, or a name for a script.")],
    role: Can = "viewer",
    project: Projects = None,
    note: Note = "",
    days: Days = None,
    data: Annotated[Path | None, Option(help="The data folder, whether a server runs on it or not.")] = None,
    config: Annotated[Path | None, Option(help="With --data, as for `ringfence up`.")] = None,
    database: Annotated[str | None, Option(help="With --data, as for `ringfence up`.")] = None,
) -> None:
    """Make a token, and print it alone. It is shown this once.

    With --data it works while the server is stopped, too.
    """
    if data is None and (config is not None or database is not None):
        raise Usage("--config and --database are for a stopped server: give its --data folder")
    if data is not None and Running.on(folder := data.expanduser().absolute()) is None:
        from ringfence.cli.offline import create_token
        from ringfence.cli.running import load_settings

        settings = load_settings(data=folder, config=config, database=database)
        made: Any = create_token(settings, name, role, projects=project or None, note=note, days=days)
    else:
        if data is not None:
            run.go_to(data=data)
        body = {"name": name, "role": role, "projects": _project_ids(run, project), "note": note or None, "days": days}
        made = run.api.post("/api/v1/tokens", body).body
    run.screen.done(made, made["token"], made["token"])


@token.verb("list")
def list_tokens(run: Invocation, every: Annotated[bool, Option("--all", help="Revoked ones too.")] = False) -> None:
    """Tokens and sessions: your own, or (admins) everybody's. Never their values."""
    found = [it for it in run.api.every("/api/v1/tokens") if every or not it["revoked_at"]]
    run.screen.items(found, TOKENS, "no tokens")


@token.verb("revoke")
def revoke_token(run: Invocation, token: Annotated[str, Argument(help="Its id, or how the id begins.")]) -> None:
    """Revoke a token or a session, at once."""
    which = run.pick(token, run.api.every("/api/v1/tokens"), "token")
    run.screen.confirm(f"Revoke {which['id']} ({which['kind']} of {which['subject'] or '-'})?")
    gone = run.api.delete("/api/v1/tokens" + path(which["id"])).body
    run.screen.done(gone, f"Revoked {which['id']}.", which["id"])


# People ---------------------------------------------------------------------------------------------------------------


@person.verb("list")
def list_people(run: Invocation) -> None:
    """The people of this installation."""
    run.screen.items(run.api.every("/api/v1/people"), PEOPLE, "nobody")


@person.verb("invite")
def invite(
    run: Invocation, name: Annotated[str, Argument(help="A new name.")], role: Can = "viewer", project: Projects = None
) -> None:
    """Invite a person: prints the link that lets them in, once."""
    body = {"name": name, "role": role, "projects": _project_ids(run, project)}
    made = run.api.post("/api/v1/people", body).body
    link = made["signin_url"] = _for_others(run, made["signin_url"])
    run.screen.done(made, f"Invited {name} ({role}). Their link, which works once:\n\n  {link}", link)


@person.verb("change")
def change_person(
    run: Invocation,
    name: str,
    role: Annotated[Role | None, Option(help="What they may from now on.")] = None,
    project: Projects = None,
    all_projects: Annotated[bool, Option("--all-projects", help="They may see every project.")] = False,
    disable: Annotated[bool | None, Option("--disable/--enable", help="Whether they may sign in.")] = None,
) -> None:
    """Change a person's role, projects, or whether they may sign in."""
    if role is None and not project and not all_projects and disable is None:
        raise Usage("nothing to change: give --role, --project, --all-projects, --disable or --enable")
    if disable:
        run.screen.confirm(f"Disable {name}, and end their sessions and tokens?")
    body = {
        "role": role, "projects": _project_ids(run, project), "all_projects": all_projects or None, "disabled": disable
    }  # fmt: skip
    changed = run.api.patch("/api/v1/people" + path(name), body).body
    run.screen.facts(changed, PEOPLE)


def _project_ids(run: Invocation, projects: list[str] | None) -> list[str] | None:
    return [run.project(name) for name in projects] if projects else None


# Enrolment ------------------------------------------------------------------------------------------------------------


@enrolment.verb("create")
def create_enrolment(
    run: Invocation,
    uses: Annotated[int, Option(help="How many agents it registers.")] = 1,
    scope: Annotated[list[str] | None, Option(help="What they may besides: coordinator.")] = None,
    project: Projects = None,
    note: Note = "",
    days: Days = None,
) -> None:
    """Make a token with which agents register themselves, and print it alone."""
    projects = _project_ids(run, project)
    body = {"uses": uses, "scopes": scope or None, "projects": projects, "note": note or None, "days": days}
    made = run.api.post("/api/v1/enrolments", body).body
    run.screen.done(made, made["token"], made["token"])
