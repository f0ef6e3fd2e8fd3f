/* The bytes of one channel that the server has not stored yet: a window over a sequence with absolute offsets.

   Mapped when the first byte comes, never copied into a child, given back when nothing is left in it. */
#ifndef RING_H
#define RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

enum { RING_SIZE = 1 << 20 };

struct ring {
    uint8_t *memory;         /* RING_SIZE bytes, or NULL */
    uint64_t base;           /* the offset that lies at `memory` */
    uint64_t first, end;     /* what is held: [first, end) */
    uint32_t touched;        /* bytes from `memory` that may be resident */
};

bool ring_open(struct ring *ring);
void ring_close(struct ring *ring);
uint32_t ring_room(const struct ring *ring);
/* At most two pieces: where to write at most `size` bytes behind the end; the answer is how many pieces. */
int ring_space(const struct ring *ring, size_t size, struct iovec pieces[2]);
void ring_filled(struct ring *ring, size_t size);
/* Where `size` bytes from `offset` on lie. */
int ring_held(const struct ring *ring, uint64_t offset, size_t size, struct iovec pieces[2]);
void ring_forget(struct ring *ring, uint64_t before);

#endif
