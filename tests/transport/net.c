/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Short messages. A message is a put with a remote notice, whose EDATA is the slot. There are as
 * many messages under way to a process as it has slots for this one: it tells how many it has taken
 * by putting that number to the credit word or, with an odd rank, by adding to it. The first
 * message to a process is repeated until the process has registered its memory; only then the
 * others follow.
 *
 * A process that waits long reads the words of all others now and then: a read that fails with
 * UTOFU_ERR_MRQ_PEER says that one has ended. Then the process tells the others whom it misses, and
 * ends.
 */
#include <sched.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "box.h"

/* EDATA; below: the slot of a message; above: a get of message.c. */
enum { EDATA_CREDIT = 100, EDATA_NEWS, EDATA_BEAT, EDATA_WORD };
/* seconds without a message until the others are asked whether they live; until it is an error */
#define ASK_AFTER   0.2
#define STUCK_AFTER 100.0
_Static_assert((int)EDATA_WORD < (int)EDATA_GETS, "gets of message.c have the values above");
_Static_assert((int)SLOTS < (int)EDATA_CREDIT, "slots are below the other values");

struct waiting {
    struct waiting *next;
    struct header header;
    char data[];
};

static struct peer {
    uint64_t sent;     /* messages put to it */
    uint64_t taken;    /* messages from it */
    uint64_t returned; /* of these, told to it */
    bool is_open;      /* it has got a message of this process */
    bool again;        /* the first message is to be put once more */
    bool is_asked;     /* whether it lives */
    struct waiting *first, **last;
} peers[MAX_RANKS];
static int rank, size, primary;
static utofu_vcq_hdl_t vcq; /* the primary one */
static utofu_stadd_t own;   /* of its mailbox */
static int under_way;       /* local notices that will come, but for those of gets by message.c */
static int unsent;          /* puts whose TCQ entry has not come */
static int num_waiting;     /* messages without a slot */
static bool ending;         /* no more credits and questions */
static uint64_t happened;   /* entries and notices */
static uint64_t moved;      /* those by which the job advances */
static bool word_is_there;

void net_open(void)
{
    rank = where_rank();
    size = where_size();
    box_open();
    primary = box_primary();
    vcq = box_vcq(primary);
    own = box_of(rank)->stadd;
    for (int r = 0; r < size; r++)
        peers[r].last = &peers[r].first;
}

utofu_vcq_hdl_t net_vcq(int tni)
{
    return box_vcq(tni);
}

int net_primary(void)
{
    return primary;
}

int net_waiting(void)
{
    return num_waiting;
}

void net_set_word(uint64_t value)
{
    __atomic_store_n((uint64_t *)box_at(0), value, __ATOMIC_SEQ_CST);
}

/*
 * Processes that have ended.
 */

/* A rank that another process misses; -1: none. */
static int read_news(int *teller)
{
    for (*teller = 0; *teller < size; ++*teller) {
        uint64_t said = box_read(box_news(*teller));
        if (said > 0)
            return (int)said - 1;
    }
    return -1;
}

static double read_clock(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Tells all others, as they would otherwise miss this process instead; a few seconds at most. */
static void tell_others(int missed)
{
    struct utofu_mrq_notice notice;
    double end = read_clock() + 5;
    void *cbdata;
    int expected = 0, rc;

    for (int r = 0; r < size; r++) {
        if (r == rank || r == missed)
            continue;
        rc = utofu_put_piggyback8(vcq, box_of(r)->id, (uint64_t)missed + 1,
                                  box_of(r)->stadd + box_news(rank), 8, EDATA_NEWS,
                                  UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL);
        expected += rc == UTOFU_SUCCESS;
    }
    while (expected > 0 && read_clock() < end) {
        rc = utofu_poll_mrq(vcq, 0, &notice);
        if (rc == UTOFU_ERR_NOT_FOUND) {
            if (utofu_poll_tcq(vcq, 0, &cbdata) != UTOFU_SUCCESS)
                sched_yield();
        } else if (notice.edata == EDATA_NEWS && notice.notice_type == UTOFU_MRQ_TYPE_LCL_PUT) {
            expected--;
        }
    }
}

static void end_without(int missed, const char *why)
{
    int teller, said = read_news(&teller);

    if (said >= 0 && said != missed) {
        missed = said;
        why = "so says another process, which has ended since";
    }
    fprintf(stderr, "rank %d: rank %d has ended or cannot be reached: %s\n", rank, missed, why);
    tell_others(missed);
    _exit(1);
}

static void look_for_news(void)
{
    int teller, said = read_news(&teller);
    char why[64];

    if (said < 0)
        return;
    snprintf(why, sizeof(why), "so says rank %d", teller);
    end_without(said, why);
}

/* Reads a word of each process that has answered the last time. */
static void ask_all(void)
{
    for (int r = 0; r < size; r++) {
        if (r == rank || peers[r].is_asked)
            continue;
        peers[r].is_asked = true;
        under_way++;
        SUBMIT(primary, utofu_get(vcq, box_of(r)->id, own + box_beat(r), box_of(r)->stadd, 8,
                                  EDATA_BEAT, UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL));
    }
}

/*
 * Messages that leave.
 */

void net_make_room(int tni)
{
    void *cbdata;
    int rc;

    while ((rc = utofu_poll_tcq(box_vcq(tni), 0, &cbdata)) == UTOFU_SUCCESS) {
        unsent--;
        happened++;
    }
    if (rc != UTOFU_ERR_NOT_FOUND)
        OK(rc);
}

static void put_slot(int to, int slot)
{
    char *from = box_at(box_slot(true, to, slot));
    size_t length = sizeof(struct header) + ((struct header *)from)->length;
    utofu_stadd_t there = box_of(to)->stadd + box_slot(false, rank, slot);
    unsigned long flags = UTOFU_ONESIDED_FLAG_TCQ_NOTICE | UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE |
                          UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE |
                          (slot % 2 ? UTOFU_ONESIDED_FLAG_STRONG_ORDER : 0) | box_of(to)->path;

    under_way++;
    unsent++;
    if (length <= 32)
        SUBMIT(primary, utofu_put_piggyback(vcq, box_of(to)->id, from, there, length,
                                            (uint64_t)slot, flags, NULL));
    else
        SUBMIT(primary, utofu_put(vcq, box_of(to)->id, own + box_slot(true, to, slot), there,
                                  length, (uint64_t)slot, flags, NULL));
}

static bool has_slot(int to)
{
    struct peer *peer = &peers[to];

    if (!peer->is_open)
        return peer->sent == 0;
    return peer->sent - box_read(box_credit(to)) < SLOTS;
}

static uint64_t sum_header(const struct header *header)
{
    uint64_t sum = header->number * 0x9e3779b97f4a7c15u;

    sum ^= (uint64_t)header->kind << 48 | (uint64_t)header->tag << 32 | header->length;
    return sum ^ header->request;
}

static void fill_slot(int to, struct header *header, const void *data)
{
    int slot = (int)(peers[to].sent % SLOTS);
    char *at = box_at(box_slot(true, to, slot));

    header->number = (uint32_t)peers[to].sent++;
    header->sum = sum_header(header);
    memcpy(at, header, sizeof(*header));
    if (header->length > 0)
        memcpy(at + sizeof(*header), data, header->length);
    put_slot(to, slot);
}

void net_send(int to, struct header *header, const void *data)
{
    struct peer *peer = &peers[to];
    struct waiting *w;

    if (!peer->first && has_slot(to)) {
        fill_slot(to, header, data);
        return;
    }
    w = malloc(sizeof(*w) + header->length);
    w->next = NULL;
    w->header = *header;
    if (header->length > 0)
        memcpy(w->data, data, header->length);
    *peer->last = w;
    peer->last = &w->next;
    num_waiting++;
}

static bool send_waiting(int to)
{
    struct peer *peer = &peers[to];
    bool sent = false;

    if (peer->again) {
        peer->again = false;
        put_slot(to, 0);
    }
    while (peer->first && has_slot(to)) {
        struct waiting *w = peer->first;
        fill_slot(to, &w->header, w->data);
        peer->first = w->next;
        if (!peer->first)
            peer->last = &peer->first;
        free(w);
        num_waiting--;
        sent = true;
    }
    return sent;
}

/* Tells a process how many of its messages have been taken. */
static void return_credits(int to)
{
    struct peer *peer = &peers[to];
    utofu_stadd_t there = box_of(to)->stadd + box_credit(rank);
    unsigned long flags =
        UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_STRONG_ORDER | box_of(to)->path;

    if (ending || peer->taken - peer->returned < SLOTS / 2)
        return;
    under_way++;
    if (rank % 2 == 0)
        SUBMIT(primary, utofu_put_piggyback8(vcq, box_of(to)->id, peer->taken, there, 8,
                                             EDATA_CREDIT, flags, NULL));
    else
        SUBMIT(primary,
               utofu_armw8(vcq, box_of(to)->id, UTOFU_ARMW_OP_ADD, peer->taken - peer->returned,
                           there, EDATA_CREDIT, flags, NULL));
    peer->returned = peer->taken;
}

/*
 * Notices.
 */

static void take_message(const struct utofu_mrq_notice *notice)
{
    int from = box_find_rank(notice->vcq_id), slot;
    struct peer *peer = &peers[from];
    struct header header;
    const char *at;

    slot = (int)(peer->taken % SLOTS);
    if (notice->edata != (uint64_t)slot)
        FAIL("message %llu of rank %d comes in slot %llu", (unsigned long long)peer->taken, from,
             (unsigned long long)notice->edata);
    at = box_at(box_slot(false, from, slot));
    memcpy(&header, at, sizeof(header));
    if (header.number != (uint32_t)peer->taken || header.length > EAGER_MAX ||
        header.sum != sum_header(&header))
        FAIL("the header of message %llu of rank %d is that of message %u, or wrong",
             (unsigned long long)peer->taken, from, header.number);
    if (notice->rmt_stadd != own + box_slot(false, from, slot) + sizeof(header) + header.length)
        FAIL("message %llu of rank %d ends at STADD %llx", (unsigned long long)peer->taken, from,
             (unsigned long long)notice->rmt_stadd);
    message_arrived(from, &header, at + sizeof(header));
    moved++;
    peer->taken++;
    return_credits(from);
}

/* The end of a communication that this process has started on its primary VCQ. */
static void end_own(const struct utofu_mrq_notice *notice, int rc)
{
    int to = box_find_rank(notice->vcq_id);
    struct peer *peer = &peers[to];
    bool is_message = notice->edata < SLOTS;
    char why[1024] = "";

    under_way--;
    if (notice->edata == EDATA_BEAT)
        peer->is_asked = false;
    if (rc == UTOFU_ERR_MRQ_RMT_STADD && is_message && !peer->is_open) {
        peer->again = true; /* the process has yet to register its memory */
        return;
    }
    if (rc == UTOFU_ERR_MRQ_RMT_STADD && notice->edata == EDATA_BEAT)
        return;
    utofu_get_last_error(why);
    if (rc == UTOFU_ERR_MRQ_PEER)
        end_without(to, why);
    if (rc != UTOFU_SUCCESS)
        FAIL("communication %llu with rank %d: %s", (unsigned long long)notice->edata, to, why);
    if (notice->edata == EDATA_WORD)
        word_is_there = true;
    moved += is_message && !peer->is_open;
    peer->is_open |= is_message;
}

static void take_notice(int tni, const struct utofu_mrq_notice *notice, int rc)
{
    char why[1024] = "";

    happened++;
    if (tni != primary || notice->edata >= EDATA_GETS) {
        utofu_get_last_error(why);
        if (rc == UTOFU_ERR_MRQ_PEER)
            end_without(message_source_of_get((unsigned int)notice->edata), why);
        if (rc != UTOFU_SUCCESS || notice->notice_type != UTOFU_MRQ_TYPE_LCL_GET)
            FAIL("notice %d of get %llu: %d: %s", notice->notice_type,
                 (unsigned long long)notice->edata, rc, why);
        moved++;
        message_get_ended((unsigned int)notice->edata);
    } else if (notice->notice_type == UTOFU_MRQ_TYPE_RMT_PUT && notice->edata < SLOTS) {
        take_message(notice);
    } else if (notice->notice_type % 2 == 0) {
        end_own(notice, rc);
    } else {
        FAIL("notice %d with EDATA %llu", notice->notice_type, (unsigned long long)notice->edata);
    }
}

/* A poll of an empty queue may give the core away: none of queues that have nothing to come. */
bool net_progress(void)
{
    uint64_t before = happened;
    struct utofu_mrq_notice notice;
    int rc;

    if (unsent > 0)
        net_make_room(primary);
    for (int t = 0; t < TNIS; t++) {
        if (t != primary && !message_has_gets(t))
            continue;
        while ((rc = utofu_poll_mrq(box_vcq(t), 0, &notice)) != UTOFU_ERR_NOT_FOUND)
            take_notice(t, &notice, rc);
    }
    for (int r = 0; r < size; r++)
        if (peers[r].first || peers[r].again)
            happened += send_waiting(r);
    return happened != before;
}

/* Seconds, longer on a slow machine. */
static double stuck_after(void)
{
    const char *scale = getenv("UT_TEST_TIMEOUT_SCALE");

    return STUCK_AFTER * (scale && atoi(scale) > 0 ? atoi(scale) : 1);
}

void net_idle(const char *what)
{
    static uint64_t moved_before = UINT64_MAX;
    static double since, asked;
    static unsigned int calls;
    double now;

    if (++calls % 16 == 0) /* what was just started often ends with the next poll */
        sched_yield();
    now = read_clock();
    if (moved != moved_before) {
        moved_before = moved;
        since = asked = now;
    }
    if (!ending && now - asked > ASK_AFTER) {
        look_for_news();
        ask_all();
        asked = now;
    }
    if (now - since > stuck_after())
        FAIL("%.0f seconds without a message; waits for %s; %d messages without a slot, %d "
             "communications under way",
             now - since, what, num_waiting, under_way);
}

/*
 * Words, and the end.
 */

uint64_t net_fetch_word(int of)
{
    word_is_there = false;
    under_way++;
    SUBMIT(primary, utofu_get(vcq, box_of(of)->id, own + box_fetched(), box_of(of)->stadd, 8,
                              EDATA_WORD, UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL));
    while (!word_is_there)
        if (!net_progress())
            net_idle("the word of another process");
    return box_read(box_fetched());
}

void net_settle(void)
{
    ending = true;
    while (under_way > 0 || num_waiting > 0)
        if (!net_progress())
            net_idle("the end of its communications");
}

void net_close(void)
{
    net_settle();
    box_close();
}
