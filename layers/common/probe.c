/* SPDX-License-Identifier: Apache-2.0 */
/* When a process asks another one whether it lives. */
#include "probe.h"

#include "job.h"

void lc_probe_setup(struct lc_probe *probe)
{
    *probe = (struct lc_probe){.next_ns = lc_now_ns() + LC_PROBE_MS * 1000000ull};
}

void lc_probe_ended(struct lc_probe *probe)
{
    probe->under_way = false;
    probe->next_ns = lc_now_ns() + LC_PROBE_MS * 1000000ull;
}

bool lc_probe_is_due(const struct lc_probe *probe)
{
    return !probe->under_way && lc_now_ns() >= probe->next_ns;
}

uint32_t lc_probe_due_us(const struct lc_probe *probe)
{
    uint64_t now = lc_now_ns();

    if (probe->under_way)
        return LC_PROBE_MS * 1000;
    return now < probe->next_ns ? (uint32_t)((probe->next_ns - now) / 1000 + 1) : 1;
}
