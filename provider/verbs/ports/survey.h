/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the RDMA ports of this machine for utofu-info. */
#ifndef VP_SURVEY_H
#define VP_SURVEY_H

#include "verbs/prov_types.h"

void vp_survey_ports(const struct vp_prov *prov, void *ctx,
                     void (*report)(void *ctx, const struct prov_port *port));

#endif
