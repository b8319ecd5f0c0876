/* SPDX-License-Identifier: Apache-2.0 */
#include "util/write.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <unistd.h>

enum { READER_MS = 1000 };

/* Waits if necessary. True: the write may be repeated. */
static bool wait_to_retry(int fd, int error)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};

    if (error == EINTR)
        return true;
    return error == EAGAIN && poll(&p, 1, READER_MS) != 0;
}

int ut_write_all(int fd, const char *text, size_t size)
{
    int before = errno, error = 0;

    while (size > 0 && error == 0) {
        ssize_t n = write(fd, text, size);
        if (n > 0) {
            text += n;
            size -= (size_t)n;
        } else if (n == 0 || !wait_to_retry(fd, errno)) {
            error = n < 0 ? errno : EIO;
        }
    }
    errno = before;
    return error;
}
