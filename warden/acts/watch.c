#include "act.h"
#include "places.h"
#include "walk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

/* A folder's name from the top, by the number of its watch: "" is the top itself. */
static char **names;
static int room;
static int notify;
static bool recursive, adding;
static const char *top;

/* What was moved out of one folder, until the next event says where to: that comes right behind, if at all. */
static struct {
    bool held, folder;
    uint32_t cookie;
    char *name;
} moved;

static const uint32_t wanted = IN_CREATE | IN_CLOSE_WRITE | IN_MODIFY | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB
                               | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_DONT_FOLLOW;

static uint8_t batch[65536 + 2 * LONGEST_NAME + 256];
static struct packer packer;

static void flush(void)
{
    if (packer.at > batch) act_write(batch, (size_t)(packer.at - batch));
    packer.at = batch;
}

static void tell(const char *event, const char *path, const char *to, bool folder)
{
    if (packer.at > batch + 65536) flush();
    pack_map(&packer, to ? 4 : 3);
    pack_str(&packer, "path"), pack_bin(&packer, path, strlen(path));
    pack_str(&packer, "event"), pack_str(&packer, event);
    pack_str(&packer, "directory"), pack_bool(&packer, folder);
    if (to) pack_str(&packer, "to"), pack_bin(&packer, to, strlen(to));
}

static void must(const void *memory)
{
    if (!memory) act_fail("watching");
}

static void name_watch(int watch, const char *name)
{
    if (watch >= room) {
        int more = 2 * watch + 64;
        must(names = realloc(names, (size_t)more * sizeof *names));
        memset(names + room, 0, (size_t)(more - room) * sizeof *names);
        room = more;
    }
    free(names[watch]);
    must(names[watch] = strdup(name));
}

/* By a descriptor: where it is now, whatever it is called meanwhile. */
static void add(int folder, const char *name)
{
    char path[32] = "/proc/self/fd/";
    int digits = 0;
    for (int left = folder; left || !digits; left /= 10) digits++;
    for (int left = folder, i = digits; i--; left /= 10) path[14 + i] = (char)('0' + left % 10);
    path[14 + digits] = 0;
    int watch = inotify_add_watch(notify, path, wanted & ~(uint32_t)IN_DONT_FOLLOW);
    if (watch >= 0) name_watch(watch, name);
    else tell("lost", name, NULL, true);
}

/* Not held open: a folder that is gone is told to be when nobody has it open any more. */
static int open_top(void)
{
    static char path[MOST_PATH + 1];
    char *name;
    int at = place_parent(-1, strcpy(path, top), false, &name);
    int folder = at < 0 ? -1 : place_folder(at, *name ? name : "."), error = errno;
    if (at >= 0) close(at);
    errno = error;
    return folder;
}

static bool see(const struct visit *visit)
{
    bool folder = S_ISDIR(visit->about.st_mode);
    if (adding) tell("created", visit->name, NULL, folder); /* it was made before its folder was watched */
    if (!folder) return false;
    int fd = place_folder(visit->at, visit->base);
    if (fd < 0) return false;
    add(fd, visit->name);
    close(fd);
    return true;
}

static void too_deep(const struct visit *visit) { tell("lost", visit->name, NULL, true); }

/* A folder that has come: itself, and what came in it. */
static const char *prefix;

static bool see_below(const struct visit *visit)
{
    static char whole[2 * LONGEST_NAME];
    struct visit copy = *visit;
    size_t size = strlen(prefix), more = strlen(visit->name);
    if (size + more + 2 > sizeof whole) return false;
    memcpy(whole, prefix, size);
    whole[size] = '/';
    memcpy(whole + size + 1, visit->name, more + 1);
    copy.name = whole;
    return see(&copy);
}

static void add_below(const char *name)
{
    char *path = strdup(name), *base;
    must(path);
    int above = open_top(), at = above < 0 ? -1 : place_parent(above, path, false, &base);
    int folder = at < 0 ? -1 : place_folder(at, base);
    if (at >= 0) close(at);
    if (above >= 0) close(above);
    free(path);
    if (folder < 0) return; /* gone again */
    add(folder, name);
    prefix = name;
    walk(folder, see_below, too_deep);
}

/* Every watch below a folder that has moved is called otherwise now. */
static void rename_below(const char *from, const char *to)
{
    size_t size = strlen(from);
    for (int watch = 0; watch < room; watch++) {
        const char *name = names[watch];
        if (!name || strncmp(name, from, size) != 0 || (name[size] && name[size] != '/')) continue;
        char *whole = malloc(strlen(to) + strlen(name + size) + 1);
        must(whole);
        strcpy(whole, to);
        strcat(whole, name + size);
        free(names[watch]);
        names[watch] = whole;
    }
}

static void tell_unpaired(void)
{
    if (!moved.held) return;
    tell("removed", moved.name, NULL, moved.folder);
    moved.held = false;
    free(moved.name);
}

static char last[LONGEST_NAME + 256]; /* written to, and told of in this batch */

static void hear(const struct inotify_event *event)
{
    static char path[LONGEST_NAME + 256];
    bool folder = event->mask & IN_ISDIR;
    const char *in = event->wd >= 0 && event->wd < room ? names[event->wd] : NULL;
    bool pairs = event->mask & IN_MOVED_TO && moved.held && moved.cookie == event->cookie;
    if (!pairs) tell_unpaired();
    if (event->mask & IN_Q_OVERFLOW) tell("lost", "", NULL, true);
    if (!in) return;
    if (event->mask & IN_IGNORED) {
        free(names[event->wd]);
        names[event->wd] = NULL;
        return;
    }
    if (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF)) {
        if (*in) return; /* its folder has told */
        tell("removed", "", NULL, true);
        flush();
        act_finish(NULL);
    }
    size_t size = strlen(in), more = event->len ? strlen(event->name) : 0;
    if (size + more + 2 > sizeof path) return;
    memcpy(path, in, size);
    if (size && more) path[size++] = '/';
    if (more) memcpy(path + size, event->name, more);
    path[size + more] = 0;
    bool again = event->mask & (IN_MODIFY | IN_CLOSE_WRITE) && strcmp(last, path) == 0;
    last[0] = 0;
    if (pairs) {
        tell("moved", moved.name, path, folder);
        if (folder) rename_below(moved.name, path);
        free(moved.name);
        moved.held = false;
    } else if (event->mask & IN_MOVED_FROM) {
        moved.held = true;
        moved.folder = folder;
        moved.cookie = event->cookie;
        must(moved.name = strdup(path));
    } else if (event->mask & (IN_CREATE | IN_MOVED_TO)) {
        tell("created", path, NULL, folder);
        if (folder && recursive) add_below(path);
    } else if (event->mask & IN_DELETE) {
        tell("removed", path, NULL, folder);
    } else if (event->mask & (IN_MODIFY | IN_CLOSE_WRITE)) {
        if (!again) tell("written", path, NULL, false);
        strcpy(last, path);
    } else if (event->mask & IN_ATTRIB && more) {
        tell("attributes", path, NULL, folder);
    }
}

void do_watch(const struct start *start)
{
    static char events[65536] __attribute__((aligned(8)));
    top = act_path(start);
    int folder = open_top();
    if (folder < 0) act_fail("`path`");
    if ((notify = inotify_init1(IN_CLOEXEC)) < 0) act_fail("watching");
    packer = (struct packer){batch, batch + sizeof batch, false};
    recursive = start->recursive;
    add(folder, "");
    if (packer.at > batch) act_fail("watching");
    if (recursive) walk(folder, see, too_deep);
    else close(folder);
    adding = true;
    act_ready();
    for (;;) {
        tell_unpaired();
        flush();
        last[0] = 0;
        ssize_t got = read(notify, events, sizeof events);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) act_fail("watching");
        for (ssize_t offset = 0; offset < got;) {
            const struct inotify_event *event = (const struct inotify_event *)(events + offset);
            hear(event);
            offset += (ssize_t)(sizeof *event + event->len);
        }
    }
}
