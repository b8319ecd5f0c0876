/* SPDX-License-Identifier: Apache-2.0 */
#include "util/fd.h"
#include "util/host.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/hash.h"

static uint32_t namespace_number(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? (uint32_t)st.st_ino : 0;
}

/* Returns the number of bytes read, or -errno. */
static int read_boot_id(char *buf, size_t size)
{
    int fd = ut_fd_above_stdio(open(UT_HOST_BOOT_ID, O_RDONLY | O_CLOEXEC));
    ssize_t n = fd < 0 ? -1 : read(fd, buf, size);
    int rc = n < 0 ? -errno : (int)n;

    if (fd >= 0)
        close(fd);
    return rc;
}

int ut_host_read(struct ut_host *host)
{
    char boot[64];
    int n = read_boot_id(boot, sizeof(boot));
    uint64_t hash = ut_hash(UT_HASH_FIRST, boot, n > 0 ? (size_t)n : 0);

    host->boot = (uint32_t)(hash >> 32);
    host->pid_ns = namespace_number("/proc/self/ns/pid");
    host->net_ns = namespace_number("/proc/self/ns/net");
    hash = ut_hash(hash, &host->pid_ns, sizeof(host->pid_ns));
    host->hash = ut_hash(hash, &host->net_ns, sizeof(host->net_ns));
    return n > 0 ? 0 : n < 0 ? n : -ENODATA;
}
