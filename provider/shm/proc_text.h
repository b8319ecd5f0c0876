/* SPDX-License-Identifier: Apache-2.0 */
/* Reads small files of /proc and /sys. Uses the stack and system calls only. */
#ifndef SP_PROC_TEXT_H
#define SP_PROC_TEXT_H

#include <stddef.h>
#include <sys/types.h>

/* Reads the beginning of the file into `text`, with a final 0. Returns the number of bytes, or -1
 * and errno. */
ssize_t sp_read_proc_text(const char *path, char *text, size_t size);

#endif
