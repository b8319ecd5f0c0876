/* SPDX-License-Identifier: Apache-2.0 */
/* Where the registered memory of other processes is. */
#ifndef AL_REMOTE_H
#define AL_REMOTE_H

#include "memory.h"
#include "peers.h"

#pragma GCC visibility push(hidden)

enum { AL_REMOTE_ROWS = 512 };

struct al_target {
    utofu_vcq_id_t id;
    utofu_stadd_t stadd;
    uint32_t rank;
    struct al_extent extent;
};
struct al_remotes {
    struct al_row {
        uint32_t rank_plus_1, tag;
        struct al_published what;
    } rows[AL_REMOTE_ROWS]; /* a cache */
};

void al_remote_setup(void);
enum al_found al_remote_find(acp_ga_t ga, struct al_task *task, struct al_target *target);
void al_remote_drop(acp_ga_t ga);
/* True if a retry may help after this code, because the cached row may be stale. Drops the row. */
bool al_remote_may_retry(struct al_task *task, int rc, acp_ga_t ga);
/* Records the region of the next operation of the task. */
void al_remote_set_region(struct al_task *task, utofu_stadd_t region);

#pragma GCC visibility pop

#endif
