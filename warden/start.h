/* A START, read from its payload: nothing is copied, so it is good for as long as the payload is. */
#ifndef START_H
#define START_H

#include "pack.h"

enum { MOST_STRINGS = 1024, MOST_STRING = 65536, MOST_TEXT = 131072, MOST_DEPTH = 4, MOST_PATH = 4096 };

struct strings {
    const uint8_t *at; /* the first one, packed */
    uint32_t count;
};

struct start {
    struct bytes id, act; /* `act` empty: a program */
    struct strings argv, env;
    struct bytes cwd;
    bool pty, input;
    uint16_t rows, columns;
    uint64_t timeout;
    /* the arguments of acts */
    struct bytes path, to, how;
    bool has_path, has_to, has_length, has_mode, has_depth, has_most;
    bool parents, replace, recursive;
    uint64_t offset, length, mode, depth, most, port;
};

/* False: it is not as docs/link.md says. */
bool start_read(struct start *start, const uint8_t *payload, uint32_t size);

/* Points `into` at the strings and puts a NUL behind each, in place: over what has been read already. For a child only,
   whose copy of the payload nobody reads again; call `point` for all strings before `terminate` for any. */
void strings_point(struct strings strings, struct bytes into[]);
void strings_terminate(const struct bytes strings[], uint32_t count, char *into[]);

#endif
