/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a link finds the owner of the peer's VCQ and asks it for a connection (link/owner.c), and its
 * messages (link/message.c): the test plays the search, the provider and the clock.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../harness/check.h"
#include "ident/ident.h"
#include "link/hello.h"
#include "link/link.h"
#include "link/owner.h"
#include "link/unacked.h"
#include "peers/peers.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/log.h"

enum {
    JOB_TIMEOUT_S = 60,
    JOB_TIMEOUT_MS = JOB_TIMEOUT_S * 1000,
    LIMIT_S = 45,
    RANK = 12,
    SERIAL = 5
};

static uint64_t time_now = 1000000, job_timeout_s = JOB_TIMEOUT_S;
static char line[700];
static unsigned int num_lines, num_schedules, num_connects, num_starts;
static enum ut_log_level line_level;

static void note_line(enum ut_log_level level, const char *category, const char *format, ...)
{
    va_list ap;

    CHECK(strcmp(category, "link") == 0);
    va_start(ap, format);
    vsnprintf(line, sizeof(line), format, ap);
    va_end(ap);
    line_level = level;
    num_lines++;
}

static uint64_t get_number(enum ut_env_id id)
{
    CHECK(id == UT_ENV_JOB_TIMEOUT);
    return job_timeout_s;
}

static uint64_t get_time(void)
{
    return time_now;
}

/* The search */
static int find_rc;
static struct ut_peer the_owner;
static bool searched_by_rank;
static const char *absence;

static int find_owner(const struct ut_vcq_ident *vcq, struct ut_peer *peer)
{
    CHECK(vcq->tni == 3 && vcq->cq == 2 && vcq->coords.at[0] == 1);
    searched_by_rank = false;
    *peer = the_owner;
    return find_rc;
}

static int find_local_rank(const struct ut_coords *coords, uint32_t local_rank,
                           struct ut_peer *peer)
{
    CHECK(coords->at[0] == 1 && local_rank == 2);
    searched_by_rank = true;
    *peer = the_owner;
    return find_rc;
}

static bool explain_absence(uint32_t rank, char *text, size_t size)
{
    CHECK(rank == RANK);
    if (absence)
        snprintf(text, size, "%s", absence);
    return absence != NULL;
}

/* The provider */
static int connect_rc, send_rc;
static struct prov_conn *const some_conn = (struct prov_conn *)(void *)&the_owner;
static struct prov_ep *const some_endpoint = (struct prov_ep *)(void *)&the_owner;
static uint8_t sent[200];
static size_t sent_size;
static uint32_t sent_flags;
static uint64_t sent_cookie;
static unsigned int num_sends, fails_after = UINT32_MAX;

static int ask_for_connection(struct prov_ep *ep, const void *addr, size_t addr_size,
                              unsigned int tni, uint64_t peer_id, const void *private_data,
                              size_t private_data_size, void *ctx, struct prov_conn **conn);

static int send_message(struct prov_conn *conn, const void *data, size_t size, unsigned int flags,
                        uint64_t cookie)
{
    CHECK(conn == some_conn && size <= sizeof(sent));
    if (num_sends >= fails_after)
        return -EAGAIN;
    if (send_rc >= 0) {
        num_sends++;
        memcpy(sent, data, size);
        sent_size = size;
        sent_flags = flags;
        sent_cookie = cookie;
    }
    return send_rc;
}

static const struct prov_ops our_ops = {.connect = ask_for_connection, .send = send_message},
                             others;
static struct prov provs[2] = {{.ops = &others}, {.ops = &our_ops}};
static struct ut_process process = {.prov = {&provs[0], &provs[1]}};

static const struct ut_process *peek_process(void)
{
    return &process;
}

static void fill_hello(const struct ut_link *link, uint16_t serial, struct ut_hello *hello)
{
    CHECK(link->ops == &our_ops && serial == SERIAL);
    memset(hello, 7, sizeof(*hello));
}

static bool lacks_table;

static bool alloc_table(struct ut_announced *table)
{
    table->slots = 1;
    return !lacks_table;
}

static bool stores_announced = true;

static bool store_announced(struct ut_announced *table, uint32_t slot, utofu_stadd_t stadd)
{
    CHECK(table->slots == 1 && slot == 4 && stadd == 99);
    return stores_announced;
}

static void disable_announced(struct ut_announced *table)
{
    table->slots = 0;
}

static bool malloc_fails;

static void *allocate(size_t size)
{
    return malloc_fails ? NULL : malloc(size);
}

static void schedule_link(struct ut_link *link)
{
    CHECK(link);
    num_schedules++;
}

static bool pause_is_over;

static bool is_pause_over(struct ut_link *link)
{
    CHECK(ut_link_is_given_up(link));
    return pause_is_over;
}

static void start_connecting(struct ut_link *link)
{
    CHECK(link->unacked_first);
    num_starts++;
}

#define ut_log_write             note_line
#define ut_env_num               get_number
#define ut_now_ms                get_time
#define ut_peers_find_owner      find_owner
#define ut_peers_find_local_rank find_local_rank
#define ut_peers_absence_reason  explain_absence
#define ut_process_peek          peek_process
#define ut_link_fill_hello       fill_hello
#define ut_announced_alloc       alloc_table
#define ut_announced_store       store_announced
#define ut_announced_disable     disable_announced
#define ut_link_schedule         schedule_link
#define ut_link_pause_is_over    is_pause_over
#define ut_link_start_connecting start_connecting
#define malloc                   allocate
#include "../../src/link/message.c"
#include "../../src/link/owner.c"
#undef malloc

static struct ut_vcq vcq;
static struct ut_link link_to;

static void reset(void)
{
    struct ut_vcq_ident ident = {.coords = {.at = {1}}, .tni = 3, .cq = 2, .cmp = 1};

    vcq = (struct ut_vcq){.num_eps = 2};
    vcq.eps[0] = (struct ut_vcq_ep){.ops = &others, .provider = 0};
    vcq.eps[1] = (struct ut_vcq_ep){
        .ep = some_endpoint, .ops = &our_ops, .provider = 1, .source_copy_max = 33};
    link_to = (struct ut_link){.vcq = &vcq,
                               .peer = ut_vcq_id_pack(&ident),
                               .peer_tni = 3,
                               .id_key = 77,
                               .serial = SERIAL,
                               .conn = some_conn,
                               .ops = &our_ops,
                               .state = UT_LINK_UP,
                               .unacked_last = &link_to.unacked_first,
                               .limit_ms = 1000 * LIMIT_S + 999,
                               .deadline_ms = time_now + 1};
    the_owner = (struct ut_peer){.rank = RANK, .provider = 1, .addr = "there", .addr_size = 6};
    absence = NULL;
    find_rc = connect_rc = send_rc = 0;
    lacks_table = malloc_fails = false;
    num_lines = num_schedules = num_connects = num_starts = num_sends = 0;
    fails_after = UINT32_MAX;
    line[0] = '\0';
}

static int ask_for_connection(struct prov_ep *ep, const void *addr, size_t addr_size,
                              unsigned int tni, uint64_t peer_id, const void *private_data,
                              size_t private_data_size, void *ctx, struct prov_conn **conn)
{
    const uint8_t *hello = private_data;

    CHECK(ep == some_endpoint && strcmp(addr, "there") == 0 && addr_size == 6 && tni == 3);
    CHECK(peer_id == 77 && private_data_size == sizeof(struct ut_hello) && hello[0] == 7);
    CHECK(ctx == &link_to && conn == &link_to.conn);
    num_connects++;
    *conn = some_conn;
    return connect_rc;
}

/*
 * The owner
 */

/* The deadline is in the future by `left` ms. */
static const struct search {
    const char *what;
    int find_rc, connect_rc, left;
    enum ut_fsm_event event;
    enum ut_cause cause;
    uint64_t detail;
    const char *line;
} searches[] = {
    {"found", 0, 0, 1, UT_FSM_REQUEST_SENT, UT_CAUSE_NONE, 0, NULL},
    {"found late", 0, 0, 0, UT_FSM_REQUEST_SENT, UT_CAUSE_NONE, 0, NULL},
    {"a bad address", 0, -EPROTO, 1, UT_FSM_NO_OWNER, UT_CAUSE_INVALID_ADDRESS, 0,
     "rank 12 published an address that is not an address of this library"},
    {"another fabric", 0, -EHOSTUNREACH, 1, UT_FSM_NO_OWNER, UT_CAUSE_UNREACHABLE, 0, NULL},
    {"no memory", 0, -ENOMEM, 1, UT_FSM_TRY_LATER, UT_CAUSE_NONE, 0, NULL},
    {"no memory, late", 0, -ENOMEM, 0, UT_FSM_LOCAL_ERROR, UT_CAUSE_SHORTAGE, 0,
     "within 45 s: Cannot allocate memory"},
    {"no room", 0, -EAGAIN, 1, UT_FSM_TRY_LATER, UT_CAUSE_NONE, 0, NULL},
    {"no room, late", 0, -EAGAIN, 0, UT_FSM_DEADLINE_PASSED, UT_CAUSE_LOST, LIMIT_S, NULL},
    {"no device", 0, -ENODEV, 1, UT_FSM_LOCAL_ERROR, UT_CAUSE_DEVICE, 0, NULL},
    {"not started", -EAGAIN, 0, 1, UT_FSM_TRY_LATER, UT_CAUSE_NONE, 0, "rank 12 has not called"},
    {"not started, late", -EAGAIN, 0, 0, UT_FSM_NO_OWNER, UT_CAUSE_NOT_STARTED, JOB_TIMEOUT_S,
     "has not called the library within 60 s"},
    {"in MPI", -EBUSY, 0, 1, UT_FSM_TRY_LATER, UT_CAUSE_NONE, 0,
     "rank 12 cannot be looked up while the program is in MPI"},
    {"in MPI, late", -EBUSY, 0, 0, UT_FSM_NO_OWNER, UT_CAUSE_INVALID_ADDRESS, JOB_TIMEOUT_S, NULL},
    {"nobody", -ENOENT, 0, 1, UT_FSM_NO_OWNER, UT_CAUSE_NO_OWNER, JOB_TIMEOUT_S, NULL},
    {"unreachable", -EHOSTUNREACH, 0, 1, UT_FSM_NO_OWNER, UT_CAUSE_UNREACHABLE, JOB_TIMEOUT_S,
     NULL},
    {"odd", -EPROTO, 0, 1, UT_FSM_NO_OWNER, UT_CAUSE_INVALID_ADDRESS, JOB_TIMEOUT_S, NULL},
    {"no descriptors", -EMFILE, 0, 1, UT_FSM_TRY_LATER, UT_CAUSE_NONE, 0, NULL},
    {"no descriptors, late", -EMFILE, 0, 0, UT_FSM_LOCAL_ERROR, UT_CAUSE_SHORTAGE, 0,
     "within 45 s: Too many open files"},
};

static void outcomes_of_a_search(void)
{
    for (size_t i = 0; i < sizeof(searches) / sizeof(searches[0]); i++) {
        const struct search *s = &searches[i];
        reset();
        link_to.ops = NULL;
        link_to.conn = NULL;
        link_to.deadline_ms = time_now + (uint64_t)s->left;
        find_rc = s->find_rc;
        connect_rc = s->connect_rc;
        struct ut_link_outcome outcome = ut_link_connect_to_owner(&link_to);
        if (outcome.event != s->event || outcome.why.cause != s->cause)
            printf("%s: %d, cause %d\n", s->what, (int)outcome.event, outcome.why.cause);
        CHECK(outcome.event == s->event && outcome.why.cause == s->cause);
        CHECK(outcome.why.detail == s->detail && num_connects == (s->find_rc == 0));
        CHECK(link_to.conn == (s->find_rc || s->connect_rc ? NULL : some_conn));
        if (s->line && !strstr(line, s->line))
            printf("%s: %s\n", s->what, line);
        CHECK(s->line ? num_lines == 1 && strstr(line, s->line) : num_lines == 0);
        CHECK(!searched_by_rank);
    }
}

static void endpoints(void)
{
    reset();
    CHECK(ut_link_connect_to_owner(&link_to).event == UT_FSM_REQUEST_SENT);
    CHECK(link_to.ops == &our_ops && link_to.provider == 1 && link_to.source_copy_max == 33);
    CHECK(!link_to.write_inline && link_to.inline_max == 0);
    const struct prov_ops with_inline = {
        .write_inline = (int (*)(struct prov_conn *, const void *, uint64_t, uint32_t, uint32_t,
                                 uint64_t))(void (*)(void))send_message};
    struct ut_vcq_ep e = {.ops = &with_inline, .source_copy_max = 44};
    ut_link_use_endpoint(&link_to, &e);
    CHECK(link_to.write_inline == with_inline.write_inline && link_to.inline_max == 44);
    CHECK(ut_link_find_endpoint(&vcq, &others) == &vcq.eps[0] &&
          !ut_link_find_endpoint(&vcq, NULL));
    vcq.num_eps = 1; /* of another provider */
    struct ut_link_outcome outcome = ut_link_connect_to_owner(&link_to);
    CHECK(outcome.event == UT_FSM_LOCAL_ERROR && outcome.why.cause == UT_CAUSE_DEVICE);
    reset();
    lacks_table = true;
    CHECK(ut_link_connect_to_owner(&link_to).event == UT_FSM_TRY_LATER && num_connects == 0);
    CHECK(strstr(line, "no memory for the connection to VCQ"));
    link_to.deadline_ms = time_now;
    outcome = ut_link_connect_to_owner(&link_to);
    CHECK(outcome.event == UT_FSM_LOCAL_ERROR && outcome.why.cause == UT_CAUSE_SHORTAGE);
}

/* The process of a barrier gate is found by its local rank. */
static void owners_of_gates(void)
{
    struct ut_vcq_ident ident = {.coords = {.at = {1}}, .tni = UT_NUM_TNIS, .cq = 2};

    reset();
    link_to.peer = ut_vcq_id_pack(&ident);
    CHECK(ut_link_connect_to_owner(&link_to).event == UT_FSM_REQUEST_SENT && searched_by_rank);
}

static void absent_owners_are_told_once(void)
{
    static const struct {
        uint64_t waited;
        bool was_up, was_told, is_told;
    } cases[] = {{UT_LONG_WAIT_MS - 1, false, false, false},
                 {UT_LONG_WAIT_MS, false, false, true},
                 {JOB_TIMEOUT_MS - 1, false, false, true},
                 {JOB_TIMEOUT_MS - 1, true, false, false},
                 {JOB_TIMEOUT_MS - 1, false, true, false}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        reset();
        find_rc = -EAGAIN;
        link_to.deadline_ms = time_now + JOB_TIMEOUT_MS - cases[i].waited;
        link_to.was_up = cases[i].was_up;
        link_to.owner_absent_warned = cases[i].was_told;
        for (int again = 0; again < 2; again++)
            CHECK(ut_link_connect_to_owner(&link_to).event == UT_FSM_TRY_LATER);
        CHECK(num_lines == cases[i].is_told && (!num_lines || line_level == UT_LOG_WARNING));
    }
    for (int is_half = 0; is_half < 2; is_half++) {
        reset();
        find_rc = -EAGAIN;
        job_timeout_s = 4;
        link_to.deadline_ms = time_now + 4000 - 1999 - (uint64_t)is_half;
        ut_link_connect_to_owner(&link_to);
        CHECK(num_lines == (unsigned int)is_half);
    }
    job_timeout_s = JOB_TIMEOUT_S;
    reset();
    find_rc = -EAGAIN;
    absence = "is on a node without the library";
    ut_link_connect_to_owner(&link_to);
    CHECK(strstr(line, "rank 12 is on a node without the library; communications with it wait"));
    CHECK(strstr(line, "fail after 60 s"));
    reset();
    find_rc = -EAGAIN;
    the_owner.rank = UT_NO_RANK;
    ut_link_connect_to_owner(&link_to);
    CHECK(strstr(line, "the owner of VCQ ") && strstr(line, "has not called the library yet"));
}

/*
 * Messages
 */

static const uint8_t data[200] = {1, 2, 3};

static unsigned int count_unacked(void)
{
    unsigned int n = 0;

    for (struct ut_link_msg *m = link_to.unacked_first; m; m = m->next)
        n++;
    return n;
}

static void end_messages(void)
{
    ut_link_free_unacked(&link_to);
    ut_link_free_spare_buffers(&link_to);
}

static void messages_are_kept_until_they_are_done(void)
{
    reset();
    for (uint64_t i = 1; i <= 5; i++) {
        ut_link_send(&link_to, data, 3 + i, i == 2);
        CHECK(num_sends == i && sent_size == 3 + i && memcmp(sent, data, sent_size) == 0);
        CHECK(sent_flags == (i == 2 ? PROV_SOLICITED : 0) && link_to.tx_number == i);
        CHECK(sent_cookie == ut_cookie(UT_COOKIE_MSG, (uint32_t)i) && count_unacked() == i);
    }
    ut_link_msg_done(&link_to, ut_cookie(UT_COOKIE_MSG, 3), PROV_FLUSHED);
    CHECK(count_unacked() == 5);
    ut_link_msg_done(&link_to, ut_cookie(UT_COOKIE_MSG, 3), PROV_OK);
    CHECK(count_unacked() == 2 && link_to.unacked_first->number == 4 && link_to.num_spare == 3);
    send_rc = PROV_SRC_FREE | PROV_COMPLETE; /* nothing is kept */
    ut_link_send(&link_to, data, 9, false);
    CHECK(count_unacked() == 2 && link_to.tx_number == 6);
    send_rc = PROV_SRC_FREE;
    ut_link_send(&link_to, data, UT_MSG_BUFFER_SIZE, false);
    CHECK(count_unacked() == 3 && link_to.num_spare == 2); /* a buffer is used again */
    ut_link_send(&link_to, data, UT_MSG_BUFFER_SIZE + 1, false);
    CHECK(count_unacked() == 4 && link_to.num_spare == 2); /* too long for it */
    ut_link_msg_done(&link_to, ut_cookie(UT_COOKIE_MSG, 8), PROV_OK);
    CHECK(count_unacked() == 0 && link_to.unacked_last == &link_to.unacked_first);
    CHECK(link_to.num_spare == 5);      /* all but the long one */
    link_to.tx_number = UINT32_MAX - 1; /* the cookie has 32 bits of the number */
    for (int i = 0; i < 3; i++)
        ut_link_send(&link_to, data, 8, false);
    ut_link_msg_done(&link_to, ut_cookie(UT_COOKIE_MSG, 0), PROV_OK);
    CHECK(count_unacked() == 1);
    ut_link_msg_done(&link_to, ut_cookie(UT_COOKIE_MSG, 1), PROV_OK);
    CHECK(count_unacked() == 0 && num_schedules == 0);
    end_messages();
}

static void messages_wait_without_room(void)
{
    reset();
    ut_link_send(&link_to, data, 4, false);
    send_rc = -EAGAIN;
    ut_link_send(&link_to, data, 5, true);
    CHECK(num_schedules == 1 && link_to.tx_number == 1 && link_to.msg_to_post->number == 0);
    send_rc = PROV_SRC_FREE;
    ut_link_send(&link_to, data, 6, false); /* behind it */
    CHECK(num_sends == 1 && count_unacked() == 3 && link_to.msg_to_post->size == 5);
    ut_link_msg_done(&link_to, ut_cookie(UT_COOKIE_MSG, 1), PROV_OK);
    CHECK(count_unacked() == 2);
    ut_link_msg_done(&link_to, ut_cookie(UT_COOKIE_MSG, 1), PROV_OK);
    CHECK(count_unacked() == 2); /* those are not posted */
    fails_after = 2;
    ut_link_post_messages(&link_to);
    CHECK(num_sends == 2 && sent_size == 5 && sent_flags == PROV_SOLICITED && num_schedules == 2);
    CHECK(link_to.unacked_first->number == 2 && link_to.msg_to_post->size == 6);
    fails_after = UINT32_MAX;
    send_rc = -ENOTCONN;
    ut_link_post_messages(&link_to);
    CHECK(num_schedules == 2 && link_to.msg_to_post->size == 6);
    send_rc = PROV_SRC_FREE | PROV_COMPLETE;
    ut_link_post_messages(&link_to);
    CHECK(!link_to.msg_to_post && count_unacked() == 0 && link_to.tx_number == 3);
    send_rc = -ENOTCONN;
    ut_link_send(&link_to, data, 7, false);
    CHECK(num_schedules == 2 && link_to.msg_to_post->size == 7 && num_lines == 0);
    CHECK(link_to.num_spare == 2 && link_to.msg_to_post->number == 0); /* of a buffer used again */
    end_messages();
}

static void messages_for_links_that_are_down(void)
{
    static const struct {
        enum ut_link_state state;
        bool pause_is_over, is_queued;
    } cases[] = {{UT_LINK_IDLE, false, true},
                 {UT_LINK_SILENT, false, false},
                 {UT_LINK_SILENT, true, true},
                 {UT_LINK_GONE, false, false}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        reset();
        link_to.state = cases[i].state;
        pause_is_over = cases[i].pause_is_over;
        ut_link_send(&link_to, data, 4, false);
        ut_link_send(&link_to, data, 5, false);
        CHECK(count_unacked() == (cases[i].is_queued ? 2 : 0) && num_sends == 0);
        CHECK(num_starts == (cases[i].is_queued ? 2 : 0));
        CHECK(!cases[i].is_queued || link_to.msg_to_post->size == 4);
        end_messages();
    }
}

/* The link is closed: the peer would wait for the message for ever. */
static void messages_that_are_lost_for_lack_of_memory(void)
{
    for (int kind = 0; kind < 4; kind++) {
        reset();
        malloc_fails = true;
        send_rc = kind == 1 ? -EAGAIN : 0;
        link_to.state = kind == 2 ? UT_LINK_IDLE : UT_LINK_UP;
        link_to.rx_announced.slots = 1;
        stores_announced = false;
        for (int again = 0; again < 2; again++) {
            if (kind == 3 && again == 0)
                ut_link_store_announced(&link_to, 4, 99);
            else
                ut_link_send(&link_to, data, 4, false);
        }
        CHECK(link_to.lacks_memory && num_schedules == 2 && num_lines == 1);
        CHECK(strstr(line, kind == 3 ? "no memory for STADDs announced by VCQ"
                                     : "no memory for a message to VCQ"));
        CHECK(count_unacked() == 0 && !link_to.msg_to_post && num_starts == 0);
        CHECK(link_to.rx_announced.slots == (kind == 3 ? 0 : 1));
    }
    reset();
    link_to.rx_announced.slots = 1;
    stores_announced = true;
    ut_link_store_announced(&link_to, 4, 99);
    CHECK(!link_to.lacks_memory && num_schedules == 0 && link_to.rx_announced.slots == 1);
}

int main(void)
{
    outcomes_of_a_search();
    endpoints();
    owners_of_gates();
    absent_owners_are_told_once();
    messages_are_kept_until_they_are_done();
    messages_wait_without_room();
    messages_for_links_that_are_down();
    messages_that_are_lost_for_lack_of_memory();
    return 0;
}
