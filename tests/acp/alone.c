/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Process 1 does not come to acp_init(): the others get -1 and leave nothing behind, so that they
 * can try again when it comes. They say so by files, whose names have the launcher's process id.
 *
 * And none gets a thread, which is an error too.
 *
 *     utofurun -n PROCS acp_alone PROCS
 */
#include "check.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

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
    if (no_thread && dladdr(address, &info) != 0 &&
        strstr(info.dli_fname, "libacpbl_utofu") != NULL)
        return EAGAIN;
    return real(thread, attr, run, arg);
}

static void name_file(char path[100], int rank)
{
    snprintf(path, 100, "/tmp/acp_alone.%ld.%d", (long)getppid(), rank);
}

static void say(int rank)
{
    char path[100];

    name_file(path, rank);
    CHECK(close(open(path, O_CREAT | O_WRONLY, 0600)) == 0);
}

static void wait_for_all(int procs)
{
    char path[100];

    for (int r = 0; r < procs; r++)
        for (name_file(path, r); r != LATE && access(path, F_OK) != 0;)
            usleep(1000);
}

int main(int argc, char **argv)
{
    const char *rank = getenv("UTOFU_RANK");
    char path[100];
    int procs, me;

    CHECK(argc == 2 && rank != NULL);
    procs = atoi(argv[1]);
    me = atoi(rank);
    setenv("UTOFU_JOB_TIMEOUT", "1", 1);
    if (me != LATE) {
        CHECK(acp_init(NULL, NULL) == -1);
        CHECK(acp_rank() == -1 && acp_sync() == -1);
        say(me);
    }
    wait_for_all(procs);
    setenv("UTOFU_JOB_TIMEOUT", "120", 1);
    CHECK(acp_init(NULL, NULL) == 0);
    CHECK(acp_procs() == procs && acp_rank() == me);
    CHECK(acp_sync() == 0);
    CHECK(acp_finalize() == 0);
    no_thread = true;
    CHECK(acp_init(NULL, NULL) == -1);
    no_thread = false;
    CHECK(acp_init(NULL, NULL) == 0);
    CHECK(acp_sync() == 0);
    CHECK(acp_finalize() == 0);
    name_file(path, me);
    unlink(path);
    return 0;
}
