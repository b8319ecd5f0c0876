/* SPDX-License-Identifier: Apache-2.0 */
/* What wakes the background thread: the descriptors in the provider's epoll, and a timer for what
 * the fabric does not take at once. */
#ifndef FP_WAKE_H
#define FP_WAKE_H

#include "types.h"

/* What an event's data.u64 is: an owner, which is to be woken, or a number, or a peer that ended.
 */
enum { FP_EVENT_PEER = 1, FP_EVENT_CONTROL = 2, FP_EVENT_TICK = 4 };

/* progress() is called in a millisecond. Any thread. */
void fp_tick(struct fp_prov *prov);

/* Adds a descriptor, or changes what it is watched for. 0 or -errno. */
int fp_watch(struct fp_prov *prov, int fd, uint32_t events, uint64_t data);

#endif
