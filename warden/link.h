/* The connection with the server: docs/link.md. */
#ifndef LINK_H
#define LINK_H

#include <stdint.h>

struct session;

void link_open(const uint8_t key[32]);
void link_forget_key(void); /* in a child */

void link_wants(struct session *session); /* it has something to tell, when the connection takes it */
void link_refuse(uint32_t stream);        /* a START that nothing is left for */

uint64_t link_due(void);
void link_tick(void);
void link_ready(uint32_t events);
void link_flush(void); /* called once a turn, when everything that happened is known */

#endif
