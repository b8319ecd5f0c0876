/* SPDX-License-Identifier: Apache-2.0 */
/* See board.h. Implements harness.h, with seats.c, for processes that a launcher has started. */
#include "board.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct soak_board *board;

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
    ut_seat_take(rank, size);
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

bool ut_is_dead(int rank)
{
    return atomic_load_explicit(&board->dead, memory_order_relaxed) >> rank & 1;
}

bool soak_any_dead(void)
{
    return atomic_load_explicit(&board->dead, memory_order_relaxed) != 0;
}

bool soak_missed(void)
{
    uint64_t mine = atomic_load(&ut_seat_of(ut_rank)->barriers);

    for (int rank = 0; rank < ut_size; rank++)
        if (ut_is_dead(rank) && atomic_load(&ut_seat_of(rank)->barriers) < mine)
            return true;
    return false;
}

/* For seats.c */

struct ut_seat *ut_seat_of(int rank)
{
    return &board->seat[rank].seat;
}

_Atomic uint64_t *ut_cells(void)
{
    return board->cells;
}

uint64_t ut_seed(void)
{
    return atomic_load(&board->seed);
}

/* A process that has failed stays until scripts/soak has taken its dump, and ends it. */
void ut_fail(const char *file, int line, const char *what, const char *format, ...)
{
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    va_list args;

    pthread_mutex_lock(&once); /* for good: the first failure counts */
    va_start(args, format);
    ut_seat_fail(file, line, what, format, args);
    va_end(args);
    fprintf(stderr, "soak: rank %d: %s\n", ut_rank, ut_seat_of(ut_rank)->failure);
    atomic_store(&board->failed, 1);
    for (;;)
        pause();
}

void ut_leave_if_failed(void)
{
    while (atomic_load_explicit(&board->failed, memory_order_relaxed))
        pause();
}
