/* SPDX-License-Identifier: Apache-2.0 */
/* A ping is a control message. The background thread of the peer replies with a pong, whatever the
 * program of the peer does. */
#include "keepalive.h"

#include "control.h"
#include "peer.h"
#include "refused.h"
#include "util/clock.h"
#include "util/log.h"

enum { LOOK_MS = 1000, MIN_LOOK_MS = 100, LOOKS = 4 }; /* before a peer is given up */

uint32_t fp_peer_ping(struct fp_peer *peer)
{
    uint32_t question = __atomic_add_fetch(&peer->last_ping, 1, __ATOMIC_SEQ_CST);

    __atomic_store_n(&peer->awaited_pong, question, __ATOMIC_RELEASE);
    fp_control_send(peer, &(struct fp_ctrl_msg){.kind = FP_PING, .from_conn = question});
    return question;
}

static unsigned int check_interval_ms(const struct fp_prov *prov)
{
    unsigned int ms = prov->config.peer_timeout_ms / LOOKS;

    return ms > LOOK_MS ? LOOK_MS : ms < MIN_LOOK_MS ? MIN_LOOK_MS : ms;
}

/* Called with the lock. Is a ping due? Time in which this process did not run is mostly not
 * counted, because a pong may have arrived meanwhile. */
static bool check_peer(struct fp_peer *peer, uint64_t now)
{
    struct fp_prov *prov = peer->prov;
    uint64_t since = now > peer->checked_ms ? now - peer->checked_ms : 0,
             most = 2 * check_interval_ms(prov);

    if (since < check_interval_ms(prov))
        return false;
    peer->checked_ms = now;
    peer->silent_ms += since < most ? since : most;
    if (peer->silent_ms <= prov->config.peer_timeout_ms)
        return true;
    ut_info(FP_CAT, "a process has not answered for %u s", prov->config.peer_timeout_ms / 1000);
    __atomic_add_fetch(&peer->timeouts, 1, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&prov->peer_events, 1, __ATOMIC_SEQ_CST);
    peer->silent_ms = 0;
    return false;
}

static bool is_silent(const struct fp_peer *peer)
{
    return peer->silent_ms >= 2 * check_interval_ms(peer->prov);
}

/* Handles what the peer sent before its end, and then its end. */
static void check_port(struct fp_peer *peer)
{
    if (!fp_peer_port_is_refused(peer))
        return;
    fp_control_progress(peer->prov);
    fp_peer_died(peer);
}

int fp_keepalive_run(struct fp_prov *prov)
{
    uint64_t now = ut_now_ms();
    unsigned int living = 0;

    if (now < prov->next_pass_ms) /* progress() is called for each event, too */
        return (int)check_interval_ms(prov);
    pthread_mutex_lock(&prov->lock);
    struct fp_peer *peer = SLIST_FIRST(&prov->peers);
    pthread_mutex_unlock(&prov->lock);
    for (; peer;
         peer = SLIST_NEXT(peer, next)) { /* peers are never freed, new ones are prepended */
        pthread_mutex_lock(&prov->lock);
        bool lives = peer->conns > 0 && !fp_peer_is_dead(peer);
        bool ask = lives && check_peer(peer, now);
        bool silent = lives && is_silent(peer);
        pthread_mutex_unlock(&prov->lock);
        living += lives;
        if (silent)
            check_port(peer);
        else
            fp_peer_drop_port_probe(peer);
        if (ask)
            fp_peer_ping(peer);
    }
    prov->next_pass_ms = living > 0 ? now + MIN_LOOK_MS : 0;
    return living > 0 ? (int)check_interval_ms(prov) : -1;
}
