/* What the warden does before anything else is born: DESIGN.md section 5, docs/link.md "Start". */
#ifndef CONFINE_H
#define CONFINE_H

#include <stdint.h>

/* Exit codes: which step could not be done. */
enum step {
    STEP_ARGUMENTS = 10,
    STEP_KEY,
    STEP_DESCRIPTORS,
    STEP_NETWORK,
    STEP_PORTS,
    STEP_USER,
    STEP_CAPABILITIES,
    STEP_PRIVILEGES,
    STEP_SECRECY,
    STEP_FILTER,
    STEP_LOOP,
};

_Noreturn void give_up(enum step step, const char *what);

void read_key(int fd, uint8_t key[32]);
void keep_descriptors_private(void);
void bring_network_up(void);
void open_low_ports(void);
void become_agent(void);
void drop_capabilities(void);
void refuse_new_privileges(void);
void become_unreadable(void);
void load_filter(void); /* seccomp.c */
void leave_terminal(void);

#endif
