/* The last steps between the runtime and bubblewrap, in a process so small that starting it costs nothing.

       launch [--cgroup FILE]... [--user ID] [--shift FOLDER FROM]... [--memory-disk BYTES FOLDER] -- PROGRAM ARGUMENT...

   It joins the cgroups (FILE is a `cgroup.procs` or `tasks`), becomes the first choice of an out-of-memory kill, leaves
   no core files, mounts what the sandbox writes to, shows folders whose files belong to the ids from FROM on as if they
   belonged to those from ID on, becomes the sandbox's own user, and executes the program. Whoever calls it has checked
   every argument; it checks that every step was done. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Newer than the headers this may be built with. */
enum { NR_open_tree = 428, NR_move_mount = 429, NR_mount_setattr = 442 };
enum { TREE_CLONE = 1, FROM_EMPTY = 4, IDMAP = 0x00100000 };
struct changes { uint64_t set, clear, propagation, userns_fd; };

enum { RANGE = 65536, MOST_SHIFTS = 256 };
struct shift { const char *folder; unsigned long from; };

static _Noreturn void fail(const char *format, ...)
{
    int error = errno;
    va_list arguments;
    va_start(arguments, format);
    dprintf(2, "launch: ");
    vdprintf(2, format, arguments);
    dprintf(2, ": %s\n", strerror(error));
    exit(1);
}

static void put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, strlen(text)) < 0) fail("writing to %s", path);
    close(fd);
}

static unsigned long number(const char *text, unsigned long most)
{
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno || *end || end == text || *text == '-' || value > most) {
        errno = EINVAL;
        fail("%s is not a number up to %lu", text, most);
    }
    return value;
}

/* Mount namespaces are private to a sandbox, so that nothing mounted here is ever left behind. An ordinary user needs
   a user namespace to mount in; bubblewrap makes its own inside that. */
static void private_mounts(void)
{
    uid_t uid = geteuid();
    gid_t gid = getegid();
    char map[64];
    if (uid == 0) {
        if (unshare(CLONE_NEWNS)) fail("a mount namespace");
    } else {
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS)) fail("a user and a mount namespace");
        put("/proc/self/setgroups", "deny");
        snprintf(map, sizeof map, "%u %u 1", uid, uid);
        put("/proc/self/uid_map", map);
        snprintf(map, sizeof map, "%u %u 1", gid, gid);
        put("/proc/self/gid_map", map);
    }
    if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL)) fail("mounts of its own");
}

static void folder(const char *parent, const char *name, uid_t owner, gid_t group)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s", parent, name) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        fail("%s", parent);
    }
    if (mkdir(path, 0755) || lchown(path, owner, group)) fail("making %s", path);
}

static void memory_disk(unsigned long bytes, const char *where, uid_t owner, gid_t group)
{
    char options[96];
    snprintf(options, sizeof options, "size=%lu,mode=0700,uid=%u,gid=%u", bytes, owner, group);
    if (mount("tmpfs", where, "tmpfs", MS_NOSUID | MS_NODEV, options)) fail("a tmpfs of %lu bytes", bytes);
    static const char *const folders[] = { "work", "upper", "upper/home", "upper/home/agent", "upper/var", "upper/var/tmp",
                                           "upper/workspace" };
    for (unsigned i = 0; i < sizeof folders / sizeof *folders; i++) folder(where, folders[i], owner, group);
}

/* A user namespace says which ids are shown as which: one that a child made, and that nobody lives in. */
static int namespace_from_to(unsigned long from, uid_t to)
{
    char map[64], path[64];
    int ready[2];
    if (pipe2(ready, O_CLOEXEC)) fail("a pipe");
    pid_t child = fork();
    if (child < 0) fail("a process");
    if (child == 0) {
        if (unshare(CLONE_NEWUSER)) fail("a user namespace");
        if (write(ready[1], "", 1) != 1) _exit(1);
        for (;;) pause();
    }
    close(ready[1]);
    if (read(ready[0], map, 1) != 1) fail("waiting for a user namespace");
    close(ready[0]);
    snprintf(map, sizeof map, "%lu %u %u", from, to, RANGE);
    snprintf(path, sizeof path, "/proc/%d/uid_map", child);
    put(path, map);
    snprintf(path, sizeof path, "/proc/%d/gid_map", child);
    put(path, map);
    snprintf(path, sizeof path, "/proc/%d/ns/user", child);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) fail("%s", path);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return fd;
}

/* Over itself, for us alone: bubblewrap is told the same path. */
static void shift(struct shift it, int namespace)
{
    int tree = (int)syscall(NR_open_tree, AT_FDCWD, it.folder, TREE_CLONE | O_CLOEXEC);
    if (tree < 0) fail("opening %s", it.folder);
    struct changes changes = { .set = IDMAP | 1 /* read-only */, .userns_fd = (uint64_t)namespace };
    if (syscall(NR_mount_setattr, tree, "", AT_EMPTY_PATH, &changes, sizeof changes)) fail("shifting the ids of %s", it.folder);
    if (syscall(NR_move_mount, tree, "", AT_FDCWD, it.folder, FROM_EMPTY)) fail("mounting %s", it.folder);
    close(tree);
}

/* Neighbours in the list often have the same ids. */
static void shift_all(const struct shift shifts[], int count, uid_t to)
{
    int namespace = -1;
    for (int i = 0; i < count; i++) {
        if (i == 0 || shifts[i].from != shifts[i - 1].from) {
            if (namespace >= 0) close(namespace);
            namespace = namespace_from_to(shifts[i].from, to);
        }
        shift(shifts[i], namespace);
    }
    close(namespace);
}

static void become(uid_t user)
{
    if (setgroups(0, NULL) || setresgid(user, user, user) || setresuid(user, user, user)) fail("becoming user %u", user);
}

int main(int count, char **argument)
{
    const char *disk = NULL;
    unsigned long disk_bytes = 0;
    uid_t user = geteuid();
    static struct shift shifts[MOST_SHIFTS];
    int shift_count = 0, i = 1;
    for (; i < count && strcmp(argument[i], "--"); i++) {
        if (!strcmp(argument[i], "--cgroup") && i + 1 < count) {
            put(argument[++i], "0");
        } else if (!strcmp(argument[i], "--user") && i + 1 < count) {
            user = number(argument[++i], 4294967293UL);
        } else if (!strcmp(argument[i], "--shift") && i + 2 < count && shift_count < MOST_SHIFTS) {
            shifts[shift_count].folder = argument[++i];
            shifts[shift_count++].from = number(argument[++i], 4294967293UL);
        } else if (!strcmp(argument[i], "--memory-disk") && i + 2 < count) {
            disk_bytes = number(argument[++i], 1UL << 62);
            disk = argument[++i];
        } else {
            errno = EINVAL;
            fail("%s", argument[i]);
        }
    }
    if (i + 1 >= count) {
        errno = EINVAL;
        fail("no program");
    }
    put("/proc/self/oom_score_adj", "1000");
    struct rlimit none = { 0, 0 };
    if (setrlimit(RLIMIT_CORE, &none)) fail("no core files");
    umask(022);
    if (disk || shift_count) private_mounts();
    if (disk) memory_disk(disk_bytes, disk, user, user == geteuid() ? getegid() : user);
    if (shift_count) shift_all(shifts, shift_count, user);
    if (user != geteuid()) become(user);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    execv(argument[i + 1], argument + i + 1);
    fail("%s", argument[i + 1]);
}
