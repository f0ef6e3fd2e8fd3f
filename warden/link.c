#include "link.h"

#include "loop.h"
#include "session.h"
#include "sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SOCKET_PATH "/run/ringfence/link.sock"

enum {
    HEAD = 9,
    MOST_PAYLOAD = 262144,
    MOST_CONTROL = MOST_RESULT + 1024,      /* a whole EXITED */
    MOST_GREETING = 32768,
    OUTBOX = MOST_GREETING + MOST_CONTROL + MOST_OUTPUT,
    FRAMES_AT_ONCE = 16,
    FIRST_PAUSE = 10, LONGEST_PAUSE = 1000,
    MOST_REFUSED = 64,
    KEPT = 4096,                            /* of each buffer stays resident when it is empty */
};

enum frame {
    CHALLENGE = 0x01, HELLO, WELCOME, PING, PONG,
    START = 0x10, STARTED, OUTPUT, STORED, INPUT, INPUT_END, TAKEN, SIGNAL, RESIZE, ENDED, FORGET,
};

enum state { AWAY, AWAITS_CHALLENGE, AWAITS_WELCOME, UP };

static enum state state;
static int link_fd = -1;
static uint8_t key[32], boot[16], pong[8];
static bool owes_pong, watches_output;
static uint64_t dial_at;
static uint32_t pause_now = FIRST_PAUSE;

static uint8_t *inbox;                  /* HEAD + MOST_PAYLOAD, and a byte that a child may put a NUL in */
static uint32_t inbox_size;
static bool inbox_touched;
static uint8_t *outbox;                 /* OUTBOX bytes, of which [outbox_sent, outbox_size) wait */
static uint32_t outbox_sent, outbox_size;

static uint64_t wants[MOST_SESSIONS / 64];
static int last_served;
static uint32_t refused[MOST_REFUSED];
static int refused_count;

static void *lazily_mapped(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void link_open(const uint8_t given[32])
{
    memcpy(key, given, sizeof key);
    inbox = lazily_mapped(HEAD + MOST_PAYLOAD + 1);
    outbox = lazily_mapped(OUTBOX);
    if (!inbox || !outbox || getrandom(boot, sizeof boot, 0) != sizeof boot) _exit(20);
}

void link_forget_key(void)
{
    memset(key, 0, sizeof key);
    __asm__ volatile("" : : "r"(key) : "memory"); /* or it would be left out as useless */
}

void link_wants(struct session *session)
{
    int slot = (int)(session - sessions);
    wants[slot / 64] |= UINT64_C(1) << slot % 64;
}

/* --- coming and going */

static void hang_up(void)
{
    if (link_fd >= 0) {
        loop_unwatch(link_fd);
        close(link_fd);
    }
    link_fd = -1;
    state = AWAY;
    owes_pong = watches_output = false;
    inbox_size = outbox_sent = outbox_size = 0;
    refused_count = 0;
    dial_at = now() + pause_now;
    pause_now = 2 * pause_now < LONGEST_PAUSE ? 2 * pause_now : LONGEST_PAUSE;
}

static void dial(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = SOCKET_PATH};
    link_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (link_fd >= 0) loop_watch(link_fd, FROM_LINK, 0, EPOLLIN);
    if (link_fd < 0 || connect(link_fd, (struct sockaddr *)&address, sizeof address) < 0) hang_up();
    else state = AWAITS_CHALLENGE;
}

uint64_t link_due(void) { return state == AWAY ? dial_at : NEVER; }

void link_tick(void)
{
    if (state == AWAY && now() >= dial_at) dial();
}

/* --- what we say: into the outbox; only whole frames, so that nothing else ever has to be waited for */

static void put_number(uint8_t *at, uint64_t value, int width)
{
    for (int i = 0; i < width; i++) at[i] = (uint8_t)(value >> (8 * (width - 1 - i)));
}

static uint64_t number_at(const uint8_t *at, int width)
{
    uint64_t value = 0;
    while (width--) value = value << 8 | *at++;
    return value;
}

static void put_head(uint8_t *at, uint32_t size, enum frame type, uint32_t stream)
{
    put_number(at, size, 4);
    at[4] = (uint8_t)type;
    put_number(at + 5, stream, 4);
}

static struct packer begin_frame(void)
{
    return (struct packer){outbox + outbox_size + HEAD, outbox + OUTBOX, false};
}

static void end_frame(const struct packer *packer, enum frame type, uint32_t stream)
{
    uint8_t *head = outbox + outbox_size;
    uint32_t size = (uint32_t)(packer->at - head) - HEAD;
    if (packer->full || size > MOST_PAYLOAD) return; /* cannot be: every part of it is bounded */
    put_head(head, size, type, stream);
    outbox_size += HEAD + size;
}

static void say_hello(const uint8_t nonce[32])
{
    static const char title[] = "ringfence link 1\n";
    uint8_t message[sizeof title - 1 + 32 + 16], mac[32];
    memcpy(message, title, sizeof title - 1);
    memcpy(message + sizeof title - 1, nonce, 32);
    memcpy(message + sizeof title - 1 + 32, boot, 16);
    hmac_sha256(key, message, sizeof message, mac);

    uint32_t count = 0;
    for (int slot = 0; slot < MOST_SESSIONS; slot++) count += sessions[slot].stream > 0;
    struct packer packer = begin_frame();
    pack_map(&packer, 5);
    pack_str(&packer, "v"), pack_uint(&packer, 1);
    pack_str(&packer, "boot"), pack_bin(&packer, boot, sizeof boot);
    pack_str(&packer, "mac"), pack_bin(&packer, mac, sizeof mac);
    pack_str(&packer, "next"), pack_uint(&packer, next_stream);
    pack_str(&packer, "sessions"), pack_array(&packer, count);
    for (int slot = 0; slot < MOST_SESSIONS; slot++)
        if (sessions[slot].stream) pack_greeting(&packer, sessions + slot);
    end_frame(&packer, HELLO, 0);
}

static void say_numbers(enum frame type, uint32_t stream, uint64_t value)
{
    struct packer packer = begin_frame();
    uint8_t payload[8];
    put_number(payload, value, 8);
    pack_raw(&packer, payload, 8);
    end_frame(&packer, type, stream);
}

static void say_started(struct session *session)
{
    struct packer packer = begin_frame();
    pack_map(&packer, 1);
    pack_str(&packer, "pid"), pack_uint(&packer, (uint64_t)session->pid);
    end_frame(&packer, STARTED, session->stream);
    session->owes_started = false;
}

static void say_ended(struct session *session)
{
    struct packer packer = begin_frame();
    pack_ending(&packer, session);
    end_frame(&packer, ENDED, session->stream);
    session->owes_ended = false;
}

void link_refuse(uint32_t stream)
{
    if (refused_count < MOST_REFUSED) refused[refused_count++] = stream;
}

static void say_refused(uint32_t stream)
{
    struct session none = {.ending = {.cause = FAILED, .code = 126, .error = EAGAIN,
                                      .sentence = "128 sessions are held already"}};
    struct packer packer = begin_frame();
    pack_ending(&packer, &none);
    end_frame(&packer, ENDED, stream);
}

/* Sends what waits and then `rest`, of which what is not taken is copied, so that it waits too. False: gone, or full. */
static bool push(struct iovec rest[2], int parts)
{
    struct iovec all[3] = {{outbox + outbox_sent, outbox_size - outbox_sent}};
    for (int i = 0; i < parts; i++) all[1 + i] = rest[i];
    struct msghdr message = {.msg_iov = all, .msg_iovlen = 1 + (size_t)parts};
    ssize_t went = sendmsg(link_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (went < 0 && errno != EAGAIN && errno != EINTR) {
        hang_up();
        return false;
    }
    size_t sent = went < 0 ? 0 : (size_t)went;
    size_t own = sent < all[0].iov_len ? sent : all[0].iov_len;
    outbox_sent += (uint32_t)own;
    sent -= own;
    if (outbox_sent == outbox_size) {
        if (outbox_size > KEPT) madvise(outbox + KEPT, OUTBOX - KEPT, MADV_DONTNEED);
        outbox_sent = outbox_size = 0;
    }
    for (int i = 0; i < parts; i++) {
        size_t skipped = sent < rest[i].iov_len ? sent : rest[i].iov_len, left = rest[i].iov_len - skipped;
        memcpy(outbox + outbox_size, (uint8_t *)rest[i].iov_base + skipped, left);
        outbox_size += (uint32_t)left;
        sent -= skipped;
    }
    return outbox_size == 0;
}

/* The head goes behind what waits, the bytes straight from the ring. */
static bool say_output(struct session *session, int index)
{
    struct channel *channel = session->channels + index;
    uint64_t left = channel->ring.end - channel->sent;
    uint32_t size = left < MOST_OUTPUT ? (uint32_t)left : MOST_OUTPUT;
    struct iovec pieces[2];
    int parts = ring_held(&channel->ring, channel->sent, size, pieces);
    uint8_t *at = outbox + outbox_size;
    put_head(at, HEAD + size, OUTPUT, session->stream);
    at[HEAD] = (uint8_t)(index + 1);
    put_number(at + HEAD + 1, channel->sent, 8);
    outbox_size += 2 * HEAD;
    channel->sent += size;
    if (size > KEPT) return push(pieces, parts);
    for (int i = 0; i < parts; i++) {
        memcpy(outbox + outbox_size, pieces[i].iov_base, pieces[i].iov_len);
        outbox_size += (uint32_t)pieces[i].iov_len;
    }
    return true;
}

static bool has_room(void) { return outbox_size + MOST_CONTROL < MOST_GREETING; }

/* One frame for it, or none: then it wants nothing more. */
static bool serve(struct session *session)
{
    if (session->owes_started) say_started(session);
    if (session->owes_taken) {
        say_numbers(TAKEN, session->stream, session->input.taken);
        session->owes_taken = false;
    }
    bool told = session->replied || session->first_ended; /* STARTED goes first, even if its reaper was slower than it */
    for (int index = 0; index < 2 && told; index++)
        if (session->channels[index].sent < session->channels[index].ring.end) return say_output(session, index);
    if (session->owes_ended) say_ended(session);
    int slot = (int)(session - sessions);
    wants[slot / 64] &= ~(UINT64_C(1) << slot % 64);
    return true;
}

/* The next after the one served last, so that each gets its turn. */
static struct session *next_wanting(void)
{
    for (int i = 1; i <= MOST_SESSIONS; i++) {
        int slot = (last_served + i) % MOST_SESSIONS;
        if (!(wants[slot / 64] >> slot % 64 & 1)) continue;
        last_served = slot;
        if (sessions[slot].stream) return sessions + slot;
        wants[slot / 64] &= ~(UINT64_C(1) << slot % 64);
    }
    return NULL;
}

static void watch_output(bool wanted)
{
    if (link_fd < 0 || wanted == watches_output) return;
    loop_change(link_fd, FROM_LINK, 0, wanted ? EPOLLIN | EPOLLOUT : EPOLLIN);
    watches_output = wanted;
}

void link_flush(void)
{
    int frames = FRAMES_AT_ONCE;
    struct session *session = NULL;
    bool flows = link_fd >= 0 && outbox_size == 0;
    if (owes_pong && flows) {
        say_numbers(PONG, 0, number_at(pong, 8));
        owes_pong = false;
    }
    while (flows && state == UP && refused_count) say_refused(refused[--refused_count]);
    while (flows && state == UP && frames > 0 && (session = next_wanting())) {
        flows = serve(session);
        if (flows && !has_room()) flows = push(NULL, 0);
        frames--;
    }
    if (link_fd >= 0 && outbox_size > outbox_sent) push(NULL, 0);
    watch_output(outbox_size > 0 || (session && frames == 0));
}

/* --- what we hear */

/* False: it is not as docs/link.md says, and the connection is over. */
static bool hear_challenge(const uint8_t *payload, uint32_t size)
{
    struct unpacker unpacker = {payload, payload + size, false};
    struct bytes nonce = {0};
    uint64_t version = 0;
    uint32_t pairs = unpack_map(&unpacker);
    while (pairs-- && !unpacker.bad) {
        struct bytes name = unpack_bytes(&unpacker);
        if (bytes_are(name, "v")) version = unpack_uint(&unpacker);
        else if (bytes_are(name, "nonce")) nonce = unpack_bytes(&unpacker);
        else unpack_skip(&unpacker, 3);
    }
    if (unpacker.bad || unpacker.at != unpacker.end || version != 1 || nonce.size != 32) return false;
    say_hello(nonce.at);
    state = AWAITS_WELCOME;
    return true;
}

static bool hear_welcome(const uint8_t *payload, uint32_t size)
{
    if (!session_keep(payload, size)) return false;
    state = UP;
    pause_now = FIRST_PAUSE;
    return true;
}

static bool hear_ping(const uint8_t *payload, uint32_t size)
{
    if (size != 8) return false;
    memcpy(pong, payload, 8);
    owes_pong = true;
    return true;
}

/* What is for a session we do not hold is passed over: it may have been refused. */
static bool hear_about(enum frame type, uint32_t stream, const uint8_t *payload, uint32_t size)
{
    struct session *session = session_on(stream);
    switch (type) {
    case STORED:
        if (size != 9 || payload[0] < 1 || payload[0] > 2) return false;
        return !session || session_stored(session, payload[0] - 1, number_at(payload + 1, 8));
    case INPUT:
        if (size < 9 || size > 8 + MOST_INPUT) return false;
        return !session || session_take(session, number_at(payload, 8), payload + 8, size - 8);
    case INPUT_END:
        if (size != 8) return false;
        return !session || session_end_input(session, number_at(payload, 8));
    case SIGNAL:
        if (size != 2 || payload[0] < 1 || payload[0] > 64 || payload[1] > 2) return false;
        if (session) session_signal(session, payload[0], payload[1]);
        return true;
    case RESIZE:
        if (size != 4) return false;
        if (session) session_resize(session, (uint16_t)number_at(payload, 2), (uint16_t)number_at(payload + 2, 2));
        return true;
    case FORGET:
        if (size != 0 || (session && !session->ended)) return false;
        if (session) session_forget(session);
        return true;
    default: return false;
    }
}

static bool hear(enum frame type, uint32_t stream, const uint8_t *payload, uint32_t size)
{
    if (stream == 0) {
        if (type == PING && state != AWAITS_CHALLENGE) return hear_ping(payload, size);
        if (type == PONG && state != AWAITS_CHALLENGE) return size == 8;
        if (type == CHALLENGE && state == AWAITS_CHALLENGE) return hear_challenge(payload, size);
        if (type == WELCOME && state == AWAITS_WELCOME) return hear_welcome(payload, size);
        return false;
    }
    if (state != UP) return false;
    if (type == START) return session_start(stream, payload, size);
    return hear_about(type, stream, payload, size);
}

/* Every whole frame in the inbox; what is left of the last moves to the front. */
static bool hear_all(void)
{
    uint32_t at = 0;
    while (inbox_size - at >= HEAD) {
        const uint8_t *head = inbox + at;
        uint32_t size = (uint32_t)number_at(head, 4);
        if (size > MOST_PAYLOAD) return false;
        if (inbox_size - at - HEAD < size) break;
        if (!hear(head[4], (uint32_t)number_at(head + 5, 4), head + HEAD, size)) return false;
        at += HEAD + size;
    }
    memmove(inbox, inbox + at, inbox_size - at);
    inbox_size -= at;
    if (inbox_size == 0 && inbox_touched) madvise(inbox + KEPT, HEAD + MOST_PAYLOAD + 1 - KEPT, MADV_DONTNEED);
    if (inbox_size == 0) inbox_touched = false;
    return true;
}

void link_ready(uint32_t events)
{
    if (link_fd < 0) return;
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR))) return; /* room to send: link_flush comes by anyway */
    ssize_t got = recv(link_fd, inbox + inbox_size, HEAD + MOST_PAYLOAD - inbox_size, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got > 0) {
        inbox_size += (uint32_t)got;
        inbox_touched |= inbox_size > KEPT;
    }
    if (got <= 0 || !hear_all()) hang_up();
}
