#include "act.h"
#include "places.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A folder on the way down, by what it is: on the way back up, `..` has to be the same one. */
struct level {
    dev_t device;
    ino_t inode;
};

static struct level *levels;
static size_t depth, room;
static uint64_t count;

static void remember(int folder)
{
    struct stat about;
    if (depth == room) {
        room = room ? 2 * room : 64;
        levels = realloc(levels, room * sizeof *levels);
        if (!levels) act_fail("removing it");
    }
    if (fstat(folder, &about) < 0) act_fail("removing it");
    levels[depth++] = (struct level){about.st_dev, about.st_ino};
}

/* A tree may be deeper than there are descriptors, so only one folder is open at a time. */
static int back_up(int folder)
{
    struct stat about;
    int above = openat(folder, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (above < 0 || fstat(above, &about) < 0) act_fail("removing it");
    depth--;
    if (about.st_dev != levels[depth].device || about.st_ino != levels[depth].inode)
        act_fail_with(EBUSY, "a folder was moved away while it was being removed");
    return above;
}

/* What can go of a folder; the answer is a folder in it that is not empty, opened, or -1. */
static int clear(DIR *folder)
{
    struct dirent *entry;
    int at = dirfd(folder);
    while ((entry = readdir(folder))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        bool removed = unlinkat(at, entry->d_name, 0) == 0;
        if (!removed && (errno == EISDIR || errno == EPERM)) removed = unlinkat(at, entry->d_name, AT_REMOVEDIR) == 0;
        if (removed) {
            count++;
            continue;
        }
        if (errno == ENOENT) continue;
        if (errno != ENOTEMPTY && errno != EEXIST) act_fail(entry->d_name);
        int below = place_folder(at, entry->d_name);
        if (below < 0) act_fail(entry->d_name);
        return below;
    }
    return -1;
}

static void remove_below(int folder)
{
    for (;;) {
        DIR *listing = fdopendir(folder);
        if (!listing) act_fail("removing it");
        int below = clear(listing);
        if (below >= 0) {
            remember(dirfd(listing));
            closedir(listing);
            folder = below;
        } else if (depth) {
            folder = back_up(dirfd(listing)); /* and there what is empty now goes first */
            closedir(listing);
        } else {
            closedir(listing);
            return;
        }
    }
}

void do_remove(const struct start *start)
{
    char *name;
    int at = place_parent(-1, act_path(start), false, &name);
    if (at < 0) act_fail("`path`");
    if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) act_fail_with(EINVAL, "`path`");
    act_ready();
    bool removed = unlinkat(at, name, 0) == 0;
    if (!removed && (errno == EISDIR || errno == EPERM)) removed = unlinkat(at, name, AT_REMOVEDIR) == 0;
    if (!removed && start->recursive && (errno == ENOTEMPTY || errno == EEXIST)) {
        int folder = place_folder(at, name);
        if (folder < 0) act_fail(name);
        remove_below(folder);
        removed = unlinkat(at, name, AT_REMOVEDIR) == 0;
    }
    if (!removed) act_fail(name);
    struct packer result = act_result(1);
    pack_str(&result, "count"), pack_uint(&result, count + 1);
    act_finish(&result);
}
