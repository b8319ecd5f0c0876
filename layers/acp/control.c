/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of a process that peers write to and read. */
#include "control.h"

bool al_control_setup(void)
{
    if (!lc_control_open(&al.area, al_port(0), AL_STAG_CONTROL, sizeof(*al.control)))
        return false;
    al.control = al.area.memory.start;
    return true;
}

void al_control_close(void)
{
    lc_control_close(&al.area);
    al.control = NULL;
}
