/* SPDX-License-Identifier: Apache-2.0 */
#include "util/fd.h"
#include "util/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ALWAYS = O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC };

int ut_file_open(int folder, const char *path)
{
    int fd = ut_fd_above_stdio(openat(folder, path, O_RDONLY | ALWAYS));

    return fd < 0 ? -errno : fd;
}

static const char *kind_of(mode_t mode)
{
    return S_ISFIFO(mode)  ? "a FIFO"
           : S_ISDIR(mode) ? "a folder"
           : S_ISCHR(mode) ? "a device"
                           : "no regular file";
}

static int check_file(int fd, uid_t owner, mode_t forbidden, char why[UT_FILE_WHY])
{
    struct stat st;

    if (fstat(fd, &st) != 0) {
        snprintf(why, UT_FILE_WHY, "%s", strerror(errno));
        return -errno;
    }
    if (!S_ISREG(st.st_mode))
        snprintf(why, UT_FILE_WHY, "is %s", kind_of(st.st_mode));
    else if (st.st_uid != owner)
        snprintf(why, UT_FILE_WHY, "belongs to user %u, not to user %u", st.st_uid, owner);
    else if (st.st_mode & forbidden)
        snprintf(why, UT_FILE_WHY, "may be %s (mode %04o)",
                 forbidden == S_IWOTH ? "written by everybody" : "read or written by others",
                 st.st_mode & 07777);
    else
        return 0;
    return -EPERM;
}

int ut_file_check(int fd, uid_t owner, char why[UT_FILE_WHY])
{
    return check_file(fd, owner, S_IWOTH, why);
}

int ut_file_check_private(int fd, uid_t owner, char why[UT_FILE_WHY])
{
    return check_file(fd, owner, S_IRWXG | S_IRWXO, why);
}

/* Truncates an existing file, if it is a regular file of this user. */
static int empty_old(const char *path, char why[UT_FILE_WHY])
{
    int fd = ut_fd_above_stdio(open(path, O_WRONLY | ALWAYS)), rc;

    if (fd < 0) {
        rc = -errno;
        snprintf(why, UT_FILE_WHY, "%s",
                 rc == -ELOOP   ? "is a symbolic link"
                 : rc == -ENXIO ? "is a FIFO"
                                : strerror(-rc));
        return rc;
    }
    rc = check_file(fd, geteuid(), 0, why);
    if (rc == 0 && ftruncate(fd, 0) != 0) {
        rc = -errno;
        snprintf(why, UT_FILE_WHY, "%s", strerror(-rc));
    }
    if (rc != 0) {
        close(fd);
        return rc;
    }
    return fd;
}

int ut_file_create(const char *path, char why[UT_FILE_WHY])
{
    int fd = ut_fd_above_stdio(open(path, O_WRONLY | O_CREAT | O_EXCL | ALWAYS, 0666)), rc = -errno;

    if (fd >= 0)
        return fd;
    if (rc == -EEXIST)
        return empty_old(path, why);
    snprintf(why, UT_FILE_WHY, "%s", strerror(-rc));
    return rc;
}

static bool is_link_of_ours(const char *path)
{
    struct stat st;

    if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode) && (st.st_uid == 0 || st.st_uid == geteuid()))
        return true;
    errno = ELOOP;
    return false;
}

/* With O_CREAT and O_EXCL, open() does not follow a link. */
int ut_file_open_output(const char *path, int flags, bool *made)
{
    int fd =
        ut_fd_above_stdio(open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0666));

    if (made)
        *made = fd >= 0;
    flags |= O_WRONLY | O_CLOEXEC | O_NOCTTY;
    if (fd < 0 && errno == EEXIST)
        fd = ut_fd_above_stdio(open(path, flags | O_NOFOLLOW));
    if (fd < 0 && errno == ELOOP && is_link_of_ours(path))
        fd = ut_fd_above_stdio(open(path, flags | O_CREAT, 0666));
    return fd < 0 ? -errno : fd;
}

int ut_file_of_rank(const char *pattern, unsigned int rank, char *path)
{
    const char *slash = strrchr(pattern, '/'), *name = slash ? slash + 1 : pattern;
    const char *dot = strrchr(name, '.');
    size_t n = dot && dot > name ? (size_t)(dot - pattern) : strlen(pattern);
    int size = snprintf(path, PATH_MAX, "%.*s.%u%s", (int)n, pattern, rank, pattern + n);

    return size >= PATH_MAX ? -ENAMETOOLONG : *name ? 0 : -EISDIR;
}
