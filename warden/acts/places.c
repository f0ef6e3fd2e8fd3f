#include "places.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int place_folder(int at, const char *name)
{
    return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

static int step(int at, const char *name, bool make)
{
    int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int next = openat(at, name, flags);
    if (next >= 0 || errno != ENOENT || !make) return next;
    if (mkdirat(at, name, 0755) < 0 && errno != EEXIST) return -1;
    return openat(at, name, flags);
}

int place_parent(int at, char *path, bool make, char **name)
{
    int folder = at < 0 ? open("/", O_PATH | O_DIRECTORY | O_CLOEXEC) : fcntl(at, F_DUPFD_CLOEXEC, 3);
    *name = path + strspn(path, "/");
    for (char *end = *name + strcspn(*name, "/"); folder >= 0 && *end; end = *name + strcspn(*name, "/")) {
        char *rest = end + strspn(end, "/");
        *end = 0;
        if (!*rest) break; /* slashes at the end */
        int next = step(folder, *name, make), error = errno;
        close(folder);
        errno = error;
        folder = next;
        *name = rest;
    }
    return folder;
}

int place_make_parents(char *path)
{
    struct stat about;
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = 0;
        bool made = mkdir(path, 0755) == 0 || errno == EEXIST;
        int error = errno;
        if (!made && stat(path, &about) == 0) made = true; /* on a read-only filesystem, say */
        *at = '/';
        errno = error;
        if (!made) return -1;
    }
    return 0;
}
