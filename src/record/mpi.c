/* SPDX-License-Identifier: Apache-2.0 */
#include "record/mpi.h"

#include <dlfcn.h>
#include <string.h>

#include "record/tape.h"

static uint64_t begin_call(void)
{
    struct ut_tape *t = ut_tape_enter();
    uint64_t now = ut_tape_time();

    if (!t)
        return now;
    ut_tape_begin_call(t, now);
    t->last_end = now;
    return now;
}

static void end_call(uint64_t begin)
{
    struct ut_tape *t = ut_tape_enter();

    if (t)
        ut_tape_end_call(t, begin, ut_tape_time());
}

/* Does the same as a poll of a queue that finds nothing: what follows until the next poll is
 * waiting. */
static void poll_call(uint64_t begin)
{
    struct ut_tape *t = ut_tape_enter();

    if (!t)
        return;
    if (!(t->polls & 1u << UT_TAPE_MPI))
        t->polled_at[UT_TAPE_MPI] = begin;
    t->polls = (uint8_t)(t->polls | 1u << UT_TAPE_MPI);
    ut_tape_end_call(t, begin, ut_tape_time());
}

static void write_call(uint64_t begin, unsigned int kind, bool same_call, const int64_t *numbers,
                       unsigned int n)
{
    struct ut_tape *t = ut_tape_enter();

    if (!t)
        return;
    bool polled = (t->polls & 1u << UT_TAPE_MPI) && begin > t->polled_at[UT_TAPE_MPI];
    ut_tape_begin_record(t, same_call ? UT_RECORD_MPI | UT_RECORD_SAME_CALL : UT_RECORD_MPI, begin);
    ut_tape_byte(t, kind);
    ut_tape_number(t, polled ? begin - t->polled_at[UT_TAPE_MPI] : 0);
    ut_tape_number(t, n);
    for (unsigned int i = 0; i < n; i++)
        ut_tape_signed(t, numbers[i]);
    ut_tape_commit(t);
    ut_tape_end_call(t, begin, ut_tape_time());
}

void ut_record_mpi_open(void)
{
    static const struct ut_record_mpi functions = {.api = UT_RECORD_MPI_API,
                                                   .begin = begin_call,
                                                   .write = write_call,
                                                   .end = end_call,
                                                   .poll = poll_call};
    void *address = dlsym(RTLD_DEFAULT, UT_RECORD_MPI_ATTACH);
    ut_record_mpi_attach *attach;

    if (!address)
        return;
    memcpy(&attach, &address, sizeof(attach));
    attach(&functions);
}
