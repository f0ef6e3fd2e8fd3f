/* What the warden does itself, in a process of its own with the agent's rights: docs/link.md "Acts". */
#ifndef ACT_H
#define ACT_H

struct start;

_Noreturn void act_run(const struct start *start, int control, int input, int output);

#endif
