/* SPDX-License-Identifier: Apache-2.0 */
/* When attempts to connect are made: see attempts.h. */
#include "attempts.h"

#include "verbs/ep_types.h"
#include "util/clock.h"
#include "util/retry_delay.h"

enum {
    PAUSE_FIRST_MS = 20,
    PAUSE_MOST_MS = 2000,
    PAUSE_SHARE = 8,      /* the longest pause is this fraction of a peer timeout */
    PAUSE_SHORT_MS = 500, /* when this process lacks a resource */
    MOST_FIRST = 5,       /* highest number that a first attempt counts as */
    PATIENCE = 3,         /* length of an attempt, in recent handshake durations */
    BUSY_TIMEOUTS = 8,    /* peer timeouts for a peer that is alive and does not accept */
};

static unsigned int first_timeout(const struct vp_prov *prov)
{
    return prov->tuning.step_ms / 4;
}

unsigned int vp_attempt_ms(const struct vp_prov *prov, unsigned int attempt)
{
    unsigned int first = first_timeout(prov), most = prov->config.peer_timeout_ms / 2;

    return (unsigned int)ut_retry_delay_nth_ms(attempt > 1 ? attempt - 1 : 0, first,
                                               most > first ? most : first);
}

uint8_t vp_first_attempt_number_locked(const struct vp_prov *prov)
{
    uint8_t attempt = 1;

    while (attempt < MOST_FIRST && vp_attempt_ms(prov, attempt) < PATIENCE * prov->took_ms)
        attempt++;
    return attempt;
}

void vp_adapt_window_locked(struct vp_prov *prov, uint64_t started)
{
    uint64_t took = ut_clock_ms() - started;

    if (took > prov->took_ms)
        prov->took_ms = (unsigned int)took;
    else
        prov->took_ms -= (prov->took_ms - (unsigned int)took + 7) / 8;
    if (took < first_timeout(prov) / 4 && prov->window < prov->tuning.max_connecting)
        prov->window++;
    else if (took > first_timeout(prov) / 2 && prov->window > VP_MIN_WINDOW)
        prov->window--;
}

uint64_t vp_last_attempt_deadline(const struct vp_conn *conn, enum vp_attempt_result sign)
{
    const struct prov_config *config = &conn->ep->prov->config;
    uint64_t silent = conn->hs.sign + config->peer_timeout_ms;
    uint64_t busy = conn->hs.first + BUSY_TIMEOUTS * (uint64_t)config->peer_timeout_ms;
    uint64_t unresolved = conn->hs.first + config->job_timeout_ms;

    if (sign == VP_ATTEMPT_UNRESOLVED && unresolved > silent)
        return unresolved;
    return silent < busy ? silent : busy;
}

uint64_t vp_attempt_deadline(const struct vp_conn *conn, uint64_t now)
{
    uint64_t ms = vp_attempt_ms(conn->ep->prov, conn->req.attempt);
    uint64_t end = vp_last_attempt_deadline(conn, VP_ATTEMPT_NO_ANSWER),
             least = first_timeout(conn->ep->prov);

    if (end < now + least)
        end = now + least;
    return now + ms < end ? now + ms : end;
}

uint64_t vp_attempt_pause_ms(const struct vp_conn *conn, enum vp_attempt_result sign)
{
    uint64_t most = conn->ep->prov->config.peer_timeout_ms / PAUSE_SHARE;

    if (most > PAUSE_MOST_MS)
        most = PAUSE_MOST_MS;
    if (sign == VP_ATTEMPT_NO_RESOURCE && most > PAUSE_SHORT_MS)
        most = PAUSE_SHORT_MS;
    return ut_retry_delay_nth_ms(conn->hs.tries, PAUSE_FIRST_MS, most);
}

uint64_t vp_request_deadline_ms(const struct vp_conn *conn)
{
    return vp_attempt_ms(conn->ep->prov, conn->req.attempt) / 4 * 3;
}
