/* SPDX-License-Identifier: Apache-2.0 */
/* Blobs in files of a folder. */
#include "job/job_folder.h"
#include "job/job.h"
#include "util/log.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* What a file starts with; the blob follows. Little endian. */
struct prefix {
    uint32_t rank, size;
    char host[40]; /* the boot id, which the containers of a host share; empty: not known */
};

enum { PREFIX = sizeof(struct prefix), FILE_MAX = PREFIX + UT_JOB_BLOB_MAX };

static struct {
    const char *folder;
    uint32_t rank, size;
    bool one_machine;
    char host[40];
    pid_t owner;
    int fd; /* the own file; keeps its lock */
    char own[PATH_MAX];
} f = {.fd = -1};

static void read_host(void)
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

    if (!file)
        return;
    if (!fgets(f.host, sizeof(f.host), file))
        f.host[0] = '\0';
    f.host[strcspn(f.host, "\n")] = '\0';
    fclose(file);
}

void ut_job_folder_open(const char *folder, uint32_t rank, uint32_t size, bool one_machine)
{
    f.folder = folder;
    f.rank = rank;
    f.size = size;
    f.one_machine = one_machine;
    read_host();
}

static int file_of(uint32_t rank, const char *suffix, char path[PATH_MAX])
{
    int n = snprintf(path, PATH_MAX, "%s/utofu.%u%s", f.folder, rank, suffix);

    return n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* Nobody holds the lock: the owner is gone and could not remove its file. A file system without
 * locks cannot tell, then the owner counts as alive. */
static int is_left_over(int fd)
{
    return flock(fd, LOCK_SH | LOCK_NB) == 0;
}

static void remove_own(void)
{
    /* a child made by fork() has this handler too, and must leave its parent's file alone */
    if (getpid() == f.owner)
        unlink(f.own);
}

static int write_file(const char *path, const void *blob, size_t size)
{
    uint8_t text[FILE_MAX];
    struct prefix prefix = {.rank = htole32(f.rank), .size = htole32(f.size)};
    int fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);

    if (fd < 0)
        return -errno;
    memcpy(prefix.host, f.host, sizeof(f.host));
    memcpy(text, &prefix, PREFIX);
    memcpy(text + PREFIX, blob, size);
    flock(fd, LOCK_EX | LOCK_NB);
    if (write(fd, text, PREFIX + size) == (ssize_t)(PREFIX + size))
        return fd;
    int rc = errno ? -errno : -ENOSPC;
    close(fd);
    unlink(path);
    return rc;
}

/* Gives the file its final name: -EEXIST when a living process has that name. */
static int put_in_place(const char *path)
{
    if (link(path, f.own) == 0)
        return unlink(path) == 0 ? 0 : -errno;
    if (errno != EEXIST) /* no hard links here */
        return rename(path, f.own) == 0 ? 0 : -errno;

    int fd = open(f.own, O_RDONLY | O_CLOEXEC);
    int left_over = fd < 0 || is_left_over(fd);
    if (fd >= 0)
        close(fd);
    if (!left_over)
        return -EEXIST;
    ut_info("job", "replacing %s, left over by a process that is gone", f.own);
    return rename(path, f.own) == 0 ? 0 : -errno;
}

int ut_job_folder_publish(const void *blob, size_t size)
{
    char path[PATH_MAX], suffix[64];
    int rc, fd = -1;

    snprintf(suffix, sizeof(suffix), ".%d.new", (int)getpid());
    rc = file_of(f.rank, suffix, path);
    if (rc == 0)
        rc = file_of(f.rank, "", f.own);
    if (rc == 0)
        rc = fd = write_file(path, blob, size);
    if (rc < 0)
        goto fail;
    rc = put_in_place(path);
    if (rc != 0) {
        close(fd);
        unlink(path);
        goto fail;
    }
    f.fd = fd;
    f.owner = getpid();
    atexit(remove_own);
    return 0;
fail:
    if (rc == -EEXIST)
        ut_error("job",
                 "UTOFU_ROOT=%s: another process says that it is rank %u; give every process "
                 "its own UTOFU_RANK, and every job its own folder",
                 f.folder, f.rank);
    else
        ut_error("job", "UTOFU_ROOT=%s: cannot write utofu.%u there: %s", f.folder, f.rank,
                 strerror(-rc));
    return rc;
}

/* The whole file of a rank into text; its length, 0 when there is none yet, or a negative errno. */
static ssize_t read_file(uint32_t rank, uint8_t text[FILE_MAX + 1])
{
    char path[PATH_MAX];
    int fd, rc = file_of(rank, "", path);

    if (rc != 0)
        return rc;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        /* ESTALE: a network file system, and the file was replaced just now */
        if (errno == ENOENT || errno == ESTALE)
            return 0;
        rc = -errno;
        ut_error("job", "UTOFU_ROOT=%s: cannot read utofu.%u: %s", f.folder, rank, strerror(errno));
        return rc;
    }
    ssize_t n = is_left_over(fd) ? 0 : read(fd, text, FILE_MAX + 1);
    close(fd);
    return n < 0 ? 0 : n;
}

static int check_prefix(uint32_t rank, const struct prefix *prefix)
{
    if (le32toh(prefix->rank) != rank || le32toh(prefix->size) != f.size) {
        ut_error("job",
                 "UTOFU_ROOT=%s: utofu.%u belongs to another job (of %u processes, not %u); "
                 "give every job its own folder",
                 f.folder, rank, le32toh(prefix->size), f.size);
        return -EPROTO;
    }
    if (f.one_machine && f.host[0] && prefix->host[0] &&
        memcmp(f.host, prefix->host, sizeof(f.host)) != 0) {
        ut_error("job",
                 "UTOFU_ROOT=%s: rank %u is on another machine; a job on several machines "
                 "needs UTOFU_NODE, UTOFU_LOCAL_RANK and UTOFU_LOCAL_SIZE",
                 f.folder, rank);
        return -EXDEV;
    }
    return 0;
}

int ut_job_folder_lookup(uint32_t rank, void *blob, size_t *size)
{
    uint8_t text[FILE_MAX + 1];
    struct prefix prefix;
    ssize_t n = read_file(rank, text);
    int rc;

    if (n < 0)
        return (int)n;
    if (n < PREFIX)
        return -EAGAIN;
    memcpy(&prefix, text, PREFIX);
    rc = n > FILE_MAX ? -EPROTO : check_prefix(rank, &prefix);
    if (rc != 0)
        return rc;
    *size = (size_t)n - PREFIX;
    memcpy(blob, text + PREFIX, *size);
    return 0;
}
