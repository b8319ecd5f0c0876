/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks form a ring: the first rank follows the last. Partner k of a process is the process 2^k
 * ranks ahead.
 */
#ifndef LC_RING_H
#define LC_RING_H

#include <stdint.h>

/* The smallest n with 2^n >= procs. */
static inline uint32_t lc_num_partners(uint32_t procs)
{
    uint32_t num = 0;

    while ((1ull << num) < procs)
        num++;
    return num;
}

/* The process 2^k ranks ahead. */
static inline uint32_t lc_rank_ahead(uint32_t rank, uint32_t procs, uint32_t k)
{
    return (uint32_t)((rank + (1ull << k)) % procs);
}

/* The process 2^k ranks behind. */
static inline uint32_t lc_rank_behind(uint32_t rank, uint32_t procs, uint32_t k)
{
    return (uint32_t)(((uint64_t)rank + procs - (1ull << k) % procs) % procs);
}

/* The k of the partner of `from` that is nearest to `to`, but not beyond it. */
static inline uint32_t lc_partner_towards(uint32_t from, uint32_t to, uint32_t procs)
{
    uint32_t distance = to >= from ? to - from : to + procs - from;

    return 31 - (uint32_t)__builtin_clz(distance);
}

#endif
