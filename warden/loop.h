/* One epoll for everything, without an allocation: whom a descriptor belongs to is a kind and a slot. */
#ifndef LOOP_H
#define LOOP_H

#include <stdbool.h>
#include <stdint.h>

enum source { FROM_SIGNALS, FROM_LINK, FROM_OUTPUT, FROM_ERRORS, TO_INPUT, FROM_BRANCH, FROM_SURVIVORS, FROM_SURVIVORS_ERRORS };

#define NEVER UINT64_MAX

uint64_t now(void); /* milliseconds; stands still while nothing here runs */

void loop_open(void);
void loop_watch(int fd, enum source source, int slot, uint32_t events);
void loop_change(int fd, enum source source, int slot, uint32_t events);
void loop_unwatch(int fd);
_Noreturn void loop_run(void);

#endif
