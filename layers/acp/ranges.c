/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache of GA ranges. Copies fill it. It is cleared when memory is registered again, or when a
 * cached row of another process turns out to be stale.
 */
#include "ranges.h"

#include "address.h"
#include "ctx.h"
#include "net.h"

void al_ranges_drop_all(void)
{
    al.ranges.run.last = 0;
    al.ranges.own.range.size = 0;
    for (int i = 0; i < AL_REMOTE_RANGES; i++)
        al.ranges.remotes[i].range.size = 0;
}

void al_ranges_drop(acp_ga_t ga)
{
    struct al_remote_range *remote = al_ranges_at(&al.ranges, al.address.offset_bits, ga);

    al.ranges.run.last = 0;
    if (al_range_has(&remote->range, ga, 0))
        remote->range.size = 0;
}

static struct al_range range_of(acp_ga_t ga, const struct al_extent *extent, utofu_stadd_t stadd)
{
    return (struct al_range){
        .begin = ga - extent->before, .size = extent->size, .shift = stadd - ga};
}

void al_ranges_cache(acp_ga_t own_ga, const struct al_extent *own_extent, utofu_stadd_t mine,
                     acp_ga_t remote_ga, const struct al_target *target)
{
    al.ranges.own.range = range_of(own_ga, own_extent, mine);
    al.ranges.own.port = al_port(al_color_of(own_ga));
    *al_ranges_at(&al.ranges, al.address.offset_bits, remote_ga) = (struct al_remote_range){
        .range = range_of(remote_ga, &target->extent, target->stadd), .id = target->id};
}
