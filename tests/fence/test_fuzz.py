"""Both ends of the link for a few seconds against what nobody would say; `script/fuzz` does it for as long as asked."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.fence.fuzz import core
from tests.fence.fuzz.targets import TARGETS, Broken, missing
from warden.build import HERE as WARDEN

SECONDS = 4.0


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
@pytest.mark.parametrize("name", TARGETS)
def test_nothing_breaks_what_the_warden_reads(name: str, tmp_path: Path) -> None:
    target = TARGETS[name]
    said = target.run(target.build(tmp_path), SECONDS, 1, tmp_path / "crashes")
    runs, edges = int(said.split()[0]), int(said.split()[2])
    assert runs > 100 and edges > 50, said


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_what_breaks_a_target_is_told_and_kept(tmp_path: Path) -> None:
    """A warden whose check of a length is taken out."""
    target = TARGETS["pack"]
    broken = tmp_path / "pack.c"
    text = (WARDEN / "pack.c").read_text()
    assert "if (left(unpacker) < size) unpacker->bad = true;" in text
    broken.write_text(text.replace("if (left(unpacker) < size) unpacker->bad = true;", ""))
    spoiled = replace(target, sources=(str(broken),))
    with pytest.raises(Broken, match=r"heap-buffer-overflow|abort"):
        spoiled.run(spoiled.build(tmp_path), SECONDS, 1, tmp_path / "crashes")
    assert list((tmp_path / "crashes").iterdir())


def test_whatever_a_warden_says_ends_its_connection_at_most() -> None:
    quick = settings(max_examples=60, stateful_step_count=30, deadline=None)
    run_state_machine_as_test(core.HostileWarden, settings=quick)
