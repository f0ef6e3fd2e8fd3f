"""One run of the command: where it goes, what it prints; and the options that every verb takes.

task = Noun("task", "Units of work on a board.")

@task.verb("list")
def list_tasks(run: Invocation, project: Annotated[str | None, Option()] = None) -> None:
    run.screen.items(run.api.every("/api/v1/tasks"), COLUMNS, none="no tasks")
"""

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

from ringfence.cli.api import Answer, Api, Json, path
from ringfence.cli.places import Place, Wanted
from ringfence.cli.problems import NotFound, Unreachable, Usage
from ringfence.cli.screen import Screen

EVERYWHERE = "Everywhere"
FULL_ID = re.compile("[a-z]{3}_[0-9a-hjkmnp-tv-z]{26}")


def before_noun(
    ctx: typer.Context,
    json: Annotated[bool | None, Option("--json", help="Print JSON.", rich_help_panel=EVERYWHERE)] = None,
    quiet: Annotated[
        bool | None, Option("--quiet", "-q", help="Print ids and errors only.", rich_help_panel=EVERYWHERE)
    ] = None,
    yes: Annotated[bool | None, Option("--yes", "-y", help="Do not ask back.", rich_help_panel=EVERYWHERE)] = None,
    no_color: Annotated[
        bool | None, Option("--no-color", help="No colour (as NO_COLOR=1).", rich_help_panel=EVERYWHERE)
    ] = None,
    url: Annotated[
        str | None, Option(help="The server's address (as RINGFENCE_URL).", rich_help_panel=EVERYWHERE)
    ] = None,
    token: Annotated[
        str | None,
        Option(help="Your token; RINGFENCE_TOKEN keeps it off the command line.", rich_help_panel=EVERYWHERE),
    ] = None,
    data: Annotated[
        Path | None, Option(help="The server that runs on this data folder.", rich_help_panel=EVERYWHERE)
    ] = None,
    context: Annotated[
        str | None, Option(help="A server of `ringfence config get-contexts`.", rich_help_panel=EVERYWHERE)
    ] = None,
) -> None:
    """Options that may stand before the noun, as well as after the verb."""
    given = (json, quiet, yes, no_color, url, token, data, context)
    ctx.obj = {parameter.name: value for parameter, value in zip(SHARED, given, strict=True)}


SHARED = list(inspect.signature(before_noun).parameters.values())[1:]


Told = str | Callable[[], str]


class Invocation:
    def __init__(self, given: dict[str, Any]) -> None:
        self._given = given
        self._api: Api | None = None
        self.wanted = Wanted(**{name: given.get(name) for name in ("url", "token", "data", "context")})
        self.screen = Screen(
            as_json=bool(given.get("json")),
            quiet=bool(given.get("quiet")),
            colour=not given.get("no_color"),
            yes=bool(given.get("yes")),
        )

    @functools.cached_property
    def place(self) -> Place:
        return self.wanted.place()

    @property
    def api(self) -> Api:
        if self._api is None:
            self._api = Api(self.place)
        return self._api

    def go_to(self, url: str | None = None, data: Path | None = None) -> None:
        """Another place than the shared options say."""
        self.wanted = Wanted(url=url, data=data, token=self.wanted.token)
        self.__dict__.pop("place", None)

    def close(self) -> None:
        if self._api is not None:
            self._api.close()

    # What a word on the command line stands for ---------------------------------------------------------------------

    def pick(self, word: str, items: Sequence[Json], what: str, name: str | None = None) -> Json:
        """The one item whose id is, or begins with, that word; or whose field `name` is."""
        exact = [item for item in items if item["id"] == word]
        named = [item for item in items if name is not None and item[name] == word]
        found = exact or named or [item for item in items if _abbreviates(word, item["id"])]
        if not found:
            raise NotFound(f"there is no {what} {word!r}")
        if len(found) > 1:
            shown = ", ".join(f"{item['id']}{' ' + repr(item[name]) if name else ''}" for item in found[:8])
            raise Usage(f"{word!r} may be any of {len(found)} {what}s: {shown}")
        return found[0]

    def project(self, word: str) -> str:
        """The id of the project that has this id or name, or whose id begins like this."""
        if FULL_ID.fullmatch(word):
            return word
        found: str = self.pick(word, self.api.every("/api/v1/projects"), "project", "name")["id"]
        return found

    def project_or_only(self, word: str | None) -> str:
        """The project that was named, or the only one there is."""
        if word is not None:
            return self.project(word)
        found = self.api.every("/api/v1/projects")
        if not found:
            raise NotFound("there is no project yet: make one with `ringfence project create NAME`")
        if len(found) > 1:
            names = ", ".join(repr(it["name"]) for it in found[:20])
            raise Usage(f"which project? Name it with --project: {names}")
        only: str = found[0]["id"]
        return only

    def find(self, word: str, what: str, url: str) -> Json:
        """The thing with this id among those at `url`, or the only one whose id begins or ends like this."""
        if FULL_ID.fullmatch(word):
            found: Json = self.api.get(url + path(word))
            return found
        return self.pick(word, self.api.every(url), what)

    def done(self, answer: Answer, sentence: Told, value: Told) -> None:
        """What a change came to; or that it waits for approval."""
        if (proposal := answer.proposal) is not None:
            which = proposal["id"]
            waits = f"This waits for a person's approval: `ringfence proposal approve {which}`"
            self.screen.done(answer.body, waits, which)
        else:
            self.screen.done(answer.body, _told(sentence), _told(value))

    def find_again(self) -> None:
        """The server may have come back at another address."""
        before = self.__dict__.pop("place", None)
        try:
            if self.place != before:
                self.close()
                self._api = None
        except Unreachable:
            self.place = before


def _abbreviates(word: str, full: str) -> bool:
    """`tsk_01`, `01`, or the end of it, by which ids of one day differ."""
    return full.startswith(word) or full.partition("_")[2].startswith(word) or (len(word) >= 4 and full.endswith(word))


def _told(text: Told) -> str:
    return text if isinstance(text, str) else text()


class ReaderGone(Exception):
    """Whoever read our output has had enough (`| head`)."""


Command = Callable[..., None]


class Noun:
    """A noun of the command line, and its verbs."""

    def __init__(self, name: str, about: str) -> None:
        self.app = typer.Typer(name=name, help=about, no_args_is_help=True, add_completion=False)

    def verb(self, name: str, **more: Any) -> Callable[[Command], Command]:
        return verb_of(self.app, name, **more)


def verb_of(app: typer.Typer, name: str, **more: Any) -> Callable[[Command], Command]:
    """Make a function of an Invocation and its own options a command, which takes the shared options too."""

    def register(function: Command) -> Command:
        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        taken = {parameter.name for parameter in own}
        added = [parameter for parameter in SHARED if parameter.name not in taken]

        def command(ctx: typer.Context, **given: Any) -> None:
            options = {parameter.name: given.pop(parameter.name) for parameter in added}
            before = ctx.find_root().obj or {}
            options = {key: before.get(key) if value is None else value for key, value in options.items()}
            if (data := before.get("data")) is not None and given.get("data", data) is None:
                given["data"] = data  # a command with a --data of its own
            invocation = Invocation(options)
            try:
                function(invocation, **given)
            except BrokenPipeError:
                raise ReaderGone from None
            finally:
                invocation.close()

        context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        keywords = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in (*own, *added)]
        command.__signature__ = inspect.Signature([context, *keywords])  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in (context, *keywords)}
        command.__doc__ = function.__doc__
        command.__name__ = function.__name__
        app.command(name, **more)(command)
        return function

    return register


def alone(name: str, **more: Any) -> Callable[[Command], typer.Typer]:
    """Make a function a command without a noun."""

    def register(function: Command) -> typer.Typer:
        app = typer.Typer(add_completion=False)
        verb_of(app, name, **more)(function)
        return app

    return register
