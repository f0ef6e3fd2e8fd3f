#include "walk.h"

#include "places.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static char name[LONGEST_NAME];
static bool (*see)(const struct visit *visit);
static void (*too_deep)(const struct visit *visit);

static void go(int folder, size_t size, int depth);

static void look_at(int at, const char *base, size_t size, int depth)
{
    struct visit visit = {.at = at, .base = base, .name = name, .depth = depth};
    if (fstatat(at, base, &visit.about, AT_SYMLINK_NOFOLLOW) < 0) return; /* it is gone by now */
    if (!see(&visit) || !S_ISDIR(visit.about.st_mode)) return;
    int below = depth < DEEPEST && size + 1 < LONGEST_NAME ? place_folder(at, base) : -1;
    if (below < 0) {
        too_deep(&visit);
        return;
    }
    name[size] = '/';
    go(below, size + 1, depth + 1);
    name[size] = 0;
}

/* `size` bytes of `name` lead to `folder`. */
static void go(int folder, size_t size, int depth)
{
    struct dirent *entry;
    DIR *listing = fdopendir(folder);
    while (listing && (entry = readdir(listing))) {
        size_t more = strlen(entry->d_name);
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (size + more + 1 > LONGEST_NAME) continue;
        memcpy(name + size, entry->d_name, more + 1);
        look_at(folder, entry->d_name, size + more, depth);
    }
    if (listing) closedir(listing);
    else close(folder);
}

void walk(int folder, bool (*to_see)(const struct visit *visit), void (*to_too_deep)(const struct visit *visit))
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) { /* one for each level; beyond that it is too deep */
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    see = to_see;
    too_deep = to_too_deep;
    go(folder, 0, 1);
}
