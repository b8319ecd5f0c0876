/* SPDX-License-Identifier: Apache-2.0 */
/* Write, read and send: functions of a connection that is up. */
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
int sp_atomic(struct prov_conn *conn, const struct prov_atomic *atomic);
/* The local address of remote memory. NULL: it is not mapped. */
void *sp_direct(struct prov_conn *conn, uint64_t rmt, uint32_t length, uint32_t rkey);
const struct prov_mapping *sp_mapping(struct prov_conn *conn);

#endif
