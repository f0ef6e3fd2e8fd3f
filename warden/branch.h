/* Each child of the warden, with all that it starts: an act, or a reaper between the warden and a program.

   A branch outlives its session when a program leaves others running. A child of ours that is no branch has lost its
   reaper, and is killed. */
#ifndef BRANCH_H
#define BRANCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

enum { MOST_BRANCHES = 256 };

struct branch {
    pid_t pid;          /* 0: no branch */
    int control;        /* what it tells us, and what we tell a reaper */
    int session;        /* slot; -1: nobody asks any more */
    bool act;
    bool condemned;     /* everything below is to die; `hunted`: since the hunt's round began */
    bool hunted;
    uint64_t signals;   /* to be sent to everything below: bit n-1 for signal n; `due`: in this round of the hunt */
    uint64_t due;
    int survivors[2];   /* output that is read and dropped */
};

extern struct branch branches[MOST_BRANCHES];

struct start;

/* Forks; `program` are the child's standard descriptors. The slot, or -1 with errno. */
int branch_open(const struct start *start, int session, const int program[3]);
struct branch *branch_of(pid_t pid);
void branch_signal_first(struct branch *branch, int signal);
void branch_signal_all(struct branch *branch, int signal);
void branch_condemn(struct branch *branch);
void branch_survive(struct branch *branch, int channel, int fd); /* from now on what comes from `fd` is dropped */

void branch_heard(int slot);             /* it has something to say */
void branch_drop(int slot, int channel); /* its survivors have */
void branch_reap(void);                  /* a bounded number of children that ended; more: `branch_pending` */
extern bool branch_pending;

#endif
