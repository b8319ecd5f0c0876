/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the process: environment, job, place in the network, CQs, providers. runtime sets it
 * up.
 * Uses util, ident, bootstrap and provider.h.
 */
#ifndef UT_PROCESS_PROCESS_H
#define UT_PROCESS_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "ident/ident.h"
#include "bootstrap/job.h"
#include "provider.h"
#include "providers.h"
#include "wire/wire.h"

enum { UT_MAX_CQS = 16 }; /* per TNI and process */

struct ut_process {
    const struct ut_job_info *job;
    struct ut_shape shape;
    struct ut_coords coords;
    unsigned int num_cqs; /* per TNI */
    uint16_t cq_ids[UT_MAX_CQS];
    bool fugaku_cqs;                         /* UTOFU_CQ_MAP=fugaku: see cqs.h */
    uint32_t most_local;                     /* with fugaku_cqs: the largest number of processes on
                                              * a node */
    unsigned int num_exclusive, num_session; /* numbers of CQs reserved for exclusive and session-
                                              * mode VCQs */
    uint8_t armw_mode;                       /* UT_ARMW_CPU or UT_ARMW_NIC */
    uint16_t line[UT_NUM_TNIS]; /* number of bytes of a cache line that arrive in order: the minimum
                                 * of all devices */
    uint64_t host;              /* as in struct ut_address_record; made from the fields below */
    uint32_t boot, pid_ns, net_ns;
    uint64_t session;              /* random number of this process */
    struct prov *prov[PROV_COUNT]; /* indexed as in the registry; NULL: not in use */
};

/* For set-up, in runtime. ut_process_begin() finds the environment, the job and the host. It
 * returns 0; UT_PROCESS_NOT_YET if the launcher can only be asked later; or an enum
 * utofu_return_code after an error line. ut_process_find_coords() finds coordinates and CQs, with
 * the same results. Then set-up fills in the other fields, and marks the process as ready. */
enum { UT_PROCESS_NOT_YET = 1 };
int ut_process_begin(struct ut_process **process);
int ut_process_find_coords(void);
void ut_process_ready(void);

/* The process; NULL before set-up. */
const struct ut_process *ut_process_peek(void);
/* Makes progress on the providers, from any thread. Returns the milliseconds until the next call is
 * due; -1: when a descriptor of a provider is readable. If another thread is inside this function,
 * does nothing, and is due again in 1 ms. */
int ut_process_progress(void);
/* Loads the environment and initializes the log, for calls that need no job. 0 or UTOFU_ERR_FATAL.
 */
int ut_process_environment(void);

/* True in a child made by fork(), which must not use the library. */
extern bool ut_process_is_fork;
static inline bool ut_process_forked(void)
{
    return ut_process_is_fork;
}

#endif
