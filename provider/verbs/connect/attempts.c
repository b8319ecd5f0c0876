/* SPDX-License-Identifier: Apache-2.0 */
/* Timing of the attempts to connect: see attempts.h. */
#include "attempts.h"

#include "verbs/ep_types.h"
#include "util/clock.h"
#include "util/back_off.h"

enum {
    FIRST_PAUSE_MS = 20,
    MAX_PAUSE_MS = 2000,
    MAX_PAUSE_PART = 8,         /* longest pause, as a fraction of a peer timeout */
    NO_RESOURCE_PAUSE_MS = 500, /* longest pause while this process lacks a resource */
    MAX_FIRST_ATTEMPT = 5,      /* maximum number of a first attempt */
    HANDSHAKES_PER_ATTEMPT = 3, /* duration of an attempt, in recent handshake durations */
    BUSY_TIMEOUTS = 8,          /* peer timeouts for a peer that is alive but does not accept */
};

static unsigned int first_attempt_ms(const struct vp_prov *prov)
{
    return prov->tuning.step_ms / 4;
}

unsigned int vp_attempt_ms(const struct vp_prov *prov, unsigned int attempt)
{
    unsigned int first = first_attempt_ms(prov), max = prov->config.peer_timeout_ms / 2;

    return (unsigned int)ut_retry_delay_nth_ms(attempt > 1 ? attempt - 1 : 0, first,
                                               max > first ? max : first);
}

uint8_t vp_first_attempt_number_locked(const struct vp_prov *prov)
{
    uint8_t attempt = 1;

    while (attempt < MAX_FIRST_ATTEMPT &&
           vp_attempt_ms(prov, attempt) < HANDSHAKES_PER_ATTEMPT * prov->handshake_ms)
        attempt++;
    return attempt;
}

void vp_adapt_window_locked(struct vp_prov *prov, uint64_t started)
{
    uint64_t took = ut_clock_ms() - started;

    if (took > prov->handshake_ms)
        prov->handshake_ms = (unsigned int)took;
    else
        prov->handshake_ms -= (prov->handshake_ms - (unsigned int)took + 7) / 8;
    if (took < first_attempt_ms(prov) / 4 && prov->window < prov->tuning.max_connecting)
        prov->window++;
    else if (took > first_attempt_ms(prov) / 2 && prov->window > VP_MIN_WINDOW)
        prov->window--;
}

uint64_t vp_last_attempt_deadline(const struct vp_conn *conn, enum vp_attempt_result result)
{
    const struct prov_config *config = &conn->ep->prov->config;
    uint64_t silent = conn->hs.last_heard + config->peer_timeout_ms;
    uint64_t busy = conn->hs.first + BUSY_TIMEOUTS * (uint64_t)config->peer_timeout_ms;
    uint64_t unresolved = conn->hs.first + config->job_timeout_ms;

    if (result == VP_ATTEMPT_UNRESOLVED && unresolved > silent)
        return unresolved;
    return silent < busy ? silent : busy;
}

uint64_t vp_attempt_deadline(const struct vp_conn *conn, uint64_t now)
{
    uint64_t ms = vp_attempt_ms(conn->ep->prov, conn->req.attempt);
    uint64_t end = vp_last_attempt_deadline(conn, VP_ATTEMPT_NO_ANSWER),
             min = first_attempt_ms(conn->ep->prov);

    if (end < now + min)
        end = now + min;
    return now + ms < end ? now + ms : end;
}

uint64_t vp_attempt_pause_ms(const struct vp_conn *conn, enum vp_attempt_result result)
{
    uint64_t max = conn->ep->prov->config.peer_timeout_ms / MAX_PAUSE_PART;

    if (max > MAX_PAUSE_MS)
        max = MAX_PAUSE_MS;
    if (result == VP_ATTEMPT_NO_RESOURCE && max > NO_RESOURCE_PAUSE_MS)
        max = NO_RESOURCE_PAUSE_MS;
    return ut_retry_delay_nth_ms(conn->hs.tries, FIRST_PAUSE_MS, max);
}

uint64_t vp_request_deadline_ms(const struct vp_conn *conn)
{
    return vp_attempt_ms(conn->ep->prov, conn->req.attempt) / 4 * 3;
}
