"""`ringfence backup`: of a running server and of a stopped one, and back again."""

import stat
from pathlib import Path

from tests.cli.conftest import Cli


def test_a_backup_of_a_running_server_is_put_back_elsewhere_and_serves(cli: Cli, tmp_path: Path) -> None:
    cli.up()
    cli.ok("project", "create", "apollo")
    (tmp_path / "notes.txt").write_text("one small step")
    cli.ok("project", "upload", "apollo", tmp_path / "notes.txt")
    token = cli.ok("token", "create", "--role", "viewer", "--name", "script").strip()
    made = cli.json("backup", "create", "-o", tmp_path / "b.tar")
    assert made["size"] == (tmp_path / "b.tar").stat().st_size
    assert stat.S_IMODE((tmp_path / "b.tar").stat().st_mode) == 0o600
    cli.ok("project", "delete", "apollo", "--yes")

    again = ("--data", tmp_path / "again")
    told = cli.ok("backup", "restore", tmp_path / "b.tar", *again)
    assert "1 files; the log is what was written" in told
    assert f"ringfence up --data {tmp_path / 'again'}" in told
    assert cli("backup", "restore", tmp_path / "b.tar", *again).code == 5
    cli.ok("up", "--port", "0", "--detach", *again)
    try:
        cli.ok("project", "download", "apollo", "notes.txt", "-o", tmp_path / "back.txt", *again)
        assert (tmp_path / "back.txt").read_text() == "one small step"
        assert cli.json("status", *again, "--token", token)["you"] == "script"
        assert cli("backup", "restore", tmp_path / "b.tar", *again).code == 5
    finally:
        cli("down", *again)


def test_a_backup_of_a_stopped_server_is_the_same(cli: Cli, tmp_path: Path) -> None:
    cli.up()
    cli.ok("project", "create", "apollo")
    cli.ok("down")
    cli.ok("backup", "create", "--data", cli.data, "-o", tmp_path / "b.tar")
    said = cli("backup", "create", "-o", tmp_path / "b.tar")
    assert (said.code, "no Ringfence runs" in said.err) == (7, True)
    said = cli("backup", "create", "--data", cli.data, "-o", tmp_path / "b.tar")
    assert (said.code, "there already" in said.err) == (2, True)
    assert cli("backup", "create", "--data", tmp_path / "nothing", "-o", tmp_path / "c.tar").code == 3
    assert not (tmp_path / "c.tar").exists()
    cli.ok("backup", "restore", tmp_path / "b.tar", "--data", tmp_path / "again")
    assert sorted(path.name for path in cli.data.iterdir() if path.name.startswith(".")) == []


def test_what_is_no_backup_is_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "b.tar").write_text("no tar")
    said = cli("backup", "restore", tmp_path / "b.tar", "--data", tmp_path / "again")
    assert (said.code, "no whole backup" in said.err) == (1, True)
    said = cli("backup", "restore", tmp_path / "none.tar", "--data", tmp_path / "again")
    assert (said.code, "none.tar: No such file" in said.err) == (1, True)
    cli.ok("up", "--port", "0", "--detach", "--data", tmp_path / "again")  # the folder is as good as new
    cli("down", "--data", tmp_path / "again")


def test_a_viewer_is_refused(cli: Cli, tmp_path: Path) -> None:
    cli.up()
    token = cli.ok("token", "create", "--role", "viewer", "--name", "script").strip()
    said = cli("backup", "create", "-o", tmp_path / "b.tar", "--token", token)
    assert (said.code, "for admins" in said.err) == (4, True)
    assert not (tmp_path / "b.tar").exists()
