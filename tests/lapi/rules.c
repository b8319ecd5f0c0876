/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LAPI at its limits, as one task of a job whose other tasks and whose uTofu the test plays
 * (played_utofu.h): records of each form, slots of both kinds of lanes, replies, data that are
 * fetched in fragments or moved by both sides, tasks that are gone, cached registrations, and how
 * often waiting calls and threads poll, pause and sleep. Starting fails at each call of uTofu and
 * without memory for each allocation, and leaves nothing behind.
 */
#include "played_utofu.h"

#include <errno.h>
#include <fcntl.h>

#include "../../layers/lapi/hdr_handlers.h"
#include "../../layers/lapi/assist.h"
#include "../../layers/lapi/cmpl_thread.h"
#include "../../layers/lapi/dispatch.h"
#include "../../layers/lapi/errors.h"
#include "../../layers/lapi/inbox.h"
#include "../../layers/lapi/incoming.h"
#include "../../layers/lapi/net.h"
#include "../../layers/lapi/peers.h"
#include "../../layers/lapi/rcache.h"
#include "../../layers/lapi/receive.h"
#include "../../layers/lapi/requests.h"
#include "../../layers/lapi/slots.h"
#include "../../layers/lapi/sync.h"
#include "../../layers/lapi/wait.h"
#include "../../layers/lapi/watch.h"

enum { TO = 2, BIG = 20 << 20 };

static lapi_handle_t handle;
static uint8_t *data; /* of this task: BIG bytes */
static lapi_info_t info;
static int num_errors, last_error, last_source;
static bool is_told; /* the error handler runs */

static void note_error(lapi_handle_t *hndl, int *code, lapi_err_t *type, int *task, int *src)
{
    CHECK(*hndl == handle && *type == EXT_ERR && *task == RANK && !is_told);
    is_told = true;
    LAPI_Probe(*hndl); /* may tell no other one meanwhile */
    is_told = false;
    num_errors++;
    last_error = *code;
    last_source = *src;
}

/*
 * Begin and end
 */

static int lowest_free_fd(void)
{
    int fd = dup(STDOUT_FILENO);

    close(fd);
    return fd;
}

static bool nothing_is_left(long blocks_before, int fd_before)
{
    if (num_regions() || num_vcqs || num_maps || num_threads || blocks != blocks_before)
        printf("%d regions, %d VCQs, %d mappings, %d threads, %ld blocks\n", num_regions(),
               num_vcqs, num_maps, num_threads, blocks);
    return num_regions() == 0 && num_vcqs == 0 && num_maps == 0 && num_threads == 0 &&
           blocks == blocks_before && la.lock.word == 0 && lowest_free_fd() == fd_before;
}

static void begin(void)
{
    for (int i = 0; i < PROCS; i++) {
        memset(played_memory[i], 0, sizeof(struct la_control_words));
        nodes[i] = (uint32_t)i;
        for (uint32_t k = 0; k < 3; k++)
            played_words((uint32_t)i)->common.partners[k] =
                id_of(((uint32_t)i + (1u << k)) % PROCS);
    }
    mapped_inode = 0;
    ends = ALL;
    info = (lapi_info_t){.err_hndlr = note_error};
    CHECK(LAPI_Init(&handle, &info) == LAPI_SUCCESS);
    CHECK(la.dispatch.shuffle == (getenv("LAPI_SHUFFLE") ? 3 + RANK : 0)); /* not alike */
    settle();
    ends = ATOMICS;
    num_errors = last_error = 0;
    last_source = NONE;
    forget();
}

static void end(void)
{
    ends = ALL;
    settle();
    for (int i = 0; i < PROCS; i++) {
        struct la_peer *peer = la_peer_find((uint32_t)i);
        if (peer != NULL) /* all messages have been received */
            played_words((uint32_t)i)->freed[peer->lane] = peer->lane_used;
    }
    int rc = LAPI_Term(handle);
    CHECK(rc == (la.watch.num_gone > 0 ? LAPI_ERR_TIMEOUT : LAPI_SUCCESS));
    CHECK(num_flying == 0 && num_notices == 0 && !strstr(all_lines, "has ended meanwhile"));
    CHECK(nothing_is_left(0, lowest_free_fd()));
}

static struct la_peer *connect_to(uint32_t rank)
{
    int rc = 0;

    ends = ALL;
    la_lock();
    struct la_peer *peer = la_peer_connect(rank, &rc);
    la_unlock();
    ends = ATOMICS;
    CHECK(peer != NULL && num_flying == 0);
    return peer;
}

static void starts_fail_everywhere(void)
{
    int fd = lowest_free_fd();

    setenv("LAPI_NO_CACHE", "1", 1); /* the first one, without a file */
    CHECK(LAPI_Init(&handle, &info) == LAPI_SUCCESS && la.rcache.maps_fd == -1);
    CHECK(LAPI_Term(handle) == LAPI_SUCCESS && fcntl(STDIN_FILENO, F_GETFD) != -1);
    unsetenv("LAPI_NO_CACHE");
    info.err_hndlr = note_error;
    for (int failing = 0; failing < 2; failing++) {
        for (int i = 0;; i++) {
            fail_call = failing ? NONE : i;
            fail_memory = failing ? i : NONE;
            has_failed = false;
            lines = 0;
            int rc = LAPI_Init(&handle, &info);
            fail_call = fail_memory = NONE;
            CHECK(rc == (has_failed ? LAPI_ERR_INIT_FAILED : LAPI_SUCCESS));
            CHECK(!has_failed || lines > 0);
            if (!has_failed)
                CHECK(num_threads == 1 && LAPI_Term(handle) == LAPI_SUCCESS);
            CHECK(nothing_is_left(0, fd));
            CHECK(LAPI_Probe(handle) == LAPI_ERR_HNDL_INVALID);
            if (!has_failed)
                break;
        }
    }
    int inits = la.num_inits;
    exchange_result = LC_EXCHANGE_FAILED;
    CHECK(LAPI_Init(&handle, &info) == LAPI_ERR_INIT_FAILED && nothing_is_left(0, fd));
    exchange_result = LC_EXCHANGE_OK;
    thread_error = EAGAIN;
    CHECK(LAPI_Init(&handle, &info) == LAPI_ERR_INIT_FAILED && nothing_is_left(0, fd));
    CHECK(strstr(line, "no thread for interrupts: error 11") && la.num_inits == inits);
    thread_error = 0;
}

static void arguments_of_init(void)
{
    CHECK(LAPI_Init(NULL, &info) == LAPI_ERR_RET_PTR_NULL);
    CHECK(LAPI_Init(&handle, NULL) == LAPI_ERR_INFO_NULL);
    for (int i = 0; i < 7; i++) {
        info.reserved[i] = &info;
        CHECK(LAPI_Init(&handle, &info) == LAPI_ERR_INFO_NONZERO);
        info.reserved[i] = NULL;
    }
    begin();
    lapi_handle_t other = handle;
    CHECK(LAPI_Init(&other, &info) == LAPI_ERR_ALL_HNDL_IN_USE && other == handle);
    CHECK(LAPI_Term(handle + 1) == LAPI_ERR_HNDL_INVALID);
    la.dispatching = true;
    CHECK(LAPI_Term(handle) == LAPI_ERR_IN_HNDLR && LAPI_Fence(handle) == LAPI_ERR_IN_HNDLR &&
          LAPI_Gfence(handle) == LAPI_ERR_IN_HNDLR);
    la.dispatching = false;
    end();
}

/*
 * Records that are sent
 */

static const struct la_record *slot_at(uint32_t rank, uint64_t slot)
{
    utofu_stadd_t stadd = la_slot_stadd(id_of(rank), (uint32_t)slot);

    return (const struct la_record *)memory_of(stadd, LA_SLOT_SIZE);
}

enum {
    RECORD = UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_STRONG_ORDER,
    LOCAL = UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE,
};

/* The target has freed all slots, and this task has read that. */
static void free_slots(struct la_peer *peer)
{
    played_words(peer->rank)->freed[peer->lane] = peer->lane_used;
    la_slots_read_freed(peer);
    settle();
    CHECK(peer->lane_freed == peer->lane_used && !peer->freed_read_pending);
}

static bool is_inline(const struct la_record *rec, uint64_t seq)
{
    return rec->flags == LA_INLINE && rec->seq == seq && rec->rank == RANK;
}

static void records_have_forms(void)
{
    static const struct {
        unsigned int uhdr_len, len, size; /* of the record */
    } cases[] = {{0, 0, 64},           {0, 24, 64},      {0, 25, 64 + 25},     {4, 16, 64},
                 {4, 17, 64 + 25},     {8, 16, 64},      {8, 17, 64 + 25},     {12, 8, 64},
                 {24, 0, 64},          {28, 0, 64 + 32}, {0, 1976, 64 + 1976}, {8, 1968, 64 + 1976},
                 {1408, 0, 64 + 1408}, {0, 1977, 72},    {8, 1969, 72 + 8}};

    begin();
    struct la_peer *peer = connect_to(TO);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unsigned int n = cases[i].uhdr_len, len = cases[i].len;
        uint32_t padded = (n + 7) / 8 * 8, slot = peer->lane_used % LA_LANE_SLOTS;
        lapi_cntr_t org = {0};
        fill(data, 2048, (unsigned int)i);
        fill(data + 4096, 2048, 99);
        CHECK(LAPI_Amsend(handle, TO, (void *)7, data + 4096, n, data, len, (lapi_cntr_t *)0x55,
                          &org, NULL) == LAPI_SUCCESS);
        bool fetched = cases[i].size < 64 + len && len > 24,
             is_short = cases[i].size == 64 && !fetched;
        CHECK(num_flying == 1 && flying[0].kind == PUT && flying[0].size == cases[i].size);
        CHECK(flying[0].flags ==
              (is_short ? (unsigned long)RECORD : (unsigned long)RECORD | LOCAL));
        CHECK((flying[0].edata == LA_EDATA_NO_OP) == is_short);
        end_flying(0, UTOFU_SUCCESS);
        progress();
        const struct la_record *rec = slot_at(TO, slot);
        size_t header = is_short ? 32 : fetched ? 72 : 64;
        CHECK(rec->kind == LA_AM && rec->tgt_addr == 7 && rec->tgt_cntr == 0x55);
        CHECK(rec->rank == RANK && rec->uhdr_len == n && rec->data_len == (fetched ? 0 : len));
        CHECK(is_short ? is_inline(rec, peer->lane_used) : rec->seq == 0);
        CHECK(rec->flags == (is_short ? LA_INLINE : fetched ? LA_WANTS_FIN | LA_RENDEZVOUS : 0));
        CHECK(is_filled((const uint8_t *)rec + header, n, 99));
        CHECK(
            is_filled((const uint8_t *)rec + header + padded, fetched ? 0 : len, (unsigned int)i));
        CHECK(org.value == !fetched && (num_regions() == 3) == fetched);
        if (fetched) {
            CHECK(rec->vcq_id == id_of(RANK) && rec->total_len == len);
            CHECK(rec->org_stadd == (uintptr_t)data);
            struct la_reply_area *reply = &la.control.replies[rec->req_index];
            reply->fin = 0;
            put_arrives(&reply->fin + 1);
            progress();
            CHECK(org.value == 1 && num_regions() == 2 && la.requests.num_free == LA_NUM_REQS);
        }
        free_slots(peer);
    }
    end();
}

static void long_headers_say_what_replies_are_for(void)
{
    lapi_cntr_t cmpl = {0}, org = {0};

    begin();
    struct la_peer *peer = connect_to(TO);
    CHECK(LAPI_Put(handle, TO, 8, (void *)0x1000, data, NULL, &org, &cmpl) == LAPI_SUCCESS);
    CHECK(org.value == 1 && num_flying == 1 && flying[0].size == 72 + 8);
    finish(0, UTOFU_SUCCESS);
    const struct la_record *rec = slot_at(TO, 0);
    CHECK(rec->flags == LA_WANTS_CMPL && rec->total_len == 8 && rec->data_len == 8);
    CHECK(la.requests.num_free == LA_NUM_REQS - 1 && rec->vcq_id == id_of(RANK));
    struct la_reply_area *reply = &la.control.replies[rec->req_index];
    put_arrives(&reply->fin + 1); /* which the record has not asked for */
    progress();
    CHECK(cmpl.value == 0 && la.requests.num_free == LA_NUM_REQS - 1);
    reply->cmpl = 0;
    put_arrives(&reply->cmpl + 1);
    put_arrives(&reply->cmpl + 1); /* late, once more */
    progress();
    CHECK(cmpl.value == 1 && la.requests.num_free == LA_NUM_REQS && num_errors == 0);
    CHECK(LAPI_Put(handle, TO, 8, (void *)0x1000, data, NULL, &org, &cmpl) == LAPI_SUCCESS);
    finish(0, UTOFU_SUCCESS);
    reply = &la.control.replies[slot_at(TO, 1)->req_index];
    reply->cmpl = LAPI_ERR_TGT_ADDR; /* the target could not execute it */
    put_arrives(&reply->cmpl + 1);
    progress();
    CHECK(cmpl.value == 1 && num_errors == 1 && last_error == LAPI_ERR_TGT_ADDR);
    CHECK(last_source == TO && la.requests.num_free == LA_NUM_REQS);
    CHECK(LAPI_Waitcntr(handle, &cmpl, 2, NULL) == LAPI_ERR_TGT_ADDR);
    CHECK(LAPI_Waitcntr(handle, &cmpl, 1, NULL) == LAPI_SUCCESS && cmpl.value == 0);
    free_slots(peer);
    end();
}

/*
 * Slots
 */

static int put_word(lapi_cntr_t *org)
{
    return LAPI_Put(handle, TO, 8, (void *)0x1000, data, NULL, org, NULL);
}

static bool is_read_of_freed(const struct flying *f, uint32_t lane)
{
    return f->kind == GET && f->size == 8 &&
           f->rmt ==
               la_control_stadd(id_of(TO), offsetof(struct la_control_words, freed) + 8 * lane);
}

/* Behind the ninth record the freed slots are read, once; behind the sixteenth requests wait. */
static void private_lanes_are_full(void)
{
    lapi_cntr_t org = {0};

    begin();
    played_words(TO)->lanes_requested = 3;
    struct la_peer *peer = connect_to(TO);
    CHECK(peer->lane == 3 && peer->lane_stadd == la_slot_stadd(id_of(TO), 48));
    for (int i = 1; i <= 16; i++) {
        CHECK(put_word(&org) == LAPI_SUCCESS && num_flying == i + (i > 8) && org.value == i);
        CHECK(flying[i > 9 ? i : i - 1].rmt == la_slot_stadd(id_of(TO), 47 + (uint32_t)i));
        CHECK(peer->freed_read_pending == (i > 8));
        CHECK(flying[i > 9 ? i : i - 1].edata == LA_EDATA_NO_OP); /* of no operation */
    }
    CHECK(is_read_of_freed(&flying[9], 3));
    CHECK(put_word(&org) == LAPI_SUCCESS && num_flying == 17 && org.value == 16);
    CHECK(la.requests.num_free == LA_NUM_REQS - 1 && peer->queued);
    CHECK(put_word(&org) == LAPI_SUCCESS && la.requests.num_free == LA_NUM_REQS - 2);
    played_words(TO)->freed[3] = 1;
    finish(9, UTOFU_SUCCESS);
    CHECK(peer->lane_freed == 1 && peer->lane_used == 17 && org.value == 17);
    CHECK(flying[16].kind == PUT && flying[16].rmt == la_slot_stadd(id_of(TO), 48));
    played_words(TO)->freed[3] = 17;
    settle();
    CHECK(peer->lane_used == 18 && org.value == 18 && !peer->queued);
    CHECK(la.requests.num_free == LA_NUM_REQS);
    peer->lane_freed = 17; /* an old value does not count */
    played_words(TO)->freed[3] = 5;
    la_slots_read_freed(peer);
    settle();
    CHECK(peer->lane_freed == 17);
    la_slots_read_freed(peer);
    finish(0, UTOFU_ERR_MRQ_OTHER);
    CHECK(!peer->freed_read_pending && peer->lane_freed == 17);
    peer->gone = true;
    la_slots_read_freed(peer);
    CHECK(num_flying == 0);
    peer->gone = false;
    end();
}

static void tickets_of_the_shared_lane(void)
{
    lapi_cntr_t org = {0};

    begin(); /* the last private lane needs none */
    played_words(TO)->lanes_requested = LA_PRIVATE_LANES - 1;
    CHECK(connect_to(TO)->lane == LA_PRIVATE_LANES - 1);
    CHECK(put_word(&org) == LAPI_SUCCESS && org.value == 1 && num_flying == 1);
    CHECK(flying[0].rmt == la_slot_stadd(id_of(TO), (LA_PRIVATE_LANES - 1) * LA_LANE_SLOTS));
    CHECK(flying[0].edata == LA_EDATA_NO_OP);
    end();
    setenv("LAPI_LANES", "5", 1); /* nor the last of fewer */
    for (uint64_t lane = 4; lane <= 5; lane++) {
        begin();
        played_words(TO)->lanes_requested = lane;
        CHECK(connect_to(TO)->lane == (lane == 4 ? 4 : LA_PRIVATE_LANES));
        end();
    }
    unsetenv("LAPI_LANES");
    org.value = 0;
    begin();
    played_words(TO)->lanes_requested = 32;
    played_words(TO)->next_ticket = 1000;
    played_words(TO)->freed[32] = 0;
    struct la_peer *peer = connect_to(TO);
    CHECK(peer->lane == LA_PRIVATE_LANES && played_words(TO)->lanes_requested == 33);
    CHECK(put_word(&org) == LAPI_SUCCESS && org.value == 0); /* ticket 1000: not yet */
    CHECK(num_flying == 1 && is_read_of_freed(&flying[0], 32) && peer->has_ticket);
    played_words(TO)->freed[32] = 936; /* 64 slots: 1000 is the first behind */
    finish(0, UTOFU_SUCCESS);
    CHECK(peer->lane_freed == 936 && org.value == 0 && peer->has_ticket);
    played_words(TO)->freed[32] = 937;
    finish(0, UTOFU_SUCCESS);
    CHECK(org.value == 1 && !peer->has_ticket && played_words(TO)->next_ticket == 1001);
    int at = flying[0].kind == PUT ? 0 : 1;
    CHECK(flying[at].rmt == la_slot_stadd(id_of(TO), 512 + 1000 % 64));
    CHECK(flying[at].size == LA_CACHE_LINE && flying[at].flags == ((unsigned long)RECORD | LOCAL));
    finish(at, UTOFU_SUCCESS);
    CHECK(slot_at(TO, 512 + 1000 % 64)->seq == 0);
    played_words(TO)->freed[32] = peer->lane_used;
    end();
}

/* Buffers of inline records are free again when the TCQ says so, every sixteenth. */
static void inline_buffers_run_out(void)
{
    begin();
    struct la_peer *peer = connect_to(TO);
    peer->lane_freed = peer->lane_used + 1000;
    for (int i = 1; i <= 64; i++) {
        peer->lane_freed = peer->lane_used;
        CHECK(put_word(NULL) == LAPI_SUCCESS && num_flying == i && flying[i - 1].size == 64);
        CHECK(flying[i - 1].edata == LA_EDATA_NO_OP);
        CHECK(((flying[i - 1].flags & UTOFU_ONESIDED_FLAG_TCQ_NOTICE) != 0) == (i % 16 == 0));
        CHECK((flying[i - 1].cbdata != NULL) == (i % 16 == 0));
        CHECK(flying[i - 1].lcl ==
              la.net.port.bounce_stadd + LA_NUM_OPS * LA_SLOT_SIZE + (uint64_t)(i - 1) * 64);
    }
    peer->lane_freed = peer->lane_used;
    CHECK(put_word(NULL) == LAPI_SUCCESS && num_flying == 65);
    CHECK(flying[64].edata != LA_EDATA_NO_OP); /* an op instead */
    for (int i = 0; i < 16; i++)
        end_flying(0, UTOFU_SUCCESS);
    CHECK(num_sent == 1 && la_inline_alloc() == la.net.inline_buffers[0] && num_sent == 0);
    CHECK(la.net.inline_sent == 16 && la.net.inline_posted == 64);
    peer->lane_freed = peer->lane_used;
    settle();
    CHECK(la.net.inline_sent == 64);
    end();
}

/* Long messages of 1 to n fragments: requests without a place in the TOQ wait for it. */
static void full_queues_are_waited_for(void)
{
    lapi_cntr_t org = {0};

    begin();
    struct la_peer *peer = connect_to(TO);
    num_tcq_polls = 0;
    busy_starts = 5;
    CHECK(put_word(&org) == LAPI_SUCCESS && busy_starts == 0 && num_flying == 1);
    CHECK(num_tcq_polls >= 5 && org.value == 1 && lines == 0);
    busy_starts = 5;
    CHECK(LAPI_Put(handle, TO, 100, (void *)0x1000, data, NULL, &org, NULL) == LAPI_SUCCESS);
    CHECK(busy_starts == 0 && num_flying == 2 && org.value == 2);
    settle();
    free_slots(peer);
    struct la_record rec = {.rank = TO, .vcq_id = id_of(TO), .req_index = 5};
    busy_starts = 3;
    la_lock();
    la_send_reply(&rec, LA_WANTS_FIN, 77);
    la_send_reply(&rec, LA_WANTS_CMPL, 78);
    la_unlock();
    CHECK(busy_starts == 0 && num_flying == 2 && flying[0].value == 77 && flying[1].value == 78);
    CHECK(flying[0].rmt == la_reply_stadd(id_of(TO), 5, 0) &&
          flying[1].rmt == la_reply_stadd(id_of(TO), 5, 8));
    CHECK(flying[0].flags == UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE);
    settle();
    peer->gone = true;
    la_send_reply(&rec, LA_WANTS_FIN, 77);
    CHECK(num_flying == 0);
    peer->gone = false;
    end();
}

/*
 * Gets and atomics
 */

static void gets_bring_bytes(void)
{
    static const unsigned int sizes[] = {0, 1, 8, 111, 112, 113};
    uint8_t *to = data + 8192;

    begin();
    struct la_peer *peer = connect_to(TO);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        lapi_cntr_t org = {0};
        uint64_t slot = peer->lane_used % LA_LANE_SLOTS;
        memset(to, 0, 256);
        CHECK(LAPI_Get(handle, TO, sizes[i], (void *)0x1000, to, NULL, &org) == LAPI_SUCCESS);
        CHECK(num_flying == 1 && flying[0].size == 72 && org.value == 0);
        finish(0, UTOFU_SUCCESS);
        const struct la_record *rec = slot_at(TO, slot);
        CHECK(rec->kind == LA_GET && rec->flags == LA_WANTS_FIN && rec->total_len == sizes[i]);
        CHECK(rec->data_len == 0 && rec->tgt_addr == 0x1000);
        struct la_reply_area *reply = &la.control.replies[rec->req_index];
        if (sizes[i] == 0 || sizes[i] > 112) { /* the target has put the data */
            CHECK((num_regions() == 3) == (sizes[i] > 112));
            CHECK(rec->org_stadd == (sizes[i] > 112 ? (uintptr_t)to : 0));
            reply->fin = 0;
            put_arrives(&reply->fin + 1);
        } else {
            fill(reply->get_data, sizes[i], 3);
            if (sizes[i] > 1) { /* of another length: not for this request */
                put_arrives(reply->get_data + sizes[i] - 1);
                progress();
                CHECK(org.value == 0);
            }
            put_arrives(reply->get_data + sizes[i]);
        }
        progress();
        CHECK(org.value == 1 && num_regions() == 2 && la.requests.num_free == LA_NUM_REQS);
        CHECK(sizes[i] > 112 || (is_filled(to, sizes[i], 3) && to[sizes[i]] == 0));
        free_slots(peer);
    }
    end();
}

static void atomics_bring_old_values(void)
{
    int in[2] = {5, 6}, prev = 0;
    long long in64[2] = {1ll << 40, 1ll << 41}, prev64 = 0;
    lapi_cntr_t org = {0};

    begin();
    struct la_peer *peer = connect_to(TO);
    for (int op = FETCH_AND_ADD; op < LAPI_RMW_END; op++) {
        for (int wide = 0; wide < 2; wide++) {
            uint64_t slot = peer->lane_used % LA_LANE_SLOTS;
            CHECK((wide ? LAPI_Rmw64(handle, (RMW_ops_t)op, TO, (long long *)0x1000, in64, &prev64,
                                     &org)
                        : LAPI_Rmw(handle, (RMW_ops_t)op, TO, (int *)0x1004, in, &prev, &org)) ==
                  LAPI_SUCCESS);
            settle();
            const struct la_record *rec = slot_at(TO, slot);
            CHECK(rec->kind == (wide ? LA_RMW64 : LA_RMW) && rec->rmw_op == op);
            CHECK(rec->tgt_addr == (wide ? 0x1000u : 0x1004u));
            CHECK(rec->operand == (wide ? (uint64_t)in64[op == COMPARE_AND_SWAP]
                                        : (uint64_t)in[op == COMPARE_AND_SWAP]));
            CHECK(rec->compare == (wide ? (uint64_t)in64[0] : (uint64_t)in[0]));
            struct la_reply_area *reply = &la.control.replies[rec->req_index];
            reply->fin = wide ? 1ull << 50 : 12345; /* no error, but the old value */
            put_arrives(&reply->fin + 1);
            progress();
            CHECK(wide ? prev64 == 1ll << 50 : prev == 12345);
            CHECK(num_errors == 0 && la.requests.num_free == LA_NUM_REQS);
            free_slots(peer);
        }
    }
    CHECK(org.value == 8);
    end();
}

/*
 * Records that arrive
 */

static struct la_record *own_slot(uint32_t slot)
{
    return (struct la_record *)la.control.inbox[slot];
}

static int num_header_calls, num_handler_calls;
static void *header_returns, *header_uhdr, *header_data;
static uint header_uhdr_len, header_src;
static ulong header_len;
static lapi_ret_flags_t header_ret = LAPI_SEND_REPLY;
static lapi_ctl_t header_ctl;
static compl_hndlr_t *header_handler;

static void note_handler(lapi_handle_t *hndl, void *arg)
{
    CHECK(*hndl == handle && arg == &num_handler_calls);
    num_handler_calls++;
}

static void *note_header(lapi_handle_t *hndl, void *uhdr, uint *uhdr_len, ulong *msg_len,
                         compl_hndlr_t **handler, void **arg)
{
    lapi_return_info_t *in = (lapi_return_info_t *)msg_len;

    CHECK(*hndl == handle && la.dispatching);
    num_header_calls++;
    header_uhdr = uhdr;
    header_uhdr_len = *uhdr_len;
    header_len = *msg_len;
    header_src = in->src;
    header_data = in->udata_one_pkt_ptr;
    in->ret_flags = header_ret;
    in->ctl_flags = header_ctl;
    *handler = header_handler;
    *arg = &num_handler_calls;
    return header_returns;
}

/* The next record of the first private lane, whose notice comes, too. */
static uint64_t next_record;

static void receive(const struct la_record *rec, const void *behind, size_t size)
{
    size_t header = rec->flags & LA_INLINE              ? LA_INLINE_HEADER_SIZE
                    : rec->flags & LA_LONG_HEADER_FLAGS ? LA_LONG_HEADER_SIZE
                                                        : LA_SHORT_HEADER_SIZE;
    uint8_t *slot = (uint8_t *)own_slot((uint32_t)(next_record % LA_LANE_SLOTS));

    memcpy(slot, rec, sizeof(*rec));
    if (size > 0)
        memcpy(slot + header, behind, size);
    ((struct la_record *)slot)->seq = rec->flags & LA_INLINE ? next_record + 1 : 0;
    put_arrives(rec->flags & LA_INLINE ? slot + 64 : slot + header + size);
    next_record++;
    progress();
}

static void begin_receiving(void)
{
    begin();
    next_record = 0;
    la.control.words->lanes_requested = 1;
    num_header_calls = num_handler_calls = 0;
    header_returns = NULL;
    header_handler = NULL;
    header_ret = LAPI_SEND_REPLY;
    header_ctl = LAPI_CTL_NONE;
    CHECK(LAPI_Addr_set(handle, (void *)(uintptr_t)note_header, 7) == LAPI_SUCCESS);
}

static const struct la_record good = {
    .kind = LA_PUT, .rank = TO, .data_len = 8, .req_index = LA_NUM_REQS - 1};

#define BAD(...)                                                                                   \
    {                                                                                              \
        __VA_ARGS__, false                                                                         \
    }
#define FINE(...)                                                                                  \
    {                                                                                              \
        __VA_ARGS__, true                                                                          \
    }
enum { FIN = LA_WANTS_FIN, CMPL = LA_WANTS_CMPL, FETCH = LA_WANTS_FIN | LA_RENDEZVOUS };
static const struct record_case {
    uint8_t kind, flags;
    uint16_t uhdr_len, rmw_op;
    uint32_t rank, data_len, req;
    uint64_t total_len, list_size, tgt_addr;
    bool good;
} record_cases[] = {
    FINE(LA_AM, 0, 0, 0, 4, 0, 1023, 0, 0, 8),
    BAD(0, 0, 0, 0, 4, 0, 1023, 0, 0, 8),
    BAD(LA_LAST_KIND + 1, FIN, 0, 0, 4, 0, 1023, 0, 0, 8),
    BAD(LA_AM, 0, 0, 0, 5, 0, 0, 0, 0, 8),
    BAD(LA_AM, 0, 0, 0, 4, 0, 1024, 0, 0, 8),
    FINE(LA_AM, 0, 1408, 0, 4, 0, 0, 0, 0, 8),
    BAD(LA_AM, 0, 1409, 0, 4, 0, 0, 0, 0, 8),
    FINE(LA_PUT, 0, 0, 0, 4, 1984, 0, 0, 0, 8),
    BAD(LA_PUT, 0, 0, 0, 4, 1985, 0, 0, 0, 8),
    FINE(LA_PUT, 0, 1, 0, 4, 1976, 0, 0, 0, 8),
    BAD(LA_PUT, 0, 1, 0, 4, 1977, 0, 0, 0, 8),
    FINE(LA_PUT, CMPL, 0, 0, 4, 1976, 0, 1976, 0, 8),
    BAD(LA_PUT, CMPL, 0, 0, 4, 1977, 0, 1977, 0, 8),
    BAD(LA_PUT, 0, 0, 0, 4, 2049, 0, 0, 0, 8),
    BAD(LA_PUT, 0, 0, 0, 4, UINT32_MAX - 1000, 0, 0, 0, 8),
    FINE(LA_PUT, LA_INLINE, 0, 0, 4, 24, 0, 0, 0, 8),
    BAD(LA_PUT, LA_INLINE, 0, 0, 4, 25, 0, 0, 0, 8),
    BAD(LA_PUT, LA_INLINE | FIN, 0, 0, 4, 8, 0, 8, 0, 8),
    BAD(LA_PUT, LA_INLINE | CMPL, 0, 0, 4, 8, 0, 8, 0, 8),
    BAD(LA_PUT, LA_VECTOR, 0, 0, 4, 8, 0, 8, 0, 8),
    FINE(LA_AM, LA_VECTOR, 0, 0, 4, 8, 0, 8, 0, 8),
    BAD(LA_PUT, LA_ASSIST, 0, 0, 4, 8, 0, 8, 0, 8),
    BAD(LA_PUT, LA_ASSIST | FIN, 0, 0, 4, 8, 0, 8, 0, 8),
    FINE(LA_PUT, LA_ASSIST | FETCH, 0, 0, 4, 0, 0, 8, 0, 8),
    FINE(LA_AM, LA_ASSIST | FETCH, 0, 0, 4, 0, 0, 8, 0, 8),
    BAD(LA_GET, LA_ASSIST | FETCH, 0, 0, 4, 0, 0, 8, 0, 8),
    BAD(LA_PUTV, LA_ASSIST | FETCH, 0, 0, 4, 0, 0, 16, 16, 8),
    BAD(LA_PUT, 64, 0, 0, 4, 8, 0, 8, 0, 8),
    BAD(LA_PUT, LA_RENDEZVOUS, 0, 0, 4, 0, 0, 8, 0, 8),
    BAD(LA_GET, FETCH, 0, 0, 4, 0, 0, 8, 0, 8),
    BAD(LA_RMW, FETCH, 0, 0, 4, 0, 0, 8, 0, 8),
    BAD(LA_RMW64, FETCH, 0, 0, 4, 0, 0, 8, 0, 8),
    BAD(LA_GET, 0, 0, 0, 4, 0, 0, 8, 0, 8),
    BAD(LA_GET, CMPL, 0, 0, 4, 0, 0, 8, 0, 8),
    FINE(LA_GET, FIN, 0, 0, 4, 0, 0, 8, 0, 8),
    FINE(LA_GET, FIN, 0, 0, 4, 0, 0, LAPI_MAX_MSG_SZ, 0, 8),
    BAD(LA_GET, FIN, 0, 0, 4, 0, 0, LAPI_MAX_MSG_SZ + 1, 0, 8),
    FINE(LA_RMW, FIN, 0, 3, 4, 0, 0, UINT64_MAX, 0, 4),
    BAD(LA_RMW, FIN, 0, 4, 4, 0, 0, 0, 0, 4),
    BAD(LA_RMW, FIN, 0, 0, 4, 0, 0, 0, 0, 0),
    BAD(LA_RMW, FIN, 0, 0, 4, 0, 0, 0, 0, 2),
    BAD(LA_RMW, 0, 0, 0, 4, 0, 0, 0, 0, 4),
    FINE(LA_RMW64, FIN, 0, 0, 4, 0, 0, UINT64_MAX, 0, 8),
    BAD(LA_RMW64, FIN, 0, 0, 4, 0, 0, 0, 0, 4),
    FINE(LA_PUTV, FIN, 0, 0, 4, 24, 0, 24, 16, 8),
    BAD(LA_PUTV, CMPL, 0, 0, 4, 24, 0, 24, 16, 8),
    BAD(LA_PUTV, FIN, 0, 0, 4, 24, 0, 24, 17, 8),
    FINE(LA_PUTV, FIN, 0, 0, 4, 16, 0, 16, 16, 8),
    BAD(LA_PUTV, FIN, 0, 0, 4, 16, 0, 15, 16, 8),
    BAD(LA_PUTV, FIN, 0, 0, 4, 15, 0, 16, 16, 8),
    FINE(LA_PUTV, FETCH, 0, 0, 4, 0, 0, 16, 16, 8),
    BAD(LA_GETV, FIN, 0, 0, 4, 8, 0, 24, 16, 8),
    FINE(LA_GETV, FIN, 0, 0, 4, 16, 0, 24, 16, 8),
};

static void records_are_checked(void)
{
    begin();
    for (size_t i = 0; i < sizeof(record_cases) / sizeof(record_cases[0]); i++) {
        const struct record_case *c = &record_cases[i];
        struct la_record rec = {.kind = c->kind,
                                .flags = c->flags,
                                .uhdr_len = c->uhdr_len,
                                .rmw_op = c->rmw_op,
                                .rank = c->rank,
                                .data_len = c->data_len,
                                .req_index = (uint16_t)c->req,
                                .total_len = c->total_len,
                                .list_size = c->list_size,
                                .tgt_addr = c->tgt_addr};
        if (la_record_is_valid(&rec) != c->good)
            printf("record %zu\n", i);
        CHECK(la_record_is_valid(&rec) == c->good);
    }
    end();
    begin_receiving();
    struct la_record rec = good;
    rec.rank = PROCS;
    rec.tgt_addr = (uintptr_t)data;
    memset(data, 1, 8);
    receive(&rec, &rec, 8);
    CHECK(lines == 1 && strstr(line, "dropped an invalid record") && data[0] == 1);
    CHECK(la.control.words->freed[0] == 1);
    end();
}

/* Data and headers that are in the record. */
static void short_messages_arrive(void)
{
    uint8_t behind[256];
    lapi_cntr_t tgt = {0};

    begin_receiving();
    fill(behind, sizeof(behind), 5);
    for (int is_short = 0; is_short < 2; is_short++) {
        uint8_t flags = is_short ? LA_INLINE : 0;
        struct la_record put = {.kind = LA_PUT,
                                .flags = flags,
                                .rank = TO,
                                .tgt_addr = (uintptr_t)data,
                                .tgt_cntr = (uintptr_t)&tgt,
                                .data_len = 24};
        memset(data, 0, 64);
        receive(&put, behind, 24);
        CHECK(is_filled(data, 24, 5) && data[24] == 0 && tgt.value == 1 && num_flying == 0);
        struct la_record am = {.kind = LA_AM,
                               .flags = flags,
                               .uhdr_len = 4,
                               .rank = TO,
                               .tgt_addr = 7,
                               .tgt_cntr = (uintptr_t)&tgt,
                               .data_len = 16};
        header_returns = data + 100;
        memset(data, 0, 200);
        receive(&am, behind, 24);
        CHECK(num_header_calls == 1 && header_uhdr_len == 4 && header_len == 16);
        CHECK(header_src == TO && is_filled(header_uhdr, 4, 5) && header_data != NULL);
        CHECK(memcmp(data + 100, behind + 8, 16) == 0 && data[116] == 0 && tgt.value == 2);
        header_ctl = LAPI_BURY_MSG; /* the header handler has them already */
        memset(data, 0, 200);
        receive(&am, behind, 24);
        CHECK(data[100] == 0 && tgt.value == 3);
        header_ctl = LAPI_CTL_NONE;
        header_returns = NULL;
        receive(&am, behind, 24);
        CHECK(data[100] == 0 && tgt.value == 4 && num_errors == 0);
        am.uhdr_len = 0;
        am.data_len = 0;
        receive(&am, behind, 0);
        CHECK(header_uhdr == NULL && header_data == NULL && header_len == 0 && tgt.value == 5);
        header_handler = note_handler; /* inline */
        receive(&am, behind, 0);
        CHECK(num_handler_calls == 1 && tgt.value == 6 && !la_incoming_in_use());
        header_ret = LAPI_NORMAL; /* in its thread */
        receive(&am, behind, 0);
        CHECK(num_handler_calls == 1 && tgt.value == 6 && la_incoming_in_use());
        CHECK(la_cmpl_thread_is_busy());
        run_handlers();
        CHECK(num_handler_calls == 2 && tgt.value == 7 && !la_incoming_in_use());
        CHECK(!la_cmpl_thread_is_busy());
        header_handler = NULL;
        header_ret = LAPI_SEND_REPLY;
        tgt.value = num_header_calls = num_handler_calls = 0;
    }
    end();
}

static bool is_reply(const struct flying *f, uint32_t req, uint32_t offset, uint64_t value)
{
    return f->kind == WORD && f->size == 8 && f->value == value && f->id == id_of(TO) &&
           f->rmt == la_reply_stadd(id_of(TO), req, offset);
}

static void messages_without_a_handler_are_refused(void)
{
    struct la_record am = {
        .kind = LA_AM, .rank = TO, .tgt_addr = 8, .req_index = 3, .vcq_id = id_of(TO)};

    begin_receiving();
    for (int kind = 0; kind < 4; kind++) {
        am.flags = (uint8_t[]){0, CMPL, FIN, FIN | CMPL}[kind];
        forget();
        num_errors = 0;
        receive(&am, NULL, 0);
        CHECK(lines == 1 && strstr(line, "header handler that is not set") && num_errors == 1);
        CHECK(last_error == LAPI_ERR_HDR_HNDLR_NULL && last_source == TO);
        CHECK(num_flying == (am.flags != 0));
        if (num_flying)
            CHECK(is_reply(&flying[0], 3, am.flags & FIN ? 0 : 8, LAPI_ERR_HDR_HNDLR_NULL));
        settle();
    }
    am.tgt_addr = (uintptr_t)data; /* no function */
    receive(&am, NULL, 0);
    CHECK(num_errors == 2 && num_header_calls == 0);
    settle();
    am.tgt_addr = 7;
    am.flags = FETCH;
    am.total_len = 3000;
    receive(&am, NULL, 0);
    CHECK(num_header_calls == 1 && last_error == LAPI_ERR_TGT_ADDR_NULL && num_flying == 1);
    CHECK(is_reply(&flying[0], 3, 0, LAPI_ERR_TGT_ADDR_NULL) && !la_incoming_in_use());
    settle();
    am.flags = FIN | CMPL; /* in the record: both replies */
    am.total_len = am.data_len = 8;
    receive(&am, data, 8);
    CHECK(num_flying == 2 && is_reply(&flying[0], 3, 0, 0) && is_reply(&flying[1], 3, 8, 0));
    end();
}

static void atomics_are_executed(void)
{
    static const uint64_t wanted[] = {0x10 + 0x21, 0x10 | 0x21, 0x21, 0x10};
    uint64_t word;

    begin_receiving();
    for (int wide = 0; wide < 2; wide++) {
        for (uint16_t op = 0; op < LAPI_RMW_END + 1; op++) {
            bool equal = op == LAPI_RMW_END; /* compare and swap, again */
            struct la_record rec = {.kind = wide ? LA_RMW64 : LA_RMW,
                                    .flags = FIN,
                                    .rank = TO,
                                    .vcq_id = id_of(TO),
                                    .req_index = 9,
                                    .rmw_op = equal ? COMPARE_AND_SWAP : op,
                                    .tgt_addr = (uintptr_t)&word,
                                    .operand = 0x21,
                                    .compare = equal ? 0x10 : 0x11};
            word = 0xf0000000010;
            if (wide) {
                word = 0x10;
            }
            receive(&rec, NULL, 0);
            CHECK(num_flying == 1 && is_reply(&flying[0], 9, 0, 0x10));
            CHECK(word == (equal ? 0x21 : wanted[op]) + (wide ? 0 : 0xf0000000000));
            settle();
        }
    }
    end();
}

static void short_gets_are_answered(void)
{
    struct la_record rec = {
        .kind = LA_GET, .flags = FIN, .rank = TO, .vcq_id = id_of(TO), .req_index = 4};
    lapi_cntr_t tgt = {0};

    begin_receiving();
    rec.tgt_addr = (uintptr_t)data;
    rec.tgt_cntr = (uintptr_t)&tgt;
    fill(data, 256, 6);
    receive(&rec, NULL, 0);
    CHECK(num_flying == 1 && is_reply(&flying[0], 4, 0, 0) && tgt.value == 1);
    settle();
    for (uint64_t size = 1; size <= 113; size += 28) {
        rec.total_len = size;
        receive(&rec, NULL, 0);
        CHECK(num_flying == 1 && flying[0].kind == PUT && flying[0].size == size);
        CHECK(size > 112 ? flying[0].rmt == rec.org_stadd
                         : flying[0].rmt == la_reply_stadd(id_of(TO), 4, 16));
        CHECK(size > 112 ||
              flying[0].flags == ((unsigned long)UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE | LOCAL));
        CHECK(is_filled((void *)(uintptr_t)flying[0].lcl, size, 6));
        CHECK(la_incoming_in_use() == (size > 112));
        settle();
        rec.org_stadd = stadd_of(TO, STAG_DATA);
    }
    CHECK(tgt.value == 6);
    end();
}

/*
 * Data that are fetched
 */

static struct la_record large(uint8_t kind, uint64_t size)
{
    return (struct la_record){.kind = kind,
                              .flags = kind == LA_GET ? FIN : FETCH,
                              .rank = TO,
                              .vcq_id = id_of(TO),
                              .req_index = 6,
                              .tgt_addr = (uintptr_t)data,
                              .total_len = size,
                              .org_stadd = stadd_of(TO, STAG_DATA)};
}

/* In fragments of 4 MiB, of which four are in flight. */
static void large_messages_go_in_fragments(void)
{
    enum { MIB = 1 << 20 };
    static const uint64_t sizes[] = {113, 4 * MIB, 4 * MIB + 1, 16 * MIB, 18 * MIB + 5};

    begin_receiving();
    for (int get = 0; get < 2; get++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            uint64_t size = sizes[i], fragments = (size + 4 * MIB - 1) / (4 * MIB), at = 0;
            uint8_t *from = get ? data : played_data, *to = get ? played_data : data;
            struct la_record rec = large(get ? LA_GET : LA_PUT, size);
            fill(from, size, (unsigned int)i);
            memset(to, 0, size + 1);
            receive(&rec, NULL, 0);
            CHECK(num_flying == (fragments < 4 ? (int)fragments : 4) && num_regions() == 3);
            for (uint64_t n = 0; n < fragments; n++) {
                CHECK(flying[0].kind == (get ? PUT : GET) &&
                      flying[0].flags == (unsigned long)LOCAL);
                CHECK(flying[0].rmt == rec.org_stadd + at && flying[0].lcl == (uintptr_t)data + at);
                CHECK(flying[0].size == (size - at < 4 * MIB ? size - at : 4 * MIB));
                CHECK(la_incoming_in_use());
                at += flying[0].size;
                finish(0, UTOFU_SUCCESS);
            }
            CHECK(at == size && is_filled(to, size, (unsigned int)i) && to[size] == 0);
            CHECK(num_flying == 1 && is_reply(&flying[0], 6, 0, 0) && num_regions() == 2);
            CHECK(!la_incoming_in_use() && num_errors == 0);
            settle();
        }
    }
    end();
}

static void fragments_fail(void)
{
    begin_receiving();
    struct la_record rec = large(LA_PUT, 9 << 20);
    receive(&rec, NULL, 0);
    CHECK(num_flying == 3);
    finish(1, UTOFU_ERR_MRQ_RMT_STADD);
    CHECK(num_flying == 2 && lines == 1 && strstr(line, "cannot transfer 9437184 bytes"));
    finish(0, UTOFU_ERR_MRQ_OTHER);
    CHECK(lines == 1 && num_errors == 0);
    finish(0, UTOFU_SUCCESS);
    CHECK(num_errors == 1 && last_error == LAPI_ERR_TGT_ADDR && last_source == TO);
    CHECK(num_flying == 1 && is_reply(&flying[0], 6, 0, LAPI_ERR_TGT_ADDR));
    CHECK(!la_incoming_in_use() && num_regions() == 2);
    settle();
    fail_call = 0; /* the memory cannot be registered */
    forget();
    receive(&rec, NULL, 0);
    CHECK(lines == 1 && strstr(line, "cannot register 9437184 bytes") && num_flying == 1);
    CHECK(is_reply(&flying[0], 6, 0, LAPI_ERR_TGT_ADDR) && !la_incoming_in_use());
    settle();
    rec.kind = LA_PUTV;
    rec.list_size = 16;
    fail_memory = 0;
    receive(&rec, NULL, 0);
    CHECK(num_flying == 1 && is_reply(&flying[0], 6, 0, LAPI_ERR_MEMORY_EXHAUSTED));
    settle();
    rec.kind = LA_GETV;
    rec.flags = FIN;
    rec.data_len = 16;
    fail_memory = 0;
    receive(&rec, data, 16);
    CHECK(num_flying == 1 && is_reply(&flying[0], 6, 0, LAPI_ERR_MEMORY_EXHAUSTED));
    CHECK(num_regions() == 2 && !la_incoming_in_use());
    settle();
    rec = large(LA_PUT, 9 << 20);
    forget();
    receive(&rec, NULL, 0);
    finish(0, UTOFU_ERR_MRQ_PEER); /* the origin is gone: no reply, and no line about the bytes */
    CHECK(la_watch_is_gone(TO) && !strstr(all_lines, "cannot transfer"));
    while (num_flying > 0 && flying[0].kind == GET)
        finish(0, UTOFU_ERR_MRQ_PEER);
    CHECK(last_error == LAPI_ERR_TIMEOUT && last_source == TO && !la_incoming_in_use());
    for (int i = 0; i < num_flying; i++)
        CHECK(flying[i].rmt != la_reply_stadd(id_of(TO), 6, 0));
    end();
}

/* One byte of data is stored, too; records that were queued are executed in order. */
static void records_are_executed_in_order(void)
{
    enum { MANY = 40 };
    uint8_t values[MANY] = {0};
    lapi_cntr_t tgt = {0};

    begin_receiving();
    for (int kind = 0; kind < 2; kind++) {
        struct la_record rec = good;
        rec.kind = kind ? LA_AM : LA_PUT;
        rec.tgt_addr = kind ? 7 : (uintptr_t)data;
        rec.data_len = 1;
        header_returns = data;
        data[0] = 0;
        receive(&rec, "x", 1);
        CHECK(data[0] == 'x');
    }
    for (int round = 0; round < 2; round++) { /* also behind records that wait */
        settle();
        while (round > 0 && la.incoming.used < LA_NUM_INCOMING)
            la_incoming_alloc();
        memset(values, 0, sizeof(values));
        tgt.value = 0;
        for (uint32_t i = 0; i < MANY; i++) {
            struct la_record *at = own_slot(LA_PRIVATE_LANES * LA_LANE_SLOTS + i);
            *at = good;
            at->kind = round > 0 && i % 4 == 0 ? LA_AM : LA_PUT;
            at->tgt_addr = at->kind == LA_AM ? 7 : (uintptr_t)&values[i / 2]; /* two write each */
            at->data_len = 1;
            at->tgt_cntr = (uintptr_t)&tgt;
            *((uint8_t *)at + LA_SHORT_HEADER_SIZE) = (uint8_t)(i + 1);
            put_arrives((uint8_t *)at + LA_SHORT_HEADER_SIZE + 1);
        }
        while (num_notices > 0)
            progress();
        CHECK(tgt.value == (round > 0 ? MANY - MANY / 4 : MANY));
        CHECK(la.dispatch.num_ready == (round > 0 ? MANY / 4 : 0));
        for (int i = 0; i < MANY / 2; i++)
            CHECK(values[i] == 2 * i + 2); /* the later one */
        if (round == 0)
            CHECK(la.control.words->freed[LA_PRIVATE_LANES] == MANY);
    }
    la.incoming.used = 0; /* the test gives back what it has taken */
    for (int i = 0; i < LA_NUM_INCOMING; i++)
        la.incoming.entries[i].used = false;
    progress();
    CHECK(la.dispatch.num_ready == 0 && tgt.value == MANY);
    end();
}

/* Records that have waited are executed in batches, in order; what cannot be executed stays. */
static void queues_go_in_batches(void)
{
    enum { MANY = 56 };
    uint8_t values[MANY / 2] = {0};
    lapi_cntr_t tgt = {0};

    begin_receiving();
    while (la.incoming.used < LA_NUM_INCOMING)
        la_incoming_alloc();
    la.dispatching = true;
    for (uint32_t i = 0; i < MANY; i++) {
        struct la_record *at = own_slot(LA_PRIVATE_LANES * LA_LANE_SLOTS + i);
        *at = good;
        at->kind = i % 4 == 0 ? LA_AM : LA_PUT;
        at->tgt_addr = at->kind == LA_AM ? 7 : (uintptr_t)&values[i / 2];
        at->data_len = 1;
        at->tgt_cntr = (uintptr_t)&tgt;
        *((uint8_t *)at + LA_SHORT_HEADER_SIZE) = (uint8_t)(i + 1);
        put_arrives((uint8_t *)at + LA_SHORT_HEADER_SIZE + 1);
    }
    while (num_notices > 0)
        progress();
    CHECK(la.dispatch.num_ready == MANY && tgt.value == 0);
    la.dispatching = false;
    for (int batch = 1; batch <= 4; batch++) {
        int most = batch < 3 ? 16 * batch : MANY - MANY / 4;
        la_lock();
        CHECK(la_dispatch_run() == (batch < 4));
        la_unlock();
        CHECK(tgt.value == most && la.dispatch.num_ready == (uint32_t)(MANY - most));
    }
    for (int i = 0; i < MANY / 2; i++)
        CHECK(values[i] == 2 * i + 2);
    la.incoming.used = 0; /* the test gives back what it has taken */
    for (int i = 0; i < LA_NUM_INCOMING; i++)
        la.incoming.entries[i].used = false;
    progress();
    CHECK(la.dispatch.num_ready == 0 && tgt.value == MANY && num_header_calls == MANY / 4);
    end();
}

/* Records that are found in memory are checked, too. */
static void records_in_memory_are_checked(void)
{
    static const struct la_record bad[] = {
        {.kind = 0, .flags = LA_INLINE, .rank = TO, .data_len = 8},
        {.kind = LA_LAST_KIND + 1, .flags = LA_INLINE, .rank = TO, .data_len = 8},
        {.kind = LA_PUT, .flags = LA_INLINE, .rank = PROCS, .data_len = 8},
        {.kind = LA_PUT, .flags = LA_INLINE, .rank = TO, .data_len = 25},
        {.kind = LA_PUT, .flags = LA_INLINE, .rank = TO, .data_len = 8, .uhdr_len = 24},
        {.kind = LA_PUT, .flags = LA_INLINE | LA_WANTS_CMPL, .rank = TO, .data_len = 8}};
    enum { NUM_BAD = sizeof(bad) / sizeof(bad[0]) };

    begin_receiving();
    memset(data, 7, 32);
    for (uint32_t i = 0; i <= NUM_BAD; i++) {
        struct la_record *at = own_slot(i);
        *at = i < NUM_BAD ? bad[i] : bad[3];
        at->tgt_addr = (uintptr_t)data;
        if (i == NUM_BAD)
            at->data_len = 24;
        at->seq = i + 1;
        forget();
        progress();
        CHECK((lines == 1) == (i < NUM_BAD) && (data[0] == 7) == (i < NUM_BAD));
        CHECK(i == NUM_BAD || strstr(line, "dropped an invalid record"));
        put_arrives((uint8_t *)at + 64);
    }
    CHECK(la.control.words->freed[0] == NUM_BAD + 1);
    end();
}

/* Of notices only those of puts tell of records. Each lane counts its own slots. */
static void notices_and_lanes(void)
{
    static const uint32_t slots[] = {0, 16, 496, 512}, lanes[] = {0, 1, 31, 32};
    lapi_cntr_t tgt = {0};

    begin_receiving();
    for (int i = 0; i < 4; i++) {
        struct la_record *at = own_slot(slots[i]);
        *at = good;
        at->tgt_addr = (uintptr_t)data;
        at->tgt_cntr = (uintptr_t)&tgt;
        const uint8_t *behind = (uint8_t *)at + LA_SHORT_HEADER_SIZE + 8;
        add_notice(UTOFU_SUCCESS, (struct utofu_mrq_notice){.notice_type = UTOFU_MRQ_TYPE_RMT_GET,
                                                            .rmt_stadd = (uintptr_t)behind});
        add_notice(UTOFU_SUCCESS, (struct utofu_mrq_notice){.notice_type = UTOFU_MRQ_TYPE_RMT_ARMW,
                                                            .rmt_stadd = (uintptr_t)behind});
        add_notice(UTOFU_ERR_MRQ_OTHER,
                   (struct utofu_mrq_notice){.notice_type = UTOFU_MRQ_TYPE_RMT_PUT,
                                             .rmt_stadd = (uintptr_t)behind});
        progress();
        CHECK(tgt.value == i && num_notices == 0);
        put_arrives(behind);
        progress();
        CHECK(tgt.value == i + 1 && la.control.words->freed[lanes[i]] == 1);
    }
    end();
}

/* Vectors: a list of segments, then the data. */
static void vectors_arrive(void)
{
    struct la_segment list[2] = {{(uintptr_t)data + 100, 30}, {(uintptr_t)data + 10, 20}};
    uint8_t behind[32 + 50];

    begin_receiving();
    for (int fetched = 0; fetched < 2; fetched++) {
        struct la_record rec = large(LA_PUTV, sizeof(behind));
        rec.list_size = 32;
        rec.flags = fetched ? FETCH | CMPL : FIN | CMPL;
        rec.data_len = fetched ? 0 : sizeof(behind);
        memcpy(behind, list, 32);
        fill(behind + 32, 50, 8);
        memcpy(played_data, behind, sizeof(behind));
        memset(data, 0, 256);
        receive(&rec, behind, fetched ? 0 : sizeof(behind));
        if (fetched) {
            CHECK(num_flying == 1 && flying[0].kind == GET && flying[0].size == sizeof(behind));
            finish(0, UTOFU_SUCCESS);
        }
        CHECK(num_flying == 2 && is_reply(&flying[0], 6, 0, 0) && is_reply(&flying[1], 6, 8, 0));
        CHECK(is_filled(data + 100, 30, 8) && memcmp(data + 10, behind + 62, 20) == 0);
        CHECK(data[130] == 0 && data[30] == 0 && !la_incoming_in_use() && num_regions() == 2);
        settle();
        rec.kind = LA_GETV;
        rec.data_len = fetched ? 0 : 32;
        memset(played_data + 32, 0, 100);
        receive(&rec, behind, fetched ? 0 : 32);
        if (fetched) {
            CHECK(num_flying == 1 && flying[0].kind == GET && flying[0].size == 32);
            finish(0, UTOFU_SUCCESS);
        }
        CHECK(num_flying == 1 && flying[0].kind == PUT && flying[0].size == 50);
        CHECK(flying[0].rmt == rec.org_stadd + 32);
        finish(0, UTOFU_SUCCESS);
        CHECK(is_filled(played_data + 32, 50, 8) && played_data[82] == 0);
        CHECK(num_flying == 2 && is_reply(&flying[0], 6, 0, 0) && is_reply(&flying[1], 6, 8, 0));
        CHECK(!la_incoming_in_use() && num_regions() == 2);
        settle();
    }
    void *starts[2] = {data + 100, data + 10}; /* of an active message */
    ulong lengths[2] = {30, 20};
    lapi_vec_t vec = {LAPI_GEN_IOVECTOR, 2, starts, lengths};
    struct la_record am = large(LA_AM, 50);
    am.flags = FETCH | LA_VECTOR;
    am.tgt_addr = 7;
    header_returns = &vec;
    fill(played_data, 50, 8);
    memset(data, 0, 256);
    receive(&am, NULL, 0);
    finish(0, UTOFU_SUCCESS);
    CHECK(is_filled(data + 100, 30, 8) && data[10] != 0 && data[30] == 0);
    end();
}

/*
 * Arguments, and calls of each kind
 */

static struct la_reply_area *own_reply(uint32_t req)
{
    return &la.control.replies[req];
}

/* All tasks have executed what was sent to them. */
static void answer_all(void)
{
    settle();
    for (uint32_t i = 0; i < LA_NUM_REQS; i++) {
        const struct la_req *r = &la.requests.reqs[i];
        if (!r->used)
            continue;
        own_reply(i)->fin = own_reply(i)->cmpl = 0;
        uint8_t flags = r->flags;
        if (flags & LA_WANTS_FIN)
            put_arrives(&own_reply(i)->fin + 1);
        if (flags & LA_WANTS_CMPL)
            put_arrives(&own_reply(i)->cmpl + 1);
    }
    progress();
    struct la_peer *peer = la_peer_find(TO);
    if (peer != NULL)
        free_slots(peer);
    CHECK(la.requests.num_free == LA_NUM_REQS && num_errors == 0);
}

static int am(const void *hdr, void *uhdr, uint uhdr_len, void *from, ulong len)
{
    return LAPI_Amsend(handle, TO, (void *)(uintptr_t)hdr, uhdr, uhdr_len, from, len, NULL, NULL,
                       NULL);
}

static void arguments_are_checked(void)
{
    const ulong most = LAPI_MAX_MSG_SZ;
    void *hdr = (void *)7, *there = (void *)0x1000;
    int in[2] = {1, 2}, prev;
    long long in64 = 1, prev64;

    begin();
    connect_to(TO);
    CHECK(am(NULL, NULL, 0, NULL, 0) == LAPI_ERR_HDR_HNDLR_NULL);
    CHECK(am(hdr, data, 1412, NULL, 0) == LAPI_ERR_UHDR_LEN);
    CHECK(am(hdr, data, 6, NULL, 0) == LAPI_ERR_UHDR_LEN);
    CHECK(am(hdr, NULL, 4, NULL, 0) == LAPI_ERR_UHDR_NULL);
    CHECK(am(hdr, NULL, 0, NULL, most) == LAPI_ERR_ORG_ADDR_NULL);
    CHECK(am(hdr, NULL, 0, NULL, 1) == LAPI_ERR_ORG_ADDR_NULL);
    CHECK(am(hdr, NULL, 0, NULL, most + 1) == LAPI_ERR_DATA_LEN);
    CHECK(am(hdr, data, 1408, NULL, 0) == LAPI_SUCCESS);
    CHECK(am(hdr, NULL, 0, NULL, 0) == LAPI_SUCCESS);
    CHECK(LAPI_Put(handle, TO, most + 1, there, data, NULL, NULL, NULL) == LAPI_ERR_DATA_LEN);
    CHECK(LAPI_Put(handle, TO, most, there, NULL, NULL, NULL, NULL) == LAPI_ERR_ORG_ADDR_NULL);
    CHECK(LAPI_Put(handle, TO, 1, NULL, data, NULL, NULL, NULL) == LAPI_ERR_TGT_ADDR_NULL);
    CHECK(LAPI_Put(handle, TO, 0, NULL, NULL, NULL, NULL, NULL) == LAPI_SUCCESS);
    CHECK(LAPI_Get(handle, TO, most + 1, there, data, NULL, NULL) == LAPI_ERR_DATA_LEN);
    CHECK(LAPI_Get(handle, TO, 1, there, NULL, NULL, NULL) == LAPI_ERR_ORG_ADDR_NULL);
    CHECK(LAPI_Get(handle, TO, 1, NULL, data, NULL, NULL) == LAPI_ERR_TGT_ADDR_NULL);
    CHECK(LAPI_Get(handle, TO, 0, NULL, NULL, NULL, NULL) == LAPI_SUCCESS);
    no_memory = true;
    CHECK(LAPI_Get(handle, TO, 113, there, data, NULL, NULL) == LAPI_ERR_MEMORY_EXHAUSTED);
    CHECK(LAPI_Get(handle, TO, 112, there, data, NULL, NULL) == LAPI_SUCCESS);
    CHECK(LAPI_Put(handle, TO, 4000, there, data, NULL, NULL, NULL) == LAPI_ERR_MEMORY_EXHAUSTED);
    no_memory = false;
    for (int op = -1; op <= LAPI_RMW_END; op++)
        CHECK(LAPI_Rmw(handle, (RMW_ops_t)op, TO, there, in, &prev, NULL) ==
              (op < 0 || op == LAPI_RMW_END ? LAPI_ERR_RMW_OP : LAPI_SUCCESS));
    CHECK(LAPI_Rmw(handle, SWAP, TO, NULL, in, &prev, NULL) == LAPI_ERR_TGT_VAR_NULL);
    CHECK(LAPI_Rmw(handle, SWAP, TO, (int *)0x1002, in, &prev, NULL) == LAPI_ERR_TGT_VAR_ALIGN);
    CHECK(LAPI_Rmw64(handle, SWAP, TO, (long long *)0x1004, &in64, &prev64, NULL) ==
          LAPI_ERR_TGT_VAR_ALIGN);
    CHECK(LAPI_Rmw(handle, SWAP, TO, there, NULL, &prev, NULL) == LAPI_ERR_IN_VAL_NULL);
    CHECK(LAPI_Rmw(handle, SWAP, TO, there, in, NULL, NULL) == LAPI_SUCCESS);
    answer_all();
    CHECK(LAPI_Put(handle + 1, TO, 0, NULL, NULL, NULL, NULL, NULL) == LAPI_ERR_HNDL_INVALID);
    CHECK(la.lock.word == 0);
    end();
}

static const struct la_record *last_record(void)
{
    settle();
    return slot_at(TO, (la_peer_find(TO)->lane_used - 1) % LA_LANE_SLOTS);
}

static lapi_cntr_t cntr;
static int num_sends;

static void note_send(lapi_handle_t *hndl, void *arg, lapi_sh_info_t *in)
{
    CHECK(*hndl == handle && arg == &num_sends && in->src == TO);
    num_sends++;
}

static void active_messages_of_each_kind(void)
{
    begin();
    connect_to(TO);
    CHECK(LAPI_Xfer(handle, NULL) == LAPI_ERR_RET_PTR_NULL);
    lapi_xfer_t x = {.Am = {.tgt = TO}};
    for (int type = -1; type <= LAPI_LAST_XFER; type += LAPI_LAST_XFER + 1) {
        x.Xfer_type = (lapi_xfer_type_t)type;
        CHECK(LAPI_Xfer(handle, &x) == LAPI_ERR_XFER_CMD);
    }
    num_sends = num_handler_calls = 0;
    cntr.value = 0;
    x.Am = (lapi_am_t){.Xfer_type = LAPI_AM_XFER,
                       .tgt = TO,
                       .hdr_hdl = 7,
                       .uhdr = data,
                       .uhdr_len = 4,
                       .udata = data,
                       .udata_len = 9,
                       .shdlr = note_send,
                       .sinfo = &num_sends,
                       .tgt_cntr = 5,
                       .org_cntr = &cntr};
    CHECK(LAPI_Xfer(handle, &x) == LAPI_SUCCESS && num_sends == 1 && cntr.value == 1);
    CHECK(last_record()->kind == LA_AM && last_record()->tgt_cntr == 5 &&
          last_record()->data_len == 9);
    x.Am.hdr_hdl = 0;
    CHECK(LAPI_Xfer(handle, &x) == LAPI_ERR_HDR_HNDLR_NULL && num_sends == 1);
    x.Am = (lapi_am_t){.Xfer_type = LAPI_AM_LW_XFER,
                       .tgt = TO,
                       .hdr_hdl = 7,
                       .uhdr = data,
                       .uhdr_len = 4,
                       .udata = data,
                       .udata_len = 16};
    CHECK(LAPI_Xfer(handle, &x) == LAPI_SUCCESS && num_flying == 1);
    CHECK(flying[0].edata == LA_EDATA_NO_OP && last_record()->flags == LA_INLINE);
    x.Am.udata_len = 1968;
    CHECK(LAPI_Xfer(handle, &x) == LAPI_SUCCESS && last_record()->data_len == 1968);
    x.Am.udata_len = 1969;
    CHECK(LAPI_Xfer(handle, &x) == LAPI_ERR_DATA_LEN);
    x.Am.uhdr_len = 6;
    CHECK(LAPI_Xfer(handle, &x) == LAPI_ERR_UHDR_LEN);
    x.Am.tgt = PROCS;
    CHECK(LAPI_Xfer(handle, &x) == LAPI_ERR_TGT);
    end();
}

static void transfers_of_each_kind(void)
{
    lapi_xfer_t x;

    begin();
    connect_to(TO);
    num_sends = num_handler_calls = cntr.value = 0;
    x.Put = (lapi_put_t){.Xfer_type = LAPI_PUT_XFER,
                         .tgt = TO,
                         .tgt_addr = 0x1000,
                         .org_addr = data,
                         .len = 9,
                         .shdlr = note_send,
                         .sinfo = &num_sends,
                         .org_cntr = &cntr};
    CHECK(LAPI_Xfer(handle, &x) == LAPI_SUCCESS && num_sends == 1 && cntr.value == 1);
    CHECK(last_record()->kind == LA_PUT && last_record()->tgt_addr == 0x1000);
    x.Put.tgt_addr = 0;
    CHECK(LAPI_Xfer(handle, &x) == LAPI_ERR_TGT_ADDR_NULL);
    x.Get = (lapi_get_t){.Xfer_type = LAPI_GET_XFER,
                         .tgt = TO,
                         .tgt_addr = 0x1000,
                         .org_addr = data,
                         .len = 9,
                         .chndlr = note_handler,
                         .cinfo = &num_handler_calls,
                         .org_cntr = &cntr};
    CHECK(LAPI_Xfer(handle, &x) == LAPI_SUCCESS && last_record()->kind == LA_GET);
    CHECK(num_handler_calls == 0);
    answer_all();
    CHECK(num_handler_calls == 1 && cntr.value == 2);
    x.Get.tgt_addr = 0;
    CHECK(LAPI_Xfer(handle, &x) == LAPI_ERR_TGT_ADDR_NULL);
    for (uint size = 31; size <= 65; size++) {
        x.Rmw = (lapi_rmw_t){.Xfer_type = LAPI_RMW_XFER,
                             .op = SWAP,
                             .tgt = TO,
                             .size = size,
                             .tgt_var = 0x1000,
                             .in_val = (long long[]){7},
                             .prev_tgt_val = data,
                             .shdlr = note_send,
                             .sinfo = &num_sends};
        bool fine = size == 32 || size == 64;
        CHECK(LAPI_Xfer(handle, &x) == (fine ? LAPI_SUCCESS : LAPI_ERR_OP_SZ));
        CHECK(!fine || (last_record()->kind == (size == 32 ? LA_RMW : LA_RMW64) &&
                        last_record()->operand == 7));
    }
    x.Rmw.size = 64;
    x.Rmw.tgt_var = 0x1004;
    CHECK(LAPI_Xfer(handle, &x) == LAPI_ERR_TGT_VAR_ALIGN);
    answer_all();
    CHECK(num_sends == 3);
    end();
}

static void transfers_of_handles(void)
{
    lapi_xfer_t x;

    begin();
    connect_to(TO);
    num_sends = num_handler_calls = cntr.value = 0;
    x.HwXfer = (lapi_hwxfer_t){.Xfer_type = LAPI_RDMA_XFER,
                               .tgt = TO,
                               .op = LAPI_RDMA_PUT,
                               .src_pvo = (uintptr_t)data,
                               .tgt_pvo = 0x2000,
                               .src_offset = 5,
                               .tgt_offset = 6,
                               .len = 30,
                               .shdlr = note_send,
                               .sinfo = &num_sends,
                               .org_cntr = &cntr};
    fill(data, 64, 9);
    CHECK(LAPI_Xfer(handle, &x) == LAPI_SUCCESS && num_sends == 1 && cntr.value == 1);
    CHECK(last_record()->kind == LA_PUT && last_record()->tgt_addr == 0x2006);
    CHECK(memcmp((const uint8_t *)last_record() + 64, data + 5, 30) == 0);
    x.HwXfer.op = LAPI_RDMA_GET;
    CHECK(LAPI_Xfer(handle, &x) == LAPI_SUCCESS && last_record()->kind == LA_GET);
    CHECK(la.requests.num_free == LA_NUM_REQS - 1 &&
          la.requests.reqs[last_record()->req_index].result == data + 5);
    answer_all();
    CHECK(num_sends == 2);
    for (lapi_rdma_op_t op = 0; op < 9; op++) {
        x.HwXfer.op = op;
        x.HwXfer.tgt_pvo = x.HwXfer.tgt_offset = 0; /* no address */
        CHECK(LAPI_Xfer(handle, &x) == (op == LAPI_RDMA_PUT || op == LAPI_RDMA_GET
                                            ? LAPI_ERR_TGT_ADDR_NULL
                                            : LAPI_ERR_XFER_CMD));
    }
    end();
}

static void *org_starts[130], *tgt_starts[130];
static ulong org_lengths[130], tgt_lengths[130];
static lapi_vec_t org_vec = {LAPI_GEN_IOVECTOR, 2, org_starts, org_lengths};
static lapi_vec_t tgt_vec = {LAPI_GEN_IOVECTOR, 2, tgt_starts, tgt_lengths};

static void set_vectors(uint num, ulong first, ulong second)
{
    for (uint i = 0; i < num; i++) {
        org_starts[i] = data + 1000 + 100 * i;
        tgt_starts[i] = (void *)(uintptr_t)(0x10000 + 100 * i);
        org_lengths[i] = tgt_lengths[i] = i == 0 ? first : second;
    }
    org_vec.num_vecs = tgt_vec.num_vecs = num;
}

static void vectors_are_sent(void)
{
    begin();
    connect_to(TO);
    set_vectors(2, 30, 20);
    fill(data + 1000, 30, 4);
    fill(data + 1100, 20, 5);
    long before = blocks;
    cntr.value = 0;
    CHECK(LAPI_Putv(handle, TO, &tgt_vec, &org_vec, NULL, &cntr, NULL) == LAPI_SUCCESS);
    const struct la_record *rec = last_record();
    const struct la_segment *list = (const void *)((const uint8_t *)rec + 72);
    CHECK(rec->kind == LA_PUTV && rec->flags == FIN && rec->total_len == 82 &&
          rec->list_size == 32);
    CHECK(list[0].address == 0x10000 && list[0].len == 30 && list[1].address == 0x10064 &&
          list[1].len == 20);
    CHECK(is_filled(list + 2, 30, 4) && is_filled((const uint8_t *)(list + 2) + 30, 20, 5));
    CHECK(blocks == before + 1 && cntr.value == 0);
    answer_all();
    CHECK(blocks == before && cntr.value == 1);
    CHECK(LAPI_Amsendv(handle, TO, (void *)7, data, 4, &org_vec, NULL, &cntr, NULL) ==
          LAPI_SUCCESS);
    rec = last_record();
    CHECK(rec->kind == LA_AM && rec->flags == (FIN | LA_VECTOR) && rec->total_len == 50);
    CHECK(is_filled((const uint8_t *)rec + 80, 30, 4) &&
          is_filled((const uint8_t *)rec + 110, 20, 5));
    answer_all();
    CHECK(blocks == before && cntr.value == 2);
    tgt_starts[1] = (void *)0x20064;
    CHECK(LAPI_Getv(handle, TO, &tgt_vec, &org_vec, NULL, &cntr) == LAPI_SUCCESS);
    rec = last_record();
    list = (const void *)((const uint8_t *)rec + 72);
    CHECK(rec->kind == LA_GETV && rec->flags == FIN && rec->total_len == 82 &&
          rec->list_size == 32);
    CHECK(rec->data_len == 32 && list[1].address == 0x20064 && num_regions() == 3);
    fill((uint8_t *)(uintptr_t)rec->org_stadd + 32, 50, 8); /* the target has put the data */
    memset(data + 1000, 0, 200);
    answer_all();
    CHECK(is_filled(data + 1000, 30, 8) && data[1100] == (uint8_t)(30 * 7 + 8) && data[1120] == 0);
    CHECK(blocks == before && cntr.value == 3 && num_regions() == 2);
    for (uint num = 123; num <= 124; num++) { /* the list is in the record, or is fetched */
        set_vectors(num, 1, 0);
        CHECK(LAPI_Getv(handle, TO, &tgt_vec, &org_vec, NULL, NULL) == LAPI_SUCCESS);
        CHECK(last_record()->flags == (num == 123 ? FIN : FETCH));
        CHECK(last_record()->data_len == (num == 123 ? 123 * 16 : 0));
        answer_all();
    }
    end();
}

static void vectors_are_checked(void)
{
    begin();
    connect_to(TO);
    num_sends = num_handler_calls = cntr.value = 0;
    long before = blocks;
    set_vectors(2, 30, 20);
    for (int kind = 0; kind < 6; kind++) { /* without memory, allocated or registered */
        fail_memory = kind < 3 ? 0 : NONE;
        no_memory = kind >= 3;
        set_vectors(2, kind % 3 == 1 ? 30 : 3000, 20);
        int rc = kind % 3 == 0 ? LAPI_Putv(handle, TO, &tgt_vec, &org_vec, NULL, NULL, NULL)
                 : kind % 3 == 1
                     ? LAPI_Getv(handle, TO, &tgt_vec, &org_vec, NULL, NULL)
                     : LAPI_Amsendv(handle, TO, (void *)7, NULL, 0, &org_vec, NULL, NULL, NULL);
        no_memory = false;
        CHECK(rc == LAPI_ERR_MEMORY_EXHAUSTED && blocks == before && num_flying == 0);
        CHECK(la.requests.num_free == LA_NUM_REQS && fail_memory == NONE);
    }
    CHECK(LAPI_Amsendv(handle, TO, NULL, NULL, 0, &org_vec, NULL, NULL, NULL) ==
          LAPI_ERR_HDR_HNDLR_NULL);
    CHECK(LAPI_Amsendv(handle, TO, (void *)7, NULL, 0, NULL, NULL, NULL, NULL) ==
          LAPI_ERR_ORG_VEC_NULL);
    CHECK(LAPI_Amsendv(handle, PROCS, (void *)7, NULL, 0, &org_vec, NULL, NULL, NULL) ==
          LAPI_ERR_TGT);
    CHECK(LAPI_Putv(handle, PROCS, &tgt_vec, &org_vec, NULL, NULL, NULL) == LAPI_ERR_TGT);
    CHECK(LAPI_Getv(handle, PROCS, &tgt_vec, &org_vec, NULL, NULL) == LAPI_ERR_TGT);
    lapi_vec_t none = org_vec;
    for (int kind = 0; kind < 2; kind++) {
        lapi_vec_t bad = org_vec;
        bad.vec_type = LAPI_LAST_VECTYPE;
        CHECK((kind ? LAPI_Putv(handle, TO, &bad, &org_vec, NULL, NULL, NULL)
                    : LAPI_Putv(handle, TO, &tgt_vec, &bad, NULL, NULL, NULL)) ==
              (kind ? LAPI_ERR_TGT_VEC_TYPE : LAPI_ERR_ORG_VEC_TYPE));
        CHECK((kind ? LAPI_Getv(handle, TO, NULL, &org_vec, NULL, NULL)
                    : LAPI_Getv(handle, TO, &tgt_vec, NULL, NULL, NULL)) ==
              (kind ? LAPI_ERR_TGT_VEC_NULL : LAPI_ERR_ORG_VEC_NULL));
    }
    none.num_vecs = 1;
    none.info = NULL;
    CHECK(LAPI_Putv(handle, TO, &tgt_vec, &none, NULL, NULL, NULL) == LAPI_ERR_ORG_VEC_ADDR);
    none.info = org_vec.info;
    CHECK(LAPI_Putv(handle, TO, &tgt_vec, &none, NULL, NULL, NULL) == LAPI_ERR_VEC_NUM_DIFF);
    CHECK(blocks == before && num_flying == 0);
    set_vectors(2, 30, 20);
    tgt_lengths[1]++;
    CHECK(LAPI_Putv(handle, TO, &tgt_vec, &org_vec, NULL, NULL, NULL) == LAPI_ERR_VEC_LEN_DIFF);
    CHECK(LAPI_Getv(handle, TO, &tgt_vec, &org_vec, NULL, NULL) == LAPI_ERR_VEC_LEN_DIFF);
    end();
}

static void vectors_of_xfer(void)
{
    begin();
    connect_to(TO);
    num_sends = num_handler_calls = cntr.value = 0;
    set_vectors(2, 30, 20);
    lapi_xfer_t x = {.Putv = {.Xfer_type = LAPI_PUTV_XFER,
                              .tgt = TO,
                              .tgt_vec = &tgt_vec,
                              .org_vec = &org_vec,
                              .shdlr = note_send,
                              .sinfo = &num_sends}};
    CHECK(LAPI_Xfer(handle, &x) == LAPI_SUCCESS && last_record()->kind == LA_PUTV);
    x.Getv = (lapi_getv_t){.Xfer_type = LAPI_GETV_XFER,
                           .tgt = TO,
                           .tgt_vec = &tgt_vec,
                           .org_vec = &org_vec,
                           .chndlr = note_handler,
                           .cinfo = &num_handler_calls};
    CHECK(LAPI_Xfer(handle, &x) == LAPI_SUCCESS && last_record()->kind == LA_GETV);
    x.Amv = (lapi_amv_t){.Xfer_type = LAPI_AMV_XFER,
                         .tgt = TO,
                         .hdr_hdl = 7,
                         .org_vec = &org_vec,
                         .shdlr = note_send,
                         .sinfo = &num_sends,
                         .org_cntr = &cntr};
    CHECK(LAPI_Xfer(handle, &x) == LAPI_SUCCESS && (last_record()->flags & LA_VECTOR));
    x.Amv.hdr_hdl = 0;
    CHECK(LAPI_Xfer(handle, &x) == LAPI_ERR_HDR_HNDLR_NULL);
    answer_all();
    CHECK(num_sends == 2 && num_handler_calls == 1 && cntr.value == 1);
    end();
}

/* Who cannot wait has its bytes copied. */
static void waiting_messages_keep_their_bytes(void)
{
    for (int by_handler = 0; by_handler < 3; by_handler++) {
        begin();
        struct la_peer *peer = connect_to(TO);
        peer->lane_used = peer->lane_freed + LA_LANE_SLOTS;
        long before = blocks;
        lapi_xfer_t x = {.Am = {.Xfer_type = by_handler ? LAPI_AM_XFER : LAPI_AM_LW_XFER,
                                .tgt = TO,
                                .hdr_hdl = 7,
                                .uhdr = data,
                                .uhdr_len = 8,
                                .udata = data + 8,
                                .udata_len = 40}};
        fill(data, 48, 6);
        la.dispatching = by_handler == 1;
        if (by_handler != 2)
            fail_memory = 0;
        CHECK(LAPI_Xfer(handle, &x) ==
              (by_handler == 2 ? LAPI_SUCCESS : LAPI_ERR_MEMORY_EXHAUSTED));
        CHECK(by_handler == 2 || (la.requests.num_free == LA_NUM_REQS && blocks == before));
        if (by_handler != 2)
            CHECK(LAPI_Xfer(handle, &x) == LAPI_SUCCESS && blocks == before + 1);
        la.dispatching = false;
        CHECK(la.requests.num_free == LA_NUM_REQS - 1 && peer->queued);
        CHECK(!STAILQ_EMPTY(&peer->handler_queue) == (by_handler == 1));
        memset(data, 0, 48);
        played_words(TO)->freed[0] = peer->lane_used;
        settle();
        const uint8_t *rec = (const uint8_t *)last_record();
        CHECK(is_filled(rec + 64, 48, 6) == (by_handler != 2) && blocks == before);
        CHECK(la.requests.num_free == LA_NUM_REQS && !peer->queued);
        answer_all();
        end();
    }
}

/* Messages of handlers go first; in a queue each behind the other. */
static void handlers_send_first(void)
{
    uint64_t order[4];

    begin();
    struct la_peer *peer = connect_to(TO);
    peer->lane_used = peer->lane_freed + LA_LANE_SLOTS;
    for (uint64_t i = 0; i < 4; i++) {
        la.dispatching = i >= 2;
        CHECK(LAPI_Put(handle, TO, 8, (void *)(uintptr_t)(0x1000 + i), data, NULL, NULL, NULL) ==
              LAPI_SUCCESS);
    }
    la.dispatching = false;
    for (uint64_t i = 0; i < 4; i++) { /* one slot after the other */
        CHECK(flying[0].kind == GET);
        played_words(TO)->freed[0] = peer->lane_used - LA_LANE_SLOTS + 1;
        finish(0, UTOFU_SUCCESS);
        int at = flying[0].kind == PUT ? 0 : 1;
        CHECK(flying[at].kind == PUT);
        end_flying(at, UTOFU_SUCCESS);
        order[i] = slot_at(TO, (peer->lane_used - 1) % LA_LANE_SLOTS)->tgt_addr;
    }
    CHECK(order[0] == 0x1002 && order[1] == 0x1003 && order[2] == 0x1000 && order[3] == 0x1001);
    answer_all();
    end();
}

/* Without requests calls wait; handlers have 256 of their own. */
static void requests_run_out(void)
{
    lapi_cntr_t cmpl = {0};

    begin();
    struct la_peer *peer = connect_to(TO);
    for (uint32_t i = 0; i < LA_NUM_REQS - LA_HANDLER_REQ_RESERVE; i++) {
        CHECK(LAPI_Put(handle, TO, 8, data, data, NULL, NULL, &cmpl) == LAPI_SUCCESS);
        settle();
        if (i % 8 == 7)
            free_slots(peer);
    }
    CHECK(la.requests.num_free == LA_HANDLER_REQ_RESERVE && lines == 0);
    la.dispatching = true; /* a handler has one */
    CHECK(LAPI_Put(handle, TO, 8, data, data, NULL, NULL, &cmpl) == LAPI_SUCCESS);
    la.dispatching = false;
    settle();
    CHECK(la.requests.num_free == LA_HANDLER_REQ_RESERVE - 1 && cmpl.value == 0);
    uint32_t last = la.requests.free_reqs[la.requests.num_free];
    for (uint32_t i = 0; i < 2; i++) { /* two replies */
        own_reply((last + i) % LA_NUM_REQS)->cmpl = 0;
        if (la.requests.reqs[(last + i) % LA_NUM_REQS].used)
            put_arrives(&own_reply((last + i) % LA_NUM_REQS)->cmpl + 1);
    }
    for (uint32_t i = 0; num_notices < 2 && i < LA_NUM_REQS; i++)
        if (la.requests.reqs[i].used && i != last)
            put_arrives(&own_reply(i)->cmpl + 1);
    CHECK(LAPI_Put(handle, TO, 8, data, data, NULL, NULL, &cmpl) == LAPI_SUCCESS);
    CHECK(cmpl.value == 2 && la.requests.num_free == LA_HANDLER_REQ_RESERVE);
    answer_all();
    end();
}

/* A call within a handler that finds no request polls, sends what waits for a slot, and puts
 * chunks; one that finds no operation polls. */
static struct la_peer *waiting_peer;
static int pauses_left;
static uint64_t *claimed_chunks;
static uint32_t kept;

static void free_requests_at_last(void)
{
    if (--pauses_left != 0)
        return;
    CHECK(!waiting_peer->queued && *claimed_chunks > 0);
    la.requests.num_free = kept;
}

static void free_operations_at_last(void)
{
    if (--pauses_left == 0)
        la.net.port.num_free = kept;
}

static void handlers_wait_for_requests(void)
{
    uint64_t word = 0;
    lapi_cntr_t org = {0}, cmpl = {0}, tgt = {0};

    begin_receiving();
    nodes[TO] = nodes[RANK];
    mapped_inode = 5;
    connect_to(TO);
    CHECK(LAPI_Put(handle, TO, 1 << 20, (void *)0x1000, data, NULL, &org, NULL) == LAPI_SUCCESS);
    const struct la_req *r = &la.requests.reqs[la.requests.free_reqs[la.requests.num_free]];
    finish(0, UTOFU_SUCCESS);
    CHECK(r->used && (r->flags & LA_ASSIST) && num_flying == 0);
    waiting_peer = connect_to(3);
    for (int i = 0; i < 17; i++)
        CHECK(LAPI_Put(handle, 3, 8, data, data, NULL, NULL, i < 16 ? NULL : &cmpl) ==
              LAPI_SUCCESS);
    CHECK(waiting_peer->queued);
    played_words(3)->freed[waiting_peer->lane] = 16;
    claimed_chunks = &own_reply(r->index)->claim_word;
    *claimed_chunks = 0;
    own_reply(r->index)->assist_request = (struct la_assist_request){stadd_of(TO, STAG_DATA), 17};
    put_arrives(&own_reply(r->index)->assist_request + 1);
    kept = la.requests.num_free;
    la.requests.num_free = 0;
    la.dispatching = true;
    ends = ALL;
    pauses_left = 40;
    at_poll = free_requests_at_last;
    CHECK(LAPI_Put(handle, TO, 8, data, data, NULL, NULL, &cmpl) == LAPI_SUCCESS);
    CHECK(pauses_left <= 0);
    la.dispatching = false;
    at_poll = NULL;
    settle();
    struct la_record *at = own_slot(0); /* other calls receive meanwhile */
    *at = (struct la_record){.kind = LA_PUT, .flags = LA_INLINE, .rank = TO, .seq = 1};
    at->tgt_cntr = (uintptr_t)&tgt;
    kept = la.requests.num_free;
    la.requests.num_free = 0;
    pauses_left = 40;
    at_poll = free_requests_at_last;
    CHECK(LAPI_Put(handle, TO, 8, data, data, NULL, NULL, &cmpl) == LAPI_SUCCESS);
    CHECK(pauses_left <= 0 && tgt.value == 1);
    put_arrives((uint8_t *)at + 64);
    at_poll = NULL;
    settle();
    kept = la.net.port.num_free;
    la.net.port.num_free = 0;
    pauses_left = 4;
    at_poll = free_operations_at_last;
    la_lock();
    CHECK(la_get_sync(TO, id_of(TO), &word, la_control_stadd(id_of(TO), 0), 8, "a word") ==
          UTOFU_SUCCESS);
    la_unlock();
    CHECK(pauses_left <= 0);
    at_poll = NULL;
    answer_all();
    end();
}

/* Two operations stay for what a handler sends. */
static void handlers_have_operations(void)
{
    begin();
    uint32_t num_free = la.net.port.num_free;

    for (uint32_t num = 0; num <= 4; num++) {
        la.net.port.num_free = num;
        CHECK(la_can_execute(false) == (num > 2));
    }
    la.net.port.num_free = num_free;
    end();
}

/* A completion handler that waits may need a message behind many others: one entry more. */
static void handlers_that_wait_get_an_entry(void)
{
    struct la_record rec = {.kind = LA_AM, .rank = TO, .tgt_addr = 7};

    begin_receiving();
    header_handler = note_handler;
    header_ret = LAPI_NORMAL;
    for (int i = 0; i < LA_NUM_INCOMING + 2; i++)
        receive(&rec, NULL, 0);
    CHECK(num_header_calls == LA_NUM_INCOMING && la.dispatch.num_ready == 2);
    long before = blocks;
    la.cmpl_thread.blocked_handlers = 1;
    progress();
    CHECK(num_header_calls == LA_NUM_INCOMING + 2 && blocks == before + 2);
    la.cmpl_thread.blocked_handlers = 0;
    run_handlers();
    CHECK(num_handler_calls == LA_NUM_INCOMING + 2 && blocks == before && la.incoming.used == 0);
    thread_error = EAGAIN; /* without the thread they run inline */
    la_cmpl_thread_stop();
    forget();
    receive(&rec, NULL, 0);
    CHECK(num_handler_calls == LA_NUM_INCOMING + 3 && la.incoming.used == 0 && lines == 1);
    CHECK(strstr(line, "no thread for completion handlers: they run inline"));
    thread_error = 0;
    receive(&rec, NULL, 0);
    CHECK(num_handler_calls == LA_NUM_INCOMING + 3 && num_threads == 2 && la_cmpl_thread_is_busy());
    run_handlers();
    CHECK(num_handler_calls == LA_NUM_INCOMING + 4 && !la_cmpl_thread_is_busy());
    end();
}

/* Reports to the other end only what can be: chunks, an entry. */
static void reports_of_chunks(void)
{
    static const struct {
        uint64_t claimed, index, size;
        bool reported;
    } cases[] = {
        {0, 255, 2 * 262144, true}, {0, 256, 2 * 262144, false}, {2, 0, 2 * 262144, false}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin();
        nodes[TO] = nodes[RANK];
        mapped_inode = 5;
        connect_to(TO);
        CHECK(LAPI_Put(handle, TO, cases[i].size, (void *)0x1000, data, NULL, NULL, NULL) ==
              LAPI_SUCCESS);
        settle();
        uint32_t req = slot_at(TO, 0)->req_index;
        own_reply(req)->claim_word = cases[i].claimed;
        own_reply(req)->assist_request =
            (struct la_assist_request){stadd_of(TO, STAG_DATA), cases[i].index};
        put_arrives(&own_reply(req)->assist_request + 1);
        progress();
        for (uint64_t chunk = cases[i].claimed; chunk < 2; chunk++) {
            CHECK(num_flying == 1 && flying[0].size == 262144);
            finish(0, UTOFU_SUCCESS);
        }
        CHECK(num_flying == (int)cases[i].reported && la.net.port.num_free == LA_NUM_OPS);
        answer_all();
        put_arrives(&own_reply(req)->assist_request + 1); /* late */
        progress();
        CHECK(!la_assist_is_pending());
        end();
    }
}

/* A chunk that ends late is not one of the request that has the place now. */
static void requests_are_told_apart(void)
{
    begin();
    nodes[TO] = nodes[RANK];
    mapped_inode = 5;
    connect_to(TO);
    for (int late = 0; late < 2; late++) {
        CHECK(LAPI_Put(handle, TO, 2 * 262144, (void *)0x1000, data, NULL, NULL, NULL) ==
              LAPI_SUCCESS);
        settle();
        uint32_t req = slot_at(TO, 0)->req_index;
        if (late == 0) {
            own_reply(req)->assist_request = (struct la_assist_request){stadd_of(TO, STAG_DATA), 3};
            start_error = UTOFU_ERR_INVALID_ARG; /* the chunk cannot be claimed */
            put_arrives(&own_reply(req)->assist_request + 1);
            progress();
            CHECK(num_flying == 0 && la.net.port.num_free == LA_NUM_OPS && start_error == 0);
            put_arrives(&own_reply(req)->assist_request + 1);
            progress();
            CHECK(num_flying == 1 && flying[0].size == 262144);
            own_reply(req)->fin = 0;
            put_arrives(&own_reply(req)->fin + 1); /* the target has had enough */
            progress();
            CHECK(la.requests.num_free == LA_NUM_REQS && num_flying == 1);
        } else {
            CHECK(!la_assist_is_pending());
            answer_all();
        }
        if (late == 0) { /* the next request has the same place */
            struct la_peer *peer = la_peer_find(TO);
            peer->lane_used = peer->lane_freed; /* the first slot, again */
            CHECK(LAPI_Get(handle, TO, 8, (void *)0x1000, data, NULL, NULL) == LAPI_SUCCESS);
            CHECK(la.requests.reqs[req].used && la.requests.reqs[req].kind == LA_GET);
            finish(0, UTOFU_SUCCESS);
            CHECK(!la_assist_is_pending());
            answer_all();
            peer->lane_used = peer->lane_freed = 0;
        }
    }
    la_peer_find(TO)->lane_freed = la_peer_find(TO)->lane_used;
    end();
}

/*
 * Tasks that are gone
 */

static bool is_probe(const struct flying *f, uint32_t rank)
{
    return f->kind == GET && f->size == 64 && f->id == id_of(rank) &&
           f->rmt == la_control_stadd(id_of(rank), offsetof(struct la_control_words, gone));
}

static void next_probe(uint32_t rank)
{
    fake_clock_pass_ms(200);
    progress();
    CHECK(num_flying == 0);
    fake_clock_pass_ms(60);
    progress();
    CHECK(num_flying == 1 && is_probe(&flying[0], rank));
}

static void tasks_are_probed_in_turn(void)
{
    begin();
    for (int i = 0; i < 2; i++) {
        next_probe(2);
        fake_clock_pass_ms(1000); /* one at a time */
        progress();
        CHECK(num_flying == 1);
        finish(0, UTOFU_SUCCESS);
        next_probe(3);
        finish(0, UTOFU_SUCCESS);
    }
    next_probe(2);
    finish(0, UTOFU_ERR_MRQ_PEER);
    CHECK(la_watch_is_gone(2) && la.watch.num_gone == 1 && num_errors == 1);
    CHECK(last_error == LAPI_ERR_TIMEOUT && last_source == 2 && strstr(line, "task 2 is gone"));
    CHECK(num_flying == 2); /* partners 3 and 0 are told; 2 is not */
    for (int i = 0; i < 2; i++)
        CHECK(flying[i].kind == WORD && flying[i].value == 3 && flying[i].id == id_of(i ? 0 : 3) &&
              flying[i].rmt ==
                  la_control_stadd(flying[i].id, offsetof(struct la_control_words, gone) + 16) &&
              flying[i].flags == ((unsigned long)UTOFU_ONESIDED_FLAG_STRONG_ORDER | LOCAL));
    settle();
    la.watch.num_probes = 0; /* the turn of 2, which is not probed any more */
    fake_clock_pass_ms(300);
    progress();
    CHECK(num_flying == 0);
    progress();
    CHECK(num_flying == 1 && is_probe(&flying[0], 3));
    la.control.words->gone[4] = 5;
    la.control.words->gone[1] = RANK + 1;
    la.control.words->gone[5] = PROCS + 1;
    finish(0, UTOFU_SUCCESS);
    CHECK(la_watch_is_gone(4) && !la_watch_is_gone(RANK) && la.watch.num_gone == 2);
    CHECK(last_source == 4 &&
          strstr(all_lines, "task 4 is gone or cannot be reached: another task"));
    int lost = 0;
    CHECK(LAPI_Qenv(handle, NUM_LOST, &lost) == LAPI_SUCCESS && lost == 2);
    settle();
    CHECK(LAPI_Gfence(handle) == LAPI_ERR_TIMEOUT);
    end();
}

static void messages_to_gone_tasks_end(void)
{
    lapi_cntr_t cmpl = {0}, org = {0};

    begin();
    connect_to(3);
    struct la_peer *peer = connect_to(TO);
    CHECK(LAPI_Put(handle, TO, 8, data, data, NULL, &org, &cmpl) == LAPI_SUCCESS);
    CHECK(LAPI_Put(handle, 3, 8, data, data, NULL, &org, &cmpl) == LAPI_SUCCESS);
    CHECK(LAPI_Put(handle, TO, 4096, data, data, NULL, &org, NULL) == LAPI_SUCCESS);
    CHECK(num_regions() == 3 && la.requests.num_free == LA_NUM_REQS - 3 && org.value == 2);
    peer->lane_used = peer->lane_freed + LA_LANE_SLOTS;
    CHECK(LAPI_Put(handle, TO, 8, data, data, NULL, &org, NULL) == LAPI_SUCCESS);
    CHECK(peer->queued && la.requests.num_free == LA_NUM_REQS - 4);
    finish(0, UTOFU_ERR_MRQ_PEER);
    CHECK(la_watch_is_gone(TO) && peer->gone && num_errors == 1 && last_source == TO);
    CHECK(num_regions() == 2 && la.requests.num_free == LA_NUM_REQS - 1 && !peer->queued);
    CHECK(org.value == 2 && LAPI_Waitcntr(handle, &cmpl, 1, NULL) == LAPI_ERR_TIMEOUT);
    int before = num_flying;
    CHECK(LAPI_Put(handle, TO, 8, data, data, NULL, &org, NULL) == LAPI_ERR_TGT_PURGED);
    CHECK(LAPI_Put(handle, TO, 8, data, data, NULL, &org, &cmpl) == LAPI_ERR_TGT_PURGED);
    CHECK(LAPI_Put(handle, TO, 4096, data, data, NULL, &org, NULL) == LAPI_ERR_TGT_PURGED);
    CHECK(num_regions() == 2 && num_flying == before && org.value == 2);
    CHECK(LAPI_Purge_totask(handle, TO) == LAPI_SUCCESS);
    CHECK(LAPI_Resume_totask(handle, TO) == LAPI_ERR_TGT_PURGED && !peer->purged);
    ends = ALL;
    settle();
    struct la_reply_area *reply = &la.control.replies[slot_at(3, 0)->req_index];
    reply->cmpl = 0;
    put_arrives(&reply->cmpl + 1);
    progress();
    CHECK(cmpl.value == 1 && la.requests.num_free == LA_NUM_REQS);
    end();
}

static void purged_tasks_get_nothing(void)
{
    lapi_cntr_t org = {0};

    begin();
    struct la_peer *peer = connect_to(TO);
    peer->lane_used = peer->lane_freed + LA_LANE_SLOTS;
    CHECK(put_word(&org) == LAPI_SUCCESS && peer->queued && la.requests.num_free == 1023);
    CHECK(LAPI_Purge_totask(handle, TO) == LAPI_SUCCESS && peer->purged && num_errors == 0);
    CHECK(put_word(&org) == LAPI_ERR_TGT_PURGED);
    CHECK(LAPI_Put(handle, TO, 100, data, data, NULL, &org, NULL) == LAPI_ERR_TGT_PURGED);
    progress(); /* what waited is not sent */
    CHECK(la.requests.num_free == LA_NUM_REQS && !peer->queued && org.value == 0);
    free_slots(peer);
    CHECK(LAPI_Resume_totask(handle, TO) == LAPI_SUCCESS && put_word(&org) == LAPI_SUCCESS);
    CHECK(org.value == 1);
    CHECK(LAPI_Purge_totask(handle, PROCS) == LAPI_ERR_TGT);
    settle();
    end();
}

static bool is_step(const struct flying *f, uint32_t at, uint32_t partner)
{
    return f->kind == GET && f->size == 8 && f->id == id_of(at) &&
           f->rmt == la_control_stadd(id_of(at), 8ull * partner);
}

/* To task 4: over 3, which is nearest; over 2 if 3 is gone. */
static void tasks_are_found_by_their_partners(void)
{
    int rc = 0;

    begin();
    connect_to(PROCS - 1);
    CHECK(num_started == 2 && is_step(&last_started[0], 3, 0) && last_started[1].kind == ARMW);
    CHECK(last_started[1].rmt ==
          la_control_stadd(id_of(4), offsetof(struct la_control_words, lanes_requested)));
    end();
    begin();
    la_watch_set_gone(3, "the test says so");
    settle();
    forget();
    connect_to(4);
    CHECK(num_started == 2 && is_step(&last_started[0], 2, 1));
    long before = blocks;
    CHECK(la_peer_connect(3, &rc) == NULL && rc == LAPI_ERR_TGT_PURGED && num_started == 2);
    end();
    begin();
    connect_to(3); /* the table of peers has memory */
    before = blocks;
    start_error = UTOFU_ERR_INVALID_VCQ_ID;
    CHECK(la_peer_connect(4, &rc) == NULL && rc == LAPI_ERR_TIMEOUT && blocks == before);
    CHECK(strstr(line, "cannot reach task 4"));
    fail_memory = 0;
    CHECK(la_peer_connect(4, &rc) == NULL && rc == LAPI_ERR_MEMORY_EXHAUSTED);
    fail_memory = NONE;
    CHECK(blocks == before && la_peer_find(4) == NULL);
    CHECK(LAPI_Put(handle, PROCS, 8, data, data, NULL, NULL, NULL) == LAPI_ERR_TGT);
    end();
}

/*
 * Messages that both sides move
 */

enum { CHUNK = 256 << 10 };

static struct la_reply_area *reply_at(uint32_t req)
{
    return (struct la_reply_area *)memory_of(la_reply_stadd(id_of(TO), req, 0), LA_REPLY_SIZE);
}

static void begin_on_one_node(void)
{
    begin_receiving();
    nodes[TO] = nodes[RANK];
    mapped_inode = 5;
}

/* As the origin: chunk after chunk, then a report. */
static void origins_put_chunks(void)
{
    lapi_cntr_t org = {0};

    for (int kind = 0; kind < 3; kind++) { /* all; another takes two; one fails */
        begin_on_one_node();
        struct la_peer *peer = connect_to(TO);
        CHECK(peer->same_node);
        fill(data, 4 * CHUNK, 1);
        org.value = 0;
        CHECK(LAPI_Put(handle, TO, 3 * CHUNK + 5, (void *)0x1000, data, NULL, &org, NULL) ==
              LAPI_SUCCESS);
        CHECK(num_flying == 1); /* the word that opens claims is set */
        const struct la_req *r = &la.requests.reqs[la.requests.free_reqs[la.requests.num_free]];
        CHECK(r->used && r->flags == (FETCH | LA_ASSIST) && own_reply(r->index)->claim_word == 0);
        finish(0, UTOFU_SUCCESS);
        CHECK(slot_at(TO, 0)->flags == (FETCH | LA_ASSIST) && num_flying == 0);
        own_reply(r->index)->claim_word = kind == 1 ? 2 : 0;
        own_reply(r->index)->assist_request =
            (struct la_assist_request){stadd_of(TO, STAG_DATA), 17};
        put_arrives(&own_reply(r->index)->assist_request + 1);
        progress();
        for (uint64_t chunk = kind == 1 ? 2 : 0; chunk < 4; chunk++) {
            CHECK(num_flying == 1 && flying[0].kind == PUT && org.value == 0);
            CHECK(flying[0].lcl == (uintptr_t)data + chunk * CHUNK);
            CHECK(flying[0].rmt == stadd_of(TO, STAG_DATA) + chunk * CHUNK);
            CHECK(flying[0].size == (chunk < 3 ? CHUNK : 5) &&
                  flying[0].flags == (unsigned long)LOCAL);
            finish(0, kind == 2 && chunk == 1 ? UTOFU_ERR_MRQ_RMT_STADD : UTOFU_SUCCESS);
        }
        CHECK(num_flying == 1 && flying[0].kind == WORD);
        CHECK(flying[0].rmt == la_assist_report_stadd(id_of(TO), 17));
        CHECK(flying[0].value ==
              ((uint64_t)RANK << 32 | (kind == 1 ? 2 : 4) | (kind == 2 ? LA_ASSIST_FAILED : 0)));
        CHECK(flying[0].flags == UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE);
        settle();
        CHECK(!la_assist_is_pending() && la.requests.num_free == LA_NUM_REQS - 1);
        own_reply(r->index)->fin = 0;
        put_arrives(&own_reply(r->index)->fin + 1);
        progress();
        CHECK(org.value == 1 && la.requests.num_free == LA_NUM_REQS && num_regions() == 3);
        end();
    }
}

static void help_is_not_always_wanted(void)
{
    static const struct {
        uint32_t node;
        uint64_t inode, size;
        bool wanted;
    } cases[] = {{RANK, 5, 2 * CHUNK, true},
                 {RANK, 5, CHUNK + 1, true},
                 {RANK, 5, CHUNK, false},
                 {RANK, 0, 2 * CHUNK, false},
                 {TO, 5, 2 * CHUNK, false}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin();
        nodes[TO] = cases[i].node;
        mapped_inode = cases[i].inode;
        connect_to(TO);
        CHECK(LAPI_Put(handle, TO, cases[i].size, (void *)0x1000, data, NULL, NULL, NULL) ==
              LAPI_SUCCESS);
        CHECK(num_flying == 1);
        finish(0, UTOFU_SUCCESS);
        CHECK(slot_at(TO, 0)->flags == (cases[i].wanted ? FETCH | LA_ASSIST : FETCH));
        uint32_t req = slot_at(TO, 0)->req_index;
        own_reply(req)->fin = 0;
        put_arrives(&own_reply(req)->fin + 1);
        progress();
        end();
    }
    begin_on_one_node(); /* the memory cannot be registered again: the target gets no address */
    connect_to(TO);
    CHECK(LAPI_Put(handle, TO, 2 * CHUNK, (void *)0x1000, data, NULL, NULL, NULL) == LAPI_SUCCESS);
    settle();
    mapped_offset += 4096;
    no_memory = true;
    CHECK(LAPI_Put(handle, TO, 2 * CHUNK, (void *)0x1000, data, NULL, NULL, NULL) == LAPI_SUCCESS);
    no_memory = false;
    const struct la_req *r = &la.requests.reqs[la.requests.free_reqs[la.requests.num_free]];
    CHECK(own_reply(r->index)->claim_word == LA_STADD_CHANGED);
    CHECK(own_reply(r->index)->new_stadd == 0 && r->region == NULL);
    for (uint32_t i = 0; i < LA_NUM_REQS; i++) {
        if (!la.requests.reqs[i].used)
            continue;
        own_reply(i)->fin = 0;
        put_arrives(&own_reply(i)->fin + 1);
    }
    mapped_offset = 0;
    settle();
    CHECK(la.requests.num_free == LA_NUM_REQS);
    end();
}

static struct la_record assisted(uint64_t size)
{
    struct la_record rec = large(LA_PUT, size);

    rec.flags = FETCH | LA_ASSIST;
    return rec;
}

static struct la_incoming *only_incoming(void)
{
    struct la_incoming *found = NULL;

    for (int i = 0; i < LA_NUM_INCOMING; i++)
        if (la.incoming.entries[i].used)
            found = &la.incoming.entries[i];
    CHECK(found != NULL && la.incoming.used == 1);
    return found;
}

static void report(const struct la_incoming *msg, uint64_t word)
{
    uint64_t *at = &la.control.assist_reports[msg - la.incoming.entries];

    *at = word;
    put_arrives(at + 1);
    progress();
}

/* As the target: claims a chunk, fetches it, and waits for those of the origin. */
static void targets_claim_chunks(void)
{
    const struct la_record rec = assisted(3 * CHUNK + 5);

    for (int by_origin = 0; by_origin < 4; by_origin++) {
        begin_on_one_node();
        fill(played_data, 4 * CHUNK, 3);
        memset(data, 0, 4 * CHUNK);
        reply_at(6)->claim_word = LA_CLAIMS_CLOSED;
        receive(&rec, NULL, 0);
        CHECK(num_flying == 1 && flying[0].kind == PUT && flying[0].size == 16);
        CHECK(flying[0].rmt == la_reply_stadd(id_of(TO), 6, LA_REPLY_OFFSET(assist_request)));
        CHECK(flying[0].flags == ((unsigned long)RECORD | LOCAL));
        finish(0, UTOFU_SUCCESS);
        const struct la_incoming *msg = only_incoming();
        CHECK(reply_at(6)->assist_request.stadd == (uintptr_t)data);
        CHECK(reply_at(6)->assist_request.incoming_index == (uint64_t)(msg - la.incoming.entries));
        CHECK(num_flying == 0 && msg->chunks_claimed == 0 && la_incoming_in_use());
        reply_at(6)->claim_word = (uint64_t)by_origin; /* opened, and claimed by the origin */
        progress();
        for (uint64_t chunk = (uint64_t)by_origin; chunk < 4; chunk++) {
            CHECK(num_flying == 1 && flying[0].kind == GET);
            CHECK(flying[0].lcl == (uintptr_t)data + chunk * CHUNK);
            CHECK(flying[0].rmt == rec.org_stadd + chunk * CHUNK);
            CHECK(flying[0].size == (chunk < 3 ? CHUNK : 5));
            finish(0, UTOFU_SUCCESS);
        }
        if (by_origin > 0) {
            CHECK(num_flying == 0 && la_incoming_in_use());
            report(msg, (uint64_t)3 << 32 | (unsigned)by_origin); /* of another task */
            CHECK(num_flying == 0 && la_incoming_in_use());
            report(msg, (uint64_t)TO << 32 | ((unsigned)by_origin - 1));
            CHECK(num_flying == 0 && la_incoming_in_use());
            report(msg, (uint64_t)TO << 32 | (unsigned)by_origin |
                            (by_origin == 3 ? LA_ASSIST_FAILED : 0));
        }
        CHECK(num_flying == 1 &&
              is_reply(&flying[0], 6, 0, by_origin == 3 ? LAPI_ERR_TGT_ADDR : 0));
        CHECK(!la_incoming_in_use() && num_errors == (by_origin == 3));
        CHECK(is_filled(data + by_origin * CHUNK, 0, 3));
        report(&la.incoming.entries[0], (uint64_t)TO << 32 | 4); /* late */
        CHECK(num_flying == 1 && !la_incoming_in_use());
        end();
    }
}

static void targets_get_new_addresses(void)
{
    const struct la_record rec = assisted(2 * CHUNK);

    begin_on_one_node();
    reply_at(6)->claim_word = LA_STADD_CHANGED;
    reply_at(6)->new_stadd = stadd_of(TO, STAG_DATA) + 0x100000;
    ends = ALL;
    receive(&rec, NULL, 0);
    ends = ATOMICS;
    settle();
    bool seen[2] = {false, false};
    for (int i = 0; i < num_started; i++)
        for (uint64_t chunk = 0; chunk < 2; chunk++)
            seen[chunk] |=
                last_started[i].kind == GET && last_started[i].size == CHUNK &&
                last_started[i].rmt == stadd_of(TO, STAG_DATA) + 0x100000 + chunk * CHUNK;
    CHECK(seen[0] && seen[1] && !la_incoming_in_use() && num_errors == 0);
    int gets = 0; /* of the new address: one */
    for (int i = 0; i < num_started; i++)
        gets += last_started[i].kind == GET && last_started[i].size == 8;
    CHECK(gets == 1);
    end();
    begin_on_one_node(); /* the origin is gone meanwhile */
    reply_at(6)->claim_word = 1;
    receive(&rec, NULL, 0);
    settle();
    CHECK(la_incoming_in_use());
    la_watch_set_gone(TO, "the test says so");
    settle();
    CHECK(!la_incoming_in_use() && last_error == LAPI_ERR_TIMEOUT);
    end();
}

/*
 * Registrations
 */

static struct la_region *get_region_of(uint64_t page, uint64_t size, bool write)
{
    utofu_stadd_t stadd;
    struct la_region *r = la_rcache_get((void *)(uintptr_t)(page * 4096), size, write, &stadd);

    CHECK(r == NULL || stadd == page * 4096);
    return r;
}

static void registrations_are_kept(void)
{
    begin();
    mapped_inode = 5;
    int before = num_regions();
    num_registrations = 0;
    struct la_region *r = get_region_of(16, 8192, true);
    CHECK(num_registrations == 1 && la_rcache_is_file_backed(r) && r->refcount == 1);
    CHECK(get_region_of(17, 4096, false) == r && get_region_of(16, 8192, true) == r);
    CHECK(get_region_of(16, 0, true) == r && num_registrations == 1);
    for (int i = 0; i < 4; i++)
        la_rcache_put(r);
    CHECK(num_regions() == before + 1 && la.rcache.unused_bytes == 8192); /* kept */
    CHECK(get_region_of(16, 8193, true) != r && get_region_of(15, 4096, true) != r);
    CHECK(num_registrations == 3);
    utofu_stadd_t behind; /* nor is what begins behind it */
    CHECK(la_rcache_get((void *)(uintptr_t)(16 * 4096 + 8193), 8, true, &behind) != r);
    CHECK(num_registrations == 4);
    num_registrations = 3;
    mapped_offset = 4096; /* other memory at the same address */
    before = num_regions();
    struct la_region *other = get_region_of(16, 8192, true);
    CHECK(num_registrations == 4 && la_rcache_is_current(other) && num_regions() <= before);
    mapped_offset = 8192; /* while it is used: until the last user gives it back */
    CHECK(!la_rcache_is_current(other) && get_region_of(16, 8192, true) != other);
    CHECK(!la_rcache_is_current(other));
    la_rcache_put(other);
    CHECK(other->size == 0);
    mapped_offset = 0;
    mapped_inode = 0; /* no file: for each use */
    before = num_regions();
    r = get_region_of(100, 4096, true);
    CHECK(!la_rcache_is_file_backed(r) && num_regions() == before + 1);
    CHECK(get_region_of(100, 4096, true) != r);
    la_rcache_put(r);
    CHECK(num_regions() == before + 1);
    end();
}

static void memory_that_is_only_read(void)
{
    begin();
    mapped_inode = 5;
    only_reads = true;
    CHECK(get_region_of(16, 4096, true) == NULL);
    struct la_region *r = get_region_of(16, 4096, false);
    CHECK(r != NULL && !r->writable && get_region_of(16, 4096, false) == r);
    only_reads = false;
    struct la_region *w = get_region_of(16, 4096, true);
    CHECK(w != NULL && w != r && w->writable);
    end();
}

/* 64 entries, then others that are not kept; the one that was unused for longest makes room. */
static void entries_run_out(void)
{
    struct la_region *r[LA_NUM_REGIONS + 1];

    begin();
    mapped_inode = 5;
    for (uint64_t i = 0; i < LA_NUM_REGIONS; i++)
        r[i] = get_region_of(16 + 2 * i, 4096, true);
    long before = blocks;
    int registered = num_regions();
    struct la_region *extra = get_region_of(1000, 4096, true);
    CHECK(extra != NULL && blocks == before + 1 && num_regions() == registered + 1);
    CHECK(la.rcache.unused_bytes == 0 && !la_rcache_is_file_backed(extra));
    la_rcache_put(extra);
    CHECK(blocks == before && num_regions() == registered && la.rcache.unused_bytes == 0);
    fail_call = 0;
    CHECK(get_region_of(1000, 4096, true) == NULL && blocks == before);
    fail_memory = 0;
    CHECK(get_region_of(1000, 4096, true) == NULL);
    fail_memory = fail_call = NONE;
    for (int i = 0; i < LA_NUM_REGIONS; i++)
        la_rcache_put(r[i]);
    CHECK(la.rcache.unused_bytes == (uint64_t)LA_NUM_REGIONS * 4096);
    la_rcache_put(get_region_of(16, 4096, true)); /* now the second is oldest */
    CHECK(get_region_of(1000, 4096, true) == r[1] && num_regions() == registered);
    CHECK(get_region_of(16, 4096, true) == r[0]);
    end();
    begin(); /* at most 256 MiB are kept */
    mapped_inode = 5;
    mapped_size = 1ull << 40;
    registered = num_regions();
    la_rcache_put(get_region_of(1 << 20, 128u << 20, true));
    la_rcache_put(get_region_of(1 << 21, 64u << 20, true));
    la_rcache_put(get_region_of(1 << 22, 64u << 20, true));
    CHECK(num_regions() == registered + 3 && la.rcache.unused_bytes == 256u << 20);
    la_rcache_put(get_region_of(1 << 23, 4096, true));
    CHECK(num_regions() == registered + 3 && la.rcache.unused_bytes == (128u << 20) + 4096);
    mapped_size = 4096;
    end();
}

/*
 * How often everything is polled
 */

static void notice_of_a_word(void)
{
    put_arrives(&la.control.words->lanes_requested);
}

static int polls_of(int iterations)
{
    num_polls = 0;
    la_lock();
    for (int i = 0; i < iterations; i++)
        la_progress();
    la_unlock();
    return num_polls;
}

static void progress_polls_from_time_to_time(void)
{
    begin_receiving();
    settle();
    la.progress.iterations = la.progress.idle_count = 0;
    CHECK(polls_of(1) == 1 && polls_of(5) == 0);                     /* once, then memory alone */
    CHECK(polls_of(1) == 1 && polls_of(7) == 0 && polls_of(1) == 1); /* each eighth */
    CHECK(la.progress.iterations == 15 && polls_of(16) == 2 && polls_of(1) == 1); /* the 32nd */
    la.progress.iterations = la.progress.idle_count = 0;
    for (int i = 0; i < 3; i++)
        notice_of_a_word();
    CHECK(polls_of(1) == 2 && num_notices == 1); /* its notice, and one more */
    CHECK(polls_of(5) == 0 && polls_of(1) == 2 && num_notices == 0);
    for (int i = 0; i < 20; i++)
        notice_of_a_word();
    la.progress.iterations = la.progress.idle_count = 6;
    CHECK(polls_of(1) == 16 && num_notices == 4);
    progress();
    num_tcq_polls = 0; /* the TCQ has errors alone: it is polled at each 32nd poll of notices */
    la.net.port.polls = 0;
    for (int i = 0; i < 64; i++)
        CHECK(!la_net_poll() && num_tcq_polls == (i + 1) / 32);
    sent[num_sent++] = NULL;
    sent[num_sent++] = NULL;
    for (int i = 0; i < 32; i++)
        CHECK(la_net_poll() == (i == 31)); /* what has happened is told, and all is taken */
    CHECK(num_sent == 0);
    la.control.words->lanes_requested = 0; /* nothing comes in memory: notices alone tell */
    la.progress.iterations = la.progress.idle_count = 1;
    CHECK(polls_of(4) == 4);
    end();
}

/* Records are found in memory before their notices; of at most 64 the notices are still to come. */
static void notices_follow_records(void)
{
    struct la_record rec = {.kind = LA_PUT, .flags = LA_INLINE, .rank = TO, .data_len = 8};
    lapi_cntr_t tgt = {0};

    begin_receiving();
    la.control.words->lanes_requested = 6;
    rec.tgt_addr = (uintptr_t)data;
    rec.tgt_cntr = (uintptr_t)&tgt;
    for (uint32_t lane = 0; lane < 6; lane++) {
        for (uint32_t i = 0; i < LA_LANE_SLOTS; i++) {
            struct la_record *at = own_slot(lane * LA_LANE_SLOTS + i);
            *at = rec;
            at->seq = i + 1;
        }
    }
    progress();
    int known = tgt.value;
    CHECK(known >= 64 && known < 64 + 6 && la.dispatch.num_notices_due == (uint32_t)known);
    for (uint32_t slot = 0; slot < 6 * LA_LANE_SLOTS; slot++)
        put_arrives(own_slot(slot) + 0 == NULL ? NULL : (uint8_t *)own_slot(slot) + 64);
    while (num_notices > 0)
        progress();
    CHECK(tgt.value == 96 && la.dispatch.num_notices_due == 0);
    for (uint32_t lane = 0; lane < 6; lane++)
        CHECK(la.control.words->freed[lane] == 16);
    end();
}

/* A record that needs an entry waits while all 256 have handlers to run; others do not. */
static void records_wait_for_entries(void)
{
    lapi_cntr_t tgt = {0};
    struct la_record am = {.kind = LA_AM, .rank = TO, .tgt_addr = 7};

    begin_receiving();
    header_handler = note_handler;
    header_ret = LAPI_NORMAL;
    am.tgt_cntr = (uintptr_t)&tgt;
    for (int i = 0; i < LA_NUM_INCOMING + 3; i++)
        receive(&am, NULL, 0);
    CHECK(num_header_calls == LA_NUM_INCOMING && la.dispatch.num_ready == 3);
    CHECK(la.control.words->freed[0] == LA_NUM_INCOMING);
    struct la_record put = good;
    put.tgt_addr = (uintptr_t)data;
    put.tgt_cntr = (uintptr_t)&tgt;
    receive(&put, &put, 8);
    CHECK(tgt.value == 1 && la.control.words->freed[0] == LA_NUM_INCOMING);
    run_handlers();
    CHECK(tgt.value == 1 + LA_NUM_INCOMING && num_handler_calls == LA_NUM_INCOMING);
    progress();
    CHECK(num_header_calls == LA_NUM_INCOMING + 3);
    CHECK(la.control.words->freed[0] == LA_NUM_INCOMING + 4);
    run_handlers();
    uint32_t free_before = la.requests.num_free;
    la.requests.num_free = LA_MIN_REQS_PER_HANDLER - 1; /* a handler could not send */
    receive(&put, &put, 8);
    int value = tgt.value;
    CHECK(la.dispatch.num_ready == 1);
    la.requests.num_free = LA_MIN_REQS_PER_HANDLER;
    progress();
    CHECK(tgt.value == value + 1 && la.dispatch.num_ready == 0);
    la.requests.num_free = free_before;
    end();
}

/*
 * How calls and the thread for interrupts wait
 */

static lapi_cntr_t awaited;

static void raise_at_last(void)
{
    if (--pauses_left == 0)
        awaited.value++;
}

static void waiting_calls_sleep(void)
{
    static const struct {
        uint32_t cores;
        int yields;
    } cases[] = {{PROCS - 1, 8192 - 64}, {PROCS, 8192 - 4096}};

    begin();
    at_pause = raise_at_last;
    for (size_t i = 0; i < 2; i++) {
        la.wait.num_cores = cases[i].cores;
        num_naps = num_waits = num_yields = 0;
        pauses_left = 64 + 3;
        CHECK(LAPI_Waitcntr(handle, &awaited, 1, NULL) == LAPI_SUCCESS && awaited.value == 0);
        CHECK(num_naps == 64 && num_waits == 3 && num_yields == cases[i].yields);
        CHECK(last_wait_us == 200); /* another thread may change the counter without a notice */
        num_naps = num_waits = num_yields = 0;
        pauses_left = 64 + 3;
        int polls_before = num_polls;
        CHECK(LAPI_Nopoll_wait(handle, &awaited, 1, NULL) == LAPI_SUCCESS);
        CHECK(num_naps == 64 && num_waits == 3 && num_yields == cases[i].yields);
        CHECK(num_polls == polls_before && la.wait.waiting_threads == 0);
    }
    pauses_left = 20000; /* long waits are told */
    forget();
    ends = ALL;
    CHECK(LAPI_Waitcntr(handle, &awaited, 1, NULL) == LAPI_SUCCESS);
    CHECK(lines >= 2 && strstr(all_lines, "LAPI_Waitcntr: has waited 3 s for the counter"));
    CHECK(strstr(all_lines, "to become 1; it is 0, and no message of this task is in flight"));
    at_pause = NULL;
    end();
}

static void stop_at_last(void)
{
    if (--pauses_left == 0)
        la.wait.stop = true;
}

static void run_interrupts(int pauses)
{
    CHECK(interrupt_thread != NULL);
    num_naps = num_waits = num_yields = num_polls = 0;
    pauses_left = pauses;
    la.wait.stop = false;
    at_pause = stop_at_last;
    interrupt_thread->run(NULL);
    at_pause = NULL;
}

static void the_interrupt_thread_polls(void)
{
    lapi_cntr_t tgt = {0};

    begin_receiving();
    settle();
    la.wait.call_polls = false;
    run_interrupts(64 + 2);
    CHECK(num_yields == 256 - 64 && num_naps == 64 && num_waits == 2 && num_polls > 0);
    CHECK(last_wait_us == 200);
    la.wait.call_polls = true; /* a call polls: the thread does not */
    run_interrupts(1);
    CHECK(num_naps == 1 && num_polls == 0 && !la.wait.call_polls);
    la.lock.word = 1; /* a call has the lock */
    run_interrupts(3);
    CHECK(num_naps == 3 && num_polls == 0);
    la.lock.word = 0;
    struct la_record *at = own_slot(0);
    *at = (struct la_record){.kind = LA_PUT, .flags = LA_INLINE, .rank = TO, .seq = 1};
    at->tgt_cntr = (uintptr_t)&tgt;
    run_interrupts(1);
    CHECK(tgt.value == 1 && num_yields == 256 - 64);
    put_arrives((uint8_t *)at + 64);
    int on = 0;
    CHECK(LAPI_Senv(handle, INTERRUPT_SET, 0) == LAPI_SUCCESS && num_threads == 0);
    CHECK(LAPI_Qenv(handle, INTERRUPT_SET, &on) == LAPI_SUCCESS && on == 0);
    thread_error = EAGAIN;
    CHECK(LAPI_Senv(handle, INTERRUPT_SET, 1) == LAPI_ERR_MEMORY_EXHAUSTED && num_threads == 0);
    thread_error = 0;
    CHECK(LAPI_Senv(handle, INTERRUPT_SET, 1) == LAPI_SUCCESS && num_threads == 1);
    CHECK(!la.wait.stop);
    CHECK(LAPI_Senv(handle, INTERRUPT_SET, 1) == LAPI_SUCCESS && num_threads == 1);
    end();
}

static struct la_peer *fenced;

static void free_at_last(void)
{
    fake_clock_pass_ms(1);
    if (--pauses_left == 0)
        played_words(fenced->rank)->freed[fenced->lane] = fenced->lane_used;
}

/* A fence waits for FIN of requests, and until the slots of all records before it are free. */
static void fences_wait_for_slots(void)
{
    begin();
    struct la_peer *peer = connect_to(TO);
    connect_to(3);
    CHECK(put_word(NULL) == LAPI_SUCCESS);
    settle();
    ends = ALL;
    fenced = peer;
    for (int long_wait = 0; long_wait < 2; long_wait++) {
        pauses_left = long_wait ? 10000 : 10;
        at_poll = free_at_last;
        forget();
        CHECK(LAPI_Fence(handle) == LAPI_SUCCESS && pauses_left <= 0);
        CHECK(peer->lane_freed == peer->lane_used && peer->fence == peer->lane_used);
        CHECK((lines > 0) == long_wait &&
              (!long_wait ||
               (strstr(line, "LAPI_Fence: has waited") &&
                strstr(line,
                       "s for task 2, which has not received all messages sent to it; no mess"))));
        at_poll = NULL;
        ends = ATOMICS;
        CHECK(put_word(NULL) == LAPI_SUCCESS);
        settle();
        ends = ALL;
    }
    ends = ATOMICS;
    end();
}

/* A fence waits for FIN, not for what completes later or was sent later. */
static struct la_req *unfinished;

static void finish_at_last(void)
{
    if (--pauses_left == 0)
        unfinished->flags = 0;
}

static void send_more(void)
{
    if (--pauses_left == 9)
        fenced->lane_used++; /* of a handler */
    if (pauses_left == 0)
        fenced->lane_freed = fenced->lane_used - 1;
}

static void fences_wait_for_little(void)
{
    lapi_cntr_t cmpl = {0};

    begin();
    struct la_peer *peer = connect_to(TO);
    CHECK(LAPI_Put(handle, TO, 8, data, data, NULL, NULL, &cmpl) == LAPI_SUCCESS);
    settle();
    free_slots(peer);
    CHECK(LAPI_Fence(handle) == LAPI_SUCCESS && cmpl.value == 0); /* without CMPL */
    ends = ALL;
    for (uint32_t i = 0; i < LA_NUM_REQS; i += LA_NUM_REQS - 1) { /* FIN of the first, the last */
        struct la_req before = la.requests.reqs[i];
        uint32_t num_free = la.requests.num_free;
        unfinished = &la.requests.reqs[i];
        *unfinished = (struct la_req){
            .used = true, .flags = LA_WANTS_FIN, .serial = la.requests.last_serial, .rank = TO};
        la.requests.num_free = num_free - 1;
        pauses_left = 10;
        at_poll = finish_at_last;
        CHECK(LAPI_Fence(handle) == LAPI_SUCCESS && pauses_left <= 0);
        unfinished->flags = LA_WANTS_FIN; /* of what is sent during the fence */
        unfinished->serial = la.requests.last_serial + 1;
        CHECK(LAPI_Fence(handle) == LAPI_SUCCESS && unfinished->flags == LA_WANTS_FIN);
        *unfinished = before;
        la.requests.num_free = num_free;
    }
    fenced = peer;
    peer->lane_used++;
    pauses_left = 10;
    at_poll = send_more;
    CHECK(LAPI_Fence(handle) == LAPI_SUCCESS && pauses_left <= 0);
    CHECK(peer->lane_freed == peer->lane_used - 1);
    at_poll = NULL;
    peer->lane_used = peer->lane_freed -= 1;
    ends = ATOMICS;
    answer_all();
    end();
}

/* A barrier fails for a task that is gone, unless all have arrived before. */
static void barriers_of_tasks_that_are_gone(void)
{
    begin();
    ends = ALL;
    la_lock();
    for (int arrived = 1; arrived >= 0; arrived--) {
        for (uint32_t k = 0; k < la.job.num_partners; k++)
            la.control.words->common.barrier_epochs[k] = la.sync.barrier_epoch + (uint64_t)arrived;
        la.watch.num_gone = 1;
        CHECK(la_barrier("a call", 0) == (arrived ? LAPI_SUCCESS : LAPI_ERR_TIMEOUT));
        la.watch.num_gone = 0;
    }
    la.sync.barrier_epoch--;
    la_unlock();
    ends = ATOMICS;
    end();
}

/*
 * The lock
 */

static lapi_thread_func_t program_lock(void)
{
    lapi_util_t util = {.Util_type = LAPI_GET_THREAD_FUNC};

    CHECK(LAPI_Util(handle, &util) == LAPI_SUCCESS);
    return util.Thread;
}

static void look_at_the_free_lock(void)
{
    CHECK(la.lock.word == 0 && la.lock.owner == NULL && la.lock.program_depth == 0);
    raise_at_last();
}

/* The program may hold it, several times; calls that wait release it. */
static void programs_hold_the_lock(void)
{
    int locked = 7, mine = 7;
    const char other = 0;

    begin();
    const lapi_thread_func_t f = program_lock();
    CHECK(f.mutex_unlock(handle) == LAPI_ERR_NOT_LOCKED && la.lock.word == 0);
    CHECK(f.mutex_getowner(handle, &mine) == LAPI_SUCCESS && mine == 0);
    CHECK(f.mutex_getowner(handle, NULL) == LAPI_ERR_RET_PTR_NULL);
    CHECK(f.mutex_trylock(handle, NULL) == LAPI_ERR_RET_PTR_NULL);
    CHECK(f.mutex_trylock(handle + 1, &locked) == LAPI_ERR_HNDL_INVALID && la.lock.word == 0);
    CHECK(f.mutex_lock(handle + 1) == LAPI_ERR_HNDL_INVALID && la.lock.word == 0);
    CHECK(f.mutex_unlock(handle + 1) == LAPI_ERR_HNDL_INVALID && la.lock.word == 0);
    for (int tried = 0; tried < 2; tried++) {
        for (int i = 0; i < 2; i++) {
            CHECK((tried == i ? f.mutex_trylock(handle, &locked) : f.mutex_lock(handle)) ==
                  LAPI_SUCCESS);
            CHECK(locked == (tried == i ? 1 : locked) && la.lock.word == 1);
            CHECK(f.mutex_getowner(handle, &mine) == LAPI_SUCCESS && mine == 1);
        }
        awaited.value = 0;
        pauses_left = 3;
        at_pause = look_at_the_free_lock;
        CHECK(LAPI_Waitcntr(handle, &awaited, 1, NULL) == LAPI_SUCCESS && pauses_left == 0);
        at_pause = NULL;
        CHECK(la.lock.depth == 2 && la.lock.program_depth == 2 && !la_may_wait());
        CHECK(f.mutex_unlock(handle) == LAPI_SUCCESS && la.lock.word == 1);
        CHECK(f.mutex_unlock(handle) == LAPI_SUCCESS && la.lock.word == 0);
        CHECK(la.lock.depth == 0 && la.lock.program_depth == 0 && la.lock.owner == NULL);
    }
    la.lock.word = 1; /* another thread has it */
    la.lock.owner = &other;
    CHECK(f.mutex_trylock(handle, &locked) == LAPI_SUCCESS && locked == 0);
    CHECK(f.mutex_getowner(handle, &mine) == LAPI_SUCCESS && mine == 0);
    CHECK(la.lock.word == 1 && la.lock.owner == &other && la.lock.program_depth == 0);
    la.lock.word = 0;
    la.lock.owner = NULL;
    CHECK(f.mutex_lock(handle) == LAPI_SUCCESS && LAPI_Probe(handle) == LAPI_SUCCESS);
    ends = ALL; /* the end releases it */
    settle();
    CHECK(LAPI_Term(handle) == LAPI_SUCCESS && la.lock.word == 0 && la.lock.program_depth == 0);
    CHECK(nothing_is_left(0, lowest_free_fd()));
}

static void release_lock(void)
{
    CHECK(la.lock.waiters == 1 && la.lock.word == 1);
    la.lock.word = 0;
}

static void serve_at_last(void)
{
    CHECK(la.lock.word == 0 && la.lock.owner == NULL);
    if (--pauses_left == 0)
        la.lock.served++;
}

/* Who waits for the lock sleeps, is woken, and gets it from a call that polls for long. */
static void threads_wait_for_the_lock(void)
{
    begin();
    uint32_t served = la.lock.served;
    la.lock.word = 1;
    at_futex_wait = release_lock;
    num_wakes = 0;
    CHECK(LAPI_Probe(handle) == LAPI_SUCCESS && la.lock.word == 0 && la.lock.waiters == 0);
    CHECK(la.lock.served == served + 1 && num_wakes == 0);
    at_futex_wait = NULL;
    la.lock.waiters = 1;
    CHECK(LAPI_Probe(handle) == LAPI_SUCCESS && num_wakes > 0);
    at_yield = serve_at_last;
    for (int how = 0; how < 3; how++) { /* served, not served, in a handler */
        pauses_left = how == 0 ? 3 : 0;
        la_lock();
        la.dispatching = how == 2;
        num_yields = 0;
        la_lock_yield_if_contended();
        CHECK(num_yields == (how == 0 ? 3 : how == 1 ? 1000 : 0));
        CHECK(la.lock.word == 1 && la.lock.depth == 1);
        la.dispatching = false;
        la_unlock();
    }
    la.lock.waiters = 0;
    num_yields = 0;
    la_lock();
    la_lock_yield_if_contended();
    la_unlock();
    CHECK(num_yields == 0);
    at_yield = NULL;
    end();
}

/*
 * Counters, the environment, and the parts of the memory
 */

static void counters_count(void)
{
    lapi_msg_info_t said;
    int value = 77;

    begin();
    CHECK(LAPI_Setcntr(handle, NULL, 1) == LAPI_ERR_CNTR_NULL);
    CHECK(LAPI_Setcntr(handle, &cntr, -1) == LAPI_ERR_CNTR_VAL);
    CHECK(LAPI_Setcntr(handle + 1, &cntr, 1) == LAPI_ERR_HNDL_INVALID);
    CHECK(LAPI_Setcntr(handle, &cntr, 0) == LAPI_SUCCESS && cntr.value == 0);
    CHECK(LAPI_Setcntr(handle, &cntr, 5) == LAPI_SUCCESS && cntr.value == 5);
    CHECK(LAPI_Getcntr(handle, NULL, &value) == LAPI_ERR_CNTR_NULL && value == 77);
    CHECK(LAPI_Getcntr(handle, &cntr, NULL) == LAPI_ERR_RET_PTR_NULL);
    CHECK(LAPI_Getcntr(handle + 1, &cntr, &value) == LAPI_ERR_HNDL_INVALID);
    num_polls = 0;
    CHECK(LAPI_Getcntr(handle, &cntr, &value) == LAPI_SUCCESS && value == 5 && num_polls == 1);
    CHECK(LAPI_Probe(handle) == LAPI_SUCCESS && num_polls == 2);
    CHECK(LAPI_Waitcntr(handle, NULL, 1, &value) == LAPI_ERR_CNTR_NULL);
    CHECK(LAPI_Waitcntr(handle, &cntr, -1, &value) == LAPI_ERR_CNTR_VAL);
    CHECK(LAPI_Waitcntr(handle + 1, &cntr, 1, &value) == LAPI_ERR_HNDL_INVALID);
    la.dispatching = true;
    CHECK(LAPI_Waitcntr(handle, &cntr, 1, &value) == LAPI_ERR_IN_HNDLR);
    la.dispatching = false;
    CHECK(LAPI_Waitcntr(handle, &cntr, 3, &value) == LAPI_SUCCESS && value == 2 && cntr.value == 2);
    CHECK(LAPI_Waitcntr(handle, &cntr, 2, NULL) == LAPI_SUCCESS && cntr.value == 0);
    CHECK(LAPI_Waitcntr(handle, &cntr, 0, &value) == LAPI_SUCCESS && value == 0);
    CHECK(LAPI_Msgpoll(handle, 1, NULL) == LAPI_ERR_MSG_INFO_NULL);
    CHECK(LAPI_Msgpoll(handle + 1, 1, &said) == LAPI_ERR_HNDL_INVALID);
    num_polls = 0;
    CHECK(LAPI_Msgpoll(handle, 3, &said) == LAPI_SUCCESS && num_polls == 3);
    CHECK(said.status == LAPI_DISP_CNTR && la.lock.word == 0);
    end();
}

static void polls_tell_what_has_completed(void)
{
    lapi_msg_info_t said;

    for (int kinds = 1; kinds <= 3; kinds++) {
        begin();
        struct la_peer *peer = connect_to(TO);
        if (kinds & 1) { /* a message that waits for a slot gets one */
            peer->lane_used = peer->lane_freed + LA_LANE_SLOTS;
            CHECK(put_word(NULL) == LAPI_SUCCESS && peer->queued);
            played_words(TO)->freed[0] = peer->lane_used;
            end_flying(0, UTOFU_SUCCESS);
        }
        if (kinds & 2) {
            struct la_record *at = own_slot(0);
            *at = good;
            at->tgt_addr = (uintptr_t)data;
            put_arrives((uint8_t *)at + LA_SHORT_HEADER_SIZE + 8);
        }
        CHECK(LAPI_Msgpoll(handle, 10, &said) == LAPI_SUCCESS);
        if (kinds == 3 && said.status != LAPI_BOTH_COMPLETE) { /* one call after the other */
            CHECK(said.status == LAPI_RECV_COMPLETE || said.status == LAPI_SEND_COMPLETE);
            CHECK(LAPI_Msgpoll(handle, 10, &said) == LAPI_SUCCESS);
            CHECK(said.status == LAPI_RECV_COMPLETE || said.status == LAPI_SEND_COMPLETE);
        } else {
            CHECK(said.status == (lapi_msg_state_t)kinds);
        }
        settle();
        end();
    }
}

static void parts_of_the_memory(void)
{
    uint32_t index = 0, at = 0;

    begin();
    CHECK(la_slot_stadd(id_of(RANK), 7) == (uintptr_t)la.control.inbox[7]);
    CHECK(la_reply_stadd(id_of(RANK), 5, 8) == (uintptr_t)&la.control.replies[5].cmpl);
    CHECK(la_assist_report_stadd(id_of(RANK), 3) == (uintptr_t)&la.control.assist_reports[3]);
    utofu_stadd_t inbox = la_slot_stadd(id_of(RANK), 0),
                  replies = la_reply_stadd(id_of(RANK), 0, 0);
    utofu_stadd_t reports = la_assist_report_stadd(id_of(RANK), 0), end_of_all = reports + 256 * 8;
    CHECK(inbox % 4096 == 0 && replies == inbox + LA_NUM_SLOTS * LA_SLOT_SIZE);
    CHECK(reports == replies + LA_NUM_REQS * LA_REPLY_SIZE);
    CHECK(is_registered(inbox, end_of_all - inbox));
    CHECK(la_control_find_part(inbox, &index, &at) == LA_IN_OTHER);
    CHECK(la_control_find_part(inbox + 1, &index, &at) == LA_IN_SLOT && index == 0);
    CHECK(la_control_find_part(inbox + 2048, &index, &at) == LA_IN_SLOT && index == 0);
    CHECK(la_control_find_part(inbox + 2049, &index, &at) == LA_IN_SLOT && index == 1);
    CHECK(la_control_find_part(replies, &index, &at) == LA_IN_SLOT && index == LA_NUM_SLOTS - 1);
    CHECK(la_control_find_part(replies + 1, &index, &at) == LA_IN_REPLY && index == 0 && at == 1);
    CHECK(la_control_find_part(reports, &index, &at) == LA_IN_REPLY && index == 1023 && at == 128);
    CHECK(la_control_find_part(reports + 1, &index, &at) == LA_IN_ASSIST_REPORTS && index == 0);
    CHECK(la_control_find_part(end_of_all, &index, &at) == LA_IN_ASSIST_REPORTS && index == 255);
    CHECK(la_control_find_part(end_of_all + 1, &index, &at) == LA_IN_OTHER);
    end();
}

static void the_environment_is_told(void)
{
    int value;
    lapi_long_t address;
    void *set;

    begin();
    const int wanted[LAST_QUERY] = {[TASK_ID] = RANK,
                                    [NUM_TASKS] = PROCS,
                                    [MAX_UHDR_SZ] = 1408,
                                    [MAX_DATA_SZ] = 2147483647,
                                    [MAX_PKT_SZ] = 1976,
                                    [ERROR_CHK] = 1,
                                    [TIMEOUT] = 30,
                                    [INTERRUPT_SET] = 1,
                                    [LOC_ADDRTBL_SZ] = LAPI_ADDRTBL_SZ,
                                    [EPOCH_NUM] = (int)handle,
                                    [NUM_LOST] = 0};
    for (int query = 0; query < LAST_QUERY; query++) {
        CHECK(LAPI_Qenv(handle, (lapi_query_t)query, &value) == LAPI_SUCCESS);
        CHECK(value == wanted[query]);
        int rc =
            query == ERROR_CHK || query == INTERRUPT_SET ? LAPI_ERR_SET_VAL : LAPI_ERR_QUERY_TYPE;
        CHECK(LAPI_Senv(handle, (lapi_query_t)query, 2) == rc &&
              LAPI_Senv(handle, (lapi_query_t)query, -1) == rc);
    }
    CHECK(LAPI_Qenv(handle, LAST_QUERY, &value) == LAPI_ERR_QUERY_TYPE);
    CHECK(LAPI_Qenv(handle, (lapi_query_t)-1, &value) == LAPI_ERR_QUERY_TYPE);
    CHECK(LAPI_Qenv(handle, TASK_ID, NULL) == LAPI_ERR_RET_PTR_NULL);
    CHECK(LAPI_Qenv(handle + 1, TASK_ID, &value) == LAPI_ERR_HNDL_INVALID);
    CHECK(LAPI_Senv(handle + 1, ERROR_CHK, 0) == LAPI_ERR_HNDL_INVALID);
    CHECK(LAPI_Senv(handle, ERROR_CHK, 0) == LAPI_SUCCESS);
    CHECK(LAPI_Qenv(handle, ERROR_CHK, &value) == LAPI_SUCCESS && value == 0);
    la.dispatching = true;
    CHECK(LAPI_Senv(handle, INTERRUPT_SET, 0) == LAPI_ERR_IN_HNDLR && num_threads == 1);
    la.dispatching = false;
    for (int index = -1; index <= LAPI_ADDRTBL_SZ; index++) {
        bool fine = index >= 1 && index < LAPI_ADDRTBL_SZ;
        CHECK(LAPI_Addr_set(handle, data + index, index) ==
              (fine ? LAPI_SUCCESS : LAPI_ERR_ADDR_HNDL_RANGE));
        CHECK(LAPI_Addr_get(handle, &set, index) ==
              (fine ? LAPI_SUCCESS : LAPI_ERR_ADDR_HNDL_RANGE));
        CHECK(!fine || set == data + index);
    }
    CHECK(LAPI_Addr_get(handle, NULL, 1) == LAPI_ERR_RET_PTR_NULL);
    CHECK(LAPI_Addr_set(handle + 1, data, 1) == LAPI_ERR_HNDL_INVALID);
    CHECK(LAPI_Address(data, NULL) == LAPI_ERR_RET_PTR_NULL);
    CHECK(LAPI_Address(data, &address) == LAPI_SUCCESS && address == (uintptr_t)data);
    CHECK(la.lock.word == 0);
    end();
}

static void utilities_are_called(void)
{
    lapi_util_t util = {.Pvo = {.Util_type = LAPI_XLATE_ADDRESS, .address = data}};

    begin();
    CHECK(LAPI_Util(handle, NULL) == LAPI_ERR_RET_PTR_NULL);
    CHECK(LAPI_Util(handle + 1, &util) == LAPI_ERR_HNDL_INVALID);
    CHECK(LAPI_Util(handle, &util) == LAPI_SUCCESS && util.Pvo.usr_pvo == (uintptr_t)data);
    util.Pvo.address = NULL;
    CHECK(LAPI_Util(handle, &util) == LAPI_ERR_ORG_ADDR_NULL);
    util.Pvo.operation = LAPI_RDMA_RELEASE;
    CHECK(LAPI_Util(handle, &util) == LAPI_SUCCESS);
    util.Pvo.operation = (lapi_rdma_req_t)(LAPI_RDMA_RELEASE + 1);
    CHECK(LAPI_Util(handle, &util) == LAPI_ERR_UTIL_CMD);
    for (int dest = -1; dest <= PROCS; dest++) {
        util.Rcxt =
            (lapi_remote_cxt_t){.Util_type = LAPI_REMOTE_RCXT, .dest = dest, .usr_rcxt = 99};
        CHECK(LAPI_Util(handle, &util) ==
              (dest < 0 || dest == PROCS ? LAPI_ERR_TGT : LAPI_SUCCESS));
        CHECK(util.Rcxt.usr_rcxt == (dest < 0 || dest == PROCS ? 99u : (unsigned int)dest));
    }
    util.Rcxt = (lapi_remote_cxt_t){
        .Util_type = LAPI_REMOTE_RCXT, .dest = 2, .usr_rcxt = 99, .operation = LAPI_RDMA_RELEASE};
    CHECK(LAPI_Util(handle, &util) == LAPI_SUCCESS && util.Rcxt.usr_rcxt == 99);
    util.Rcxt.operation = (lapi_rdma_req_t)(LAPI_RDMA_RELEASE + 1);
    CHECK(LAPI_Util(handle, &util) == LAPI_ERR_UTIL_CMD);
    util.Util_type = LAPI_LAST_UTIL;
    CHECK(LAPI_Util(handle, &util) == LAPI_ERR_UTIL_CMD && la.lock.word == 0);
    end();
}

static void addresses_are_exchanged(void)
{
    lapi_long_t all[PROCS];

    for (uint32_t rank = 0; rank < PROCS; rank++)
        for (uint32_t i = 0; i < PROCS; i++)
            played_tables[rank][i] = 1000 + (rank + i) % PROCS;
    begin();
    ends = ALL;
    int regions_before = num_regions();
    fail_memory = 0;
    CHECK(LAPI_Address_init64(handle, 1000 + RANK, all) == LAPI_ERR_MEMORY_EXHAUSTED);
    fail_memory = NONE;
    for (int i = 0; i < 2; i++) {
        memset(all, 0, sizeof(all));
        CHECK(LAPI_Address_init64(handle, 1000 + RANK, all) == LAPI_SUCCESS);
        for (uint32_t rank = 0; rank < PROCS; rank++)
            CHECK(all[rank] == 1000 + rank);
        CHECK(num_regions() == regions_before + 1);
    }
    CHECK(LAPI_Address_init64(handle, 1, NULL) == LAPI_ERR_ADDR_TBL_NULL);
    CHECK(LAPI_Address_init64(handle + 1, 1, all) == LAPI_ERR_HNDL_INVALID);
    la.dispatching = true;
    CHECK(LAPI_Address_init64(handle, 1, all) == LAPI_ERR_IN_HNDLR);
    la.dispatching = false;
    ends = ATOMICS;
    la_watch_set_gone(3, "the test says so");
    settle();
    CHECK(LAPI_Address_init64(handle, 1000 + RANK, all) == LAPI_ERR_TIMEOUT);
    CHECK(la.lock.word == 0);
    end();
}

static void codes_have_texts(void)
{
    char text[LAPI_MAX_ERR_STRING], before[LAPI_MAX_ERR_STRING] = "";

    for (int code = LAPI_ERR_ALL_HNDL_IN_USE - 2; code <= LAPI_ERR_CODE_END; code++) {
        memset(text, 0, sizeof(text));
        int rc = LAPI_Msg_string(code, text);
        bool fine = code >= LAPI_ERR_ALL_HNDL_IN_USE - 1 && code < LAPI_ERR_CODE_END;
        if (code == LAPI_ERR_ALL_HNDL_IN_USE - 1)
            fine = rc == LAPI_SUCCESS; /* LAPI_ERR_HNDL_INVALID, perhaps */
        CHECK((rc == LAPI_SUCCESS) == fine && (!fine || (text[0] && strcmp(text, before) != 0)));
        memcpy(before, text, sizeof(text));
        if (!fine) { /* the code itself is said */
            char number[64];
            snprintf(number, sizeof(number), "%d: there is no such code", code);
            CHECK(rc == LAPI_ERR_MSG_STRING && strstr(text, number) == text);
        }
    }
    CHECK(LAPI_Msg_string(LAPI_SUCCESS, text) == LAPI_SUCCESS && text[0]);
    CHECK(LAPI_Msg_string(LAPI_ERR_TGT, NULL) == LAPI_ERR_RET_PTR_NULL);
}

/* A message has about eight chunks of 256 KiB to 1 MiB. */
static void chunks_have_sizes(void)
{
    static const struct {
        uint64_t length, size;
        uint32_t num;
    } cases[] = {
        {1, 256 << 10, 1},       {256 << 10, 256 << 10, 1},     {(256 << 10) + 1, 256 << 10, 2},
        {2 << 20, 256 << 10, 8}, {(2 << 20) + 8, 512 << 10, 5}, {4 << 20, 512 << 10, 8},
        {6 << 20, 768 << 10, 8}, {8 << 20, 1 << 20, 8},         {(8 << 20) + 8, 1 << 20, 9},
        {64 << 20, 1 << 20, 64}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        CHECK(la_chunk_size(cases[i].length) == cases[i].size &&
              la_num_chunks(cases[i].length) == cases[i].num);
    CHECK(la_chunk_size(0) == 256 << 10);
}

/* A handler of the program is found by its place in it, and only where there is code. */
static void handlers_are_encoded(void)
{
    static char no_code[16];
    const uintptr_t code = (uintptr_t)&handlers_are_encoded;
    uint64_t encoded = 0, other = 0;
    struct la_record rec = {0};

    CHECK(la_hdr_handlers_encode(code, &encoded));
    CHECK(la_hdr_handlers_encode(code + 16, &other) && other == encoded + 16);
    rec.tgt_addr = encoded;
    hdr_hndlr_t *found = la_hdr_handlers_find(&rec);
    CHECK(memcmp(&found, &code, sizeof(code)) == 0);
    CHECK(!la_hdr_handlers_encode((uintptr_t)no_code, &encoded));
    CHECK(!la_hdr_handlers_encode(0, &encoded) && !la_hdr_handlers_encode(UINTPTR_MAX, &encoded));
    rec.tgt_addr = encoded;
    CHECK(la_hdr_handlers_find(&rec) == NULL);
}

/* Errors are told one after the other, also by a handler that finds more. */
static void errors_are_told(void)
{
    begin();
    la_lock();
    for (int i = 0; i < 100; i++)
        la_report_error(LAPI_ERR_TGT_ADDR, (uint32_t)i % PROCS);
    la_unlock();
    CHECK(num_errors == 0);
    progress();
    CHECK(num_errors == 100 && last_source == 99 % PROCS && la.errors.num_reports == 0);
    la.dispatching = true;
    la_report_error(LAPI_ERR_TGT, 3);
    la_errors_call_handler();
    CHECK(num_errors == 100);
    la.dispatching = false;
    progress();
    CHECK(num_errors == 101 && last_error == LAPI_ERR_TGT && last_source == 3);
    CHECK(!la_errors_pending(0) && LAPI_Waitcntr(handle, &cntr, 0, NULL) == LAPI_SUCCESS);
    la_lock();
    while (la.errors.num_reports < la.errors.max_reports)
        la_report_error(LAPI_ERR_TGT_ADDR, 0);
    fail_memory = 0;
    la_report_error(LAPI_ERR_TGT, 4);
    fail_memory = NONE;
    la_unlock();
    CHECK(lines == 1 && strstr(line, "no memory to report error 405 of a message of task 4"));
    progress();
    CHECK(last_source == 0);
    end();
    begin(); /* without an error handler */
    la.errors.handler = NULL;
    la_report_failure(LAPI_ERR_TGT, 4);
    CHECK(la_errors_pending(0));
    progress();
    CHECK(num_errors == 0 && LAPI_Waitcntr(handle, &cntr, 1, NULL) == LAPI_ERR_TGT);
    CHECK(!la_errors_pending(la.errors.num_failures));
    end();
}

static int most_blocked;

static void note_blocked(void)
{
    if (la.cmpl_thread.blocked_handlers > most_blocked)
        most_blocked = la.cmpl_thread.blocked_handlers;
    raise_at_last();
}

static void wait_in_handler(lapi_handle_t *hndl, void *arg)
{
    (void)arg;
    CHECK(la_cmpl_thread_is_self());
    CHECK(LAPI_Waitcntr(*hndl, &awaited, 1, NULL) == LAPI_SUCCESS);
    num_handler_calls++;
}

static void handlers_may_wait(void)
{
    struct la_record rec = {.kind = LA_AM, .rank = TO, .tgt_addr = 7};

    begin_receiving();
    header_handler = wait_in_handler;
    header_ret = LAPI_NORMAL;
    receive(&rec, NULL, 0);
    most_blocked = awaited.value = 0;
    pauses_left = 3;
    at_pause = note_blocked;
    run_handlers();
    at_pause = NULL;
    CHECK(num_handler_calls == 1 && most_blocked >= 1 && la.cmpl_thread.blocked_handlers == 0);
    CHECK(!la_cmpl_thread_is_self() && !la_cmpl_handler_waits());
    end();
}

/* LAPI_SHUFFLE: in another order, but all. */
static void shuffled_records_arrive(void)
{
    struct la_record rec = good;
    lapi_cntr_t tgt = {0};

    setenv("LAPI_SHUFFLE", "3", 1);
    begin_receiving();
    unsetenv("LAPI_SHUFFLE");
    CHECK(la.dispatch.shuffle != 0);
    for (uint32_t i = 0; i < 32; i++) {
        rec.tgt_addr = (uintptr_t)(data + 8 * i);
        rec.tgt_cntr = (uintptr_t)&tgt;
        receive(&rec, &rec, 8);
    }
    for (int i = 0; i < 100; i++)
        progress();
    CHECK(tgt.value == 32 && la.control.words->freed[0] == 32 && la.dispatch.num_ready == 0);
    int waited = 0; /* also those that are found in memory, which wait at times */
    for (uint32_t i = 0; i < 64; i++) {
        struct la_record *at = own_slot((32 + i) % LA_LANE_SLOTS);
        int before = tgt.value;
        *at = (struct la_record){.kind = LA_PUT, .flags = LA_INLINE, .rank = TO, .seq = 33 + i};
        at->tgt_cntr = (uintptr_t)&tgt;
        for (int polls = 0; tgt.value == before && polls < 1000; polls++) {
            la_lock();
            la_progress();
            la_unlock();
            waited += tgt.value == before;
        }
        put_arrives((uint8_t *)at + 64);
        progress();
    }
    CHECK(waited > 0 && tgt.value == 96);
    end();
}

static void what_programs_ask(void)
{
    counters_count();
    polls_tell_what_has_completed();
    parts_of_the_memory();
    the_environment_is_told();
    utilities_are_called();
    addresses_are_exchanged();
    codes_have_texts();
    chunks_have_sizes();
    handlers_are_encoded();
    errors_are_told();
    handlers_may_wait();
    shuffled_records_arrive();
}

static void how_calls_wait(void)
{
    waiting_calls_sleep();
    the_interrupt_thread_polls();
    fences_wait_for_slots();
    fences_wait_for_little();
    barriers_of_tasks_that_are_gone();
    programs_hold_the_lock();
    threads_wait_for_the_lock();
}

int main(void)
{
    data = mmap(NULL, BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(data != MAP_FAILED);
    num_maps = 0;
    starts_fail_everywhere();
    arguments_of_init();
    records_have_forms();
    long_headers_say_what_replies_are_for();
    private_lanes_are_full();
    tickets_of_the_shared_lane();
    inline_buffers_run_out();
    full_queues_are_waited_for();
    gets_bring_bytes();
    atomics_bring_old_values();
    records_are_checked();
    short_messages_arrive();
    messages_without_a_handler_are_refused();
    atomics_are_executed();
    short_gets_are_answered();
    large_messages_go_in_fragments();
    fragments_fail();
    vectors_arrive();
    records_are_executed_in_order();
    queues_go_in_batches();
    records_in_memory_are_checked();
    notices_and_lanes();
    arguments_are_checked();
    active_messages_of_each_kind();
    transfers_of_each_kind();
    transfers_of_handles();
    vectors_are_sent();
    vectors_are_checked();
    vectors_of_xfer();
    waiting_messages_keep_their_bytes();
    handlers_send_first();
    requests_run_out();
    handlers_wait_for_requests();
    handlers_have_operations();
    handlers_that_wait_get_an_entry();
    reports_of_chunks();
    requests_are_told_apart();
    tasks_are_probed_in_turn();
    messages_to_gone_tasks_end();
    purged_tasks_get_nothing();
    tasks_are_found_by_their_partners();
    origins_put_chunks();
    help_is_not_always_wanted();
    targets_claim_chunks();
    targets_get_new_addresses();
    registrations_are_kept();
    memory_that_is_only_read();
    entries_run_out();
    progress_polls_from_time_to_time();
    notices_follow_records();
    records_wait_for_entries();
    how_calls_wait();
    what_programs_ask();
    return 0;
}
