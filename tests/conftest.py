"""What every test can ask for: a running server, on SQLite or on both databases."""

import uuid
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


@pytest.fixture
def server(tmp_path: Path, template: Path) -> Iterator[Ringfence]:
    with running(tmp_path / "data", template) as found:
        yield found


@pytest.fixture
def postgres_url(postgres: Cluster, postgres_template: str) -> Iterator[str]:
    """An empty, migrated PostgreSQL database."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    yield postgres.create(name, postgres_template)
    postgres.drop(name)


@pytest.fixture(params=["sqlite", "postgresql"])
def either(request: pytest.FixtureRequest, tmp_path: Path, template: Path) -> Iterator[Ringfence]:
    """The same server on each database in turn."""
    url = request.getfixturevalue("postgres_url") if request.param == "postgresql" else ""
    with running(tmp_path / "data", template if not url else None, database=url) as found:
        yield found
