/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a process that the layers of the others write and read. */
#include "control.h"

bool al_control_setup(void)
{
    if (!lc_control_open(&al.area, al_port(0), AL_STAG_CONTROL, sizeof(*al.control)))
        return false;
    al.control = al.area.memory.at;
    return true;
}

void al_control_close(void)
{
    lc_control_close(&al.area);
    al.control = NULL;
}
