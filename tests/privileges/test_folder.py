"""The data folder, made over to the server's user, and what a hostile server leaves there for root."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from ringfence.privileges.folder import Surprise, make_over
from ringfence.privileges.users import FIXED, User
from ringfence.settings import Settings, SettingsError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes anything over")
SERVER = User(FIXED, FIXED)


def owners(path: Path) -> tuple[int, int, int]:
    facts = path.lstat()
    return facts.st_uid, facts.st_gid, stat.S_IMODE(facts.st_mode)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """As a server that root ran left it."""
    found = tmp_path / "data"
    (found / "files/ab").mkdir(parents=True)
    (found / "files/ab/abcd").write_text("content")
    (found / "fence/keys").mkdir(parents=True)
    (found / "run").mkdir()
    (found / "run/lock").write_text("")
    (found / "sandboxes/boxes/sbx_00000000/run").mkdir(parents=True)
    for name in ("ringfence.db", "ringfence.db-wal", "ringfence.toml"):
        (found / name).write_text("")
    return found


def test_what_root_left_is_the_servers_and_what_is_roots_stays(data: Path) -> None:
    make_over(data, SERVER)
    assert owners(data) == (0, FIXED, 0o1771)
    for name in ("ringfence.db", "ringfence.db-wal", "files/ab/abcd"):
        assert owners(data / name) == (FIXED, FIXED, 0o600), name
    for name in ("files", "files/ab", "fence", "fence/keys"):
        assert owners(data / name) == (FIXED, FIXED, 0o700), name
    assert owners(data / "run") == (0, 0, 0o700)
    assert owners(data / "sandboxes") == (0, 0, 0o711)
    assert owners(data / "ringfence.toml") == (0, FIXED, 0o640)
    assert (data / "run/lock").stat().st_uid == (data / "sandboxes/boxes/sbx_00000000/run").stat().st_uid == 0


def test_it_is_made_over_once_and_what_comes_later_is_not_touched(data: Path, tmp_path: Path) -> None:
    """So that nothing which a server of our own plants is ever made its."""
    make_over(data, SERVER)
    secret = tmp_path / "secret"
    secret.write_text("root's")
    (data / "ringfence.db-journal").symlink_to(secret)
    (data / "files/link").symlink_to(secret)
    (data / "files/second").hardlink_to(secret)
    before = secret.stat()
    make_over(data, SERVER)
    assert (secret.stat().st_uid, secret.stat().st_mode) == (0, before.st_mode)


def in_the_place_of(path: Path, target: Path) -> None:
    """A link, where Ringfence had something of its own."""
    path.rename(path.parent.with_name(f"away-{path.name}"))
    path.symlink_to(target)


PLANTED: dict[str, Callable[[Path, Path], object]] = {
    "a link to a file": lambda data, secret: os.symlink(secret, data / "files/link"),  # noqa: PTH211
    "a second name": lambda data, secret: os.link(secret, data / "files/second"),
    "a link in the place of the database": lambda data, secret: in_the_place_of(data / "ringfence.db", secret),
    "a pipe": lambda data, secret: os.mkfifo(data / "files/pipe"),
    "another user's file": lambda data, secret: os.chown(data / "ringfence.db", 12345, 12345),
    "what is not ours": lambda data, secret: (data / "passwd").write_text(""),
    "another user's run": lambda data, secret: os.chown(data / "run", FIXED, FIXED),
    "a link in the place of run": lambda data, secret: in_the_place_of(data / "run", data / "files"),
    "a link in the place of sandboxes": lambda data, secret: in_the_place_of(data / "sandboxes", data / "files"),
    "a link in the place of the settings": lambda data, secret: in_the_place_of(data / "ringfence.toml", secret),
    "settings of another's": lambda data, secret: os.chown(data / "ringfence.toml", FIXED, FIXED),
    "a folder of another's": lambda data, secret: os.chown(data, 12345, 12345),
}


@pytest.mark.parametrize("what", PLANTED)
def test_what_should_not_be_there_is_told_and_never_made_over(data: Path, tmp_path: Path, what: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("root's")
    PLANTED[what](data, secret)
    before = secret.stat()
    with pytest.raises((Surprise, OSError)):
        make_over(data, SERVER)
    assert (secret.stat().st_uid, secret.stat().st_gid, secret.stat().st_mode) == (0, 0, before.st_mode)
    assert not data.stat().st_mode & 0o020, "the server may not write there yet"


def test_a_folder_of_something_else_is_not_made_over(tmp_path: Path) -> None:
    """`--data /etc`."""
    for name in ("passwd", "ringfence.db"):
        (tmp_path / name).write_text("root's")
    before = {path.name: path.stat().st_ctime_ns for path in (tmp_path, *tmp_path.iterdir())}
    with pytest.raises(Surprise, match=r"passwd.*not Ringfence's"):
        make_over(tmp_path, SERVER)
    assert {path.name: path.stat().st_ctime_ns for path in (tmp_path, *tmp_path.iterdir())} == before


def test_another_user_of_the_server_takes_over_from_the_one_before(data: Path) -> None:
    """Somebody made a user `ringfence` since."""
    make_over(data, SERVER)
    other = User(FIXED - 1, FIXED - 2)
    make_over(data, other)
    assert owners(data) == (0, other.gid, 0o1771)
    assert owners(data / "files/ab/abcd") == (other.uid, other.gid, 0o600)


def test_root_follows_no_settings_that_the_server_wrote(data: Path) -> None:
    """They could name /etc as the data folder, which would then be made over."""
    (data / "ringfence.toml").write_text('data = "/etc"\n')
    os.chown(data / "ringfence.toml", FIXED, FIXED)
    with pytest.raises(SettingsError, match="chown root"):
        Settings.load(env={}, data=data)
    (data / "ringfence.toml").unlink()
    (data / "ringfence.toml").symlink_to("/etc/os-release")
    with pytest.raises(SettingsError, match="cannot be read"):
        Settings.load(env={}, data=data)
    (data / "ringfence.toml").unlink()
    os.mkfifo(data / "ringfence.toml")
    os.chown(data / "ringfence.toml", FIXED, FIXED)
    with pytest.raises(SettingsError):
        Settings.load(env={}, data=data)
