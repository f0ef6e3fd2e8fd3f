/* Files: the host's, those that hold credentials, devices, mounts. */
#include "probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
enum { MOST_MOUNTS = 65536 };

static const char *const homes[] = {"/home/agent", "/root"};

static bool is_there(const char *path)
{
    struct stat about;
    return lstat(path, &about) == 0;
}

/* Whether a file beneath a home is there; with `word`, whether it holds that. */
static void add_in_homes(struct names *found, const char *name, const char *word)
{
    char path[256], text[16384];
    for (size_t i = 0; i < COUNT(homes); i++) {
        snprintf(path, sizeof path, "%s/%s", homes[i], name);
        if (word ? read_start(path, text, sizeof text) && strstr(text, word) != NULL : is_there(path)) names_add(found, path);
    }
}

static void add_entries(struct names *found, const char *folder, const char *word)
{
    char path[512], text[16384];
    DIR *open = opendir(folder);
    for (struct dirent *entry; open && (entry = readdir(open));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (!word || (read_start(path, text, sizeof text) && strstr(text, word))) names_add(found, path);
    }
    if (open) closedir(open);
}

static void try_credentials(void)
{
    static const struct { const char *check, *files[3], *word; } each[] = {
        {"aws", {".aws/credentials"}, NULL},
        {"gcloud", {".config/gcloud"}, NULL},
        {"azure", {".azure"}, NULL},
        {"docker-login", {".docker/config.json"}, NULL},
        {"github-login", {".config/gh/hosts.yml"}, NULL},
    };
    struct names found;
    for (size_t i = 0; i < COUNT(each); i++) {
        found = (struct names){0};
        for (size_t file = 0; file < COUNT(each[i].files) && each[i].files[file]; file++)
            add_in_homes(&found, each[i].files[file], each[i].word);
        tell_names(each[i].check, FAIL, &found, "there are none");
    }
    found = (struct names){0};
    add_in_homes(&found, ".git-credentials", NULL);
    add_in_homes(&found, ".config/git/credentials", NULL);
    add_in_homes(&found, ".netrc", "password");
    tell_names("git-credentials", FAIL, &found, "there are none");
    found = (struct names){0};
    add_in_homes(&found, ".npmrc", "_authToken");
    add_in_homes(&found, ".pypirc", "password");
    add_in_homes(&found, ".cargo/credentials.toml", "token");
    tell_names("package-tokens", FAIL, &found, "there are none");
    found = (struct names){0};
    for (size_t i = 0; i < COUNT(homes); i++) {
        char folder[256];
        snprintf(folder, sizeof folder, "%s/.ssh", homes[i]);
        add_entries(&found, folder, "PRIVATE KEY");
    }
    tell_names("ssh-keys", FAIL, &found, "no private key is there");
    found = (struct names){0};
    for (size_t i = 0; i < COUNT(homes); i++) {
        char folder[256];
        snprintf(folder, sizeof folder, "%s/.gnupg/private-keys-v1.d", homes[i]);
        add_entries(&found, folder, NULL);
    }
    tell_names("gpg-keys", FAIL, &found, "no private key is there");
    found = (struct names){0};
    if (is_there("/var/run/secrets/kubernetes.io")) names_add(&found, "/var/run/secrets/kubernetes.io");
    if (is_there("/run/secrets/kubernetes.io")) names_add(&found, "/run/secrets/kubernetes.io");
    tell_names("kubernetes", FAIL, &found, "no service account is there");
}

static void try_sockets(void)
{
    static const struct { const char *check, *path; } each[] = {
        {"docker-socket", "/var/run/docker.sock"}, {"docker-socket", "/run/docker.sock"},
        {"engine-sockets", "/run/containerd/containerd.sock"}, {"engine-sockets", "/run/podman/podman.sock"},
        {"engine-sockets", "/run/crio/crio.sock"}, {"engine-sockets", "/run/systemd/private"},
        {"engine-sockets", "/run/dbus/system_bus_socket"}, {"engine-sockets", "/run/snapd.socket"},
        {"engine-sockets", "/var/lib/lxd/unix.socket"},
    };
    struct names found = {0};
    for (size_t i = 0; i < COUNT(each); i++) {
        if (is_there(each[i].path)) names_add(&found, each[i].path);
        if (i + 1 < COUNT(each) && strcmp(each[i].check, each[i + 1].check) == 0) continue;
        tell_names(each[i].check, FAIL, &found, "there is none");
        found = (struct names){0};
    }
}

static void try_system_files(bool root)
{
    static const char *const files[] = {
        "/etc/passwd", "/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/crontab", "/etc/ld.so.preload", "/usr/bin/env",
    };
    static const char *const folders[] = {"/etc", "/etc/cron.d", "/etc/sudoers.d", "/usr/bin", "/usr/lib", "/run/ringfence"};
    struct names found = {0};
    if (root) {
        tell("system-files", SKIP, "it is root of its own ids, and its system is its own");
        return;
    }
    for (size_t i = 0; i < COUNT(files); i++)
        if (access(files[i], W_OK) == 0) names_add(&found, files[i]);
    for (size_t i = 0; i < COUNT(folders); i++)
        if (access(folders[i], W_OK) == 0) names_add(&found, folders[i]);
    tell_names("system-files", FAIL, &found, "none of those that decide who may do what can be written");
}

static void try_link_folder(void)
{
    struct names found = {0};
    int fd = open("/run/ringfence/.probe", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0) names_add(&found, "a file can be made"), close(fd), unlink("/run/ringfence/.probe");
    /* A name that is not there: were the folder writable, the answer would be that. */
    if (unlink("/run/ringfence/.probe") == 0 || (errno != EROFS && errno != EACCES && errno != EPERM))
        if (errno != ENOENT || access("/run/ringfence", W_OK) == 0) names_add(&found, "names can be removed");
    if (rename("/run/ringfence", "/run/.probe") == 0) names_add(&found, "it can be moved"), rename("/run/.probe", "/run/ringfence");
    if (chmod("/run/ringfence/link.sock", 0666) == 0) names_add(&found, "its socket's mode can be set");
    tell_names("link-folder", FAIL, &found, "nothing in /run/ringfence can be made, removed or changed");
}

static void try_homes(void)
{
    struct names found = {0};
    DIR *open = opendir("/home");
    for (struct dirent *entry; open && (entry = readdir(open));)
        if (entry->d_name[0] != '.' && strcmp(entry->d_name, "agent") != 0) names_add(&found, entry->d_name);
    if (open) closedir(open);
    tell_names("homes", FAIL, &found, "there is only /home/agent");
}

/* By what tells a file from every other: two of the same path need not be the same. */
static void try_host_files(const struct given *given)
{
    struct names found = {0};
    struct stat about;
    for (unsigned i = 0; i < given->file_count; i++)
        if (stat(given->files[i].path, &about) == 0 && about.st_dev == given->files[i].device
            && about.st_ino == given->files[i].inode)
            names_add(&found, given->files[i].path);
    char none[64];
    snprintf(none, sizeof none, "none of %u of its files and folders can be reached", given->file_count);
    if (given->file_count == 0) tell("host-files", SKIP, "the server named none");
    else tell_names("host-files", FAIL, &found, none);
}

static bool is_usual(dev_t device)
{
    unsigned number = minor(device);
    switch (major(device)) {
    case 1: return number == 3 || number == 5 || number == 7 || number == 8 || number == 9;
    case 5: return number == 0 || number == 2;
    case 136: return true; /* terminals of its own */
    }
    return false;
}

static void add_devices(struct names *found, const char *folder, int depth)
{
    char path[512];
    struct stat about;
    DIR *open = opendir(folder);
    for (struct dirent *entry; open && (entry = readdir(open));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (lstat(path, &about) < 0) continue;
        if (S_ISDIR(about.st_mode) && depth > 0) add_devices(found, path, depth - 1);
        if (S_ISBLK(about.st_mode) || (S_ISCHR(about.st_mode) && !is_usual(about.st_rdev))) names_add(found, path);
    }
    if (open) closedir(open);
}

static void try_devices(void)
{
    struct names found = {0};
    add_devices(&found, "/dev", 2);
    tell_names("devices", FAIL, &found, "null, zero, full, random, urandom, tty and its own terminals");
}

/* "ID PARENT DEVICE ROOT POINT OPTIONS FIELD… - KIND SOURCE OPTIONS" */
static void look_at_mount(char *line, struct names *shared, struct names *loose, struct names *told)
{
    char *word[6], *rest = strstr(line, " - "), *at = line;
    if (!rest) return;
    *rest = 0;
    for (size_t i = 0; i < COUNT(word); i++) word[i] = strsep(&at, " ");
    char *kind = rest + 3, *source = strchr(kind, ' ');
    if (!word[5] || !source) return;
    *source++ = 0;
    const char *root = word[3], *point = word[4];
    bool writes = strncmp(word[5], "rw", 2) == 0;
    bool in_memory = strcmp(kind, "tmpfs") == 0 || strcmp(kind, "devpts") == 0 || strcmp(kind, "mqueue") == 0 || strcmp(kind, "proc") == 0;
    bool is_own = in_memory || strcmp(point, "/") == 0 || strcmp(point, "/workspace") == 0 || strcmp(point, "/home/agent") == 0;
    /* A folder that lies elsewhere on the host than here. */
    bool is_elsewhere = !in_memory && strcmp(root, "/") != 0 && strcmp(root, point) != 0 && strcmp(kind, "devtmpfs") != 0;
    if (writes && !is_own && strncmp(point, "/dev/", 5) != 0) names_add(shared, point);
    if (writes && strncmp(point, "/dev/", 5) != 0 && (!strstr(word[5], "nosuid") || !strstr(word[5], "nodev"))) names_add(loose, point);
    if (strstr(source, "upperdir=") || is_elsewhere) names_add(told, point);
}

static void try_mounts(void)
{
    static char text[MOST_MOUNTS];
    struct names shared = {0}, loose = {0}, told = {0};
    size_t size = 0;
    int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
    for (ssize_t got; fd >= 0 && size < sizeof text - 1 && (got = read(fd, text + size, sizeof text - 1 - size)) > 0;) size += (size_t)got;
    if (fd >= 0) close(fd);
    if (size == 0) {
        tell("mounts", SKIP, "/proc/self/mountinfo cannot be read");
        return;
    }
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        look_at_mount(line, &shared, &loose, &told);
    }
    tell_names("mounts", FAIL, &shared, "nothing that others share can be written");
    tell_names("mount-flags", WARN, &loose, "whatever can be written is nosuid and nodev");
    tell_names("mount-paths", WARN, &told, "no mount tells where it lies on the host");
}

void try_files(const struct given *given)
{
    try_credentials();
    try_sockets();
    try_system_files(given->root);
    try_link_folder();
    try_homes();
    try_host_files(given);
    try_devices();
    try_mounts();
}
