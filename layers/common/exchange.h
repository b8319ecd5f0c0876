/* SPDX-License-Identifier: Apache-2.0 */
/* The exchange of VCQ ids before there are connections. */
#ifndef LC_EXCHANGE_H
#define LC_EXCHANGE_H

#include <stdint.h>

#include <utofu.h>

#include "job.h"

#pragma GCC visibility push(hidden)

enum { LC_MAX_PARTNERS = 31 /* ranks are of type int */ };
struct lc_exchange {
    const struct lc_job *job;
    const char *function;  /* name of the called function, for messages */
    utofu_cmp_id_t cmp_id; /* component id of the VCQ of the exchange, on TNI 0 */
    uint64_t must_match;   /* must be equal in all processes */
};
enum lc_exchange_result {
    LC_EXCHANGE_OK = 1,
    LC_EXCHANGE_BAD_RANKS, /* two processes have the same rank, or a rank is too high */
    LC_EXCHANGE_MISMATCH,  /* must_match differs */
    LC_EXCHANGE_FAILED     /* communication failed, as log lines say */
};
/* Sends a VCQ id and a rank to the first process, and receives the VCQ ids of the partners: the
 * processes 1, 2, 4, 8... ranks ahead. Collective. */
enum lc_exchange_result lc_exchange_ids(const struct lc_exchange *exchange, uint64_t rank,
                                        utofu_vcq_id_t id, uint64_t partners[LC_MAX_PARTNERS]);

#pragma GCC visibility pop

#endif
