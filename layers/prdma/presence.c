/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has this layer? A process without it takes part in nothing that the layer does together, so
 * it must be found out without it. Each process publishes a name with the launcher in MPI_Init. All
 * members of a communicator have passed MPI_Init, so a name that is not there will never be. One
 * process looks for all names and publishes what it has found; the others wait for that.
 */
#include "mpilayer.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 64 };

/* Errors of the calls with names come back, whatever the program has set. */
struct handlers {
    MPI_Errhandler world, self;
};

static bool announced;

static void take_handlers(struct handlers *h)
{
    PMPI_Comm_get_errhandler(MPI_COMM_WORLD, &h->world);
    PMPI_Comm_get_errhandler(MPI_COMM_SELF, &h->self);
    PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    PMPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
}

static void give_handlers_back(struct handlers *h)
{
    PMPI_Comm_set_errhandler(MPI_COMM_WORLD, h->world);
    PMPI_Comm_set_errhandler(MPI_COMM_SELF, h->self);
    PMPI_Errhandler_free(&h->world);
    PMPI_Errhandler_free(&h->self);
}

static bool publish(const char *name, const char *value)
{
    char copy[MPI_MAX_PORT_NAME];

    snprintf(copy, sizeof(copy), "%s", value);
    return PMPI_Publish_name(name, MPI_INFO_NULL, copy) == MPI_SUCCESS;
}

static bool look_up(const char *name, char value[MPI_MAX_PORT_NAME])
{
    return PMPI_Lookup_name(name, MPI_INFO_NULL, value) == MPI_SUCCESS;
}

/*
 * Handles of the other MPI mean nothing here. As a program of it makes no request that the layer
 * takes over, everything goes on to its MPI if only no call is made here.
 */
static bool is_this_mpi(void)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;

    PMPI_Get_library_version(version, &length);
    bool open_mpi = strstr(version, "Open MPI") != NULL;
#ifdef OPEN_MPI
    return open_mpi;
#else
    return !open_mpi;
#endif
}

void pr_presence_announce(void)
{
    char name[NAME];
    struct handlers handlers;

    if (!is_this_mpi()) {
        pr_warn("this library is not for the MPI of the program, which goes on without it");
        return;
    }
    PMPI_Comm_rank(MPI_COMM_WORLD, &pr_log_rank);
    take_handlers(&handlers);
    snprintf(name, sizeof(name), "prdma-%d", pr_log_rank);
    announced = publish(name, "1");
    give_handlers_back(&handlers);
}

/* The ranks in MPI_COMM_WORLD of the processes of a communicator; MPI_UNDEFINED: another job. */
static int *world_ranks(const struct pr_comm *c, int *count)
{
    MPI_Group group, world;

    PMPI_Comm_size(c->user, count);
    int *ranks = malloc(2 * (size_t)*count * sizeof(int));
    if (ranks == NULL)
        return NULL;
    for (int i = 0; i < *count; i++)
        ranks[*count + i] = i;
    PMPI_Comm_group(c->user, &group);
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    PMPI_Group_translate_ranks(group, *count, ranks + *count, world, ranks);
    PMPI_Group_free(&group);
    PMPI_Group_free(&world);
    return ranks;
}

static uint64_t hash(const int *ranks, int count)
{
    uint64_t h = 14695981039346656037u;

    for (int i = 0; i < count; i++)
        h = (h ^ (uint64_t)(unsigned)ranks[i]) * 1099511628211u;
    return h;
}

static int first_missing(const int *ranks, int count)
{
    char name[NAME], value[MPI_MAX_PORT_NAME];

    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof(name), "prdma-%d", ranks[i]);
        if (!look_up(name, value))
            return ranks[i];
    }
    return -1;
}

/* The rank that lacks the layer, or -1. The verdict on the same processes is the same for ever. */
static int missing_rank(const struct pr_comm *c, const int *ranks, int count)
{
    char name[NAME], value[MPI_MAX_PORT_NAME];
    int missing;

    snprintf(name, sizeof(name), "prdma-all-%016llx", (unsigned long long)hash(ranks, count));
    if (c->rank == 0) {
        if (look_up(name, value))
            return atoi(value);
        missing = first_missing(ranks, count);
        snprintf(value, sizeof(value), "%d", missing);
        publish(name, value);
        return missing;
    }
    if (first_missing(ranks, 1) >= 0)
        return ranks[0];
    while (!look_up(name, value))
        sched_yield();
    return atoi(value);
}

bool pr_presence_all(struct pr_comm *c)
{
    int count;
    struct handlers handlers;

    if (c->shims != PR_UNKNOWN)
        return c->shims == PR_ALL;
    c->shims = PR_SOME;
    int *ranks = world_ranks(c, &count);
    if (ranks == NULL)
        return false;
    for (int i = 0; i < count; i++) {
        if (ranks[i] == MPI_UNDEFINED) { /* each side of a spawn sees it so */
            free(ranks);
            return false;
        }
    }
    c->shims = PR_ALL;
    int missing = -1;
    if (announced) { /* else the launcher knows no names */
        take_handlers(&handlers);
        missing = missing_rank(c, ranks, count);
        give_handlers_back(&handlers);
    }
    if (missing >= 0) {
        c->shims = PR_SOME;
        if (c->rank == 0 || (c->rank == 1 && missing == ranks[0]))
            pr_warn("rank %d has no libprdma in front of it: MPI's own calls are used", missing);
    }
    free(ranks);
    return c->shims == PR_ALL;
}
