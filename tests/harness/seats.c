/* SPDX-License-Identifier: Apache-2.0 */
/* See seats.h. Uses Linux functions only. */
#include "seats.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int ut_rank = -1, ut_size, ut_node, ut_nodes;
static struct ut_rng own_rng;

void ut_seat_take(int rank, int size)
{
    ut_rank = rank;
    ut_size = size;
    own_rng = ut_rng_start(ut_seed() * 1000003 + (uint64_t)rank);
    atomic_store(&ut_seat_of(rank)->pid, (uint64_t)getpid());
}

/* Random numbers: splitmix64 */

struct ut_rng ut_rng_start(uint64_t number)
{
    struct ut_rng rng = {number * 0xd1342543de82ef95ull + 1};

    ut_rng_next(&rng);
    return rng;
}

uint64_t ut_rng_next(struct ut_rng *rng)
{
    uint64_t z = rng->state += 0x9e3779b97f4a7c15ull;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

uint64_t ut_rng_below(struct ut_rng *rng, uint64_t bound)
{
    return ut_rng_next(rng) % bound;
}

uint64_t ut_random(void)
{
    return ut_rng_next(&own_rng);
}

uint64_t ut_random_below(uint64_t bound)
{
    return ut_rng_below(&own_rng, bound);
}

void ut_random_delay(unsigned int max_us)
{
    uint64_t us = ut_random_below((uint64_t)max_us + 1);

    if (us > 0)
        usleep((useconds_t)us);
}

uint64_t ut_env_number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    char *end;

    if (text == NULL || *text == '\0')
        return otherwise;
    uint64_t value = strtoull(text, &end, 0);
    CHECK(*end == '\0', "%s=%s is not a number", name, text);
    return value;
}

/* What the processes tell each other */

void ut_step(const char *format, ...)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* between threads of a process */
    struct ut_seat *seat = ut_seat_of(ut_rank);
    va_list args;

    pthread_mutex_lock(&lock);
    va_start(args, format);
    vsnprintf(seat->step, sizeof(seat->step), format, args);
    va_end(args);
    pthread_mutex_unlock(&lock);
}

void ut_seat_fail(const char *file, int line, const char *what, const char *format, va_list args)
{
    struct ut_seat *seat = ut_seat_of(ut_rank);
    const char *base = strrchr(file, '/');
    char detail[512];

    vsnprintf(detail, sizeof(detail), format, args);
    snprintf(seat->failure, sizeof(seat->failure), "%s:%d: %s:%s", base ? base + 1 : file, line,
             what, detail);
}

void ut_relax(void)
{
    ut_leave_if_failed();
    sched_yield();
}

void ut_barrier(void)
{
    enum { TURNS = 200, PAUSE_US = 200 };
    uint64_t mine = atomic_fetch_add(&ut_seat_of(ut_rank)->barriers, 1) + 1;

    for (int rank = 0; rank < ut_size; rank++) {
        const struct ut_seat *seat = ut_seat_of(rank);

        for (unsigned int turns = 0; atomic_load(&seat->barriers) < mine && !ut_is_dead(rank);
             turns++) {
            ut_relax();
            if (turns >= TURNS)
                usleep(PAUSE_US);
        }
    }
    ut_leave_if_failed();
}

void ut_allgather(const void *mine, void *all, size_t size)
{
    CHECK(size <= UT_ADDRESS_RECORD_MAX);
    ut_barrier(); /* all processes have read the last record */
    memcpy(ut_seat_of(ut_rank)->record, mine, size);
    ut_barrier();
    for (int rank = 0; rank < ut_size; rank++)
        memcpy((uint8_t *)all + (size_t)rank * size, ut_seat_of(rank)->record, size);
}

_Atomic uint64_t *ut_cell(int number)
{
    CHECK(number >= 0 && number < UT_NUM_CELLS);
    return &ut_cells()[number];
}

int ut_pid_of(int rank)
{
    return (int)atomic_load(&ut_seat_of(rank)->pid);
}
