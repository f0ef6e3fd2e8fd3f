/* The warden: PID 1 of a sandbox. `warden KEY_FD agent|root`, started as docs/link.md says under "The warden's start".

   The order is the point: what needs a capability comes first, then everything is given up, and the filter on system
   calls is loaded last. Whatever else there is in the sandbox is born after that. */
#include "confine.h"
#include "link.h"
#include "loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int number(const char *text)
{
    char *end;
    long value = strtol(text, &end, 10);
    return *end || end == text || value < 0 || value > 1 << 20 ? -1 : (int)value;
}

int main(int count, char **arguments)
{
    uint8_t key[32];
    int fd = count == 3 ? number(arguments[1]) : -1;
    enum ids ids = count == 3 && strcmp(arguments[2], "root") == 0 ? IDS_ROOT : IDS_AGENT;

    errno = EINVAL;
    if (fd < 0 || (ids == IDS_AGENT && strcmp(arguments[2], "agent") != 0))
        give_up(STEP_ARGUMENTS, "usage: warden KEY_FD agent|root");
    errno = EPERM;
    if (getpid() != 1) give_up(STEP_ARGUMENTS, "it has to be PID 1");

    become_readable();
    read_key(fd, key);
    keep_descriptors_private();
    bring_network_up();
    open_low_ports();
    bound_file_counts();
    shut_system_settings();
    become_owner(ids);
    drop_capabilities(ids);
    refuse_new_privileges();
    become_unreadable();
    load_filter();

    loop_open();
    link_open(key);
    say_ready(fd);
    loop_run();
}
