/* SPDX-License-Identifier: Apache-2.0 */
/* A job of this program's children, all on one host, without a launcher. */
#ifndef BENCH_FORKED_H
#define BENCH_FORKED_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "rank %d: failed: %s\n", rank, #cond);                                 \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static int size, rank;

/* A barrier: polls `count`, which is in shared memory, every `interval` microseconds. */
static void await_all(uint32_t *count, useconds_t interval)
{
    __atomic_add_fetch(count, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(count, __ATOMIC_SEQ_CST) < (uint32_t)size)
        usleep(interval);
}

static void set_number(const char *name, int value)
{
    char text[16];

    snprintf(text, sizeof(text), "%d", value);
    setenv(name, text, 1);
}

/* Zeroed memory, shared with processes that are started later. */
static void *shared_memory(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    CHECK(memory != MAP_FAILED);
    return memory;
}

static int be_rank(const char *root, int (*process)(void))
{
    setenv("UTOFU_ROOT", root, 1);
    set_number("UTOFU_RANK", rank);
    set_number("UTOFU_SIZE", size);
    set_number("UTOFU_LOCAL_RANK", rank);
    set_number("UTOFU_LOCAL_SIZE", size);
    return process();
}

/* Runs `size` processes until all have ended, or one has failed: then returns 1, and the caller
 * must exit, which ends the others. */
static int run_processes(const char *name, int (*process)(void))
{
    int failed = 0, status;
    char root[64];

    snprintf(root, sizeof(root), "unix:@%s-%ld", name, (long)getpid());
    fflush(NULL);
    for (rank = 0; rank < size; rank++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0)
            exit(be_rank(root, process));
    }
    for (int left = size; left > 0 && !failed; left--)
        failed = wait(&status) < 0 || status != 0;
    return failed;
}

#endif
