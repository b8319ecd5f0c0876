/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that end. Each process reads some bytes of the next rank's from time to time; uTofu
 * says when that process is gone. Who finds that, or calls acp_abort(), tells its fingers, who tell
 * theirs.
 */
#include "layer.h"

#include <unistd.h>

enum { PERIOD_MS = 250, CALLS = 64, TELL_MS = 100 };

static uint64_t next_probe;
static uint32_t calls;
static bool probing;

void al_watch_setup(void)
{
    next_probe = al_now_ns() + PERIOD_MS * 1000000ull;
    calls = 0;
    probing = false;
}

static void probed(struct al_op *op, int rc, uint64_t old_value)
{
    (void)old_value;
    probing = false;
    next_probe = al_now_ns() + PERIOD_MS * 1000000ull;
    if (rc != UTOFU_SUCCESS && !al.leaving)
        al_fatal("rank %u does not answer, so the job ends: %s", op->rank, al_utofu_error());
}

static void probe(void)
{
    const struct al_peer peer = {.id = al_control->fingers[0]};
    struct al_op *op = al_op_take(0, NULL, (al.rank + 1) % al.procs, probed);

    if (op == NULL)
        return;
    /* more than a word: that uTofu may read from mapped memory, which outlives its process */
    probing = al_op_get(op, peer.id, al_op_bounce_stadd(op),
                        al_peer_control(&peer, offsetof(struct al_control, pad1)), 32);
}

void al_watch_poll(void)
{
    uint64_t aborted = __atomic_load_n(&al_control->aborted, __ATOMIC_ACQUIRE);

    if (aborted > al.procs) {
        al_log("\"rank %llu ends the job\" is left out: there is no such rank: another program's?",
               (unsigned long long)aborted - 1);
        __atomic_store_n(&al_control->aborted, 0, __ATOMIC_RELEASE);
    } else if (aborted != 0 && !al.dying) {
        al_log("rank %llu ends the job", (unsigned long long)aborted - 1);
        al_watch_tell((uint32_t)(aborted - 1));
        _exit(1);
    }
    if (++calls % CALLS != 0 || probing || al.leaving || al.dying || al.procs == 1)
        return;
    if (al_now_ns() >= next_probe)
        probe();
}

uint32_t al_watch_due_us(void)
{
    uint64_t now = al_now_ns();

    if (probing || al.procs == 1)
        return PERIOD_MS * 1000;
    return now < next_probe ? (uint32_t)((next_probe - now) / 1000 + 1) : 1;
}

void al_watch_soon(void)
{
    calls = CALLS - 1;
}

static void told(struct al_op *op, int rc, uint64_t old_value)
{
    (void)op;
    (void)rc;
    (void)old_value;
}

void al_watch_tell(uint32_t rank)
{
    const uint64_t word = (uint64_t)rank + 1;
    uint64_t end = al_now_ns() + TELL_MS * 1000000ull;

    if (!al.running || al.dying)
        return;
    al.leaving = al.dying = true;
    for (uint32_t k = 0; k < al.num_fingers; k++) {
        const struct al_peer peer = {.id = al_control->fingers[k]};
        struct al_op *op = al_op_take(0, NULL, 0, told);

        if (op != NULL)
            al_op_put_now(op, peer.id, &word,
                          al_peer_control(&peer, offsetof(struct al_control, aborted)), 8,
                          UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE);
    }
    while (al_net_busy() > 0 && al_now_ns() < end)
        al_net_poll();
}
