"""What is logged, and what must never be."""

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from ringfence.kernel import logs
from ringfence.settings import Settings


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    found = logging.getLogger()
    handlers, level = found.handlers[:], found.level
    yield found
    found.handlers[:] = handlers
    found.setLevel(level)


def written(root: logging.Logger, log_format: str, log_level: str = "info") -> io.StringIO:
    logs.configure(
        Settings.model_validate({"data": Path("/nonexistent"), "log_format": log_format, "log_level": log_level})
    )
    (handler,) = root.handlers
    assert isinstance(handler, logging.StreamHandler)
    handler.setStream(io.StringIO())
    stream: io.StringIO = handler.stream
    return stream


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_an_error_is_logged_without_the_values_it_met(root: logging.Logger, log_format: str) -> None:
    stream, secret = written(root, log_format), uuid4().hex

    def fails(secret: str) -> None:
        raise ZeroDivisionError("boom")

    try:
        fails(secret)
    except ZeroDivisionError:
        logging.getLogger("ringfence.http").exception("unexpected", extra={"request_id": "req_1"})
    assert "boom" in stream.getvalue()
    assert "req_1" in stream.getvalue()
    assert secret not in stream.getvalue()


def test_a_line_of_json_is_one_line_whatever_is_in_it(root: logging.Logger) -> None:
    stream = written(root, "json")
    logging.getLogger("ringfence").info("two\nlines", extra={"path": '/a"\n\x1b[31m\u2028'})
    (line,) = stream.getvalue().strip().split("\n")
    assert json.loads(line)["path"] == '/a"\n\x1b[31m\u2028'


def test_a_path_cannot_paint_on_the_terminal(root: logging.Logger) -> None:
    stream = written(root, "console")
    logging.getLogger("ringfence").info("request", extra={"path": "/\x1b]0;owned\x07\x1b[2J\u202e\x9b31m"})
    for sign in ("\x1b]0;", "\x07", "\x1b[2J", "\u202e", "\x9b"):
        assert sign not in stream.getvalue()


def test_the_level_is_kept_to(root: logging.Logger) -> None:
    stream = written(root, "json", "warning")
    logging.getLogger("ringfence").info("no")
    logging.getLogger("uvicorn.error").info("no")
    logging.getLogger("ringfence").warning("yes")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["yes"]
