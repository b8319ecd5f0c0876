/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *name;
static int failed; /* error number of the first failure */

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
        tool_output_failed(EIO); /* the number of an earlier error is lost */
    return failed;
}

/* Registered first, so called last. */
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

/* Opened with the wrong access mode, so that using them fails as with closed ones. */
static void occupy_closed(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) < 0)
            return; /* no /dev/null: they stay closed */
}

static const char *begun;

/* The signal ends the process when the handler returns. This handler replaces handlers of fabric
 * libraries that do not end the process. */
static void remove_begun(int sig)
{
    const char *path = __atomic_load_n(&begun, __ATOMIC_ACQUIRE);

    if (path)
        unlink(path);
    raise(sig);
}

void tool_output_begun(const char *path)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = remove_begun, .sa_flags = (int)SA_RESETHAND}, old;

    __atomic_store_n(&begun, path, __ATOMIC_RELEASE);
    for (size_t i = 0; path && i < sizeof(signals) / sizeof(signals[0]); i++)
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) /* nohup ignores */
            sigaction(signals[i], &action, NULL);
}

void tool_output_open(const char *tool)
{
    name = tool;
    occupy_closed();
    atexit(finish);
}
