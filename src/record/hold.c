/* SPDX-License-Identifier: Apache-2.0 */
/* Puts that are held back, so that the recording shows what their targets do without them: some of
 * those that are seen by reading memory, and a few of those with notices, so that no process is
 * ahead of another all the time. */
#include <stdlib.h>
#include <time.h>

#include "record/record.h"
#include "record/tape.h"
#include "util/clock.h"
#include "util/hash.h"

enum {
    STREAM_BITS = 14,
    REPEATS = 3,       /* puts of a stream are held from this one on: it may repeat */
    NOTICES = 3,       /* so many of a stream with remote notices are; */
    OFTEN = 5,         /* until so many of a stream were held, every other put is; */
    ONE_OF = 16,       /* then one of so many, */
    HOLD_NS = 500000,  /* for this long or, on a busy machine, twice as long as this thread is
                        * usually off its core, */
    MOST_NS = 5000000, /* up to this; or twice or 8 times as long, */
    FIRST = 60,        /* as long as a thread has not held for so many times as long, */
    PART = 4,          /* plus its part of the elapsed time divided by so much: those of different
                        * processes may add up */
    PAUSE = 64,        /* puts, when that is reached */
};

/* Once a put of a stream is held for as long as the stream's period, so that origin and target
 * change their order however far one is ahead. */
enum {
    WHOLE = 1,            /* the hold that is, counted from 0 */
    WHOLE_NS = 200000000, /* at the most */
    WHOLE_PART = 4,       /* FIRST times so much of it may be held, where this is more */
};

static uint64_t draw_random(struct ut_tape *t)
{
    t->hold.random ^= t->hold.random << 13;
    t->hold.random ^= t->hold.random >> 7;
    t->hold.random ^= t->hold.random << 17;
    return t->hold.random;
}

/* The stream of a put; NULL: no memory, or there are too many. */
static struct ut_tape_stream *stream_of(struct ut_tape *t, uint64_t key)
{
    uint64_t i = ut_hash_index(key, STREAM_BITS);

    if (!t->hold.streams &&
        !(t->hold.streams = calloc(1ul << STREAM_BITS, sizeof(*t->hold.streams))))
        return NULL;
    while (t->hold.streams[i].key && t->hold.streams[i].key != key)
        i = (i + 1) & ((1ul << STREAM_BITS) - 1);
    if (!t->hold.streams[i].key) {
        if (t->hold.num_streams == 1u << (STREAM_BITS - 1))
            return NULL;
        t->hold.num_streams++;
        t->hold.streams[i].key = key;
    }
    return &t->hold.streams[i];
}

static uint64_t take_smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t take_larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The shortest time between two puts of a stream: the longer ones may be due to holds. */
static void measure_period(struct ut_tape_stream *s)
{
    uint64_t now = ut_clock_ns();

    if (s->last_at)
        s->period = take_smaller(s->period ? s->period : UINT64_MAX, now - s->last_at);
    s->last_at = now;
}

/* How long a put of this stream is held back, in ns, by a random number. */
static uint64_t choose_time(struct ut_tape *t, struct ut_tape_stream *s, uint64_t dice)
{
    uint64_t ns = take_smaller(take_larger(2 * t->hold.off_ns, HOLD_NS), MOST_NS);
    uint64_t whole = take_smaller(s->period, WHOLE_NS),
             allowed = FIRST * take_larger(ns, whole / WHOLE_PART);

    ns <<= (dice >> 8) % 8 == 0 ? 3 : (dice >> 8) % 4 == 0 ? 1 : 0;
    if (s->held == WHOLE)
        ns = take_larger(ns, whole);
    uint64_t elapsed = ut_clock_ns() - t->hold.opened_at;
    if (t->hold.ns + ns > allowed + elapsed / PART / ut_tape_job_size) {
        t->hold.pause = PAUSE;
        return 0;
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
    if (t->hold.pause > 0) {
        t->hold.pause--;
        return;
    }
    uint64_t key = ut_hash_word(ut_hash_word(ut_hash_word(1, remote), stadd), length) | 1;
    struct ut_tape_stream *s = stream_of(t, key);
    uint64_t dice = draw_random(t) >> 16;
    if (!s || (flags & UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE && s->held >= NOTICES))
        return;
    if (s->held < OFTEN)
        measure_period(s);
    if (s->seen < REPEATS && ++s->seen < REPEATS)
        return;
    /* later on, those first that were held less often than others */
    if (s->held >= OFTEN && (uint64_t)s->held * t->hold.num_streams > t->hold.num_held)
        return;
    if (dice % (s->held < OFTEN ? 2 : ONE_OF))
        return;
    uint64_t ns = choose_time(t, s, dice);
    if (ns > 0)
        hold_put(t, ns);
}
