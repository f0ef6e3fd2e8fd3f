/* The filter on system calls that everything in a sandbox lives under, the warden too.

   What is on neither list below is unknown here and answers ENOSYS, as a kernel without it would; what is refused
   answers EPERM. Docker's default profile is the measure (without a capability, as the agent is): everything allowed
   here is allowed there. Besides, this filter has no way to another process's memory but ptrace, no io_uring, no
   keyrings, no new namespace, and only the sockets that have a use in here. */
#include "confine.h"

#include <asm/ioctls.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#if defined __x86_64__
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "No table of system calls for this machine."
#endif

/* Newer than the headers this may be built with; from 424 on a number is the same on every machine. */
enum {
    NR_clone3 = 435, NR_close_range = 436, NR_openat2 = 437, NR_faccessat2 = 439, NR_epoll_pwait2 = 441,
    NR_landlock_create_ruleset = 444, NR_landlock_add_rule = 445, NR_landlock_restrict_self = 446,
    NR_process_mrelease = 448, NR_futex_waitv = 449, NR_cachestat = 451, NR_fchmodat2 = 452,
    NR_map_shadow_stack = 453, NR_futex_wake = 454, NR_futex_wait = 455, NR_futex_requeue = 456, NR_mseal = 462,
    NR_setxattrat = 463, NR_getxattrat = 464, NR_listxattrat = 465, NR_removexattrat = 466,
};

static const short allowed[] = {
    /* files */
    SYS_chdir, SYS_close, NR_close_range, SYS_copy_file_range, SYS_dup, SYS_dup3, SYS_faccessat, NR_faccessat2,
    SYS_fadvise64, SYS_fallocate, SYS_fchdir, SYS_fchmod, SYS_fchmodat, NR_fchmodat2, SYS_fchown, SYS_fchownat,
    SYS_fcntl, SYS_fdatasync, SYS_fgetxattr, SYS_flistxattr, SYS_flock, SYS_fremovexattr, SYS_fsetxattr, SYS_fstat,
    SYS_fstatfs, SYS_fsync, SYS_ftruncate, SYS_getcwd, SYS_getdents64, SYS_getxattr, NR_getxattrat, SYS_lgetxattr,
    SYS_linkat, SYS_listxattr, NR_listxattrat, SYS_llistxattr, SYS_lremovexattr, SYS_lseek, SYS_lsetxattr,
    SYS_mkdirat, SYS_mknodat, SYS_name_to_handle_at, SYS_newfstatat, SYS_openat, NR_openat2, SYS_pipe2, SYS_pread64,
    SYS_preadv, SYS_preadv2, SYS_pwrite64, SYS_pwritev, SYS_pwritev2, SYS_read, SYS_readahead, SYS_readlinkat,
    SYS_readv, SYS_removexattr, NR_removexattrat, SYS_renameat, SYS_renameat2, SYS_sendfile, SYS_setxattr,
    NR_setxattrat, SYS_splice, SYS_statfs, SYS_statx, SYS_symlinkat, SYS_sync, SYS_sync_file_range, SYS_syncfs,
    SYS_tee, SYS_truncate, SYS_umask, SYS_unlinkat, SYS_utimensat, SYS_vmsplice, SYS_write, SYS_writev,
    NR_cachestat, SYS_io_cancel, SYS_io_destroy, SYS_io_getevents, SYS_io_setup, SYS_io_submit,
    /* waiting */
    SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_pwait, NR_epoll_pwait2, SYS_eventfd2, SYS_inotify_add_watch,
    SYS_inotify_init1, SYS_inotify_rm_watch, SYS_ppoll, SYS_pselect6, SYS_signalfd4, SYS_timerfd_create,
    SYS_timerfd_gettime, SYS_timerfd_settime,
    /* memory */
    SYS_brk, SYS_madvise, SYS_membarrier, SYS_memfd_create, SYS_mincore, SYS_mlock, SYS_mlock2, SYS_mlockall,
    SYS_mmap, SYS_mprotect, SYS_mremap, NR_mseal, SYS_msync, SYS_munlock, SYS_munlockall, SYS_munmap,
    SYS_pkey_alloc, SYS_pkey_free, SYS_pkey_mprotect, SYS_remap_file_pages, NR_map_shadow_stack,
    /* sockets; `socket` and `socketpair` are below */
    SYS_accept, SYS_accept4, SYS_bind, SYS_connect, SYS_getpeername, SYS_getsockname, SYS_getsockopt, SYS_listen,
    SYS_recvfrom, SYS_recvmmsg, SYS_recvmsg, SYS_sendmmsg, SYS_sendmsg, SYS_sendto, SYS_setsockopt, SYS_shutdown,
    /* processes; `clone`, `personality`, and what sets another's limits are below */
    SYS_capget, SYS_capset, SYS_execve, SYS_execveat, SYS_exit, SYS_exit_group, SYS_getcpu, SYS_getegid,
    SYS_geteuid, SYS_getgid, SYS_getgroups, SYS_getpgid, SYS_getpid, SYS_getppid, SYS_getpriority, SYS_getresgid,
    SYS_getresuid, SYS_getrlimit, SYS_getrusage, SYS_getsid, SYS_gettid, SYS_getuid, SYS_get_robust_list,
    SYS_ioprio_get, NR_landlock_add_rule, NR_landlock_create_ruleset, NR_landlock_restrict_self,
    SYS_pidfd_open, SYS_pidfd_send_signal, SYS_prctl, NR_process_mrelease, SYS_ptrace, SYS_rseq,
    SYS_sched_getaffinity, SYS_sched_getattr, SYS_sched_getparam, SYS_sched_get_priority_max,
    SYS_sched_get_priority_min, SYS_sched_getscheduler, SYS_sched_rr_get_interval, SYS_sched_yield, SYS_seccomp,
    SYS_setfsgid, SYS_setfsuid, SYS_setgid, SYS_setgroups, SYS_setpgid, SYS_setregid, SYS_setresgid,
    SYS_setresuid, SYS_setreuid, SYS_setrlimit, SYS_setsid, SYS_setuid, SYS_set_robust_list, SYS_set_tid_address,
    SYS_times, SYS_wait4, SYS_waitid,
    /* signals and locks */
    SYS_futex, NR_futex_requeue, NR_futex_wait, NR_futex_waitv, NR_futex_wake, SYS_kill, SYS_restart_syscall,
    SYS_rt_sigaction, SYS_rt_sigpending, SYS_rt_sigprocmask, SYS_rt_sigqueueinfo, SYS_rt_sigreturn,
    SYS_rt_sigsuspend, SYS_rt_sigtimedwait, SYS_rt_tgsigqueueinfo, SYS_sigaltstack, SYS_tgkill, SYS_tkill,
    /* System V and POSIX queues, in an IPC namespace of the sandbox's own */
    SYS_mq_getsetattr, SYS_mq_notify, SYS_mq_open, SYS_mq_timedreceive, SYS_mq_timedsend, SYS_mq_unlink, SYS_msgctl,
    SYS_msgget, SYS_msgrcv, SYS_msgsnd, SYS_semctl, SYS_semget, SYS_semop, SYS_semtimedop, SYS_shmat, SYS_shmctl,
    SYS_shmdt, SYS_shmget,
    /* time and the machine */
    SYS_adjtimex, SYS_clock_adjtime, SYS_clock_getres, SYS_clock_gettime, SYS_clock_nanosleep, SYS_getitimer,
    SYS_getrandom, SYS_gettimeofday, SYS_nanosleep, SYS_setitimer, SYS_sysinfo, SYS_timer_create, SYS_timer_delete,
    SYS_timer_getoverrun, SYS_timer_gettime, SYS_timer_settime, SYS_uname,
#if defined __x86_64__
    /* what newer machines have under the names above only */
    SYS_access, SYS_alarm, SYS_arch_prctl, SYS_chmod, SYS_chown, SYS_creat, SYS_dup2, SYS_epoll_create,
    SYS_epoll_ctl_old, SYS_epoll_wait, SYS_epoll_wait_old, SYS_eventfd, SYS_fork, SYS_futimesat, SYS_getdents,
    SYS_getpgrp, SYS_get_thread_area, SYS_inotify_init, SYS_lchown, SYS_link, SYS_lstat, SYS_mkdir, SYS_mknod,
    SYS_open, SYS_pause, SYS_pipe, SYS_poll, SYS_readlink, SYS_rename, SYS_rmdir, SYS_select, SYS_set_thread_area,
    SYS_signalfd, SYS_stat, SYS_symlink, SYS_time, SYS_unlink, SYS_utime, SYS_utimes, SYS_vfork,
#endif
};

/* With the process as their first argument. */
static const short by_process[] = {
    SYS_prlimit64, SYS_sched_setaffinity, SYS_sched_setattr, SYS_sched_setparam, SYS_sched_setscheduler,
};

static const short refused[] = {
    /* namespaces, mounts, roots */
    SYS_unshare, SYS_setns, SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_open_tree, SYS_move_mount,
    SYS_fsopen, SYS_fsconfig, SYS_fsmount, SYS_fspick, 442 /* mount_setattr */, 457 /* statmount */,
    458 /* listmount */, 467 /* open_tree_attr */, SYS_sethostname, SYS_setdomainname, SYS_swapon, SYS_swapoff,
    SYS_quotactl, 443 /* quotactl_fd */,
    /* other processes */
    SYS_process_vm_readv, SYS_process_vm_writev, SYS_kcmp, 438 /* pidfd_getfd */, 440 /* process_madvise */,
    SYS_move_pages, SYS_migrate_pages,
    /* the kernel */
    SYS_add_key, SYS_keyctl, SYS_request_key, SYS_bpf, SYS_perf_event_open, SYS_userfaultfd, SYS_io_uring_setup,
    SYS_io_uring_enter, SYS_io_uring_register, SYS_init_module, SYS_finit_module, SYS_delete_module,
    SYS_kexec_load, SYS_reboot, SYS_syslog, SYS_acct, SYS_nfsservctl, SYS_lookup_dcookie, SYS_open_by_handle_at,
    SYS_fanotify_init, SYS_fanotify_mark, SYS_settimeofday, SYS_clock_settime, SYS_vhangup, SYS_mbind,
    SYS_get_mempolicy, SYS_set_mempolicy, 450 /* set_mempolicy_home_node */, 447 /* memfd_secret */,
    459 /* lsm_get_self_attr */, 460 /* lsm_set_self_attr */, 461 /* lsm_list_modules */,
#if defined __x86_64__
    SYS_iopl, SYS_ioperm, SYS_modify_ldt, SYS_uselib, SYS_ustat, SYS_sysfs, SYS__sysctl, SYS_kexec_file_load,
    SYS_create_module, SYS_get_kernel_syms, SYS_query_module,
#endif
};

enum { NUMBERS = 480, MOST_INSTRUCTIONS = 512 };

enum action { UNKNOWN, REFUSE, ALLOW, LOOK };

struct program {
    struct sock_filter at[MOST_INSTRUCTIONS];
    unsigned short size;
};

static void add(struct program *program, unsigned short code, uint32_t value, uint8_t if_true, uint8_t if_false)
{
    if (program->size < MOST_INSTRUCTIONS)
        program->at[program->size] = (struct sock_filter){code, if_true, if_false, value};
    program->size++;
}

static void load(struct program *program, size_t offset) { add(program, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0); }

static void answer(struct program *program, uint32_t action) { add(program, BPF_RET | BPF_K, action, 0, 0); }

static void answer_if(struct program *program, unsigned short test, uint32_t value, uint32_t action)
{
    add(program, BPF_JMP | BPF_K | test, value, 0, 1);
    answer(program, action);
}

#define ERROR(number) (SECCOMP_RET_ERRNO | ((number) & SECCOMP_RET_DATA))
/* The low half: each argument looked at here is an `int` to the kernel, which drops the other half. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define ARGUMENT(n) (offsetof(struct seccomp_data, args) + 8 * (n))
#endif

/* For the call `number`: what follows until the next of these is for it alone. */
static uint16_t begin_look(struct program *program, uint32_t number)
{
    add(program, BPF_JMP | BPF_K | BPF_JEQ, number, 0, 0);
    return program->size - 1;
}

static void end_look(struct program *program, uint16_t began)
{
    if (program->size < MOST_INSTRUCTIONS) program->at[began].jf = (uint8_t)(program->size - began - 1);
}

static void look_at_clone(struct program *program)
{
    uint16_t began = begin_look(program, SYS_clone);
    load(program, ARGUMENT(0));
    answer_if(program, BPF_JSET,
              CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET,
              ERROR(EPERM));
    answer(program, SECCOMP_RET_ALLOW);
    end_look(program, began);
    /* Its flags lie in memory, where no filter looks; a libc that hears ENOSYS takes clone. */
    began = begin_look(program, NR_clone3);
    answer(program, ERROR(ENOSYS));
    end_look(program, began);
}

/* Any other family or protocol would have the host's kernel load a module for it. */
static void look_at_sockets(struct program *program)
{
    static const uint8_t protocols[] = {0, IPPROTO_ICMP, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMPV6};

    uint16_t began = begin_look(program, SYS_socketpair);
    load(program, ARGUMENT(0));
    answer_if(program, BPF_JEQ, AF_UNIX, SECCOMP_RET_ALLOW);
    answer(program, ERROR(EPERM));
    end_look(program, began);

    began = begin_look(program, SYS_socket);
    load(program, ARGUMENT(0));
    answer_if(program, BPF_JEQ, AF_UNIX, SECCOMP_RET_ALLOW);
    add(program, BPF_JMP | BPF_K | BPF_JEQ, AF_NETLINK, 0, 4);
    load(program, ARGUMENT(2));
    answer_if(program, BPF_JEQ, NETLINK_ROUTE, SECCOMP_RET_ALLOW);
    answer(program, ERROR(EPERM));
    add(program, BPF_JMP | BPF_K | BPF_JEQ, AF_INET, 2, 0);
    add(program, BPF_JMP | BPF_K | BPF_JEQ, AF_INET6, 1, 0);
    answer(program, ERROR(EPERM));
    load(program, ARGUMENT(2));
    for (size_t i = 0; i < sizeof protocols; i++) answer_if(program, BPF_JEQ, protocols[i], SECCOMP_RET_ALLOW);
    answer(program, ERROR(EPROTONOSUPPORT)); /* what a kernel without it says, and programs fall back on (MPTCP) */
    end_look(program, began);
}

static void look_at_others(struct program *program)
{
    /* Typing into one's own terminal, read by whoever has it next. */
    uint16_t began = begin_look(program, SYS_ioctl);
    load(program, ARGUMENT(1));
    answer_if(program, BPF_JEQ, TIOCSTI, ERROR(EPERM));
    answer_if(program, BPF_JEQ, 0x541c /* TIOCLINUX */, ERROR(EPERM));
    answer_if(program, BPF_JEQ, TIOCSETD, ERROR(EPERM)); /* has the host's kernel load a module, too */
    answer(program, SECCOMP_RET_ALLOW);
    end_look(program, began);

    static const uint32_t personalities[] = {0, 0x8 /* LINUX32 */, 0x20000 /* UNAME26 */, 0x20008, 0xffffffff /* asks */};
    began = begin_look(program, SYS_personality);
    load(program, ARGUMENT(0));
    for (size_t i = 0; i < sizeof personalities / sizeof *personalities; i++)
        answer_if(program, BPF_JEQ, personalities[i], SECCOMP_RET_ALLOW);
    answer(program, ERROR(EPERM));
    end_look(program, began);
}

/* The warden has the agent's user, and may do what limits and priorities let one process of a user do to another: a limit
   on its processor time would be its end. */
static void look_at_warden(struct program *program)
{
    for (size_t i = 0; i < sizeof by_process / sizeof *by_process; i++) {
        uint16_t began = begin_look(program, (uint32_t)by_process[i]);
        load(program, ARGUMENT(0));
        answer_if(program, BPF_JEQ, 1, ERROR(EPERM));
        answer(program, SECCOMP_RET_ALLOW);
        end_look(program, began);
    }
    static const struct { uint32_t number, all_of_a_user; } by_kind[] = {
        {SYS_setpriority, 2 /* PRIO_USER */}, {SYS_ioprio_set, 3 /* IOPRIO_WHO_USER */},
    };
    for (size_t i = 0; i < sizeof by_kind / sizeof *by_kind; i++) {
        uint16_t began = begin_look(program, by_kind[i].number);
        load(program, ARGUMENT(0));
        answer_if(program, BPF_JEQ, by_kind[i].all_of_a_user, ERROR(EPERM));
        load(program, ARGUMENT(1));
        answer_if(program, BPF_JEQ, 1, ERROR(EPERM)); /* it, or its process group */
        answer(program, SECCOMP_RET_ALLOW);
        end_look(program, began);
    }
}

static void actions_of(uint8_t actions[NUMBERS])
{
    static const short looked_at[] = {
        SYS_clone, NR_clone3, SYS_socket, SYS_socketpair, SYS_ioctl, SYS_personality, SYS_setpriority, SYS_ioprio_set,
    };
    memset(actions, UNKNOWN, NUMBERS);
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) actions[allowed[i]] = ALLOW;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) actions[refused[i]] = REFUSE;
    for (size_t i = 0; i < sizeof looked_at / sizeof *looked_at; i++) actions[looked_at[i]] = LOOK;
    for (size_t i = 0; i < sizeof by_process / sizeof *by_process; i++) actions[by_process[i]] = LOOK;
}

/* The architecture, then what needs a look at its arguments, then every number in ranges of one answer. The kernel
   remembers which numbers are always allowed, and runs none of this for them. */
static void write_program(struct program *program)
{
    static const uint32_t answers[] = {ERROR(ENOSYS), ERROR(EPERM), SECCOMP_RET_ALLOW, ERROR(ENOSYS)};
    uint8_t actions[NUMBERS];
    actions_of(actions);

    load(program, offsetof(struct seccomp_data, arch));
    add(program, BPF_JMP | BPF_K | BPF_JEQ, ARCHITECTURE, 1, 0);
    answer(program, ERROR(EPERM));
    load(program, offsetof(struct seccomp_data, nr));
    answer_if(program, BPF_JGE, 0x40000000, ERROR(EPERM)); /* x32 */
    look_at_clone(program);
    look_at_sockets(program);
    look_at_others(program);
    look_at_warden(program);
    for (uint32_t number = 0; number < NUMBERS; number++) {
        if (number + 1 < NUMBERS && actions[number + 1] == actions[number]) continue;
        add(program, BPF_JMP | BPF_K | BPF_JGT, number, 1, 0);
        answer(program, answers[actions[number]]);
    }
    answer(program, ERROR(ENOSYS));
}

void load_filter(void)
{
    struct program program = {.size = 0};
    write_program(&program);
    errno = E2BIG;
    if (program.size > MOST_INSTRUCTIONS) give_up(STEP_FILTER, "writing the filter on system calls");
    struct sock_fprog loaded = {program.size, program.at};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &loaded, 0, 0) < 0)
        give_up(STEP_FILTER, "loading the filter on system calls");
}
