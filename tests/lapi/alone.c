/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Task 1 does not come to LAPI_Init(): the others get a code and leave nothing behind, so that they
 * can try again when it comes. They say so by files, whose names have the launcher's process id.
 *
 * And none gets a thread, which is an error too.
 *
 *     utofurun -n TASKS lapi_alone TASKS
 */
#include "check.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>

enum { LATE = 1 };

static bool no_thread;

/* In place of the C library's: the layer gets no thread. */
__attribute__((visibility("default"))) int pthread_create(pthread_t *thread,
                                                          const pthread_attr_t *attr,
                                                          void *(*run)(void *), void *arg)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    void *symbol = dlsym(RTLD_NEXT, "pthread_create"), *address;
    Dl_info info;

    memcpy(&address, &run, sizeof(address));
    memcpy(&real, &symbol, sizeof(real));
    if (no_thread && dladdr(address, &info) != 0 && strstr(info.dli_fname, "liblapi_utofu") != NULL)
        return EAGAIN;
    return real(thread, attr, run, arg);
}

static void name_file(char path[100], int rank)
{
    snprintf(path, 100, "/tmp/lapi_alone.%ld.%d", (long)getppid(), rank);
}

static void say(int rank)
{
    char path[100];

    name_file(path, rank);
    CHECK(close(open(path, O_CREAT | O_WRONLY, 0600)) == 0);
}

static void wait_for_all(int tasks)
{
    char path[100];

    for (int r = 0; r < tasks; r++)
        for (name_file(path, r); r != LATE && access(path, F_OK) != 0;)
            usleep(1000);
}

int main(int argc, char **argv)
{
    const char *rank = getenv("UTOFU_RANK");
    lapi_info_t info = {0};
    char path[100];
    int tasks;

    CHECK(argc == 2 && rank != NULL);
    tasks = atoi(argv[1]);
    me = atoi(rank);
    setenv("UTOFU_JOB_TIMEOUT", "1", 1);
    if (me != LATE) {
        CHECK(LAPI_Init(&hndl, &info) == LAPI_ERR_INIT_FAILED);
        CHECK(LAPI_Probe(hndl) == LAPI_ERR_HNDL_INVALID);
        say(me);
    }
    wait_for_all(tasks);
    setenv("UTOFU_JOB_TIMEOUT", "120", 1);
    init(NULL);
    CHECK(n == tasks && me == atoi(rank));
    OK(LAPI_Gfence(hndl));
    OK(LAPI_Term(hndl));
    no_thread = true;
    CHECK(LAPI_Init(&hndl, &info) == LAPI_ERR_INIT_FAILED);
    no_thread = false;
    init(NULL);
    OK(LAPI_Gfence(hndl));
    OK(LAPI_Term(hndl));
    name_file(path, me);
    unlink(path);
    return 0;
}
