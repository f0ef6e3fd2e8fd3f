/* The network: what there is of it, and who answers. */
#include "probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
enum { PATIENCE = 1500 }; /* milliseconds, where there is a route */

static socklen_t address_of(const char *text, int port, struct sockaddr_storage *into)
{
    struct sockaddr_in *four = (struct sockaddr_in *)into;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)into;
    memset(into, 0, sizeof *into);
    if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons((uint16_t)port);
        return sizeof *four;
    }
    if (inet_pton(AF_INET6, text, &six->sin6_addr) != 1) return 0;
    six->sin6_family = AF_INET6;
    six->sin6_port = htons((uint16_t)port);
    return sizeof *six;
}

/* Asks the kernel for a route: nothing is sent. */
static int route_to(const struct sockaddr_storage *address, socklen_t size)
{
    int fd = socket(address->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return errno;
    int error = connect(fd, (const struct sockaddr *)address, size) == 0 ? 0 : errno;
    close(fd);
    return error;
}

/* 0: somebody answers, and be it with a refusal; otherwise why not. */
static int answer_of(const struct sockaddr_storage *address, socklen_t size, bool any)
{
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error = 0;
    if (fd < 0) return errno;
    if (connect(fd, (const struct sockaddr *)address, size) < 0) error = errno;
    if (error == EINPROGRESS) {
        struct pollfd waiting = {.fd = fd, .events = POLLOUT};
        socklen_t length = sizeof error;
        if (poll(&waiting, 1, PATIENCE) <= 0) error = ETIMEDOUT;
        else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) < 0) error = errno;
    }
    close(fd);
    return any && error == ECONNREFUSED ? 0 : error;
}

static void try_address(const char *check, const char *text, int port)
{
    struct sockaddr_storage address;
    socklen_t size = address_of(text, port, &address);
    if (size == 0) return;
    int error = route_to(&address, size);
    if (error) {
        tell(check, PASS, "%s: no way leads there (%s)", text, strerror(error));
        return;
    }
    error = answer_of(&address, size, true);
    if (error) tell(check, PASS, "%s, port %d: nobody answers (%s)", text, port, strerror(error));
    else tell(check, FAIL, "%s answers on port %d", text, port);
}

static void try_own_host(const struct given *given)
{
    struct names found = {0};
    struct sockaddr_storage address;
    for (unsigned i = 0; i < given->address_count; i++) {
        socklen_t size = address_of(given->addresses[i], given->port, &address);
        if (size && route_to(&address, size) == 0 && answer_of(&address, size, true) == 0) names_add(&found, given->addresses[i]);
    }
    char none[64];
    snprintf(none, sizeof none, "none of its %u addresses answers", given->address_count);
    if (given->address_count == 0) tell("own-host", SKIP, "it has none but its loopback");
    else tell_names("own-host", FAIL, &found, none);
}

static void try_local_docker(void)
{
    static const int ports[] = {2375, 2376};
    struct names found = {0};
    struct sockaddr_storage address;
    char text[16];
    for (size_t i = 0; i < COUNT(ports); i++) {
        socklen_t size = address_of("127.0.0.1", ports[i], &address);
        snprintf(text, sizeof text, "%d", ports[i]);
        if (answer_of(&address, size, false) == 0) names_add(&found, text);
    }
    tell_names("docker-port", FAIL, &found, "nobody listens on 127.0.0.1, ports 2375 and 2376");
}

static void try_interfaces(void)
{
    char text[8192];
    struct names found = {0};
    if (!read_start("/proc/net/dev", text, sizeof text)) text[0] = 0;
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        char *colon = strchr(line, ':');
        if (!colon) continue;
        *colon = 0;
        line += strspn(line, " ");
        if (strcmp(line, "lo") != 0) names_add(&found, line);
    }
    tell_names("interfaces", FAIL, &found, "there is only the loopback");
    found = (struct names){0};
    if (read_start("/proc/net/route", text, sizeof text)) {
        char *line = strchr(text, '\n');
        for (char *end; line && *++line && (end = strchr(line, '\n')); line = end) {
            *end = 0;
            line[strcspn(line, "\t ")] = 0;
            names_add(&found, line);
        }
    }
    tell_names("routes", FAIL, &found, "no route leads out");
}

static void try_abstract(const struct given *given)
{
    struct names found = {0};
    for (unsigned i = 0; i < given->socket_count; i++) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        size_t length = strlen(given->sockets[i]);
        if (length >= sizeof address.sun_path) continue;
        memcpy(address.sun_path + 1, given->sockets[i], length);
        socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
        for (int kind = SOCK_STREAM; kind <= SOCK_DGRAM; kind++) {
            int fd = socket(AF_UNIX, kind | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
            /* Another kind of socket, or a full queue, is an answer too. */
            if (fd >= 0 && (connect(fd, (struct sockaddr *)&address, size) == 0 || (errno != ECONNREFUSED && errno != ENOENT))) {
                names_add(&found, given->sockets[i]);
                kind = SOCK_DGRAM;
            }
            if (fd >= 0) close(fd);
        }
    }
    char none[64];
    snprintf(none, sizeof none, "none of the host's %u can be reached", given->socket_count);
    tell_names("abstract-sockets", FAIL, &found, none);
}

void try_network(const struct given *given)
{
    static const struct { const char *check, *address; int port; } each[] = {
        {"network-10", "10.0.0.1", 80}, {"network-172", "172.16.0.1", 80}, {"network-192", "192.168.1.1", 80},
        {"docker-bridge", "172.17.0.1", 80}, {"metadata", "169.254.169.254", 80}, {"metadata-v6", "fd00:ec2::254", 80},
        {"outside-8080", "192.0.2.1", 8080}, {"outside-22", "192.0.2.1", 22}, {"outside-dns", "203.0.113.1", 53},
        {"outside-v6", "2001:db8::1", 443},
    };
    try_interfaces();
    for (size_t i = 0; i < COUNT(each); i++) try_address(each[i].check, each[i].address, each[i].port);
    try_own_host(given);
    try_local_docker();
    try_abstract(given);
}
