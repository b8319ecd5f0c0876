/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of a job, as a tool sees them: rank and size, barrier, gather. Everything goes
 * through one VCQ of the tool's own and memory registered under reserved STags, so it needs no MPI
 * and no files. An error is printed as one line and ends the process.
 *
 * Uses src/bootstrap and src/process (who the others are) and the public interface.
 */
#ifndef PERF_PARTY_H
#define PERF_PARTY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "utofu.h"

enum {
    PARTY_RECORD_MAX = 16384, /* bytes of one process in one party_gather() */
    PARTY_USAGE = 2,          /* exit status for wrong usage */
};

struct party {
    uint32_t rank, size;
    const char *launcher;
};
extern struct party party;

/* The name in messages of a program that does not come to party_open() or party_find(). */
void party_set_name(const char *program);
/* Finds the job. Leaves with PARTY_USAGE if it has fewer than min_size processes. timeout_s: a
 * wait that sees nothing arrive for so long fails. */
void party_open(const char *program, uint32_t min_size, unsigned int timeout_s);
/* The first half of party_open(), without communication: finds the job. */
void party_find(const char *program, uint32_t min_size, unsigned int timeout_s);
/* To be called first: ranks are counted from the other end, so that the process that meets the
 * others last is rank 0; and whether party_open() waits for them as long as it takes. */
void party_reverse(bool wait_for_ever);
/* The id of a VCQ that a rank makes, or will make, with utofu_create_vcq_with_cmp_id(). */
utofu_vcq_id_t party_vcq_id(uint32_t rank, utofu_tni_id_t tni, utofu_cmp_id_t cmp);
/* Puts a word where a process may not have registered memory yet: tries until it has. Nothing else
 * of the VCQ may be under way. */
void party_put_word(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t to, utofu_stadd_t stadd,
                    uint64_t value);
/* Waits for all, then frees what party_open() made. */
void party_close(void);

/* Each process contributes `size` bytes; `all` gets those of all, in order of rank. With root_only
 * they go to rank 0 alone (`all` may be NULL elsewhere). Returns when all have called it. */
void party_gather(const void *mine, size_t size, void *all, bool root_only);
void party_barrier(void);

/* For loops that wait: call it when nothing was found. Gives the CPU away now and then. Fails after
 * timeout_s without *spins being set back to 0 by the caller; `what` says what is waited for, and
 * NULL waits for ever: for what another process measures, which fails itself and takes the job
 * along. */
void party_idle(uint32_t *spins, const char *what);

/* For loops that do not come to party_idle(), once in many turns and in the program's first thread:
 * fails if there is no launcher that ends the job and the other process is gone. */
void party_look_after_others(void);

/* "PROGRAM: [rank N] text" on standard error, and exit with the status. */
void party_fail(int status, const char *fmt, ...) __attribute__((noreturn, format(printf, 2, 3)));
/* The same before the job is known: only the first process of a job speaks at once. */
void party_usage_error(const char *program, const char *fmt, ...)
    __attribute__((noreturn, format(printf, 2, 3)));
/* Fails unless rc is UTOFU_SUCCESS; `what` names the function. Calls that are measured are
 * checked with it, so success costs no function call. */
void party_fail_rc(int rc, const char *what) __attribute__((noreturn, cold));
static inline void party_check(int rc, const char *what)
{
    if (__builtin_expect(rc != UTOFU_SUCCESS, 0))
        party_fail_rc(rc, what);
}

#endif
