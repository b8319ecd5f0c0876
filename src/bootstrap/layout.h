/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout of ranks on nodes, as a list of blocks: `nodes` nodes from `first` on, each with
 * `each` consecutive ranks. The list repeats until all ranks have a node. PMI-1 calls such a list
 * PMI_process_mapping. Pure functions.
 */
#ifndef UT_BOOTSTRAP_LAYOUT_H
#define UT_BOOTSTRAP_LAYOUT_H

#include <stdint.h>

enum { UT_JOB_LAYOUT_BLOCKS = 512 }; /* a PMI-1 value has at most 1024 characters */

struct ut_job_block {
    uint32_t first, nodes, each;
};

struct ut_job_layout {
    uint32_t size;       /* number of ranks of the job */
    uint32_t num_blocks; /* 0: unknown layout */
    uint64_t cycle;      /* number of ranks in one pass through the list */
    struct ut_job_block blocks[UT_JOB_LAYOUT_BLOCKS];
};

struct ut_job_place {
    uint32_t node, num_nodes, local_rank, local_size;
};

/* Parses "(vector,(first,nodes,each),...)" for a job of `size` ranks. 0 or -EINVAL. MPICH since 4.2
 * also writes a number for a node with one rank (observed with mpiexec 4.2.1), and "[block,...]xN"
 * for blocks that repeat N times (documented in the comment "rankmap string format" of its sources;
 * not observed). */
int ut_job_layout_parse(struct ut_job_layout *layout, const char *text, uint32_t size);

/* Distributes `size` ranks over nodes in blocks whose sizes differ by at most one. 1 <= nodes <=
 * size. */
void ut_job_layout_alloc(struct ut_job_layout *layout, uint32_t size, uint32_t nodes);

/* The node and local rank of a rank. 0, or -ENOENT if the layout is unknown. */
int ut_job_layout_place(const struct ut_job_layout *layout, uint32_t rank,
                        struct ut_job_place *place);

/* The rank with this local rank on this node, or -ENOENT. */
int64_t ut_job_layout_rank_at(const struct ut_job_layout *layout, uint32_t node,
                              uint32_t local_rank);

/* The entry of a node in a list such as "2(x3),1" (Slurm's tasks per node), or -ENOENT. */
int64_t ut_job_layout_tasks(const char *list, uint32_t node);

#endif
