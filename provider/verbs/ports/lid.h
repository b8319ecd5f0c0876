/* SPDX-License-Identifier: Apache-2.0 */
/* The LID that an InfiniBand port has now, by its GID, which stays, and the service level that
 * leads to it. */
#ifndef VP_LID_H
#define VP_LID_H

#include "verbs/prov_types.h"

/* Asks the subnet manager, through librdmacm, and waits for its answer. 0: none came in time. */
uint16_t vp_query_lid(const struct vp_port *from, const union ibv_gid *gid, int timeout_ms,
                      uint8_t *sl);

#endif
