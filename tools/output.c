/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *name;
static int failed; /* the number of the first error */

void tool_output_failed(int error)
{
    if (!failed)
        failed = error;
}

int tool_output_flush(void)
{
    if (fflush(stdout) != 0)
        tool_output_failed(errno);
    else if (ferror(stdout))
        tool_output_failed(EIO); /* of an earlier one nothing is left but that it was */
    return failed;
}

/* The first one that was registered, so the last one that is called. */
static void finish(void)
{
    int error = tool_output_flush();

    if (error == 0 && fclose(stdout) != 0)
        error = errno;
    if (error == 0)
        return;
    fprintf(stderr, "%s: cannot write to standard output: %s\n", name, strerror(error));
    _exit(1);
}

/* Opened the wrong way round, so that they fail as closed ones do. */
static void occupy_closed(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) < 0)
            return; /* no /dev/null: it is as it was */
}

void tool_output_open(const char *tool)
{
    name = tool;
    occupy_closed();
    atexit(finish);
}
