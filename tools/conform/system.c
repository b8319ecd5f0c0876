/* SPDX-License-Identifier: Apache-2.0 */
/* What C99 lacks, by POSIX: the only file of utofu-conform that uses it. */
#define _POSIX_C_SOURCE 200809L
#include "system.h"
#include "frame.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

double cf_timeout_scale = 1;

double cf_system_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void cf_system_rest(double seconds)
{
    struct timespec t;
    if (!(seconds > 0))
        return;
    t.tv_sec = (time_t)seconds;
    t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
    while (nanosleep(&t, &t) != 0 && errno == EINTR)
        ;
}

void cf_system_yield(void)
{
    sched_yield();
}

void cf_system_host(char *name, size_t size)
{
    if (gethostname(name, size) != 0)
        strncpy(name, "unknown", size);
    name[size - 1] = '\0';
}

uint64_t cf_system_nonce(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return ((uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec) ^ (uint64_t)getpid() << 48;
}

int cf_system_folder(const char *path)
{
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

void cf_system_remove_folder(const char *path)
{
    rmdir(path);
}

void *cf_system_alloc(size_t alignment, size_t bytes)
{
    void *memory;
    return posix_memalign(&memory, alignment, bytes) == 0 ? memory : NULL;
}

int cf_system_terminal(void)
{
    return isatty(STDERR_FILENO);
}

static char deadline_message[512];

static void end_at_deadline(int signal_number)
{
    (void)signal_number;
    if (write(STDERR_FILENO, deadline_message, strlen(deadline_message)) < 0)
        _exit(4);
    _exit(3);
}

void cf_system_deadline(double seconds, const char *message)
{
    static int installed;
    alarm(0);
    if (!(seconds > 0))
        return;
    strncpy(deadline_message, message, sizeof(deadline_message) - 1);
    if (!installed) {
        struct sigaction action;
        memset(&action, 0, sizeof(action));
        action.sa_handler = end_at_deadline;
        sigaction(SIGALRM, &action, NULL);
        installed = 1;
    }
    alarm((unsigned)seconds + 1);
}

struct started {
    pthread_t id;
    int thread;
    void (*run)(int thread, void *argument);
    void *argument;
};

static void *run_started(void *argument)
{
    const struct started *s = argument;
    s->run(s->thread, s->argument);
    return NULL;
}

int cf_system_threads(int count, void (*run)(int thread, void *argument), void *argument)
{
    struct started *s = calloc((size_t)count, sizeof(*s));
    int i, running = 0;
    if (s == NULL)
        return 0;
    for (i = 0; i < count; i++) {
        s[i].thread = i;
        s[i].run = run;
        s[i].argument = argument;
        if (pthread_create(&s[i].id, NULL, run_started, &s[i]) != 0)
            break;
        running++;
    }
    for (i = 0; i < running; i++)
        pthread_join(s[i].id, NULL);
    free(s);
    return running == count;
}
