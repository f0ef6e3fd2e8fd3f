#include "ring.h"

#include <sys/mman.h>

enum { KEPT_WHEN_EMPTY = 4096 }; /* a terminal that is typed into should not pay for a page fault each time */

bool ring_open(struct ring *ring)
{
    if (ring->memory) return true;
    void *memory = mmap(NULL, RING_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return false;
    madvise(memory, RING_SIZE, MADV_DONTFORK); /* forking a reaper should not copy a hundred of these */
    ring->memory = memory;
    ring->base = ring->end;
    ring->touched = 0;
    return true;
}

void ring_close(struct ring *ring)
{
    if (ring->memory) munmap(ring->memory, RING_SIZE);
    *ring = (struct ring){0};
}

uint32_t ring_room(const struct ring *ring) { return RING_SIZE - (uint32_t)(ring->end - ring->first); }

static int pieces_of(const struct ring *ring, uint64_t offset, size_t size, struct iovec pieces[2])
{
    size_t at = (size_t)((offset - ring->base) % RING_SIZE), whole = RING_SIZE - at;
    pieces[0] = (struct iovec){ring->memory + at, size < whole ? size : whole};
    if (size <= whole) return 1;
    pieces[1] = (struct iovec){ring->memory, size - whole};
    return 2;
}

int ring_space(const struct ring *ring, size_t size, struct iovec pieces[2])
{
    size_t room = ring_room(ring);
    return pieces_of(ring, ring->end, size < room ? size : room, pieces);
}

void ring_filled(struct ring *ring, size_t size)
{
    uint64_t touched = ring->end - ring->base + size;
    ring->end += size;
    if (touched > ring->touched) ring->touched = touched < RING_SIZE ? (uint32_t)touched : RING_SIZE;
}

int ring_held(const struct ring *ring, uint64_t offset, size_t size, struct iovec pieces[2])
{
    return pieces_of(ring, offset, size, pieces);
}

void ring_forget(struct ring *ring, uint64_t before)
{
    ring->first = before;
    if (ring->first < ring->end || !ring->memory) return;
    ring->base = ring->end; /* begin anew, so that a session with little to say touches one page */
    if (ring->touched > KEPT_WHEN_EMPTY) madvise(ring->memory + KEPT_WHEN_EMPTY, RING_SIZE - KEPT_WHEN_EMPTY, MADV_DONTNEED);
    ring->touched = KEPT_WHEN_EMPTY;
}
