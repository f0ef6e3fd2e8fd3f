"""Becoming the server's user: what is left of root, and what is reached."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ringfence.privileges import users, view
from ringfence.privileges.errand import Failed, done_as
from ringfence.privileges.users import FIXED, User
from ringfence.privileges.view import Needed

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes anybody")
SERVER = User(FIXED, FIXED)


def said(data: Path, work: Callable[[], object]) -> str:
    return b"".join(done_as(SERVER, data, lambda: iter([str(work()).encode()]))).decode()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A closed folder, as /root is, with a data folder in it."""
    found = tmp_path / "home"
    (found / "data").mkdir(parents=True)
    (found / "secret").write_text("root's")
    (found / "secret").chmod(0o644)
    found.chmod(0o700)
    os.chown(found / "data", 0, FIXED)
    (found / "data").chmod(0o1771)
    return found


def test_nothing_of_root_is_left(home: Path) -> None:
    status = said(home / "data", lambda: Path("/proc/self/status").read_text())
    facts = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert facts["Uid"].split() == facts["Gid"].split() == [str(FIXED)] * 4
    assert facts["Groups"].strip() == ""
    for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(facts[kind], 16) == 0, kind
    assert facts["NoNewPrivs"] == "1"


def _unmount() -> None:
    if ctypes.CDLL(None, use_errno=True).umount2(b"/root", 2):
        raise OSError(ctypes.get_errno(), "it cannot be unmounted")


@pytest.mark.parametrize(
    "back",
    [
        lambda: os.setuid(0), lambda: os.setgid(0), lambda: os.setgroups([0]), lambda: os.setresuid(0, 0, 0),
        lambda: os.chroot("/"), lambda: os.kill(os.getppid(), 0), lambda: os.open("/etc/shadow", os.O_RDONLY),
        lambda: list(Path("/proc/1/fd").iterdir()), _unmount, lambda: os.open("/dev/tty", os.O_RDWR),
    ],
)  # fmt: skip
def test_there_is_no_way_back(home: Path, back: Callable[[], object]) -> None:
    with pytest.raises(Failed, match=r"PermissionError|OSError"):
        said(home / "data", back)


def test_of_a_closed_folder_only_what_is_needed_is_there(home: Path) -> None:
    found = said(home / "data", lambda: sorted(path.name for path in home.iterdir()))
    assert found == "['data']"
    assert said(home / "data", lambda: (home / "data/made").write_text("x")) == "1"
    assert (home / "data/made").stat().st_uid == FIXED, "it is the same folder"
    with pytest.raises(Failed, match="FileNotFoundError"):
        said(home / "data", (home / "secret").read_text)
    assert sorted(path.name for path in home.iterdir()) == ["data", "secret"], "for us nothing has changed"


def test_the_program_is_there_and_cannot_be_written(home: Path) -> None:
    script = "import ringfence.server, sys; print(ringfence.server.__file__)"

    def run() -> str:
        return subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True).stdout

    assert said(home / "data", run).strip().endswith("ringfence/server.py")
    with pytest.raises(Failed, match=r"PermissionError|OSError"):
        said(home / "data", lambda: (Path(view.__file__).parent / "planted.py").write_text("x"))


def test_a_program_that_only_root_may_read_is_told_with_what_to_do(home: Path, tmp_path: Path) -> None:
    shut = tmp_path / "shut"
    shut.mkdir(mode=0o700)
    assert view.closed(shut / "file") == _closed_above(shut)
    with pytest.raises(Failed, match="chmod"):
        said(home / "data", lambda: view.check_readable(SERVER, [Needed(Path("/root/.ssh"))]))


def _closed_above(path: Path) -> Path:
    """The first on the way down; pytest's own folders are closed as well."""
    return next(each for each in [*reversed(path.parents), path] if not each.stat().st_mode & 0o001)


def test_the_fixed_id_is_nobodys_here_and_no_sandboxs() -> None:
    found = users.servers()
    assert found is not None and found.uid != 0 and found.gid != 0
    assert FIXED < 1_900_000_000
    assert not any(start <= FIXED < start + count for _, start, count in users.reserved())


def test_work_that_fails_or_vanishes_is_told(home: Path) -> None:
    with pytest.raises(Failed, match="ended before it was done"):
        said(home / "data", lambda: os._exit(0))
    with pytest.raises(Failed, match="ZeroDivisionError"):
        said(home / "data", lambda: 1 / 0)
    steering = Failed(500, "x")
    with pytest.raises(Failed) as caught:
        said(home / "data", lambda: (_ for _ in ()).throw(ValueError("\x1b[2Jgone\x07")))
    steering = caught.value
    assert steering.message.isprintable()
