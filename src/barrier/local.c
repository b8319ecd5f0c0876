/* SPDX-License-Identifier: Apache-2.0 */
/* Gates of this process, names of gates, and messages between TNIs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "barrier/inner.h"
#include "peers/peers.h"
#include "util/log.h"
#include "vcq/wait.h"

struct ut_gate_table ut_gate_table;

bool ut_gate_is_own(const struct ut_vbg_ident *ident)
{
    const struct ut_process *process = ut_process_peek();

    return process && ident->local_rank == process->job->local_rank &&
           memcmp(&ident->coords, &process->coords, sizeof(ident->coords)) == 0;
}

utofu_vbg_id_t ut_gate_own_id(unsigned int tni, unsigned int index)
{
    const struct ut_process *process = ut_process_peek();
    struct ut_vbg_ident ident = {.coords = process->coords,
                                 .tni = (uint16_t)tni,
                                 .local_rank = process->job->local_rank,
                                 .gate = (uint16_t)index};

    return ut_vbg_id_pack(&ident);
}

struct ut_gate_name ut_gate_name(utofu_vbg_id_t id)
{
    struct ut_gate_name name;
    const uint8_t *at;
    struct ut_vbg_ident ident;
    struct ut_peer peer;

    if (!ut_vbg_id_unpack(id, &ident)) {
        snprintf(name.text, sizeof(name.text), "VBG %#llx", (unsigned long long)id);
        return name;
    }
    at = ident.coords.at;
    if (ut_gate_is_own(&ident))
        snprintf(name.text, sizeof(name.text), "gate %u (TNI %u, rank %u)", ident.gate, ident.tni,
                 ut_process_peek()->job->rank);
    else if (ut_peers_find_local_rank(&ident.coords, ident.local_rank, &peer) == 0)
        snprintf(name.text, sizeof(name.text), "gate %u (TNI %u, rank %u)", ident.gate, ident.tni,
                 peer.rank);
    else
        snprintf(name.text, sizeof(name.text),
                 "gate %u (TNI %u, node %u,%u,%u,%u,%u,%u, local rank %u)", ident.gate, ident.tni,
                 at[0], at[1], at[2], at[3], at[4], at[5], ident.local_rank);
    return name;
}

void ut_gate_send_cross_tni(unsigned int from, unsigned int to,
                            const struct ut_gate_cross_tni *message)
{
    struct ut_gates *t = &ut_gate_table.of_tni[to];
    struct ut_gate_cross_tni *p = malloc(sizeof(*p));

    if (!p) {
        ut_error("barrier", "no memory for a packet between two TNIs: the barrier will never end");
        return;
    }
    *p = *message;
    p->next = NULL;
    ut_lock(&t->inbox_lock);
    if (!t->inbox)
        t->inbox_last = &t->inbox;
    *t->inbox_last = p;
    t->inbox_last = &p->next;
    __atomic_fetch_or(&ut_gate_table.filled_inboxes, 1u << to, __ATOMIC_RELEASE);
    ut_unlock(&t->inbox_lock);
    /* a call of the program checks the inboxes before it returns; otherwise the background thread
     * does */
    if (!ut_gate_table.of_tni[from].entered)
        ut_vcq_request_progress(ut_gates_vcq(t));
}
