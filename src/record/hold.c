/* SPDX-License-Identifier: Apache-2.0 */
/* Holds puts back for a moment, so that the recording shows how their targets behave without them:
 * some puts that the target detects by reading memory, and a few puts with notices, so that no
 * process is always ahead of another. */
#include "record/hold.h"

#include <stdlib.h>
#include <time.h>

#include "record/tape.h"
#include "util/clock.h"
#include "util/hash.h"

enum {
    MAX_STREAMS = 1 << 13,
    REPEATS = 3,      /* number of the first put of a stream that may be held, because the stream
                       * may repeat */
    NOTICES = 3,      /* how many puts of a stream with remote notices are held */
    OFTEN = 5,        /* until this many of a stream were held, every other put is held; */
    ONE_OF = 16,      /* later one of this many */
    HOLD_NS = 500000, /* hold time; on a busy machine twice the time for which this thread is
                       * usually off its core, */
    MAX_NS = 5000000, /* but at most this; or 2 or 8 times as long */
    FIRST = 60,       /* as long as the hold times of a thread are less than this many times one, */
    PART = 4,         /* plus its part of the elapsed time divided by this: hold times of processes
                       * may add up */
    FEW = 3,          /* when this limit is reached, streams that were held less often than this */
    MAX_EXTRA = 30,   /* have so many holds of the thread more: its first puts may have used all */
    PAUSE = 64,       /* of so many puts no others are held then */
};

/* One put of each stream is held for as long as the period of the stream, so that origin and target
 * change their order however far one of them is ahead. */
enum {
    WHOLE = 1,            /* number of that hold, from 0 */
    WHOLE_NS = 200000000, /* maximum hold time */
    WHOLE_PART = 4,       /* or FIRST times as much may be held, if that is more */
};

static uint64_t draw_random(struct ut_tape *t)
{
    t->hold.random ^= t->hold.random << 13;
    t->hold.random ^= t->hold.random >> 7;
    t->hold.random ^= t->hold.random << 17;
    return t->hold.random;
}

/* The stream of a put. NULL: no memory, or too many streams. */
static struct ut_tape_stream *stream_of(struct ut_tape *t, uint64_t key)
{
    struct ut_hash_table *streams = &t->hold.streams;
    struct ut_tape_stream *s;

    UT_HASH_OBJECT(s, by_key, ut_hash_find(streams, key));
    if (!s && streams->used < MAX_STREAMS && ut_hash_reserve(streams) &&
        (s = calloc(1, sizeof(*s))))
        ut_hash_insert(streams, &s->by_key, key);
    return s;
}

static uint64_t take_smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t take_larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Measures the shortest time between two puts of a stream. Longer times may be due to holds. */
static void measure_period(struct ut_tape_stream *s)
{
    uint64_t now = ut_clock_ns();

    if (s->last_at)
        s->period = take_smaller(s->period ? s->period : UINT64_MAX, now - s->last_at);
    s->last_at = now;
}

/* The time in ns for which to hold a put of this stream, by a random number. */
static uint64_t choose_time(struct ut_tape *t, struct ut_tape_stream *s, uint64_t dice)
{
    uint64_t ns = take_smaller(take_larger(2 * t->hold.off_ns, HOLD_NS), MAX_NS);
    uint64_t whole = take_smaller(s->period, WHOLE_NS),
             allowed = FIRST * take_larger(ns, whole / WHOLE_PART);

    ns <<= (dice >> 8) % 8 == 0 ? 3 : (dice >> 8) % 4 == 0 ? 1 : 0;
    if (s->held == WHOLE)
        ns = take_larger(ns, whole);
    uint64_t elapsed = ut_clock_ns() - t->hold.opened_at;
    if (t->hold.ns + ns > allowed + elapsed / PART / t->hold.job_size) {
        t->hold.pause = PAUSE;
        if (s->held >= FEW || t->hold.num_extra == MAX_EXTRA || ns > MAX_NS)
            return 0;
        t->hold.num_extra++;
    }
    s->held++;
    t->hold.num_held++;
    return ns;
}

static void __attribute__((noinline, cold)) hold_put(struct ut_tape *t, uint64_t ns)
{
    struct timespec pause = {.tv_sec = (time_t)(ns / 1000000000),
                             .tv_nsec = (long)(ns % 1000000000)};
    uint64_t begin = ut_clock_ns(), now = ut_tape_time();

    ut_tape_begin_call(t, now);
    nanosleep(&pause, NULL);
    t->hold.ns += ut_clock_ns() - begin;
    ut_tape_end_call(t, now, ut_tape_time());
}

void ut_record_hold(utofu_vcq_id_t remote, utofu_stadd_t stadd, uint64_t length,
                    unsigned long flags)
{
    struct ut_tape *t = ut_tape_enter();
    if (!t)
        return;
    bool pauses = t->hold.pause > 0;
    if (pauses) {
        t->hold.pause--;
        if (t->hold.num_extra == MAX_EXTRA)
            return;
    }
    uint64_t any = ut_hash_word(ut_hash_word(2, remote), length);
    uint64_t key = ut_hash_word(ut_hash_word(ut_hash_word(1, remote), stadd), length);
    struct ut_tape_stream *s = stream_of(t, key);
    if (s && s->seen < REPEATS && ++s->seen < REPEATS)
        s = stream_of(t, any); /* a put to an address that does not repeat may be one of many */
    if (pauses && s && s->held >= FEW)
        return;
    uint64_t dice = draw_random(t) >> 16;
    if (!s || (flags & UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE && s->held >= NOTICES))
        return;
    if (s->held < OFTEN)
        measure_period(s);
    if (s->seen < REPEATS && ++s->seen < REPEATS)
        return;
    /* later, streams that were held less often than others come first */
    if (s->held >= OFTEN && (uint64_t)s->held * t->hold.streams.used > t->hold.num_held)
        return;
    if (dice % (s->held < OFTEN ? 2 : ONE_OF))
        return;
    uint64_t ns = choose_time(t, s, dice);
    if (ns > 0)
        hold_put(t, ns);
}
