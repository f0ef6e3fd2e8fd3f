/* Blocks of a tar, written (pax) and read (ustar, pax, GNU's long names): no files here. */
#ifndef TAR_H
#define TAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    BLOCK = 512,
    MOST_TAR_NAME = 65536,
    MOST_HEADERS = 3 * BLOCK + 2 * MOST_TAR_NAME + 1024, /* an entry's own, and the pax ones before it */
    MOST_EXTRA = 2 * MOST_TAR_NAME,                      /* of pax records or a long name, read */
};

enum tar_kind { TAR_FILE, TAR_FOLDER, TAR_SYMLINK, TAR_HARD_LINK };

struct tar_entry {
    enum tar_kind kind;
    const char *name, *target;
    uint64_t size, mode, uid, gid, modified; /* modified: seconds */
};

/* How many bytes of `into` (MOST_HEADERS) it takes; 0: a name is too long. */
size_t tar_write(uint8_t *into, const struct tar_entry *entry);

/* What a header block is, and what it says of the blocks after it. */
enum tar_block { TAR_BAD, TAR_END, TAR_ENTRY, TAR_EXTRA, TAR_SKIP, TAR_REFUSED };

struct tar_reader {
    struct tar_entry entry;     /* of the last TAR_ENTRY; its strings are below */
    uint64_t data;              /* bytes that follow the header, filled up to whole blocks */
    char name[MOST_TAR_NAME], target[MOST_TAR_NAME];
    /* said by what came before an entry, and good for that one */
    bool has_name, has_target, has_size, has_modified;
    uint64_t size, modified;
    char extra;                 /* type of a TAR_EXTRA, whose bytes are to be given to tar_read_extra */
};

enum tar_block tar_read(struct tar_reader *reader, const uint8_t block[BLOCK]);
/* `size` bytes at most MOST_EXTRA, without the filling. False: not as it should be. */
bool tar_read_extra(struct tar_reader *reader, const char *data, size_t size);

#endif
