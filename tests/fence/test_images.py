"""Images over HTTP, the SDK and the command line, on the dummy runtime: who may do what with them."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from ringfence.sdk import AsyncClient, Client
from tests.fence.conftest import SANDBOXES, Fenced, refused
from tests.fence.runtimes.archives import Entry, tar

IMAGES = "/api/v1/images"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "tools.tar"
    path.write_bytes(tar([Entry("etc"), Entry("etc/issue", b"tools\n")]))
    return path


def kinds(fence: Fenced) -> list[str]:
    return [event["kind"] for event in fence.events() if event["kind"].startswith("image")]


def test_an_image_is_imported_used_and_removed(fence: Fenced, archive: Path) -> None:
    made = fence.admin.post(IMAGES, params={"name": "tools:1"}, content=archive.read_bytes())
    assert made.status_code == 201, made.text
    image = made.json()
    assert (image["name"], image["size"], image["owner"]) == ("tools:1", 6, "operator:admin")
    assert fence.admin.get(f"{IMAGES}/tools:1").json() == image
    assert fence.viewer().get(IMAGES).json()["items"] == [image]
    box = fence.create(image="tools:1")
    assert box["image"] == "tools:1"
    assert fence.dummy._boxes[box["id"]].files["/etc/issue"] == b"tools\n"
    refused(fence.admin.delete(f"{IMAGES}/tools:1"), 409, "image_used")
    assert fence.admin.post(f"{IMAGES}/prune").json() == {"removed": []}
    fence.admin.delete(f"{SANDBOXES}/{box['id']}")
    assert fence.admin.delete(f"{IMAGES}/tools:1").json() == image
    assert fence.admin.get(f"{IMAGES}/tools:1").status_code == 404
    assert fence.dummy.images() == ["host"]
    assert kinds(fence) == ["image_imported", "image_removed"]


def test_a_snapshot_keeps_its_image(fence: Fenced, archive: Path) -> None:
    fence.admin.post(IMAGES, params={"name": "tools"}, content=archive.read_bytes())
    box = fence.create(image="tools")
    fence.post(box["id"], "snapshots", name="kept")
    fence.admin.delete(f"{SANDBOXES}/{box['id']}")
    refused(fence.admin.delete(f"{IMAGES}/tools"), 409, "image_used")
    fence.admin.delete("/api/v1/snapshots/kept")
    pruned = fence.admin.post(f"{IMAGES}/prune").json()["removed"]
    assert [each["name"] for each in pruned] == ["tools"]


def test_an_image_that_is_not_there_is_refused_before_anything_is_made(fence: Fenced) -> None:
    problem = refused(fence.admin.post(SANDBOXES, json={"image": "nothing"}), 422, "unknown_image")
    assert "ringfence image import" in problem["detail"]
    assert fence.listed() == []


def test_names_are_checked_and_taken_once(fence: Fenced, archive: Path) -> None:
    content = archive.read_bytes()
    for bad in ("host", "A", "a/b", "../x", "", "a:", "x" * 80):
        assert fence.admin.post(IMAGES, params={"name": bad}, content=content).status_code == 400, bad
    assert fence.admin.post(IMAGES, params={"name": "one"}, content=content).status_code == 201
    refused(fence.admin.post(IMAGES, params={"name": "one"}, content=content), 409, "name_taken")
    keyed = {"idempotency-key": "k"}
    answers = [fence.admin.post(IMAGES, params={"name": "two"}, content=content, headers=keyed) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]


def test_who_may_bring_and_remove_them(fence: Fenced, archive: Path) -> None:
    content, olga = archive.read_bytes(), fence.operator("olga")
    assert fence.viewer().post(IMAGES, params={"name": "x"}, content=content).status_code == 403
    assert olga.post(IMAGES, params={"name": "x"}, content=content).status_code == 201
    refused(fence.operator("otto").delete(f"{IMAGES}/x"), 403, "role")
    assert fence.operator("otto").post(f"{IMAGES}/prune").status_code == 403
    assert olga.delete(f"{IMAGES}/x").status_code == 200


def test_only_admins_name_files_of_the_servers_host(fence: Fenced, archive: Path, tmp_path: Path) -> None:
    named = {"name": "x", "path": str(archive)}
    refused(fence.operator().post(IMAGES, params=named), 403, "role")
    assert fence.admin.post(IMAGES, params=named).json()["size"] == 6
    folder = tmp_path / "root"
    (folder / "etc").mkdir(parents=True)
    (folder / "etc/issue").write_text("folder\n")
    assert fence.admin.post(IMAGES, params={"name": "y", "path": str(folder)}).json()["size"] == 7
    assert fence.admin.post(IMAGES, params={"name": "z", "path": "/dev/zero"}).status_code == 400
    assert fence.admin.post(IMAGES, params={"name": "z", "path": str(tmp_path / "nothing")}).status_code == 400


def test_what_is_too_large_or_empty_or_no_archive_is_refused_and_leaves_nothing(
    fence_with: Callable[..., Fenced], tmp_path: Path
) -> None:
    fence = fence_with(max_image="64K")
    assert fence.admin.post(IMAGES, params={"name": "x"}, content=bytes(100_000)).status_code == 413
    assert fence.admin.post(IMAGES, params={"name": "x"}, content=b"").status_code == 400
    assert fence.admin.post(IMAGES, params={"name": "x"}, content=b"no archive").status_code == 400
    assert fence.admin.get(IMAGES).json()["items"] == []
    assert list((tmp_path / "data/incoming").iterdir()) == []


def test_an_import_that_was_not_written_down_is_forgotten_at_the_next_start(fence: Fenced, archive: Path) -> None:
    asyncio.run(fence.dummy.import_image("half", archive, 1 << 20))
    fence.admin.post(IMAGES, params={"name": "whole"}, content=archive.read_bytes())
    (stray := fence.server.settings.data / "incoming/tar_stray").write_text("x")
    fence.restart()
    fence.create(image="whole")
    assert fence.dummy.images() == ["host", "whole"]
    assert not stray.exists()


def test_the_sdk_sends_files_as_they_are_read(fence: Fenced, archive: Path) -> None:
    with Client(fence.server.url, token=fence.server.admin_token) as client:
        made = client.import_image("one", archive)
        assert client.get_image("one") == made
        assert client.import_image_from_server("two", str(archive))["digest"] == made["digest"]
        assert [each["name"] for each in client.list_images()] == ["one", "two"]
        assert client.delete_image("one")

    async def asynchronously() -> list[str]:
        async with AsyncClient(fence.server.url, token=fence.server.admin_token) as client:
            await client.import_image("three", archive)
            return [each["name"] for each in (await client.prune_images())["removed"]]

    assert asyncio.run(asynchronously()) == ["three", "two"]
