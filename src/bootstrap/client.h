/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client of the rendezvous server. One thread connects, publishes, and looks up records, so
 * that no caller waits for a server that has not started. The thread tries to connect until the
 * deadline, because the server may start late.
 */
#ifndef UT_BOOTSTRAP_CLIENT_H
#define UT_BOOTSTRAP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bootstrap/root.h"
#include "util/key.h"

/* Starts the thread, which tries to connect until the deadline. */
int ut_job_client_start(const struct ut_job_root *root, uint32_t rank, uint32_t size,
                        const struct ut_key *key, int64_t deadline);
int ut_job_client_publish(const void *record, size_t size);
int ut_job_client_lookup(uint32_t rank, void *record, size_t *size, int wait_ms);
/* Does the same as ut_job_explain_absence(), equally for all ranks. */
bool ut_job_client_explain_absence(char *text, size_t size);
/* Ends the connection and the thread. */
void ut_job_client_stop(void);

#endif
