#include "session.h"

#include "branch.h"
#include "hunt.h"
#include "link.h"
#include "loop.h"
#include "start.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum {
    READ_AT_ONCE = 65536,
    PIPE_WHEN_BUSY = 262144,
    RESUME_AT = 65536,              /* bytes of room, so that a full ring is not filled by crumbs */
    LAST_OF_TERMINAL = 262144,      /* what a terminal may hold when its first process has ended, and more */
    TERMINAL_QUIET = 20,            /* milliseconds without output, after which it held no more */
};

struct session sessions[MOST_SESSIONS];
uint64_t next_stream = 1;

static int slot_of(const struct session *session) { return (int)(session - sessions); }

static struct session *in_slot(int slot) { return slot >= 0 && sessions[slot].stream ? sessions + slot : NULL; }

struct session *session_on(uint32_t stream)
{
    for (struct session *session = sessions; session < sessions + MOST_SESSIONS; session++)
        if (stream && session->stream == stream) return session;
    return NULL;
}

struct session *session_with_pid(pid_t pid)
{
    for (struct session *session = sessions; session < sessions + MOST_SESSIONS; session++)
        if (session->stream && session->pid == pid && !session->first_ended) return session;
    return NULL;
}

static struct session *with_id(const uint8_t id[16])
{
    for (struct session *session = sessions; session < sessions + MOST_SESSIONS; session++)
        if (session->stream && memcmp(session->id, id, 16) == 0) return session;
    return NULL;
}

/* --- output */

static void stop_watching(struct channel *channel)
{
    if (channel->watched) loop_unwatch(channel->fd);
    channel->watched = false;
}

static void watch_again(struct session *session, int index)
{
    struct channel *channel = session->channels + index;
    if (channel->watched || channel->fd < 0 || ring_room(&channel->ring) < RESUME_AT) return;
    loop_watch(channel->fd, index ? FROM_ERRORS : FROM_OUTPUT, slot_of(session), EPOLLIN);
    channel->watched = true;
}

/* Once the first process has ended and all it wrote is here, whoever is left writes for nobody. */
static void finish_when_over(struct session *session)
{
    if (!session->first_ended || session->ended || session->killing) return;
    if (session->channels[0].fd >= 0 || session->channels[1].fd >= 0) return;
    session->ended = session->owes_ended = true;
    session->deadline = session->quiet_at = NEVER;
    link_wants(session);
}

static void channel_over(struct session *session, int index)
{
    struct channel *channel = session->channels + index;
    int fd = channel->fd;
    if (fd < 0) return;
    stop_watching(channel);
    channel->fd = -1;
    if (session->branch >= 0 && !session->act) branch_survive(branches + session->branch, index, fd);
    else close(fd);
    finish_when_over(session);
}

static void terminal_silent(struct session *session)
{
    if (!session->first_ended || !session->pty) return;
    if (session->quiet_at == NEVER) session->quiet_at = now() + TERMINAL_QUIET;
    else if (now() >= session->quiet_at) channel_over(session, 0);
}

void session_readable(int slot, int index)
{
    struct session *session = in_slot(slot);
    struct channel *channel = session ? session->channels + index : NULL;
    if (!channel || channel->fd < 0) return;
    if (!ring_open(&channel->ring)) {
        stop_watching(channel); /* no memory: the program waits, and sessions_tick tries again */
        session->quiet_at = now() + TERMINAL_QUIET;
        return;
    }
    uint64_t most = channel->limit - channel->ring.end;
    if (ring_room(&channel->ring) == 0) {
        stop_watching(channel);
        return;
    }
    struct iovec pieces[2];
    int parts = ring_space(&channel->ring, most < READ_AT_ONCE ? (size_t)most : READ_AT_ONCE, pieces);
    ssize_t got = readv(channel->fd, pieces, parts);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        terminal_silent(session);
        return;
    }
    if (got <= 0) { /* a terminal nobody has open any more answers EIO */
        channel_over(session, index);
        return;
    }
    if (got == READ_AT_ONCE && !session->pty && channel->ring.end == 0) fcntl(channel->fd, F_SETPIPE_SZ, PIPE_WHEN_BUSY);
    ring_filled(&channel->ring, (size_t)got);
    link_wants(session);
    if (session->quiet_at != NEVER) session->quiet_at = now() + TERMINAL_QUIET;
    if (channel->ring.end == channel->limit) channel_over(session, index);
    else if (ring_room(&channel->ring) == 0) stop_watching(channel);
}

bool session_stored(struct session *session, int index, uint64_t offset)
{
    struct channel *channel = session->channels + index;
    if (offset > channel->sent) return false;
    if (offset <= channel->ring.first) return true;
    ring_forget(&channel->ring, offset);
    watch_again(session, index);
    return true;
}

/* --- input */

static void input_over(struct input *input)
{
    if (input->watched) loop_unwatch(input->fd);
    if (input->fd >= 0) close(input->fd);
    free(input->waiting);
    input->waiting = NULL;
    input->watched = false;
    input->fd = -1;
}

static void count_taken(struct session *session, uint64_t taken)
{
    if (taken == session->input.taken) return;
    session->input.taken = taken;
    session->owes_taken = true;
    link_wants(session);
}

/* What nobody reads is gone, as in a pipe. */
static void refuse_input(struct session *session)
{
    input_over(&session->input);
    count_taken(session, session->input.end);
}

/* Gives `data` to the program; how much it took, or -1: it takes nothing ever again. */
static ssize_t give(struct input *input, const uint8_t *data, size_t size)
{
    ssize_t gave = write(input->fd, data, size);
    if (gave >= 0) return gave;
    return errno == EAGAIN || errno == EINTR ? 0 : -1;
}

static void finish_input(struct session *session)
{
    struct input *input = &session->input;
    if (!input->ending || input->taken < input->end || input->fd < 0) return;
    if (!session->pty) {
        input_over(input);
        return;
    }
    struct termios terminal;
    uint8_t end = 4;
    if (tcgetattr(input->fd, &terminal) == 0) end = terminal.c_cc[VEOF];
    if (give(input, &end, 1) == 1) input->ending = false;
}

static void watch_input(struct session *session)
{
    struct input *input = &session->input;
    bool wanted = input->fd >= 0 && (input->taken < input->end || (input->ending && session->pty));
    if (wanted == input->watched) return;
    if (wanted) loop_watch(input->fd, TO_INPUT, slot_of(session), EPOLLOUT);
    else loop_unwatch(input->fd);
    input->watched = wanted;
}

void session_writable(int slot)
{
    struct session *session = in_slot(slot);
    if (!session || session->input.fd < 0) return;
    struct input *input = &session->input;
    uint32_t waiting = (uint32_t)(input->end - input->taken);
    if (waiting) {
        ssize_t gave = give(input, input->waiting, waiting);
        if (gave < 0) {
            refuse_input(session);
            return;
        }
        memmove(input->waiting, input->waiting + gave, waiting - (size_t)gave);
        count_taken(session, input->taken + (uint64_t)gave);
        if (input->taken == input->end) {
            free(input->waiting);
            input->waiting = NULL;
        }
    }
    finish_input(session);
    watch_input(session);
}

/* New bytes: to the program at once if none wait before them, else behind those. */
static void append_input(struct session *session, const uint8_t *data, uint32_t size)
{
    struct input *input = &session->input;
    input->end += size;
    if (input->fd >= 0 && input->taken + size == input->end) {
        ssize_t gave = give(input, data, size);
        if (gave < 0) input_over(input);
        else {
            count_taken(session, input->taken + (uint64_t)gave);
            data += gave;
            size -= (uint32_t)gave;
        }
    }
    if (input->fd >= 0 && size && !input->waiting && !(input->waiting = malloc(MOST_INPUT))) input_over(input);
    if (input->fd < 0) count_taken(session, input->end);
    else if (size) memcpy(input->waiting + (input->end - size - input->taken), data, size);
    watch_input(session);
}

bool session_take(struct session *session, uint64_t offset, const uint8_t *data, uint32_t size)
{
    struct input *input = &session->input;
    if (offset > input->end || offset + size < offset) return false;
    uint64_t seen = input->end - offset;
    if (seen >= size) return true;
    data += seen;
    size -= (uint32_t)seen;
    if (input->ending || input->end + size - input->taken > MOST_INPUT) return false;
    append_input(session, data, size);
    return true;
}

bool session_end_input(struct session *session, uint64_t offset)
{
    if (offset != session->input.end) return false;
    session->input.ending = true;
    finish_input(session);
    watch_input(session);
    return true;
}

/* --- beginning */

static bool set_up_terminal(struct session *session, const struct start *start, int program[3])
{
    int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC), unlock = 0;
    if (master < 0) return false;
    session->channels[0].fd = master;
    if (ioctl(master, TIOCSPTLCK, &unlock) < 0) return false;
    program[0] = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (program[0] < 0) return false;
    struct termios terminal;
    if (tcgetattr(program[0], &terminal) == 0) {
        terminal.c_iflag |= IUTF8; /* so that erasing takes a whole character; the rest is as the kernel has it */
        tcsetattr(program[0], TCSANOW, &terminal);
    }
    struct winsize size = {.ws_row = start->rows, .ws_col = start->columns};
    ioctl(master, TIOCSWINSZ, &size);
    for (int fd = 1; fd < 3; fd++)
        if ((program[fd] = fcntl(program[0], F_DUPFD_CLOEXEC, 3)) < 0) return false;
    session->input.fd = fcntl(master, F_DUPFD_CLOEXEC, 3);
    return session->input.fd >= 0;
}

/* A pipe whose end here does not block, and whose end there does, as programs expect. */
static bool make_pipe(int *ours, int *theirs, bool we_read)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) return false;
    *ours = ends[we_read ? 0 : 1];
    *theirs = ends[we_read ? 1 : 0];
    return fcntl(*ours, F_SETFL, O_NONBLOCK) == 0;
}

static bool takes_input(const struct start *start)
{
    if (start->act.size == 0) return start->input;
    return bytes_are(start->act, "write") || bytes_are(start->act, "unpack") || bytes_are(start->act, "dial");
}

static bool set_up_pipes(struct session *session, const struct start *start, int program[3])
{
    for (int index = 0; index < 2; index++) {
        if (index && session->act) break; /* an act has no second channel */
        if (!make_pipe(&session->channels[index].fd, &program[1 + index], true)) return false;
    }
    if (takes_input(start)) return make_pipe(&session->input.fd, &program[0], false);
    program[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return program[0] >= 0;
}

static struct session *new_session(uint32_t stream, const struct start *start)
{
    for (struct session *session = sessions; session < sessions + MOST_SESSIONS; session++) {
        if (session->stream) continue;
        *session = (struct session){
            .stream = stream, .branch = -1, .act = start->act.size > 0, .pty = start->pty && start->act.size == 0,
            .quiet_at = NEVER, .deadline = NEVER, .input.fd = -1,
            .channels = {{.fd = -1, .limit = UINT64_MAX}, {.fd = -1, .limit = UINT64_MAX}},
        };
        memcpy(session->id, start->id.at, 16);
        return session;
    }
    return NULL;
}

static void begin(struct session *session, const struct start *start)
{
    int program[3] = {-1, -1, -1};
    bool ready = session->pty ? set_up_terminal(session, start, program) : set_up_pipes(session, start, program);
    session->branch = ready ? branch_open(start, slot_of(session), program) : -1;
    int error = errno;
    for (int fd = 0; fd < 3; fd++)
        if (program[fd] >= 0) close(program[fd]);
    if (session->branch < 0) {
        session_failed(slot_of(session), error, strerror(error));
        return;
    }
    for (int index = 0; index < 2; index++) watch_again(session, index);
    if (start->timeout && start->timeout < NEVER - now()) session->deadline = now() + start->timeout;
}

bool session_start(uint32_t stream, const uint8_t *payload, uint32_t size)
{
    struct start start;
    if (!start_read(&start, payload, size)) return false;
    if (next_stream <= stream) next_stream = (uint64_t)stream + 1;
    struct session *session = with_id(start.id.at);
    if (session) {
        session->owes_started = session->replied;
        session->owes_ended = session->ended;
        link_wants(session);
        return true;
    }
    if (session_on(stream)) return false;
    session = new_session(stream, &start);
    if (session) begin(session, &start);
    else link_refuse(stream);
    return true;
}

void session_began(int slot, pid_t pid)
{
    struct session *session = in_slot(slot);
    if (!session) return;
    session->pid = pid;
    session->replied = session->owes_started = true;
    link_wants(session);
    uint64_t held = session->held;
    session->held = 0;
    for (int signal = 1; held; signal++, held >>= 1)
        if (held & 1) session_signal(session, signal, 1);
}

/* --- signals */

static void kill_all(struct session *session, enum cause reason)
{
    if (!session->first_ended) {
        session->reason = reason;
        session->killing = session->condemned = true;
    }
    session->deadline = NEVER;
    if (session->branch < 0) {
        if (session->killing) hunt_strays(); /* its reaper was killed, and what it kept is on the way to us */
    } else branch_condemn(branches + session->branch);
}

void session_signal(struct session *session, int signal, int whom)
{
    struct branch *branch = session->branch >= 0 ? branches + session->branch : NULL;
    pid_t group;
    if (whom == 2 && session->pty) {
        if (session->channels[0].fd >= 0 && (group = tcgetpgrp(session->channels[0].fd)) > 1) kill(-group, signal);
    } else if (whom != 1) {
        if (branch && !session->first_ended) branch_signal_first(branch, signal);
    } else if (!session->act && !session->replied && !session->first_ended) {
        session->held |= UINT64_C(1) << (signal - 1); /* its first process is on the way */
    } else if (signal == SIGKILL) {
        kill_all(session, KILLED);
    } else if (branch) {
        branch_signal_all(branch, signal);
    }
}

void session_resize(struct session *session, uint16_t rows, uint16_t columns)
{
    struct winsize size = {.ws_row = rows, .ws_col = columns};
    if (session->pty && session->channels[0].fd >= 0) ioctl(session->channels[0].fd, TIOCSWINSZ, &size);
}

/* --- ending */

/* Its first process has ended: what it wrote is in the pipes, and how much that is can be told now. */
static void begin_to_end(struct session *session)
{
    session->first_ended = true;
    session->deadline = NEVER;
    refuse_input(session);
    for (int index = 0; index < 2; index++) {
        struct channel *channel = session->channels + index;
        int waiting = 0;
        if (channel->fd < 0) continue;
        if (session->pty) {
            channel->limit = channel->ring.end + LAST_OF_TERMINAL;
            session->quiet_at = now() + TERMINAL_QUIET;
        } else if (ioctl(channel->fd, FIONREAD, &waiting) < 0 || waiting <= 0) {
            channel_over(session, index);
            continue;
        } else {
            channel->limit = channel->ring.end + (uint64_t)waiting;
        }
        session_readable(slot_of(session), index);
    }
    finish_when_over(session);
}

void session_ended(int slot, int status, uint64_t user, uint64_t system, uint64_t memory)
{
    struct session *session = in_slot(slot);
    if (!session || session->first_ended) return;
    struct ending *ending = &session->ending;
    ending->user = user;
    ending->system = system;
    ending->memory = memory;
    if (WIFSIGNALED(status)) {
        ending->signal = WTERMSIG(status);
        ending->code = 128 + ending->signal;
        if (ending->cause != FAILED) ending->cause = SIGNALLED;
    } else {
        ending->code = WEXITSTATUS(status);
    }
    if (session->condemned) ending->cause = session->reason;
    begin_to_end(session);
}

void session_failed(int slot, int error, const char *sentence)
{
    struct session *session = in_slot(slot);
    if (!session || session->first_ended) return;
    session->ending.cause = FAILED;
    session->ending.code = error == ENOENT ? 127 : 126;
    session->ending.error = error;
    text_add(session->ending.sentence, session->ending.sentence + MOST_ERROR, sentence);
    session->killing = false;
    begin_to_end(session);
}

/* An act's last word; its end is told by the kernel. */
void session_done(int slot, const struct report *report)
{
    struct session *session = in_slot(slot);
    if (!session || session->first_ended) return;
    struct ending *ending = &session->ending;
    if (report->error) {
        ending->cause = FAILED;
        ending->error = report->error;
        memcpy(ending->sentence, report->sentence, MOST_ERROR);
        ending->sentence[MOST_ERROR - 1] = 0;
    } else if (report->result_size && !ending->result && (ending->result = malloc(report->result_size))) {
        memcpy(ending->result, report->result, report->result_size);
        ending->result_size = report->result_size;
    }
}

void session_quiet(int slot)
{
    struct session *session = in_slot(slot);
    if (!session || !session->killing) return;
    session->killing = false;
    finish_when_over(session);
}

/* An agent can kill a reaper; what it kept falls to us, and is killed. */
void session_reaper_gone(int slot, bool killed)
{
    struct session *session = in_slot(slot);
    if (!session) return;
    session->branch = -1;
    if (killed) hunt_strays();
    else session_quiet(slot);
}

void sessions_without_reaper_ended(void)
{
    for (int slot = 0; slot < MOST_SESSIONS; slot++) {
        struct session *session = in_slot(slot);
        if (!session || session->branch >= 0 || session->ended) continue;
        if (!session->first_ended) session_ended(slot, SIGKILL, 0, 0, 0);
        session_quiet(slot);
    }
}

void session_forget(struct session *session)
{
    struct branch *branch = session->branch >= 0 ? branches + session->branch : NULL;
    if (branch) {
        branch->session = -1;
        if (!session->ended) branch_condemn(branch);
    }
    input_over(&session->input);
    for (int index = 0; index < 2; index++) {
        struct channel *channel = session->channels + index;
        stop_watching(channel);
        if (channel->fd >= 0) close(channel->fd);
        ring_close(&channel->ring);
    }
    free(session->ending.result);
    *session = (struct session){0};
}

/* --- what the server knows of */

static bool keep_from(struct session *session, uint64_t out, uint64_t err)
{
    uint64_t stored[2] = {out, err};
    for (int index = 0; index < 2; index++) {
        struct channel *channel = session->channels + index;
        if (stored[index] > channel->ring.end) return false;
        if (stored[index] > channel->ring.first) ring_forget(&channel->ring, stored[index]);
        channel->sent = channel->ring.first;
        watch_again(session, index);
    }
    session->owes_started = session->replied && !session->ended;
    session->owes_ended = session->ended;
    link_wants(session);
    return true;
}

bool session_keep(const uint8_t *payload, uint32_t size)
{
    struct unpacker unpacker = {payload, payload + size, false};
    bool kept[MOST_SESSIONS] = {false}, told = false;
    uint32_t pairs = unpack_map(&unpacker);
    while (pairs-- && !unpacker.bad) {
        if (!bytes_are(unpack_bytes(&unpacker), "keep")) {
            unpack_skip(&unpacker, MOST_DEPTH - 1);
            continue;
        }
        uint32_t count = unpack_array(&unpacker);
        if (count > MOST_SESSIONS) return false;
        told = true;
        while (count-- && !unpacker.bad) {
            if (unpack_array(&unpacker) != 3) return false;
            uint64_t stream = unpack_uint(&unpacker), out = unpack_uint(&unpacker), err = unpack_uint(&unpacker);
            struct session *session = stream <= UINT32_MAX ? session_on((uint32_t)stream) : NULL;
            if (unpacker.bad || (session && !keep_from(session, out, err))) return false;
            if (session) kept[slot_of(session)] = true;
        }
    }
    if (unpacker.bad || unpacker.at != unpacker.end || !told) return false;
    for (int slot = 0; slot < MOST_SESSIONS; slot++)
        if (sessions[slot].stream && !kept[slot]) {
            if (sessions[slot].branch >= 0) branch_condemn(branches + sessions[slot].branch);
            session_forget(sessions + slot);
        }
    return true;
}

/* --- time */

uint64_t sessions_due(void)
{
    uint64_t due = NEVER;
    for (const struct session *session = sessions; session < sessions + MOST_SESSIONS; session++) {
        if (!session->stream) continue;
        if (session->deadline < due) due = session->deadline;
        if (session->quiet_at < due) due = session->quiet_at;
    }
    return due;
}

void sessions_tick(void)
{
    uint64_t time = now();
    for (int slot = 0; slot < MOST_SESSIONS; slot++) {
        struct session *session = in_slot(slot);
        if (!session) continue;
        if (session->deadline <= time) kill_all(session, TIMEOUT);
        if (session->quiet_at > time) continue;
        if (!session->first_ended) {
            session->quiet_at = NEVER;
            for (int index = 0; index < 2; index++) watch_again(session, index);
        } else if (ring_room(&session->channels[0].ring) == 0) {
            session->quiet_at = time + TERMINAL_QUIET; /* it cannot be told until there is room to look */
        } else {
            session_readable(slot, 0);
        }
    }
}

/* --- what is to be told */

void pack_ending(struct packer *packer, const struct session *session)
{
    static const char *const causes[] = {"exited", "signalled", "timeout", "killed", "failed"};
    const struct ending *ending = &session->ending;
    bool result = ending->result_size > 0 && ending->cause == EXITED, failed = ending->cause == FAILED;
    pack_map(packer, 8 + (failed ? 2 : 0) + (result ? 1 : 0));
    pack_str(packer, "cause"), pack_str(packer, causes[ending->cause]);
    pack_str(packer, "code"), pack_uint(packer, (uint64_t)ending->code);
    pack_str(packer, "signal"), pack_uint(packer, (uint64_t)ending->signal);
    pack_str(packer, "out"), pack_uint(packer, session->channels[0].ring.end);
    pack_str(packer, "err"), pack_uint(packer, session->channels[1].ring.end);
    pack_str(packer, "user"), pack_uint(packer, ending->user);
    pack_str(packer, "system"), pack_uint(packer, ending->system);
    pack_str(packer, "memory"), pack_uint(packer, ending->memory);
    if (failed) {
        pack_str(packer, "errno"), pack_uint(packer, (uint64_t)ending->error);
        pack_str(packer, "error"), pack_str(packer, ending->sentence);
    }
    if (result) pack_str(packer, "result"), pack_raw(packer, ending->result, ending->result_size);
}

static void pack_held(struct packer *packer, const char *name, const struct ring *ring)
{
    pack_str(packer, name), pack_array(packer, 2);
    pack_uint(packer, ring->first), pack_uint(packer, ring->end);
}

void pack_greeting(struct packer *packer, const struct session *session)
{
    pack_map(packer, 8);
    pack_str(packer, "stream"), pack_uint(packer, session->stream);
    pack_str(packer, "id"), pack_bin(packer, session->id, 16);
    pack_str(packer, "pid"), pack_uint(packer, session->first_ended ? 0 : (uint64_t)session->pid);
    pack_held(packer, "out", &session->channels[0].ring);
    pack_held(packer, "err", &session->channels[1].ring);
    pack_str(packer, "taken"), pack_uint(packer, session->input.taken);
    pack_str(packer, "seen"), pack_uint(packer, session->input.end);
    pack_str(packer, "ended"), pack_bool(packer, session->ended);
}
