/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of this task. Each is a record in a slot of the target: header, user header, and the
 * data where they fit; where they do not, the target fetches them. A task that sends has a lane of
 * slots of its own at the target, if it was among the first; all others share one, and draw a
 * ticket for each slot. Which slots are free again the target counts, and the origin reads, ahead
 * of time. What has no slot waits in a list: a request holds pointers to the program's memory, so
 * that nothing is copied, and their number is fixed.
 */
#include "layer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct la_req reqs[LA_REQS];
static uint16_t free_reqs[LA_REQS];
static uint64_t serial;
static struct la_peer *waiting; /* for room */
static struct la_req *helpers;

void la_send_setup(void)
{
    la.free_reqs = 0;
    waiting = NULL;
    helpers = NULL;
    for (uint32_t i = 0; i < LA_REQS; i++) {
        reqs[i] = (struct la_req){.index = (uint16_t)i};
        free_reqs[la.free_reqs++] = (uint16_t)(LA_REQS - 1 - i);
    }
}

/*
 * Slots.
 */

static bool has_own_lane(const struct la_peer *peer)
{
    return peer->lane < LA_LANES;
}

static uint32_t slots_of(const struct la_peer *peer)
{
    return has_own_lane(peer) ? LA_LANE_SLOTS : LA_SHARED_SLOTS;
}

static void got_freed(struct la_op *op, int rc, uint64_t old_value)
{
    struct la_peer *peer = op->arg;
    uint64_t freed = *(const uint64_t *)la_op_bounce(op);

    (void)old_value;
    peer->asked = false;
    if (rc == UTOFU_SUCCESS && freed > peer->freed)
        peer->freed = freed;
}

static void ask(struct la_peer *peer)
{
    struct la_op *op =
        peer->asked || peer->gone ? NULL : la_op_take(0, peer->rank, got_freed, peer);

    if (op == NULL)
        return;
    peer->asked = true;
    la_op_get(
        op, peer->id, la_op_bounce_stadd(op),
        la_control_stadd(peer->id, offsetof(struct la_control, freed) + 8 * (uint64_t)peer->lane),
        8);
}

static bool draw_ticket(struct la_peer *peer)
{
    if (!peer->has_ticket)
        peer->has_ticket = la_add_now(peer->rank, peer->id,
                                      la_control_stadd(peer->id, offsetof(struct la_control, tail)),
                                      &peer->ticket) == UTOFU_SUCCESS;
    return peer->has_ticket;
}

/* The slot of the next record, or LA_SLOTS: there is none at the moment. */
static uint32_t find_slot(struct la_peer *peer)
{
    uint64_t next = peer->sent;

    if (!has_own_lane(peer)) {
        if (!draw_ticket(peer))
            return LA_SLOTS;
        next = peer->ticket;
    }
    if (next >= peer->freed + slots_of(peer)) {
        ask(peer);
        return LA_SLOTS;
    }
    peer->sent = next + 1;
    peer->has_ticket = false;
    return peer->lane * LA_LANE_SLOTS + (uint32_t)(next % slots_of(peer));
}

/*
 * Requests.
 */

/* Of either kind: others wait for it to end. */
static bool is_handler(void)
{
    return la.dispatching || la_handlers_is_this();
}

const char *la_send_text(char text[LA_TEXT])
{
    uint32_t n = 0, rank = 0;

    for (uint32_t i = 0; i < LA_REQS; i++)
        if (reqs[i].used && !reqs[i].cancelled && n++ == 0)
            rank = reqs[i].rank;
    if (n == 0)
        snprintf(text, LA_TEXT, "no message of this task is under way");
    else if (n == 1)
        snprintf(text, LA_TEXT, "one message of this task is under way, to task %u", rank);
    else
        snprintf(text, LA_TEXT, "%u messages of this task are under way, one of them to task %u", n,
                 rank);
    return text;
}

static void say_full(const struct lc_patience *patience, uint32_t rank)
{
    char text[LA_TEXT];

    la_log("has waited %llu s for room for one more message, to task %u: %s",
           lc_patience_seconds(patience), rank, la_send_text(text));
}

/* The program waits until there is one, and messages are handled meanwhile. */
static struct la_req *take_req(const struct la_req *what)
{
    struct lc_patience patience = {0};
    uint32_t idle = 0;
    struct la_req *r;

    while (la.free_reqs <= (is_handler() ? 0 : LA_KEEP_REQS)) {
        if (lc_patience_ends(&patience, idle))
            say_full(&patience, what->rank);
        if (!la_alone()) {
            la_net_poll();
            la_send_waiting();
            la_send_help(); /* others wait for that, too */
        } else {
            la_go_on(&idle);
        }
    }
    r = &reqs[free_reqs[--la.free_reqs]];
    uint16_t index = r->index;
    *r = *what;
    r->index = index;
    r->used = true;
    r->by_handler = is_handler();
    return r;
}

static void stop_help(struct la_req *r)
{
    struct la_req **at = &helpers;

    while (r->helps && *at != r)
        at = &(*at)->next_helper;
    if (r->helps)
        *at = r->next_helper;
    r->helps = false;
}

static void drop_req(struct la_req *r)
{
    stop_help(r);
    if (r->reg != NULL)
        la_unreg(r->reg);
    r->reg = NULL;
    free(r->copy);
    r->copy = NULL;
    r->used = false;
    free_reqs[la.free_reqs++] = r->index;
}

static void enter(struct la_peer *peer, struct la_peer **list)
{
    peer->queued = true;
    peer->next = *list;
    *list = peer;
}

static void append(struct la_peer *peer, struct la_req *r)
{
    int list = r->by_handler ? 0 : 1;

    r->next = NULL;
    r->queued = true;
    if (peer->first[list] == NULL)
        peer->first[list] = r;
    else
        peer->last[list]->next = r;
    peer->last[list] = r;
    if (!peer->queued)
        enter(peer, &waiting);
}

static void sent(struct la_op *op, int rc, uint64_t old_value)
{
    (void)op;
    (void)rc;
    (void)old_value;
}

/* What the record has of the data. */
static size_t data_in_record(const struct la_req *r)
{
    if (r->kind == LA_GETV)
        return (r->flags & LA_RENDEZVOUS) != 0 ? 0 : r->value;
    return r->kind == LA_GET || (r->flags & LA_RENDEZVOUS) != 0 || r->data == NULL ? 0 : r->len;
}

/* Where user header and data begin. */
static size_t head_of(const struct la_req *r, size_t data)
{
    if ((r->flags & LA_LONG) != 0)
        return LA_LONG_RECORD;
    return (r->uhdr_len + 7u) / 8 * 8 + data <= LA_LINE_DATA ? LA_SHORT_RECORD : LA_LINE;
}

static size_t build(const struct la_req *r, void *slot, uint64_t number)
{
    struct la_record *rec = slot;
    size_t data = data_in_record(r), head = head_of(r, data);
    uint8_t *at = (uint8_t *)slot + head;

    rec->kind = r->kind;
    rec->flags = r->flags;
    rec->uhdr_len = r->uhdr_len;
    rec->rank = la.rank;
    rec->at = r->at;
    rec->tgt_cntr = r->tgt_cntr;
    rec->size = (uint32_t)data;
    rec->req = r->index;
    rec->op = r->op;
    if ((r->flags & LA_LONG) != 0) {
        rec->id = la_vcq_id();
        rec->len = r->len;
        rec->stadd = r->stadd;
        rec->value = r->value;
    }
    rec->number = 0;
    if (head == LA_SHORT_RECORD) {
        rec->flags |= LA_ONE_LINE;
        rec->number = number;
    }
    if (r->uhdr_len > 0)
        memcpy(at, r->uhdr, r->uhdr_len);
    at += (r->uhdr_len + 7u) / 8 * 8;
    if (data > 0)
        memcpy(at, r->data, data);
    return head == LA_SHORT_RECORD ? LA_LINE : (size_t)(at - (uint8_t *)slot) + data;
}

static void run_handler(const struct la_req *r)
{
    const bool was = la.dispatching;
    lapi_handle_t hndl = la.handle;
    lapi_sh_info_t info = {.src = r->rank};

    la.dispatching = true;
    if (r->shdlr != NULL)
        r->shdlr(&hndl, r->info, &info);
    else
        r->chndlr(&hndl, r->info);
    la.dispatching = was;
}

static bool anything_before(const struct la_peer *peer)
{
    return peer->first[0] != NULL || (peer->first[1] != NULL && !is_handler());
}

/* A word or two, mostly. */
static void copy_few(uint8_t *to, const void *from, size_t size)
{
    if (__builtin_expect(size == 8, 1))
        memcpy(to, from, 8);
    else if (size > 0)
        memcpy(to, from, size);
}

bool la_send_line(enum la_kind kind, uint32_t rank, uint64_t at, const void *uhdr,
                  uint32_t uhdr_len, const void *data, uint64_t len, uint64_t tgt_cntr)
{
    struct la_peer *peer = la_peer(rank);
    const uint32_t head = (uhdr_len + 7) / 8 * 8;
    struct la_record *rec;

    if (peer == NULL || head > LA_LINE_DATA || len > LA_LINE_DATA - head || peer->gone ||
        peer->purged || !has_own_lane(peer) || peer->sent >= peer->freed + LA_LANE_SLOTS ||
        anything_before(peer) || (rec = la_line_take()) == NULL)
        return false;
    rec->kind = (uint8_t)kind;
    rec->flags = LA_ONE_LINE;
    rec->uhdr_len = (uint16_t)uhdr_len;
    rec->rank = la.rank;
    rec->at = at;
    rec->tgt_cntr = tgt_cntr;
    rec->size = (uint32_t)len;
    rec->req = rec->op = 0;
    rec->number = peer->sent + 1;
    copy_few((uint8_t *)rec + LA_SHORT_RECORD, uhdr, uhdr_len);
    copy_few((uint8_t *)rec + LA_SHORT_RECORD + head, data, len);
    la_line_put(peer->id, peer->slots + peer->sent++ % LA_LANE_SLOTS * LA_SLOT);
    if (peer->sent > peer->freed + LA_LANE_SLOTS / 2)
        ask(peer);
    la.departures++;
    return true;
}

/* Its data has left, or is in the record. */
static void departed(const struct la_req *r)
{
    if (r->shdlr != NULL || r->chndlr != NULL)
        run_handler(r);
    if (r->org_cntr != NULL)
        la_bump(r->org_cntr);
    la.departures++;
}

static bool post(struct la_peer *peer, const struct la_req *r)
{
    struct la_op *op = la_op_take(LA_KEEP_OPS, peer->rank, sent, NULL);
    uint32_t slot = op == NULL ? LA_SLOTS : find_slot(peer);
    size_t size;

    if (slot == LA_SLOTS) {
        if (op != NULL)
            la_op_drop(op);
        return false;
    }
    size = build(r, la_op_bounce(op), has_own_lane(peer) ? peer->sent : 0);
    la_op_put(op, peer->id, la_op_bounce_stadd(op), la_slot_stadd(peer->id, slot), size,
              UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_STRONG_ORDER);
    if (peer->sent > peer->freed + slots_of(peer) / 2)
        ask(peer);
    return true;
}

static bool waits(const struct la_req *r)
{
    return (r->flags & (LA_WANTS_FIN | LA_WANTS_CMPL)) != 0;
}

/* The target may turn out to be gone meanwhile, which ends requests to it: not those that are
 * queued, which are cancelled. */
static bool post_queued(struct la_peer *peer, struct la_req *r)
{
    bool posted;

    r->queued = true;
    posted = post(peer, r);
    r->queued = false;
    return posted || r->cancelled;
}

/* Its handler may make progress, in which the answer arrives. */
static void posted(struct la_req *r)
{
    const struct la_req was = *r;

    if (!waits(r) || r->cancelled)
        drop_req(r);
    if ((was.flags & LA_WANTS_FIN) == 0 && !was.cancelled)
        departed(&was);
}

/* A handler cannot wait until its memory may be used again. */
static bool keep_copy(struct la_req *r)
{
    size_t data = data_in_record(r);

    if (r->copy != NULL)
        return true; /* vectors always are */
    r->copy = malloc(r->uhdr_len + data + 1);
    if (r->copy == NULL)
        return false;
    if (r->uhdr_len > 0)
        memcpy(r->copy, r->uhdr, r->uhdr_len);
    if (data > 0)
        memcpy((char *)r->copy + r->uhdr_len, r->data, data);
    r->uhdr = r->copy;
    if (data > 0)
        r->data = (char *)r->copy + r->uhdr_len;
    return true;
}

static int give_up(struct la_req *r, int rc)
{
    drop_req(r);
    return rc;
}

static int send_or_append(struct la_peer *peer, struct la_req *r)
{
    if (!anything_before(peer) && post_queued(peer, r)) {
        posted(r);
        return LAPI_SUCCESS;
    }
    if ((r->by_handler || r->light) && !keep_copy(r))
        return give_up(r, LAPI_ERR_MEMORY_EXHAUSTED);
    append(peer, r);
    return LAPI_SUCCESS;
}

/* It may have ended meanwhile. */
static bool is_same(const struct la_req *r, uint64_t number)
{
    return r->used && r->serial == number;
}

/* Its memory as it is now. */
static bool check_memory(struct la_req *r)
{
    if (la_reg_is_current(r->reg))
        return true;
    la_unreg(r->reg);
    r->reg = la_reg(r->data, r->len, false, &r->stadd);
    return r->reg != NULL;
}

/* It may be that this task moves some of the data itself: of more than one piece. */
static bool may_share(const struct la_req *r, const struct la_peer *peer)
{
    return peer->near && r->kind <= LA_PUT && r->copy == NULL && la_pieces(r->len) > 1 &&
           la_reg_is_shared(r->reg);
}

static bool prepare(struct la_req *r, const struct la_peer *peer)
{
    const uint64_t closed = LA_CLOSED;

    if ((r->flags & LA_RENDEZVOUS) == 0 || r->kind == LA_GETV)
        return true;
    if (!may_share(r, peer))
        return check_memory(r);
    r->flags |= LA_SHARE;
    memcpy(la_replies[r->index] + LA_CLAIM, &closed, sizeof(closed));
    return true;
}

/* What cannot be registered the target cannot fetch, and says so. */
static void open_claims(struct la_req *r)
{
    const utofu_stadd_t before = r->stadd;
    utofu_stadd_t stadd = check_memory(r) ? r->stadd : 0;

    memcpy(la_replies[r->index] + LA_ELSEWHERE, &stadd, sizeof(stadd));
    la_set_now(la_reply_stadd(la_vcq_id(), r->index, LA_CLAIM), stadd == before ? 0 : LA_MOVED);
}

static int refuse(const struct la_req *what, int rc)
{
    if (what->reg != NULL)
        la_unreg(what->reg);
    free(what->copy);
    return rc;
}

int la_send(const struct la_req *what)
{
    int rc = LAPI_SUCCESS;
    struct la_peer *peer = la_peer_use(what->rank, &rc);
    struct la_req *r;
    uint64_t number;

    if (peer == NULL)
        return refuse(what, rc);
    if (peer->gone || peer->purged)
        return refuse(what, LAPI_ERR_TGT_PURGED);
    if (!waits(what) && !anything_before(peer) && post(peer, what)) {
        departed(what);
        return LAPI_SUCCESS;
    }
    r = take_req(what);
    r->serial = ++serial;
    if (peer->gone || peer->purged)
        return give_up(r, LAPI_ERR_TGT_PURGED);
    if (!prepare(r, peer))
        return give_up(r, LAPI_ERR_MEMORY_EXHAUSTED);
    number = r->serial;
    rc = send_or_append(peer, r);
    if (rc == LAPI_SUCCESS && is_same(r, number) && (r->flags & LA_SHARE) != 0)
        open_claims(r);
    return rc;
}

static bool send_list(struct la_peer *peer, int list)
{
    bool any = false;

    while (peer->first[list] != NULL) {
        struct la_req *r = peer->first[list];

        if (!r->cancelled && !post(peer, r))
            return any;
        peer->first[list] = r->next;
        r->queued = false;
        posted(r);
        any = true;
    }
    return any;
}

static struct la_peer *leave(struct la_peer **list)
{
    struct la_peer *peer = *list;

    *list = peer->next;
    peer->queued = false;
    return peer;
}

/* Handlers of what is sent may send, and so enter tasks while this runs. */
bool la_send_waiting(void)
{
    struct la_peer *still = NULL;
    bool any = false;

    while (waiting != NULL) {
        struct la_peer *peer = leave(&waiting);

        any |= send_list(peer, 0);
        if (peer->first[0] == NULL)
            any |= send_list(peer, 1);
        if ((peer->first[0] != NULL || peer->first[1] != NULL) && !peer->queued)
            enter(peer, &still);
    }
    while (still != NULL)
        enter(leave(&still), &waiting);
    return any;
}

/*
 * Data that both sides move: la_send_help() claims one piece of each request, or says that there
 * is no more.
 */

bool la_send_helps(void)
{
    return helpers != NULL;
}

static void help(struct la_req *r)
{
    if (r->helps)
        return;
    r->helps = true;
    r->next_helper = helpers;
    helpers = r;
}

static void piece_brought(struct la_op *op, int rc, uint64_t old_value)
{
    struct la_req *r = op->arg;

    (void)old_value;
    if (!is_same(r, op->n))
        return;
    r->help_failed |= rc != UTOFU_SUCCESS;
    help(r);
}

static void say_helped(const struct la_req *r, const struct la_peer *peer, uint64_t in)
{
    uint64_t word = (uint64_t)la.rank << LA_HELPED_SHIFT | r->helped;

    if (r->helped > 0 && in < LA_INS)
        la_put8_notice(peer->id, word | (r->help_failed ? LA_HELP_FAILED : 0),
                       la_helped_stadd(peer->id, (uint32_t)in));
}

/* While it claims a piece the target may end the request. */
static void bring_piece(struct la_req *r, struct la_op *op)
{
    const struct la_peer *peer = la_peer(r->rank);
    const uint64_t number = r->serial, size = la_piece_size(r->len);
    struct la_invitation i;
    uint64_t piece, at;

    memcpy(&i, la_replies[r->index] + LA_INVITATION, sizeof(i));
    if (la_add_now(la.rank, la_vcq_id(), la_reply_stadd(la_vcq_id(), r->index, LA_CLAIM), &piece) !=
            UTOFU_SUCCESS ||
        !is_same(r, number)) {
        la_op_drop(op);
        return;
    }
    piece &= ~LA_MOVED;
    if (piece >= la_pieces(r->len)) {
        la_op_drop(op);
        say_helped(r, peer, i.in);
        return;
    }
    r->helped++;
    op->n = number;
    at = piece * size;
    la_op_put(op, peer->id, r->stadd + at, i.stadd + at, r->len - at < size ? r->len - at : size,
              0);
}

bool la_send_help(void)
{
    struct la_req *r = helpers;
    struct la_op *op = r == NULL ? NULL : la_op_take(LA_KEEP_OPS, r->rank, piece_brought, r);

    if (op == NULL)
        return false;
    stop_help(r);
    bring_piece(r, op);
    return true;
}

/*
 * What targets say of them: notices on the reply of a request.
 */

static void give_result(struct la_req *r, uint32_t offset, uint64_t word)
{
    if (r->kind == LA_GET && offset > LA_CMPL)
        memcpy(r->result, la_replies[r->index] + LA_CMPL, offset - LA_CMPL);
    else if (r->kind == LA_RMW && r->result != NULL)
        *(int *)r->result = (int)word;
    else if (r->kind == LA_RMW64 && r->result != NULL)
        *(long long *)r->result = (long long)word;
}

/* Is it a code that says that the message was not executed? */
static bool is_failure(const struct la_req *r, uint32_t offset, uint64_t word)
{
    return offset <= LA_CMPL && r->kind != LA_RMW && r->kind != LA_RMW64 && word != 0;
}

static void fin(struct la_req *r, uint32_t offset, uint64_t word)
{
    give_result(r, offset, word);
    if (r->kind == LA_GETV) /* the list of the target, the data, the list of this task */
        la_vec_scatter((char *)r->copy + r->len, r->value, (char *)r->copy + r->value,
                       r->len - r->value);
    if (r->reg != NULL)
        la_unreg(r->reg);
    r->reg = NULL;
    departed(r);
}

static bool is_expected(const struct la_req *r, uint32_t offset, uint8_t flag)
{
    if (!r->used || r->queued || (r->flags & flag) == 0)
        return false; /* of a task that was given up */
    return offset == LA_FIN || offset == LA_CMPL ||
           (offset > LA_CMPL && r->kind == LA_GET && offset - LA_CMPL == r->len);
}

void la_send_returned(uint32_t index, uint32_t offset)
{
    struct la_req *r = &reqs[index];
    uint8_t flag = offset == LA_CMPL ? LA_WANTS_CMPL : LA_WANTS_FIN;
    uint64_t word;

    if (offset == LA_INVITED && (r->flags & LA_SHARE) != 0) {
        if (r->used && !r->queued)
            help(r);
        return;
    }
    if (!is_expected(r, offset, flag))
        return;
    memcpy(&word, la_replies[index] + (flag == LA_WANTS_CMPL ? 8 : 0), 8);
    r->flags &= (uint8_t)~flag;
    if (is_failure(r, offset, word)) {
        r->flags &= (uint8_t) ~(LA_WANTS_FIN | LA_WANTS_CMPL);
        la_failure((int)word, r->rank);
    } else if (flag == LA_WANTS_FIN) {
        fin(r, offset, word);
    } else if (r->cmpl_cntr != NULL) {
        la_bump(r->cmpl_cntr);
    }
    if ((r->flags & (LA_WANTS_FIN | LA_WANTS_CMPL)) == 0)
        drop_req(r);
}

void la_send_lost(uint32_t rank, bool gone)
{
    struct la_peer *peer = la_peer(rank);

    for (uint32_t i = 0; i < LA_REQS; i++) {
        struct la_req *r = &reqs[i];

        if (!r->used || r->rank != rank)
            continue;
        if (r->queued)
            r->cancelled = true;
        else if (gone)
            drop_req(r);
    }
    if (peer != NULL && gone)
        peer->gone = true;
}

/*
 * Fences.
 */

uint64_t la_send_serial(void)
{
    return serial;
}

static bool any_request(uint64_t before)
{
    for (uint32_t i = 0; la.free_reqs < LA_REQS && i < LA_REQS; i++)
        if (reqs[i].used && reqs[i].serial <= before && !reqs[i].cancelled &&
            (reqs[i].queued || (reqs[i].flags & LA_WANTS_FIN) != 0))
            return true;
    return false;
}

static bool is_settled(const struct la_peer *peer)
{
    return peer->gone || (int32_t)((uint32_t)peer->freed - peer->fence) >= 0;
}

bool la_send_unsettled(uint32_t *rank)
{
    const struct la_peer *peer;
    uint32_t at = 0;

    while ((peer = la_peer_next(&at)) != NULL) {
        if (is_settled(peer))
            continue;
        *rank = peer->rank;
        return true;
    }
    return false;
}

bool la_send_settled(uint64_t before, bool *posted)
{
    struct la_peer *peer;
    uint32_t at = 0;

    if (any_request(before))
        return false;
    while (!*posted && (peer = la_peer_next(&at)) != NULL)
        peer->fence = (uint32_t)peer->sent;
    *posted = true;
    at = 0;
    while ((peer = la_peer_next(&at)) != NULL) {
        if (is_settled(peer))
            continue;
        ask(peer);
        return false;
    }
    return true;
}
