/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked for; the first call. */
#ifndef OB_CONFIG_H
#define OB_CONFIG_H

#include <stdbool.h>
#include "observe/state.h"

/* The first call: finds the next functions, and opens what is asked for. True: something is. */
bool ob_open(void);
static inline bool ob_enter(void)
{
    enum ob_state state = __atomic_load_n(&ob_state, __ATOMIC_ACQUIRE);

    if (OB_UNLIKELY(state != OB_ON) && (state == OB_OFF || !ob_open()))
        return false;
    return OB_LIKELY(ob_depth == 0);
}

#endif
