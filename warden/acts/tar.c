#include "tar.h"

#include <string.h>

/* Where each field of a ustar header lies. */
enum {
    NAME = 0, NAME_SIZE = 100, MODE = 100, UID = 108, GID = 116, SIZE = 124, MODIFIED = 136, CHECKSUM = 148,
    TYPE = 156, TARGET = 157, TARGET_SIZE = 100, MAGIC = 257, PREFIX = 345, PREFIX_SIZE = 155,
    OWNER_SIZE = 8, LONG_SIZE = 12,
};

/* --- writing */

static void put_octal(uint8_t *at, int size, uint64_t value)
{
    at[--size] = 0;
    while (size--) {
        at[size] = (uint8_t)('0' + (value & 7));
        value >>= 3;
    }
}

static bool fits(uint64_t value, int size) { return value >> (3 * (size - 1)) == 0; }

static void finish_header(uint8_t *block, char type, uint64_t size)
{
    unsigned sum = 0;
    put_octal(block + SIZE, LONG_SIZE, fits(size, LONG_SIZE) ? size : 0);
    block[TYPE] = (uint8_t)type;
    memcpy(block + MAGIC, "ustar\00000", 8);
    memset(block + CHECKSUM, ' ', 8);
    for (int i = 0; i < BLOCK; i++) sum += block[i];
    put_octal(block + CHECKSUM, 7, sum);
}

/* "SIZE key=value\n", where SIZE counts its own digits too. */
static char *put_record(char *at, const char *key, const char *value, size_t value_size)
{
    size_t rest = 1 + strlen(key) + 1 + value_size + 1, size = rest + 1;
    char digits[20];
    int count = 1;
    for (size_t limit = 10; size >= limit; limit *= 10) size = rest + (size_t)++count;
    for (size_t left = size, i = (size_t)count; i--; left /= 10) digits[i] = (char)('0' + left % 10);
    memcpy(at, digits, (size_t)count);
    at += count;
    *at++ = ' ';
    memcpy(at, key, strlen(key));
    at += strlen(key);
    *at++ = '=';
    memcpy(at, value, value_size);
    at[value_size] = '\n';
    return at + value_size + 1;
}

static char *put_number_record(char *at, const char *key, uint64_t value)
{
    char digits[20], *first = digits + sizeof digits;
    do *--first = (char)('0' + value % 10);
    while (value /= 10);
    return put_record(at, key, first, (size_t)(digits + sizeof digits - first));
}

static bool is_utf8(const char *text)
{
    for (const uint8_t *at = (const uint8_t *)text; *at;) {
        int more = *at < 0x80 ? 0 : *at >= 0xc2 && *at < 0xe0 ? 1 : *at >= 0xe0 && *at < 0xf0 ? 2 : *at >= 0xf0 && *at < 0xf5 ? 3 : -1;
        if (more < 0) return false;
        for (at++; more--; at++)
            if ((*at & 0xc0) != 0x80) return false;
    }
    return true;
}

/* What does not fit into the header, in records before it. */
static size_t put_extra(uint8_t *into, const struct tar_entry *entry)
{
    size_t name = strlen(entry->name), target = entry->target ? strlen(entry->target) : 0;
    char *first = (char *)into + BLOCK, *at = first;
    if ((name > NAME_SIZE && !is_utf8(entry->name)) || (target > TARGET_SIZE && !is_utf8(entry->target)))
        at = put_record(at, "hdrcharset", "BINARY", 6);
    if (name > NAME_SIZE) at = put_record(at, "path", entry->name, name);
    if (target > TARGET_SIZE) at = put_record(at, "linkpath", entry->target, target);
    if (!fits(entry->size, LONG_SIZE)) at = put_number_record(at, "size", entry->size);
    if (!fits(entry->uid, OWNER_SIZE)) at = put_number_record(at, "uid", entry->uid);
    if (!fits(entry->gid, OWNER_SIZE)) at = put_number_record(at, "gid", entry->gid);
    if (at == first) return 0;
    size_t size = (size_t)(at - first), whole = (size + BLOCK - 1) / BLOCK * BLOCK;
    memset(at, 0, whole - size);
    memset(into, 0, BLOCK);
    memcpy(into + NAME, "././@PaxHeader", 14);
    finish_header(into, 'x', size);
    return BLOCK + whole;
}

size_t tar_write(uint8_t *into, const struct tar_entry *entry)
{
    static const char types[] = {'0', '5', '2', '1'};
    size_t name = strlen(entry->name), target = entry->target ? strlen(entry->target) : 0;
    if (name >= MOST_TAR_NAME || target >= MOST_TAR_NAME) return 0;
    size_t extra = put_extra(into, entry);
    uint8_t *block = into + extra;
    memset(block, 0, BLOCK);
    memcpy(block + NAME, entry->name, name < NAME_SIZE ? name : NAME_SIZE);
    if (target) memcpy(block + TARGET, entry->target, target < TARGET_SIZE ? target : TARGET_SIZE);
    put_octal(block + MODE, OWNER_SIZE, entry->mode);
    put_octal(block + UID, OWNER_SIZE, fits(entry->uid, OWNER_SIZE) ? entry->uid : 0);
    put_octal(block + GID, OWNER_SIZE, fits(entry->gid, OWNER_SIZE) ? entry->gid : 0);
    put_octal(block + MODIFIED, LONG_SIZE, fits(entry->modified, LONG_SIZE) ? entry->modified : 0);
    finish_header(block, types[entry->kind], entry->size);
    return extra + BLOCK;
}

/* --- reading */

/* Octal between blanks and NULs, or, with the first bit set, binary. False: neither, or beyond 63 bits. */
static bool get_number(const uint8_t *at, int size, uint64_t *value)
{
    *value = 0;
    if (*at & 0x80) {
        if (*at != 0x80) return false;
        for (int i = 1; i < size; i++) {
            if (*value >> 55) return false;
            *value = *value << 8 | at[i];
        }
        return true;
    }
    int i = 0;
    while (i < size && at[i] == ' ') i++;
    for (; i < size && at[i] >= '0' && at[i] <= '7'; i++) *value = *value << 3 | (uint64_t)(at[i] - '0');
    return i == size || at[i] == ' ' || at[i] == 0;
}

static bool has_right_sum(const uint8_t block[BLOCK])
{
    uint64_t told;
    unsigned sum = 8 * ' ';
    for (int i = 0; i < BLOCK; i++)
        if (i < CHECKSUM || i >= CHECKSUM + 8) sum += block[i];
    return get_number(block + CHECKSUM, 8, &told) && told == sum;
}

static size_t get_text(char *into, const uint8_t *at, size_t most)
{
    size_t size = strnlen((const char *)at, most);
    memcpy(into, at, size);
    into[size] = 0;
    return size;
}

static void get_name(struct tar_reader *reader, const uint8_t block[BLOCK])
{
    size_t size = 0;
    if (reader->has_name) return;
    /* GNU's own magic has other fields where ustar has a prefix. */
    if (memcmp(block + MAGIC, "ustar", 6) == 0 && block[PREFIX]) {
        size = get_text(reader->name, block + PREFIX, PREFIX_SIZE);
        reader->name[size++] = '/';
    }
    get_text(reader->name + size, block + NAME, NAME_SIZE);
}

static enum tar_block read_entry(struct tar_reader *reader, const uint8_t block[BLOCK], enum tar_kind kind)
{
    struct tar_entry *entry = &reader->entry;
    uint64_t modified;
    get_name(reader, block);
    if (!reader->has_target) get_text(reader->target, block + TARGET, TARGET_SIZE);
    *entry = (struct tar_entry){.kind = kind, .name = reader->name, .target = reader->target};
    if (reader->has_size) reader->data = reader->size;
    entry->size = kind == TAR_FILE ? reader->data : 0;
    if (kind != TAR_FILE && kind != TAR_HARD_LINK) reader->data = 0; /* some writers tell the size of a folder */
    if (!get_number(block + MODE, OWNER_SIZE, &entry->mode)) return TAR_BAD;
    entry->modified = reader->has_modified ? reader->modified
                      : get_number(block + MODIFIED, LONG_SIZE, &modified) ? modified : 0;
    reader->has_name = reader->has_target = reader->has_size = reader->has_modified = false;
    return TAR_ENTRY;
}

enum tar_block tar_read(struct tar_reader *reader, const uint8_t block[BLOCK])
{
    static const uint8_t zeros[BLOCK];
    reader->data = 0;
    if (memcmp(block, zeros, BLOCK) == 0) return TAR_END;
    if (!has_right_sum(block) || !get_number(block + SIZE, LONG_SIZE, &reader->data)) return TAR_BAD;
    switch (block[TYPE]) {
    case 0: /* before ustar, a folder was a file whose name ends in a slash */
    case '0':
    case '7': {
        size_t size = strnlen((const char *)block + NAME, NAME_SIZE);
        bool folder = block[TYPE] == 0 && size && block[NAME + size - 1] == '/';
        return read_entry(reader, block, folder ? TAR_FOLDER : TAR_FILE);
    }
    case '1': return read_entry(reader, block, TAR_HARD_LINK);
    case '2': return read_entry(reader, block, TAR_SYMLINK);
    case '5': return read_entry(reader, block, TAR_FOLDER);
    case 'x':
    case 'L':
    case 'K':
        reader->extra = (char)block[TYPE];
        return reader->data <= MOST_EXTRA ? TAR_EXTRA : TAR_BAD;
    case 'g': return TAR_SKIP; /* what is said of all entries is nothing we need */
    default:
        get_name(reader, block);
        return TAR_REFUSED;
    }
}

static bool set_text(char *into, bool *has, const char *value, size_t size)
{
    if (size >= MOST_TAR_NAME || memchr(value, 0, size)) return false;
    memcpy(into, value, size);
    into[size] = 0;
    *has = true;
    return true;
}

/* Whole numbers; a fraction (of a time) is passed over. */
static bool set_number(uint64_t *into, bool *has, const char *value, size_t size)
{
    size_t i = 0;
    *into = 0;
    for (; i < size && value[i] >= '0' && value[i] <= '9'; i++) {
        if (*into > INT64_MAX / 10 - 1) return false;
        *into = *into * 10 + (uint64_t)(value[i] - '0');
    }
    *has = i > 0;
    return i == size || value[i] == '.' || value[0] == '-';
}

static bool key_is(const char *key, size_t size, const char *name) { return strlen(name) == size && memcmp(key, name, size) == 0; }

static bool set_record(struct tar_reader *reader, const char *key, size_t key_size, const char *value, size_t size)
{
    if (key_is(key, key_size, "path")) return set_text(reader->name, &reader->has_name, value, size);
    if (key_is(key, key_size, "linkpath")) return set_text(reader->target, &reader->has_target, value, size);
    if (key_is(key, key_size, "size")) return set_number(&reader->size, &reader->has_size, value, size);
    if (key_is(key, key_size, "mtime")) return set_number(&reader->modified, &reader->has_modified, value, size);
    return key_size < 11 || memcmp(key, "GNU.sparse.", 11) != 0; /* the bytes of one are not the file */
}

static bool read_records(struct tar_reader *reader, const char *at, size_t left)
{
    while (left) {
        size_t size = 0, digits = 0;
        while (digits < left && digits < 7 && at[digits] >= '0' && at[digits] <= '9')
            size = size * 10 + (size_t)(at[digits++] - '0');
        if (digits == 0 || digits == left || at[digits] != ' ' || size > left || size < digits + 3) return false;
        const char *key = at + digits + 1, *end = at + size - 1, *equals = memchr(key, '=', (size_t)(end - key));
        if (*end != '\n' || !equals) return false;
        if (!set_record(reader, key, (size_t)(equals - key), equals + 1, (size_t)(end - equals - 1))) return false;
        at += size;
        left -= size;
    }
    return true;
}

bool tar_read_extra(struct tar_reader *reader, const char *data, size_t size)
{
    if (reader->extra == 'x') return read_records(reader, data, size);
    size = strnlen(data, size);
    if (reader->extra == 'L') return set_text(reader->name, &reader->has_name, data, size);
    return set_text(reader->target, &reader->has_target, data, size);
}
