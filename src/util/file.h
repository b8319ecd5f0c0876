/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files in folders where other users may write. These functions follow no symbolic links, do not
 * block on a FIFO, and use no file of another user. Uses libc only.
 */
#ifndef UT_UTIL_FILE_H
#define UT_UTIL_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { UT_FILE_WHY = 96 };

/* Opens an existing file for reading. Returns a descriptor or a negative errno. */
int ut_file_open(int folder, const char *path);

/* Returns 0 if the file is a regular file of `owner` that others cannot write; else -EPERM and the
 * reason: "is a FIFO", "belongs to user 1000, not to user 0". */
int ut_file_check(int fd, uid_t owner, char why[UT_FILE_WHY]);

/* Does the same as ut_file_check(), and also requires that only the owner may read or write the
 * file. */
int ut_file_check_private(int fd, uid_t owner, char why[UT_FILE_WHY]);

/* Creates a file for writing, or truncates a file of this user. Returns a descriptor, or a negative
 * errno and the reason. */
int ut_file_create(const char *path, char why[UT_FILE_WHY]);

/* Makes the name of one rank's file: the rank stands before the last extension, so trace.json
 * becomes trace.3.json for rank 3. `path` has room for PATH_MAX bytes. 0 or a negative errno. */
int ut_file_of_rank(const char *pattern, unsigned int rank, char *path);

/* Opens an output file that the user has named. Creates a regular file (*made, if not NULL), or
 * opens an existing file, which may be a device, with `flags` and O_WRONLY. Follows a symbolic link
 * only if root or this user made it: another user with write access to the folder could link to a
 * file of this user. Returns a descriptor or a negative errno. -ELOOP: a link of another user. */
int ut_file_open_output(const char *path, int flags, bool *made);

#endif
