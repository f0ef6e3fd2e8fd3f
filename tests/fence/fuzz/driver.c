/* A fuzzer for whatever compiler there is: changes what reached new code before, and keeps what reaches new code.

       TARGET SECONDS SEED CORPUS CRASHES

   Every file of CORPUS is tried first; SECONDS may be 0. What breaks the target is left in CRASHES, and the status is
   not 0. The target is compiled with -fsanitize-coverage=trace-pc, this file without. */
#include <dirent.h>
#include <fcntl.h>
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { EDGES = 1 << 16, LONGEST = 1 << 16, MOST_KEPT = 1 << 14, WITHIN = 10 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    uint8_t *data;
    size_t size;
};

static uint8_t hits[EDGES], seen[EDGES];
static uintptr_t before;
static struct input kept[MOST_KEPT];
static int kept_count;
static uint8_t current[LONGEST];
static size_t current_size;
static const char *crashes;
static uint64_t dice, runs, edges;

const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "detect_leaks=0:handle_abort=1:exitcode=77"; }

void __sanitizer_cov_trace_pc(void)
{
    uintptr_t here = (uintptr_t)__builtin_return_address(0);
    here = (here ^ here >> 16) & (EDGES - 1);
    uint8_t *hit = hits + ((here ^ before) & (EDGES - 1));
    if (*hit < 255) ++*hit;
    before = here >> 1;
}

static void keep_crash(void)
{
    char path[4096];
    uint64_t name = 0xcbf29ce484222325;
    for (size_t i = 0; i < current_size; i++) name = (name ^ current[i]) * 0x100000001b3;
    snprintf(path, sizeof path, "%s/%016llx", crashes, (unsigned long long)name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, current, current_size) < 0) perror(path);
    fprintf(stderr, "\nwhat broke it: %s\n", path);
}

static void took_too_long(int number)
{
    (void)number;
    fprintf(stderr, "no end within %d s\n", WITHIN);
    keep_crash();
    _exit(78);
}

static uint64_t roll(uint64_t sides)
{
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return dice % sides;
}

/* How often an edge was hit counts by powers of two. */
static uint8_t bucket(uint8_t count)
{
    uint8_t found = 1;
    while (count >>= 1) found = (uint8_t)(found << 1);
    return found;
}

static bool is_new(void)
{
    bool found = false;
    for (int i = 0; i < EDGES; i++) {
        if (!hits[i]) continue;
        uint8_t reached = bucket(hits[i]);
        if (reached & ~seen[i]) {
            edges += seen[i] == 0;
            seen[i] |= reached;
            found = true;
        }
    }
    return found;
}

/* A copy whose end is the end of an allocation, so that reading beyond it is seen. */
static bool try(void)
{
    uint8_t *copy = malloc(current_size ? current_size : 1);
    memcpy(copy, current, current_size);
    memset(hits, 0, sizeof hits);
    before = 0;
    alarm(WITHIN);
    LLVMFuzzerTestOneInput(copy, current_size);
    alarm(0);
    free(copy);
    runs++;
    return is_new();
}

static void keep(void)
{
    if (kept_count == MOST_KEPT) return;
    struct input *input = kept + kept_count++;
    input->size = current_size;
    input->data = malloc(current_size ? current_size : 1);
    memcpy(input->data, current, current_size);
}

static void load(const char *folder)
{
    DIR *all = opendir(folder);
    struct dirent *entry;
    while (all && (entry = readdir(all))) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t got = entry->d_name[0] == '.' ? -1 : read(fd, current, LONGEST);
        if (fd >= 0) close(fd);
        if (got < 0) continue;
        current_size = (size_t)got;
        try();
        keep();
    }
    if (all) closedir(all);
}

/* --- changing */

static const uint64_t interesting[] = {0, 1, 127, 128, 255, 256, 511, 512, 32767, 32768, 65535, 65536, 131072, 262144, 262145,
                                       0x7fffffff, 0x80000000, 0xffffffff, INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX};

static void overwrite_number(void)
{
    size_t width = (size_t)1 << roll(4);
    if (current_size < width) return;
    uint8_t *at = current + roll(current_size - width + 1);
    uint64_t value = roll(2) ? interesting[roll(sizeof interesting / sizeof *interesting)] : roll(64) - 32;
    for (size_t i = 0; i < width; i++) at[i] = (uint8_t)(value >> (8 * (width - 1 - i)));
}

static void take_out(void)
{
    if (current_size < 2) return;
    size_t at = roll(current_size), size = 1 + roll(current_size - at);
    memmove(current + at, current + at + size, current_size - at - size);
    current_size -= size;
}

static void put_in(const uint8_t *from, size_t size)
{
    if (current_size + size > LONGEST) return;
    size_t at = roll(current_size + 1);
    memmove(current + at + size, current + at, current_size - at);
    memcpy(current + at, from, size);
    current_size += size;
}

static void put_in_part(const struct input *from)
{
    static uint8_t part[LONGEST];
    if (!from->size) return;
    size_t at = roll(from->size), size = 1 + roll(from->size - at);
    memcpy(part, from->data + at, size);
    put_in(part, size);
}

static void put_in_dice(void)
{
    uint8_t some[16];
    size_t size = 1 + roll(sizeof some);
    for (size_t i = 0; i < size; i++) some[i] = (uint8_t)roll(256);
    put_in(some, size);
}

static void change(void)
{
    for (uint64_t times = 1 + roll(6); times; times--) {
        switch (roll(8)) {
        case 0: if (current_size) current[roll(current_size)] ^= (uint8_t)(1 << roll(8)); break;
        case 1: if (current_size) current[roll(current_size)] = (uint8_t)roll(256); break;
        case 2: if (current_size) current[roll(current_size)] += (uint8_t)(roll(9) - 4); break;
        case 3: overwrite_number(); break;
        case 4: take_out(); break;
        case 5: put_in_dice(); break;
        default: put_in_part(kept + roll((uint64_t)kept_count)); break;
        }
    }
}

static double clock_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(int count, char **argument)
{
    if (count != 5) {
        fprintf(stderr, "usage: TARGET SECONDS SEED CORPUS CRASHES\n");
        return 2;
    }
    double until = clock_now() + atof(argument[1]);
    dice = strtoull(argument[2], NULL, 10) * 0x9e3779b97f4a7c15 + 1;
    crashes = argument[4];
    signal(SIGALRM, took_too_long);
    signal(SIGPIPE, SIG_IGN);
    __sanitizer_set_death_callback(keep_crash);
    load(argument[3]);
    if (!kept_count) keep();
    while (clock_now() < until) {
        for (int i = 0; i < 64; i++) {
            const struct input *from = kept + roll((uint64_t)kept_count);
            current_size = from->size;
            memcpy(current, from->data, from->size);
            change();
            if (try()) keep();
        }
    }
    printf("%llu runs, %llu edges, %d kept\n", (unsigned long long)runs, (unsigned long long)edges, kept_count);
    return 0;
}
