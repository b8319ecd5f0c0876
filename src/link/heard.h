/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What VCQs of this process that were freed had received from each peer. Who has their id next says
 * it to the peer, which then does not send it again. Uses nothing. From any thread.
 */
#ifndef UT_LINK_HEARD_H
#define UT_LINK_HEARD_H

#include <stdint.h>

struct ut_heard {
    uint64_t session; /* of the peer; 0: nothing was received */
    uint64_t count;   /* messages and immediates of that session */
};

/* For the next VCQ with the id `key`. Without memory it is forgotten. */
void ut_heard_keep(uint64_t key, uint64_t peer_key, struct ut_heard heard);
struct ut_heard ut_heard_find(uint64_t key, uint64_t peer_key);

#endif
