/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files in folders that others may write to as well: symbolic links are not followed, a FIFO does
 * not block its opener, and another user's file is not used. Uses libc alone.
 */
#ifndef UT_UTIL_FILE_H
#define UT_UTIL_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { UT_FILE_WHY = 96 };

/* Opens an existing file to read it: a descriptor or a negative errno. */
int ut_file_open(int folder, const char *path);

/* 0 if it is a regular file of `owner` that is not writable by everybody; else -EPERM, and why not:
 * "is a FIFO", "belongs to user 1000, not to user 0". */
int ut_file_check(int fd, uid_t owner, char why[UT_FILE_WHY]);

/* The same, and nobody but its owner may read or write it. */
int ut_file_check_private(int fd, uid_t owner, char why[UT_FILE_WHY]);

/* Creates a file to write it, or empties one of this user: a descriptor or a negative errno, and
 * why. */
int ut_file_create(const char *path, char why[UT_FILE_WHY]);

/* Opens what somebody named for output, with `flags` beside O_WRONLY where it is there already:
 * creates a regular file (*made, if not NULL), or takes what is there, which may be a device. A
 * symbolic link is followed only if root or this user made it, as who else may write to the folder
 * could let it lead to a file of this user. A descriptor or a negative errno; -ELOOP: such a link.
 */
int ut_file_open_output(const char *path, int flags, bool *made);

#endif
