/* SPDX-License-Identifier: Apache-2.0 */
/* Versions, place in the network (manual 3.9), and the last error. */
#include <string.h>

#include "api/api.h"

enum { LAST_ERROR_SIZE = 1024 };

void putofu_query_tofu_version(int *major_ver, int *minor_ver)
{
    if (major_ver)
        *major_ver = 3;
    if (minor_ver)
        *minor_ver = 0;
}
UT_PUBLIC(utofu_query_tofu_version);

void putofu_query_utofu_version(int *major_ver, int *minor_ver)
{
    if (major_ver)
        *major_ver = UTOFU_VERSION_MAJOR;
    if (minor_ver)
        *minor_ver = UTOFU_VERSION_MINOR;
}
UT_PUBLIC(utofu_query_utofu_version);

int putofu_query_my_coords(uint8_t coords[])
{
    const struct ut_process *process;

    if (!coords)
        return UT_REFUSE(UTOFU_ERR_INVALID_POINTER, "coords is NULL");
    int rc = ut_process_get(&process);
    if (rc == 0)
        memcpy(coords, process->coords.at, sizeof(process->coords.at));
    return rc;
}
UT_PUBLIC(utofu_query_my_coords);

/* Programs declare the buffer const and mean it to be written. */
void putofu_get_last_error(const char *buf)
{
    if (buf)
        ut_log_last_error((char *)(uintptr_t)buf, LAST_ERROR_SIZE);
}
UT_PUBLIC(utofu_get_last_error);
