/* Processes: the warden, everybody else, and what is ours alone. */
#include "probe.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void try_first_process(void)
{
    char command[256], name[64];
    read_start("/proc/1/cmdline", command, sizeof command);
    read_start("/proc/1/comm", name, sizeof name);
    name[strcspn(name, "\n")] = 0;
    bool is_host = strstr(command, "systemd") || strcmp(command, "/sbin/init") == 0 || strcmp(name, "init") == 0;
    bool is_warden = strncmp(command, "ringfence:", 10) == 0 || strcmp(name, "warden") == 0;
    tell("first-process", is_host ? FAIL : is_warden ? PASS : WARN, "process 1 is %s (%s)", name, command);
}

static bool has_entries(const char *path)
{
    unsigned count = 0;
    DIR *open = opendir(path);
    while (open && readdir(open)) count++;
    if (open) closedir(open);
    return count > 2;
}

/* Writes what is there already, so that a success changes nothing. */
static bool could_write(const char *path)
{
    char value[64] = "1";
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return false;
    read_start(path, value, sizeof value);
    bool done = write(fd, value, strlen(value)) > 0;
    close(fd);
    return done;
}

static void try_warden_files(void)
{
    static const char *const files[] = {"mem", "environ", "maps", "smaps", "auxv", "stack", "syscall", "io", "pagemap", "personality"};
    static const char *const links[] = {"exe", "cwd", "root", "fd/0", "fd/3", "ns/user", "ns/net"};
    static const char *const settings[] = {"oom_score_adj", "oom_adj", "autogroup", "sched", "comm", "clear_refs",
                                           "coredump_filter", "timerslack_ns", "loginuid", "setgroups"};
    struct names read_ones = {0}, set = {0};
    char path[64], start[2];
    for (size_t i = 0; i < COUNT(files); i++) {
        snprintf(path, sizeof path, "/proc/1/%s", files[i]);
        if (read_start(path, start, sizeof start)) names_add(&read_ones, files[i]);
    }
    for (size_t i = 0; i < COUNT(links); i++) {
        snprintf(path, sizeof path, "/proc/1/%s", links[i]);
        if (readlink(path, start, sizeof start) > 0) names_add(&read_ones, links[i]);
    }
    if (has_entries("/proc/1/map_files")) names_add(&read_ones, "map_files");
    for (size_t i = 0; i < COUNT(settings); i++) {
        snprintf(path, sizeof path, "/proc/1/%s", settings[i]);
        if (could_write(path)) names_add(&set, settings[i]);
    }
    if (has_entries("/proc/1/fd")) names_add(&set, "numbers of its descriptors are seen");
    tell_names("warden-secrets", FAIL, &read_ones, "its memory, environment, descriptors and files cannot be read");
    /* Where one user is all there is, these are the agent's too. None of them changes what the warden does. */
    tell_names("warden-settings", WARN, &set, "nothing about it can be set");
}

static char state_of_warden(void)
{
    char stat[512];
    const char *at = read_start("/proc/1/stat", stat, sizeof stat) ? strrchr(stat, ')') : NULL;
    return at && at[1] ? at[2] : '?';
}

/* Should it stop, it is let go on at once. */
static void try_warden_signals(void)
{
    errno = 0;
    int error = kill(1, SIGSTOP) == 0 ? 0 : errno;
    char state = '?';
    for (int i = 0; i < 20 && (state = state_of_warden()) != 'T'; i++) usleep(1000);
    if (state == 'T') kill(1, SIGCONT);
    tell("warden-signals", state == 'T' ? FAIL : PASS, state == 'T' ? "it can be stopped" : error ? "signals are refused" : "signals do nothing to it");
}

static void try_others(void)
{
    char path[64], name[64], number[24];
    struct names found = {0};
    DIR *open = opendir("/proc");
    for (struct dirent *entry; open && (entry = readdir(open));) {
        if (!isdigit((unsigned char)entry->d_name[0])) continue;
        snprintf(path, sizeof path, "/proc/%.20s/comm", entry->d_name);
        if (!read_start(path, name, sizeof name)) continue;
        name[strcspn(name, "\n")] = 0;
        /* Threads of the kernel, and what runs on every host. */
        if (strcmp(name, "kthreadd") == 0 || strncmp(name, "kworker/", 8) == 0 || strcmp(name, "systemd") == 0
            || strcmp(name, "dockerd") == 0 || strcmp(name, "bwrap") == 0)
            names_add(&found, name);
    }
    if (open) closedir(open);
    snprintf(number, sizeof number, "%d", getpid());
    tell_names("other-processes", FAIL, &found, "only its own are seen");
    tell_fact("pid", number);
}

static void try_namespaces(void)
{
    static const char *const kinds[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"};
    char path[64], target[64], fact[64];
    for (size_t i = 0; i < COUNT(kinds); i++) {
        snprintf(path, sizeof path, "/proc/self/ns/%s", kinds[i]);
        ssize_t size = readlink(path, target, sizeof target - 1);
        if (size <= 0) continue;
        target[size] = 0;
        snprintf(fact, sizeof fact, "namespace-%s", kinds[i]);
        tell_fact(fact, target);
    }
}

void try_processes(void)
{
    try_first_process();
    try_warden_files();
    try_warden_signals();
    try_others();
    try_namespaces();
}
