/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators: each has a number, and the ranks of its processes in MPI_COMM_WORLD. */
#include <pthread.h>
#include <stdlib.h>

#include "mr.h"
#include "util/hash_table.h"

struct comm {
    struct ut_hash_entry by_handle;
    int64_t index;
};

static struct {
    pthread_mutex_t lock;
    struct ut_hash_table comms;
    int64_t num;
} known_comms = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The ranks of its processes in MPI_COMM_WORLD. NULL: not of one world, or no memory. */
static int *find_ranks(MPI_Comm comm, int *size)
{
    MPI_Group group, world;
    int inter = 0;

    *size = 0;
    PMPI_Comm_test_inter(comm, &inter);
    if (inter)
        return NULL;
    PMPI_Comm_size(comm, size);
    int *own = malloc(2 * (size_t)*size * sizeof(*own)), *ranks = own ? own + *size : NULL;
    if (!own)
        return NULL;
    for (int i = 0; i < *size; i++)
        ranks[i] = i;
    PMPI_Comm_group(comm, &group);
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    PMPI_Group_translate_ranks(group, *size, ranks, world, own);
    PMPI_Group_free(&group);
    PMPI_Group_free(&world);
    for (int i = 0; i < *size; i++) {
        if (own[i] == MPI_UNDEFINED) {
            free(own);
            return NULL;
        }
    }
    return own;
}

/* How many ranks from `at` on have the same distance. */
static int measure_run(const int *ranks, int at, int size, int *stride)
{
    int n = 1;

    *stride = at + 1 < size ? ranks[at + 1] - ranks[at] : 1;
    while (at + n < size && ranks[at + n] - ranks[at + n - 1] == *stride)
        n++;
    return n;
}

static void write_comm(MPI_Comm comm, int64_t index, uint64_t begin)
{
    int size, stride;
    int *ranks = find_ranks(comm, &size);
    int64_t numbers[UT_RECORD_MPI_NUMBERS] = {index, ranks ? size : 0};
    unsigned int n = 2;

    for (int at = 0, run; ranks && at < size; at += run) {
        if (n + 3 > UT_RECORD_MPI_NUMBERS) {
            mr_to->write(begin, UT_RECORD_MPI_COMM, true, numbers, n);
            n = 2;
        }
        run = measure_run(ranks, at, size, &stride);
        numbers[n++] = ranks[at];
        numbers[n++] = stride;
        numbers[n++] = run;
    }
    mr_to->write(begin, UT_RECORD_MPI_COMM, true, numbers, n);
    free(ranks);
}

int64_t mr_comm(MPI_Comm comm, uint64_t begin)
{
    uint64_t key = (uint64_t)(uintptr_t)comm;
    struct comm *c;

    pthread_mutex_lock(&known_comms.lock);
    UT_HASH_OBJECT(c, by_handle, ut_hash_find(&known_comms.comms, key));
    if (!c && ut_hash_reserve(&known_comms.comms) && (c = malloc(sizeof(*c)))) {
        c->index = known_comms.num++;
        ut_hash_insert(&known_comms.comms, &c->by_handle, key);
        write_comm(comm, c->index, begin);
    }
    int64_t index = c ? c->index : 0;
    pthread_mutex_unlock(&known_comms.lock);
    return index;
}

void mr_free_comm(MPI_Comm comm)
{
    struct comm *c;

    pthread_mutex_lock(&known_comms.lock);
    UT_HASH_OBJECT(c, by_handle, ut_hash_find(&known_comms.comms, (uint64_t)(uintptr_t)comm));
    if (c) {
        ut_hash_remove(&known_comms.comms, &c->by_handle);
        free(c);
    }
    pthread_mutex_unlock(&known_comms.lock);
}
