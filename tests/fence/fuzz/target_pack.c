/* msgpack that nobody vouches for: skipped, or read as whatever the next byte of the input says it is. */
#include "pack.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_as_told(const uint8_t *data, size_t size)
{
    size_t told = size / 2;
    struct unpacker unpacker = {data + told, data + size, false};
    for (size_t i = 0; i < told && !unpacker.bad; i++) {
        switch (data[i] % 7) {
        case 0: unpack_nil(&unpacker); break;
        case 1: unpack_bool(&unpacker); break;
        case 2: unpack_uint(&unpacker); break;
        case 3: unpack_map(&unpacker); break;
        case 4: unpack_array(&unpacker); break;
        case 5: {
            struct bytes found = unpack_bytes(&unpacker);
            if (found.size && (found.at < data || found.at + found.size > data + size)) abort();
            break;
        }
        case 6: unpack_skip(&unpacker, data[i] / 7 % 5); break;
        }
        if (!unpacker.bad && unpacker.at > unpacker.end) abort();
    }
}

/* What was written is read as it was, and a packer that is full writes no byte. */
static void write_and_read(const uint8_t *data, size_t size)
{
    uint64_t number = 0;
    uint8_t room[64];
    memcpy(&number, data, size < 8 ? size : 8);
    struct packer packer = {room, room + size % sizeof room, false};
    pack_uint(&packer, number), pack_bin(&packer, data, size);
    if (packer.at > packer.end) abort();
    uint8_t *whole = malloc(size + 32);
    packer = (struct packer){whole, whole + size + 32, false};
    pack_uint(&packer, number), pack_bool(&packer, number & 1), pack_bin(&packer, data, size), pack_nil(&packer);
    struct unpacker unpacker = {whole, packer.at, false};
    if (unpack_uint(&unpacker) != number || unpack_bool(&unpacker) != (number & 1)) abort();
    struct bytes found = unpack_bytes(&unpacker);
    if (found.size != size || (size && memcmp(found.at, data, size)) || !unpack_nil(&unpacker)) abort();
    if (packer.full || unpacker.bad || unpacker.at != unpacker.end) abort();
    free(whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct unpacker unpacker = {data, data + size, false};
    unpack_skip(&unpacker, 4);
    if (!unpacker.bad && unpacker.at > unpacker.end) abort();
    read_as_told(data, size);
    write_and_read(data, size);
    return 0;
}
