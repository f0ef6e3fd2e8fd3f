"""The doctor on this host: it tries, leaves nothing behind, and tells of refusals that can be had here."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ringfence import Client
from ringfence.kernel.auth.model import Role
from tests.cli.conftest import RINGFENCE, Cli
from tests.fence.yard import AS_ROOT, yard

as_root = pytest.mark.skipif(not AS_ROOT, reason="what only root can bring about")


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def by_id(told: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["id"]: each for each in told["findings"]}


def test_it_needs_no_server_and_leaves_nothing(cli: Cli) -> None:
    said = cli("doctor", "--json")
    found = by_id(said.json)
    assert found["namespaces"]["level"] == "ok"
    if AS_ROOT:  # a test's folder is root's alone, and each sandbox is a user of its own
        assert "cannot pass through" in found["sandbox"]["found"] and found["sandbox"]["fix"].startswith("chmod o+x")
        assert said.code == 1
    else:
        assert "ms" in found["sandbox"]["found"] and said.code in (0, 8)
    assert list(cli.home.rglob(".doctor-*")) == []
    assert cli("doctor", "--quiet").out.strip() == said.json["level"]


@as_root
def test_it_tries_a_sandbox_with_its_limits_and_says_how_long_that_took(cli: Cli) -> None:
    folder = Path(f"/var/tmp/doctor-{os.getpid()}")
    folder.mkdir(mode=0o711)
    try:
        said = cli("doctor", "--data", folder / "data")
        told = cli("doctor", "--json", "--data", folder / "data")
        assert list(folder.iterdir()) == []
    finally:
        shutil.rmtree(folder)
    assert said.code == told.code == (8 if told.json["level"] == "warning" else 0)
    found = by_id(told.json)
    assert " ms" in found["sandbox"]["found"] and found["sandbox"]["level"] == "ok"
    assert found["pause"]["level"] == found["nf-tables"]["level"] == "ok"
    assert "Sandboxes run here." in said.out or "All is well." in said.out
    for each in told.json["findings"]:
        assert each["title"] in said.out and (not each["fix"] or each["fix"] in said.out)


def test_a_server_tells_it_to_admins(template: Path) -> None:
    with yard(template) as ground:
        operator = ground.server.client(ground.server.token("olga", Role.OPERATOR))
        assert operator.get("/api/v1/doctor").status_code == 403
        with Client(ground.server.url, token=ground.server.admin_token) as client:
            told = client.doctor()
        assert by_id(dict(told))["sandbox"]["level"] == "ok"
        assert told["level"] in ("ok", "warning")
        assert ground.admin.get("/api/v1/sandboxes").json()["items"] == []


@as_root
def test_switched_off_user_namespaces_are_recognised_for_real(tmp_path: Path) -> None:
    """In a user namespace whose limit is 0, made for this."""
    line = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    ran = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", line, "sh", RINGFENCE, "doctor", "--json"],
        capture_output=True, text=True, env={**os.environ, "HOME": str(tmp_path), "RINGFENCE_DATA": str(tmp_path)},
        timeout=60, check=False,
    )  # fmt: skip
    found = by_id(json.loads(ran.stdout))["namespaces"]
    assert (found["level"], ran.returncode) == ("missing", 1)
    assert "max_user_namespaces = 0" in found["found"] and "max_user_namespaces=63170" in found["fix"]


@as_root
def test_a_chroot_is_recognised_for_real(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    line = 'mount --rbind / "$1" && exec chroot "$1" "$2" doctor --json'
    ran = subprocess.run(
        ["unshare", "--mount", "--propagation=private", "sh", "-c", line, "sh", root, RINGFENCE],
        capture_output=True, text=True, env={**os.environ, "HOME": str(tmp_path), "RINGFENCE_DATA": str(tmp_path)},
        timeout=60, check=False,
    )  # fmt: skip
    found = by_id(json.loads(ran.stdout))["namespaces"]
    assert (found["level"], ran.returncode) == ("missing", 1), found
    assert "chroot" in found["found"], found
