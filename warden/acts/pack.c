#include "act.h"
#include "places.h"
#include "tar.h"
#include "walk.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK = 65536 };

static uint8_t headers[MOST_HEADERS], chunk[CHUNK];
static uint64_t count;

static void write_entry(const struct visit *visit, enum tar_kind kind, const char *target, uint64_t size)
{
    const struct stat *about = &visit->about;
    struct tar_entry entry = {
        .kind = kind, .name = visit->name, .target = target, .size = size, .mode = about->st_mode & 07777,
        .uid = about->st_uid, .gid = about->st_gid, .modified = about->st_mtime < 0 ? 0 : (uint64_t)about->st_mtime,
    };
    size_t took = tar_write(headers, &entry);
    if (took == 0) act_fail_with(ENAMETOOLONG, "packing it");
    act_write(headers, took);
    count++;
}

/* As many bytes as its header says, whatever happens to the file meanwhile: zeros for what is missing. */
static void write_bytes(int fd, uint64_t size)
{
    uint64_t filled = (size + BLOCK - 1) / BLOCK * BLOCK;
    bool ended = false;
    while (filled) {
        size_t most = filled < CHUNK ? (size_t)filled : CHUNK;
        ssize_t got = ended || size == 0 ? 0 : read(fd, chunk, size < most ? (size_t)size : most);
        if (got <= 0) {
            ended = true;
            memset(chunk, 0, most);
            got = (ssize_t)most;
        }
        act_write(chunk, (size_t)got);
        filled -= (uint64_t)got;
        size -= size < (uint64_t)got ? size : (uint64_t)got;
    }
}

static void write_file(struct visit *visit)
{
    int fd = openat(visit->at, visit->base, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) return;
    if (fd < 0) act_fail(visit->name);
    if (fstat(fd, &visit->about) == 0 && S_ISREG(visit->about.st_mode)) { /* it may be another by now */
        write_entry(visit, TAR_FILE, NULL, (uint64_t)visit->about.st_size);
        write_bytes(fd, (uint64_t)visit->about.st_size);
    }
    close(fd);
}

static bool see(const struct visit *visit)
{
    char target[MOST_PATH + 1];
    struct visit copy = *visit;
    if (S_ISDIR(visit->about.st_mode)) {
        write_entry(visit, TAR_FOLDER, NULL, 0);
    } else if (S_ISREG(visit->about.st_mode)) {
        write_file(&copy);
    } else if (S_ISLNK(visit->about.st_mode)) {
        ssize_t size = readlinkat(visit->at, visit->base, target, MOST_PATH);
        if (size < 0) return false;
        target[size] = 0;
        write_entry(visit, TAR_SYMLINK, target, 0);
    }
    return true; /* FIFOs, sockets and devices are no part of a tar from here */
}

static void too_deep(const struct visit *visit)
{
    (void)visit;
    act_fail_with(errno == EACCES ? EACCES : ELOOP, "a folder in it cannot be entered");
}

void do_pack(const struct start *start)
{
    static const uint8_t end[2 * BLOCK];
    char *name;
    int at = place_parent(-1, act_path(start), false, &name);
    if (at < 0) act_fail("`path`");
    struct visit top = {.at = at, .base = *name ? name : ".", .name = "."};
    if (fstatat(at, top.base, &top.about, AT_SYMLINK_NOFOLLOW) < 0) act_fail(top.base);
    int folder = S_ISDIR(top.about.st_mode) ? place_folder(at, top.base) : -1;
    if (S_ISDIR(top.about.st_mode) && folder < 0) act_fail(top.base);
    act_ready();
    see(&top);
    if (folder >= 0) walk(folder, see, too_deep);
    act_write(end, sizeof end);
    act_finish_counted(count, "bytes", act_written);
}
