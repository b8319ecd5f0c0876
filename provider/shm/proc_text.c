/* SPDX-License-Identifier: Apache-2.0 */
/* Reads small files of /proc and /sys: see proc_text.h. */
#include "proc_text.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "util/fd.h"

ssize_t sp_read_proc_text(const char *path, char *text, size_t size)
{
    int fd = ut_fd_above_stdio(open(path, O_RDONLY | O_CLOEXEC));
    ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
    int error = errno;

    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    errno = error;
    return n;
}
