#ifndef SHA256_H
#define SHA256_H

#include <stddef.h>
#include <stdint.h>

/* HMAC-SHA-256 (RFC 2104, FIPS 180-4) with a key of 32 bytes, of a message of at most 256 bytes. */
void hmac_sha256(const uint8_t key[32], const void *message, size_t size, uint8_t mac[32]);

#endif
