/* SPDX-License-Identifier: Apache-2.0 */
/* Memory registration. */
#ifndef VP_MR_H
#define VP_MR_H

#include <stddef.h>

#include "provider.h"

int vp_reg_mr(struct prov *prov, unsigned int device, void *addr, size_t size, unsigned int access,
              struct prov_mr **mr);
void vp_dereg_mr(struct prov *prov, struct prov_mr *mr);

#endif
