/* SPDX-License-Identifier: Apache-2.0 */
/* The VCQ ids of other processes. */
#ifndef AL_PEERS_H
#define AL_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <utofu.h>

#include "sizes.h"

#pragma GCC visibility push(hidden)

struct al_task;

enum al_found { AL_FOUND, AL_LATER, AL_NEVER };
struct al_peer {
    uint32_t rank;
    bool head_read_pending; /* a read of the head is in flight */
    utofu_vcq_id_t id;      /* of color 0 */
    uint64_t head_seen;     /* head of the command ring of the peer, when read last */
};

void al_peers_close(void);
/* AL_LATER: the task is stepped again when the id is known. */
enum al_found al_peer_find(uint32_t rank, struct al_task *task, struct al_peer **peer);
void al_peers_count_usage(struct al_usage *usage);

#pragma GCC visibility pop

#endif
