/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranges of GAs that were used last: filled with what a copy has looked up, and cleared where
 * memory is registered anew or a row of another process's table turns out to be out of date.
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
