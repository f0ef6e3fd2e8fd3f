/* Writes the warden's filter as the kernel would be given it. */
#include "seccomp.c"

#include <stdio.h>
#include <stdlib.h>

void give_up(enum step step, const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(step);
}

int main(void)
{
    struct program program = {.size = 0};
    write_program(&program);
    fwrite(program.at, sizeof *program.at, program.size, stdout);
    return program.size > MOST_INSTRUCTIONS;
}
