"""What every test can ask for: a running server, on SQLite or on both databases."""

import os
import subprocess
import uuid
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest

from ringfence.kernel import migrations
from ringfence.settings import Settings
from tests.harness import Ringfence, running
from tests.postgres import Cluster, cluster


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated, empty SQLite database to copy."""
    folder = tmp_path_factory.mktemp("template")
    migrations.upgrade(Settings(data=folder))
    return folder / "ringfence.db"


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of this run share."""
    return tmp_path_factory.getbasetemp().parent / "shared"


@pytest.fixture(scope="session")
def postgres(shared: Path) -> Iterator[Cluster]:
    with cluster(shared) as found:
        yield found


@pytest.fixture(scope="session")
def postgres_template(postgres: Cluster) -> str:
    name = f"template_{uuid.uuid4().hex[:8]}"
    migrations.upgrade(Settings(data=Path("/nonexistent"), database=postgres.create(name)))
    return name


@pytest.fixture(scope="session")
def leaving() -> Iterator[deque[Ringfence]]:
    """Servers of tests that are over: they stop while the next test runs."""
    found: deque[Ringfence] = deque()
    yield found
    for server in found:
        server.gone()


@pytest.fixture
def server(tmp_path: Path, template: Path, leaving: deque[Ringfence]) -> Iterator[Ringfence]:
    with running(tmp_path / "data", template, leaving) as found:
        yield found


@pytest.fixture
def postgres_url(postgres: Cluster, postgres_template: str) -> Iterator[str]:
    """An empty, migrated PostgreSQL database."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    yield postgres.create(name, postgres_template)
    postgres.drop(name)


@pytest.fixture(params=["sqlite", "postgresql"])
def either(
    request: pytest.FixtureRequest, tmp_path: Path, template: Path, leaving: deque[Ringfence]
) -> Iterator[Ringfence]:
    """The same server on each database in turn."""
    if request.param == "sqlite":
        with running(tmp_path / "data", template, leaving) as found:
            yield found
        return
    url = request.getfixturevalue("postgres_url")
    with running(tmp_path / "data", database=url) as found:
        yield found


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """4 MB that fill up."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small tmpfs takes root")
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "ringfence-test", folder], check=False, capture_output=True, text=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"a small tmpfs cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
