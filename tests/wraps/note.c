/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the names of counters that have gone over the wrap. */
#include "wraps.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_NAMES = 128 };

static struct {
    pthread_mutex_t lock;
    const char *names[MAX_NAMES];
    int num;
} noted = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is_new(const char *counter)
{
    for (int i = 0; i < noted.num; i++) {
        if (strcmp(noted.names[i], counter) == 0)
            return false;
    }
    if (noted.num < MAX_NAMES)
        noted.names[noted.num++] = counter;
    return true;
}

static void append_line(const char *counter)
{
    const char *path = getenv("UT_WRAPS_FILE");
    char line[128];
    size_t size = strlen(counter);

    if (!path || size + 1 > sizeof(line))
        return;
    memcpy(line, counter, size);
    line[size] = '\n';
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, line, size + 1) < 0)
        abort();
    close(fd);
}

void wraps_note(const char *counter, bool passed)
{
    if (!passed)
        return;
    pthread_mutex_lock(&noted.lock);
    if (is_new(counter))
        append_line(counter);
    pthread_mutex_unlock(&noted.lock);
}
