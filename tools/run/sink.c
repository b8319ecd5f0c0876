/* SPDX-License-Identifier: Apache-2.0 */
#include "run/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* A pipe or terminal can be opened again, with flags that are not shared. */
static int reopen(int fd)
{
    char path[32];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

void run_sink_open(struct run_sink *sink, int fd)
{
    struct stat st;

    sink->fd = fd;
    sink->is_socket = sink->broken = sink->separate = false;
    sink->used = 0;
    if (fstat(fd, &st) != 0)
        return;
    sink->is_socket = S_ISSOCK(st.st_mode);
    if (S_ISFIFO(st.st_mode) || (S_ISCHR(st.st_mode) && isatty(fd))) {
        int own = reopen(fd);
        if (own >= 0) {
            sink->fd = own;
            sink->separate = true;
        }
    }
}

bool run_sink_add(struct run_sink *sink, const char *text, size_t size)
{
    if (sink->broken)
        return true; /* it has no reader */
    if (size > sizeof(sink->text) - sink->used)
        return false;
    memcpy(sink->text + sink->used, text, size);
    sink->used += size;
    return true;
}

/* Writes one piece without waiting. A pipe that cannot be opened again, such as that of another
 * user, accepts PIPE_BUF bytes whenever poll() reports it writable. */
static ssize_t write_piece(struct run_sink *sink)
{
    struct pollfd p = {.fd = sink->fd, .events = POLLOUT};
    size_t n = sink->used;

    if (sink->is_socket)
        return send(sink->fd, sink->text, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (!sink->separate) {
        if (poll(&p, 1, 0) == 0) {
            errno = EAGAIN;
            return -1;
        }
        n = n < PIPE_BUF ? n : PIPE_BUF;
    }
    return write(sink->fd, sink->text, n);
}

int run_sink_flush(struct run_sink *sink)
{
    while (sink->used > 0) {
        ssize_t n = write_piece(sink);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return 0;
        if (n < 0) {
            sink->broken = true;
            sink->used = 0;
            return -errno;
        }
        sink->used -= (size_t)n;
        memmove(sink->text, sink->text + n, sink->used);
    }
    return 0;
}
