/* SPDX-License-Identifier: Apache-2.0 */
/* Is there a recording, and is the MPI library the one that this library was built for? */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mr.h"

enum { VERSION_MAX = 8192 }; /* bytes of the version of any MPI */

static bool other_mpi;

static void stop_in_child(void)
{
    mr_begun = false;
}

static bool is_wanted(const char *variable)
{
    const char *value = getenv(variable);

    return value && strstr(value, ",record=1");
}

/* The recording begins with MPI, and not with the first call of uTofu: the calls of all processes
 * before that have to be in it, or in none. */
static void open_recording(void)
{
    typedef int coords_call(uint8_t coords[]);
    uint8_t coords[8];

    if (mr_to || !(is_wanted("UTOFU_TRACE") || is_wanted("UTOFU_OBSERVE_TRACE")))
        return;
    coords_call *query_coords =
        (coords_call *)(uintptr_t)dlsym(RTLD_DEFAULT, "utofu_query_my_coords");
    if (query_coords)
        (void)query_coords(coords);
}

static bool is_first_rank(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK",
                                        "SLURM_PROCID"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = getenv(names[i]);
        if (value)
            return strcmp(value, "0") == 0;
    }
    return true;
}

static void warn_first(const char *text)
{
    if (is_first_rank() && (is_wanted("UTOFU_TRACE") || is_wanted("UTOFU_OBSERVE_TRACE")))
        fprintf(stderr, "utofu-record-mpi: %s: calls of MPI are not recorded\n", text);
}

static bool is_this_mpi(void)
{
    char version[VERSION_MAX];
    int length;

    PMPI_Get_library_version(version, &length);
#ifdef OPEN_MPI
    return strstr(version, "Open MPI") != NULL;
#else
    return strstr(version, "Open MPI") == NULL;
#endif
}

/* Handles of MPICH are numbers of 32 bits, those of Open MPI addresses, of which the wrappers would
 * pass half. */
static void refuse_handles(void)
{
#ifndef OPEN_MPI
    if (is_this_mpi())
        return;
    fputs("utofu-record-mpi: libutofu-record-mpich.so cannot go in front of a program of Open MPI; "
          "utofu-record finds the right library\n",
          stderr);
    exit(1);
#endif
}

/* A program that loads MPI when it runs: its symbols were not there when this library was bound.
 * They are made global, so that the wrappers find them. */
void mr_find_mpi(void)
{
    static const char *const libraries[] = {
#ifdef OPEN_MPI
        "libmpi.so.40", "libmpich.so.12", "libmpi.so.12"
#else
        "libmpich.so.12", "libmpi.so.12", "libmpi.so.40"
#endif
    };

    if (dlsym(RTLD_DEFAULT, "PMPI_Init")) {
        refuse_handles();
        return;
    }
    other_mpi = true;
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
        if (dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL)) {
            warn_first("the program loads MPI when it runs; put the MPI library behind this one "
                       "in LD_PRELOAD");
            return;
        }
    }
}

void mr_begin(void)
{
    int rank, size;

    if (other_mpi)
        return;
    if (!is_this_mpi()) {
        other_mpi = true;
        warn_first("this library is for another MPI library; utofu-record finds the right one");
        return;
    }
    open_recording();
    if (!mr_to)
        return;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    uint64_t begin = mr_to->begin();
    int64_t numbers[] = {rank, size};
    mr_to->write(begin, UT_RECORD_MPI_BEGIN, false, numbers, 2);
    mr_comm(MPI_COMM_WORLD, begin);
    mr_comm(MPI_COMM_SELF, begin);
    mr_begun = pthread_atfork(NULL, NULL, stop_in_child) == 0;
}

MR_EXPORT int MPI_Init(int *argc, char ***argv)
{
    mr_find_mpi();
    int rc = PMPI_Init(argc, argv);
    if (rc == MPI_SUCCESS)
        mr_begin();
    return rc;
}

MR_EXPORT int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    mr_find_mpi();
    int rc = PMPI_Init_thread(argc, argv, required, provided);
    if (rc == MPI_SUCCESS)
        mr_begin();
    return rc;
}

MR_EXPORT int MPI_Finalize(void)
{
    mr_begun = false;
    return PMPI_Finalize();
}
