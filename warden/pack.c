#include "pack.h"

#include <string.h>

bool bytes_are(struct bytes bytes, const char *text)
{
    return bytes.size == strlen(text) && memcmp(bytes.at, text, bytes.size) == 0;
}

void pack_raw(struct packer *packer, const void *packed, size_t size)
{
    if (packer->full || (size_t)(packer->end - packer->at) < size) {
        packer->full = true;
        return;
    }
    if (size) memcpy(packer->at, packed, size);
    packer->at += size;
}

/* A type byte and `width` bytes of `value`, the highest first. */
static void pack_head(struct packer *packer, uint8_t type, uint64_t value, int width)
{
    uint8_t head[9] = {type};
    for (int i = 0; i < width; i++) head[1 + i] = (uint8_t)(value >> (8 * (width - 1 - i)));
    pack_raw(packer, head, 1 + (size_t)width);
}

void pack_nil(struct packer *packer) { pack_head(packer, 0xc0, 0, 0); }

void pack_bool(struct packer *packer, bool value) { pack_head(packer, value ? 0xc3 : 0xc2, 0, 0); }

void pack_uint(struct packer *packer, uint64_t value)
{
    if (value < 0x80) pack_head(packer, (uint8_t)value, 0, 0);
    else if (value <= UINT8_MAX) pack_head(packer, 0xcc, value, 1);
    else if (value <= UINT16_MAX) pack_head(packer, 0xcd, value, 2);
    else if (value <= UINT32_MAX) pack_head(packer, 0xce, value, 4);
    else pack_head(packer, 0xcf, value, 8);
}

void pack_map(struct packer *packer, uint32_t pairs)
{
    if (pairs < 16) pack_head(packer, (uint8_t)(0x80 | pairs), 0, 0);
    else pack_head(packer, 0xde, pairs, 2);
}

void pack_array(struct packer *packer, uint32_t items)
{
    if (items < 16) pack_head(packer, (uint8_t)(0x90 | items), 0, 0);
    else pack_head(packer, 0xdc, items, 2);
}

void pack_str(struct packer *packer, const char *text)
{
    size_t size = strlen(text);
    if (size < 32) pack_head(packer, (uint8_t)(0xa0 | size), 0, 0);
    else pack_head(packer, 0xda, size, 2);
    pack_raw(packer, text, size);
}

void pack_bin(struct packer *packer, const void *data, size_t size)
{
    if (size <= UINT8_MAX) pack_head(packer, 0xc4, size, 1);
    else if (size <= UINT16_MAX) pack_head(packer, 0xc5, size, 2);
    else pack_head(packer, 0xc6, size, 4);
    pack_raw(packer, data, size);
}

static size_t left(const struct unpacker *unpacker)
{
    return unpacker->bad ? 0 : (size_t)(unpacker->end - unpacker->at);
}

/* The next byte; 0xc1, which msgpack never uses, when there is none. */
static uint8_t take_type(struct unpacker *unpacker)
{
    if (left(unpacker) == 0) {
        unpacker->bad = true;
        return 0xc1;
    }
    return *unpacker->at++;
}

static uint64_t take_number(struct unpacker *unpacker, int width)
{
    uint64_t value = 0;
    if (left(unpacker) < (size_t)width) {
        unpacker->bad = true;
        return 0;
    }
    while (width--) value = value << 8 | *unpacker->at++;
    return value;
}

static struct bytes take_bytes(struct unpacker *unpacker, uint64_t size)
{
    if (left(unpacker) < size) unpacker->bad = true;
    if (unpacker->bad) return (struct bytes){0};
    struct bytes found = {unpacker->at, (uint32_t)size};
    unpacker->at += size;
    return found;
}

bool unpack_nil(struct unpacker *unpacker)
{
    if (left(unpacker) == 0 || *unpacker->at != 0xc0) return false;
    unpacker->at++;
    return true;
}

bool unpack_bool(struct unpacker *unpacker)
{
    uint8_t type = take_type(unpacker);
    if (type != 0xc2 && type != 0xc3) unpacker->bad = true;
    return type == 0xc3;
}

uint64_t unpack_uint(struct unpacker *unpacker)
{
    uint8_t type = take_type(unpacker);
    if (type < 0x80) return type;
    uint64_t value;
    switch (type) {
    case 0xcc: return take_number(unpacker, 1);
    case 0xcd: return take_number(unpacker, 2);
    case 0xce: return take_number(unpacker, 4);
    case 0xcf: return take_number(unpacker, 8);
    case 0xd0: value = take_number(unpacker, 1); break;
    case 0xd1: value = take_number(unpacker, 2); break;
    case 0xd2: value = take_number(unpacker, 4); break;
    case 0xd3: value = take_number(unpacker, 8); break;
    default: unpacker->bad = true; return 0;
    }
    /* A signed type may hold what is not negative. */
    if (value >> ((8 << (type - 0xd0)) - 1)) unpacker->bad = true;
    return unpacker->bad ? 0 : value;
}

uint32_t unpack_map(struct unpacker *unpacker)
{
    uint8_t type = take_type(unpacker);
    if ((type & 0xf0) == 0x80) return type & 0x0f;
    if (type == 0xde) return (uint32_t)take_number(unpacker, 2);
    if (type == 0xdf) return (uint32_t)take_number(unpacker, 4);
    unpacker->bad = true;
    return 0;
}

uint32_t unpack_array(struct unpacker *unpacker)
{
    uint8_t type = take_type(unpacker);
    if ((type & 0xf0) == 0x90) return type & 0x0f;
    if (type == 0xdc) return (uint32_t)take_number(unpacker, 2);
    if (type == 0xdd) return (uint32_t)take_number(unpacker, 4);
    unpacker->bad = true;
    return 0;
}

struct bytes unpack_bytes(struct unpacker *unpacker)
{
    uint8_t type = take_type(unpacker);
    if ((type & 0xe0) == 0xa0) return take_bytes(unpacker, type & 0x1f);
    switch (type) {
    case 0xc4:
    case 0xd9: return take_bytes(unpacker, take_number(unpacker, 1));
    case 0xc5:
    case 0xda: return take_bytes(unpacker, take_number(unpacker, 2));
    case 0xc6:
    case 0xdb: return take_bytes(unpacker, take_number(unpacker, 4));
    default: unpacker->bad = true; return (struct bytes){0};
    }
}

/* `values` values; a count that lies runs out of bytes. */
static void skip_values(struct unpacker *unpacker, uint64_t values, int depth)
{
    if (depth < 0) unpacker->bad = true;
    while (values-- && !unpacker->bad) unpack_skip(unpacker, depth);
}

void unpack_skip(struct unpacker *unpacker, int depth)
{
    if (left(unpacker) == 0) {
        unpacker->bad = true;
        return;
    }
    uint8_t type = *unpacker->at;
    if ((type & 0xf0) == 0x80 || type == 0xde || type == 0xdf) {
        uint64_t pairs = unpack_map(unpacker);
        skip_values(unpacker, 2 * pairs, depth - 1);
    } else if ((type & 0xf0) == 0x90 || type == 0xdc || type == 0xdd) {
        uint64_t items = unpack_array(unpacker);
        skip_values(unpacker, items, depth - 1);
    } else if ((type & 0xe0) == 0xa0 || (type >= 0xd9 && type <= 0xdb) || (type >= 0xc4 && type <= 0xc6)) {
        unpack_bytes(unpacker);
    } else if (type >= 0xcc && type <= 0xd3) { /* integers of 1, 2, 4, 8 bytes */
        unpacker->at++;
        take_number(unpacker, 1 << ((type - 0xcc) & 3));
    } else if (type == 0xca || type == 0xcb) { /* floats */
        unpacker->at++;
        take_number(unpacker, type == 0xca ? 4 : 8);
    } else if (type < 0x80 || type >= 0xe0 || type == 0xc0 || type == 0xc2 || type == 0xc3) {
        unpacker->at++;
    } else {
        unpacker->bad = true; /* extension types have no place in the link */
    }
}
