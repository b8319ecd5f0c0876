/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of a job for tools: rank and size, barrier, gather. All communication uses one VCQ
 * of the tool and memory registered under reserved STags, without MPI and files. An error is
 * printed as one line and ends the process.
 *
 * Uses src/bootstrap and src/process (to find the processes) and the public interface.
 */
#ifndef PERF_PARTY_H
#define PERF_PARTY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "utofu.h"

enum {
    PARTY_RECORD_MAX = 16384, /* maximum bytes per process in one party_gather() */
    PARTY_USAGE = 2,          /* exit status for wrong usage */
};

struct party {
    uint32_t rank, size;
    const char *launcher;
};
extern struct party party;

/* Sets the name for messages of a program that calls neither party_open() nor party_find(). */
void party_set_name(const char *program);
/* Finds the job. Exits with PARTY_USAGE if it has fewer than min_size processes. timeout_s: a wait
 * without any arrival fails after this time. */
void party_open(const char *program, uint32_t min_size, unsigned int timeout_s);
/* The first half of party_open(): finds the job, without communication. */
void party_find(const char *program, uint32_t min_size, unsigned int timeout_s);
/* Called first: reverses the ranks, so that the process that joins last is rank 0; and sets whether
 * party_open() waits without a time limit. */
void party_reverse(bool wait_for_ever);
/* The id of a VCQ that a rank has made or will make with utofu_create_vcq_with_cmp_id(). */
utofu_vcq_id_t party_vcq_id(uint32_t rank, utofu_tni_id_t tni, utofu_cmp_id_t cmp);
/* Puts a word into memory that another process may not have registered yet: repeated until it
 * succeeds. No other communication of the VCQ may be under way. */
void party_put_word(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t to, utofu_stadd_t stadd,
                    uint64_t value);
/* Waits for all processes, then frees the resources of party_open(). */
void party_close(void);

/* Each process contributes `size` bytes; `all` receives the bytes of all ranks, in order. With
 * root_only only rank 0 receives them (`all` may be NULL elsewhere). Returns when all have called
 * it. */
void party_gather(const void *mine, size_t size, void *all, bool root_only);
void party_barrier(void);

/* For loops that wait: called after an empty poll. Yields the CPU from time to time. Fails after
 * timeout_s unless the caller resets *spins to 0; `what` describes the wait in the message. NULL
 * waits without a limit, for the measurement of another process, which fails itself and ends the
 * job. */
void party_idle(uint32_t *spins, const char *what);

/* For loops without party_idle(), called once in many turns in the program's first thread: fails if
 * no launcher ends the job and the other process has ended. */
void party_look_after_others(void);

/* Prints "PROGRAM: [rank N] text" on standard error, and exits with the status. */
void party_fail(int status, const char *fmt, ...) __attribute__((noreturn, format(printf, 2, 3)));
/* As party_fail(), before the job is known: only the first process of a job prints at once. */
void party_usage_error(const char *program, const char *fmt, ...)
    __attribute__((noreturn, format(printf, 2, 3)));
/* Fails unless rc is UTOFU_SUCCESS; `what` names the function. Also used for measured calls, so
 * success costs no function call. */
void party_fail_rc(int rc, const char *what) __attribute__((noreturn, cold));
static inline void party_check(int rc, const char *what)
{
    if (__builtin_expect(rc != UTOFU_SUCCESS, 0))
        party_fail_rc(rc, what);
}

#endif
