/* The warden's end of the link and its sessions, with everything below them played: no program runs, but each session's
   pipes or terminal are real, and the input says what comes out of them.

   The input is a sequence of steps: a byte that says what happens, and what that takes. */
#include "../../../warden/link.c"

#include "branch.h"
#include "hunt.h"
#include "ring.h"
#include "start.h"

#include <sys/socket.h>

enum { STEPS = 400 };

static const uint8_t *at, *end;
static int peer = -1, outer[MOST_BRANCHES][3];
static uint64_t time_now;

/* --- what is below */

struct branch branches[MOST_BRANCHES];
bool branch_pending;

uint64_t now(void) { return time_now; }
void loop_watch(int fd, enum source source, int slot, uint32_t events) { (void)fd, (void)source, (void)slot, (void)events; }
void loop_change(int fd, enum source source, int slot, uint32_t events) { (void)fd, (void)source, (void)slot, (void)events; }
void loop_unwatch(int fd) { (void)fd; }
void hunt_begin(void) {}
void hunt_strays(void) {}
void branch_signal_first(struct branch *branch, int signal) { (void)branch, (void)signal; }
void branch_signal_all(struct branch *branch, int signal) { (void)branch, (void)signal; }
void branch_condemn(struct branch *branch) { branch->condemned = true; }
struct branch *branch_of(pid_t pid) { return pid > 0 && pid <= MOST_BRANCHES && branches[pid - 1].pid ? branches + pid - 1 : NULL; }

void branch_survive(struct branch *branch, int channel, int fd)
{
    if (branch->survivors[channel] > 0) close(branch->survivors[channel]);
    branch->survivors[channel] = fd;
}

int branch_open(const struct start *start, int session, const int program[3])
{
    for (int slot = 0; slot < MOST_BRANCHES; slot++) {
        if (branches[slot].pid) continue;
        branches[slot] = (struct branch){.pid = slot + 1, .session = session, .act = start->act.size > 0};
        for (int fd = 0; fd < 3; fd++) outer[slot][fd] = program[fd] < 0 ? -1 : fcntl(program[fd], F_DUPFD_CLOEXEC, 3);
        for (int fd = 1; fd < 3; fd++) if (outer[slot][fd] >= 0) fcntl(outer[slot][fd], F_SETFL, O_NONBLOCK);
        return slot;
    }
    errno = EAGAIN;
    return -1;
}

static void end_branch(int slot)
{
    struct branch *branch = branches + slot;
    if (!branch->pid) return;
    for (int fd = 0; fd < 3; fd++) if (outer[slot][fd] >= 0) close(outer[slot][fd]);
    for (int channel = 0; channel < 2; channel++) if (branch->survivors[channel] > 0) close(branch->survivors[channel]);
    int session = branch->session;
    *branch = (struct branch){0};
    if (session >= 0) session_reaper_gone(session, false);
}

/* --- what must always be so */

static void check(void)
{
    if (outbox_size > OUTBOX || outbox_sent > outbox_size || inbox_size > HEAD + MOST_PAYLOAD) abort();
    if (refused_count > MOST_REFUSED) abort();
    for (struct session *session = sessions; session < sessions + MOST_SESSIONS; session++) {
        if (!session->stream) continue;
        if (session->stream >= next_stream) abort();
        if (session->input.taken > session->input.end || session->input.end - session->input.taken > MOST_INPUT) abort();
        for (int i = 0; i < 2; i++) {
            const struct channel *channel = session->channels + i;
            const struct ring *ring = &channel->ring;
            if (ring->first > ring->end || ring->end - ring->first > RING_SIZE) abort();
            if (channel->sent < ring->first || channel->sent > ring->end) abort();
        }
    }
}

/* --- steps */

static uint8_t byte(void) { return at < end ? *at++ : 0; }

static void connect_again(void)
{
    int ends[2];
    hang_up();
    if (peer >= 0) close(peer);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) < 0) abort();
    link_fd = ends[0];
    peer = ends[1];
    state = AWAITS_CHALLENGE;
}

/* As the server says it, and cut wherever the socket likes. */
static void hear_bytes(void)
{
    size_t size = (size_t)byte() << 8;
    size |= byte();
    if (size > (size_t)(end - at)) size = (size_t)(end - at);
    if (link_fd < 0 || !size) return;
    ssize_t went = send(peer, at, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    at += went > 0 ? went : 0;
    link_ready(EPOLLIN);
}

/* The way to where sessions are, which no change of bytes would find: it holds nothing that is ours to doubt. */
static void greet(void)
{
    static uint8_t payload[64];
    struct packer packer = {payload, payload + sizeof payload, false};
    if (state == AWAITS_CHALLENGE) {
        pack_map(&packer, 2);
        pack_str(&packer, "v"), pack_uint(&packer, 1);
        pack_str(&packer, "nonce"), pack_bin(&packer, key, 32);
        if (!hear(CHALLENGE, 0, payload, (uint32_t)(packer.at - payload))) abort();
    }
}

static void drain(void)
{
    static uint8_t dropped[1 << 18];
    while (peer >= 0 && recv(peer, dropped, sizeof dropped, MSG_DONTWAIT) > 0) continue;
}

static void step(void)
{
    static uint8_t words[1 << 16];
    struct session *session;
    int slot = byte() % MOST_SESSIONS;
    session = sessions[slot].stream ? sessions + slot : NULL;
    int branch = session ? session->branch : -1;
    switch (byte() % 13) {
    case 0: connect_again(); break;
    case 1: greet(); break;
    default: hear_bytes(); break;
    case 5: if (branch >= 0 && outer[branch][1] >= 0 && write(outer[branch][1], words, 1 + byte() * 256U) < 0) byte(); break;
    case 6: if (branch >= 0 && outer[branch][2] >= 0 && write(outer[branch][2], words, 1 + byte() * 256U) < 0) byte(); break;
    case 7: if (session) session_readable(slot, byte() & 1); break;
    case 8: if (session) session_writable(slot); break;
    case 9: if (session) session_began(slot, byte() + 1); break;
    case 10: if (session) session_ended(slot, byte() << 8, 1, 2, 3); break;
    case 11: if (branch >= 0) end_branch(branch); break;
    case 12: time_now += byte() * 16U; sessions_tick(); break;
    }
    link_flush();
    check();
    if (byte() & 1) drain();
}

static void begin_anew(void)
{
    hang_up();
    for (int slot = 0; slot < MOST_BRANCHES; slot++) end_branch(slot);
    for (struct session *session = sessions; session < sessions + MOST_SESSIONS; session++)
        if (session->stream) session_forget(session);
    next_stream = 1;
    time_now = 0;
    memset(wants, 0, sizeof wants);
    last_served = 0;
    connect_again();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!inbox) link_open((uint8_t[32]){0});
    begin_anew();
    at = data;
    end = data + size;
    for (int steps = 0; steps < STEPS && at < end; steps++) step();
    return 0;
}
