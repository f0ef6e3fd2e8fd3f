"""The same suite once more as an ordinary user: nothing but `pip install`, no root."""

import os
import pwd
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="it is run by an ordinary user already"),
    pytest.mark.skipif(not shutil.which("useradd") or not shutil.which("setpriv"), reason="no useradd, or no setpriv"),
]
USER = "rf-ordinary"
HERE = Path(__file__).parent
REPOSITORY = HERE.parents[2]
SUITE = (
    HERE / "test_life.py",
    HERE / "test_native.py",
    HERE / "test_images.py",
    HERE / "test_root.py",
    HERE / "test_snapshots.py",
)
KILLING = HERE.parent / "test_killing.py"
FIRST_ID = 1_500_000_000
WITHOUT_RIGHTS = ("--inh-caps=-all", "--bounding-set=-all", "--no-new-privs")


@pytest.fixture(scope="module")
def user() -> pwd.struct_passwd:
    if subprocess.run(["id", USER], capture_output=True, check=False).returncode:
        subprocess.run(["useradd", "--system", "--no-create-home", "--shell", "/bin/sh", USER], check=False)
    return pwd.getpwnam(USER)


@pytest.fixture
def home(user: pwd.struct_passwd, tmp_path: Path) -> Iterator[Path]:
    folder = Path(f"/var/tmp/rf-home-{os.getpid()}")
    folder.mkdir(mode=0o700)
    os.chown(folder, user.pw_uid, user.pw_gid)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def test_the_suite_passes_for_an_ordinary_user(user: pwd.struct_passwd, home: Path) -> None:
    passes(user, home, *SUITE)


@pytest.mark.skipif(not shutil.which("newuidmap") or not shutil.which("newgidmap"), reason="no newuidmap")
def test_root_inside_is_to_be_had_by_an_ordinary_user_with_ids(user: pwd.struct_passwd, home: Path) -> None:
    given = home / "given"
    given.write_text(f"{USER}:{FIRST_ID}:65536\n")
    ids = "\n".join(f"touch {name}; mount --bind {given} {name}" for name in ("/etc/subuid", "/etc/subgid"))
    told = passes(user, home, HERE / "test_root.py", HERE / "test_snapshots.py", without=(), first=ids)
    assert int(told.rpartition(" passed")[0].split()[-1]) > 8, "they were not skipped"


def test_whatever_is_killed_an_ordinary_user_loses_nothing_and_leaves_nothing(
    user: pwd.struct_passwd, home: Path
) -> None:
    passes(user, home, "-m", "not long", KILLING)


@pytest.mark.long
def test_however_often_things_are_killed_an_ordinary_user_loses_nothing(user: pwd.struct_passwd, home: Path) -> None:
    passes(user, home, "-m", "long", KILLING, within=900)


def passes(
    user: pwd.struct_passwd, home: Path, *arguments: str | Path, within: float = 400,
    without: tuple[str, ...] = WITHOUT_RIGHTS, first: str = "",
) -> str:  # fmt: skip
    """In a mount namespace where the interpreter can be reached, even when it lies in root's home."""
    command = [
        "setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups",
        *without, "env", "-i", f"HOME={home}", f"PATH={os.environ['PATH']}",
        "PYTHONDONTWRITEBYTECODE=1", sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist",
        f"--basetemp={home}/pytest", *map(str, arguments),
    ]  # fmt: skip
    script = f'{first}\n{reach(home)}\nexec "$@"'
    ran = subprocess.run(
        ["unshare", "--mount", "--propagation=private", "sh", "-ec", script, "sh", *command],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=within, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-8000:] + ran.stderr[-2000:]
    assert " passed" in ran.stdout
    return ran.stdout


def reach(home: Path) -> str:
    """Shell that shows the folders Python needs where others may not look."""
    views: dict[Path, list[Path]] = {}
    for needed in sorted({Path(sys.base_prefix), Path(sys.prefix), REPOSITORY}):
        shut = [parent for parent in reversed(needed.parents) if not parent.stat().st_mode & 0o001]
        if shut:
            views.setdefault(shut[0], []).append(needed)
    lines: list[str] = []
    for number, (folder, within) in enumerate(views.items()):
        view = home / f"view{number}"
        places = {str(each): str(view / each.relative_to(folder)) for each in within}
        lines.append(shlex.join(["mkdir", "-p", *places.values()]))
        lines.append(shlex.join(["chmod", "-R", "755", str(view)]))
        lines += [shlex.join(["mount", "--rbind", each, place]) for each, place in places.items()]
        lines.append(shlex.join(["mount", "--rbind", str(view), str(folder)]))
    return "\n".join(lines)
