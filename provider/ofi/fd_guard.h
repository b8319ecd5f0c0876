/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guards for calls of the core that lead into libfabric.
 *
 * libfabric creates, uses and closes descriptors in almost every call, over TCP even in calls that
 * post and poll. The guards reserve the numbers 0 to 2 for the program while the program has them
 * closed. They also detect that the program has closed descriptors of this process, whose numbers
 * may belong to files of the program now: then every connection goes down, and no further call
 * enters libfabric.
 */
#ifndef FP_FD_GUARD_H
#define FP_FD_GUARD_H

#include "types.h"

/* Called when the provider has been opened. */
void fp_guard_init(struct fp_prov *prov);

/* False: the program has closed descriptors. True: fp_guard_leave() follows. */
bool fp_guard_enter(struct fp_prov *prov);
void fp_guard_leave(const struct fp_prov *prov);

void fp_guarded_dereg(struct prov *base, struct prov_mr *mr);
int fp_guarded_ep_open(struct prov *base, const struct prov_ep_attr *attr, struct prov_ep **ep);
void fp_guarded_ep_close(struct prov_ep *base);
int fp_guarded_ep_poll(struct prov_ep *base);
bool fp_guarded_ep_arm(struct prov_ep *base, enum prov_arm what);
int fp_guarded_connect(struct prov_ep *base, const void *addr, size_t addr_size,
                       unsigned int peer_tni, uint64_t peer_id, const void *hello,
                       size_t hello_size, void *ctx, struct prov_conn **conn);
int fp_guarded_accept(struct prov_conn *base, const void *hello, size_t hello_size, void *ctx);
void fp_guarded_reject(struct prov_conn *base);
void fp_guarded_conn_close(struct prov_conn *base);
int fp_guarded_write(struct prov_conn *base, const struct prov_xfer *xfer);
int fp_guarded_read(struct prov_conn *base, const struct prov_xfer *xfer);
int fp_guarded_send(struct prov_conn *base, const void *data, size_t size, unsigned int flags,
                    uint64_t cookie);

#endif
