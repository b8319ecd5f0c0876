/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queue-pair limit. A process may hold at most UTOFU_VERBS_MAX_QPS queue pairs (places) per device.
 * When another connection needs one and none is free, the least recently used connection is asked
 * to rest. If its owner has posted nothing on it since the last check, the owner asks the peer,
 * which checks the same. A connection in use keeps its place and becomes the most recently used. If
 * all are in use, the one that has been up longest has to rest, but not before HOLD_MS: more busy
 * peers than places take turns. conn.c closes a resting connection without losing data.
 *
 * A rail, whose connection only makes long puts faster (ep->rail), is closed before all others, in
 * use or not, and gets a place only when there is a free one that nobody else waits for.
 *
 * Own handshakes have at most half of the places: those of peers get one even if all processes wait
 * for each other.
 */
#include "places.h"

#include "util/assert.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/log.h"
#include "verbs/wake.h"

enum {
    LEAST = 2,        /* both halves of a connection to oneself */
    HOLD_MS = 100,    /* least time that a connection in use stays up */
    ANSWER_MS = 250,  /* after this time another connection is asked */
    CYCLE_MOST = 256, /* connections that are asked before one in use has to rest */
    BURST = 16,       /* connections asked at once, */
    PAUSE_MS = 10,    /* and the pause after that */
    SHORT_MS = 5000,  /* how long a device is assumed to have no more queue pairs */
    WANTED_MOST = 16,
};

void vp_budget_init(const struct vp_prov *prov, struct vp_device *dev)
{
    struct vp_qp_budget *p = &dev->places;
    unsigned int processes = prov->config.local_size ? prov->config.local_size : 1;
    unsigned int has = dev->attr.max_qp > 0 ? (unsigned int)dev->attr.max_qp : UINT32_MAX;
    uint64_t wanted = prov->tuning.max_qps;

    *p = (struct vp_qp_budget){.most = has / processes};
    if (wanted)
        p->most = wanted < has ? (unsigned int)wanted : has;
    if (p->most < LEAST)
        p->most = LEAST;
    p->limit = p->most;
    vp_list_init(&p->open);
    vp_list_init(&p->asked);
    vp_list_init(&p->own);
    vp_list_init(&p->others);
}

static struct vp_qp_budget *places_of(const struct vp_conn *conn)
{
    UT_ASSERT_LOCKED(&conn->ep->prov->lock);
    return &conn->ep->port->dev->places;
}

static bool is_asked(const struct vp_conn *conn)
{
    return conn->place == VP_BUDGET_EVICT_ASKED || conn->place == VP_BUDGET_EVICT_FORCED;
}

static bool is_soon_free(enum vp_budget_state place)
{
    return place == VP_BUDGET_EVICT_ASKED || place == VP_BUDGET_EVICT_FORCED ||
           place == VP_BUDGET_ENDING;
}

static void count(struct vp_qp_budget *p, const struct vp_conn *conn, int by)
{
    enum vp_budget_state place = (enum vp_budget_state)conn->place;

    p->taken += (unsigned int)(place != VP_BUDGET_NONE ? by : 0);
    p->opening += (unsigned int)(place == VP_BUDGET_OPENING && conn->active ? by : 0);
    p->num_open += (unsigned int)(place == VP_BUDGET_OPEN ? by : 0);
    p->soon_free += (unsigned int)(is_soon_free(place) ? by : 0);
}

static void move_to(struct vp_conn *conn, enum vp_budget_state place)
{
    struct vp_qp_budget *p = places_of(conn);

    count(p, conn, -1);
    conn->place = (uint8_t)place;
    count(p, conn, 1);
    vp_list_remove(&conn->place_link);
    if (place == VP_BUDGET_OPEN)
        vp_list_append(conn->ep->rail ? p->open.next : &p->open, &conn->place_link);
    if (is_soon_free(place)) {
        conn->place_since = ut_clock_ms();
        vp_list_append(&p->asked, &conn->place_link);
    }
}

static struct vp_conn *first_of(const struct vp_list *list)
{
    return vp_list_empty(list) ? NULL : vp_container_of(list->next, struct vp_conn, place_link);
}

static unsigned int own_most(const struct vp_qp_budget *p)
{
    return p->limit / 2 > 1 ? p->limit / 2 : 1;
}

static bool has_room(const struct vp_qp_budget *p, bool active)
{
    return p->taken < p->limit && (!active || p->opening < own_most(p));
}

static struct vp_conn *waiting_at(const struct vp_list *link)
{
    return vp_container_of(link, struct vp_conn, hs.link);
}

/* The handshake that has waited longest, rails last. The list is not empty. */
static struct vp_conn *longest_waiting(const struct vp_list *list)
{
    const struct vp_list *l = list->next;

    while (l != list && waiting_at(l)->ep->rail)
        l = l->next;
    return waiting_at(l != list ? l : list->next);
}

/* How many handshakes wait for a place that a connection has to give up. */
static unsigned int num_wanted(const struct vp_qp_budget *p)
{
    unsigned int n = 0, more = p->limit > p->taken ? p->limit - p->taken : 0;

    for (const struct vp_list *l = p->others.next; l != &p->others && n < WANTED_MOST; l = l->next)
        n += waiting_at(l)->ep->rail == 0;
    unsigned int own = 0;
    for (const struct vp_list *l = p->own.next;
         l != &p->own && n < WANTED_MOST && p->opening + own < own_most(p); l = l->next)
        if (waiting_at(l)->ep->rail == 0)
            own++, n++;
    return n > more ? n - more : 0;
}

static unsigned int cycle_of(const struct vp_qp_budget *p)
{
    return p->num_open < CYCLE_MOST ? p->num_open : CYCLE_MOST;
}

/* Pauses between bursts, if all connections are in use. */
static bool pauses(struct vp_prov *prov, struct vp_qp_budget *p, uint64_t now)
{
    if (p->burst > BURST || p->burst > p->num_open) {
        p->burst = 0;
        p->look_at = now + PAUSE_MS;
        vp_deadline_locked(prov, p->look_at);
        vp_kick(prov);
    }
    return now < p->look_at;
}

/* Asks as many connections as are needed, the least recently used first. */
static void seek_locked(struct vp_prov *prov, struct vp_qp_budget *p)
{
    unsigned int wanted = num_wanted(p);
    struct vp_conn *conn;

    while (wanted > p->soon_free && (conn = first_of(&p->open))) {
        uint64_t now = ut_clock_ms();
        if (pauses(prov, p, now))
            return;
        bool in_turn = p->kept > cycle_of(p) && now >= conn->up_since + HOLD_MS;
        bool forced = in_turn || conn->ep->rail;
        if (in_turn)
            p->kept = 0;
        move_to(conn, forced ? VP_BUDGET_EVICT_FORCED : VP_BUDGET_EVICT_ASKED);
        vp_post_event_locked(conn, VP_EV_EVICT);
        vp_kick(prov); /* progress() wakes the owner, and limits the time for the answer */
    }
}

/* Gives free places to waiting handshakes, alternating between own ones and those of peers. */
static void hand_out_locked(struct vp_prov *prov, struct vp_qp_budget *p)
{
    for (;;) {
        bool own = !vp_list_empty(&p->own) && has_room(p, true);
        bool others = !vp_list_empty(&p->others) && has_room(p, false);
        if (!own && !others)
            break;
        own = own && (!others || p->own_turn);
        p->own_turn = !own;
        struct vp_conn *conn = longest_waiting(own ? &p->own : &p->others);
        uint64_t waited = ut_clock_ms() - conn->place_since;
        move_to(conn, VP_BUDGET_OPENING);
        if (conn->hs.first) { /* the time of waiting says nothing of the peer */
            conn->hs.first += waited;
            conn->hs.sign += waited;
        }
        /* at the front: it has waited already */
        vp_list_append(own ? prov->queue.next : prov->accepts.next, &conn->hs.link);
        vp_kick(prov);
    }
    if (!vp_list_empty(&p->own) || !vp_list_empty(&p->others))
        seek_locked(prov, p);
}

bool vp_budget_acquire_locked(struct vp_conn *conn)
{
    struct vp_qp_budget *p = places_of(conn);
    struct vp_list *waiting = conn->active ? &p->own : &p->others;

    if (conn->place != VP_BUDGET_NONE)
        return true;
    if (vp_list_empty(waiting) && has_room(p, conn->active)) {
        move_to(conn, VP_BUDGET_OPENING);
        return true;
    }
    conn->place_since = ut_clock_ms();
    vp_list_append(waiting, &conn->hs.link);
    seek_locked(conn->ep->prov, p);
    return false;
}

bool vp_budget_shrink(struct vp_conn *conn)
{
    struct vp_prov *prov = conn->ep->prov;

    pthread_mutex_lock(&prov->lock);
    struct vp_qp_budget *p = places_of(conn);
    bool others = p->taken > 1;
    if (others && !conn->abandoned) {
        if (p->limit == p->most)
            ut_info(VP_CAT, "%s has no more queue pairs: this process keeps to %u for now",
                    conn->ep->port->name, p->taken - 1);
        p->limit = p->taken - 1;
        p->short_until = ut_clock_ms() + SHORT_MS;
        vp_deadline_locked(prov, p->short_until);
        vp_budget_release_locked(conn);
        conn->phase = conn->active ? VP_QUEUED : VP_ACCEPTING;
        conn->place_since = ut_clock_ms();
        vp_list_append(conn->active ? &p->own : &p->others, &conn->hs.link);
        seek_locked(prov, p);
    }
    pthread_mutex_unlock(&prov->lock);
    return others;
}

void vp_budget_mark_up(struct vp_conn *conn)
{
    struct vp_prov *prov = conn->ep->prov;

    pthread_mutex_lock(&prov->lock);
    if (conn->place == VP_BUDGET_OPENING) {
        conn->up_since = ut_clock_ms();
        conn->mark = conn->head;
        move_to(conn, VP_BUDGET_OPEN);
        hand_out_locked(prov, places_of(conn));
    }
    pthread_mutex_unlock(&prov->lock);
}

void vp_budget_mark_ending_locked(struct vp_conn *conn)
{
    if (conn->place != VP_BUDGET_NONE && conn->place < VP_BUDGET_ENDING)
        move_to(conn, VP_BUDGET_ENDING);
}

void vp_budget_mark_ending(struct vp_conn *conn)
{
    pthread_mutex_lock(&conn->ep->prov->lock);
    vp_budget_mark_ending_locked(conn);
    pthread_mutex_unlock(&conn->ep->prov->lock);
}

void vp_budget_release_locked(struct vp_conn *conn)
{
    struct vp_qp_budget *p = places_of(conn);

    if (conn->place == VP_BUDGET_NONE)
        return;
    if (conn->place >= VP_BUDGET_ENDING)
        p->kept = p->burst = 0;
    move_to(conn, VP_BUDGET_NONE);
    hand_out_locked(conn->ep->prov, p);
}

bool vp_budget_check_use_locked(struct vp_conn *conn)
{
    bool used = conn->head != conn->mark;

    conn->mark = conn->head;
    if (used && conn->place == VP_BUDGET_OPEN)
        move_to(conn, VP_BUDGET_OPEN);
    return used;
}

static void kept_locked(struct vp_conn *conn)
{
    struct vp_qp_budget *p = places_of(conn);

    if (!is_asked(conn))
        return;
    p->kept++;
    p->burst++;
    move_to(conn, VP_BUDGET_OPEN);
    seek_locked(conn->ep->prov, p);
}

void vp_budget_mark_in_use(struct vp_conn *conn)
{
    pthread_mutex_lock(&conn->ep->prov->lock);
    kept_locked(conn);
    pthread_mutex_unlock(&conn->ep->prov->lock);
}

enum vp_budget_check_evict vp_budget_check_evict(struct vp_conn *conn)
{
    enum vp_budget_check_evict plea = VP_EVICT_NO;

    pthread_mutex_lock(&conn->ep->prov->lock);
    if (conn->life != VP_CONN_UP || conn->closed)
        vp_budget_mark_ending_locked(conn); /* the connection ends for another reason */
    else if (conn->place == VP_BUDGET_EVICT_FORCED)
        plea = VP_EVICT_FORCE;
    else if (conn->place == VP_BUDGET_EVICT_ASKED && !vp_budget_check_use_locked(conn))
        plea = VP_EVICT_ASK;
    else
        kept_locked(conn);
    pthread_mutex_unlock(&conn->ep->prov->lock);
    return plea;
}

bool vp_budget_has_waiters_locked(const struct vp_conn *conn)
{
    const struct vp_qp_budget *p = places_of(conn);

    return !vp_list_empty(&p->own) || !vp_list_empty(&p->others);
}

bool vp_budget_has_spare(struct vp_conn *conn)
{
    pthread_mutex_lock(&conn->ep->prov->lock);
    const struct vp_qp_budget *p = places_of(conn);
    bool spare = conn->place == VP_BUDGET_OPEN && p->taken < p->limit && vp_list_empty(&p->own) &&
                 vp_list_empty(&p->others);
    pthread_mutex_unlock(&conn->ep->prov->lock);
    return spare;
}

/* Does not wait any longer for peers that have not answered. */
static void pass_by_late_locked(struct vp_prov *prov, struct vp_qp_budget *p, uint64_t now)
{
    struct vp_conn *conn;

    while ((conn = first_of(&p->asked)) && conn->place_since + ANSWER_MS <= now) {
        p->kept += is_asked(conn);
        move_to(conn, is_asked(conn) ? VP_BUDGET_OPEN : VP_BUDGET_ENDING_LATE);
    }
    if (conn)
        vp_deadline_locked(prov, conn->place_since + ANSWER_MS);
}

static void run_locked(struct vp_prov *prov, struct vp_device *dev, uint64_t now)
{
    struct vp_qp_budget *p = &dev->places;

    if (dev->gone)
        p->limit = UINT32_MAX; /* waiting handshakes are told so */
    else if (p->limit < p->most && now >= p->short_until)
        p->limit = p->most;
    else if (p->limit < p->most)
        vp_deadline_locked(prov, p->short_until);
    if (p->look_at > now)
        vp_deadline_locked(prov, p->look_at);
    pass_by_late_locked(prov, p, now);
    hand_out_locked(prov, p);
}

void vp_budget_run(struct vp_prov *prov, uint64_t now)
{
    pthread_mutex_lock(&prov->lock);
    for (unsigned int i = 0; i < prov->num_devices; i++)
        run_locked(prov, &prov->devices[i], now);
    pthread_mutex_unlock(&prov->lock);
}

struct vp_conn *vp_budget_take_overdue_locked(struct vp_prov *prov, uint64_t now,
                                              uint64_t (*patience_ms)(const struct vp_conn *conn))
{
    for (unsigned int i = 0; i < prov->num_devices; i++) {
        struct vp_qp_budget *p = &prov->devices[i].places;
        if (vp_list_empty(&p->others))
            continue;
        struct vp_conn *conn = vp_container_of(p->others.next, struct vp_conn, hs.link);
        uint64_t end = conn->place_since + patience_ms(conn);
        if (now > end) {
            vp_list_remove(&conn->hs.link);
            return conn;
        }
        vp_deadline_locked(prov, end + 1);
    }
    return NULL;
}
