/* SPDX-License-Identifier: Apache-2.0 */
/* As upper_init.c, for the channels; only the hooks are called. */
#include "upper.h"

int upper_channels;
int iacp_init_cl(void);

int iacp_init_cl(void)
{
    upper_channels++;
    return 0;
}
