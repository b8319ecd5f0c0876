/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What there is once per process: the environment, the job, the place in the network, the deal of
 * CQs, the providers, the owner of every VCQ id. Set up at the first call that needs it.
 *
 * Uses util, ident, wire, job and provider.h.
 */
#ifndef UT_PROCESS_PROCESS_H
#define UT_PROCESS_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "ident/ident.h"
#include "job/job.h"
#include "provider.h"
#include "wire/wire.h"

enum { UT_MAX_CQS = 16 }; /* of one TNI in one process */

struct ut_process {
    const struct ut_job_info *job;
    struct ut_shape shape;
    struct ut_coords coords;
    unsigned int num_cqs;             /* of each TNI */
    uint16_t cq_ids[UT_MAX_CQS];
    unsigned int num_exclusive, num_session; /* how many of them are kept for these */
    uint8_t armw_mode;                /* UT_ARMW_CPU or UT_ARMW_NIC */
    uint64_t host;
    uint64_t session;                 /* random number of this process */
    struct prov *prov[UT_NUM_PROVIDERS]; /* NULL: not in use */
};

/* 0 and *process, or an enum utofu_return_code after an error line (later calls repeat it). */
int ut_process_get(const struct ut_process **process);
/* The same without setting it up: NULL before. For the path of a put. */
const struct ut_process *ut_process_peek(void);
/* Sets up what needs no job: environment and log. 0 or UTOFU_ERR_FATAL. */
int ut_process_environment(void);

/* A process that owns VCQs, found by coordinates and CQ. */
struct ut_peer {
    uint32_t rank;
    int provider;             /* index into ut_process.prov */
    uint8_t addr[PROV_ADDR_MAX];
    size_t addr_size;
};
/* 0; -EAGAIN: not published yet (or the launcher's channel is busy); -ENOENT: no process of the job
 * owns it; -EHOSTUNREACH: no provider reaches it (after an error line). Does not wait. */
int ut_process_find_owner(const struct ut_coords *coords, uint16_t cq, struct ut_peer *peer);
/* The same for a barrier gate: by coordinates and local rank. */
int ut_process_find_local_rank(const struct ut_coords *coords, uint32_t local_rank,
                               struct ut_peer *peer);

/* True in a child made by fork(), which must not use the library. */
extern bool ut_process_is_fork;
static inline bool ut_process_forked(void)
{
    return ut_process_is_fork;
}

#endif
