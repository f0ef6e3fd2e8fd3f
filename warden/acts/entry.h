/* The map that tells of a file: docs/link.md "Acts". */
#ifndef ENTRY_H
#define ENTRY_H

#include "../pack.h"

#include <sys/stat.h>

/* `at` and `base` find it, `name` is what it is called in the map. */
void pack_entry(struct packer *packer, const struct stat *about, int at, const char *base, const char *name);

#endif
