/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a program linked with an MPI library? Then mpirun starts it, not utofurun.
 */
#ifndef RUN_MPI_H
#define RUN_MPI_H

#include <stdbool.h>
#include <stddef.h>

/* Looks for a command as execvp() does, and writes the name of the MPI library that its file needs,
 * as "libmpi.so.40". Returns false if there is none: also for scripts, for programs that are not
 * found or not readable, and for MPI libraries that are loaded later or linked statically. */
bool run_mpi_library(const char *command, char *name, size_t size);

/* The same for a file: for tests. */
bool run_mpi_library_of_file(const char *path, char *name, size_t size);

#endif
