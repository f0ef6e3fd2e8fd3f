"""An ephemeral PostgreSQL: one cluster for a test run, a database for each test that asks."""

import contextlib
import fcntl
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg


def _program(name: str) -> str:
    found = shutil.which(name) or next((str(path) for path in Path("/usr/lib/postgresql").glob(f"*/bin/{name}")), None)
    assert found, f"{name} is missing: script/test installs it"
    return found


def _as_owner() -> dict[str, object]:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    user = pwd.getpwnam("nobody")
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


class Cluster:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"postgresql://ringfence@/postgres?host={folder}"

    def start(self) -> None:
        self.folder.chmod(0o755)
        who = _as_owner()
        if "user" in who:
            os.chown(self.folder, who["user"], who["group"])  # type: ignore[arg-type]
        data = self.folder / "data"
        run = {"stdout": subprocess.DEVNULL, "cwd": "/", **who}
        subprocess.run(
            [_program("initdb"), "-D", data, "-U", "ringfence", "-A", "trust", "-E", "UTF8", "--no-locale", "-N"],
            check=True,
            **run,
        )  # type: ignore[call-overload]
        options = f"-k {self.folder} -c listen_addresses='' -c fsync=off -c full_page_writes=off -c max_connections=200"
        subprocess.run(
            [_program("pg_ctl"), "-D", data, "-w", "-l", self.folder / "log", "-o", options, "start"], check=True, **run
        )  # type: ignore[call-overload]

    def stop(self) -> None:
        subprocess.run(
            [_program("pg_ctl"), "-D", self.folder / "data", "-m", "immediate", "stop"],
            check=False,
            stdout=subprocess.DEVNULL,
            cwd="/",
            **_as_owner(),
        )  # type: ignore[call-overload]

    def create(self, name: str, template: str | None = None) -> str:
        with psycopg.connect(self.url, autocommit=True) as connection:
            for _ in range(100):
                try:
                    like = f' TEMPLATE "{template}"' if template else ""
                    connection.execute(f'CREATE DATABASE "{name}"{like}')
                    break
                except psycopg.errors.ObjectInUse:  # another worker copies the template
                    time.sleep(0.05)
        return f"postgresql://ringfence@/{name}?host={self.folder}"

    def drop(self, name: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


@contextlib.contextmanager
def cluster(shared: Path) -> Iterator[Cluster]:
    """The run's cluster: the first worker starts it, the last one stops it."""
    shared.mkdir(parents=True, exist_ok=True)
    lock, state = shared / "postgres.lock", shared / "postgres"
    with locked(lock):
        if state.exists():
            folder, users = state.read_text().split()
            found = Cluster(Path(folder))
        else:
            # A socket's path holds 108 bytes, so not below pytest's own folders.
            found = Cluster(Path(tempfile.mkdtemp(prefix="rf-pg-")))
            found.start()
            users = "0"
        state.write_text(f"{found.folder} {int(users) + 1}")
    try:
        yield found
    finally:
        with locked(lock):
            users = state.read_text().split()[1]
            state.write_text(f"{found.folder} {int(users) - 1}")
            if users == "1":
                found.stop()
                shutil.rmtree(found.folder, ignore_errors=True)
                state.unlink()


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
