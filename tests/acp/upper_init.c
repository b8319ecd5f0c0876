/* SPDX-License-Identifier: Apache-2.0 */
/* A minimal upper layer in a static library: the functions for the basic layer are in this file,
 * the functions for programs in another one. */
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
