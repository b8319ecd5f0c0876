/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of other nodes, fetched for a whole node. Let fetching take q questions. The first q
 * look-ups of a node's processes ask for single records, and the next look-up asks for the node; if
 * the node has published nothing yet, it is asked for again after 2q, 4q... look-ups. So a process
 * asks at most twice as many questions as necessary, and fetches a node only if it uses q processes
 * of it. Each record is taken out once. With PMIx, whose answers arrive later, look-ups of the
 * node's other processes wait for the node's answer for UT_JOB_NODES_ANSWER_MS at most, because the
 * first process of the node may never call the library.
 */
#ifndef UT_BOOTSTRAP_NODES_H
#define UT_BOOTSTRAP_NODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    UT_JOB_NODES_MIN = 3, /* minimum number of processes of a node to fetch it */
    UT_JOB_NODES_ANSWER_MS = 50,
};

/* Looks up a process of this node; fetching the node takes `questions`. 0: its record; -EAGAIN: the
 * caller must ask for the node, and then call ut_job_nodes_add() or ut_job_nodes_set_empty();
 * -EBUSY: the node was asked for and has not answered; -ENOENT: the caller must ask for the rank.
 */
int ut_job_nodes_lookup(uint32_t node, uint32_t local_rank, uint32_t local_size, uint32_t questions,
                        void *record, size_t *size);

/* Copies the pack of the node's records, by local rank. */
void ut_job_nodes_add(uint32_t node, const void *pack, size_t size);

/* The launcher has no records of this node. */
void ut_job_nodes_set_empty(uint32_t node);

/* The memory used by all nodes. */
size_t ut_job_nodes_bytes(void);

/* Removes all nodes. */
void ut_job_nodes_free(void);

#endif
