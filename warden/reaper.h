/* A reaper: what its program starts has it as an ancestor, however detached, and is reaped by it. */
#ifndef REAPER_H
#define REAPER_H

#include <stdint.h>
#include <sys/types.h>

struct start;

enum word { WORD_STARTED, WORD_FAILED, WORD_ENDED, WORD_DONE };

enum { MOST_ERROR = 256, MOST_REASON = 80, MOST_RESULT = 8192 };

/* What a branch tells the warden, one message each. */
struct report {
    enum word word;
    pid_t pid;                      /* STARTED: of its first process */
    int status;                     /* ENDED: as of wait */
    int error;                      /* FAILED, DONE: errno */
    uint64_t user, system, memory;  /* ENDED: microseconds, KiB */
    uint32_t result_size;           /* DONE: bytes of `result` */
    char sentence[MOST_ERROR];      /* FAILED, DONE with an error */
    uint8_t result[MOST_RESULT];
};

/* How many bytes of a report have a meaning. */
uint32_t report_size(const struct report *report);

_Noreturn void reaper_run(const struct start *start, int control, const int program[3]);

#endif
