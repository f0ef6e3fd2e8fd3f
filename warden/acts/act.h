/* What the warden does itself, in a process of its own with the agent's rights: docs/link.md "Acts". */
#ifndef ACT_H
#define ACT_H

#include "../pack.h"
#include "../start.h"

#include <stdbool.h>
#include <stdint.h>

_Noreturn void act_run(const struct start *start, int control, int input, int output);

/* --- for acts */

_Noreturn void act_fail(const char *what); /* with errno */
_Noreturn void act_fail_with(int error, const char *what);
void act_ready(void); /* what was asked for can begin: the server is told STARTED */

struct packer act_result(uint32_t pairs);
_Noreturn void act_finish(const struct packer *result); /* NULL: nothing to answer */
_Noreturn void act_finish_counted(uint64_t count, const char *name, uint64_t other);

/* Waits as long as it takes; what cannot be written ends the act. */
void act_write(const void *data, size_t size);
/* At most `size` bytes of input, 0 at its end. */
size_t act_read_input(void *data, size_t size);
extern int act_input, act_output;
extern uint64_t act_written, act_taken; /* bytes so far */

char *act_path(const struct start *start); /* absolute, or the act fails */
char *act_to(const struct start *start);

void do_read(const struct start *start);
void do_write(const struct start *start);
void do_list(const struct start *start);
void do_stat(const struct start *start);
void do_mkdir(const struct start *start);
void do_move(const struct start *start);
void do_remove(const struct start *start);
void do_pack(const struct start *start);
void do_unpack(const struct start *start);
void do_watch(const struct start *start);
void do_dial(const struct start *start);

#endif
