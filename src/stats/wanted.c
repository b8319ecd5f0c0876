/* SPDX-License-Identifier: Apache-2.0 */
#include "stats/wanted.h"

#include "util/env.h"

bool ut_stats_is_traced(void)
{
    return *ut_env_str(UT_ENV_TRACE) && !ut_env_num(UT_ENV_TRACE_RECORD);
}
