/* Everything below a folder, each folder before what is in it, following no link. */
#ifndef WALK_H
#define WALK_H

#include <stdbool.h>
#include <sys/stat.h>

enum { DEEPEST = 4096, LONGEST_NAME = 65536 }; /* far beyond what a path can name */

struct visit {
    int at;                  /* the folder it is in */
    const char *base, *name; /* in that folder, and from the top */
    struct stat about;
    int depth;               /* 1: in the top folder itself */
};

/* Calls `see` for each; what it answers says whether to go into a folder. Takes `folder` over. `too_deep` is called for
   each folder that is not gone into because of DEEPEST or LONGEST_NAME. */
void walk(int folder, bool (*see)(const struct visit *visit), void (*too_deep)(const struct visit *visit));

#endif
