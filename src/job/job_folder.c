/* SPDX-License-Identifier: Apache-2.0 */
/* Blobs in files of a folder. */
#include "job/job_folder.h"
#include "job/job.h"
#include "job/job_wire.h"
#include "util/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* A file is one message of the wire protocol's shape: HELLO data (rank, size), then the blob. */
enum { PREFIX = 8, FILE_MAX = PREFIX + UT_JOB_BLOB_MAX };

static struct {
    const char *folder;
    uint32_t rank, size;
    pid_t owner;
    int fd; /* the own file; keeps its lock */
    char own[PATH_MAX];
} f = {.fd = -1};

void ut_job_folder_open(const char *folder, uint32_t rank, uint32_t size)
{
    f.folder = folder;
    f.rank = rank;
    f.size = size;
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
    uint32_t ids[2] = {htole32(f.rank), htole32(f.size)};
    int fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);

    if (fd < 0)
        return -errno;
    memcpy(text, ids, PREFIX);
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
        ut_error("job", "UTOFU_ROOT=%s: another process says that it is rank %u; give every process "
                 "its own UTOFU_RANK, and every job its own folder", f.folder, f.rank);
    else
        ut_error("job", "UTOFU_ROOT=%s: cannot write utofu.%u there: %s", f.folder, f.rank,
                 strerror(-rc));
    return rc;
}

int ut_job_folder_lookup(uint32_t rank, void *blob, size_t *size)
{
    uint8_t text[FILE_MAX + 1];
    char path[PATH_MAX];
    uint32_t ids[2];
    int fd, rc = file_of(rank, "", path);

    if (rc != 0)
        return rc;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        /* ESTALE: a network file system, and the file was replaced just now */
        if (errno == ENOENT || errno == ESTALE)
            return -EAGAIN;
        rc = -errno;
        ut_error("job", "UTOFU_ROOT=%s: cannot read utofu.%u: %s", f.folder, rank, strerror(errno));
        return rc;
    }
    ssize_t n = is_left_over(fd) ? 0 : read(fd, text, sizeof(text));
    close(fd);
    if (n < PREFIX)
        return -EAGAIN;
    memcpy(ids, text, PREFIX);
    if (n > FILE_MAX || le32toh(ids[0]) != rank || le32toh(ids[1]) != f.size) {
        ut_error("job", "UTOFU_ROOT=%s: utofu.%u belongs to another job (of %u processes, not %u); "
                 "give every job its own folder", f.folder, rank, le32toh(ids[1]), f.size);
        return -EPROTO;
    }
    *size = (size_t)n - PREFIX;
    memcpy(blob, text + PREFIX, *size);
    return 0;
}
