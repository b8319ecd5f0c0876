/* SPDX-License-Identifier: Apache-2.0 */
/* Writes lines and reports, for instance to standard error. */
#ifndef UT_UTIL_WRITE_H
#define UT_UTIL_WRITE_H

#include <stddef.h>

/* Writes the whole text, in one piece if the file allows, so that the output of several processes
 * does not mix. Signals of the program may interrupt the write, and another user of the open file
 * may have set O_NONBLOCK: then the function waits as long as the reader takes data each second.
 * Returns 0, or an error number if part of the text is lost. Keeps errno. For any thread, and for
 * signal handlers. */
int ut_write_all(int fd, const char *text, size_t size);

#endif
