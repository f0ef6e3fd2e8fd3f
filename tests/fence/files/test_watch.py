"""What changes in a folder, as server-sent events."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.fence.conftest import until
from tests.fence.files.conftest import Box, refused


@contextmanager
def watching(box: Box, path: str = "/workspace", **query: object) -> Iterator[Iterator[tuple[str, dict[str, Any]]]]:
    with box.admin.stream("GET", box.url("files/watch", path, **query)) as answer:
        assert answer.status_code == 200, answer.read()
        lines = answer.iter_lines()
        assert next(lines) == ": watching"

        def changes() -> Iterator[tuple[str, dict[str, Any]]]:
            kind = ""
            for line in lines:
                if line.startswith("event: "):
                    kind = line[7:]
                elif line.startswith("data: "):
                    yield kind, json.loads(line[6:])

        yield changes()


def first(changes: Iterator[tuple[str, dict[str, Any]]], kind: str, path: str) -> dict[str, Any]:
    return next(told for said, told in changes if (said, told["path"]) == (kind, path))


def test_changes_are_told_as_they_happen(box: Box) -> None:
    with watching(box) as changes:
        box.shell("cd /workspace; echo x >a; mkdir d; mv a b; chmod 600 b; rm b; echo y >d/unseen; touch end")
        told: list[tuple[str, str]] = []
        for kind, change in changes:
            told.append((kind, change["path"]))
            if change["path"] == "end":
                break
    assert [one for one in told if one[0] != "written"] == [
        ("created", "a"), ("created", "d"), ("moved", "a"), ("attributes", "b"), ("removed", "b"), ("created", "end"),
    ]  # fmt: skip
    assert ("written", "a") in told


def test_a_tree_is_watched_with_folders_that_come(box: Box) -> None:
    box.shell("mkdir -p /workspace/one/two")
    with watching(box, recursive=True) as changes:
        box.shell("cd /workspace; mkdir -p new/deep; echo x >new/deep/file; mv one/two moved; echo y >moved/z")
        assert first(changes, "created", "new")["directory"] is True
        assert first(changes, "moved", "one/two")["to"] == "moved"
        first(changes, "created", "moved/z")


def test_what_was_too_much_to_tell_is_told_to_be_lost(box: Box) -> None:
    with watching(box) as changes:
        box.shell(
            "cd /workspace; python3 -c \"\nfor i in range(100000):\n open('a','w').close()\n open('b','w').close()\""
        )
        assert any(kind == "lost" for kind, _ in changes)
    assert box.shell("echo still here") == "still here\n"


def test_names_that_are_no_text_are_told_in_base64(box: Box) -> None:
    with watching(box) as changes:
        box.write(b"/workspace/\xff\n", b"x")
        told = next(change for kind, change in changes if kind == "moved")
        assert told["to_base64"] == "/wo="


def test_a_watch_of_nothing_is_refused_and_one_that_nobody_reads_ends(box: Box) -> None:
    refused(box.admin.get(box.url("files/watch", "nothing")), 404, "no_such_file")
    with watching(box, recursive=True):
        assert box.acts() == 1
    until(lambda: not box.acts(), "it has ended")


def test_a_watch_ends_with_its_folder(box: Box) -> None:
    box.mkdir("d")
    with watching(box, "d") as changes:
        box.remove("d")
        assert [kind for kind, _ in changes] == ["removed"]
