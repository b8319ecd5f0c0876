/* SPDX-License-Identifier: Apache-2.0 */
/* Two VCQs of one process, over the fake provider, with memory for puts in both directions. */
#ifndef UT_TEST_FAKE_PAIR_H
#define UT_TEST_FAKE_PAIR_H

#include <string.h>

#include "fake.h"

static uint64_t here[8], there[8]; /* of the origin and of its peer */
static utofu_vcq_hdl_t origin, peer;
static utofu_vcq_id_t origin_id, peer_id;
static utofu_stadd_t lcl, rmt, back_lcl, back_rmt;

/* The caller sets other environment variables before. */
static inline void pair_open(void)
{
    static uint64_t back[2][8];

    setenv("UTOFU_PROVIDER", "fake", 1);
    setenv("UTOFU_PROGRESS_THREAD", "0", 1);
    CHECK(utofu_create_vcq(0, 0, &origin) == UTOFU_SUCCESS);
    CHECK(utofu_create_vcq(4, 0, &peer) == UTOFU_SUCCESS);
    CHECK(utofu_query_vcq_id(origin, &origin_id) == UTOFU_SUCCESS);
    CHECK(utofu_query_vcq_id(peer, &peer_id) == UTOFU_SUCCESS);
    CHECK(utofu_reg_mem(origin, here, sizeof(here), 0, &lcl) == UTOFU_SUCCESS);
    CHECK(utofu_reg_mem(peer, there, sizeof(there), 0, &rmt) == UTOFU_SUCCESS);
    CHECK(utofu_reg_mem(peer, back[0], sizeof(back[0]), 0, &back_lcl) == UTOFU_SUCCESS);
    CHECK(utofu_reg_mem(origin, back[1], sizeof(back[1]), 0, &back_rmt) == UTOFU_SUCCESS);
    fake_peer_lives = true;
}

static inline void pair_close(void)
{
    CHECK(utofu_free_vcq(origin) == UTOFU_SUCCESS && utofu_free_vcq(peer) == UTOFU_SUCCESS);
    printf("ok\n");
}

/* Puts a word to the peer. */
static inline void put_there(unsigned long int flags)
{
    CHECK(utofu_put(origin, peer_id, lcl, rmt, sizeof(uint64_t), 0, flags, NULL) == UTOFU_SUCCESS);
}

/* Puts a word from the peer to the origin. */
static inline void put_back(unsigned long int flags)
{
    CHECK(utofu_put(peer, origin_id, back_lcl, back_rmt, sizeof(uint64_t), 0, flags, NULL) ==
          UTOFU_SUCCESS);
}

#endif
