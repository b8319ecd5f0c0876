/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launcher's PMI-1 socket, shared with the MPI library of the process.
 *
 * An MPI library uses the descriptor PMI_FD, one request and one answer at a time, at any time.
 * Therefore this module replaces that descriptor with another socket, and a thread forwards MPI's
 * requests and the launcher's answers. The thread knows when no answer is outstanding: then this
 * library may send a request, from any thread.
 */
#ifndef UT_BOOTSTRAP_PMI1_SHARE_H
#define UT_BOOTSTRAP_PMI1_SHARE_H

#include <stdbool.h>
#include <stddef.h>

/* From now on, fd is MPI's end of the new socket, and *launcher is the launcher's socket. No answer
 * may be outstanding. 0, or a negative errno: then nothing has changed. */
int ut_job_pmi1_share(int fd, int *launcher);

/* Between ut_job_pmi1_enter() and ut_job_pmi1_leave() the caller owns the launcher's socket, for
 * requests and their answers. 0; -EBUSY: MPI waits for an answer, try later; -ESHUTDOWN: MPI has
 * sent finalize; -EPROTONOSUPPORT: MPI uses another protocol. Does not wait for MPI. Without
 * ut_job_pmi1_share() just a lock. */
int ut_job_pmi1_enter(void);
void ut_job_pmi1_leave(void);

/* Called between enter and leave: is this line of the launcher, without its newline, the answer to
 * a barrier of MPI? Then the line is forwarded to MPI. */
bool ut_job_pmi1_forward_to_mpi(const char *line);

#endif
