"""What tells a process from every other, now and after a restart. Standard library only: the command line needs it."""

from pathlib import Path


def process_started(pid: int) -> int | None:
    """When a living process was started, in ticks since the boot: with its pid, what tells it from all others."""
    found = process_fields(pid)
    return None if found is None or found[0] in (b"Z", b"X") else int(found[19])


def process_fields(pid: int) -> list[bytes] | None:
    """The fields of /proc/PID/stat after the name: state, parent, …; None: there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    return stat[stat.rindex(b")") + 2 :].split()


def boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
