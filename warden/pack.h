/* The msgpack of docs/link.md: written into a buffer that may turn out too small, read from bytes nobody vouches for. */
#ifndef PACK_H
#define PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bytes {
    const uint8_t *at;
    uint32_t size;
};

bool bytes_are(struct bytes bytes, const char *text);

/* Writes until `end`; what does not fit sets `full`, and nothing more is written. */
struct packer {
    uint8_t *at, *end;
    bool full;
};

void pack_nil(struct packer *packer);
void pack_bool(struct packer *packer, bool value);
void pack_uint(struct packer *packer, uint64_t value);
void pack_map(struct packer *packer, uint32_t pairs);
void pack_array(struct packer *packer, uint32_t items);
void pack_str(struct packer *packer, const char *text);
void pack_bin(struct packer *packer, const void *data, size_t size);
void pack_raw(struct packer *packer, const void *packed, size_t size);

/* Reads until `end`; what is not as asked for sets `bad`, and every later read fails too. */
struct unpacker {
    const uint8_t *at, *end;
    bool bad;
};

bool unpack_nil(struct unpacker *unpacker); /* takes a nil if there is one; a nil that is not there is no fault */
bool unpack_bool(struct unpacker *unpacker);
uint64_t unpack_uint(struct unpacker *unpacker);
uint32_t unpack_map(struct unpacker *unpacker);
uint32_t unpack_array(struct unpacker *unpacker);
struct bytes unpack_bytes(struct unpacker *unpacker); /* bin or str */
void unpack_skip(struct unpacker *unpacker, int depth); /* one value, nested at most `depth` deep */

#endif
