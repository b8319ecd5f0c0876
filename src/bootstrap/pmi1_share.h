/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launcher's PMI-1 socket, shared with the MPI library of the process.
 * An MPI library uses the descriptor PMI_FD at any time, with one request and one answer at a time.
 * So this module replaces that descriptor by another socket, and a thread forwards MPI's requests
 * and the launcher's answers. The thread knows when no answer is outstanding. Then this library may
 * send a request, from any thread.
 */
#ifndef UT_BOOTSTRAP_PMI1_SHARE_H
#define UT_BOOTSTRAP_PMI1_SHARE_H

#include <stdbool.h>
#include <stddef.h>

/* From now on, fd is MPI's end of a new socket, and *launcher is the launcher's socket. No answer
 * may be outstanding. 0, or a negative errno without any change. */
int ut_job_pmi1_share(int fd, int *launcher);

/* Between ut_job_pmi1_enter() and ut_job_pmi1_leave() the caller owns the launcher's socket, for
 * requests and their answers. 0; -EBUSY: MPI waits for an answer, try later; -ESHUTDOWN: MPI has
 * sent finalize; -EPROTONOSUPPORT: MPI uses another protocol. Does not wait for MPI. Without
 * ut_job_pmi1_share() this is just a lock. */
int ut_job_pmi1_enter(void);
void ut_job_pmi1_leave(void);

/* Called between enter and leave. If this line of the launcher, without its newline, answers a
 * barrier of MPI, forwards it to MPI, and returns true. */
bool ut_job_pmi1_forward_to_mpi(const char *line);

#endif
