/* The warden: PID 1 of a sandbox. `warden KEY_FD`, started by bubblewrap as docs/link.md says.

   The order is the point: what needs a capability comes first, then everything is given up, and the filter on system
   calls is loaded last. Whatever else there is in the sandbox is born after that. */
#include "confine.h"
#include "link.h"
#include "loop.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

int main(int count, char **arguments)
{
    uint8_t key[32];
    char *end = NULL;
    long fd = count == 2 ? strtol(arguments[1], &end, 10) : -1;

    errno = EINVAL;
    if (!end || *end || end == arguments[1] || fd < 0 || fd > 1 << 20) give_up(STEP_ARGUMENTS, "usage: warden KEY_FD");
    errno = EPERM;
    if (getpid() != 1) give_up(STEP_ARGUMENTS, "it has to be PID 1");

    read_key((int)fd, key);
    keep_descriptors_private();
    bring_network_up();
    open_low_ports();
    become_agent();
    drop_capabilities();
    refuse_new_privileges();
    become_unreadable();
    load_filter();

    loop_open();
    link_open(key);
    leave_terminal();
    loop_run();
}
