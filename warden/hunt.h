/* Finds everything that a branch started, by reading who is whose parent from /proc, and signals or kills it.

   To kill, it stops what it finds until a whole round finds nobody running, since what is stopped starts nothing new,
   and only then kills. What outruns that, it kills anyway, and at last stops everybody for a moment. It runs in the
   warden itself, the one process in here that an agent can neither kill nor stop, a few processes at a time. */
#ifndef HUNT_H
#define HUNT_H

#include <stdbool.h>
#include <stdint.h>

void hunt_begin(void);   /* a branch was condemned or has signals due */
void hunt_strays(void);  /* a reaper was killed: its program has no branch */
uint64_t hunt_due(void); /* when `hunt_step` wants to be called; NEVER: not at all */
void hunt_step(void);

#endif
