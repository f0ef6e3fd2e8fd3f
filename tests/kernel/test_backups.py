"""Backups: whole though everything is at work, and nothing else is put back than what one holds."""

import asyncio
import contextlib
import io
import sqlite3
import tarfile
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from ringfence.kernel.auth.model import Role, TokenKind
from ringfence.kernel.backups import service
from ringfence.kernel.errors import Conflict, Invalid, RingfenceError, StorageFull
from ringfence.kernel.events.service import verify
from tests.harness import Ringfence, fill_up, running
from tests.kernel.wire import until


def restored(backup: bytes, folder: Path) -> int:
    folder.mkdir()
    return service.restore(io.BytesIO(backup), folder)


def leftovers(data: Path) -> list[Path]:
    return list(data.glob(f"{service.PREFIX}*"))


def test_a_backup_taken_while_eight_write_holds_all_that_was_acknowledged_before(
    server: Ringfence, tmp_path: Path
) -> None:
    project = server.admin.post("/api/v1/projects", json={"name": "p"}).json()["id"]
    acknowledged: dict[str, str] = {}
    stop = threading.Event()

    def write(number: int) -> None:
        with server.client(server.admin_token) as client:
            for count in range(10_000):
                name = f"{number}/{count}.txt"
                task = client.post(f"/api/v1/projects/{project}/tasks", json={"title": name})
                client.post(f"/api/v1/projects/{project}/files", files={"file": (name, name.encode() * 50)})
                if count % 3 == 2:
                    client.delete(f"/api/v1/projects/{project}/files/{number}/{count - 1}.txt")
                acknowledged[name] = task.json()["id"]
                if stop.is_set():
                    return

    writers = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for writer in writers:
        writer.start()
    until(lambda: len(acknowledged) > 40)
    before = dict(acknowledged)
    answer = server.admin.post("/api/v1/backup", timeout=60)
    stop.set()
    for writer in writers:
        writer.join()
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-tar")
    until(lambda: not leftovers(server.settings.data))
    assert restored(answer.content, tmp_path / "again") > 0
    with running(tmp_path / "again") as again:
        client = again.client(server.admin_token)  # the tokens are those of then
        tasks = {task["title"]: task["id"] for task in listed(client, f"/api/v1/projects/{project}/tasks")}
        assert before.items() <= tasks.items()
        for file in listed(client, f"/api/v1/projects/{project}/files"):
            content = client.get(f"/api/v1/projects/{project}/files/{file['filename']}").content
            assert content == file["filename"].encode() * 50
        assert asyncio.run_coroutine_threadsafe(verify(again.house.database), again.loop).result(20).ok


def listed(client: httpx.Client, path: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    cursor: str | None = ""
    while cursor is not None:
        page = client.get(path, params={"limit": "500", **({"cursor": cursor} if cursor else {})}).json()
        found += page["items"]
        cursor = page["next"]
    return found


def test_a_file_deleted_in_the_middle_is_in_the_backup_that_names_it(tmp_path: Path) -> None:
    """The files are linked before the database is copied and once more after. Here the copying has to wait."""
    old = tmp_path / "files" / "ab" / ("ab" + "0" * 62)
    new = old.with_name("ab" + "1" * 62)
    old.parent.mkdir(parents=True)
    old.write_bytes(b"x")
    with contextlib.closing(sqlite3.connect(tmp_path / "ringfence.db", isolation_level=None)) as writer:
        writer.execute("CREATE TABLE t (a)")
        writer.execute("BEGIN EXCLUSIVE")
        with ThreadPoolExecutor(1) as pool:
            taking = pool.submit(service.take, tmp_path)
            until(lambda: list(tmp_path.glob(f"{service.PREFIX}*/files/ab/{old.name}")))
            old.unlink()
            new.write_bytes(b"y")
            writer.execute("COMMIT")
            folder = taking.result(20)
    assert {path.name for path in folder.glob("files/??/*")} == {old.name, new.name}


def test_whoever_does_not_see_everything_makes_no_backup(server: Ringfence) -> None:
    project = server.admin.post("/api/v1/projects", json={"name": "p"}).json()["id"]
    limited = server.admin.post("/api/v1/tokens", json={"name": "s", "role": "admin", "projects": [project]}).json()
    server.agent("claude")
    tokens = [
        server.token("olga", Role.OPERATOR), server.token("claude", kind=TokenKind.AGENT), limited["token"],
    ]  # fmt: skip
    for token in tokens:
        assert server.client(token).post("/api/v1/backup").status_code == 403
    assert server.client().post("/api/v1/backup").status_code == 401
    assert leftovers(server.settings.data) == []


def test_a_backup_is_in_the_record_and_holds_that_it_was_made(server: Ringfence, tmp_path: Path) -> None:
    restored(server.admin.post("/api/v1/backup").content, tmp_path / "again")
    with sqlite3.connect(tmp_path / "again/ringfence.db") as connection:
        made = connection.execute("SELECT actor FROM events WHERE kind = 'backup_made'").fetchall()
    assert made == [("operator:admin",)]


def test_a_reader_who_leaves_in_the_middle_leaves_nothing_behind(server: Ringfence) -> None:
    project = server.admin.post("/api/v1/projects", json={"name": "p"}).json()["id"]
    for number in range(6):
        content = bytes([number]) * (8 << 20)
        server.admin.post(f"/api/v1/projects/{project}/files", files={"file": (f"{number}", content)})
    with server.admin.stream("POST", "/api/v1/backup") as answer:
        assert next(answer.iter_raw())
        assert leftovers(server.settings.data)
    until(lambda: not leftovers(server.settings.data))
    assert server.admin.post("/api/v1/backup").status_code == 200


def test_on_postgresql_it_says_what_to_use_instead(postgres_url: str, tmp_path: Path) -> None:
    with running(tmp_path / "data", database=postgres_url) as server:
        answer = server.admin.post("/api/v1/backup")
    assert answer.status_code == 409
    assert "pg_dump" in answer.json()["error"]


def test_a_backup_that_does_not_fit_is_told_and_leaves_nothing(small_disk: Path, template: Path) -> None:
    with running(small_disk / "data", template) as server:
        ballast = fill_up(small_disk)
        with pytest.raises(StorageFull, match="free some"):
            service.take(server.settings.data)
        assert leftovers(server.settings.data) == []
        ballast.unlink()
        assert server.admin.post("/api/v1/backup").status_code == 200


def test_what_a_killed_backup_left_is_swept(tmp_path: Path) -> None:
    (tmp_path / f"{service.PREFIX}old").mkdir()
    (tmp_path / "files").mkdir()
    service.sweep(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["files"]


# Putting back what is no backup ---------------------------------------------------------------------------------------


@pytest.fixture
def backup(server: Ringfence) -> bytes:
    project = server.admin.post("/api/v1/projects", json={"name": "p"}).json()["id"]
    server.admin.post(f"/api/v1/projects/{project}/files", files={"file": ("a", b"a" * 3000)})
    return server.admin.post("/api/v1/backup").content


NONE: Mapping[str, object] = {}
EMPTY = bytes(1024)  # a tar that holds nothing


def with_entry(backup: bytes, name: str, facts: Mapping[str, object] = NONE, content: bytes = b"x") -> bytes:
    """The backup with one more entry."""
    out = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(backup)) as old, tarfile.open(fileobj=out, mode="w") as new:
        for entry in old:
            new.addfile(entry, old.extractfile(entry))
        info = tarfile.TarInfo(name)
        info.size = len(content)
        for fact, value in facts.items():
            setattr(info, fact, value)
        new.addfile(info, io.BytesIO(content))
    return out.getvalue()


BLOB = "files/ab/" + "ab" + "0" * 62


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("../evil", {}), ("/etc/evil", {}), ("files/../../evil", {}), ("run/server.json", {}), ("files/ab/short", {}),
        (BLOB, {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd", "size": 0}), (BLOB, {}),
        ("ringfence.toml", {"type": tarfile.LNKTYPE, "linkname": "/etc/passwd", "size": 0}),
    ],
)  # fmt: skip
def test_what_a_backup_does_not_hold_is_refused(
    backup: bytes, name: str, facts: dict[str, object], tmp_path: Path
) -> None:
    with pytest.raises(Invalid, match=r"no backup|damaged"):
        restored(with_entry(backup, name, facts), tmp_path / "again")
    assert list((tmp_path / "again").iterdir()) == []
    assert not (tmp_path / "evil").exists()


def test_a_backup_that_was_cut_or_damaged_is_refused_whole(backup: bytes, tmp_path: Path) -> None:
    at = backup.index(b"a" * 3000)
    broken = [backup[:length] for length in (0, 100, 5000, at + 10)]
    broken += [backup[:at] + b"b" + backup[at + 1 :], b"no tar at all" * 100, with_entry(EMPTY, "ringfence.toml")]
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE t (a)")
    broken.append(with_entry(EMPTY, "ringfence.db", NONE, (tmp_path / "other.db").read_bytes()))
    for number, what in enumerate(broken):
        with pytest.raises(RingfenceError):
            restored(what, tmp_path / f"again{number}")
        assert list((tmp_path / f"again{number}").iterdir()) == []


def test_a_folder_that_holds_a_database_is_left_alone(backup: bytes, server: Ringfence) -> None:
    with pytest.raises(Conflict, match="holds a database already"):
        service.restore(io.BytesIO(backup), server.settings.data)
    assert server.admin.get("/api/v1/projects").json()["items"]


def test_a_backup_may_be_made_while_another_one_is_read(server: Ringfence) -> None:
    with server.admin.stream("POST", "/api/v1/backup") as first:
        next(first.iter_raw())
        started = time.monotonic()
        assert server.admin.post("/api/v1/backup").status_code == 200
        assert time.monotonic() - started < 20
