/* Ways to a file that follow no symbolic link, whoever swaps folders for links meanwhile: one step at a time. */
#ifndef PLACES_H
#define PLACES_H

#include <stdbool.h>

/* Opens the folder that `path` lies in, relative to the folder `at` (-1: the root), and points `name` at its last part,
   inside `path`, which is changed. With `make`, folders that are missing are made. -1 with errno. A name of "" means
   that the path is the folder itself. */
int place_parent(int at, char *path, bool make, char **name);

/* Opens a folder itself. */
int place_folder(int at, const char *name);

/* Makes the folders above an absolute path, as `mkdir -p` does: links are followed. */
int place_make_parents(char *path);

#endif
