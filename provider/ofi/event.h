/* SPDX-License-Identifier: Apache-2.0 */
/* Wakes the background thread: the descriptors in the provider's epoll, and a timer for operations
 * that the fabric does not accept at once. */
#ifndef FP_EVENT_H
#define FP_EVENT_H

#include "types.h"

/* An event's data.u64: an owner to wake, a number, or a peer that ended. */
enum { FP_EVENT_PEER = 1, FP_EVENT_CONTROL = 2, FP_EVENT_TICK = 4 };

/* Requests a call of progress() in a millisecond. For any thread. */
void fp_timer_start(struct fp_prov *prov);

/* Adds a descriptor, or changes its events. 0 or -errno. */
int fp_epoll_watch(struct fp_prov *prov, int fd, uint32_t events, uint64_t data);

#endif
