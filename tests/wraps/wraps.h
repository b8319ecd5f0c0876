/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the files of a libtofucom whose counters begin just below where they wrap. Each file sets the
 * counters of one kind of object when the object is made, and notes when it is freed which of them
 * have gone over the wrap. UT_WRAPS_FILE names a file to which each process appends the names of
 * these counters, each once.
 */
#ifndef TESTS_WRAPS_H
#define TESTS_WRAPS_H

#include <stdbool.h>
#include <stdint.h>

/* How many steps below the wrap the counters begin. */
enum { WRAPS_BELOW = 40, WRAPS_FEW_BELOW = 2 };
#define WRAPS_FROM32     (UINT32_MAX - WRAPS_BELOW)
#define WRAPS_FROM16     ((uint16_t)(UINT16_MAX - WRAPS_BELOW))
#define WRAPS_FEW_FROM32 (UINT32_MAX - WRAPS_FEW_BELOW)
#define WRAPS_FEW_FROM16 ((uint16_t)(UINT16_MAX - WRAPS_FEW_BELOW))

/* Notes that the counter has gone over the wrap, if `passed`. */
void wraps_note(const char *counter, bool passed);

/* For a counter of 32 or 16 bits that began at one of the values above. */
static inline bool wraps_over32(uint32_t now)
{
    return now < UINT32_MAX / 2;
}
static inline bool wraps_over16(uint16_t now)
{
    return now < UINT16_MAX / 2;
}

#endif
