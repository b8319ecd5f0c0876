/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers of messages that freed VCQs of this process had received from each peer. The next VCQ of
 * the same id tells the peer, which does not repeat those messages. Uses nothing. Thread-safe.
 */
#ifndef UT_LINK_RX_HISTORY_H
#define UT_LINK_RX_HISTORY_H

#include <stdint.h>

struct ut_rx_history {
    uint64_t session; /* of the peer; 0: nothing was received */
    uint64_t count;   /* messages and immediates of that session */
};

/* Stores the count for the next VCQ with the id `key`. Without memory the count is lost. */
void ut_rx_history_save(uint64_t key, uint64_t peer_key, struct ut_rx_history heard);
struct ut_rx_history ut_rx_history_find(uint64_t key, uint64_t peer_key);

#endif
