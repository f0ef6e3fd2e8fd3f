"""docs/cli.md, as `script/docs` writes it from the commands themselves."""

import inspect
from collections.abc import Iterator
from typing import Any

from ringfence.cli.invocation import EVERYWHERE
from ringfence.cli.main import NOUNS, load
from ringfence.cli.problems import EXIT_CODES

OPENING = """\
# The command line

<!-- Written by `script/docs` from the commands themselves; a test compares them. -->

`ringfence NOUN VERB`: a task is made with `ringfence task create`. `ringfence --help`, `ringfence task --help` and
`ringfence task create --help` say the same as this page.

## Which server

A command goes to the first of these that is given:

1. `--url` (with `--token`), `--data` (the server that runs on that folder of this machine), `--context`;
2. `RINGFENCE_URL`, with `RINGFENCE_TOKEN`;
3. the current context: `ringfence login URL` or `ringfence config use-context NAME` choose it;
4. the server that runs on `RINGFENCE_DATA`, or on the default data folder: `/var/lib/ringfence` for root,
   `~/.local/share/ringfence` for everybody else.

On the machine where it runs nothing has to be set up: `ringfence up` leaves a token for its owner in
`DATA/run/server.json` and in the configuration folder (`RINGFENCE_CONFIG_DIR`, or `~/.config/ringfence`), which nobody
else can read. `RINGFENCE_CA` names a file of certificates to trust for `https://`.

## What is printed

On a terminal tables have colours, and leave out what is empty, or what the window has no room for; in a pipe they are
plain, aligned text with every column. `--json` prints one JSON document (for
`event tail` a line for each event), `--quiet` ids alone. Answers go to standard output, everything else to standard
error. Where an id is expected, its beginning or its end is enough, as long as only one thing has it; a project may be
named instead. What cannot be undone is asked back on a terminal, and refused in a pipe without `--yes`.

What agents wrote is printed with everything that a terminal would obey, or that the eye would not see, as visible
escapes such as `\\x1b` and `\\u202e`.

## In the background

`ringfence up --detach` returns when the server is healthy. Its log is `DATA/run/server.log`, of which three files of
10 MiB are kept. A server that dies is started again, on the same port, after 1 s, then 2 s, up to 30 s. SIGTERM lets
what is under way end; a second one does not.

## Exit codes

| code | meaning |
|---|---|
"""


def document() -> str:
    return OPENING + "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    for code, meaning in EXIT_CODES.items():
        yield f"| {code} | {meaning} |"
    first = load("status")
    yield "\n## Options of every command\n"
    yield from _options([one for one in first.params if getattr(one, "rich_help_panel", "") == EVERYWHERE])
    panel = ""
    for name, (_, its_panel, about) in NOUNS.items():
        if its_panel != panel:
            panel = its_panel
            yield f"\n## {panel}"
        command = load(name)
        verbs = getattr(command, "commands", None)
        if verbs is None:
            yield from _verb(f"ringfence {name}", command)
            continue
        yield f"\n### ringfence {name}\n\n{about}"
        for verb, its_command in verbs.items():
            yield from _verb(f"ringfence {name} {verb}", its_command)


def _verb(name: str, command: Any) -> Iterator[str]:
    own = [one for one in command.params if getattr(one, "rich_help_panel", "") != EVERYWHERE and one.name != "help"]
    arguments = [one for one in own if one.param_type_name == "argument"]
    shown = [_argument(one) for one in arguments]
    yield f"\n#### `{' '.join([name, *shown])}`\n\n{inspect.cleandoc(command.help or '')}"
    if own:
        yield ""
        for one, metavar in zip(arguments, shown, strict=True):
            if one.help:
                yield f"- `{metavar}`: {one.help}{_choices(one)}"
        yield from _options([one for one in own if one.param_type_name == "option"])


def _argument(one: Any) -> str:
    name = (one.metavar or one.name).upper() + ("..." if one.nargs == -1 else "")
    return name if one.required else f"[{name}]"


def _options(options: list[Any]) -> Iterator[str]:
    for one in options:
        names = ", ".join(f"`{name}`" for name in (*one.opts, *one.secondary_opts))
        default = "" if one.default in (None, "", False, ()) or one.required else f" [{one.default}]"
        yield f"- {names}: {one.help}{default}{_choices(one)}{' Required.' if one.required else ''}"


def _choices(one: Any) -> str:
    choices = one.type_descriptor.choices
    return f" One of {', '.join(f'`{choice}`' for choice in choices)}." if choices else ""
