"""Files of projects and attachments of tasks."""

import hashlib
import os
import resource
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from ringfence.board.files import PIECE, Blobs
from ringfence.kernel.errors import StorageFull
from tests.board.conftest import Project, refused
from tests.board.test_projects import pages
from tests.harness import Ringfence, running

MIB = 1 << 20


def upload(project: Project, name: str, content: bytes, by: Any = None, **data: str) -> httpx.Response:
    return project.client(by).post(f"{project.path}/files", files={"file": (name, content)}, data=data)


def download(project: Project, name: str, by: Any = None) -> httpx.Response:
    return project.client(by).get(f"{project.path}/files/{name}")


def listed(project: Project) -> dict[str, Any]:
    return dict(project.admin.get(project.path).json()["files"])


def blobs(server: Ringfence) -> dict[str, Path]:
    return {path.name: path for path in (server.settings.data / "files").glob("*/*") if path.is_file()}


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def backdate(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_a_file_goes_up_and_comes_down_as_documented(project: Project):
    content = bytes(range(256)) * 300
    answer = upload(project, "data.bin", content)
    assert answer.status_code == 200
    assert answer.json() == {"filename": "data.bin", "checksum": sha(content), "size": len(content)}
    facts = listed(project)["data.bin"]
    assert (facts["checksum"], facts["size"], facts["uploader"]) == (sha(content), len(content), "admin")
    down = download(project, "data.bin")
    assert down.content == content
    assert down.headers["content-type"] == "application/octet-stream"
    assert down.headers["content-disposition"] == 'attachment; filename="data.bin"'
    v1 = project.admin.post(f"/api/v1{project.path}/files", files={"file": ("v1.bin", b"")})
    assert (v1.status_code, v1.json()["size"]) == (201, 0)
    assert download(project, "v1.bin").content == b""


def test_ten_mebibytes_are_taken_and_one_byte_more_is_not(project: Project):
    content = os.urandom(10 * MIB)
    assert upload(project, "full.bin", content).status_code == 200
    assert download(project, "full.bin").content == content
    before = blobs(project.server)
    for size in (10 * MIB + 1, 11 * MIB):
        problem = refused(upload(project, "more.bin", b"x" * size), 400, "file_too_large")
        assert problem["error"] == "File too large (max 10485760 bytes)"
    v1 = project.admin.post(f"/api/v1{project.path}/files", files={"file": ("more.bin", b"x" * (10 * MIB + 1))})
    refused(v1, 413, "file_too_large")
    assert "more.bin" not in listed(project)
    assert blobs(project.server) == before


def test_an_upload_that_does_not_end_is_refused_and_not_kept(project: Project):
    def body() -> Iterator[bytes]:
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'
        for _ in range(40):
            yield b"x" * MIB

    before = blobs(project.server)
    headers = {"content-type": "multipart/form-data; boundary=b"}
    answer = project.admin.post(f"{project.path}/files", content=body(), headers=headers)
    refused(answer, 400, "file_too_large")
    assert listed(project) == {}
    assert blobs(project.server) == before


@pytest.mark.parametrize(
    "name",
    [
        "../x", "a/../../x", "/etc/passwd", "//etc/passwd", "a//b", "./a", "a/./b", "..", ".", "a/", "a\\b", "a b",
        "é", "a:b", "x" * 256, "a/..", "%2e%2e/x", "~/x", "a\tb", "a;b", "..a", "con\u202e",
    ],
)  # fmt: skip
def test_a_name_that_leads_out_or_is_odd_is_refused(name: str, project: Project):
    before = blobs(project.server)
    refused(upload(project, name, b"evil content " + name.encode()), 400, "invalid_filename")
    assert listed(project) == {}
    assert blobs(project.server) == before


@pytest.mark.parametrize("name", ["..%2f..%2fringfence.db", "%2e%2e/%2e%2e/ringfence.db", "%2fetc%2fpasswd", "", "%00"])
def test_nothing_outside_is_downloaded(name: str, project: Project):
    for prefix in ("", "/api/v1"):
        answer = project.admin.get(f"{prefix}{project.path}/files/{name}")
        assert answer.status_code == 404, answer.text
        assert answer.headers["content-type"] == "application/problem+json"


def test_a_name_with_slashes_makes_the_round_trip(project: Project):
    for name in ("src/app/main.py", "src/app.py", "a-b_c.d/e", "1"):
        assert upload(project, name, name.encode()).status_code == 200
        assert download(project, name).content == name.encode()
    items = project.admin.get(f"/api/v1{project.path}/files").json()["items"]
    assert [item["filename"] for item in items] == sorted(["src/app/main.py", "src/app.py", "a-b_c.d/e", "1"])
    assert project.admin.delete(f"{project.path}/files/src/app/main.py").status_code == 200
    assert download(project, "src/app/main.py").status_code == 404
    assert download(project, "src/app.py").status_code == 200


def test_the_same_name_replaces_the_file(project: Project):
    upload(project, "a.txt", b"first")
    upload(project, "a.txt", b"second")
    assert download(project, "a.txt").content == b"second"
    assert len(listed(project)) == 1


def test_files_are_listed_in_pages(project: Project):
    names = [f"{number:02}.txt" for number in range(7)]
    for name in names:
        upload(project, name, b"x")
    found = [item["filename"] for item in pages(project.admin, f"/api/v1{project.path}/files", 3)]
    assert found == names


def test_a_damaged_file_is_told_and_mended_by_uploading_it_again(project: Project):
    content = os.urandom(1000)
    upload(project, "a.bin", content)
    path = blobs(project.server)[sha(content)]
    path.write_bytes(content[:-1] + b"?")
    problem = refused(download(project, "a.bin"), 404, "checksum_mismatch")
    assert problem["error"].startswith("Checksum mismatch")
    upload(project, "a.bin", content)
    assert download(project, "a.bin").content == content
    path.unlink()
    refused(download(project, "a.bin"), 404, "content_missing")
    upload(project, "a.bin", content)
    assert download(project, "a.bin").content == content


def test_two_projects_with_the_same_content_do_not_lose_it_to_each_other(project: Project):
    other = Project(project.server)
    content = os.urandom(100)
    upload(project, "a", content)
    upload(other, "b", content)
    backdate(blobs(project.server)[sha(content)], 10_000)
    assert project.admin.delete(project.path).status_code == 200
    assert download(other, "b").content == content
    backdate(blobs(project.server)[sha(content)], 10_000)
    assert other.admin.delete(other.path).status_code == 200
    assert sha(content) not in blobs(project.server)


def test_who_may_delete_a_file(project: Project):
    owner, other = project.agent(), project.agent()
    upload(project, "a.txt", b"x", owner)
    refused(other.client.delete(f"{project.path}/files/a.txt"), 403, "forbidden")
    assert owner.client.delete(f"{project.path}/files/a.txt").status_code == 200
    assert owner.client.delete(f"{project.path}/files/a.txt").status_code == 404
    upload(project, "b.txt", b"x", owner)
    assert project.admin.delete(f"{project.path}/files/b.txt").status_code == 200
    kinds = [event["kind"] for event in project.events() if event["kind"].startswith("file_")]
    assert kinds == ["file_uploaded", "file_deleted"] * 2


def test_an_upload_for_an_agent_is_recorded_with_both_names(project: Project):
    agent = project.agent()
    assert upload(project, "a.txt", b"x", uploader=agent.name).status_code == 200
    assert listed(project)["a.txt"]["uploader"] == agent.name
    told = [event for event in project.events() if event["kind"] == "file_uploaded"][-1]
    assert (told["actor"], told["via"]) == (f"agent:{agent.name}", "operator:admin")
    refused(upload(project, "b.txt", b"x", uploader="no name \n"), 400, "invalid_name")
    assert upload(project, "c.txt", b"x", agent, uploader=agent.name).status_code == 200


def test_attachments_belong_to_their_task(project: Project):
    task, other = project.task(), project.task()
    url = f"/api/v1{project.path}/tasks/{task}/attachments"
    made = project.admin.post(url, files={"file": ("log/out.txt", b"hello")})
    assert made.status_code == 201, made.text
    assert project.admin.get(f"{url}/log/out.txt").content == b"hello"
    assert [item["filename"] for item in project.admin.get(url).json()["items"]] == ["log/out.txt"]
    assert listed(project) == {}
    assert project.admin.get(f"/api/v1{project.path}/tasks/{other}/attachments").json()["items"] == []
    assert project.admin.get(f"/api/v1{project.path}/tasks/{other}/attachments/log/out.txt").status_code == 404
    elsewhere = Project(project.server)
    assert project.admin.get(f"/api/v1{elsewhere.path}/tasks/{task}/attachments").status_code == 404
    assert project.admin.post(f"/api/v1{elsewhere.path}/tasks/{task}/attachments",
                              files={"file": ("x", b"x")}).status_code == 404  # fmt: skip
    backdate(blobs(project.server)[sha(b"hello")], 10_000)
    assert project.admin.delete(f"{project.path}/tasks/{task}").status_code == 200
    assert project.admin.get(url).status_code == 404
    assert sha(b"hello") not in blobs(project.server)


# What is no upload ----------------------------------------------------------------------------------------------------

FILE = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nhello\r\n'


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", b"{}"),
        ("", b""),
        ("multipart/form-data", FILE + b"--b--\r\n"),
        ("multipart/form-data; boundary=b", b""),
        ("multipart/form-data; boundary=b", b"hello"),
        ("multipart/form-data; boundary=other", FILE + b"--b--\r\n"),
        ("multipart/form-data; boundary=b", FILE.replace(b'name="file"', b'name="data"') + b"--b--\r\n"),
        ("multipart/form-data; boundary=b", FILE.replace(b'; filename="a.txt"', b"") + b"--b--\r\n"),
        ("multipart/form-data; boundary=b", FILE.replace(b'"a.txt"', b'""') + b"--b--\r\n"),
        ("multipart/form-data; boundary=b", FILE.replace(b'"a.txt"', b'"a\0.txt"') + b"--b--\r\n"),
        ("multipart/form-data; boundary=b", FILE.replace(b'"a.txt"', b'"\xff\xfe.txt"') + b"--b--\r\n"),
        ("multipart/form-data; boundary=b", FILE * 2 + b"--b--\r\n"),
        ("multipart/form-data; boundary=b", FILE + FILE.replace(b'"file"', b'"uploader"') + b"--b--\r\n"),
        (
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="x"\r\n\r\ny\r\n' * 9 + FILE + b"--b--\r\n",
        ),
        ("multipart/form-data; boundary=b", b"--b\r\n" + b"X: y\r\n" * 5000 + b"\r\nhello\r\n--b--\r\n"),
        ("multipart/form-data; boundary=b", b"--b\r\nX: " + b"y" * MIB + b"\r\n\r\nhello\r\n--b--\r\n"),
        ("multipart/form-data; boundary=" + "b" * 300, b"--" + b"b" * 300 + b"\r\n\r\n\r\n"),
        ("multipart/form-data; boundary=\xff", FILE),
    ],
)  # fmt: skip
def test_what_is_no_upload_is_refused_and_keeps_nothing(kind: str, body: bytes, project: Project):
    before = blobs(project.server)
    headers = [(b"content-type", kind.encode("latin-1"))] if kind else []
    answer = project.admin.post(f"{project.path}/files", content=body, headers=headers)
    assert 400 <= answer.status_code < 500, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert listed(project) == {}
    assert blobs(project.server) == before


def test_an_upload_that_stops_in_the_middle_keeps_nothing(project: Project):
    headers = {"content-type": "multipart/form-data; boundary=b", "content-length": "100000"}

    def body() -> Iterator[bytes]:
        for part in (FILE, None):
            if part is None:
                raise ConnectionAbortedError
            yield part

    with pytest.raises(ConnectionAbortedError):
        project.admin.post(f"{project.path}/files", content=body(), headers=headers)
    assert listed(project) == {}


def test_an_upload_to_where_nothing_is_keeps_nothing(project: Project):
    before = blobs(project.server)
    content = os.urandom(50)
    answer = project.admin.post("/projects/prj_none/files", files={"file": ("a", content)})
    assert answer.status_code == 400
    assert project.admin.post("/api/v1/projects/prj_none/files", files={"file": ("a", content)}).status_code == 404
    assert blobs(project.server) == before


def test_a_repeated_upload_with_its_key_happens_once(project: Project):
    headers = {"idempotency-key": "upload-1"}
    url = f"{project.path}/files"
    first = project.admin.post(url, files={"file": ("a", b"one")}, headers=headers)
    again = project.admin.post(url, files={"file": ("a", b"one")}, headers=headers)  # with another boundary
    assert first.json() == again.json()
    assert again.headers["idempotency-replayed"] == "true"
    refused(project.admin.post(url, files={"file": ("a", b"two")}, headers=headers), 409, "idempotency_key_reused")
    assert [event["kind"] for event in project.events()].count("file_uploaded") == 1


# The disk -------------------------------------------------------------------------------------------------------------


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    """As on a full disk: writing further fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_where_that_is_asked_for_agents_upload_no_text_with_links(tmp_path: Path, template: Path):
    with running(tmp_path, template, link_filter_files=True) as server:
        project = Project(server)
        agent = project.agent()

        padding = "print(value)\n" * 20_000
        for edge in range(PIECE - 30, PIECE + 1, 10):  # also where one piece ends and the next begins
            text = f"{padding[:edge]} http://evil.technology/x {padding[:edge]}"
            refused(upload(project, "a.txt", text.encode(), agent), 400, "external_link")
        assert upload(project, "code.py", padding.encode(), agent).status_code == 200
        assert upload(project, "binary", b"\xff\xfe http://evil.com", agent).status_code == 200
        assert upload(project, "a.txt", b"http://example.com").status_code == 200


def test_a_long_text_is_judged_beside_everybody_else(tmp_path: Path, template: Path):
    with running(tmp_path, template, link_filter_files=True) as server:
        project = Project(server)
        agent = project.agent()
        text = ("The quick brown fox. It jumps e.g. over a[0] = b. " * 200_000)[: 10 << 20].encode()
        with ThreadPoolExecutor(1) as pool:
            uploading = pool.submit(upload, project, "long.txt", text, agent)
            began = time.monotonic()
            waited = [0.0]
            while not uploading.done():
                asked = time.monotonic()
                project.task()
                waited.append(time.monotonic() - asked)
            took = time.monotonic() - began
        assert uploading.result().status_code == 200
        assert len(waited) > 10
        assert max(waited) < took / 2, "a write waited for the judging of a text"


def test_a_full_disk_leaves_nothing_half_written(fresh: Ringfence):
    project = Project(fresh)
    upload(project, "old.bin", b"old")
    content = os.urandom(9 * MIB)
    before = blobs(fresh)
    with files_no_larger_than(6 * MIB):
        answer = upload(project, "new.bin", content)
        refused(answer, 507, "storage_full")
        refused(upload(project, "old.bin", content), 507, "storage_full")
    assert blobs(fresh) == before
    assert set(listed(project)) == {"old.bin"}
    assert download(project, "old.bin").content == b"old"
    assert upload(project, "new.bin", content).status_code == 200
    assert download(project, "new.bin").content == content


def test_a_blob_that_cannot_be_written_whole_is_not_there(tmp_path: Path):
    store = Blobs(tmp_path / "files")
    with files_no_larger_than(MIB), pytest.raises(StorageFull):
        store.put(os.urandom(2 * MIB))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_the_sweep_removes_what_nothing_names_and_nothing_else(project: Project):
    upload(project, "named", b"named content")
    upload(project, "replaced", b"first content")
    upload(project, "replaced", b"second content")
    store = project.server.house.board.blobs
    store.put(b"on its way to its row")
    found = blobs(project.server)
    aside = found[sha(b"named content")].parent / ".tmp_left"
    aside.write_bytes(b"cut off")
    for content in (b"named content", b"first content", b"second content"):
        backdate(found[sha(content)], 10_000)
    backdate(aside, 10_000)
    project.server.write(store.sweep)
    left = blobs(project.server)
    assert sha(b"first content") not in left
    assert aside.name not in left
    assert {sha(content) for content in (b"named content", b"second content", b"on its way to its row")} <= set(left)


@pytest.mark.parametrize("how", ["remove", "sweep"])
def test_content_uploaded_while_it_is_removed_is_kept(how: str, project: Project):
    store: Blobs = project.server.house.board.blobs
    content = f"raced by {how}".encode()
    path = project.server.settings.data / "files" / sha(content)[:2] / sha(content)
    removing: dict[str, Callable[[], object]] = {
        "remove": lambda: store.remove([sha(content)]),
        "sweep": lambda: project.server.write(store.sweep),
    }
    for _ in range(60):
        store.put(content)
        backdate(path, 10_000)
        thread = threading.Thread(target=removing[how])
        thread.start()
        store.put(content)
        thread.join()
        assert path.read_bytes() == content
    assert {found.name for found in path.parent.iterdir()} == {path.name}
