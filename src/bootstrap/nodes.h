/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of other nodes, fetched for a whole node at a time. Let fetching take q queries. The
 * first q look-ups of a node's processes query single records, and the next look-up queries the
 * node. If the node has published nothing yet, it is queried again after 2q, 4q... look-ups. So a
 * process makes at most twice as many queries as necessary, and fetches a node only if it uses q of
 * its processes. Each record is taken out once. PMIx answers later, so look-ups of the node's other
 * processes wait for the answer, but at most UT_JOB_NODES_ANSWER_MS, because the first process of
 * the node may never call the library.
 */
#ifndef UT_BOOTSTRAP_NODES_H
#define UT_BOOTSTRAP_NODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    UT_JOB_NODES_MIN = 3, /* minimum number of processes on a node that is fetched as a whole */
    UT_JOB_NODES_ANSWER_MS = 50,
};

/* Looks up a process of this node. Fetching the node takes `questions` queries. 0: the record.
 * -EAGAIN: the caller must query the node, and then call ut_job_nodes_add() or
 * ut_job_nodes_set_empty(). -EBUSY: the node was queried, and the answer is outstanding. -ENOENT:
 * the caller must query the rank. */
int ut_job_nodes_lookup(uint32_t node, uint32_t local_rank, uint32_t local_size, uint32_t questions,
                        void *record, size_t *size);

/* Copies the pack of the node's records, ordered by local rank. */
void ut_job_nodes_add(uint32_t node, const void *pack, size_t size);

/* The launcher has no records of this node. */
void ut_job_nodes_set_empty(uint32_t node);

/* The memory used by all nodes. */
size_t ut_job_nodes_bytes(void);

/* Removes all nodes. */
void ut_job_nodes_free(void);

#endif
