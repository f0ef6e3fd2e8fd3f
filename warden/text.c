#include "text.h"

#include <string.h>

char *text_add_bytes(char *at, char *end, const void *more, size_t size)
{
    size_t room = (size_t)(end - at) - 1;
    if (size > room) size = room;
    memcpy(at, more, size);
    at[size] = 0;
    return at + size;
}

char *text_add(char *at, char *end, const char *more) { return text_add_bytes(at, end, more, strlen(more)); }

char *text_add_number(char *at, char *end, uint64_t number)
{
    char digits[20], *first = digits + sizeof digits;
    do *--first = (char)('0' + number % 10);
    while (number /= 10);
    return text_add_bytes(at, end, first, (size_t)(digits + sizeof digits - first));
}

void text_make_printable(char *text)
{
    for (; *text; text++)
        if (*text < ' ' || *text > '~') *text = '?';
}
