#include "reaper.h"

#include "start.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SPARE_PROCESSES = 16 };

static char *argv[MOST_STRINGS + 1], *env[MOST_STRINGS + 1];
static char cwd[MOST_PATH + 1];

/* Why the program could not be executed: written by a child that shares our memory. */
static volatile int failure;
static const char *volatile failed_at;

uint32_t report_size(const struct report *report)
{
    return (uint32_t)offsetof(struct report, result) + report->result_size;
}

static void tell(int control, const struct report *report)
{
    send(control, report, report_size(report), MSG_NOSIGNAL);
}

static const char *path_of(char *const environment[])
{
    for (; *environment; environment++)
        if (strncmp(*environment, "PATH=", 5) == 0) return *environment + 5;
    return "/usr/local/bin:/usr/bin:/bin";
}

static void execute(void)
{
    static char tried[MOST_PATH + 1];
    const char *name = argv[0];
    if (strchr(name, '/') || !*name) {
        execve(name, argv, env);
        return;
    }
    int denied = 0;
    for (const char *path = path_of(env), *end;; path = end + 1) {
        end = strchrnul(path, ':');
        char *at = text_add_bytes(tried, tried + sizeof tried, path, (size_t)(end - path));
        if (end > path) at = text_add(at, tried + sizeof tried, "/");
        at = text_add(at, tried + sizeof tried, name);
        if (at < tried + sizeof tried - 1) {
            execve(tried, argv, env);
            if (errno == EACCES) denied = EACCES;
            else if (errno != ENOENT && errno != ENOTDIR) return;
        }
        if (!*end) break;
    }
    errno = denied ? denied : ENOENT;
}

/* When the agent's processes have used up their number, the warden can still do a few things about it. */
static void leave_spare_processes(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NPROC, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY) return;
    if (limit.rlim_cur <= 4 * SPARE_PROCESSES) return;
    limit.rlim_cur -= SPARE_PROCESSES;
    limit.rlim_max = limit.rlim_cur;
    setrlimit(RLIMIT_NPROC, &limit);
}

static _Noreturn void become_program(const int program[3], bool pty)
{
    sigset_t none;
    failed_at = "its session";
    setsid();
    for (int fd = 0; fd < 3; fd++) dup2(program[fd], fd);
    if (pty && ioctl(0, TIOCSCTTY, 0) < 0) goto failed;
    leave_spare_processes();
    failed_at = "its working directory";
    if (chdir(cwd) < 0) goto failed;
    failed_at = NULL;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execute();
failed:
    failure = errno;
    _exit(127);
}

/* No copy of our memory for a child that executes at once. Apart from what goes on living here, which a child in the
   same memory could otherwise change under us. */
static __attribute__((noinline)) pid_t start_program(const int program[3], bool pty)
{
    pid_t pid = vfork();
    if (pid == 0) become_program(program, pty);
    return pid;
}

static void read_texts(const struct start *start)
{
    static struct bytes found[2 * MOST_STRINGS];
    memcpy(cwd, start->cwd.size ? start->cwd.at : (const uint8_t *)"/", start->cwd.size ? start->cwd.size : 1);
    strings_point(start->argv, found);
    strings_point(start->env, found + MOST_STRINGS);
    strings_terminate(found, start->argv.count, argv);
    strings_terminate(found + MOST_STRINGS, start->env.count, env);
}

static void explain(struct report *report, int error)
{
    char *end = report->sentence + MOST_ERROR, *reason = end - MOST_REASON;
    report->error = error;
    char *at = text_add(report->sentence, reason, failed_at ? failed_at : argv[0]);
    at = text_add(at, end, ": ");
    text_add(at, end, strerror(error));
    text_make_printable(report->sentence);
}

static uint64_t microseconds(struct timeval time) { return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_usec; }

/* False when nobody is left. */
static bool reap(int control, pid_t *first)
{
    struct rusage used;
    int status;
    for (pid_t pid; (pid = wait4(-1, &status, WNOHANG, &used)) != 0;) {
        if (pid < 0) return errno != ECHILD;
        if (pid != *first) continue;
        *first = 0;
        tell(control, &(struct report){
            .word = WORD_ENDED, .status = status, .memory = (uint64_t)used.ru_maxrss,
            .user = microseconds(used.ru_utime), .system = microseconds(used.ru_stime),
        });
    }
    return true;
}

/* Only we can be sure that the first process is still itself: until we reap it, its number is not another's. */
static bool obey(int control, pid_t first)
{
    int signal;
    ssize_t got = recv(control, &signal, sizeof signal, MSG_DONTWAIT);
    if (got == (ssize_t)sizeof signal && first) kill(first, signal);
    return got != 0;
}

void reaper_run(const struct start *start, int control, const int program[3])
{
    sigset_t all, child;
    struct report report = {.word = WORD_STARTED};

    prctl(PR_SET_NAME, "reaper", 0, 0, 0);
    sigfillset(&all); /* only SIGKILL ends a reaper, and then the warden kills what it kept */
    sigprocmask(SIG_SETMASK, &all, NULL);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    int signals = signalfd(-1, &child, SFD_NONBLOCK | SFD_CLOEXEC);
    read_texts(start);

    pid_t first = -1;
    if (signals >= 0 && prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0) first = start_program(program, start->pty);
    else failed_at = "its reaper";
    if (first < 0 || failure) {
        report.word = WORD_FAILED;
        explain(&report, first < 0 ? errno : failure);
        tell(control, &report);
        _exit(1);
    }
    report.pid = first;
    tell(control, &report);
    for (int fd = 0; fd < 3; fd++) close(program[fd]);

    struct pollfd waiting[] = {{.fd = signals, .events = POLLIN}, {.fd = control, .events = POLLIN}};
    struct signalfd_siginfo ignored;
    while (reap(control, &first)) {
        if (poll(waiting, 2, -1) < 0) continue;
        if (waiting[0].revents && read(signals, &ignored, sizeof ignored) < 0) continue;
        if (waiting[1].revents && !obey(control, first)) waiting[1].fd = -1;
    }
    _exit(0);
}
