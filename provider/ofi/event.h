/* SPDX-License-Identifier: Apache-2.0 */
/* Events of the background thread: the descriptors in the epoll instance, and a timer to retry
 * operations that the fabric did not accept. */
#ifndef FP_EVENT_H
#define FP_EVENT_H

#include "types.h"

/* data.u64 of an event: an owner to wake, one of these numbers, or a peer whose process has ended.
 * */
enum { FP_EVENT_PEER = 1, FP_EVENT_CONTROL = 2, FP_EVENT_TIMER = 4 };

/* Makes the background thread call progress() in a millisecond. For any thread. */
void fp_timer_start(struct fp_prov *prov);

/* Adds a descriptor, or changes its events. 0 or -errno. */
int fp_epoll_watch(struct fp_prov *prov, int fd, uint32_t events, uint64_t data);

#endif
