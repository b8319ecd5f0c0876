/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out whether all processes have this layer. */
#ifndef PRDMA_PRESENCE_H
#define PRDMA_PRESENCE_H

#include "mpilayer.h"

void pr_presence_before_init(void);
void pr_presence_publish(void);
bool pr_presence_everywhere(struct pr_comm *c);

#endif
