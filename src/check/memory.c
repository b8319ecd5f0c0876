/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of this process: its checksum, and whether it can be read. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "check/inner.h"

/*
 * The checksum of memory. Of more than SUM_ALL bytes it covers the first and last SUM_ENDS, and one
 * word
 * of each line between them, not always the same word: a program that changes a buffer changes more
 * than
 * one word.
 */

enum { SUM_ALL = 16384, SUM_ENDS = 4096, LANES = 4, PAGES_AT_ONCE = 64 };
#define SUM_STEP (LANES * sizeof(uint64_t))

/* The background thread reads memory here that the program may be writing. */
#define READS_OTHERS __attribute__((no_sanitize("thread")))

READS_OTHERS static uint64_t sum_bytes(uint64_t h, const uint8_t *p, size_t size)
{
    uint64_t lanes[LANES] = {h, h + 1, h + 2, h + 3}, word[LANES];

    for (; size >= SUM_STEP; p += SUM_STEP, size -= SUM_STEP) {
        memcpy(word, p, SUM_STEP);
        for (unsigned int i = 0; i < LANES; i++)
            lanes[i] = ut_check_mix(lanes[i], word[i]);
    }
    for (; size >= sizeof(*word); p += sizeof(*word), size -= sizeof(*word)) {
        memcpy(word, p, sizeof(*word));
        lanes[0] = ut_check_mix(lanes[0], word[0]);
    }
    for (word[0] = 0; size > 0; size--) /* a loop, because memcpy() would be a call */
        word[0] = word[0] << 8 | p[size - 1];
    return ut_check_mix(
        ut_check_mix(ut_check_mix(ut_check_mix(lanes[0], word[0]), lanes[1]), lanes[2]), lanes[3]);
}

READS_OTHERS uint64_t ut_check_sum(const uint8_t *p, uint32_t size, uint64_t number)
{
    uint64_t h = UT_HASH_FACTOR, word;

    if (size <= SUM_ALL)
        return sum_bytes(h, p, size);
    h = sum_bytes(sum_bytes(h, p, SUM_ENDS), p + size - SUM_ENDS, SUM_ENDS);
    uint32_t turn = (uint32_t)number % (UT_CACHE_LINE / sizeof(word)) * sizeof(word);
    for (uint32_t at = SUM_ENDS; at < size - SUM_ENDS - UT_CACHE_LINE; at += UT_CACHE_LINE) {
        memcpy(&word, p + at + turn, sizeof(word));
        h = ut_check_mix(h, word);
    }
    return h;
}

static uintptr_t page_of(const uint8_t *p)
{
    return (uintptr_t)p & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
}

bool ut_check_is_mapped(const uint8_t *p, uint32_t size)
{
    uintptr_t from = page_of(p);

    /* MS_ASYNC only checks the mapping */
    return msync((void *)from, (uintptr_t)p + size - from, MS_ASYNC) == 0;
}

/* Reads a byte of each page through the kernel. True if that is forbidden. */
bool ut_check_is_readable(const uint8_t *p, uint32_t size)
{
    uintptr_t from = page_of(p), end = (uintptr_t)p + size, page = -page_of((uint8_t *)UINTPTR_MAX);
    int error = errno; /* errno of the program */
    bool readable = true;

    while (readable && from < end) {
        uint8_t bytes[PAGES_AT_ONCE];
        struct iovec pages[PAGES_AT_ONCE], to = {bytes, 0};
        for (; to.iov_len < PAGES_AT_ONCE && from < end; from += page)
            pages[to.iov_len++] = (struct iovec){(void *)from, 1};
        ssize_t got = process_vm_readv(getpid(), &to, 1, pages, to.iov_len, 0);
        readable = got == (ssize_t)to.iov_len || (got < 0 && errno != EFAULT);
    }
    errno = error;
    return readable;
}

const uint8_t *ut_check_source(const struct ut_vcq *vcq, const struct ut_slot *slot)
{
    const struct ut_check_op *op = ut_check_op_of(vcq, slot);

    if (slot->desc.kind == UT_DESC_PIGGYBACK)
        return slot->desc.data;
    return op->mem && !op->gone && ut_check_is_readable(op->mem, op->length) ? op->mem : NULL;
}
