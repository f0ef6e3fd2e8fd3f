/* What the parts of the probe share: how a finding is told, and a few ways to find out. */
#ifndef PROBE_H
#define PROBE_H

#include <stdbool.h>
#include <stddef.h>

enum verdict { PASS, FAIL, WARN, SKIP };

/* One line of output; each check tells one. */
void tell(const char *check, enum verdict verdict, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* What the server compares with its own. */
void tell_fact(const char *name, const char *value);

/* Names, joined by commas, as many as there is room for. */
struct names {
    char text[240];
    size_t size;
    unsigned count;
};
void names_add(struct names *names, const char *name);
/* PASS with `none` where there is no name; `otherwise` with the names where there is. */
void tell_names(const char *check, enum verdict otherwise, const struct names *names, const char *none);

/* What the server said on our input. */
enum { MOST_GIVEN = 128 };
struct given {
    char *addresses[MOST_GIVEN], *sockets[MOST_GIVEN];
    struct { char *path; unsigned long device, inode; } files[MOST_GIVEN];
    unsigned address_count, socket_count, file_count;
    int port;
    bool root; /* the agent is root of its own ids */
};

/* The errno of a call made in a process of its own, so that nothing it does stays; 0: it was done. */
int attempt(long number, const void *const arguments[6]);
bool refused(int error); /* by the fence, not by what was wrong with the call */
/* The start of a file, as a string; false: it cannot be read, or is empty. */
bool read_start(const char *path, char *into, size_t size);

void try_rights(const struct given *given);
void try_calls(void);
void try_kernel(void);
void try_files(const struct given *given);
void try_processes(void);
void try_network(const struct given *given);

#endif
