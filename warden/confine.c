#include "confine.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif

void give_up(enum step step, const char *what)
{
    dprintf(2, "warden: %s: %s\n", what, strerror(errno));
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
    close(fd);
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

/* The agent's servers may listen on port 80. gVisor lacks the switch: there low ports stay shut, which is no barrier
   less. */
void open_low_ports(void)
{
    if (put("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0") < 0 && errno != ENOENT)
        give_up(STEP_PORTS, "setting ip_unprivileged_port_start");
}

/* One more user namespace: the network, the mounts and the host name belong to the outer one, and nobody in here has a
   capability there. */
void become_agent(void)
{
    if (unshare(CLONE_NEWUSER) < 0) give_up(STEP_USER, "making a user namespace");
    if (put("/proc/self/setgroups", "deny") < 0) give_up(STEP_USER, "writing setgroups");
    if (put("/proc/self/uid_map", "1000 0 1") < 0) give_up(STEP_USER, "writing uid_map");
    if (put("/proc/self/gid_map", "1000 0 1") < 0) give_up(STEP_USER, "writing gid_map");
    if (setresgid(1000, 1000, 1000) < 0 || setresuid(1000, 1000, 1000) < 0) give_up(STEP_USER, "becoming uid 1000");
}

void drop_capabilities(void)
{
    for (unsigned long capability = 0; capability < 64; capability++) {
        if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0) continue;
        if (errno == EINVAL && capability > CAP_SETFCAP) break; /* the kernel's last one was before it */
        give_up(STEP_CAPABILITIES, "emptying the bounding set");
    }
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); /* as good as done by the next step, where it is missing */
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};
    if (syscall(SYS_capset, &head, none) < 0) give_up(STEP_CAPABILITIES, "dropping capabilities");
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

/* Whoever started us sees our end of its pipe close: that, and no line on it, says that the start is done. */
void leave_terminal(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0) give_up(STEP_DESCRIPTORS, "opening /dev/null");
    for (int fd = 0; fd < 3; fd++) dup2(null, fd);
    if (null > 2) close(null);
}
