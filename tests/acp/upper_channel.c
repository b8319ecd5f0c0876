/* SPDX-License-Identifier: Apache-2.0 */
/* The same for the channels; nothing else of it is ever called. */
#include "upper.h"

int upper_channels;
int iacp_init_cl(void);

int iacp_init_cl(void)
{
    upper_channels++;
    return 0;
}
