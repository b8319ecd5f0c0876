/* SPDX-License-Identifier: Apache-2.0 */
/* For the preprocessor alone: its last line is the version of MPI. */
#include <mpi.h>
MPI_VERSION
