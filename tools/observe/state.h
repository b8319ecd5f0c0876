/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libutofu-observe: stands between a program and any implementation of utofu.h, and records, counts
 * and checks what the program calls. It sees calls, arguments and results, and nothing else. Uses
 * libc and libdl, and the parts of src/ that need no more: the recording (record/calls.h), the
 * timeline and the counters (stats/), and util/.
 *
 * make-wrappers writes a wrapper for each function of the manual. From below: state.c: what all
 * need. log.c: lines on standard error. errors.c: failed calls, and the names of places. objects.c:
 * VCQs and the places of ids. findings.c: what a check finds. ops.c: what is started and not
 * finished, counters and timeline. freed.c: VCQs that are freed. dump.c: for programs that hang.
 * descs.c: prepared descriptors. config.c: variables, the next functions, ranks. calls.c: what a
 * call means to each part.
 */
#ifndef OB_STATE_H
#define OB_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "utofu.h"

#define OB_EXPORT       __attribute__((visibility("default")))
#define OB_LIKELY(x)    __builtin_expect(!!(x), 1)
#define OB_UNLIKELY(x)  __builtin_expect(!!(x), 0)
#define OB_CALLER       __builtin_return_address(0)
#define OB_NEXT(name)   ((__typeof__(&name))ob_next[OB_##name])
#define OB_THREAD_LOCAL __thread __attribute__((tls_model("initial-exec")))

enum ob_function {
#define OB_FUNCTIONS(name) OB_##name,
#include "wrappers.inc"
#undef OB_FUNCTIONS
    OB_NUM_FUNCTIONS
};
extern void *ob_next[OB_NUM_FUNCTIONS];
extern const char *const ob_names[OB_NUM_FUNCTIONS];

enum ob_state { OB_UNSET, OB_OFF, OB_ON };
extern enum ob_state ob_state;

struct ob_config {
    uint32_t rank, size;
    char job[256];
    uint64_t host, opened_at;
    bool record, trace, stats, check, dump, hold;
    bool track; /* trace, stats, check or dump: communications are followed to their end */
    bool abort; /* at the first finding */
};
extern struct ob_config ob_config;

/* The thread is in the library below, which may call its own public functions. */
extern OB_THREAD_LOCAL int ob_depth;

/* A lock that is held for a few instructions. */
static inline void ob_lock(uint32_t *lock)
{
    while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE))
        ;
}
static inline void ob_unlock(uint32_t *lock)
{
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

#endif
