#include "act.h"

#include "../reaper.h"
#include "../text.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
    const char *name;
    void (*run)(const struct start *start);
} acts[] = {
    {"read", do_read}, {"write", do_write}, {"list", do_list}, {"stat", do_stat}, {"mkdir", do_mkdir},
    {"move", do_move}, {"remove", do_remove}, {"pack", do_pack}, {"unpack", do_unpack}, {"watch", do_watch},
    {"dial", do_dial},
};

int act_input, act_output;
uint64_t act_written, act_taken;

static int control;
static bool told_ready;
static struct report report;

static void tell(enum word word)
{
    report.word = word;
    report.pid = getpid();
    send(control, &report, report_size(&report), MSG_NOSIGNAL);
}

void act_fail_with(int error, const char *what)
{
    char *end = report.sentence + MOST_ERROR, *reason = end - MOST_REASON;
    report.error = error;
    report.result_size = 0;
    char *at = text_add(report.sentence, reason, what);
    at = text_add(at, end, ": ");
    text_add(at, end, strerror(error));
    text_make_printable(report.sentence);
    tell(WORD_DONE);
    _exit(1);
}

void act_fail(const char *what) { act_fail_with(errno, what); }

void act_ready(void)
{
    if (!told_ready) tell(WORD_STARTED);
    told_ready = true;
}

struct packer act_result(uint32_t pairs)
{
    struct packer packer = {report.result, report.result + MOST_RESULT, false};
    pack_map(&packer, pairs);
    return packer;
}

void act_finish(const struct packer *result)
{
    if (result && result->full) act_fail_with(ENAMETOOLONG, "the answer");
    act_ready();
    report.result_size = result ? (uint32_t)(result->at - report.result) : 0;
    tell(WORD_DONE);
    _exit(0);
}

void act_finish_counted(uint64_t count, const char *name, uint64_t other)
{
    struct packer result = act_result(2);
    pack_str(&result, "count"), pack_uint(&result, count);
    pack_str(&result, name), pack_uint(&result, other);
    act_finish(&result);
}

void act_write(const void *data, size_t size)
{
    const uint8_t *at = data;
    while (size) {
        ssize_t went = write(act_output, at, size);
        if (went < 0 && errno == EINTR) continue;
        if (went < 0) act_fail("writing the answer");
        at += went;
        size -= (size_t)went;
        act_written += (uint64_t)went;
    }
}

size_t act_read_input(void *data, size_t size)
{
    for (;;) {
        ssize_t got = read(act_input, data, size);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) act_fail("reading the input");
        act_taken += (uint64_t)got;
        return (size_t)got;
    }
}

static char *path_of(struct bytes bytes, char *into, const char *name)
{
    if (bytes.size == 0 || bytes.size > MOST_PATH || bytes.at[0] != '/') act_fail_with(EINVAL, name);
    memcpy(into, bytes.at, bytes.size);
    into[bytes.size] = 0;
    return into;
}

char *act_path(const struct start *start)
{
    static char path[MOST_PATH + 1];
    return path_of(start->path, path, "`path` has to be absolute");
}

char *act_to(const struct start *start)
{
    static char to[MOST_PATH + 1];
    return path_of(start->to, to, "`to` has to be absolute");
}

void act_run(const struct start *start, int given_control, int input, int output)
{
    sigset_t none;
    control = given_control;
    act_input = input;
    act_output = output;
    prctl(PR_SET_NAME, "act", 0, 0, 0);
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    umask(0); /* a mode is the one that was asked for */
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
        if (!bytes_are(start->act, acts[i].name)) continue;
        acts[i].run(start);
        act_finish(NULL);
    }
    act_fail_with(ENOSYS, "no act is called so");
}
