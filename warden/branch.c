#include "branch.h"

#include "acts/act.h"
#include "hunt.h"
#include "link.h"
#include "loop.h"
#include "reaper.h"
#include "session.h"
#include "start.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REAPED_AT_ONCE = 256, FIRST_OWN = 3, OWN = 4, CLOSED_AT_MOST = 65536 };

struct branch branches[MOST_BRANCHES];
bool branch_pending;

struct branch *branch_of(pid_t pid)
{
    for (struct branch *branch = branches; branch < branches + MOST_BRANCHES; branch++)
        if (branch->pid == pid) return branch;
    return NULL;
}

/* Into the child go its control and its standard descriptors, as 3 to 6, and nothing else that the warden has open. */
static void keep_own_descriptors(int own[OWN])
{
    for (int i = 0; i < OWN; i++) own[i] = fcntl(own[i], F_DUPFD_CLOEXEC, FIRST_OWN + OWN);
    for (int i = 0; i < OWN; i++) {
        if (own[i] < 0 || dup3(own[i], FIRST_OWN + i, O_CLOEXEC) < 0) _exit(1);
        own[i] = FIRST_OWN + i;
    }
    if (syscall(SYS_close_range, FIRST_OWN + OWN, ~0U, 0) == 0) return;
    for (int fd = FIRST_OWN + OWN; fd < CLOSED_AT_MOST; fd++) close(fd);
}

static _Noreturn void be_child(const struct start *start, int control, const int program[3])
{
    int own[OWN] = {control, program[0], program[1], program[2] < 0 ? program[1] : program[2]};
    link_forget_key();
    keep_own_descriptors(own);
    if (start->act.size) act_run(start, own[0], own[1], own[2]);
    reaper_run(start, own[0], own + 1);
}

int branch_open(const struct start *start, int session, const int program[3])
{
    int ends[2], slot = 0;
    while (slot < MOST_BRANCHES && branches[slot].pid) slot++;
    errno = EAGAIN;
    if (slot == MOST_BRANCHES || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) return -1;
    pid_t pid = fork();
    if (pid == 0) be_child(start, ends[1], program);
    int error = errno;
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        errno = error;
        return -1;
    }
    branches[slot] = (struct branch){
        .pid = pid, .control = ends[0], .session = session, .act = start->act.size > 0, .survivors = {-1, -1},
    };
    loop_watch(ends[0], FROM_BRANCH, slot, EPOLLIN);
    return slot;
}

void branch_signal_first(struct branch *branch, int signal)
{
    if (branch->act) kill(branch->pid, signal); /* ours to reap, so it is still itself */
    else send(branch->control, &signal, sizeof signal, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void branch_signal_all(struct branch *branch, int signal)
{
    if (branch->act) {
        kill(branch->pid, signal);
        return;
    }
    branch->signals |= UINT64_C(1) << (signal - 1);
    hunt_begin();
}

void branch_condemn(struct branch *branch)
{
    if (branch->act) {
        kill(branch->pid, SIGKILL);
        return;
    }
    branch->condemned = true;
    hunt_begin();
}

void branch_survive(struct branch *branch, int channel, int fd)
{
    branch->survivors[channel] = fd;
    loop_watch(fd, channel ? FROM_SURVIVORS_ERRORS : FROM_SURVIVORS, (int)(branch - branches), EPOLLIN);
}

static void end_survivors(struct branch *branch, int channel)
{
    int fd = branch->survivors[channel];
    branch->survivors[channel] = -1;
    if (fd < 0) return;
    loop_unwatch(fd);
    close(fd);
}

void branch_drop(int slot, int channel)
{
    static char dropped[16384];
    int fd = branches[slot].survivors[channel];
    if (fd < 0) return;
    ssize_t got = read(fd, dropped, sizeof dropped);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) end_survivors(branches + slot, channel);
}

static void end_control(struct branch *branch)
{
    if (branch->control < 0) return;
    loop_unwatch(branch->control);
    close(branch->control);
    branch->control = -1;
}

/* False: it says nothing more. */
static bool hear(struct branch *branch)
{
    static struct report report;
    ssize_t got = recv(branch->control, &report, sizeof report, MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got < (ssize_t)report_size(&(struct report){0}) || (uint32_t)got != report_size(&report)) return false;
    switch (report.word) {
    case WORD_STARTED: session_began(branch->session, report.pid); break;
    case WORD_FAILED: session_failed(branch->session, report.error, report.sentence); break;
    case WORD_ENDED:
        session_ended(branch->session, report.status, report.user, report.system, report.memory);
        break;
    case WORD_DONE: session_done(branch->session, &report); break;
    }
    return true;
}

void branch_heard(int slot)
{
    struct branch *branch = branches + slot;
    if (branch->pid && branch->control >= 0 && !hear(branch)) end_control(branch);
}

static uint64_t microseconds(struct timeval time) { return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_usec; }

static void end_session(int session, int status, const struct rusage *used)
{
    session_ended(session, status, microseconds(used->ru_utime), microseconds(used->ru_stime), (uint64_t)used->ru_maxrss);
}

static void branch_ended(struct branch *branch, int status, const struct rusage *used)
{
    int session = branch->session;
    /* Its last words first: at most three, and the end of them. */
    for (int words = 0; words < 4 && branch->control >= 0; words++)
        if (!hear(branch)) end_control(branch);
    end_control(branch);
    bool killed = !branch->act && WIFSIGNALED(status), act = branch->act;
    for (int channel = 0; channel < 2; channel++) end_survivors(branch, channel);
    *branch = (struct branch){0};
    session_reaper_gone(session, killed);
    if (act) end_session(session, status, used);
}

void branch_reap(void)
{
    struct rusage used;
    int status;
    branch_pending = true;
    for (int most = REAPED_AT_ONCE; most > 0; most--) {
        pid_t pid = wait4(-1, &status, WNOHANG | WUNTRACED, &used);
        if (pid <= 0) {
            branch_pending = false;
            return;
        }
        struct branch *branch = branch_of(pid);
        if (WIFSTOPPED(status)) {
            if (branch) kill(pid, SIGCONT); /* nobody but the warden decides when a reaper rests */
        } else if (branch) {
            branch_ended(branch, status, &used);
        } else {
            /* Without a reaper, it was handed to us: the first process of a session, or any other. */
            struct session *session = session_with_pid(pid);
            if (session && session->branch < 0) end_session((int)(session - sessions), status, &used);
        }
    }
}
