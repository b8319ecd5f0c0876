/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors of a layer: never 0 to 2, which are the program's also while they are closed; and as
 * the program may close those of a layer, a mark tells whether a number is still the layer's
 * (src/util/fd.h says how). */
#ifndef LC_FD_H
#define LC_FD_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

/* Moves a new descriptor of 0 to 2 to a number above; a negative fd and errno stay. */
static inline int lc_fd_high(int fd)
{
    enum { NUM_STANDARD = 3 };

    if (fd < 0 || fd >= NUM_STANDARD)
        return fd;
    int high = fcntl(fd, F_DUPFD_CLOEXEC, NUM_STANDARD), error = errno;
    close(fd);
    errno = error;
    return high;
}

/* lc_fd_high() of a descriptor that stays open. */
static inline int lc_fd_own(int fd)
{
    fd = lc_fd_high(fd);
    if (fd >= 0)
        fcntl(fd, F_SETSIG, SIGURG);
    return fd;
}

/* Closes a descriptor of lc_fd_own(), unless its number is another file's by now. */
static inline void lc_fd_close(int fd)
{
    if (fd >= 0 && fcntl(fd, F_GETSIG) == SIGURG)
        close(fd);
}

#endif
