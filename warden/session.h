/* What the server started: a program or an act, its output that is not stored yet, its input that is not taken yet. */
#ifndef SESSION_H
#define SESSION_H

#include "pack.h"
#include "reaper.h"
#include "ring.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { MOST_SESSIONS = 128, MOST_INPUT = 65536, MOST_OUTPUT = 131072 };

enum cause { EXITED, SIGNALLED, TIMEOUT, KILLED, FAILED };

struct ending {
    enum cause cause;
    int code, signal, error;
    uint64_t user, system, memory;
    char sentence[MOST_ERROR];
    uint8_t *result;
    uint32_t result_size;
};

struct channel {
    struct ring ring;
    int fd;             /* -1: it says nothing more */
    bool watched;
    uint64_t sent;      /* this connection was given what is before */
    uint64_t limit;     /* where that which the first process wrote ends */
};

struct input {
    int fd;             /* -1: nobody takes any more, and what comes counts as taken */
    bool watched, ending;
    uint8_t *waiting;   /* MOST_INPUT bytes, when any wait */
    uint64_t taken, end;
};

struct session {
    uint32_t stream;    /* 0: no session */
    uint8_t id[16];
    pid_t pid;          /* of its first process; 0: not begun */
    int branch;         /* -1: gone */
    bool act, pty, replied;
    bool first_ended;   /* and `ending` says how */
    bool ended;         /* nothing more comes, EXITED is due */
    bool killing;       /* EXITED waits until nothing is left of it */
    bool condemned;     /* the server or the clock ended it */
    enum cause reason;  /* which */
    uint64_t held;      /* signals for everything, that came before there was anything */
    uint64_t deadline, quiet_at;
    struct channel channels[2];
    struct input input;
    struct ending ending;
    bool owes_started, owes_taken, owes_ended;
};

extern struct session sessions[MOST_SESSIONS];
extern uint64_t next_stream;

/* --- what the server says; false: not as docs/link.md says it */
bool session_start(uint32_t stream, const uint8_t *payload, uint32_t size);
bool session_keep(const uint8_t *payload, uint32_t size);
bool session_stored(struct session *session, int channel, uint64_t offset);
bool session_take(struct session *session, uint64_t offset, const uint8_t *data, uint32_t size);
bool session_end_input(struct session *session, uint64_t offset);
void session_signal(struct session *session, int signal, int whom);
void session_resize(struct session *session, uint16_t rows, uint16_t columns);
void session_forget(struct session *session);
struct session *session_on(uint32_t stream);

/* --- what its descriptors say */
void session_readable(int slot, int channel);
void session_writable(int slot);

/* --- what its branch says; slots of -1 are nobody's */
void session_began(int slot, pid_t pid);
void session_ended(int slot, int status, uint64_t user, uint64_t system, uint64_t memory);
void session_failed(int slot, int error, const char *sentence);
void session_done(int slot, const struct report *report);
void session_quiet(int slot);            /* nothing is left of what was to be killed */
void session_reaper_gone(int slot, bool killed);
void sessions_without_reaper_ended(void);
struct session *session_with_pid(pid_t pid);

/* --- time */
uint64_t sessions_due(void);
void sessions_tick(void);

/* --- what is to be told: docs/link.md, the maps of HELLO and EXITED */
void pack_greeting(struct packer *packer, const struct session *session);
void pack_ending(struct packer *packer, const struct session *session);

#endif
