/* SPDX-License-Identifier: Apache-2.0 */
/* Queries the MPI library of this process, if there is one. */
#include "bootstrap/mpi.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION_MAX = 8192 }; /* MPI_MAX_LIBRARY_VERSION_STRING of MPICH; Open MPI's is 256 */

typedef int mpi_query(int *flag);
typedef int mpi_version(char *text, int *length);

/* If a plugin or an interpreter loaded the library, its symbols are not global. */
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

static void *find_function(const char *name)
{
    void *address = dlsym(RTLD_DEFAULT, name);

    return address ? address : find_local(name);
}

static int call_mpi_query(const char *name)
{
    void *address = find_function(name);
    mpi_query *query;
    int flag = 0;

    if (!address)
        return -1;
    memcpy(&query, &address, sizeof(query));
    query(&flag);
    return flag != 0;
}

enum ut_job_mpi ut_job_mpi_state(void)
{
    int initialized = call_mpi_query("MPI_Initialized");

    if (initialized < 0)
        return UT_JOB_MPI_NONE;
    if (initialized == 0)
        return UT_JOB_MPI_BEFORE;
    return call_mpi_query("MPI_Finalized") == 1 ? UT_JOB_MPI_OVER : UT_JOB_MPI_ACTIVE;
}

bool ut_job_mpi_fails_after_pmix(void)
{
    static const char name[] = "Open MPI v";
    char text[VERSION_MAX];
    void *address = find_function("MPI_Get_library_version");
    mpi_version *version;
    int length = 0;

    if (!address || ut_job_mpi_state() != UT_JOB_MPI_BEFORE)
        return false;
    memcpy(&version, &address, sizeof(version));
    version(text, &length); /* this function may be called before MPI_Init */
    return strncmp(text, name, strlen(name)) == 0 && atoi(text + strlen(name)) >= 5;
}
