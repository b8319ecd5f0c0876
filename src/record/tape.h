/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tape is the buffer in which one thread writes its records. A full tape is written to the file
 * of the process as a block. Only its thread writes to a tape, without a lock. At the end of the
 * process, all complete records are read (ut_tape_commit).
 * Times are in ticks (format.h), because reading the processor's counter takes a third of
 * clock_gettime().
 */
#ifndef UT_RECORD_TAPE_H
#define UT_RECORD_TAPE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#if defined(__x86_64__)
#    include <x86intrin.h>
#endif

#include "record/format.h"
#include "record/site.h"
#include "util/clock.h"
#include "util/hash_table.h"
#include "util/self.h"

enum {
    UT_TAPE_SIZE = 1 << 16,
    UT_TAPE_RECORD_MAX = 768, /* maximum size of one record with what it defines */
};

#define UT_TAPE_NO_VCQ UINT64_MAX

/* The queue that a poll looks at, or a request of MPI. */
enum ut_tape_poll { UT_TAPE_TCQ, UT_TAPE_MRQ, UT_TAPE_RESULT, UT_TAPE_MPI, UT_TAPE_POLLS };

/* An id that later records name by an index. */
struct ut_tape_known {
    struct ut_hash_entry by_id;
    uint32_t index;
};

/* The last communication of a thread, because the next one is often similar. */
struct ut_tape_comm {
    uint64_t vcq, remote;
    uint32_t word, pace; /* word: path << 28 | SPS << 24 | length; pace: MTU and gap, 0: none */
    uint32_t head;       /* flags << 16 | edata << 8 | enum ut_record_op */
};

/* The last notice that a poll has returned. */
struct ut_tape_notice {
    uint64_t vcq, remote;
    uint32_t type;
};

/* Puts with the same target, address and length. */
struct ut_tape_stream {
    struct ut_hash_entry by_key;
    uint32_t held, seen;
    uint64_t last_at, period; /* ns: time of the last put, and the shortest time between two puts */
};

struct ut_tape {
    uint8_t *bytes;
    uint32_t used;
    uint32_t records;    /* number in the buffer */
    uint64_t committed;  /* atomic: records << 32 | used, at the end of the last whole record */
    uint64_t last_begin; /* begin of the last recorded call; this and the times below in ticks */
    uint64_t last_end;
    uint64_t pending;         /* CPU time since last_end */
    uint64_t cpu_at, wall_at; /* cpu_at: the thread's CPU time in ns at the time wall_at */
    uint64_t last_stadd;
    struct ut_tape_comm comm;
    struct ut_tape_notice notice;
    uint64_t tcq;      /* the VCQ of the last TCQ entry, or UT_TAPE_NO_VCQ */
    uint32_t put_took; /* duration of a put: a moving mean, */
    uint32_t measured; /* measured at one of several puts */
    /* empty polls since the last record: one bit per enum ut_tape_poll, and the time of the first
     * one */
    uint8_t polls;
    bool flushed; /* this call has written a block */
    uint64_t polled_at[UT_TAPE_POLLS];
    uint32_t number;

    struct ut_hash_table known[2]; /* struct ut_tape_known: VCQs, gates */
    struct ut_sites sites;

    struct {                          /* used by hold.c */
        struct ut_hash_table streams; /* struct ut_tape_stream */
        uint32_t pause;               /* number of puts of which few are held */
        uint32_t job_size, num_extra;
        uint64_t num_held, random, opened_at, ns;
        uint64_t off_ns; /* how long this thread is usually off its core: a moving mean */
    } hold;

    LIST_ENTRY(ut_tape) next;
};

extern struct ut_tape_clock {
    double ticks_a_ns;
    bool by_counter;        /* ticks come from the processor's counter */
    uint64_t off_cpu, wait; /* in ticks: 20 us and 2 us */
} ut_tape_clock;

static inline uint64_t ut_tape_time(void)
{
#if defined(__x86_64__)
    if (__builtin_expect(ut_tape_clock.by_counter, 1))
        return __rdtsc() >> UT_RECORD_COUNTER_SHIFT;
#endif
    return ut_clock_ns();
}

/* What the HEAD block says of this process. `host`: equal for processes with the same counter. */
struct ut_tape_job {
    uint32_t rank, size;
    const char *id; /* at most UT_TAPE_JOB_ID bytes */
    uint64_t host;
    const uint8_t *coords; /* six */
    bool (*has_mpi)(void); /* Has this process called MPI_Init? */
};
enum { UT_TAPE_JOB_ID = 255 };

/* Opens the file of this process, and writes the HEAD block. 0 or a negative error code. The limit
 * is in bytes, 0: none. */
int ut_tape_open(const char *path, uint64_t limit, const struct ut_tape_job *job, char *why);

extern UT_THREAD_LOCAL struct ut_tape *ut_tape_own;
/* ut_tape_new(): for the first call of a thread; NULL: no memory, and the file ends.
 * ut_tape_flush(): for a tape that is almost full. */
struct ut_tape *ut_tape_new(void) __attribute__((cold));
void ut_tape_flush(struct ut_tape *tape);

/* The tape of this thread, with room for a record. NULL: nothing is recorded. */
static inline struct ut_tape *ut_tape_enter(void)
{
    struct ut_tape *t = ut_tape_own;

    if (__builtin_expect(!t, 0) && !(t = ut_tape_new()))
        return NULL;
    if (__builtin_expect(t->used > UT_TAPE_SIZE - UT_TAPE_RECORD_MAX, 0))
        ut_tape_flush(t);
    return t;
}

/* Marks the record as complete. */
static inline void ut_tape_commit(struct ut_tape *t)
{
    t->records++;
    __atomic_store_n(&t->committed, (uint64_t)t->records << 32 | t->used, __ATOMIC_RELEASE);
}

static inline void ut_tape_byte(struct ut_tape *t, unsigned int value)
{
    t->bytes[t->used++] = (uint8_t)value;
}

void ut_tape_bytes(struct ut_tape *tape, const void *bytes, size_t size);
/* Writes 8 bytes, little endian. */
void ut_tape_word(struct ut_tape *tape, uint64_t value);

static inline void ut_tape_number(struct ut_tape *t, uint64_t value)
{
    uint8_t *at = t->bytes + t->used;

    for (; value > 0x7f; value >>= 7)
        *at++ = (uint8_t)(value | 0x80);
    *at++ = (uint8_t)value;
    t->used = (uint32_t)(at - t->bytes);
}

static inline void ut_tape_signed(struct ut_tape *t, int64_t value)
{
    ut_tape_number(t, (uint64_t)value << 1 ^ (value < 0 ? UINT64_MAX : 0));
}

/*
 * CPU time between calls. Reading the CPU clock of a thread is a system call, so it is read only
 * after a longer time without a call. Otherwise the thread counts as having been on its core.
 */

void ut_tape_add_long(struct ut_tape *tape, uint64_t now) __attribute__((cold));
void ut_tape_read_cpu(struct ut_tape *tape, uint64_t now) __attribute__((cold));

/* A call begins: adds the CPU time since the previous call. */
static inline void ut_tape_begin_call(struct ut_tape *t, uint64_t now)
{
    uint64_t gap = now > t->last_end ? now - t->last_end : 0;

    if (__builtin_expect(gap > ut_tape_clock.off_cpu, 0))
        ut_tape_add_long(t, now);
    else if (!t->polls || gap >= ut_tape_clock.wait)
        t->pending += gap;
}

/* A call that began at `begin` ends now. */
static inline void ut_tape_end_call(struct ut_tape *t, uint64_t begin, uint64_t now)
{
    t->last_end = now;
    if (__builtin_expect(now - begin > ut_tape_clock.off_cpu, 0))
        ut_tape_read_cpu(t, now);
}

/* Writes where the program makes this call, unless it follows from the call before. */
void ut_tape_note_site(struct ut_tape *tape);

/* Begins the record of a call. */
static inline void ut_tape_begin_record(struct ut_tape *t, unsigned int op, uint64_t begin)
{
    uint64_t since = begin > t->last_begin ? begin - t->last_begin : 0;

    ut_tape_note_site(t);
    ut_tape_byte(t, op);
    ut_tape_number(t, since);
    ut_tape_number(t, t->pending);
    t->last_begin += since;
    t->pending = 0;
    t->polls = 0;
}

#endif
