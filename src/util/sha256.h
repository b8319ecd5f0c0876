/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256 (FIPS 180-4) and HMAC with it (FIPS 198-1), for the key of a job. Uses libc only.
 */
#ifndef UT_UTIL_SHA256_H
#define UT_UTIL_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { UT_SHA256_SIZE = 32, UT_SHA256_BLOCK = 64 };

struct ut_sha256 {
    uint32_t state[8];
    uint64_t size; /* number of bytes added */
    uint8_t block[UT_SHA256_BLOCK];
};

void ut_sha256_init(struct ut_sha256 *sha);
void ut_sha256_add(struct ut_sha256 *sha, const void *data, size_t size);
void ut_sha256_end(struct ut_sha256 *sha, uint8_t digest[UT_SHA256_SIZE]);

struct ut_hmac {
    struct ut_sha256 inner, outer;
};

void ut_hmac_init(struct ut_hmac *hmac, const void *key, size_t size);
void ut_hmac_add(struct ut_hmac *hmac, const void *data, size_t size);
void ut_hmac_end(struct ut_hmac *hmac, uint8_t mac[UT_SHA256_SIZE]);

/* Compares in constant time, independent of the first difference. */
bool ut_same_bytes(const void *a, const void *b, size_t size);

#endif
