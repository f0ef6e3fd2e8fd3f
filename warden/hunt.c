#include "hunt.h"

#include "branch.h"
#include "loop.h"
#include "session.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    MOST_SEEN = 65536,        /* what is beyond is seen in a later round, when others are gone */
    AT_ONCE = 128,            /* processes looked at before others get their turn */
    GENTLE_ROUNDS = 8,        /* that stop first, then kill */
    OUTRUN_AFTER = 1000,      /* milliseconds */
    GIVE_UP_AFTER = 10000,    /* what is alive then hangs in the kernel */
    LONGEST_PAUSE = 50,
};

enum { UNKNOWN = -3, WALKED = -2, OUTSIDE = -1, STRAY = MOST_BRANCHES }; /* besides slots of branches */

struct seen {
    pid_t pid, parent;
    int16_t top; /* the branch it belongs to */
    bool stopped;
};

static struct seen *seen;
static uint32_t count;
static DIR *proc;
static bool wanted, strays, strays_hunted;
static uint32_t rounds;
static uint64_t began, next;

void hunt_begin(void)
{
    wanted = true;
    next = now();
}

void hunt_strays(void)
{
    strays = true;
    hunt_begin();
}

uint64_t hunt_due(void) { return wanted ? next : NEVER; }

/* "PID (name) S PARENT …", where the name may hold anything, and the 20th field counts threads. False: it is dead. */
static bool read_process(const char *pid, struct seen *into)
{
    char text[512];
    int fd = openat(dirfd(proc), pid, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return false;
    int stat = openat(fd, "stat", O_RDONLY | O_CLOEXEC);
    close(fd);
    if (stat < 0) return false;
    ssize_t size = read(stat, text, sizeof text - 1);
    close(stat);
    if (size <= 0) return false;
    text[size] = 0;
    char *at = strrchr(text, ')');
    if (!at || strlen(at) < 4) return false;
    char state = at[2];
    at += 4;
    *into = (struct seen){.pid = atoi(pid), .parent = atoi(at), .top = UNKNOWN, .stopped = state == 'T'};
    for (int field = 4; field < 20 && at; field++) {
        at = strchr(at, ' ');
        if (at) at++;
    }
    /* A process whose first thread has ended looks like a zombie while the others run. */
    return !(state == 'Z' || state == 'X') || (at && atoi(at) > 1);
}

static void begin_round(void)
{
    if (!seen) {
        void *memory = mmap(NULL, MOST_SEEN * sizeof *seen, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) return;
        madvise(memory, MOST_SEEN * sizeof *seen, MADV_DONTFORK);
        seen = memory;
    }
    proc = opendir("/proc");
    count = 0;
    if (rounds++ == 0) began = now();
    strays_hunted = strays;
    for (struct branch *branch = branches; branch < branches + MOST_BRANCHES; branch++) {
        branch->hunted = branch->pid && branch->condemned;
        branch->due = branch->signals;
        branch->signals = 0;
    }
}

/* True when everybody has been looked at. */
static bool look(uint32_t most)
{
    struct dirent *entry;
    while (most-- && count < MOST_SEEN) {
        if (!(entry = readdir(proc))) return true;
        if (entry->d_name[0] < '0' || entry->d_name[0] > '9') continue;
        if (read_process(entry->d_name, seen + count)) count++;
    }
    return count == MOST_SEEN;
}

/* /proc lists by number, so the table is sorted. */
static struct seen *find(pid_t pid)
{
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (seen[middle].pid < pid) low = middle + 1;
        else high = middle;
    }
    return low < count && seen[low].pid == pid ? seen + low : NULL;
}

static int16_t top_of(const struct seen *process)
{
    if (process->parent != 1) return process->parent == 0 ? OUTSIDE : UNKNOWN;
    const struct branch *branch = branch_of(process->pid);
    return branch ? (int16_t)(branch - branches) : STRAY;
}

/* Up to the first whose branch is known, then once more, to tell all on the way. False: a parent ended while we looked,
   and another round has to tell whose this one is. */
static bool place(struct seen *process)
{
    int16_t top = UNKNOWN;
    struct seen *at = process;
    while (at && at->top == UNKNOWN) {
        top = top_of(at);
        if (top != UNKNOWN) break;
        at->top = WALKED;
        at = find(at->parent);
    }
    if (at && at->top != UNKNOWN && at->top != WALKED) top = at->top;
    else if (at && at->top == UNKNOWN) at->top = top;
    for (at = process; at && at->top == WALKED; at = find(at->parent)) at->top = top == UNKNOWN ? OUTSIDE : top;
    return top != UNKNOWN;
}

static void send_signals(pid_t pid, uint64_t due)
{
    for (int signal = 1; due; signal++, due >>= 1)
        if (due & 1) kill(pid, signal);
}

struct tally {
    uint32_t left[MOST_BRANCHES + 1];
    uint32_t running, doomed, unplaced;
};

/* Signals, stops and counts; what is to die is marked by `top`. */
static void judge(struct tally *tally)
{
    for (uint32_t i = 0; i < count; i++) {
        struct seen *process = seen + i;
        if (process->top == UNKNOWN && !place(process)) tally->unplaced++;
        if (process->top < 0) continue;
        const struct branch *branch = process->top < STRAY ? branches + process->top : NULL;
        if (branch && branch->pid == process->pid) continue;
        if (branch) send_signals(process->pid, branch->due);
        if (branch ? !branch->hunted : !strays_hunted) continue;
        tally->left[process->top]++;
        tally->doomed++;
        if (process->stopped) continue;
        tally->running++;
        kill(process->pid, SIGSTOP);
    }
}

static void kill_doomed(void)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct branch *branch = seen[i].top >= 0 && seen[i].top < STRAY ? branches + seen[i].top : NULL;
        if (branch ? branch->hunted && branch->pid != seen[i].pid : seen[i].top == STRAY && strays_hunted)
            kill(seen[i].pid, SIGKILL);
    }
}

static void end_round(const struct tally *tally, bool enough)
{
    bool left = false, placed = tally->unplaced == 0;
    for (struct branch *branch = branches; branch < branches + MOST_BRANCHES; branch++) {
        branch->due = 0;
        if (branch->hunted && (enough || (placed && tally->left[branch - branches] == 0))) {
            branch->condemned = false;
            session_quiet(branch->session);
        }
        left |= branch->pid && (branch->condemned || branch->signals);
        branch->hunted = false;
    }
    if (strays_hunted && (enough || (placed && tally->left[STRAY] == 0))) {
        strays = false;
        sessions_without_reaper_ended();
    }
    wanted = left || strays;
    if (wanted) return;
    rounds = 0;
    next = 0;
    if (seen) munmap(seen, MOST_SEEN * sizeof *seen);
    seen = NULL;
}

void hunt_step(void)
{
    if (!proc) begin_round();
    if (!proc) { /* no memory or no descriptor: later */
        next = now() + LONGEST_PAUSE;
        return;
    }
    uint64_t elapsed = now() - began;
    bool outrun = elapsed > OUTRUN_AFTER && rounds % 4 == 0;
    if (outrun) kill(-1, SIGSTOP); /* everybody but us, in one step */
    bool complete = look(outrun ? MOST_SEEN : AT_ONCE);
    if (complete || outrun) {
        struct tally tally = {0};
        judge(&tally);
        closedir(proc);
        proc = NULL;
        bool now_kill = tally.doomed && (tally.running == 0 || rounds > GENTLE_ROUNDS);
        if (now_kill) kill_doomed();
        uint64_t pause = rounds < GENTLE_ROUNDS ? 0 : rounds - GENTLE_ROUNDS;
        next = now() + (pause < LONGEST_PAUSE ? pause : LONGEST_PAUSE);
        end_round(&tally, elapsed > GIVE_UP_AFTER);
    }
    if (outrun) kill(-1, SIGCONT);
}
