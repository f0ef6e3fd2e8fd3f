/* Who we are: capabilities, no-new-privs, the filter, ids, limits. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

/* What the warden leaves to root of a range of ids: warden/confine.c. */
static const unsigned long long of_root =
    1ULL << CAP_CHOWN | 1 << CAP_DAC_OVERRIDE | 1 << CAP_FSETID | 1 << CAP_FOWNER | 1 << CAP_SETGID | 1 << CAP_SETUID
    | 1 << CAP_SETPCAP | 1 << CAP_NET_BIND_SERVICE | 1 << CAP_SYS_CHROOT | 1 << CAP_KILL | 1 << CAP_AUDIT_WRITE
    | 1ULL << CAP_SETFCAP;

static char status[8192];

static const char *field(const char *name)
{
    const char *at = strstr(status, name);
    return at ? at + strlen(name) + strspn(at + strlen(name), "\t ") : "";
}

static void try_capabilities(bool root)
{
    static const struct { const char *check; int capability; } each[] = {
        {"cap-sys-admin", CAP_SYS_ADMIN}, {"cap-net-admin", CAP_NET_ADMIN}, {"cap-sys-ptrace", CAP_SYS_PTRACE},
        {"cap-sys-module", CAP_SYS_MODULE}, {"cap-sys-rawio", CAP_SYS_RAWIO},
        {"cap-dac-read-search", CAP_DAC_READ_SEARCH},
    };
    static const char *const sets[] = {"CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"};
    unsigned long long all = 0, bounding = strtoull(field("CapBnd:"), NULL, 16);
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) all |= strtoull(field(sets[i]), NULL, 16);
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        bool has = all >> each[i].capability & 1;
        tell(each[i].check, has ? FAIL : PASS, "the bounding set is %016llx", bounding);
    }
    unsigned long long beyond = all & ~(root ? of_root : 0);
    tell("capabilities", beyond ? FAIL : PASS, "all sets together %016llx%s", all, root ? ", of its own ids" : "");
}

static void try_identity(bool root)
{
    gid_t groups[64];
    int count = getgroups(64, groups);
    unsigned own = root ? 0 : 1000;
    bool as_told = getuid() == own && geteuid() == own && getgid() == own && getegid() == own;
    for (int i = 0; i < count; i++) as_told &= groups[i] == own;
    tell("identity", as_told ? PASS : FAIL, "user %u, group %u, %d further groups", getuid(), getgid(), count);
}

static void try_setuid(bool root)
{
    static const char *const programs[] = {
        "/usr/bin/su", "/usr/bin/sudo", "/usr/bin/mount", "/usr/bin/umount", "/usr/bin/passwd", "/usr/bin/chsh",
        "/usr/bin/newgrp", "/usr/bin/gpasswd", "/usr/bin/pkexec", "/usr/bin/fusermount3", "/usr/bin/newuidmap",
        "/bin/su", "/bin/mount", "/usr/bin/crontab", "/usr/bin/at",
    };
    struct stat about;
    unsigned found = 0;
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        found += stat(programs[i], &about) == 0 && about.st_mode & S_ISUID;
    if (root) {
        tell("setuid", SKIP, "it is root of its own ids");
        return;
    }
    bool became = setuid(0) == 0 || setresuid(0, 0, 0) == 0;
    tell("setuid", became ? FAIL : PASS, became ? "it became user 0" : "setuid(0) is refused; %u programs with the bit give nothing", found);
}

static void try_limits(void)
{
    struct rlimit core, processes;
    struct statfs disk;
    char text[64];
    getrlimit(RLIMIT_CORE, &core);
    tell("core-files", core.rlim_max ? FAIL : PASS, core.rlim_max ? "a crash may leave a core file" : "none may be written");
    if (getrlimit(RLIMIT_NPROC, &processes) == 0) {
        snprintf(text, sizeof text, "%lld", processes.rlim_max == RLIM_INFINITY ? -1 : (long long)processes.rlim_max);
        tell_fact("processes", text);
    }
    if (statfs("/tmp", &disk) == 0) {
        snprintf(text, sizeof text, "%llu", (unsigned long long)disk.f_blocks * (unsigned long long)disk.f_bsize);
        tell_fact("temporary", text);
    }
    read_start("/proc/self/oom_score_adj", text, sizeof text);
    int before = atoi(text), fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    bool lowered = fd >= 0 && (write(fd, "-1000", 5) == 5 || write(fd, "0", 1) == 1);
    if (lowered && pwrite(fd, text, strlen(text), 0) < 0) before = -1;
    if (fd >= 0) close(fd);
    tell("oom-score", lowered || before != 1000 ? WARN : PASS, "it is %d, and %s", before,
         lowered ? "a program may lower it: only root's sandboxes can be kept from that" : "cannot be lowered");
}

void try_rights(const struct given *given)
{
    read_start("/proc/self/status", status, sizeof status);
    try_capabilities(given->root);
    int mode = atoi(field("Seccomp:"));
    tell("seccomp", mode == 2 ? PASS : mode == 1 ? WARN : FAIL, "mode %d, %d filters", mode, atoi(field("Seccomp_filters:")));
    tell("no-new-privileges", atoi(field("NoNewPrivs:")) == 1 ? PASS : FAIL, "NoNewPrivs is %d", atoi(field("NoNewPrivs:")));
    try_identity(given->root);
    try_setuid(given->root);
    try_limits();
}
