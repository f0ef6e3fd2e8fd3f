"""Settings of the server, and contexts of this command."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from ringfence.cli.api import NULL
from ringfence.cli.invocation import Invocation, Noun
from ringfence.cli.places import Context, Contexts, config_folder, default_data
from ringfence.cli.problems import NotFound, Unreachable, Usage
from ringfence.cli.screen import Column, Item

config = Noun("config", "Settings of the server, and contexts of this command.")

SETTINGS = [
    Column("setting", "name", whole=True),
    Column("value", "value"),
    Column("default", "default"),
    Column("meaning", "description"),
]
CONTEXTS = [
    Column("", lambda it: "*" if it["current"] else " "),
    Column("name", "name", whole=True),
    Column("url", "url"),
    Column("data", "data"),
    Column("token", lambda it: "kept" if it["token"] else "-"),
]


@config.verb("list")
def list_settings(run: Invocation) -> None:
    """The settings in force, and what each means; those of a start now, where no server runs."""
    try:
        found = run.api.get("/api/v1/config")
    except Unreachable as problem:
        if run.wanted.url is not None:
            raise
        run.screen.note(f"note: {problem}; these are the settings it would have")
        found = _of_a_start(run)
    run.screen.items(found, SETTINGS, "no settings")


def _of_a_start(run: Invocation) -> list[dict[str, Any]]:
    from ringfence.cli.running import load_settings

    settings = load_settings(data=run.wanted.data)
    values = settings.model_dump(mode="json")
    if values["database"]:
        values["database"] = "postgresql://…"  # it may hold a password
    defaults = type(settings).model_fields
    return [
        {
            "name": name, "value": value, "description": defaults[name].description,
            "default": None if defaults[name].is_required() else defaults[name].default,
        }
        for name, value in values.items()
    ]  # fmt: skip


@config.verb("retention")
def retention(
    run: Invocation,
    events: Annotated[float | None, Option(help="Days events are kept; 0: for ever.")] = None,
    messages: Annotated[float | None, Option(help="Days acknowledged messages are kept; 0: for ever.")] = None,
    reset: Annotated[bool, Option("--reset", help="As the settings say again.")] = False,
) -> None:
    """How long things are kept; with a number of days, change it from now on."""
    if reset and (events is not None or messages is not None):
        raise Usage("--reset goes back to the settings: give it alone")
    if reset:
        chosen: dict[str, object] = {"events_days": NULL, "messages_days": NULL}
    else:
        chosen = {"events_days": events, "messages_days": messages}
    changes = any(days is not None for days in chosen.values())
    found = run.api.put("/api/v1/retention", chosen).body if changes else run.api.get("/api/v1/retention")
    run.screen.facts(found, RETENTION)


def _days(field: str) -> Callable[[Item], str]:
    return lambda found: f"{found[field]:g} days" if found[field] else "for ever"


RETENTION = [Column("Events", _days("events_days")), Column("Messages", _days("messages_days"))]


@config.verb("path")
def show_paths(run: Invocation) -> None:
    """Where settings, contexts and data lie."""
    data = (run.wanted.data or Path(os.environ.get("RINGFENCE_DATA") or default_data())).expanduser().absolute()
    facts = {
        "data": str(data),
        "settings": str(data / "ringfence.toml"),
        "contexts": str(Contexts(config_folder()).path),
    }
    run.screen.facts(facts, [Column(name, name) for name in facts])


@config.verb("get-contexts")
def get_contexts(run: Invocation) -> None:
    """The servers this command knows."""
    contexts = Contexts(config_folder())
    found = [
        {
            "name": name,
            "current": name == contexts.current,
            "url": known.url,
            "data": known.data,
            "token": bool(known.token),
        }
        for name, known in sorted(contexts.known.items())
    ]
    if run.screen.quiet:
        run.screen.items(found, CONTEXTS[1:], "")
    else:
        run.screen.items(
            found, CONTEXTS, "no contexts: `ringfence login URL` or `ringfence config set-context` make one"
        )


@config.verb("set-context")
def set_context(
    run: Invocation,
    name: str,
    ca: Annotated[Path | None, Option(help="A file of certificates (PEM) to trust.")] = None,
    use: Annotated[bool, Option("--use", help="Make it the current one.")] = False,
) -> None:
    """Keep a server under a name: its --url, --token, or --data folder."""
    contexts = Contexts(config_folder())
    before = contexts.known.get(name, Context())
    wanted = run.wanted
    if wanted.url is not None and wanted.data is not None:
        raise Usage("a context has a --url or a --data folder: give one of them")
    url = wanted.url.rstrip("/") if wanted.url else None
    data = str(wanted.data.expanduser().absolute()) if wanted.data else None
    if url is not None and not url.startswith(("http://", "https://")):
        raise Usage(f"--url {url!r} is not an http:// or https:// address")
    moved = url is not None or data is not None  # a token is for the server it was given by
    made = Context(
        url=url if moved else before.url,
        data=data if moved else before.data,
        token=wanted.token or (None if moved else before.token),
        ca=str(ca.absolute()) if ca else (None if moved else before.ca),
    )
    if made.url is None and made.data is None:
        raise Usage(f"the context {name!r} is new: give its --url, or its --data folder")
    contexts.known[name] = made
    if use:
        contexts.current = name
    contexts.save()
    facts = {"name": name, "url": made.url, "data": made.data, "current": contexts.current == name}
    run.screen.done(facts, f"Kept {name}: {made.url or made.data}.", name)


@config.verb("use-context")
def use_context(run: Invocation, name: Annotated[str, Argument(help="A context; - is none of them.")]) -> None:
    """Choose the server that commands go to."""
    contexts = Contexts(config_folder())
    if name == "-":
        contexts.current = None
    else:
        contexts.get(name)
        contexts.current = name
    contexts.save()
    chosen = contexts.current or "this machine's own server"
    run.screen.done({"current": contexts.current}, f"Commands go to {chosen}.", contexts.current)


@config.verb("current-context")
def current_context(run: Invocation) -> None:
    """Which server commands go to."""
    contexts = Contexts(config_folder())
    if contexts.current is None:
        raise NotFound("no context is chosen: commands go to this machine's own server")
    run.screen.done({"current": contexts.current}, contexts.current, contexts.current)


@config.verb("delete-context")
def delete_context(run: Invocation, name: str) -> None:
    """Forget a server. Its token stays good there: `ringfence logout` revokes it."""
    contexts = Contexts(config_folder())
    contexts.get(name)
    run.screen.confirm(f"Forget the context {name!r} and its token?")
    del contexts.known[name]
    contexts.current = None if contexts.current == name else contexts.current
    contexts.save()
    run.screen.done({"name": name}, f"Forgot {name}.", name)
