/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors of a layer. The numbers 0 to 2 belong to the program even while they are closed, so a
 * layer never uses them. The program may close descriptors of a layer and reuse their numbers, so a
 * mark shows whether a number still belongs to the layer (see src/util/fd.h). */
#ifndef LC_FD_H
#define LC_FD_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

/* Moves a new descriptor from 0, 1 or 2 to a higher number. Leaves a negative fd and errno
 * unchanged. */
static inline int lc_fd_above_stdio(int fd)
{
    enum { NUM_STANDARD = 3 };

    if (fd < 0 || fd >= NUM_STANDARD)
        return fd;
    int high = fcntl(fd, F_DUPFD_CLOEXEC, NUM_STANDARD), error = errno;
    close(fd);
    errno = error;
    return high;
}

/* lc_fd_above_stdio() for a descriptor that stays open; also sets the mark. */
static inline int lc_fd_open_ours(int fd)
{
    fd = lc_fd_above_stdio(fd);
    if (fd >= 0)
        fcntl(fd, F_SETSIG, SIGURG);
    return fd;
}

/* Closes a descriptor of lc_fd_open_ours(), unless its number belongs to another file now. */
static inline void lc_fd_close(int fd)
{
    if (fd >= 0 && fcntl(fd, F_GETSIG) == SIGURG)
        close(fd);
}

#endif
