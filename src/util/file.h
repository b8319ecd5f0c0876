/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files in folders where other users may write: symbolic links are not followed, a FIFO does not
 * block its opener, and another user's file is not used. Uses libc only.
 */
#ifndef UT_UTIL_FILE_H
#define UT_UTIL_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { UT_FILE_WHY = 96 };

/* Opens an existing file for reading: a descriptor or a negative errno. */
int ut_file_open(int folder, const char *path);

/* 0 if it is a regular file of `owner` that is not writable by everybody; else -EPERM and the
 * reason: "is a FIFO", "belongs to user 1000, not to user 0". */
int ut_file_check(int fd, uid_t owner, char why[UT_FILE_WHY]);

/* As ut_file_check(), and only its owner may read or write it. */
int ut_file_check_private(int fd, uid_t owner, char why[UT_FILE_WHY]);

/* Creates a file for writing, or truncates one of this user: a descriptor or a negative errno and
 * the reason. */
int ut_file_create(const char *path, char why[UT_FILE_WHY]);

/* The file of one rank: the rank is put before the last extension, so that trace.json becomes
 * trace.3.json for rank 3. `path` has room for PATH_MAX bytes. 0 or a negative errno. */
int ut_file_of_rank(const char *pattern, unsigned int rank, char *path);

/* Opens an output file named by the user: creates a regular file (*made, if not NULL), or opens an
 * existing file, which may be a device, with `flags` and O_WRONLY. A symbolic link is followed only
 * if root or this user made it, because another user with write access to the folder could link to
 * a file of this user. A descriptor or a negative errno; -ELOOP: a link of another user. */
int ut_file_open_output(const char *path, int flags, bool *made);

#endif
