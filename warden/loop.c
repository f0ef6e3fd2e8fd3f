#include "loop.h"

#include "branch.h"
#include "confine.h"
#include "hunt.h"
#include "link.h"
#include "session.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS_AT_ONCE = 64, LONGEST_WAIT = 1000 };

static int epoll = -1, signals = -1;
static uint64_t frozen; /* milliseconds in which nothing here ran */

static uint64_t clock_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

uint64_t now(void) { return clock_now() - frozen; }

void loop_watch(int fd, enum source source, int slot, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.u64 = (uint64_t)source << 32 | (uint32_t)slot};
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

void loop_change(int fd, enum source source, int slot, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.u64 = (uint64_t)source << 32 | (uint32_t)slot};
    epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event);
}

void loop_unwatch(int fd) { epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL); }

/* Only those that have a meaning here. Every other one has its default, which for PID 1 is to be dropped at once,
   while one that is blocked would be queued. Whoever started us may have ignored some, and every program here would. */
void loop_open(void)
{
    sigset_t handled;
    for (int each = 1; each < NSIG; each++) signal(each, SIG_DFL);
    sigemptyset(&handled);
    sigaddset(&handled, SIGCHLD);
    sigaddset(&handled, SIGTERM);
    sigaddset(&handled, SIGINT);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    signals = signalfd(-1, &handled, SFD_NONBLOCK | SFD_CLOEXEC);
    if (epoll < 0 || signals < 0 || sigprocmask(SIG_SETMASK, &handled, NULL) < 0) give_up(STEP_LOOP, "making the loop");
    loop_watch(signals, FROM_SIGNALS, 0, EPOLLIN);
}

/* Whoever runs this sandbox asks everybody to end; the warden itself stays until it is killed. */
static void ask_all_to_end(void)
{
    for (struct branch *branch = branches; branch < branches + MOST_BRANCHES; branch++)
        if (branch->pid) branch_signal_all(branch, SIGTERM);
}

static void hear_signals(void)
{
    struct signalfd_siginfo heard;
    for (int most = 3; most > 0 && read(signals, &heard, sizeof heard) == sizeof heard; most--) {
        if (heard.ssi_signo == SIGCHLD) branch_pending = true;
        else ask_all_to_end();
    }
}

static void handle(const struct epoll_event *event)
{
    int slot = (int)(uint32_t)event->data.u64;
    switch ((enum source)(event->data.u64 >> 32)) {
    case FROM_SIGNALS: hear_signals(); break;
    case FROM_LINK: link_ready(event->events); break;
    case FROM_OUTPUT: session_readable(slot, 0); break;
    case FROM_ERRORS: session_readable(slot, 1); break;
    case TO_INPUT: session_writable(slot); break;
    case FROM_BRANCH: branch_heard(slot); break;
    case FROM_SURVIVORS: branch_drop(slot, 0); break;
    case FROM_SURVIVORS_ERRORS: branch_drop(slot, 1); break;
    }
}

/* Until the next thing is due. What is longer than we meant to wait, we were frozen for: a paused sandbox has not used
   up the time of its programs. Hence no wait is long while something is due. */
static int wait_for(struct epoll_event events[EVENTS_AT_ONCE])
{
    uint64_t due = sessions_due(), time = now();
    if (link_due() < due) due = link_due();
    if (hunt_due() < due) due = hunt_due();
    if (branch_pending) due = time;
    int wait = due == NEVER ? -1 : due <= time ? 0 : due - time < LONGEST_WAIT ? (int)(due - time) : LONGEST_WAIT;
    uint64_t began = clock_now();
    int count = epoll_wait(epoll, events, EVENTS_AT_ONCE, wait);
    uint64_t waited = clock_now() - began;
    if (wait >= 0 && waited > (uint64_t)wait + LONGEST_WAIT) frozen += waited - (uint64_t)wait;
    return count;
}

void loop_run(void)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    for (;;) {
        link_tick();
        link_flush();
        int count = wait_for(events);
        for (int i = 0; i < count; i++) handle(events + i);
        if (branch_pending) branch_reap();
        sessions_tick();
        if (hunt_due() <= now()) hunt_step();
    }
}
