/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Budget of queue pairs. A process may have at most UTOFU_VERBS_MAX_QPS queue pairs per device.
 * When another connection needs a queue pair and none is free, this process asks the least recently
 * used connection to suspend. If its owner has posted nothing on it since the last check, the owner
 * asks the peer, which checks the same. A connection in use keeps its queue pair and becomes the
 * most recently used. If all are in use, the connection that has been up longest has to suspend,
 * but not before HOLD_MS: more busy peers than queue pairs take turns. conn.c suspends a connection
 * without losing data.
 *
 * A rail (ep->rail) only makes long puts faster. So it is suspended before all other connections,
 * even in use, and gets only a queue pair for which no other connection waits.
 *
 * Active handshakes use at most half of the queue pairs, so that passive ones get one even if all
 * processes wait for each other.
 */
#include "qp_budget.h"

#include "util/assert.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/log.h"
#include "verbs/wake.h"

enum {
    MIN_QPS = 2,      /* both sides of a connection to itself */
    HOLD_MS = 100,    /* minimum time for which a connection in use stays up */
    ANSWER_MS = 250,  /* without a reply in this time, another connection is asked */
    MAX_CYCLE = 256,  /* connections that may refuse before one in use has to suspend */
    BURST = 16,       /* number of connections asked at once */
    PAUSE_MS = 10,    /* pause between two bursts */
    SHRINK_MS = 5000, /* time for which a device counts as having no more queue pairs */
    MAX_WANTED = 16,  /* waiting handshakes for which connections are asked at once */
};

void vp_budget_init(const struct vp_prov *prov, struct vp_device *dev)
{
    struct vp_qp_budget *p = &dev->budget;
    unsigned int processes = prov->config.local_size ? prov->config.local_size : 1;
    unsigned int device_max = dev->attr.max_qp > 0 ? (unsigned int)dev->attr.max_qp : UINT32_MAX;
    uint64_t wanted = prov->tuning.max_qps;

    *p = (struct vp_qp_budget){.max = device_max / processes};
    if (wanted)
        p->max = wanted < device_max ? (unsigned int)wanted : device_max;
    if (p->max < MIN_QPS)
        p->max = MIN_QPS;
    p->limit = p->max;
    vp_list_init(&p->open);
    vp_list_init(&p->evicting);
    vp_list_init(&p->waiting_active);
    vp_list_init(&p->waiting_passive);
}

static struct vp_qp_budget *budget_of(const struct vp_conn *conn)
{
    UT_ASSERT_LOCKED(&conn->ep->prov->lock);
    return &conn->ep->port->dev->budget;
}

static bool is_evict_requested(const struct vp_conn *conn)
{
    return conn->budget_state == VP_BUDGET_EVICT_REQUESTED ||
           conn->budget_state == VP_BUDGET_EVICT_FORCED;
}

static bool is_evicting(enum vp_budget_state state)
{
    return state == VP_BUDGET_EVICT_REQUESTED || state == VP_BUDGET_EVICT_FORCED ||
           state == VP_BUDGET_ENDING;
}

static void count_state(struct vp_qp_budget *p, const struct vp_conn *conn, int by)
{
    enum vp_budget_state state = (enum vp_budget_state)conn->budget_state;

    p->taken += (unsigned int)(state != VP_BUDGET_NONE ? by : 0);
    p->opening += (unsigned int)(state == VP_BUDGET_OPENING && conn->active ? by : 0);
    p->num_open += (unsigned int)(state == VP_BUDGET_OPEN ? by : 0);
    p->num_evicting += (unsigned int)(is_evicting(state) ? by : 0);
}

static void set_state(struct vp_conn *conn, enum vp_budget_state state)
{
    struct vp_qp_budget *p = budget_of(conn);

    count_state(p, conn, -1);
    conn->budget_state = (uint8_t)state;
    count_state(p, conn, 1);
    vp_list_remove(&conn->budget_link);
    if (state == VP_BUDGET_OPEN)
        vp_list_append(conn->ep->rail ? p->open.next : &p->open, &conn->budget_link);
    if (is_evicting(state)) {
        conn->budget_since = ut_clock_ms();
        vp_list_append(&p->evicting, &conn->budget_link);
    }
}

static struct vp_conn *first_in(const struct vp_list *list)
{
    return vp_list_empty(list) ? NULL : vp_container_of(list->next, struct vp_conn, budget_link);
}

static unsigned int max_active(const struct vp_qp_budget *p)
{
    return p->limit / 2 > 1 ? p->limit / 2 : 1;
}

static bool has_room(const struct vp_qp_budget *p, bool active)
{
    return p->taken < p->limit && (!active || p->opening < max_active(p));
}

static struct vp_conn *waiting_conn(const struct vp_list *link)
{
    return vp_container_of(link, struct vp_conn, hs.link);
}

/* Returns the handshake that has waited longest, rails last. The list must not be empty. */
static struct vp_conn *longest_waiting(const struct vp_list *list)
{
    const struct vp_list *l = list->next;

    while (l != list && waiting_conn(l)->ep->rail)
        l = l->next;
    return waiting_conn(l != list ? l : list->next);
}

/* Returns the number of waiting handshakes for which another connection has to give up its queue
 * pair. */
static unsigned int num_to_evict(const struct vp_qp_budget *p)
{
    unsigned int n = 0, free = p->limit > p->taken ? p->limit - p->taken : 0;

    for (const struct vp_list *l = p->waiting_passive.next;
         l != &p->waiting_passive && n < MAX_WANTED; l = l->next)
        n += waiting_conn(l)->ep->rail == 0;
    unsigned int active = 0;
    for (const struct vp_list *l = p->waiting_active.next;
         l != &p->waiting_active && n < MAX_WANTED && p->opening + active < max_active(p);
         l = l->next)
        if (waiting_conn(l)->ep->rail == 0)
            active++, n++;
    return n > free ? n - free : 0;
}

static unsigned int cycle_length(const struct vp_qp_budget *p)
{
    return p->num_open < MAX_CYCLE ? p->num_open : MAX_CYCLE;
}

/* Pauses between bursts if all connections are in use. */
static bool is_pausing(struct vp_prov *prov, struct vp_qp_budget *p, uint64_t now)
{
    if (p->burst > BURST || p->burst > p->num_open) {
        p->burst = 0;
        p->resume_at = now + PAUSE_MS;
        vp_deadline_locked(prov, p->resume_at);
        vp_kick(prov);
    }
    return now < p->resume_at;
}

/* Asks as many connections as necessary to suspend, least recently used first. */
static void evict_locked(struct vp_prov *prov, struct vp_qp_budget *p)
{
    unsigned int wanted = num_to_evict(p);
    struct vp_conn *conn;

    while (wanted > p->num_evicting && (conn = first_in(&p->open))) {
        uint64_t now = ut_clock_ms();
        if (is_pausing(prov, p, now))
            return;
        bool in_turn = p->num_not_evicted > cycle_length(p) && now >= conn->up_since + HOLD_MS;
        bool forced = in_turn || conn->ep->rail;
        if (in_turn)
            p->num_not_evicted = 0;
        set_state(conn, forced ? VP_BUDGET_EVICT_FORCED : VP_BUDGET_EVICT_REQUESTED);
        vp_post_event_locked(conn, VP_EV_EVICT);
        vp_kick(prov); /* progress() wakes the owner, and limits the time for the reply */
    }
}

/* Grants free queue pairs to waiting handshakes, alternating between active and passive ones. */
static void grant_locked(struct vp_prov *prov, struct vp_qp_budget *p)
{
    for (;;) {
        bool active = !vp_list_empty(&p->waiting_active) && has_room(p, true);
        bool passive = !vp_list_empty(&p->waiting_passive) && has_room(p, false);
        if (!active && !passive)
            break;
        active = active && (!passive || p->active_turn);
        p->active_turn = !active;
        struct vp_conn *conn = longest_waiting(active ? &p->waiting_active : &p->waiting_passive);
        uint64_t waited = ut_clock_ms() - conn->budget_since;
        set_state(conn, VP_BUDGET_OPENING);
        if (conn->hs.first) { /* the waiting time does not count as time without a reply */
            conn->hs.first += waited;
            conn->hs.last_heard += waited;
        }
        /* at the front, since it has waited already */
        vp_list_append(active ? prov->queue.next : prov->accepts.next, &conn->hs.link);
        vp_kick(prov);
    }
    if (!vp_list_empty(&p->waiting_active) || !vp_list_empty(&p->waiting_passive))
        evict_locked(prov, p);
}

bool vp_budget_acquire_locked(struct vp_conn *conn)
{
    struct vp_qp_budget *p = budget_of(conn);
    struct vp_list *waiting = conn->active ? &p->waiting_active : &p->waiting_passive;

    if (conn->budget_state != VP_BUDGET_NONE)
        return true;
    if (vp_list_empty(waiting) && has_room(p, conn->active)) {
        set_state(conn, VP_BUDGET_OPENING);
        return true;
    }
    conn->budget_since = ut_clock_ms();
    vp_list_append(waiting, &conn->hs.link);
    evict_locked(conn->ep->prov, p);
    return false;
}

bool vp_budget_shrink(struct vp_conn *conn)
{
    struct vp_prov *prov = conn->ep->prov;

    pthread_mutex_lock(&prov->lock);
    struct vp_qp_budget *p = budget_of(conn);
    bool has_others = p->taken > 1;
    if (has_others && !conn->abandoned) {
        if (p->limit == p->max)
            ut_info(VP_CAT, "%s has no more queue pairs: this process uses at most %u for now",
                    conn->ep->port->name, p->taken - 1);
        p->limit = p->taken - 1;
        p->shrunk_until = ut_clock_ms() + SHRINK_MS;
        vp_deadline_locked(prov, p->shrunk_until);
        vp_budget_release_locked(conn);
        conn->phase = conn->active ? VP_QUEUED : VP_ACCEPTING;
        conn->budget_since = ut_clock_ms();
        vp_list_append(conn->active ? &p->waiting_active : &p->waiting_passive, &conn->hs.link);
        evict_locked(prov, p);
    }
    pthread_mutex_unlock(&prov->lock);
    return has_others;
}

void vp_budget_mark_up(struct vp_conn *conn)
{
    struct vp_prov *prov = conn->ep->prov;

    pthread_mutex_lock(&prov->lock);
    if (conn->budget_state == VP_BUDGET_OPENING) {
        conn->up_since = ut_clock_ms();
        conn->used_head = conn->head;
        set_state(conn, VP_BUDGET_OPEN);
        grant_locked(prov, budget_of(conn));
    }
    pthread_mutex_unlock(&prov->lock);
}

void vp_budget_mark_ending_locked(struct vp_conn *conn)
{
    if (conn->budget_state != VP_BUDGET_NONE && conn->budget_state < VP_BUDGET_ENDING)
        set_state(conn, VP_BUDGET_ENDING);
}

void vp_budget_mark_ending(struct vp_conn *conn)
{
    pthread_mutex_lock(&conn->ep->prov->lock);
    vp_budget_mark_ending_locked(conn);
    pthread_mutex_unlock(&conn->ep->prov->lock);
}

void vp_budget_release_locked(struct vp_conn *conn)
{
    struct vp_qp_budget *p = budget_of(conn);

    if (conn->budget_state == VP_BUDGET_NONE)
        return;
    if (conn->budget_state >= VP_BUDGET_ENDING)
        p->num_not_evicted = p->burst = 0;
    set_state(conn, VP_BUDGET_NONE);
    grant_locked(conn->ep->prov, p);
}

bool vp_budget_check_use_locked(struct vp_conn *conn)
{
    bool used = conn->head != conn->used_head;

    conn->used_head = conn->head;
    if (used && conn->budget_state == VP_BUDGET_OPEN)
        set_state(conn, VP_BUDGET_OPEN);
    return used;
}

static void mark_in_use_locked(struct vp_conn *conn)
{
    struct vp_qp_budget *p = budget_of(conn);

    if (!is_evict_requested(conn))
        return;
    p->num_not_evicted++;
    p->burst++;
    set_state(conn, VP_BUDGET_OPEN);
    evict_locked(conn->ep->prov, p);
}

void vp_budget_mark_in_use(struct vp_conn *conn)
{
    pthread_mutex_lock(&conn->ep->prov->lock);
    mark_in_use_locked(conn);
    pthread_mutex_unlock(&conn->ep->prov->lock);
}

enum vp_budget_check_evict vp_budget_check_evict(struct vp_conn *conn)
{
    enum vp_budget_check_evict evict = VP_EVICT_NO;

    pthread_mutex_lock(&conn->ep->prov->lock);
    if (conn->state != VP_CONN_UP || conn->closed)
        vp_budget_mark_ending_locked(conn); /* the connection ends for another reason */
    else if (conn->budget_state == VP_BUDGET_EVICT_FORCED)
        evict = VP_EVICT_FORCE;
    else if (conn->budget_state == VP_BUDGET_EVICT_REQUESTED && !vp_budget_check_use_locked(conn))
        evict = VP_EVICT_REQUEST;
    else
        mark_in_use_locked(conn);
    pthread_mutex_unlock(&conn->ep->prov->lock);
    return evict;
}

bool vp_budget_has_waiters_locked(const struct vp_conn *conn)
{
    const struct vp_qp_budget *p = budget_of(conn);

    return !vp_list_empty(&p->waiting_active) || !vp_list_empty(&p->waiting_passive);
}

bool vp_budget_has_spare(struct vp_conn *conn)
{
    pthread_mutex_lock(&conn->ep->prov->lock);
    const struct vp_qp_budget *p = budget_of(conn);
    bool spare = conn->budget_state == VP_BUDGET_OPEN && p->taken < p->limit &&
                 vp_list_empty(&p->waiting_active) && vp_list_empty(&p->waiting_passive);
    pthread_mutex_unlock(&conn->ep->prov->lock);
    return spare;
}

/* Stops waiting for peers that have not replied in time. */
static void expire_requests_locked(struct vp_prov *prov, struct vp_qp_budget *p, uint64_t now)
{
    struct vp_conn *conn;

    while ((conn = first_in(&p->evicting)) && conn->budget_since + ANSWER_MS <= now) {
        p->num_not_evicted += is_evict_requested(conn);
        set_state(conn, is_evict_requested(conn) ? VP_BUDGET_OPEN : VP_BUDGET_ENDING_LATE);
    }
    if (conn)
        vp_deadline_locked(prov, conn->budget_since + ANSWER_MS);
}

static void run_device_locked(struct vp_prov *prov, struct vp_device *dev, uint64_t now)
{
    struct vp_qp_budget *p = &dev->budget;

    if (dev->gone)
        p->limit = UINT32_MAX; /* lets the waiting handshakes run and fail */
    else if (p->limit < p->max && now >= p->shrunk_until)
        p->limit = p->max;
    else if (p->limit < p->max)
        vp_deadline_locked(prov, p->shrunk_until);
    if (p->resume_at > now)
        vp_deadline_locked(prov, p->resume_at);
    expire_requests_locked(prov, p, now);
    grant_locked(prov, p);
}

void vp_budget_run(struct vp_prov *prov, uint64_t now)
{
    pthread_mutex_lock(&prov->lock);
    for (unsigned int i = 0; i < prov->num_devices; i++)
        run_device_locked(prov, &prov->devices[i], now);
    pthread_mutex_unlock(&prov->lock);
}

struct vp_conn *vp_budget_take_overdue_locked(struct vp_prov *prov, uint64_t now,
                                              uint64_t (*timeout_ms)(const struct vp_conn *conn))
{
    for (unsigned int i = 0; i < prov->num_devices; i++) {
        struct vp_qp_budget *p = &prov->devices[i].budget;
        if (vp_list_empty(&p->waiting_passive))
            continue;
        struct vp_conn *conn = vp_container_of(p->waiting_passive.next, struct vp_conn, hs.link);
        uint64_t end = conn->budget_since + timeout_ms(conn);
        if (now > end) {
            vp_list_remove(&conn->hs.link);
            return conn;
        }
        vp_deadline_locked(prov, end + 1);
    }
    return NULL;
}
