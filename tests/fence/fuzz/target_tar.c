/* A tar, block by block, as the act `unpack` reads one; and what was read, written and read again. */
#include "acts/tar.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct tar_reader reader, again;
static uint8_t headers[MOST_HEADERS];

/* Every block of what was written has to be taken, the last of them as this entry. */
static void write_and_read(const struct tar_entry *entry)
{
    size_t size = tar_write(headers, entry), at = 0;
    if (size == 0) return;
    if (size % BLOCK || size > MOST_HEADERS) abort();
    memset(&again, 0, sizeof again);
    for (;;) {
        enum tar_block block = tar_read(&again, headers + at);
        at += BLOCK;
        if (block == TAR_ENTRY) break;
        if (block != TAR_EXTRA || at + again.data > size) abort();
        if (!tar_read_extra(&again, (const char *)headers + at, (size_t)again.data)) abort();
        at += (again.data + BLOCK - 1) / BLOCK * BLOCK;
    }
    if (at != size || again.entry.kind != entry->kind) abort();
    if (strcmp(again.entry.name, entry->name) || (entry->target[0] && strcmp(again.entry.target, entry->target))) abort();
    if (entry->kind == TAR_FILE && again.entry.size != entry->size) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t block[BLOCK];
    size_t at = 0;
    memset(&reader, 0, sizeof reader);
    while (size - at >= BLOCK) {
        memcpy(block, data + at, BLOCK);
        /* A sum that is right is what no change of a byte would find. */
        unsigned sum = 0;
        memset(block + 148, ' ', 8);
        for (int i = 0; i < BLOCK; i++) sum += block[i];
        for (int i = 5; i >= 0; i--, sum >>= 3) block[148 + i] = (uint8_t)('0' + (sum & 7));
        if (memcmp(data + at, (uint8_t[BLOCK]){0}, BLOCK) == 0) memset(block, 0, BLOCK);
        at += BLOCK;
        switch (tar_read(&reader, block)) {
        case TAR_ENTRY:
            if (strnlen(reader.entry.name, MOST_TAR_NAME) == MOST_TAR_NAME) abort();
            if (strnlen(reader.entry.target, MOST_TAR_NAME) == MOST_TAR_NAME) abort();
            write_and_read(&reader.entry);
            break;
        case TAR_EXTRA: {
            if (reader.data > MOST_EXTRA) abort();
            size_t there = reader.data < size - at ? (size_t)reader.data : size - at;
            char *extra = malloc(there + 1);
            memcpy(extra, data + at, there);
            extra[there] = 0;
            bool good = tar_read_extra(&reader, extra, there);
            free(extra);
            if (!good) return 0;
            break;
        }
        case TAR_SKIP: break;
        case TAR_END:
        case TAR_REFUSED:
        case TAR_BAD: return 0;
        }
        size_t whole = reader.data > size - at ? size - at : ((size_t)reader.data + BLOCK - 1) / BLOCK * BLOCK;
        at += whole < size - at ? whole : size - at;
    }
    return 0;
}
