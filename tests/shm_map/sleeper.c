/* SPDX-License-Identifier: Apache-2.0 */
/* A library with a thread that sleeps in a system call, as those of MPI libraries have; the test
 * builds it under two names, one of which is such a library's. */
#include <pthread.h>
#include <stddef.h>
#include <sys/epoll.h>

__attribute__((visibility("default"))) int start_sleeper(void);

static void *sleep_in_epoll(void *arg)
{
    struct epoll_event event;
    int fd = epoll_create1(EPOLL_CLOEXEC);

    (void)arg;
    while (fd >= 0 && epoll_wait(fd, &event, 1, 3600 * 1000) <= 0)
        ;
    return NULL;
}

int start_sleeper(void)
{
    pthread_t thread;

    return pthread_create(&thread, NULL, sleep_in_epoll, NULL);
}
