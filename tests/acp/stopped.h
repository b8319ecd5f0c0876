/* SPDX-License-Identifier: Apache-2.0 */
/* Stopping this process, and waiting until another process of this host is stopped: for waits.c. */
#ifndef ACP_STOPPED_H
#define ACP_STOPPED_H

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* tests/acp/waits.sh reads the line, and continues the process. */
static inline void stop(void)
{
    printf("stops %d\n", (int)getpid());
    fflush(stdout);
    raise(SIGSTOP);
}

/* The state is behind the name in brackets: "1 (name) T 0 ..." */
static inline void wait_until_stopped(int pid)
{
    char path[64], line[512], *state = NULL;

    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    while (state == NULL || strncmp(state, ") T", 3) != 0) {
        FILE *stat = fopen(path, "re");
        size_t n = stat == NULL ? 0 : fread(line, 1, sizeof(line) - 1, stat);

        if (stat == NULL)
            return; /* it is gone */
        fclose(stat);
        line[n] = '\0';
        state = strrchr(line, ')');
        usleep(1000);
    }
}

#endif
