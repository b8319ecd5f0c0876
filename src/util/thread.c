/* SPDX-License-Identifier: Apache-2.0 */
#include "util/thread.h"

#include <signal.h>

int ut_thread_create(const char *name, void *(*body)(void *), void *arg, pthread_t *thread)
{
    sigset_t all, old;
    pthread_t created;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&created, NULL, body, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0)
        return -rc;
    if (name)
        pthread_setname_np(created, name);
    if (thread)
        *thread = created;
    else
        pthread_detach(created);
    return 0;
}
