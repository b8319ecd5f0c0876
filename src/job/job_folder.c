/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blobs in files of a folder. A file whose owner is gone can be of this job, then its process is
 * dead, or left over by an earlier one, then its process is still to come. To tell the two apart
 * the living processes of a machine share a lock on the folder: whoever finds it free is the first,
 * and removes what is left over; whoever is the last, too.
 */
#include "job/job_folder.h"
#include "job/job.h"
#include "util/log.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
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

/* Another process sweeps, or is about to share its lock. */
enum { FOLDER_TRIES = 1000, FOLDER_PAUSE_US = 2000 };

static struct {
    const char *folder;
    uint32_t rank, size;
    bool one_machine;
    char host[40];
    pid_t owner;
    int fd;        /* the own file; keeps its lock */
    int folder_fd; /* the folder, locked together with others; -1: it cannot be locked */
    char own[PATH_MAX];
} f = {.fd = -1, .folder_fd = -1};

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

static bool same_host(const struct prefix *prefix)
{
    return f.host[0] && memcmp(f.host, prefix->host, sizeof(f.host)) == 0;
}

/* Nobody holds the lock: the owner is gone and could not remove its file. A file system without
 * locks cannot tell, then the owner counts as alive. */
static bool is_left_over(int fd)
{
    return flock(fd, LOCK_SH | LOCK_NB) == 0;
}

/* utofu.RANK or utofu.RANK.PID.new */
static bool is_our_name(const char *name)
{
    const char *digits = "0123456789";
    size_t n;

    if (strncmp(name, "utofu.", 6) != 0)
        return false;
    name += 6;
    n = strspn(name, digits);
    if (n == 0 || name[n] == '\0')
        return n > 0;
    name += n + 1;
    if (name[-1] != '.')
        return false;
    n = strspn(name, digits);
    return n > 0 && strcmp(name + n, ".new") == 0;
}

static void remove_left_over(int folder, const char *name)
{
    struct prefix prefix;
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return;
    if (is_left_over(fd) && read(fd, &prefix, PREFIX) == PREFIX && same_host(&prefix))
        unlinkat(folder, name, 0);
    close(fd);
}

/* Nobody else on this machine is in the job now, and nobody comes meanwhile. */
static void sweep(int folder)
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* readdir() moves it */
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;

    while (dir && (entry = readdir(dir))) {
        if (is_our_name(entry->d_name))
            remove_left_over(folder, entry->d_name);
    }
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
}

/* From here on a file of this machine that is left over is of this job. */
static void join_others(void)
{
    int fd = open(f.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), tries = 0;

    if (fd < 0)
        return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        sweep(fd);
    else if (errno != EWOULDBLOCK)
        goto none;
    while (flock(fd, LOCK_SH | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK || ++tries > FOLDER_TRIES)
            goto none;
        usleep(FOLDER_PAUSE_US);
    }
    f.folder_fd = fd;
    return;
none:
    ut_debug("job", "UTOFU_ROOT=%s: cannot be locked: %s", f.folder, strerror(errno));
    close(fd);
}

/* A child made by fork() that outlives its parent must not pass for it. */
static void let_go_in_child(void)
{
    if (f.fd >= 0)
        close(f.fd);
    if (f.folder_fd >= 0)
        close(f.folder_fd);
    f.fd = f.folder_fd = -1;
}

void ut_job_folder_open(const char *folder, uint32_t rank, uint32_t size, bool one_machine)
{
    f.folder = folder;
    f.rank = rank;
    f.size = size;
    f.one_machine = one_machine;
    read_host();
    join_others();
    pthread_atfork(NULL, NULL, let_go_in_child);
}

static int file_of(uint32_t rank, const char *suffix, char path[PATH_MAX])
{
    int n = snprintf(path, PATH_MAX, "%s/utofu.%u%s", f.folder, rank, suffix);

    return n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* Where others are left, the file stays: they may not have looked at it yet. */
static void leave(void)
{
    /* a child made by fork() has this handler too, and must leave its parent's file alone */
    if (getpid() != f.owner)
        return;
    if (f.folder_fd < 0) {
        unlink(f.own);
        return;
    }
    close(f.fd);
    if (flock(f.folder_fd, LOCK_EX | LOCK_NB) == 0)
        sweep(f.folder_fd);
    close(f.folder_fd);
    f.fd = f.folder_fd = -1;
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
    bool left_over = fd < 0 || is_left_over(fd);
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
    atexit(leave);
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
    ssize_t n = read(fd, text, FILE_MAX + 1);
    if (n >= PREFIX && is_left_over(fd)) {
        struct prefix prefix;
        memcpy(&prefix, text, PREFIX);
        if (f.folder_fd < 0 || !same_host(&prefix))
            n = 0;
    }
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
