/* Short texts, put together without printf, which would be a quarter of the whole program. */
#ifndef TEXT_H
#define TEXT_H

#include <stddef.h>
#include <stdint.h>

/* Appends to the text that ends at `at`, as much as there is room for before `end`; the new end. */
char *text_add(char *at, char *end, const char *more);
char *text_add_bytes(char *at, char *end, const void *more, size_t size);
char *text_add_number(char *at, char *end, uint64_t number);

/* What is not printable ASCII becomes a question mark: a name may be of any bytes, a sentence is text. */
void text_make_printable(char *text);

#endif
