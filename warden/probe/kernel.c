/* What the kernel tells of the machine, and what of it can be set. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/utsname.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static struct names readable(const char *const paths[], size_t count)
{
    struct names found = {0};
    char start[2];
    for (size_t i = 0; i < count; i++)
        if (read_start(paths[i], start, sizeof start)) names_add(&found, paths[i]);
    return found;
}

static struct names writable(const char *const paths[], size_t count)
{
    struct names found = {0};
    for (size_t i = 0; i < count; i++) {
        int fd = open(paths[i], O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd < 0) continue;
        close(fd);
        names_add(&found, paths[i]);
    }
    return found;
}

static struct names set_here;

static int look_at_setting(const char *path, const struct stat *about, int kind, struct FTW *where)
{
    (void)about, (void)where;
    if (kind == FTW_F && access(path, W_OK) == 0) names_add(&set_here, path);
    return 0;
}

static void try_log(void)
{
    static const char *const logs[] = {"/dev/kmsg", "/proc/kmsg"};
    char text[16];
    struct names open = readable(logs, COUNT(logs));
    if (klogctl(3, text, sizeof text) >= 0) names_add(&open, "syslog");
    if (klogctl(10, NULL, 0) >= 0) names_add(&open, "its size");
    tell_names("kernel-log", FAIL, &open, "syslog, /dev/kmsg and /proc/kmsg are refused");
}

static void try_memory(void)
{
    static const char *const memories[] = {"/dev/mem", "/dev/kmem", "/dev/port", "/proc/kcore"};
    struct names open = readable(memories, COUNT(memories)), set = writable(memories, COUNT(memories));
    for (size_t i = 0; i < COUNT(memories) && set.count; i++) names_add(&open, "for writing");
    tell_names("physical-memory", FAIL, &open, "/dev/mem, /dev/kmem, /dev/port and /proc/kcore cannot be opened");
}

static void try_proc(void)
{
    static const char *const switches[] = {
        "/proc/sysrq-trigger", "/proc/acpi/wakeup", "/proc/bus/pci", "/proc/irq/default_smp_affinity", "/proc/mtrr",
        "/proc/scsi/scsi", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/timer_stats",
        "/proc/fs/nfsd", "/proc/sys/fs/binfmt_misc/register", "/proc/sys/vm/drop_caches",
    };
    static const char *const hidden[] = {
        "/proc/kallsyms", "/proc/keys", "/proc/key-users", "/proc/timer_list", "/proc/sched_debug", "/proc/modules",
        "/proc/interrupts", "/proc/softirqs", "/proc/vmallocinfo", "/proc/zoneinfo", "/proc/vmstat", "/proc/config.gz",
        "/proc/kpagecount", "/proc/kpageflags", "/proc/kpagecgroup", "/proc/latency_stats", "/proc/slabinfo",
        "/proc/pagetypeinfo", "/proc/driver/rtc",
    };
    static const char *const told[] = {
        "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/uptime", "/proc/cpuinfo", "/proc/diskstats",
        "/proc/partitions", "/proc/swaps", "/proc/cmdline", "/proc/version", "/proc/devices", "/proc/filesystems",
        "/proc/misc", "/proc/pressure/cpu", "/proc/iomem", "/proc/ioports",
    };
    struct names found = writable(switches, 1);
    tell_names("sysrq", FAIL, &found, "/proc/sysrq-trigger cannot be written");
    found = writable(switches + 1, COUNT(switches) - 1);
    tell_names("kernel-switches", FAIL, &found, "none of the files that steer the kernel can be written");
    found = readable(hidden, COUNT(hidden));
    tell_names("kernel-tables", FAIL, &found, "its symbols, modules, timers, keys, interrupts and memory are hidden");
    found = readable(told, COUNT(told));
    tell_names("host-figures", WARN, &found, "nothing tells how the machine is doing");
    nftw("/proc/sys", look_at_setting, 16, FTW_PHYS);
    tell_names("system-settings", FAIL, &set_here, "/proc/sys is read-only as a whole");
}

static void try_sys(void)
{
    static const char *const switches[] = {
        "/sys/kernel/uevent_helper", "/sys/power/state", "/sys/kernel/vmcoreinfo", "/sys/kernel/mm/transparent_hugepage/enabled",
        "/sys/fs/cgroup/release_agent", "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory/release_agent",
        "/sys/fs/cgroup/memory/cgroup.procs", "/sys/fs/cgroup/devices/devices.allow", "/sys/fs/cgroup/cgroup.subtree_control",
    };
    static const char *const tells[] = {
        "/sys/class/dmi/id/product_name", "/sys/firmware/dmi/tables/DMI", "/sys/kernel/security/lsm", "/sys/kernel/notes",
        "/sys/kernel/debug/sched/features", "/sys/kernel/tracing/available_events", "/sys/class/net/eth0/address",
        "/sys/block/sda/size", "/sys/block/vda/size", "/sys/block/nvme0n1/size", "/sys/kernel/btf/vmlinux",
    };
    struct names found = writable(switches, COUNT(switches));
    tell_names("sys-switches", FAIL, &found, "nothing under /sys that steers the machine can be written");
    found = readable(tells, COUNT(tells));
    tell_names("sys", WARN, &found, "/sys tells of no device and no firmware");
}

static void try_cgroups(void)
{
    char text[4096];
    struct names found = {0};
    if (!read_start("/proc/self/cgroup", text, sizeof text)) {
        tell("cgroups", PASS, "it is told of none");
        return;
    }
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        char *path = strchr(line, ':');
        path = path ? strchr(path + 1, ':') : NULL;
        if (path && strcmp(path + 1, "/") != 0) names_add(&found, path + 1);
    }
    tell_names("cgroups", WARN, &found, "it takes its group for the first there is");
}

void try_kernel(void)
{
    struct utsname about;
    char text[200];
    try_log();
    try_memory();
    try_proc();
    try_sys();
    try_cgroups();
    if (uname(&about) == 0) {
        tell_fact("kernel", about.release);
        tell_fact("hostname", about.nodename);
    }
    if (read_start("/proc/sys/kernel/random/boot_id", text, sizeof text)) tell_fact("boot-id", text);
    if (read_start("/etc/machine-id", text, sizeof text)) tell_fact("machine-id", text);
}
