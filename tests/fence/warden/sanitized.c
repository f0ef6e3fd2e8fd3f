/* What a warden with sanitizers does with what it finds: says it where the test looks, and ends. Its own standard error is
   /dev/null, and leaks are none of a process that never ends. */
#define OPTIONS "detect_leaks=0:handle_segv=1:exitcode=99:log_path=/run/findings/found"

const char *__asan_default_options(void);
const char *__ubsan_default_options(void);
const char *__asan_default_options(void) { return OPTIONS; }
const char *__ubsan_default_options(void) { return OPTIONS ":print_stacktrace=1"; }
