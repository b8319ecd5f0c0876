/* SPDX-License-Identifier: Apache-2.0 */
#include "mpilayer.h"

void pr_presence_announce(void)
{
}

bool pr_presence_all(struct pr_comm *c)
{
    (void)c;
    return true;
}
