/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rendezvous server of a job without a launcher: stores one record per rank, and answers look-
 * ups.
 * Runs in the main loop of utofurun, or in a thread of rank 0. The server logs nothing, so that
 * utofurun needs no other part of the library.
 */
#ifndef UT_BOOTSTRAP_SERVER_H
#define UT_BOOTSTRAP_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "bootstrap/root.h"
#include "util/key.h"

struct ut_job_server;

/* Listens at the root (TCP or unix) for a job of `size` processes that know the key. 0 or a
 * negative errno. */
int ut_job_server_create(struct ut_job_server **server, const struct ut_job_root *root,
                         uint32_t size, const struct ut_key *key);

/* A descriptor that is readable when ut_job_server_step() has work. */
int ut_job_server_fd(const struct ut_job_server *server);

/* Waits for work for at most timeout_ms (-1: no limit), and does the work. */
void ut_job_server_step(struct ut_job_server *server, int timeout_ms);

/* The number of ranks that have ever connected, and of ranks that are connected now. */
void ut_job_server_count(const struct ut_job_server *server, uint32_t *seen, uint32_t *connected);

/* From now on the server calls `rejected` when it rejects a process of another user, once per user.
 */
void ut_job_server_on_rejection(struct ut_job_server *server, void (*rejected)(long uid, long pid));

void ut_job_server_destroy(struct ut_job_server *server);

#endif
