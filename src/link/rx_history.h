/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receive history: the number of messages that freed VCQs of this process received from each peer.
 * The next VCQ with the same id tells the peer this number, and the peer does not send those
 * messages again. Uses util only. Thread-safe.
 */
#ifndef UT_LINK_RX_HISTORY_H
#define UT_LINK_RX_HISTORY_H

#include <stdint.h>

struct ut_rx_history {
    uint64_t incarnation; /* of the peer's VCQ; 0: nothing received */
    uint64_t count;       /* messages and immediates received from it */
};

/* Stores the history of messages from the peer's VCQ for the next VCQ with the id of `key`. Both
 * keys: ut_vcq_id_key(). Without memory the history is lost. */
void ut_rx_history_save(uint64_t key, uint64_t peer_key, struct ut_rx_history history);
/* Returns the stored history; zeros if there is none. */
struct ut_rx_history ut_rx_history_find(uint64_t key, uint64_t peer_key);

#endif
