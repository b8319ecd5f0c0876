/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of other nodes, fetched for a whole node. Say that takes q questions. The first q
 * processes of a node are asked for one by one, and then the node; where it has published nothing
 * yet, again after 2q, 4q... So a process asks at most twice as many questions as it would have
 * needed, and fetches a node only where it uses q processes of it. Each record is taken out once.
 * Where answers come later (PMIx), look-ups of the node's other processes wait for the node's
 * answer, for UT_JOB_NODES_ANSWER_MS at most: its first process may never call the library.
 */
#ifndef UT_BOOTSTRAP_NODES_H
#define UT_BOOTSTRAP_NODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    UT_JOB_NODES_LEAST = 3, /* processes of a node for which it pays */
    UT_JOB_NODES_ANSWER_MS = 50,
};

/* A process of this node is needed; `questions` are those for all of it. 0: its record; -EAGAIN:
 * the node should be asked for, which ut_job_nodes_add() or ut_job_nodes_none() ends; -EBUSY: it
 * has been, and has not answered; -ENOENT: the rank itself. */
int ut_job_nodes_take(uint32_t node, uint32_t local_rank, uint32_t local_size, uint32_t questions,
                      void *record, size_t *size);

/* The pack of the node's records, by local rank, which is copied. */
void ut_job_nodes_add(uint32_t node, const void *pack, size_t size);

/* The launcher has nothing of this node. */
void ut_job_nodes_none(uint32_t node);

/* The memory that they take. */
size_t ut_job_nodes_bytes(void);

/* Forgets all. */
void ut_job_nodes_free(void);

#endif
