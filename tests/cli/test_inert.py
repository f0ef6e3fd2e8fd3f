"""What agents write stays text, wherever it is printed."""

import re
import unicodedata
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence.cli import inert
from tests.cli.conftest import Cli, Terminal

HOSTILE = (
    "\x1b]0;owned\x07 \x1b[2J\x1b[31mred\x1b[0m \x9b31m [red]markup[/red] [link=http://x]y[/link] :smile: "
    "\u202eexe.txt\u202c \u2066hidden\u2069 zero\u200bwidth \r\nover\rwritten \x08\x7f \ufeff \U000e0041 {curly} %s"
)
FORBIDDEN = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)


@given(st.text())
def test_a_line_is_one_line_that_is_all_seen(text: str) -> None:
    shown = inert.line(text)
    assert not FORBIDDEN.search(shown)
    assert "\n" not in shown
    assert not any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in shown)
    shown.encode()


@given(st.text())
def test_a_block_keeps_its_lines_and_nothing_else_that_acts(text: str) -> None:
    shown = inert.block(text)
    assert not FORBIDDEN.search(shown)
    assert shown.count("\n") == text.replace("\r\n", "\n").count("\n")


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E)))
def test_plain_text_is_left_alone(text: str) -> None:
    assert inert.line(text) == inert.block(text) == text


def test_scripts_and_emoji_are_left_alone() -> None:
    for text in ("Größe", "日本語", "שלום", "العربية", "नमस्ते", "👩\u200d🚀", "❤\ufe0f"):
        assert inert.line(text) == text


@pytest.fixture
def hostile(office: Cli) -> tuple[str, str]:
    """A project and a task in it, both written by somebody who hates terminals."""
    project = office.ok("project", "create", f"p {uuid.uuid4().hex[:6]} {HOSTILE}", "-q").strip()
    task = office.ok("task", "create", HOSTILE, "-p", project, "-d", HOSTILE, "--label", "a[bold]b", "-q").strip()
    office.ok("task", "comment", task, HOSTILE)
    office.ok("task", "move", task, "blocked", "--reason", HOSTILE)
    return project, task


def printed(project: str, task: str) -> list[list[str]]:
    return [
        ["project", "list"], ["project", "show", project], ["project", "board", project],
        ["task", "list", "-p", project],
        ["task", "show", task], ["task", "comments", task], ["task", "history", task], ["audit", "log", "-n", "20"],
        ["event", "tail", "-n", "20"], ["task", "delete", task], ["project", "delete", project],
    ]  # fmt: skip


def test_in_a_pipe_it_is_inert_in_text_and_in_json(office: Cli, hostile: tuple[str, str]) -> None:
    for words in printed(*hostile):
        for more in ([], ["--json"]):
            said = office(*words, *more)
            assert not FORBIDDEN.search(said.out + said.err), words
            assert "[red]" in said.out or "list" not in words, words


def test_on_a_terminal_only_our_own_colours_act(office: Cli, hostile: tuple[str, str]) -> None:
    for words in printed(*hostile):
        terminal = Terminal(office, *words, columns=400)
        if "delete" in words:
            terminal.see(r"\[y/N\] ")
            terminal.type("n\n")
        terminal.end()
        colours = re.compile("\x1b\\[[0-9;]*m")
        rest = colours.sub("", terminal.screen).replace("\r\n", "\n")
        assert not FORBIDDEN.search(rest), words
        if words[0] == "task" and words[1] in ("list", "show", "comments"):
            assert "[red]markup[/red]" in rest
            assert "\\x1b]0;owned" in rest
            assert "\\u202eexe.txt" in rest


def test_an_error_that_quotes_it_is_inert(office: Cli) -> None:
    said = office("task", "show", HOSTILE)
    assert said.code == 3
    assert not FORBIDDEN.search(said.err)
    assert said.err.count("\n") == 1
