/* SPDX-License-Identifier: Apache-2.0 */
#include "util/fd_check.h"

#include "util/fd.h"
#include "util/log.h"

static bool closed; /* atomic */

bool ut_fd_check_still_ours(int fd)
{
    if (ut_fd_is_still_ours(fd))
        return true;
    if (fd >= 0 && !__atomic_exchange_n(&closed, true, __ATOMIC_RELAXED))
        ut_error(
            "process",
            "the program has closed descriptors of this library (close_range(), or a loop over "
            "all numbers, as daemons do): connections to other processes break, and new ones "
            "fail; close only what the program has opened, or close all before the first call "
            "of this library");
    return false;
}

bool ut_fd_were_closed(void)
{
    return __atomic_load_n(&closed, __ATOMIC_RELAXED);
}
