/* System calls that nothing in a sandbox may make. Each is made, in a process of its own, so that it would do no harm. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <linux/netlink.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define N(number) ((const void *)(intptr_t)(number))
enum { NEW_TIME = 0x80 };

static char nothing[256];
static const struct { uint64_t flags[11]; } new_user = {{CLONE_NEWUSER}};
static const struct timeval no_time[2] = {{0, 2000000}};

struct call {
    const char *check, *name;
    long number;
    const void *arguments[6];
};

/* Those of one check stand together. */
static const struct call calls[] = {
    {"user-namespace", "unshare", SYS_unshare, {N(CLONE_NEWUSER)}},
    {"user-namespace", "clone", SYS_clone, {N(CLONE_NEWUSER | SIGCHLD)}},
    {"user-namespace", "clone3", 435, {&new_user, N(sizeof new_user)}},
    {"namespaces", "mounts", SYS_unshare, {N(CLONE_NEWNS)}},
    {"namespaces", "processes", SYS_unshare, {N(CLONE_NEWPID)}},
    {"namespaces", "network", SYS_unshare, {N(CLONE_NEWNET)}},
    {"namespaces", "ipc", SYS_unshare, {N(CLONE_NEWIPC)}},
    {"namespaces", "hostname", SYS_unshare, {N(CLONE_NEWUTS)}},
    {"namespaces", "cgroup", SYS_unshare, {N(CLONE_NEWCGROUP)}},
    {"namespaces", "time", SYS_unshare, {N(NEW_TIME)}},
    {"namespaces", "setns", SYS_setns, {N(-1), N(0)}},
    {"mount", "mount", SYS_mount, {"none", "/tmp", "no such kind", N(0), N(0)}},
    {"mount", "move", SYS_mount, {"/", "/", N(0), N(MS_MOVE), N(0)}},
    {"mount", "umount2", SYS_umount2, {"/", N(MNT_EXPIRE)}},
    {"mount", "open_tree", SYS_open_tree, {N(AT_FDCWD), "/", N(1)}},
    {"mount", "move_mount", SYS_move_mount, {N(-1), "", N(-1), "/tmp", N(4)}},
    {"mount", "fsopen", SYS_fsopen, {"tmpfs", N(0)}},
    {"mount", "mount_setattr", 442, {N(AT_FDCWD), "/", N(0), nothing, N(32)}},
    {"mount", "listmount", 458, {nothing, nothing, N(1), N(0)}},
    {"roots", "chroot", SYS_chroot, {"/tmp"}},
    {"roots", "pivot_root", SYS_pivot_root, {"/tmp", "/tmp"}},
    {"io-uring", "io_uring_setup", SYS_io_uring_setup, {N(1), nothing}},
    {"io-uring", "io_uring_enter", SYS_io_uring_enter, {N(-1)}},
    {"io-uring", "io_uring_register", SYS_io_uring_register, {N(-1)}},
    {"userfaultfd", "userfaultfd", SYS_userfaultfd, {N(O_CLOEXEC)}},
    {"bpf", "bpf", SYS_bpf, {N(0), nothing, N(sizeof nothing)}},
    {"perf", "perf_event_open", SYS_perf_event_open, {nothing, N(0), N(-1), N(-1), N(0)}},
    {"keyrings", "keyctl", SYS_keyctl, {N(KEYCTL_GET_KEYRING_ID), N(KEY_SPEC_USER_KEYRING), N(1)}},
    {"keyrings", "add_key", SYS_add_key, {"user", "probe", "x", N(1), N(KEY_SPEC_PROCESS_KEYRING)}},
    {"keyrings", "request_key", SYS_request_key, {"user", "probe", N(0), N(0)}},
    {"modules", "init_module", SYS_init_module, {nothing, N(0), ""}},
    {"modules", "finit_module", SYS_finit_module, {N(-1), "", N(0)}},
    {"modules", "delete_module", SYS_delete_module, {"no such module", N(O_NONBLOCK)}},
    {"restart", "reboot", SYS_reboot, {N(0), N(0), N(0)}},
    {"restart", "kexec_load", SYS_kexec_load, {N(0), N(17), N(0), N(0)}},
    {"clock", "settimeofday", SYS_settimeofday, {no_time, N(0)}},
    {"clock", "clock_settime", SYS_clock_settime, {N(0), no_time}},
    {"hostname-change", "sethostname", SYS_sethostname, {"", N(-1)}},
    {"hostname-change", "setdomainname", SYS_setdomainname, {"", N(-1)}},
    {"administration", "swapon", SYS_swapon, {"/nonexistent", N(0)}},
    {"administration", "swapoff", SYS_swapoff, {"/nonexistent"}},
    {"administration", "acct", SYS_acct, {"/nonexistent/file"}},
    {"administration", "quotactl", SYS_quotactl, {N(0x80000400), "/dev/none", N(0), N(0)}},
    {"administration", "fanotify_init", SYS_fanotify_init, {N(0), N(0)}},
    {"file-handles", "open_by_handle_at", SYS_open_by_handle_at, {N(AT_FDCWD), nothing, N(0)}},
    {"other-memory", "process_vm_readv", SYS_process_vm_readv, {N(1), nothing, N(0), nothing, N(0), N(0)}},
    {"other-memory", "process_vm_writev", SYS_process_vm_writev, {N(1), nothing, N(0), nothing, N(0), N(0)}},
    {"other-memory", "pidfd_getfd", 438, {N(-1), N(0), N(0)}},
    {"other-memory", "kcmp", SYS_kcmp, {N(1), N(1), N(0), N(0), N(0)}},
    {"other-memory", "process_madvise", 440, {N(-1)}},
    {"other-memory", "move_pages", SYS_move_pages, {N(0)}},
    {"warden-trace", "seize", SYS_ptrace, {N(PTRACE_SEIZE), N(1), N(0), N(0)}},
    {"warden-limits", "prlimit64", SYS_prlimit64, {N(1), N(RLIMIT_CORE), nothing, N(0)}},
    {"warden-limits", "setpriority", SYS_setpriority, {N(PRIO_PROCESS), N(1), N(0)}},
    {"warden-limits", "setpriority of all", SYS_setpriority, {N(PRIO_USER), N(0), N(0)}},
    {"warden-limits", "sched_setscheduler", SYS_sched_setscheduler, {N(1), N(0), nothing}},
    {"warden-limits", "sched_setaffinity", SYS_sched_setaffinity, {N(1), N(8), nothing}},
    {"warden-limits", "ioprio_set", SYS_ioprio_set, {N(1), N(1), N(4 << 13)}},
    {"raw-sockets", "IPv4", SYS_socket, {N(AF_INET), N(SOCK_RAW), N(1)}},
    {"raw-sockets", "IPv6", SYS_socket, {N(AF_INET6), N(SOCK_RAW), N(58)}},
    {"raw-sockets", "packets", SYS_socket, {N(AF_PACKET), N(SOCK_RAW), N(0x0300)}},
    {"socket-families", "vsock", SYS_socket, {N(40), N(SOCK_STREAM), N(0)}},
    {"socket-families", "kernel crypto", SYS_socket, {N(38), N(SOCK_SEQPACKET), N(0)}},
    {"socket-families", "keys", SYS_socket, {N(15), N(SOCK_RAW), N(2)}},
    {"socket-families", "bluetooth", SYS_socket, {N(31), N(SOCK_RAW), N(1)}},
    {"socket-families", "can", SYS_socket, {N(29), N(SOCK_RAW), N(1)}},
    {"socket-families", "tipc", SYS_socket, {N(30), N(SOCK_STREAM), N(0)}},
    {"socket-families", "xdp", SYS_socket, {N(44), N(SOCK_RAW), N(0)}},
    {"socket-families", "netfilter", SYS_socket, {N(AF_NETLINK), N(SOCK_RAW), N(NETLINK_NETFILTER)}},
    {"socket-families", "audit", SYS_socket, {N(AF_NETLINK), N(SOCK_RAW), N(NETLINK_AUDIT)}},
    {"socket-families", "device events", SYS_socket, {N(AF_NETLINK), N(SOCK_RAW), N(NETLINK_KOBJECT_UEVENT)}},
    {"device-nodes", "character", SYS_mknodat, {N(AT_FDCWD), "/tmp/.probe-device", N(S_IFCHR | 0600), N(0x101)}},
    {"device-nodes", "block", SYS_mknodat, {N(AT_FDCWD), "/tmp/.probe-device", N(S_IFBLK | 0600), N(0x800)}},
    {"personality", "READ_IMPLIES_EXEC", SYS_personality, {N(0x0400000)}},
    {"personality", "ADDR_NO_RANDOMIZE", SYS_personality, {N(0x0040000)}},
#if defined __x86_64__
    {"io-ports", "iopl", SYS_iopl, {N(3)}},
    {"io-ports", "ioperm", SYS_ioperm, {N(0x80), N(1), N(1)}},
    {"io-ports", "modify_ldt", SYS_modify_ldt, {N(1), nothing, N(16)}},
    {"x32-calls", "getpid", 0x40000000 + SYS_getpid, {0}},
#endif
};

static void try_table(void)
{
    struct names open = {0};
    size_t count = sizeof calls / sizeof *calls;
    unsigned made = 0;
    bool made_none = false;
    for (size_t i = 0; i < count; i++) {
        const struct call *call = calls + i;
        int error = attempt(call->number, call->arguments);
        char told[80];
        made++;
        made_none |= error == EAGAIN;
        /* A kernel may lack what was asked for: that is as good. */
        if (!refused(error) && error != EAGAIN && error != EAFNOSUPPORT && error != EPROTONOSUPPORT) {
            snprintf(told, sizeof told, "%s (%s)", call->name, error ? strerror(error) : "done");
            names_add(&open, told);
        }
        if (i + 1 < count && strcmp(calls[i + 1].check, call->check) == 0) continue;
        char none[40];
        snprintf(none, sizeof none, "%u tries, all refused", made);
        if (made_none && !open.count) tell(call->check, SKIP, "no process could be made to try it");
        else tell_names(call->check, FAIL, &open, none);
        open = (struct names){0};
        made = 0;
        made_none = false;
    }
}

/* The numbers above all that are known: a later kernel gives them a meaning that nobody has looked at. */
static void try_unknown(void)
{
    struct names open = {0};
    for (long number = 468; number < 560; number++) {
        int error = attempt(number, (const void *const[6]){N(-1), N(-1), N(-1), N(-1), N(-1), N(-1)});
        char told[16];
        snprintf(told, sizeof told, "%ld", number);
        if (!refused(error) && error != EAGAIN) names_add(&open, told);
    }
    tell_names("unknown-calls", FAIL, &open, "numbers 468 to 559 do not exist here");
}

static void try_32_bits(void)
{
#if defined __x86_64__
    int status;
    pid_t child = fork();
    if (child == 0) {
        long answer = 20; /* getpid */
        __asm__ volatile("int $0x80" : "+a"(answer) : : "memory", "r8", "r9", "r10", "r11");
        _exit(answer > 0 ? 0 : 1);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) tell("32-bit-calls", SKIP, "no process could be made to try it");
    else if (WIFEXITED(status) && WEXITSTATUS(status) == 0) tell("32-bit-calls", FAIL, "int 0x80 is answered");
    else tell("32-bit-calls", PASS, "int 0x80 is refused");
#else
    tell("32-bit-calls", SKIP, "this machine has no second table of calls");
#endif
}

/* Typing into a terminal of one's own is the try that would succeed; what the next reader of it has is then ours. */
static void try_terminal(void)
{
    int master, slave;
    struct names open = {0};
    if (openpty(&master, &slave, NULL, NULL, NULL) < 0) {
        tell("terminal", SKIP, "no terminal could be had: %s", strerror(errno));
        return;
    }
    char letter = 'x', selection = 0;
    if (ioctl(slave, TIOCSTI, &letter) == 0 || !(refused(errno) || errno == EIO)) names_add(&open, "TIOCSTI");
    if (ioctl(slave, 0x541c /* TIOCLINUX */, &selection) == 0) names_add(&open, "TIOCLINUX");
    int discipline = 2; /* a mouse's */
    if (ioctl(slave, TIOCSETD, &discipline) == 0) names_add(&open, "TIOCSETD");
    close(master);
    close(slave);
    tell_names("terminal", FAIL, &open, "TIOCSTI, TIOCLINUX and line disciplines are refused");
}

void try_calls(void)
{
    try_table();
    try_unknown();
    try_32_bits();
    try_terminal();
    unlink("/tmp/.probe-device");
}
