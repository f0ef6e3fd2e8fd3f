#include "start.h"

#include <string.h>

enum { MOST_PAIRS = 64 };

/* Strings are counted together, and none may hold a NUL: it would end somewhere else for the program than for us. */
static struct bytes text(struct unpacker *unpacker, uint32_t *total)
{
    struct bytes found = unpack_bytes(unpacker);
    *total += found.size;
    if (found.size > MOST_STRING || *total > MOST_TEXT) unpacker->bad = true;
    if (found.size && memchr(found.at, 0, found.size)) unpacker->bad = true;
    return found;
}

static struct bytes path(struct unpacker *unpacker, uint32_t *total)
{
    struct bytes found = text(unpacker, total);
    if (found.size > MOST_PATH) unpacker->bad = true;
    return found;
}

static struct strings texts(struct unpacker *unpacker, uint32_t *total)
{
    struct strings found = {.count = unpack_array(unpacker)};
    found.at = unpacker->at;
    if (found.count > MOST_STRINGS) unpacker->bad = true;
    for (uint32_t i = 0; i < found.count && !unpacker->bad; i++) text(unpacker, total);
    return found;
}

static void size_of_terminal(struct unpacker *unpacker, struct start *start)
{
    if (unpack_nil(unpacker)) return;
    if (unpack_array(unpacker) != 2) unpacker->bad = true;
    uint64_t rows = unpack_uint(unpacker), columns = unpack_uint(unpacker);
    if (rows > UINT16_MAX || columns > UINT16_MAX) unpacker->bad = true;
    start->pty = true;
    start->rows = (uint16_t)rows;
    start->columns = (uint16_t)columns;
}

static bool read_argument(struct unpacker *unpacker, struct start *start, struct bytes key, uint32_t *total)
{
    if (bytes_are(key, "path")) start->path = path(unpacker, total), start->has_path = true;
    else if (bytes_are(key, "to")) start->to = path(unpacker, total), start->has_to = true;
    else if (bytes_are(key, "how")) start->how = text(unpacker, total);
    else if (bytes_are(key, "offset")) start->offset = unpack_uint(unpacker);
    else if (bytes_are(key, "length")) start->has_length = !unpack_nil(unpacker), start->length = start->has_length ? unpack_uint(unpacker) : 0;
    else if (bytes_are(key, "mode")) start->mode = unpack_uint(unpacker), start->has_mode = true;
    else if (bytes_are(key, "depth")) start->depth = unpack_uint(unpacker), start->has_depth = true;
    else if (bytes_are(key, "most")) start->most = unpack_uint(unpacker), start->has_most = true;
    else if (bytes_are(key, "port")) start->port = unpack_uint(unpacker);
    else if (bytes_are(key, "parents")) start->parents = unpack_bool(unpacker);
    else if (bytes_are(key, "replace")) start->replace = unpack_bool(unpacker);
    else if (bytes_are(key, "recursive")) start->recursive = unpack_bool(unpacker);
    else return false;
    return true;
}

static void read_pair(struct unpacker *unpacker, struct start *start, uint32_t *total)
{
    struct bytes key = unpack_bytes(unpacker);
    if (bytes_are(key, "id")) start->id = unpack_bytes(unpacker);
    else if (bytes_are(key, "argv")) start->argv = texts(unpacker, total);
    else if (bytes_are(key, "do")) start->act = text(unpacker, total);
    else if (bytes_are(key, "env")) start->env = texts(unpacker, total);
    else if (bytes_are(key, "cwd")) start->cwd = path(unpacker, total);
    else if (bytes_are(key, "pty")) size_of_terminal(unpacker, start);
    else if (bytes_are(key, "stdin")) start->input = unpack_bool(unpacker);
    else if (bytes_are(key, "timeout")) start->timeout = unpack_uint(unpacker);
    else if (!read_argument(unpacker, start, key, total)) unpack_skip(unpacker, MOST_DEPTH - 1);
}

bool start_read(struct start *start, const uint8_t *payload, uint32_t size)
{
    struct unpacker unpacker = {payload, payload + size, false};
    uint32_t total = 0, pairs = unpack_map(&unpacker);
    *start = (struct start){0};
    if (pairs > MOST_PAIRS) return false;
    while (pairs-- && !unpacker.bad) read_pair(&unpacker, start, &total);
    bool one_of_both = (start->argv.count > 0) != (start->act.size > 0);
    return !unpacker.bad && unpacker.at == unpacker.end && start->id.size == 16 && one_of_both;
}

void strings_point(struct strings strings, struct bytes into[])
{
    /* Read once already, so that no end is needed. */
    struct unpacker unpacker = {strings.at, (const uint8_t *)UINTPTR_MAX, false};
    for (uint32_t i = 0; i < strings.count; i++) into[i] = unpack_bytes(&unpacker);
}

void strings_terminate(const struct bytes strings[], uint32_t count, char *into[])
{
    for (uint32_t i = 0; i < count; i++) {
        into[i] = (char *)(uintptr_t)strings[i].at;
        into[i][strings[i].size] = 0;
    }
    into[count] = NULL;
}
