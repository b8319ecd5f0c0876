/* SPDX-License-Identifier: Apache-2.0 */
/* Versions, place in the network (manual 3.9), and the last error. */
#include <string.h>

#include "api/api.h"
#include "engine/failure.h"
#include "runtime/setup.h"

enum { LAST_ERROR_SIZE = 1024 };

UT_PUBLIC(utofu_query_tofu_version);
void utofu_query_tofu_version(int *major_ver, int *minor_ver)
{
    if (major_ver)
        *major_ver = 3;
    if (minor_ver)
        *minor_ver = 0;
}

UT_PUBLIC(utofu_query_utofu_version);
void utofu_query_utofu_version(int *major_ver, int *minor_ver)
{
    if (major_ver)
        *major_ver = UTOFU_VERSION_MAJOR;
    if (minor_ver)
        *minor_ver = UTOFU_VERSION_MINOR;
}

UT_PUBLIC(utofu_query_my_coords);
int utofu_query_my_coords(uint8_t coords[])
{
    const struct ut_process *process;

    if (!coords)
        return UT_REFUSE(UTOFU_ERR_INVALID_POINTER, "coords is NULL");
    ut_last_error_begin();
    int rc = ut_runtime_start(&process);
    if (rc == 0)
        memcpy(coords, process->coords.at, sizeof(process->coords.at));
    return UT_RESULT(rc, "the library cannot be set up");
}

/* The manual declares the buffer as const, although the function writes to it. */
UT_PUBLIC(utofu_get_last_error);
void utofu_get_last_error(const char *buf)
{
    if (!buf)
        return;
    ut_toq_full_describe();
    ut_last_error_get((char *)(uintptr_t)buf, LAST_ERROR_SIZE, true);
}
