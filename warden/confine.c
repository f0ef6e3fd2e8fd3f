#include "confine.h"

#include "text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif

void give_up(enum step step, const char *what)
{
    char sentence[256], *end = sentence + sizeof sentence;
    int error = errno;
    char *at = text_add(sentence, end, "warden: ");
    at = text_add(at, end, what);
    at = text_add(at, end, ": ");
    at = text_add(at, end, strerror(error));
    at = text_add(at, end, "\n");
    if (write(2, sentence, (size_t)(at - sentence)) < 0) _exit(step); /* it cannot be told either way */
    _exit(step);
}

void read_key(int fd, uint8_t key[32])
{
    size_t have = 0;
    while (have < 32) {
        ssize_t got = read(fd, key + have, 32 - have);
        if (got < 0 && errno == EINTR) continue;
        if (got == 0) errno = ENODATA;
        if (got <= 0) give_up(STEP_KEY, "reading the key");
        have += (size_t)got;
    }
}

/* A lock that says we live, say, stays open here, and reaches no child. */
void keep_descriptors_private(void)
{
    if (syscall(SYS_close_range, 3, ~0U, CLOSE_RANGE_CLOEXEC) == 0) return;
    if (errno != ENOSYS && errno != EINVAL) give_up(STEP_DESCRIPTORS, "marking descriptors close-on-exec");
    long most = sysconf(_SC_OPEN_MAX); /* before Linux 5.11, and in gVisor */
    if (most < 0 || most > 1 << 20) most = 1 << 20;
    for (int fd = 3; fd < most; fd++) {
        if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 && errno != EBADF)
            give_up(STEP_DESCRIPTORS, "marking a descriptor close-on-exec");
    }
}

struct request {
    struct nlmsghdr head;
    union {
        struct ifinfomsg link;
        struct {
            struct ifaddrmsg about;
            struct rtattr local_head;
            struct in_addr local;
            struct rtattr address_head;
            struct in_addr address;
        } address;
    };
};

/* One request to the kernel's routing socket: 0, or the errno of its answer. */
static int ask_kernel(struct request *request)
{
    struct {
        struct nlmsghdr head;
        struct nlmsgerr error;
        char rest[256];
    } answer;
    int outcome = EPROTO, fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0) return errno;
    if (send(fd, request, request->head.nlmsg_len, 0) < 0) outcome = errno;
    else if (recv(fd, &answer, sizeof answer, 0) >= (ssize_t)(sizeof answer.head + sizeof answer.error.error)
             && answer.head.nlmsg_type == NLMSG_ERROR)
        outcome = -answer.error.error;
    close(fd);
    return outcome;
}

/* The names' address: a resolver asks only when an interface has a real one (AI_ADDRCONFIG), and 198.18.0.0/15 as a
   whole becomes local, so that every address in it can be listened on. */
void bring_network_up(void)
{
    unsigned index = if_nametoindex("lo");
    if (index == 0) give_up(STEP_NETWORK, "finding the loopback");
    struct request up = {
        .head = {.nlmsg_len = NLMSG_LENGTH(sizeof up.link), .nlmsg_type = RTM_NEWLINK,
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
        .link = {.ifi_family = AF_UNSPEC, .ifi_index = (int)index, .ifi_flags = IFF_UP, .ifi_change = IFF_UP},
    };
    if ((errno = ask_kernel(&up))) give_up(STEP_NETWORK, "bringing the loopback up");

    struct in_addr names = {htonl(0xc6120001)}; /* 198.18.0.1 */
    struct request add = {
        .head = {.nlmsg_len = NLMSG_LENGTH(sizeof add.address), .nlmsg_type = RTM_NEWADDR,
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE},
        .address = {
            .about = {.ifa_family = AF_INET, .ifa_prefixlen = 15, .ifa_scope = RT_SCOPE_HOST, .ifa_index = index},
            .local_head = {.rta_len = RTA_LENGTH(sizeof names), .rta_type = IFA_LOCAL},
            .local = names,
            .address_head = {.rta_len = RTA_LENGTH(sizeof names), .rta_type = IFA_ADDRESS},
            .address = names,
        },
    };
    errno = ask_kernel(&add);
    if (errno && errno != EEXIST) give_up(STEP_NETWORK, "adding 198.18.0.1/15 to the loopback");
}

static int put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    ssize_t done = write(fd, text, strlen(text));
    int error = errno;
    close(fd);
    errno = error;
    return done < 0 ? -1 : 0;
}

/* Executed from a file that may not be read, we are unreadable already, and could not write our own maps. */
void become_readable(void) { prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); }

/* The agent's servers may listen on port 80. gVisor lacks the switch: there low ports stay shut, which is no barrier
   less. */
void open_low_ports(void)
{
    if (put("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0") < 0 && errno != ENOENT)
        give_up(STEP_SYSTEM, "setting ip_unprivileged_port_start");
}

/* Whoever mounted them said how many bytes they hold. Empty files take none, but the kernel's memory. */
void bound_file_counts(void)
{
    static const char *const in_memory[] = {"/tmp", "/dev/shm", "/run"};
    for (size_t i = 0; i < sizeof in_memory / sizeof *in_memory; i++)
        mount(NULL, in_memory[i], NULL, MS_REMOUNT | MS_NOSUID | MS_NODEV, "nr_inodes=131072"); /* as good without */
}

/* A runtime that may gives us SYS_ADMIN for this alone. */
void shut_system_settings(void)
{
    struct statvfs root;
    if (statvfs("/", &root) == 0) {
        unsigned long as_it_is = root.f_flag & ST_RDONLY ? MS_RDONLY : 0;
        mount(NULL, "/", NULL, MS_BIND | MS_REMOUNT | MS_NOSUID | MS_NODEV | as_it_is, NULL); /* as good without */
    }
    const char *path = "/proc/sys";
    unsigned long shut = MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC;
    if (mount(path, path, NULL, MS_BIND, NULL) == 0 && mount(NULL, path, NULL, shut, NULL) == 0) return;
    if (errno != EPERM) give_up(STEP_SYSTEM, "making /proc/sys read-only");
}

/* Every range of ids that we have, as it is. */
static void copy_map(const char *from, const char *to)
{
    char text[4096], copy[8192], *at = copy, *end = copy + sizeof copy;
    int fd = open(from, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (got < 0) give_up(STEP_USER, from);
    close(fd);
    text[got] = 0;
    for (char *line = text, *next; *line; line = next) {
        unsigned long first = strtoul(line, &next, 10);
        strtoul(next, &next, 10); /* what it is outside */
        unsigned long count = strtoul(next, &next, 10);
        at = text_add_number(at, end, first);
        at = text_add(at, end, " ");
        at = text_add_number(at, end, first);
        at = text_add(at, end, " ");
        at = text_add_number(at, end, count);
        at = text_add(at, end, "\n");
        next += strspn(next, "\n");
    }
    if (put(to, copy) < 0) give_up(STEP_USER, to);
}

/* More than one id can only be mapped from outside: by a child that stays there. */
static void unshare_with_range(void)
{
    char byte;
    int ready[2], status;
    /* We are PID 1, and our child sees us as that. */
    if (pipe2(ready, O_CLOEXEC) < 0) give_up(STEP_USER, "making a pipe");
    pid_t child = fork();
    if (child == 0) {
        close(ready[1]);
        if (read(ready[0], &byte, 1) != 1) _exit(STEP_USER);
        copy_map("/proc/self/uid_map", "/proc/1/uid_map");
        copy_map("/proc/self/gid_map", "/proc/1/gid_map");
        _exit(0);
    }
    if (child < 0 || unshare(CLONE_NEWUSER) < 0) give_up(STEP_USER, "making a user namespace");
    if (write(ready[1], "", 1) != 1 || waitpid(child, &status, 0) != child) give_up(STEP_USER, "mapping ids");
    if (status) _exit(STEP_USER); /* it has said why */
    close(ready[0]);
    close(ready[1]);
}

/* One more user namespace: the network, the mounts and the host name belong to the outer one, and nobody in here has a
   capability there. */
void become_owner(enum ids ids)
{
    uid_t id = ids == IDS_ROOT ? 0 : 1000;
    if (ids == IDS_ROOT) {
        unshare_with_range();
    } else {
        if (unshare(CLONE_NEWUSER) < 0) give_up(STEP_USER, "making a user namespace");
        if (put("/proc/self/setgroups", "deny") < 0) give_up(STEP_USER, "writing setgroups");
        if (put("/proc/self/uid_map", "1000 0 1") < 0) give_up(STEP_USER, "writing uid_map");
        if (put("/proc/self/gid_map", "1000 0 1") < 0) give_up(STEP_USER, "writing gid_map");
    }
    if (setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0) give_up(STEP_USER, "becoming the sandbox's user");
}

/* With a range of ids: what Docker gives, less raw sockets and device nodes. They count for files of the sandbox's own
   ids alone. Otherwise nothing. */
static const uint64_t of_root =
    1 << CAP_CHOWN | 1 << CAP_DAC_OVERRIDE | 1 << CAP_FSETID | 1 << CAP_FOWNER | 1 << CAP_SETGID | 1 << CAP_SETUID
    | 1 << CAP_SETPCAP | 1 << CAP_NET_BIND_SERVICE | 1 << CAP_SYS_CHROOT | 1 << CAP_KILL | 1 << CAP_AUDIT_WRITE
    | (uint64_t)1 << CAP_SETFCAP;

void drop_capabilities(enum ids ids)
{
    uint64_t kept = ids == IDS_ROOT ? of_root : 0;
    for (unsigned long capability = 0; capability < 64; capability++) {
        if (kept >> capability & 1 || prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0) continue;
        if (errno == EINVAL && capability > CAP_SETFCAP) break; /* the kernel's last one was before it */
        give_up(STEP_CAPABILITIES, "emptying the bounding set");
    }
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); /* as good as done by the next step, where it is missing */
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{.effective = (uint32_t)kept, .permitted = (uint32_t)kept}};
    if (syscall(SYS_capset, &head, data) < 0) give_up(STEP_CAPABILITIES, "dropping capabilities");
}

void refuse_new_privileges(void)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) give_up(STEP_PRIVILEGES, "setting no-new-privs");
}

/* Our memory, descriptors and environment belong to nobody the agent is; what it executes is readable again. */
void become_unreadable(void)
{
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) give_up(STEP_SECRECY, "becoming non-dumpable");
}

/* All that can fail has been done: the byte 0 where the key came from, if that was a socket, says so. */
void say_ready(int fd)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0) give_up(STEP_DESCRIPTORS, "opening /dev/null");
    send(fd, "", 1, MSG_NOSIGNAL);
    for (int standard = 0; standard < 3; standard++) dup2(null, standard);
    if (null > 2) close(null);
    if (fd > 2) close(fd);
}
