#include "act.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* One direction: what was read and is not written yet. */
struct flow {
    int from, to;
    size_t at, size;
    bool ended;
    uint8_t bytes[65536];
};

static struct flow there, back;

static int connect_to(uint64_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    if (port < 1 || port > 65535) act_fail_with(EINVAL, "`port`");
    address.sin_port = htons((uint16_t)port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0) act_fail("connecting");
    return fd;
}

static bool would_wait(void) { return errno == EAGAIN || errno == EINTR; }

static void fill(struct flow *flow)
{
    ssize_t got = read(flow->from, flow->bytes, sizeof flow->bytes);
    if (got < 0 && would_wait()) return;
    flow->at = 0;
    flow->size = got > 0 ? (size_t)got : 0;
    flow->ended = got <= 0;
}

/* False: nobody takes it. */
static bool drain(struct flow *flow)
{
    ssize_t went = write(flow->to, flow->bytes + flow->at, flow->size);
    if (went < 0) return would_wait();
    flow->at += (size_t)went;
    flow->size -= (size_t)went;
    return true;
}

static struct pollfd wish(const struct flow *flow)
{
    if (flow->size) return (struct pollfd){.fd = flow->to, .events = POLLOUT};
    return (struct pollfd){.fd = flow->ended ? -1 : flow->from, .events = POLLIN};
}

static void go_on(struct flow *flow, short events)
{
    if (!events) return;
    if (!flow->size) {
        fill(flow);
    } else if (!drain(flow)) {
        flow->size = 0;
        flow->ended = true;
    }
}

/* Both directions at once; over when the other side has said its last. */
void do_dial(const struct start *start)
{
    int fd = connect_to(start->port);
    there = (struct flow){.from = act_input, .to = fd};
    back = (struct flow){.from = fd, .to = act_output};
    for (int i = 0; i < 3; i++) fcntl((int[]){fd, act_input, act_output}[i], F_SETFL, O_NONBLOCK);
    act_ready();
    for (bool shut = false; !back.ended || back.size;) {
        struct pollfd wishes[] = {wish(&there), wish(&back)};
        if (poll(wishes, 2, -1) < 0) continue;
        go_on(&there, wishes[0].revents);
        go_on(&back, wishes[1].revents);
        if (there.ended && !there.size && !shut) shut = shutdown(fd, SHUT_WR) == 0 || true;
    }
}
