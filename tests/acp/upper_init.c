/* SPDX-License-Identifier: Apache-2.0 */
/* An upper layer in miniature, in a static library: what the basic layer calls is in this file,
 * what programs call in another one. */
#include "upper.h"

bool upper_is_ready;
size_t iacp_starter_memory_size_dl = 4096;
int iacp_init_dl(void);
int iacp_finalize_dl(void);

int iacp_init_dl(void)
{
    upper_is_ready = true;
    return 0;
}

int iacp_finalize_dl(void)
{
    upper_is_ready = false;
    return 0;
}
