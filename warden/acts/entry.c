#include "entry.h"

#include "../start.h"

#include <string.h>
#include <unistd.h>

static const char *kind_of(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFREG: return "file";
    case S_IFDIR: return "directory";
    case S_IFLNK: return "link";
    case S_IFIFO: return "fifo";
    case S_IFSOCK: return "socket";
    default: return "device";
    }
}

static uint64_t nanoseconds(struct timespec time)
{
    return time.tv_sec < 0 ? 0 : (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

void pack_entry(struct packer *packer, const struct stat *about, int at, const char *base, const char *name)
{
    char target[MOST_PATH];
    ssize_t size = S_ISLNK(about->st_mode) ? readlinkat(at, base, target, sizeof target) : -1;
    pack_map(packer, size < 0 ? 7 : 8);
    pack_str(packer, "name"), pack_bin(packer, name, strlen(name));
    pack_str(packer, "kind"), pack_str(packer, kind_of(about->st_mode));
    pack_str(packer, "size"), pack_uint(packer, (uint64_t)about->st_size);
    pack_str(packer, "mode"), pack_uint(packer, about->st_mode & 07777);
    pack_str(packer, "uid"), pack_uint(packer, about->st_uid);
    pack_str(packer, "gid"), pack_uint(packer, about->st_gid);
    pack_str(packer, "modified"), pack_uint(packer, nanoseconds(about->st_mtim));
    if (size >= 0) pack_str(packer, "target"), pack_bin(packer, target, (size_t)size);
}
