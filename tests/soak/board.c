/* SPDX-License-Identifier: Apache-2.0 */
/* See board.h. Implements harness.h for processes that a launcher has started. */
#include "board.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_FAILED = 77, EXIT_CUT_SHORT = 78 };

int ut_rank = -1, ut_size, ut_node, ut_nodes;
static struct soak_board *board;
static struct ut_rng own_rng;

static struct soak_seat *own_seat(void)
{
    return &board->seat[ut_rank];
}

struct soak_board *soak_board(void)
{
    return board;
}

void soak_board_open(const char *path, int rank, int size)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);

    if (fd < 0) {
        perror(path);
        exit(2);
    }
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (board == MAP_FAILED) {
        perror(path);
        exit(2);
    }
    ut_rank = rank;
    ut_size = size;
    own_rng = ut_rng_start(ut_seed() * 1000003 + (uint64_t)rank);
    atomic_store(&own_seat()->pid, (uint64_t)getpid());
}

void soak_count(enum soak_count what, uint64_t more)
{
    atomic_fetch_add_explicit(&own_seat()->count[what], more, memory_order_relaxed);
}

void soak_note(const char *what, uint64_t epoch, uint64_t number, uint64_t target, uint64_t length,
               uint64_t flags)
{
    uint64_t n = atomic_fetch_add(&own_seat()->num_last, 1);
    struct soak_last *last = &own_seat()->last[n % SOAK_LAST_OPS];

    *last = (struct soak_last){
        .epoch = epoch, .number = number, .target = target, .length = length, .flags = flags};
    strncpy(last->what, what, sizeof(last->what) - 1);
}

/* Processes that were killed */

bool soak_is_dead(int rank)
{
    return atomic_load_explicit(&board->dead, memory_order_relaxed) >> rank & 1;
}

bool soak_any_dead(void)
{
    return atomic_load_explicit(&board->dead, memory_order_relaxed) != 0;
}

bool soak_missed(void)
{
    uint64_t mine = atomic_load(&own_seat()->barriers);

    for (int rank = 0; rank < ut_size; rank++)
        if (soak_is_dead(rank) && atomic_load(&board->seat[rank].barriers) < mine)
            return true;
    return false;
}

/* harness.h: random numbers, as in tests/harness/harness.c */

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

uint64_t ut_seed(void)
{
    return atomic_load(&board->seed);
}

uint64_t ut_env_number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

void ut_random_delay(unsigned int max_us)
{
    uint64_t us = ut_random_below((uint64_t)max_us + 1);

    nanosleep(&(struct timespec){.tv_nsec = (long)us * 1000}, NULL);
}

/* harness.h: what the processes tell each other */

void ut_step(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(own_seat()->step, sizeof(own_seat()->step), format, args);
    va_end(args);
}

/* A process that has failed stays until scripts/soak has taken its dump, and ends it. */
void ut_fail(const char *file, int line, const char *what, const char *format, ...)
{
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    char detail[512];
    va_list args;
    const char *base = strrchr(file, '/');

    pthread_mutex_lock(&once); /* for good: the first failure counts */
    va_start(args, format);
    vsnprintf(detail, sizeof(detail), format, args);
    va_end(args);
    snprintf(own_seat()->failure, sizeof(own_seat()->failure), "%s:%d: %s:%s",
             base ? base + 1 : file, line, what, detail);
    fprintf(stderr, "soak: rank %d: %s\n", ut_rank, own_seat()->failure);
    atomic_store(&board->failed, 1);
    for (;;)
        pause();
}

static void stay_if_failed(void)
{
    while (atomic_load_explicit(&board->failed, memory_order_relaxed))
        pause();
}

void ut_relax(void)
{
    stay_if_failed();
    sched_yield();
}

void ut_barrier(void)
{
    uint64_t mine = atomic_fetch_add(&own_seat()->barriers, 1) + 1;

    for (int rank = 0; rank < ut_size; rank++)
        for (unsigned int turns = 0; atomic_load(&board->seat[rank].barriers) < mine; turns++) {
            if (soak_is_dead(rank) && atomic_load(&board->seat[rank].barriers) < mine)
                break;
            ut_relax();
            if (turns > 100)
                nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
        }
    stay_if_failed();
}

void ut_allgather(const void *mine, void *all, size_t size)
{
    CHECK(size <= UT_ADDRESS_RECORD_MAX);
    ut_barrier(); /* all processes have read the last record */
    memcpy(own_seat()->record, mine, size);
    ut_barrier();
    for (int rank = 0; rank < ut_size; rank++)
        memcpy((uint8_t *)all + (size_t)rank * size, board->seat[rank].record, size);
}

_Atomic uint64_t *ut_cell(int number)
{
    CHECK(number >= 0 && number < UT_NUM_CELLS);
    return &board->cells[number];
}

int ut_pid_of(int rank)
{
    return (int)atomic_load(&board->seat[rank].pid);
}
