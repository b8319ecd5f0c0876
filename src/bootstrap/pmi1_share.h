/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launcher's PMI-1 socket, shared with the MPI library of the process.
 *
 * An MPI library uses the descriptor PMI_FD, one request and one answer at a time, at any time. So
 * another socket is put under that number in place of the launcher's, and a thread forwards the
 * requests of MPI and the answers of the launcher. It knows when no answer is outstanding: then
 * this library may ask, from any thread.
 */
#ifndef UT_BOOTSTRAP_PMI1_SHARE_H
#define UT_BOOTSTRAP_PMI1_SHARE_H

#include <stdbool.h>
#include <stddef.h>

/* From now on MPI uses the number fd, and the socket of the launcher has the number *launcher. No
 * answer may be outstanding. 0, or a negative errno: then nothing is changed. */
int ut_job_pmi1_share(int fd, int *launcher);

/* Between these two the caller has the socket of the launcher, for requests with their answers. 0;
 * -EBUSY: MPI waits for an answer, try later; -ESHUTDOWN: MPI has sent finalize; -EPROTONOSUPPORT:
 * MPI uses another protocol. Does not wait for MPI. Without ut_job_pmi1_share() only a lock. */
int ut_job_pmi1_enter(void);
void ut_job_pmi1_leave(void);

/* Between the two: is a line of the launcher, without its newline, the answer to a barrier of MPI?
 * Then it is forwarded. */
bool ut_job_pmi1_take_for_mpi(const char *line);

#endif
