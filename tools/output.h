/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output of a tool. A failed write to standard output, for instance to a full disk, is an error
 * of the tool, and never goes to another file. Unfinished files are removed when the tool is
 * interrupted.
 */
#ifndef TOOL_OUTPUT_H
#define TOOL_OUTPUT_H

/* Called first in main(). Standard descriptors that are closed stay unusable, so that a file or
 * socket opened later does not get their numbers. exit(), or the end of main(), flushes stdout; on
 * failure, it logs an error with the tool's name, and the exit status is 1. For one thread. */
void tool_output_open(const char *tool);

/* Flushes stdout. 0, or the error number of this or an earlier write. */
int tool_output_flush(void);
/* A write to stdout has failed with this error number, which exit() reports. */
void tool_output_failed(int error);

/* Marks a file as unfinished: if SIGINT, SIGTERM or SIGHUP ends the tool, the file is removed
 * first. The string must stay valid. NULL: no unfinished file. */
void tool_output_begun(const char *path);

#endif
