/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of the library, and the end of a process whose main() has called pthread_exit(). Such a
 * process must end with the last thread of the program. The C library counts all threads, including
 * those of this library, which never end (start_thread() in nptl/pthread_create.c of glibc calls
 * exit(0) in the last one). So when main() has ended, a thread is started that waits for the
 * program's other threads.
 */
#include "util/fd.h"
#include "util/thread.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/back_off.h"

enum {
    MOST = 64, /* maximum number of known threads; any other thread counts as the program's */
    MIN_CHECK_MS = 10, /* first interval; later intervals grow */
    MAX_CHECK_MS = 1000,
};

static struct {
    pthread_mutex_t lock;
    pid_t ids[MOST]; /* 0: free entry */
    pid_t process;   /* the process of these threads; 0: none */
} ours = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct start {
    void *(*body)(void *);
    void *arg;
};

/*
 * The list of this library's threads
 */

static void lock_ours(void)
{
    pthread_mutex_lock(&ours.lock);
    if (ours.process == getpid())
        return;
    memset(ours.ids, 0, sizeof(ours.ids)); /* a child made by fork() does not have these threads */
    ours.process = getpid();
}

/* Replaces an id by another; 0 is a free entry. */
static void replace_id(pid_t old, pid_t new)
{
    bool done = false;

    lock_ours();
    for (int i = 0; i < MOST && !done; i++) {
        done = ours.ids[i] == old;
        if (done)
            ours.ids[i] = new;
    }
    pthread_mutex_unlock(&ours.lock);
}

bool ut_thread_is_ours(pid_t id)
{
    bool found = false;

    lock_ours();
    for (int i = 0; i < MOST; i++)
        found |= ours.ids[i] == id;
    pthread_mutex_unlock(&ours.lock);
    return found;
}

/* Calls visit() for each thread of this process. */
static void for_each_thread(void (*visit)(pid_t id, void *arg), void *arg)
{
    const struct dirent *entry;
    DIR *tasks = ut_fd_open_folder("/proc/self/task");

    while (tasks && (entry = readdir(tasks))) {
        if (entry->d_name[0] != '.')
            visit((pid_t)atoi(entry->d_name), arg);
    }
    if (tasks)
        closedir(tasks);
}

static bool blocks_all_signals(pid_t id)
{
    char path[64], line[128];
    unsigned long long blocked = 0, max = ~0ull & ~(1ull << (SIGKILL - 1) | 1ull << (SIGSTOP - 1));

    snprintf(path, sizeof(path), "/proc/self/task/%d/status", (int)id);
    FILE *f = ut_fd_open_file(path);
    while (f && fgets(line, sizeof(line), f)) {
        if (sscanf(line, "SigBlk: %llx", &blocked) == 1)
            break;
    }
    if (f)
        fclose(f);
    /* the C library uses signals 32 and 33 itself */
    return (blocked | 3ull << 31) == (max | 3ull << 31);
}

static void add_to_list(pid_t id, void *arg)
{
    struct ut_thread_list *list = arg;

    if (list->num < UT_THREAD_LIST_MAX)
        list->ids[list->num++] = id;
}

void ut_thread_list(struct ut_thread_list *list)
{
    list->num = 0;
    for_each_thread(add_to_list, list);
}

static void adopt_thread(pid_t id, void *arg)
{
    const struct ut_thread_list *before = arg;

    for (unsigned int i = 0; i < before->num; i++) {
        if (before->ids[i] == id)
            return;
    }
    if (before->num > 0 && before->num < UT_THREAD_LIST_MAX && !ut_thread_is_ours(id) &&
        blocks_all_signals(id))
        replace_id(0, id);
}

void ut_thread_adopt(const struct ut_thread_list *before)
{
    for_each_thread(adopt_thread, (void *)before);
}

/*
 * Starting
 */

static void *run_body(void *arg)
{
    struct start start = *(struct start *)arg;

    free(arg);
    replace_id(0, gettid());
    void *result = start.body(start.arg);
    replace_id(gettid(), 0);
    return result;
}

int ut_thread_create(const char *name, void *(*body)(void *), void *arg, pthread_t *thread)
{
    struct start *start = malloc(sizeof(*start));
    sigset_t all, old;
    pthread_t created;

    if (!start)
        return -ENOMEM;
    *start = (struct start){body, arg};
    lock_ours();
    pthread_mutex_unlock(&ours.lock);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&created, NULL, run_body, start);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0) {
        free(start);
        return -rc;
    }
    ut_fd_reserve_stdio(); /* the C library opens a file in /proc */
    if (name)
        pthread_setname_np(created, name);
    ut_fd_release_stdio();
    if (thread)
        *thread = created;
    else
        pthread_detach(created);
    return 0;
}

/*
 * The end of main()
 */

struct census {
    bool main_is_there; /* false: the list of threads could not be read */
    unsigned int program;
};

static void count_thread(pid_t id, void *arg)
{
    struct census *census = arg;

    census->main_is_there |= id == getpid();
    census->program += id != getpid() && !ut_thread_is_ours(id);
}

/* Has main() left its thread? The kernel keeps that thread until the process ends. */
static bool main_has_ended(void)
{
    char path[64], line[512] = "";

    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)getpid());
    FILE *f = ut_fd_open_file(path);
    if (f) {
        line[fread(line, 1, sizeof(line) - 1, f)] = '\0';
        fclose(f);
    }
    const char *behind_name = strrchr(line, ')');
    return behind_name && behind_name[1] == ' ' && behind_name[2] == 'Z';
}

static bool program_has_ended(void)
{
    struct census census = {0};

    if (main_has_ended())
        for_each_thread(count_thread, &census);
    return census.main_is_there && census.program == 0;
}

/* Ends the process, as the C library does after the last thread of the program. First delivers a
 * pending signal that no thread could take. */
static void *await_end(void *unused)
{
    unsigned int pause_ms = MIN_CHECK_MS;
    sigset_t none;

    do {
        usleep(pause_ms * 1000);
        pause_ms = (unsigned int)ut_retry_delay_next_ms(pause_ms, MIN_CHECK_MS, MAX_CHECK_MS);
    } while (!program_has_ended());
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
    exit(0);
    return unused;
}

static void on_end_of_main(void *value)
{
    (void)value;
    if (gettid() == getpid() && ours.process == getpid())
        ut_thread_create("utofu-end", await_end, NULL, NULL);
}

/* pthread_exit() in main()'s thread calls the destructor of the key. -z nodelete: the destructor is
 * never unloaded. */
__attribute__((constructor)) static void expect_end_of_main(void)
{
    pthread_key_t key;

    if (gettid() == getpid() && pthread_key_create(&key, on_end_of_main) == 0)
        pthread_setspecific(key, &ours); /* any value but NULL */
}
