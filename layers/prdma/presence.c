/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out which processes have this layer. A process without the layer takes part in no
 * collective step of the layer, so the others must find out without it. Each process publishes a
 * name through the launcher in MPI_Init. All members of a communicator have left MPI_Init, so a
 * name that is missing now will never appear. One process looks up all names and publishes the
 * result; the others wait for the result.
 */
#include "presence.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME = 64, LOOK_UP_US = 50 };

/* Lets the calls that publish and look up names return errors, whatever handler the program has
 * set. */
struct handlers {
    MPI_Errhandler world, self;
};

bool pr_other_mpi;

static bool announced;

static void set_handlers(struct handlers *h)
{
    PMPI_Comm_get_errhandler(MPI_COMM_WORLD, &h->world);
    PMPI_Comm_get_errhandler(MPI_COMM_SELF, &h->self);
    PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    PMPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
}

static void restore_handlers(struct handlers *h)
{
    PMPI_Comm_set_errhandler(MPI_COMM_WORLD, h->world);
    PMPI_Comm_set_errhandler(MPI_COMM_SELF, h->self);
    PMPI_Errhandler_free(&h->world);
    PMPI_Errhandler_free(&h->self);
}

static bool publish_name(const char *name, const char *value)
{
    char copy[MPI_MAX_PORT_NAME];

    snprintf(copy, sizeof(copy), "%s", value);
    return PMPI_Publish_name(name, MPI_INFO_NULL, copy) == MPI_SUCCESS;
}

static bool look_up(const char *name, char value[MPI_MAX_PORT_NAME])
{
    return PMPI_Lookup_name(name, MPI_INFO_NULL, value) == MPI_SUCCESS;
}

/* Is the running MPI the one that the handles belong to? */
static bool is_this_mpi(const char *version)
{
    bool open_mpi = strstr(version, "Open MPI") != NULL;
#ifdef OPEN_MPI
    return open_mpi;
#else
    return !open_mpi;
#endif
}

/* Does not call MPI, whose handles are unknown here. */
static bool is_first_rank(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK",
                                        "SLURM_PROCID"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = getenv(names[i]);

        if (value != NULL)
            return strcmp(value, "0") == 0;
    }
    return true;
}

/*
 * Checks for a program that loads MPI at run time, as mpi4py does: the symbols of MPI did not exist
 * when this library was bound. Makes the MPI library global, so that the program runs without the
 * layer.
 */
void pr_presence_before_init(void)
{
    static const char *const libraries[] = {
#ifdef OPEN_MPI
        "libmpi.so.40", "libmpich.so.12", "libmpi.so.12"
#else
        "libmpich.so.12", "libmpi.so.12", "libmpi.so.40"
#endif
    };

    if (dlsym(RTLD_DEFAULT, "PMPI_Init") != NULL)
        return;
    pr_other_mpi = true;
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
        if (dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL) == NULL)
            continue;
        if (is_first_rank())
            pr_warn("the program loads MPI when it runs, and goes on without libprdma; with %s "
                    "behind libprdma in LD_PRELOAD it is used",
                    libraries[i]);
        return;
    }
}

static void disable_layer(const char *version)
{
#ifdef OPEN_MPI
    static const char mpi[] = "openmpi";
#else
    static const char mpi[] = "mpich";
#endif

    pr_other_mpi = true;
    if (is_first_rank())
        pr_warn("libprdma-%s.so is in front of a program of another MPI (%.*s), which goes on "
                "without it; prdma-run finds out which library is needed",
                mpi, (int)strcspn(version, ",\n"), version);
}

void pr_presence_publish(void)
{
    char name[NAME], version[MPI_MAX_LIBRARY_VERSION_STRING > 8192 ? MPI_MAX_LIBRARY_VERSION_STRING
                                                                   : 8192]; /* of any MPI */
    struct handlers handlers;
    int length;

    if (pr_other_mpi)
        return;
    PMPI_Get_library_version(version, &length);
    if (!is_this_mpi(version)) {
        disable_layer(version);
        return;
    }
    PMPI_Comm_rank(MPI_COMM_WORLD, &pr_log.rank);
    set_handlers(&handlers);
    snprintf(name, sizeof(name), "prdma-%d", pr_log.rank);
    announced = publish_name(name, "1");
    restore_handlers(&handlers);
}

/* The ranks in MPI_COMM_WORLD of the processes of a communicator; MPI_UNDEFINED: of another job. */
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

static uint64_t hash_ranks(const int *ranks, int count)
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

/* Reads what another process has published: a rank, or -1. For any other text returns this
 * process's own rank: all processes that read it go on without the layer. */
static int published_rank(const char *name, const char *value)
{
    char *end;
    errno = 0;
    long rank = strtol(value, &end, 10);

    if (end != value && *end == '\0' && errno == 0 && rank >= -1 && rank <= INT_MAX)
        return (int)rank;
    pr_warn("\"%.64s\", published as %s, is not a rank: does another program publish this name?",
            value, name);
    return pr_log.rank;
}

/* The rank that lacks the layer, or -1. The result for the same processes never changes. */
static int missing_rank(const struct pr_comm *c, const int *ranks, int count)
{
    char name[NAME], value[MPI_MAX_PORT_NAME];
    int missing;

    snprintf(name, sizeof(name), "prdma-all-%016llx", (unsigned long long)hash_ranks(ranks, count));
    if (c->rank == 0) {
        if (look_up(name, value))
            return published_rank(name, value);
        missing = first_missing(ranks, count);
        snprintf(value, sizeof(value), "%d", missing);
        publish_name(name, value);
        return missing;
    }
    if (first_missing(ranks, 1) >= 0)
        return ranks[0];
    struct lc_stall_timer stall = {0};
    while (!look_up(name, value)) {
        if (lc_stall_should_log(&stall, LC_STALL_SLEEPING_LOOP))
            pr_warn("a collective call has waited %llu s for rank %d, which finds out whether all "
                    "processes have libprdma in front of them",
                    lc_stall_seconds(&stall), ranks[0]);
        usleep(LOOK_UP_US);
    }
    return published_rank(name, value);
}

bool pr_presence_everywhere(struct pr_comm *c)
{
    int count;
    struct handlers handlers;

    if (c->presence != PR_UNKNOWN)
        return c->presence == PR_ALL;
    c->presence = PR_SOME;
    int *ranks = world_ranks(c, &count);
    if (ranks == NULL)
        return false;
    for (int i = 0; i < count; i++) {
        if (ranks[i] == MPI_UNDEFINED) { /* each side of a spawn sees the other side like this */
            free(ranks);
            return false;
        }
    }
    c->presence = PR_ALL;
    int missing = -1;
    if (announced) { /* otherwise the launcher does not support names */
        set_handlers(&handlers);
        missing = missing_rank(c, ranks, count);
        restore_handlers(&handlers);
    }
    if (missing >= 0) {
        c->presence = PR_SOME;
        if (c->rank == 0 || (c->rank == 1 && missing == ranks[0]))
            pr_warn("rank %d has no libprdma in front of it: MPI's own calls are used", missing);
    }
    free(ranks);
    return c->presence == PR_ALL;
}
