/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors of this library, which shares their numbers with the program.
 *
 * Numbers 0 to 2 are standard input, output and error of the program, also while they are closed: a
 * descriptor of this library there would receive what the program prints. Every descriptor passes
 * through ut_fd_above_stdio(), or, if it stays open, ut_fd_open_ours(); scripts/lint descriptors
 * finds calls that forget it. Where another library makes descriptors, ut_fd_reserve_stdio() keeps
 * 0 to 2 for the program.
 *
 * The program may close a descriptor of this library, and its number then belongs to another file.
 * ut_fd_open_ours() marks a descriptor, so that ut_fd_is_still_ours() can tell. The mark is the
 * signal of F_SETSIG: it is an attribute of the open file, which no other file has by chance, it
 * costs one system call of 0.1 us to read, and it has no effect without O_ASYNC.
 */
#ifndef UT_UTIL_FD_H
#define UT_UTIL_FD_H

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* The argument is a call that opens a descriptor. The value is the descriptor, never 0 to 2, or -1
 * with errno. While the call runs, a thread that prints to a closed descriptor gets EBADF, and does
 * not print into the new one. */
#define ut_fd_above_stdio(call) (ut_fd_reserve_stdio(), ut_fd_release_stdio_and_move(call))

/* Does the same for a descriptor that stays open, and marks it as this library's. */
#define ut_fd_open_ours(call)                                                                      \
    (ut_fd_reserve_stdio(), ut_fd_mark_ours(ut_fd_release_stdio_and_move(call)))

/* Calls ut_fd_release_stdio(), and moves a descriptor of 0 to 2 to a higher number, which is needed
 * where O_PATH is forbidden. */
int ut_fd_release_stdio_and_move(int fd);

/* Marks a descriptor that is already above 2, and returns it. */
int ut_fd_mark_ours(int fd);

/* Is the descriptor open, and marked by ut_fd_open_ours()? Also for signal handlers. */
bool ut_fd_is_still_ours(int fd);

/* Closes a descriptor of ut_fd_open_ours(), unless the program has closed it: then the number may
 * belong to another file. A negative fd is allowed. */
void ut_fd_close(int fd);

/* Calls ftruncate(), but fails with EFBIG beyond RLIMIT_FSIZE, where ftruncate() raises SIGXFSZ. */
int ut_fd_resize(int fd, uint64_t size);

/* fopen(path, "re") and opendir(path), with a descriptor above 2. */
FILE *ut_fd_open_file(const char *path);
DIR *ut_fd_open_folder(const char *path);

/* Between ut_fd_reserve_stdio() and ut_fd_release_stdio() closed descriptors of 0 to 2 are
 * occupied, so that no new descriptor gets such a number. Meanwhile reading and writing fail with
 * EBADF, as on closed descriptors. The calls nest, also among threads. Each takes three system
 * calls if all three are open. */
void ut_fd_reserve_stdio(void);
void ut_fd_release_stdio(void);

/* Did the last ut_fd_reserve_stdio() find one of the descriptors 0 to 2 closed? */
bool ut_fd_stdio_has_gaps(void);

#endif
