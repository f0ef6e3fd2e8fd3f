/* What the warden does before anything else is born: DESIGN.md section 5, docs/link.md "The warden's start". */
#ifndef CONFINE_H
#define CONFINE_H

#include <stdint.h>

/* Exit codes: which step could not be done. */
enum step {
    STEP_ARGUMENTS = 10,
    STEP_KEY,
    STEP_DESCRIPTORS,
    STEP_NETWORK,
    STEP_SYSTEM,
    STEP_USER,
    STEP_CAPABILITIES,
    STEP_PRIVILEGES,
    STEP_SECRECY,
    STEP_FILTER,
    STEP_LOOP,
};

_Noreturn void give_up(enum step step, const char *what);

enum ids { IDS_AGENT, IDS_ROOT }; /* one id is mapped, and everything is uid 1000; or a range of them */

void become_readable(void);
void read_key(int fd, uint8_t key[32]);
void keep_descriptors_private(void);
void bring_network_up(void);
void open_low_ports(void);
void bound_file_counts(void);
void shut_system_settings(void);
void become_owner(enum ids ids);
void drop_capabilities(enum ids ids);
void refuse_new_privileges(void);
void become_unreadable(void);
void load_filter(void); /* seccomp.c */
void say_ready(int fd);

#endif
