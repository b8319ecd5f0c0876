/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the test of a failing start of a layer: a process comes late, or the layer gets no thread.
 * The including file defines CHECK and ALONE_LIBRARY, the name of the layer's library. The
 * processes of a job report their failure by files, whose names have that name and the launcher's
 * process id.
 */
#ifndef UT_TEST_ALONE_H
#define UT_TEST_ALONE_H

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LATE = 1 }; /* the rank of the late process */

static bool no_thread;

/* Replaces the C library's function: the layer gets no thread. */
__attribute__((visibility("default"))) int pthread_create(pthread_t *thread,
                                                          const pthread_attr_t *attr,
                                                          void *(*run)(void *), void *arg)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    void *symbol = dlsym(RTLD_NEXT, "pthread_create"), *address;
    Dl_info info;

    memcpy(&address, &run, sizeof(address));
    memcpy(&real, &symbol, sizeof(real));
    if (no_thread && dladdr(address, &info) != 0 && strstr(info.dli_fname, ALONE_LIBRARY) != NULL)
        return EAGAIN;
    return real(thread, attr, run, arg);
}

static void name_file(char path[100], int rank)
{
    snprintf(path, 100, "/tmp/%s_alone.%ld.%d", ALONE_LIBRARY, (long)getppid(), rank);
}

static void say(int rank)
{
    char path[100];

    name_file(path, rank);
    CHECK(close(open(path, O_CREAT | O_WRONLY, 0600)) == 0);
}

/* Waits for the others' files. */
static void wait_for_all(int procs)
{
    char path[100];

    for (int r = 0; r < procs; r++)
        for (name_file(path, r); r != LATE && access(path, F_OK) != 0;)
            usleep(1000);
}

#endif
