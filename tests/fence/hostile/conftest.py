from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fence.yard import Yard, yard


@pytest.fixture(scope="module")
def ground(template: Path) -> Iterator[Yard]:
    with yard(template) as found:
        yield found
