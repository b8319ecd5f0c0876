/* SPDX-License-Identifier: Apache-2.0 */
/* Write, read and send: struct prov_ops (provider.h) defines what these functions do. */
#ifndef SP_XFER_H
#define SP_XFER_H

#include <stddef.h>
#include <stdint.h>

#include "mapped.h"
#include "provider.h"

int sp_write(struct prov_conn *conn, const struct prov_xfer *xfer);
int sp_read(struct prov_conn *conn, const struct prov_xfer *xfer);
int sp_send(struct prov_conn *conn, const void *data, size_t size, unsigned int flags,
            uint64_t cookie);
/* Returns -EIO: the capabilities have no atomics. */
int sp_atomic(struct prov_conn *conn, const struct prov_atomic *atomic);
/* prov_ops.direct(): returns the local address of remote memory. NULL: it is not mapped. */
void *sp_direct(struct prov_conn *conn, uint64_t rmt, uint32_t length, uint32_t rkey);
/* Returns the connection's mapping of the peer's memory; owned by the connection. */
const struct prov_mapping *sp_mapping(struct prov_conn *conn);

#endif
