/* A START, and what a child makes of it: its strings pointed at, and ended in place. */
#include "start.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_inside(struct bytes bytes, const uint8_t *data, size_t size)
{
    return !bytes.size || (bytes.at >= data && bytes.at + bytes.size <= data + size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct bytes found[2 * MOST_STRINGS];
    static char *argv[MOST_STRINGS + 1], *env[MOST_STRINGS + 1];
    struct start start;
    uint8_t *copy = malloc(size + 1); /* a NUL may be put behind the last string, as link.c leaves room for */
    memcpy(copy, data, size);
    if (start_read(&start, copy, (uint32_t)size)) {
        if (start.argv.count > MOST_STRINGS || start.env.count > MOST_STRINGS) abort();
        if (start.cwd.size > MOST_PATH || start.path.size > MOST_PATH || start.to.size > MOST_PATH) abort();
        if (!is_inside(start.id, copy, size) || !is_inside(start.act, copy, size)) abort();
        strings_point(start.argv, found);
        strings_point(start.env, found + MOST_STRINGS);
        for (uint32_t i = 0; i < start.argv.count; i++)
            if (!is_inside(found[i], copy, size)) abort();
        strings_terminate(found, start.argv.count, argv);
        strings_terminate(found + MOST_STRINGS, start.env.count, env);
        size_t total = 0;
        for (char **one = argv; *one; one++) total += strlen(*one);
        for (char **one = env; *one; one++) total += strlen(*one);
        if (total > MOST_TEXT) abort();
    }
    free(copy);
    return 0;
}
