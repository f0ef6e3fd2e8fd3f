"""The hostile tests, the check and the doctor once more as an ordinary user."""

import pwd
from pathlib import Path

import pytest

from tests.fence.runtimes import test_ordinary_user as ordinary

pytestmark = ordinary.pytestmark
user, home = ordinary.user, ordinary.home
FENCE = Path(__file__).parents[1]
WARDEN, BOMBS = FENCE / "hostile/test_against_the_warden.py", FENCE / "hostile/test_bombs.py"
CHECK, DOCTOR = FENCE / "posture/test_check.py", FENCE / "doctor/test_doctor.py"


def test_what_is_hostile_fails_for_an_ordinary_user_too(user: pwd.struct_passwd, home: Path) -> None:
    barriers = "test_every_barrier_holds_in_a_sandbox_and_what_does_not_is_not_called_so"
    ordinary.passes(user, home, WARDEN, f"{CHECK}::{barriers}")


@pytest.mark.long
def test_bombs_checks_and_the_doctor_are_the_same_for_an_ordinary_user(user: pwd.struct_passwd, home: Path) -> None:
    ordinary.passes(user, home, "-m", "not long", BOMBS, CHECK, DOCTOR, within=900)
