/* SPDX-License-Identifier: Apache-2.0 */
/* Lines and reports, to standard error for instance. */
#ifndef UT_UTIL_WRITE_H
#define UT_UTIL_WRITE_H

#include <stddef.h>

/* Writes all of it, in one piece where the file takes it so, that what several processes write does
 * not mix. Signals of the program may interrupt it, and somebody who has the same file open may
 * have made it one that does not wait (O_NONBLOCK): then it waits for the reader, as long as he
 * takes something each second. 0, or the error number: some of it is lost. Leaves errno alone. By
 * any thread, also in a signal handler. */
int ut_write_all(int fd, const char *text, size_t size);

#endif
