"""Compiles the warden, what starts it, and what tries its fence:
`python warden/build.py [--check] [--to FOLDER] [--for x86_64|aarch64]`.

Takes `musl-gcc`, or the wheel `ziglang`, which also compiles for the other machine. What was built is kept until a
source changes; `--check` only tells, by its exit status, whether it is current. Imports nothing but the standard
library: the package's own build runs it too.
"""

import argparse
import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILT = HERE.parent / "ringfence" / "fence" / "warden"
STAMP = BUILT / ".stamp"
PROGRAMS = {"warden": ("*.c", "acts/*.c"), "launch": ("launch/*.c",), "probe": ("probe/*.c",)}
MACHINES = ("x86_64", "aarch64")
STRICT = ["-std=c11", "-D_GNU_SOURCE=", "-Wall", "-Wextra", "-Werror"]
SMALL = [
    "-Os",
    "-static",
    "-s",
    "-ffunction-sections",
    "-fdata-sections",
    "-Wl,--gc-sections",
    "-fno-asynchronous-unwind-tables",
]
MOST_BYTES = 100_000


class CannotBuild(Exception):
    """Says what is missing, and what brings it."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Compiles the warden.")
    parser.add_argument("--check", action="store_true", help="only tell whether it is current")
    parser.add_argument("--to", type=Path, help="the folder to compile into, whatever is current")
    parser.add_argument("--for", dest="machine", choices=MACHINES, default=platform.machine())
    given = parser.parse_args()
    try:
        if given.check:
            sys.exit(0 if is_current() else 1)
        if given.to:
            compile_to(given.to, given.machine)
        else:
            build()
    except CannotBuild as error:
        sys.exit(str(error))


def is_current() -> bool:
    return all((BUILT / name).is_file() for name in PROGRAMS) and STAMP.is_file() and STAMP.read_text() == digest()


def build() -> None:
    """Bring BUILT up to date with its sources."""
    if is_current():
        return
    print("warden: compiling it", flush=True)
    compile_to(BUILT, platform.machine())
    STAMP.write_text(digest())


def digest() -> str:
    found = hashlib.sha256(platform.machine().encode())
    for path in [*sorted(HERE.rglob("*.[ch]")), Path(__file__)]:
        found.update(f"{path.relative_to(HERE).as_posix()}\0".encode())
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def sources(program: str = "warden") -> list[Path]:
    return sorted(path for pattern in PROGRAMS[program] for path in HERE.glob(pattern))


def compile_to(folder: Path, machine: str) -> None:
    compiler = next(_compilers(machine), None)
    if compiler is None:
        raise CannotBuild(
            f"Compiling the warden for {machine} takes musl-gcc (Debian: musl-tools) with the kernel's headers, "
            "or the wheel ziglang. This brings one: pip install ziglang"
        )
    folder.mkdir(exist_ok=True)
    for program in PROGRAMS:
        new = folder / f".{program}.{os.getpid()}"  # beside it first: one that runs cannot be written into
        try:
            _run([*compiler, *STRICT, *SMALL, *map(str, sources(program)), "-o", str(new)])
            if (size := new.stat().st_size) > MOST_BYTES:
                raise CannotBuild(f"{program} has {size} bytes, of at most {MOST_BYTES}.")
            new.replace(folder / program)
        finally:
            new.unlink(missing_ok=True)


def has_compiler(machine: str = platform.machine()) -> bool:
    """Whether there is one that would do."""
    return next(_compilers(machine), None) is not None


def _compilers(machine: str) -> Iterator[list[str]]:
    musl, headers = shutil.which("musl-gcc"), Path("/usr/include")
    if musl is not None and machine == platform.machine() and (headers / "linux" / "seccomp.h").is_file():
        # musl comes without the kernel's headers; the distribution's are beside those of its own libc.
        yield [musl, "-idirafter", str(headers), "-idirafter", str(headers / f"{machine}-linux-gnu")]
    if machine in MACHINES and importlib.util.find_spec("ziglang") is not None:
        yield [sys.executable, "-m", "ziglang", "cc", "-target", f"{machine}-linux-musl"]


def _run(command: list[str]) -> None:
    cache = str(HERE.parent / "build" / "zig")
    environment = {"ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache, **os.environ}
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    )  # fmt: skip
    if done.returncode != 0:
        raise CannotBuild(f"`{' '.join(command[:4])} …` failed:\n{done.stdout[-4000:]}")


if __name__ == "__main__":
    main()
