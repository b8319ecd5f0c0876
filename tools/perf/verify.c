/* SPDX-License-Identifier: Apache-2.0 */
/* --verify: each iteration sends its own pattern, which the receiver compares. */
#include "perf.h"

#include <string.h>

/* A word of the pattern: neighbours, iterations and senders differ in most bytes. */
static uint64_t word_at(uint64_t index, uint64_t seed)
{
    uint64_t x = index * 0x9e3779b97f4a7c15ull + seed;

    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ull;
    return x ^ x >> 27;
}

uint64_t perf_pattern(const struct perf_run *run, uint64_t iteration, uint64_t sender)
{
    return word_at(word_at(run->serial, iteration), sender);
}

void perf_fill(uint8_t *at, size_t size, uint64_t pattern)
{
    for (size_t done = 0; done < size; done += sizeof(uint64_t)) {
        uint64_t word = word_at(done / sizeof(word), pattern);
        memcpy(at + done, &word, size - done < sizeof(word) ? size - done : sizeof(word));
    }
}

static uint8_t byte_at(size_t offset, uint64_t pattern)
{
    uint64_t word = word_at(offset / sizeof(word), pattern);
    uint8_t bytes[sizeof(word)];

    memcpy(bytes, &word, sizeof(word));
    return bytes[offset % sizeof(word)];
}

static void __attribute__((noreturn))
report(const struct perf_run *run, uint64_t iteration, const uint8_t *area, size_t offset,
       size_t size, uint64_t pattern, size_t at)
{
    size_t differ = 0;

    for (size_t i = at; i < offset + size; i++)
        differ += area[i] != byte_at(i, pattern);
    party_fail(1,
               "%s of %zu bytes, iteration %llu: byte %zu is 0x%02x instead of 0x%02x, and %zu "
               "of %zu bytes from byte %zu on differ",
               run->op->name, run->size, (unsigned long long)iteration, at, area[at],
               byte_at(at, pattern), differ, size, offset);
}

void perf_expect(const struct perf_run *run, uint64_t iteration, const uint8_t *area, size_t offset,
                 size_t size, uint64_t pattern)
{
    size_t at = offset, end = offset + size;

    while (at < end) {
        uint64_t is, word = word_at(at / sizeof(word), pattern);
        if (at % sizeof(word) == 0 && end - at >= sizeof(word)) {
            memcpy(&is, area + at, sizeof(is));
            if (is == word) {
                at += sizeof(word);
                continue;
            }
        }
        if (area[at] != byte_at(at, pattern))
            report(run, iteration, area, offset, size, pattern, at);
        at++;
    }
}

void perf_expect_word(const struct perf_run *run, uint64_t iteration, uint64_t is, uint64_t wanted)
{
    if (is != wanted)
        party_fail(1, "%s, iteration %llu: the word is 0x%llx instead of 0x%llx", run->op->name,
                   (unsigned long long)iteration, (unsigned long long)is,
                   (unsigned long long)wanted);
}
