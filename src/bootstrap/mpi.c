/* SPDX-License-Identifier: Apache-2.0 */
/* Asking the MPI library of this process, if there is one. */
#include "bootstrap/mpi.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

typedef int mpi_query(int *flag);

/* A library that a plugin or an interpreter loaded is not among the global symbols. */
static void *find_local(const char *name)
{
    static const char *const libraries[] = {"libmpich.so.12", "libmpi.so.12", "libmpi.so.40"};

    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
        void *library = dlopen(libraries[i], RTLD_NOW | RTLD_NOLOAD);
        if (library) {
            void *address = dlsym(library, name);
            dlclose(library);
            return address;
        }
    }
    return NULL;
}

static int ask(const char *name)
{
    void *address = dlsym(RTLD_DEFAULT, name);
    mpi_query *query;
    int flag = 0;

    if (!address)
        address = find_local(name);
    if (!address)
        return -1;
    memcpy(&query, &address, sizeof(query));
    query(&flag);
    return flag != 0;
}

enum ut_job_mpi ut_job_mpi_state(void)
{
    int initialized = ask("MPI_Initialized");

    if (initialized < 0)
        return UT_JOB_MPI_NONE;
    if (initialized == 0)
        return UT_JOB_MPI_BEFORE;
    return ask("MPI_Finalized") == 1 ? UT_JOB_MPI_OVER : UT_JOB_MPI_ACTIVE;
}
