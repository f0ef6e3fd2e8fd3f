"""On a terminal: colour, asking back, the width of the window."""

import re
import uuid

import pytest

from ringfence.cli.screen import Screen
from tests.cli.conftest import Cli, Terminal

COLOUR = re.compile("\x1b\\[[0-9;]*m")


@pytest.fixture
def task(office: Cli) -> str:
    project = office.api("POST", "/api/v1/projects", name=f"t-{uuid.uuid4().hex[:8]}")["id"]
    told = {"title": "Paint the fence " * 20, "status": "ready", "priority": "P0"}
    return str(office.api("POST", f"/api/v1/projects/{project}/tasks", **told)["id"])


def show(cli: Cli, *words: str, columns: int = 120) -> str:
    terminal = Terminal(cli, *words, columns=columns)
    assert terminal.end() == 0
    return terminal.screen


def test_a_table_has_colour_on_a_terminal_and_none_in_a_pipe(office: Cli, task: str) -> None:
    screen = show(office, "task", "list")
    assert COLOUR.search(screen)
    assert "\x1b[36mready" in screen
    assert not COLOUR.search(office.ok("task", "list"))


@pytest.mark.parametrize(("words", "env"), [(["--no-color"], {}), ([], {"NO_COLOR": "1"}), ([], {"TERM": "dumb"})])
def test_colour_can_be_turned_off(office: Cli, task: str, words: list[str], env: dict[str, str]) -> None:
    plain = Cli(office.home, **env)
    plain.env |= env
    screen = show(plain, "task", "list", *words)
    assert not re.search("\x1b\\[[0-9;]*3[0-7]m", screen)
    assert task in screen


def test_a_narrow_window_wraps_titles_and_never_ids(office: Cli, task: str) -> None:
    screen = COLOUR.sub("", show(office, "task", "list", columns=90))
    assert task in screen
    assert all(len(line) <= 90 for line in screen.replace("\r", "").split("\n"))
    assert screen.count("Paint") >= 20  # wrapped into the room there is
    assert "Paint the fence " * 20 in office.ok("task", "show", task)


@pytest.mark.parametrize(("answer", "code", "left"), [("n", 1, True), ("", 1, True), ("y", 0, False)])
def test_what_cannot_be_undone_is_asked_back(office: Cli, task: str, answer: str, code: int, left: bool) -> None:
    terminal = Terminal(office, "task", "delete", task)
    terminal.see(r"Delete .*\? \[y/N\] ")
    terminal.type(answer + "\n")
    assert terminal.end() == code
    assert (office("task", "show", task).code == 0) is left


def test_an_interrupt_at_the_question_leaves_it(office: Cli, task: str) -> None:
    terminal = Terminal(office, "task", "delete", task)
    terminal.see(r"\[y/N\] ")
    terminal.type("\x03")
    assert terminal.end() == 130
    assert office("task", "show", task).code == 0


def test_help_on_a_terminal_is_drawn(office: Cli) -> None:
    assert "╭" in show(office, "task", "--help")


def test_a_board_is_drawn_in_columns(office: Cli, task: str) -> None:
    project = office.json("task", "show", task)["project_id"]
    screen = show(office, "project", "board", project, columns=200)
    assert "ready 1" in screen
    assert "P0 Paint the fence" in screen
    assert "priority: P0" in show(office, "project", "board", project, "--lanes", "priority")


def test_up_on_a_terminal_is_ended_by_one_ctrl_c(cli: Cli) -> None:
    terminal = Terminal(cli, "up", "--port", "0", columns=200)
    terminal.see("Stop it: +Ctrl-C")
    cli.ok("agent", "register", "one")
    terminal.type("\x03")
    assert terminal.end() == 0
    assert "stopping" in terminal.screen
    assert "at once" not in terminal.screen
    assert "Traceback" not in terminal.screen


def test_wide_characters_keep_columns_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    from ringfence.cli.screen import Column

    items = [{"a": "日本", "b": "x"}, {"a": "abcd", "b": "y"}]
    Screen().items(items, [Column("a", "a"), Column("b", "b")], "")
    assert capsys.readouterr().out == "A     B\n日本  x\nabcd  y\n"
