"""Why a host refuses a sandbox: each known refusal, told by what was said and by the switches behind it."""

from dataclasses import dataclass
from pathlib import Path

from ringfence.fence.doctor.host import Host

NAMESPACES = 63170
# Where overlay cannot keep what sandboxes write.
NO_UPPER = {"overlay", "nfs", "nfs4", "cifs", "smb3", "fuse", "fuseblk", "vfat", "exfat", "9p", "virtiofs", "squashfs"}


@dataclass(frozen=True, slots=True)
class Refusal:
    why: str
    fix: str


def sysctl(setting: str) -> str:
    return f"sudo sysctl -w {setting}; echo '{setting}' | sudo tee -a /etc/sysctl.d/60-ringfence.conf"


def of_namespaces(host: Host, said: str) -> Refusal:
    """Why no user namespace can be had."""
    most = host.number("/proc/sys/user/max_user_namespaces")
    if most == 0:
        return Refusal(
            "user namespaces are switched off (user.max_user_namespaces = 0)",
            sysctl(f"user.max_user_namespaces={NAMESPACES}"),
        )
    if host.number("/proc/sys/kernel/unprivileged_userns_clone") == 0 and not host.is_root:
        return Refusal(
            "this hardened kernel keeps user namespaces for root (kernel.unprivileged_userns_clone = 0)",
            sysctl("kernel.unprivileged_userns_clone=1"),
        )
    if host.number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == 1 and not host.is_root:
        return Refusal(
            "AppArmor refuses user namespaces to ordinary users, as on Ubuntu 24.04 "
            "(kernel.apparmor_restrict_unprivileged_userns = 1)",
            sysctl("kernel.apparmor_restrict_unprivileged_userns=0"),
        )
    if "No space left on device" in said:
        return Refusal(
            f"there are as many user namespaces as may be (user.max_user_namespaces = {most})",
            sysctl(f"user.max_user_namespaces={max(NAMESPACES, 4 * (most or 0))}"),
        )
    # Nothing else refuses them to root, and a chroot into another view of the same root does not show.
    if host.in_chroot or (host.is_root and not host.is_filtered and host.mapped and "ermission" in said):
        return Refusal(
            "this runs in a chroot, where the kernel refuses user namespaces",
            "enter it by pivot_root instead: `systemd-nspawn -D FOLDER` does",
        )
    if not host.text("/proc/self/uid_map"):
        return Refusal("this kernel has no user namespaces", "a kernel with CONFIG_USER_NS, such as any distribution's")
    if host.is_filtered:
        return Refusal(
            "this runs in a container that refuses user namespaces",
            "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
            "--security-opt systempaths=unconfined …",
        )
    return Refusal(f"the kernel refuses user namespaces: {said}", "")


def of_sandbox(host: Host, data: Path, said: str) -> Refusal:
    """Why no sandbox can be started, where user namespaces can be had."""
    point, kind = host.mount_of(data)
    if host.kernel < (5, 11):
        return Refusal(
            "overlays for ordinary users came with Linux 5.11, and this is {}.{}".format(*host.kernel),
            "a newer kernel; on Debian 10 and 11: sudo apt install linux-image-amd64 -t bullseye-backports",
        )
    if kind.partition(".")[0] in NO_UPPER and ("overlay" in said or "Invalid argument" in said):
        return Refusal(
            f"the data folder lies on {kind} ({point}), where overlays cannot be kept",
            "ringfence up --data FOLDER, with a folder on ext4, xfs, btrfs or tmpfs",
        )
    if "mount proc" in said or "/newroot/proc" in said:
        return Refusal(
            "this runs in a container whose /proc is masked, so that no other can be mounted",
            "docker run --security-opt systempaths=unconfined …",
        )
    if "cannot pass through" in said:
        return Refusal(said, said.partition("`")[2].partition("`")[0])
    if host.is_root and 0 < host.mapped < 1 << 31:
        return Refusal(
            f"root here has {host.mapped} users, and each sandbox takes one of its own: this is a user namespace",
            "run Ringfence as an ordinary user, or as root of the host",
        )
    refusal = of_namespaces(host, said)
    return refusal if refusal.fix else Refusal(said, "")
