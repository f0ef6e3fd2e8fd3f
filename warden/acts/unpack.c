#include "act.h"
#include "places.h"
#include "tar.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK = 65536 };

static uint8_t chunk[CHUNK];
static struct tar_reader reader;
static int top;
static uint64_t count;

/* The file that is being written: half of one is worse than none. */
static volatile int half_at = -1;
static const char *half_name;

static _Noreturn void fail_with(int error, const char *what)
{
    if (half_at >= 0) unlinkat(half_at, half_name, 0);
    act_fail_with(error, what);
}

static _Noreturn void give_up(int number)
{
    if (half_at >= 0) unlinkat(half_at, half_name, 0);
    _exit(128 + number);
}

static _Noreturn void fail(const char *what) { fail_with(errno, what); }

/* --- the input, in blocks */

static bool read_whole(uint8_t *into, size_t size)
{
    for (size_t have = 0, got; have < size; have += got)
        if ((got = act_read_input(into + have, size - have)) == 0) {
            if (have == 0) return false;
            fail_with(EINVAL, "the tar ends in the middle");
        }
    return true;
}

static void must_read(uint8_t *into, size_t size)
{
    if (size && !read_whole(into, size)) fail_with(EINVAL, "the tar ends in the middle");
}

static size_t filled(uint64_t size) { return (size_t)((BLOCK - size % BLOCK) % BLOCK); }

static void skip(uint64_t size)
{
    while (size) {
        size_t most = size < CHUNK ? (size_t)size : CHUNK;
        must_read(chunk, most);
        size -= most;
    }
}

/* --- where an entry goes */

static _Noreturn void refuse(const char *why) { fail_with(EPERM, why); }

/* A name from a tar, below the top folder: no part of it may lead up. "" is the top itself. */
static char *checked(char *name)
{
    if (*name == '/') refuse("a name in the tar is absolute");
    for (char *at = name; *at;) {
        size_t part = strcspn(at, "/");
        if (part == 2 && at[0] == '.' && at[1] == '.') refuse("a name in the tar leads out");
        at += part + strspn(at + part, "/");
    }
    while (name[0] == '.' && (name[1] == '/' || !name[1])) name += 1 + strspn(name + 1, "/");
    return name;
}

/* From the folder an entry is in, its target must not lead above the top, by its letters: links on the way are not
   looked at, since nobody follows them but the agent, who may go there anyway. */
static void check_target(const char *name, const char *target)
{
    long depth = 0;
    if (*target == '/') refuse("a link in the tar leads out");
    for (const char *at = strchr(name, '/'); at; at = strchr(at + 1, '/'))
        if (at[1] && at[1] != '/') depth++;
    for (const char *at = target; *at;) {
        size_t part = strcspn(at, "/");
        if (part == 2 && at[0] == '.' && at[1] == '.') depth--;
        else if (part && !(part == 1 && *at == '.')) depth++;
        if (depth < 0) refuse("a link in the tar leads out");
        at += part + strspn(at + part, "/");
    }
}

/* Room for a new entry: what is there goes, unless it is a folder. */
static void make_way(int at, const char *name)
{
    if (unlinkat(at, name, 0) < 0 && errno != ENOENT) fail(name);
}

static void set_time(int at, const char *name)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = (time_t)reader.entry.modified}};
    utimensat(at, name, times, AT_SYMLINK_NOFOLLOW); /* a time that the filesystem cannot hold is no reason to fail */
}

static void make_file(int at, const char *name)
{
    make_way(at, name);
    int fd = openat(at, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) fail(name);
    half_name = name;
    half_at = at;
    for (uint64_t left = reader.entry.size; left;) {
        size_t size = left < CHUNK ? (size_t)left : CHUNK;
        must_read(chunk, size);
        for (size_t done = 0; done < size;) {
            ssize_t went = write(fd, chunk + done, size - done);
            if (went < 0) fail(name);
            done += (size_t)went;
        }
        left -= size;
    }
    skip(filled(reader.entry.size));
    half_at = -1;
    if (fchmod(fd, reader.entry.mode & 0777) < 0) fail(name);
    close(fd);
    set_time(at, name);
}

static void make_folder(int at, const char *name)
{
    mode_t mode = (reader.entry.mode & 0777) | 0700; /* or what is in it could not be written */
    if (mkdirat(at, name, mode) < 0) {
        if (errno != EEXIST) fail(name);
        int folder = place_folder(at, name);
        if (folder < 0 || fchmod(folder, mode) < 0) fail(name);
        close(folder);
    }
}

static void make_hard_link(int at, const char *name)
{
    char *target_name, *target = checked(reader.target);
    int from = place_parent(top, target, false, &target_name);
    if (from < 0) fail(target);
    make_way(at, name);
    if (linkat(from, target_name, at, name, 0) < 0) fail(name);
    close(from);
    skip(reader.data + filled(reader.data));
}

static void make_entry(void)
{
    char *base, *name = checked(reader.name);
    count++;
    if (reader.entry.kind == TAR_SYMLINK) check_target(name, reader.target);
    int at = place_parent(top, name, true, &base);
    if (at < 0) fail(name);
    if (!*base || strcmp(base, ".") == 0) {
        if (reader.entry.kind != TAR_FOLDER) refuse("an entry of the tar has no name");
    } else {
        switch (reader.entry.kind) {
        case TAR_FILE: make_file(at, base); break;
        case TAR_FOLDER: make_folder(at, base); break;
        case TAR_HARD_LINK: make_hard_link(at, base); break;
        case TAR_SYMLINK:
            make_way(at, base);
            if (symlinkat(reader.target, at, base) < 0) fail(base);
            set_time(at, base);
            break;
        }
    }
    close(at);
}

static void read_extra(void)
{
    static uint8_t extra[MOST_EXTRA + 1];
    must_read(extra, (size_t)reader.data);
    extra[reader.data] = 0;
    if (!tar_read_extra(&reader, (const char *)extra, (size_t)reader.data)) fail_with(EINVAL, "a header of the tar is wrong");
    skip(filled(reader.data));
}

void do_unpack(const struct start *start)
{
    uint8_t block[BLOCK];
    char *name;
    int at = place_parent(-1, act_path(start), false, &name);
    top = at < 0 ? -1 : place_folder(at, *name ? name : ".");
    if (top < 0) fail("`path`");
    signal(SIGTERM, give_up);
    act_ready();
    for (bool more = true; more && read_whole(block, BLOCK);) {
        switch (tar_read(&reader, block)) {
        case TAR_ENTRY: make_entry(); break;
        case TAR_EXTRA: read_extra(); break;
        case TAR_SKIP: skip(reader.data + filled(reader.data)); break;
        case TAR_END: more = false; break;
        case TAR_REFUSED: refuse("the tar holds a device, a FIFO, or something unknown");
        case TAR_BAD: fail_with(EINVAL, "it is not a tar");
        }
    }
    while (act_read_input(chunk, CHUNK)) continue; /* what fills up the last record */
    act_finish_counted(count, "bytes", act_taken);
}
