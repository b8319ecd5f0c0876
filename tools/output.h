/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output of a tool. What cannot be written to standard output, to a full disk for instance, is
 * an error of the tool, and never goes anywhere else. Files that it was making do not stay when it
 * is interrupted.
 */
#ifndef TOOL_OUTPUT_H
#define TOOL_OUTPUT_H

/* First of all in main(). Standard descriptors that are closed stay unusable, and are not taken for
 * a file or socket that is opened later. exit(), or the end of main(), writes what is still in
 * stdout; where not all of it could be written, it says so in the name of the tool, and the exit
 * status is 1. One thread. */
void tool_output_open(const char *tool);

/* Writes what is in stdout. 0, or the error number of this or an earlier write. */
int tool_output_flush(void);
/* A write to stdout has failed with this error number: exit() tells it. */
void tool_output_failed(int error);

/* The file is not complete: where SIGINT, SIGTERM or SIGHUP ends the tool, it is removed before.
 * The string must stay. NULL: there is none any more. */
void tool_output_begun(const char *path);

#endif
