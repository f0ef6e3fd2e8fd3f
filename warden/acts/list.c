#include "act.h"
#include "entry.h"
#include "walk.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum { MOST_ENTRY = LONGEST_NAME + 2 * MOST_PATH, BATCH = 65536 };

static uint8_t batch[BATCH + MOST_ENTRY];
static struct packer packer;
static uint64_t count, most = 100000, deepest = 1;
static bool cut;

static void flush(void)
{
    act_write(batch, (size_t)(packer.at - batch));
    packer.at = batch;
}

static bool tell(const struct visit *visit)
{
    if (count >= most) {
        cut = true;
        return false;
    }
    count++;
    pack_entry(&packer, &visit->about, visit->at, visit->base, visit->name);
    if (packer.at - batch > BATCH) flush();
    return deepest == 0 || (uint64_t)visit->depth < deepest;
}

static void leave_out(const struct visit *visit)
{
    (void)visit;
    cut = true;
}

void do_list(const struct start *start)
{
    const char *path = act_path(start);
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
    if (folder < 0) act_fail(path);
    if (start->has_most) most = start->most;
    if (start->has_depth) deepest = start->depth;
    packer = (struct packer){batch, batch + sizeof batch, false};
    act_ready();
    walk(folder, tell, leave_out);
    flush();
    struct packer result = act_result(2);
    pack_str(&result, "count"), pack_uint(&result, count);
    pack_str(&result, "cut"), pack_bool(&result, cut);
    act_finish(&result);
}
