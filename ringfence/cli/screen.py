"""What a command prints: a table with colour on a terminal, aligned text in a pipe, or JSON.

Everything goes through `inert`, and nothing is read as rich markup.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

from ringfence.cli import inert
from ringfence.cli.problems import Problem, Usage

if TYPE_CHECKING:
    from rich.console import Console

Item = Mapping[str, Any]

STYLES = {
    # tasks
    "backlog": "dim", "ready": "cyan", "in_progress": "yellow", "in_review": "magenta", "blocked": "red",
    "done": "green",
    "P0": "bold red", "P1": "yellow", "P3": "dim",
    # agents
    "online": "green", "busy": "yellow", "stale": "yellow", "stalled": "red", "offline": "dim", "revoked": "bold red",
    "fully_autonomous": "green", "advisory": "yellow", "manual": "cyan",
    # proposals
    "pending": "yellow", "approved": "green", "denied": "red", "failed": "red", "withdrawn": "dim", "expired": "dim",
    # sandboxes
    "creating": "cyan", "running": "green", "paused": "yellow", "stopped": "dim", "lost": "red", "destroyed": "dim",
    # checks
    "pass": "green", "fail": "bold red", "warn": "yellow", "skip": "dim", "missing": "bold red", "warning": "yellow",
    # people and tokens
    "admin": "bold", "viewer": "dim", "disabled": "red", "ok": "green",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, how its text is made of an item, and how the text looks."""

    heading: str
    text: str | Callable[[Item], object]  # a field's name, or a function of the item
    style: str = ""
    right: bool = False
    whole: bool = False  # never shortened: an id, a name
    prose: bool = False  # wrapped into the room that is left: a title, a reason

    def of(self, item: Item) -> str:
        found = item.get(self.text) if isinstance(self.text, str) else self.text(item)
        return inert.line(plain(found))


def plain(value: object) -> str:
    match value:
        case None | "" | []:
            return "-"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g}"
        case list() | tuple():
            return ", ".join(plain(one) for one in value)
        case dict():
            return json.dumps(value, ensure_ascii=False)
    return str(value)


def when(field: str) -> Callable[[Item], str]:
    """A moment as this machine's people read it, to the minute."""
    return lambda item: moment(item.get(field))


def moment(text: object, *, seconds: bool = False) -> str:
    if not isinstance(text, str) or not text:
        return "-"
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return text
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    return found.astimezone().strftime("%Y-%m-%d %H:%M:%S" if seconds else "%Y-%m-%d %H:%M")


class Screen:
    def __init__(self, *, as_json: bool = False, quiet: bool = False, colour: bool = True, yes: bool = False) -> None:
        self.as_json = as_json
        self.quiet = quiet
        self.yes = yes
        self._colour = colour and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self.is_terminal = sys.stdout.isatty()

    # Answers --------------------------------------------------------------------------------------------------------

    def items(self, items: Sequence[Item], columns: Sequence[Column], none: str) -> None:
        """A list: one JSON document, or a table."""
        if self.as_json:
            self.json(list(items))
        elif self.quiet:
            for item in items:
                self.text(columns[0].of(item))
        elif not items:
            self.note(none)
        elif self.is_terminal:
            self._table(items, columns)
        else:
            self._aligned(items, columns)

    def facts(self, item: Item, columns: Sequence[Column], body: str | None = None) -> None:
        """One thing: JSON, or a line for each of its facts, and a text below."""
        if self.as_json:
            self.json(item)
            return
        width = max(len(column.heading) for column in columns)
        for column in columns:
            text = column.of(item)
            if text != "-" or self.is_terminal:
                self._line(f"{column.heading:<{width}}  ", text, column.style or STYLES.get(text, ""))
        if body:
            self.text("")
            self.text(inert.block(body).rstrip("\n"))

    def done(self, answer: object, sentence: str, value: str | None = None) -> None:
        """What a change came to: JSON, or a sentence; with --quiet only its `value`, such as an id."""
        if self.as_json:
            self.json(answer)
        elif not self.quiet:
            self.text(inert.block(sentence))
        elif value is not None:
            self.text(inert.line(value))

    def json(self, document: object) -> None:
        # ASCII: nothing in it that a terminal or an eye could take for something else.
        self.text(json.dumps(document, indent=2))

    def json_line(self, document: object) -> None:
        self.text(json.dumps(document, separators=(",", ":")))

    def text(self, text: str) -> None:
        """Text that is inert already."""
        print(text, flush=True)

    def feed_line(self, number: str, when: str, kind: str, actor: str, details: str) -> None:
        """An event of the feed; its texts are inert already."""
        if not self.is_terminal:
            self.text(f"{number}  {when}  {kind}  {actor}  {details}".rstrip())
            return
        from rich.text import Text

        told = Text.assemble((f"{number}  {when}  ", "dim"), (kind, "bold cyan"), f"  {actor}  ", (details, "dim"))
        self._console().print(told, soft_wrap=True)

    def _line(self, label: str, text: str, style: str) -> None:
        if not self.is_terminal:
            self.text(label + text)
            return
        from rich.text import Text

        self._console().print(Text.assemble((label, "dim"), (text, style)), soft_wrap=True)

    def _table(self, items: Sequence[Item], columns: Sequence[Column]) -> None:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        console = self._console()
        table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, show_edge=False)
        columns = _fitting(items, columns, console.width)
        for column in columns:
            table.add_column(
                column.heading,
                justify="right" if column.right else "left",
                no_wrap=not column.prose,
                overflow="fold" if column.whole or column.prose else "ellipsis",
                min_width=_least(items, column),
            )
        for item in items:
            texts = [column.of(item) for column in columns]
            table.add_row(
                *(
                    Text(text, column.style or STYLES.get(text, "dim" if text == "-" else ""))
                    for text, column in zip(texts, columns, strict=True)
                )
            )
        console.print(table)

    def _aligned(self, items: Sequence[Item], columns: Sequence[Column]) -> None:
        rows = [[column.heading.upper() for column in columns]]
        rows += [[column.of(item) for column in columns] for item in items]
        widths = [max(map(_cells, column)) for column in zip(*rows, strict=True)]
        lines = []
        for row in rows:
            padded = [
                " " * (width - _cells(text)) + text if column.right else text + " " * (width - _cells(text))
                for text, width, column in zip(row, widths, columns, strict=True)
            ]
            lines.append("  ".join(padded).rstrip())
        self.text("\n".join(lines))

    def _console(self) -> "Console":
        from rich.console import Console

        return Console(markup=False, highlight=False, emoji=False, no_color=not self._colour)

    # Beside the answer ----------------------------------------------------------------------------------------------

    def note(self, sentence: str) -> None:
        """For the reader, not for a program: on standard error."""
        if not self.quiet:
            say(sys.stderr, sentence)

    def sending(self, chunks: Iterator[bytes], size: int, what: str) -> Iterator[bytes]:
        """The same chunks; people see how far they are."""
        if self.as_json or self.quiet or not sys.stderr.isatty():
            yield from chunks
            return
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task(inert.line(what), total=size)
            for chunk in chunks:
                yield chunk
                progress.advance(task, len(chunk))

    def confirm(self, question: str) -> None:
        """Go on only if the reader wants it. In a pipe nobody can be asked."""
        if self.yes:
            return
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise Usage(f"{inert.line(question)} Nobody can be asked here: repeat with --yes")
        sys.stderr.write(f"{inert.line(question)} [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise Problem("left as it was")


def say(stream: TextIO, sentence: str) -> None:
    try:
        print(inert.block(sentence), file=stream, flush=True)
    except BrokenPipeError:
        raise
    except OSError:
        pass


PROSE = 20  # cells that a wrapped text needs at least
BETWEEN = 3


def _fitting(items: Sequence[Item], columns: Sequence[Column], room: int) -> list[Column]:
    """The columns in which something stands; where the window is too narrow for them, without the last ones."""
    shown = [column for column in columns if any(column.of(item) != "-" for item in items)]
    for last in [column for column in reversed(shown) if not (column.whole or column.prose)]:
        if sum(_least(items, column) + BETWEEN for column in shown) - BETWEEN <= room:
            break
        shown.remove(last)
    return shown


def _least(items: Sequence[Item], column: Column) -> int:
    """The width under which it could not be read."""
    natural = max(_cells(text) for text in (column.heading, *(column.of(item) for item in items)))
    return min(natural, PROSE) if column.prose else natural


def _cells(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
