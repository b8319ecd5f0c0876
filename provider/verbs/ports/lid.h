/* SPDX-License-Identifier: Apache-2.0 */
/* Query of the current LID of an InfiniBand port by its GID, which does not change, and of the
 * service level of the path. */
#ifndef VP_LID_H
#define VP_LID_H

#include "verbs/prov_types.h"

/* Asks the subnet manager through librdmacm, and waits for the reply. Returns the LID; 0: no reply
 * in time. */
uint16_t vp_query_lid(const struct vp_port *from, const union ibv_gid *gid, int timeout_ms,
                      uint8_t *sl);

#endif
