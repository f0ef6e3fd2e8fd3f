"""The image `host`: this machine's own programs and libraries, read-only, and nothing else of it.

A skeleton is made once and shared by every sandbox: links and mount points, and an /etc of chosen files. What differs
from one sandbox to the next (name, machine id) are links in it that lead into the sandbox's /run/ringfence. `/usr` is
mounted over it; home folders, /root, /var, /opt, /srv and the rest of /etc are not there at all.
"""

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from ringfence.fence.runtimes.native import tree

SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")  # links into /usr, or folders on an older system
FOLDERS = (
    "dev", "etc", "home/agent", "mnt", "opt", "proc", "root", "run/ringfence", "srv", "sys/devices/system/cpu", "tmp",
    "usr", "var/cache", "var/lib", "var/log", "var/tmp", "workspace",
)  # fmt: skip
FIT = ("dev", "etc", "home/agent", "proc", "run/ringfence", "sys", "tmp", "workspace")

# Files and folders of /etc that programs need, and that hold no secret on any system.
ETC = (
    "alternatives", "bash.bashrc", "bindresvport.blacklist", "ca-certificates", "ca-certificates.conf",
    "debian_version", "ethertypes", "fedora-release", "fonts", "inputrc", "java-11-openjdk", "java-17-openjdk",
    "java-21-openjdk", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.alias", "locale.conf", "localtime",
    "lsb-release", "magic", "magic.mime", "mime.types", "os-release", "perl", "pki/ca-trust/extracted",
    "pki/tls/cert.pem", "pki/tls/certs", "protocols", "redhat-release", "rpc", "services", "shells",
    "ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf", "terminfo", "timezone", "vim", "xattr.conf",
)  # fmt: skip
MOST_BYTES = 4 << 20  # of one file

USERS = """\
root:x:0:0:root:/root:{shell}
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
agent:x:1000:1000:agent:/home/agent:{shell}
"""
GROUP = """\
root:x:0:
tty:x:5:
nogroup:x:65534:
agent:x:1000:
"""
RESOLVER = "nameserver 198.18.0.1\noptions timeout:5 attempts:1\n"
NSSWITCH = (
    "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\nprotocols: files\nservices: files\n"
)
OWN = {"hosts": "hosts", "hostname": "hostname", "machine-id": "machine-id"}  # in /run/ringfence


def usr_mounts() -> list[str]:
    """Folders of this machine that are mounted as they are."""
    return ["/usr", *(f"/{name}" for name in SYSTEM if Path("/", name).is_dir() and not Path("/", name).is_symlink())]


def prepare(images: Path) -> Path:
    """The skeleton for this machine as it is now; made where it is not there yet, and then never changed."""
    skeleton = images / f"host-{_fingerprint()}"
    if not skeleton.is_dir():
        half = images / f".{skeleton.name}.{os.getpid()}"
        tree.remove(half)
        _make(half)
        try:
            half.rename(skeleton)
        except OSError:  # another was faster
            tree.remove(half)
    return skeleton


def make_fit(root: Path, users: Mapping[str, str], *, home_of_root: bool) -> None:
    """What lies over an image of somebody else's: where things are mounted, and what differs between sandboxes."""
    for folder in (*FIT, *(("root",) if home_of_root else ())):
        (root / folder).mkdir(parents=True)
    for name, text in {**users, "resolv.conf": RESOLVER}.items():
        (root / "etc" / name).write_text(text)
    _link_own(root / "etc")
    _open_to_all(root)


def _link_own(etc: Path) -> None:
    for name, own in OWN.items():
        (etc / name).symlink_to(f"/run/ringfence/{own}")
    (etc / "mtab").symlink_to("../proc/self/mounts")


def _open_to_all(root: Path) -> None:
    for path in (root, *root.rglob("*")):
        if not path.is_symlink() and path != root / "var/tmp":
            path.chmod(0o755 if path.is_dir() else 0o644)


def _make(root: Path) -> None:
    for folder in FOLDERS:
        (root / folder).mkdir(parents=True)
    for name in SYSTEM:
        original = Path("/", name)
        if original.is_symlink():
            (root / name).symlink_to(original.readlink())
        elif original.is_dir():
            (root / name).mkdir()
    (root / "var/run").symlink_to("../run")
    (root / "var/lock").symlink_to("../run")
    cpus = f"0-{(os.cpu_count() or 1) - 1}\n" if (os.cpu_count() or 1) > 1 else "0\n"
    for name in ("online", "possible", "present"):
        (root / "sys/devices/system/cpu" / name).write_text(cpus)
    etc = root / "etc"
    for source in _chosen():
        target = etc / source.relative_to("/etc")
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            target.symlink_to(source.readlink())
        else:
            shutil.copyfile(source, target)
    for name, text in _written().items():
        (etc / name).write_text(text)
    _link_own(etc)
    (root / "var/tmp").chmod(0o1777)
    _open_to_all(root)


def _written() -> dict[str, str]:
    shell = "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh"
    return {
        "passwd": USERS.format(shell=shell),
        "group": GROUP,
        "resolv.conf": RESOLVER,
        "nsswitch.conf": NSSWITCH,
        "host.conf": "multi on\n",
    }


def _chosen() -> Iterator[Path]:
    """Files that everybody may read, and links."""
    for name in ETC:
        start = Path("/etc", name)
        for path in (start, *(sorted(start.rglob("*")) if start.is_dir() and not start.is_symlink() else ())):
            try:
                about = path.lstat()
            except OSError:
                continue
            everybody = about.st_mode & 0o004 and about.st_size <= MOST_BYTES
            if stat.S_ISLNK(about.st_mode) or (stat.S_ISREG(about.st_mode) and everybody):
                yield path


def _fingerprint() -> str:
    digest = hashlib.sha256(repr((1, os.cpu_count(), FOLDERS, sorted(_written().items()))).encode())
    for name in SYSTEM:
        path = Path("/", name)
        digest.update(f"{name} {path.is_symlink() and path.readlink()} {path.is_dir()}\n".encode())
    for path in _chosen():
        about = path.lstat()
        digest.update(f"{path} {about.st_mode} {about.st_size} {about.st_mtime_ns}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()[:16]
