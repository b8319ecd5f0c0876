/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256. Names as in the standard: a to h, W, K, sigma. */
#include "util/sha256.h"

#include <endian.h>
#include <string.h>

/* The first 32 bits of the fractions of the cube roots of the first 64 primes. */
static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotr(uint32_t x, unsigned int n)
{
    return x >> n | x << (32 - n);
}

static void schedule(uint32_t W[64], const uint8_t block[UT_SHA256_BLOCK])
{
    for (int t = 0; t < 16; t++) {
        memcpy(&W[t], block + 4 * t, 4);
        W[t] = be32toh(W[t]);
    }
    for (int t = 16; t < 64; t++) {
        uint32_t sigma0 = rotr(W[t - 15], 7) ^ rotr(W[t - 15], 18) ^ W[t - 15] >> 3;
        uint32_t sigma1 = rotr(W[t - 2], 17) ^ rotr(W[t - 2], 19) ^ W[t - 2] >> 10;
        W[t] = sigma1 + W[t - 7] + sigma0 + W[t - 16];
    }
}

static void compress(uint32_t state[8], const uint8_t block[UT_SHA256_BLOCK])
{
    enum { a, b, c, d, e, f, g, h };
    uint32_t W[64], v[8];

    schedule(W, block);
    memcpy(v, state, sizeof(v));
    for (int t = 0; t < 64; t++) {
        uint32_t Sigma1 = rotr(v[e], 6) ^ rotr(v[e], 11) ^ rotr(v[e], 25);
        uint32_t Sigma0 = rotr(v[a], 2) ^ rotr(v[a], 13) ^ rotr(v[a], 22);
        uint32_t T1 = v[h] + Sigma1 + ((v[e] & v[f]) ^ (~v[e] & v[g])) + K[t] + W[t];
        uint32_t T2 = Sigma0 + ((v[a] & v[b]) ^ (v[a] & v[c]) ^ (v[b] & v[c]));
        memmove(v + b, v + a, 7 * sizeof(*v));
        v[e] += T1;
        v[a] = T1 + T2;
    }
    for (int i = 0; i < 8; i++)
        state[i] += v[i];
}

void ut_sha256_init(struct ut_sha256 *sha)
{
    /* The same of the square roots of the first eight primes. */
    static const uint32_t H[8] = {
        0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
    };

    memcpy(sha->state, H, sizeof(H));
    sha->size = 0;
}

void ut_sha256_add(struct ut_sha256 *sha, const void *data, size_t size)
{
    const uint8_t *p = data;

    while (size > 0) {
        size_t used = sha->size % UT_SHA256_BLOCK;
        size_t n = UT_SHA256_BLOCK - used < size ? UT_SHA256_BLOCK - used : size;
        memcpy(sha->block + used, p, n);
        sha->size += n;
        p += n;
        size -= n;
        if (used + n == UT_SHA256_BLOCK)
            compress(sha->state, sha->block);
    }
}

void ut_sha256_end(struct ut_sha256 *sha, uint8_t digest[UT_SHA256_SIZE])
{
    static const uint8_t padding[UT_SHA256_BLOCK] = {0x80};
    uint64_t bits = htobe64(sha->size * 8);
    size_t used = sha->size % UT_SHA256_BLOCK;
    size_t room = (used < 56 ? 56 : 56 + UT_SHA256_BLOCK) - used;

    ut_sha256_add(sha, padding, room);
    ut_sha256_add(sha, &bits, sizeof(bits));
    for (int i = 0; i < 8; i++) {
        uint32_t word = htobe32(sha->state[i]);
        memcpy(digest + 4 * i, &word, sizeof(word));
    }
}

static void start_with_pad(struct ut_sha256 *sha, const uint8_t key[UT_SHA256_BLOCK], uint8_t pad)
{
    uint8_t block[UT_SHA256_BLOCK];

    for (int i = 0; i < UT_SHA256_BLOCK; i++)
        block[i] = key[i] ^ pad;
    ut_sha256_init(sha);
    ut_sha256_add(sha, block, sizeof(block));
}

void ut_hmac_init(struct ut_hmac *hmac, const void *key, size_t size)
{
    uint8_t block[UT_SHA256_BLOCK] = {0};

    if (size > sizeof(block)) {
        ut_sha256_init(&hmac->inner);
        ut_sha256_add(&hmac->inner, key, size);
        ut_sha256_end(&hmac->inner, block);
    } else if (size > 0) {
        memcpy(block, key, size);
    }
    start_with_pad(&hmac->inner, block, 0x36);
    start_with_pad(&hmac->outer, block, 0x5c);
}

void ut_hmac_add(struct ut_hmac *hmac, const void *data, size_t size)
{
    ut_sha256_add(&hmac->inner, data, size);
}

void ut_hmac_end(struct ut_hmac *hmac, uint8_t mac[UT_SHA256_SIZE])
{
    uint8_t digest[UT_SHA256_SIZE];

    ut_sha256_end(&hmac->inner, digest);
    ut_sha256_add(&hmac->outer, digest, sizeof(digest));
    ut_sha256_end(&hmac->outer, mac);
}

bool ut_same_bytes(const void *a, const void *b, size_t size)
{
    const volatile uint8_t *x = a, *y = b;
    uint8_t differ = 0;

    for (size_t i = 0; i < size; i++)
        differ |= x[i] ^ y[i];
    return differ == 0;
}
