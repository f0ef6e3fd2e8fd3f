/* read, write, stat, mkdir, move. */
#include "act.h"
#include "entry.h"
#include "places.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#endif

enum { CHUNK = 65536 };

static uint8_t chunk[CHUNK];

/* Nothing but a regular file: opening a FIFO would wait, and reading one, or a device, would never end. */
static uint64_t check_regular(int fd, const char *path)
{
    struct stat about;
    if (fstat(fd, &about) < 0) act_fail(path);
    if (S_ISDIR(about.st_mode)) act_fail_with(EISDIR, path);
    if (!S_ISREG(about.st_mode)) act_fail_with(EINVAL, "not a regular file");
    return (uint64_t)about.st_size;
}

static void answer_size(uint64_t size)
{
    struct packer result = act_result(1);
    pack_str(&result, "size"), pack_uint(&result, size);
    act_finish(&result);
}

void do_read(const struct start *start)
{
    const char *path = act_path(start);
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) act_fail(path);
    uint64_t size = check_regular(fd, path), left = start->has_length ? start->length : UINT64_MAX;
    if (start->offset > INT64_MAX || lseek(fd, (off_t)start->offset, SEEK_SET) < 0) act_fail_with(EINVAL, "`offset`");
    act_ready();
    while (left) {
        ssize_t got = read(fd, chunk, left < CHUNK ? (size_t)left : CHUNK);
        if (got < 0) act_fail(path);
        if (got == 0) break;
        act_write(chunk, (size_t)got);
        left -= (uint64_t)got;
    }
    answer_size(size);
}

static mode_t mode_of(const struct start *start, mode_t otherwise)
{
    if (!start->has_mode) return otherwise;
    if (start->mode > 07777) act_fail_with(EINVAL, "`mode`");
    return (mode_t)start->mode;
}

/* All of the input into `fd`; on failure the file `made` is removed again. */
static void pour(int fd, const char *made)
{
    for (size_t size; (size = act_read_input(chunk, CHUNK)) > 0;) {
        for (size_t at = 0; at < size;) {
            ssize_t went = write(fd, chunk + at, size - at);
            if (went < 0 && errno == EINTR) continue;
            if (went < 0) {
                int error = errno;
                if (made) unlink(made);
                act_fail_with(error, "writing");
            }
            at += (size_t)went;
        }
    }
}

static void append(const char *path, const struct start *start)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, mode_of(start, 0644));
    if (fd < 0) act_fail(path);
    check_regular(fd, path);
    act_ready();
    pour(fd, NULL);
    answer_size(check_regular(fd, path));
}

/* What is half written when the act is asked to end. */
static const char *half;

static _Noreturn void give_up(int number)
{
    unlink(half);
    _exit(128 + number);
}

/* A file beside `path` with a name nobody else has. */
static int open_beside(const char *path, char beside[MOST_PATH + 32])
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz012345";
    const char *name = strrchr(path, '/') + 1;
    uint8_t random[12];
    if (getrandom(random, sizeof random, 0) != sizeof random) return -1;
    size_t folder = (size_t)(name - path);
    memcpy(beside, path, folder);
    memcpy(beside + folder, ".ringfence-", 11);
    for (size_t i = 0; i < sizeof random; i++) beside[folder + 11 + i] = letters[random[i] % 32];
    beside[folder + 11 + sizeof random] = 0;
    return open(beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

static int rename_new(int from_folder, const char *from, int to_folder, const char *to)
{
    struct stat about;
    if (syscall(SYS_renameat2, from_folder, from, to_folder, to, RENAME_NOREPLACE) == 0) return 0;
    if (errno != EINVAL && errno != ENOSYS) return -1;
    /* A filesystem without it: as near as one gets. */
    errno = EEXIST;
    if (fstatat(to_folder, to, &about, AT_SYMLINK_NOFOLLOW) == 0) return -1;
    return renameat(from_folder, from, to_folder, to);
}

/* Where a file is that `path` leads to by links; itself when it leads nowhere. */
static const char *without_links(const char *path)
{
    static char resolved[MOST_PATH + 1];
    struct stat about;
    if (lstat(path, &about) < 0 || !S_ISLNK(about.st_mode)) return path;
    char *found = realpath(path, NULL);
    if (!found || strlen(found) > MOST_PATH) return path;
    return strcpy(resolved, found);
}

static void put_in_place(const char *path, const struct start *start, bool create)
{
    char beside[MOST_PATH + 32];
    struct stat about;
    mode_t mode = mode_of(start, 0644);
    if (path[strlen(path) - 1] == '/') act_fail_with(EISDIR, path);
    bool exists = lstat(path, &about) == 0;
    if (exists && create) act_fail_with(EEXIST, path);
    if (exists && S_ISDIR(about.st_mode)) act_fail_with(EISDIR, path);
    if (exists && S_ISREG(about.st_mode) && !start->has_mode) mode = about.st_mode & 07777;
    int fd = open_beside(path, beside);
    if (fd < 0) act_fail(path);
    half = beside;
    signal(SIGTERM, give_up);
    act_ready();
    pour(fd, beside);
    bool done = fchmod(fd, mode) == 0
                && (create ? rename_new(AT_FDCWD, beside, AT_FDCWD, path) : rename(beside, path)) == 0;
    int error = errno;
    if (!done) {
        unlink(beside);
        act_fail_with(error, path);
    }
    answer_size(check_regular(fd, path));
}

void do_write(const struct start *start)
{
    char *path = act_path(start);
    if (start->parents && place_make_parents(path) < 0) act_fail(path);
    if (bytes_are(start->how, "append")) append(path, start);
    else if (bytes_are(start->how, "create")) put_in_place(path, start, true);
    else if (bytes_are(start->how, "replace") || start->how.size == 0) put_in_place(without_links(path), start, false);
    else act_fail_with(EINVAL, "`how`");
}

void do_stat(const struct start *start)
{
    const char *path = act_path(start);
    struct stat about;
    if (lstat(path, &about) < 0) act_fail(path);
    struct packer result = act_result(0);
    result.at--; /* the entry is the map */
    pack_entry(&result, &about, AT_FDCWD, path, ".");
    act_finish(&result);
}

void do_mkdir(const struct start *start)
{
    char *path = act_path(start);
    struct stat about;
    if (start->parents && place_make_parents(path) < 0) act_fail(path);
    if (mkdir(path, mode_of(start, 0755)) == 0) return;
    int error = errno;
    if (error == EEXIST && start->parents && stat(path, &about) == 0 && S_ISDIR(about.st_mode)) return;
    act_fail_with(error, path);
}

void do_move(const struct start *start)
{
    char *from_name, *to_name;
    int from = place_parent(-1, act_path(start), false, &from_name);
    if (from < 0) act_fail("`path`");
    int to = place_parent(-1, act_to(start), false, &to_name);
    if (to < 0) act_fail("`to`");
    int done = start->replace ? renameat(from, from_name, to, to_name) : rename_new(from, from_name, to, to_name);
    if (done < 0) act_fail("moving it");
}
