/* The probe: tries from inside what the fence must hold up. The server puts it where the sandbox can only execute it,
   and runs it as any other program; it says a line for each check,

       CHECK \t pass|fail|warn|skip \t WHAT CAME OF IT

   and lines `fact \t NAME \t VALUE` for the server to compare. What each check is for says
   ringfence/fence/posture/checks.py. Its input tells what it cannot know: `root`, `port N`, `address IP`,
   `socket NAME` (an abstract one of the host's), `file PATH DEVICE INODE` (of the host's). Nothing it tries does harm
   where it succeeds. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECONDS = 20 };

static const char *const words[] = {[PASS] = "pass", [FAIL] = "fail", [WARN] = "warn", [SKIP] = "skip"};

/* One line whatever is in it: names come from files that anybody may have written. */
static void make_printable(char *text)
{
    for (; *text; text++)
        if (*text < ' ' || *text > '~') *text = '?';
}

void tell(const char *check, enum verdict verdict, const char *format, ...)
{
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    make_printable(text);
    printf("%s\t%s\t%s\n", check, words[verdict], text);
    fflush(stdout);
}

void tell_fact(const char *name, const char *value)
{
    char text[200];
    snprintf(text, sizeof text, "%s", value);
    text[strcspn(text, "\n")] = 0;
    make_printable(text);
    printf("fact\t%s\t%s\n", name, text);
}

void names_add(struct names *names, const char *name)
{
    size_t room = sizeof names->text - names->size;
    names->count++;
    int size = snprintf(names->text + names->size, room, "%s%s", names->size ? ", " : "", name);
    if (size > 0 && (size_t)size < room) names->size += (size_t)size;
    else names->text[names->size] = 0;
}

void tell_names(const char *check, enum verdict otherwise, const struct names *names, const char *none)
{
    if (names->count == 0) tell(check, PASS, "%s", none);
    else tell(check, otherwise, "%u: %s", names->count, names->text);
}

bool refused(int error) { return error == EPERM || error == EACCES || error == ENOSYS || error == EROFS; }

int attempt(long number, const void *const arguments[6])
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        long done = syscall(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
        _exit(done < 0 ? errno : 0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) return EAGAIN;
    return WIFEXITED(status) ? WEXITSTATUS(status) : EPERM; /* a filter may kill instead of answering */
}

bool read_start(const char *path, char *into, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    ssize_t got = fd < 0 ? -1 : read(fd, into, size - 1);
    if (fd >= 0) close(fd);
    into[got > 0 ? got : 0] = 0;
    return got > 0;
}

static void take(struct given *given, char *line)
{
    char *value = strchr(line, ' ');
    if (strcmp(line, "root") == 0) given->root = true;
    if (!value) return;
    *value++ = 0;
    if (strcmp(line, "port") == 0) given->port = atoi(value);
    if (strcmp(line, "address") == 0 && given->address_count < MOST_GIVEN) given->addresses[given->address_count++] = value;
    if (strcmp(line, "socket") == 0 && given->socket_count < MOST_GIVEN) given->sockets[given->socket_count++] = value;
    if (strcmp(line, "file") == 0 && given->file_count < MOST_GIVEN) {
        char *inode = strrchr(value, ' ');
        if (inode) *inode++ = 0;
        char *device = inode ? strrchr(value, ' ') : NULL;
        if (!device) return;
        *device++ = 0;
        given->files[given->file_count].path = value;
        given->files[given->file_count].device = strtoul(device, NULL, 10);
        given->files[given->file_count++].inode = strtoul(inode, NULL, 10);
    }
}

static void read_given(struct given *given)
{
    static char text[65536];
    size_t size = 0;
    for (ssize_t got; size < sizeof text - 1 && (got = read(0, text + size, sizeof text - 1 - size)) > 0;) size += (size_t)got;
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        take(given, line);
    }
}

/* Before anything of ours is open. */
static void try_descriptors(void)
{
    struct names found = {0};
    char number[16];
    for (int fd = 3; fd < 4096; fd++) {
        if (fcntl(fd, F_GETFD) < 0) continue;
        snprintf(number, sizeof number, "%d", fd);
        names_add(&found, number);
    }
    tell_names("descriptors", FAIL, &found, "its input and output, nothing else");
}

int main(void)
{
    static struct given given;
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    alarm(SECONDS);
    try_descriptors();
    read_given(&given);
    try_rights(&given);
    try_calls();
    try_kernel();
    try_files(&given);
    try_processes();
    try_network(&given);
    printf("fact\tcomplete\tyes\n");
    return 0;
}
