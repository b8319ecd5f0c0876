/* SPDX-License-Identifier: Apache-2.0 */
#include "util/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    NUM_STANDARD = 3,
    MARK = SIGURG, /* the default action of this signal is none, even with O_ASYNC */
};

static bool marks_work = true; /* atomic; false: the kernel has no F_SETSIG */

FILE *ut_fd_open_file(const char *path)
{
    ut_fd_reserve_stdio();
    FILE *file = fopen(path, "re");
    ut_fd_release_stdio();
    return file;
}

DIR *ut_fd_open_folder(const char *path)
{
    ut_fd_reserve_stdio();
    DIR *folder = opendir(path);
    ut_fd_release_stdio();
    return folder;
}

/*
 * Keeping numbers 0 to 2 for the program
 */

static struct {
    pthread_mutex_t lock;
    pthread_once_t watches_forks;
    unsigned int users;
    bool taken[NUM_STANDARD]; /* this library has opened the number */
    bool gaps;                /* atomic */
} reserve = {.lock = PTHREAD_MUTEX_INITIALIZER, .watches_forks = PTHREAD_ONCE_INIT};

/* Opens /dev/null with O_PATH: read(), write() and select() fail on such a descriptor, as on a
 * closed one. */
static void take_closed(void)
{
    bool closed = false;
    int fd;

    for (int i = 0; i < NUM_STANDARD; i++)
        closed |= fcntl(i, F_GETFD) < 0 && errno == EBADF;
    __atomic_store_n(&reserve.gaps, closed, __ATOMIC_RELAXED);
    if (!closed)
        return;
    while ((fd = open("/", O_PATH | O_CLOEXEC)) >= 0 && fd < NUM_STANDARD)
        reserve.taken[fd] = true;
    if (fd >= 0)
        close(fd);
}

/* Closes the number, unless the program has replaced it by dup2(). */
static void give_back(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags >= 0 && (flags & O_PATH))
        close(fd);
}

static void give_back_all(void)
{
    for (int i = 0; i < NUM_STANDARD; i++) {
        if (reserve.taken[i])
            give_back(i);
        reserve.taken[i] = false;
    }
}

static void before_fork(void)
{
    pthread_mutex_lock(&reserve.lock);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&reserve.lock);
}

/* The child does not have the threads that would release the numbers. */
static void in_child(void)
{
    give_back_all();
    reserve.users = 0;
    pthread_mutex_unlock(&reserve.lock);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, in_parent, in_child);
}

void ut_fd_reserve_stdio(void)
{
    int error = errno;

    pthread_once(&reserve.watches_forks, watch_forks);
    pthread_mutex_lock(&reserve.lock);
    if (reserve.users++ == 0)
        take_closed();
    pthread_mutex_unlock(&reserve.lock);
    errno = error;
}

void ut_fd_release_stdio(void)
{
    int error = errno;

    pthread_mutex_lock(&reserve.lock);
    if (reserve.users > 0 && --reserve.users == 0)
        give_back_all();
    pthread_mutex_unlock(&reserve.lock);
    errno = error;
}

bool ut_fd_stdio_has_gaps(void)
{
    return __atomic_load_n(&reserve.gaps, __ATOMIC_RELAXED);
}

int ut_fd_release_stdio_and_move(int fd)
{
    int high = fd, error = errno;

    if (fd >= 0 && fd < NUM_STANDARD) {
        high = fcntl(fd, F_DUPFD_CLOEXEC, NUM_STANDARD);
        error = errno;
        close(fd);
    }
    ut_fd_release_stdio();
    errno = error;
    return high;
}

/*
 * Marks
 */

int ut_fd_mark_ours(int fd)
{
    if (fd >= 0 && fcntl(fd, F_SETSIG, MARK) != 0)
        __atomic_store_n(&marks_work, false, __ATOMIC_RELAXED);
    return fd;
}

bool ut_fd_is_still_ours(int fd)
{
    if (fd < NUM_STANDARD)
        return false;
    return __atomic_load_n(&marks_work, __ATOMIC_RELAXED) ? fcntl(fd, F_GETSIG) == MARK
                                                          : fcntl(fd, F_GETFD) >= 0;
}

void ut_fd_close(int fd)
{
    if (ut_fd_is_still_ours(fd))
        close(fd);
}

int ut_fd_resize(int fd, uint64_t size)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < size) {
        errno = EFBIG;
        return -1;
    }
    return ftruncate(fd, (off_t)size);
}
