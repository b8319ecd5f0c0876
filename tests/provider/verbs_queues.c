/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues of an endpoint, queue pairs, receives and memory regions (data/queues.c, qp.c, recvs.c and
 * mr.c), without a device: what is asked of it, within its limits, and what is given back when a
 * call fails. This file replaces libibverbs.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/probe.h"
#include "util/clock.h"
#include "util/fd_check.h"
#include "verbs/connect/cm_ops.h"
#include "verbs/data/mr.h"
#include "verbs/data/qp.h"
#include "verbs/data/queues.h"
#include "verbs/data/recvs.h"
#include "verbs/ports/device.h"
#include "verbs/ports/ece.h"
#include "verbs/ports/order.h"
#include "verbs/ports/qp_budget.h"
#include "verbs/wake.h"
#include "noted_lines.h"
#include "steps.h"
#include "failing_calls.h"

enum { RAIL = 3, PD_KEY = 70 };

/*
 * What may fail, and what exists
 */

static int cqs, srqs, qps, mrs;

static void *get_one(size_t size)
{
    if (fails("malloc"))
        return NULL;
    blocks++;
    return malloc(size);
}

static int get_pages(void **at, size_t alignment, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    CHECK(alignment == page && size % page == 0 && size > 0);
    if (fails("posix_memalign") || posix_memalign(at, alignment, size))
        return ENOMEM;
    blocks++;
    return 0;
}

static int tables;

static void free_table(struct ut_hash_table *table)
{
    tables -= table->buckets != NULL;
    ut_hash_free(table);
}

/*
 * The device
 */

static struct ibv_device fake_device = {.name = "fake0"};
static struct ibv_context context = {.device = &fake_device};
static struct ibv_pd pd = {.context = &context};
static struct ibv_comp_channel channel;
static struct vp_prov prov_here;
static struct vp_port own_port;
static struct vp_device *const own_dev = &prov_here.devices[0];
static struct vp_ep own_ep;

static int last_vector, last_resized, wanted_receives;
static struct ibv_qp_init_attr_ex last_attr;
static bool are_ours, were_closed, is_mapped;

struct ibv_cq *ibv_create_cq(struct ibv_context *c, int cqe, void *arg, struct ibv_comp_channel *ch,
                             int vector)
{
    struct ibv_cq *cq = fails("ibv_create_cq") ? NULL : calloc(1, sizeof(*cq));

    CHECK(c == &context && arg == &own_ep && ch == &channel);
    last_vector = vector;
    step("cq%d ", cqe);
    cqs += cq != NULL;
    return cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
    free(cq);
    cqs--;
    return 0;
}

int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
    CHECK(cq);
    if (fails("ibv_resize_cq"))
        return ENOMEM;
    last_resized = cqe;
    return 0;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *p, struct ibv_srq_init_attr *attr)
{
    struct ibv_srq *srq = fails("ibv_create_srq") ? NULL : calloc(1, sizeof(*srq));

    CHECK(p == &pd && attr->srq_context == &own_ep && attr->attr.max_sge == 1);
    step("srq%u ", attr->attr.max_wr);
    srqs += srq != NULL;
    return srq;
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
    free(srq);
    srqs--;
    return 0;
}

int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
    CHECK(srq && mask == IBV_SRQ_LIMIT);
    step("limit%u ", attr->srq_limit);
    return fails("ibv_modify_srq") ? EINVAL : 0;
}

static struct ibv_qp *create_qp(struct ibv_context *c, struct ibv_qp_init_attr_ex *attr)
{
    CHECK(c == &context);
    last_attr = *attr;
    if (fails("ibv_create_qp_ex"))
        return NULL;
    qps++;
    return calloc(1, sizeof(struct ibv_qp));
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
    CHECK(qp);
    free(qp);
    qps--;
    return 0;
}

static struct ibv_qp_ex *extend(struct ibv_qp *qp)
{
    return (struct ibv_qp_ex *)(void *)qp;
}

static struct ibv_qp_attr modified[4]; /* to INIT, RTR, RTS and in error */
static int masks[4], num_modified, modify_error;
static enum ibv_qp_state fails_to;

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    CHECK(qp && num_modified < 4);
    modified[num_modified] = *attr;
    masks[num_modified++] = mask;
    return attr->qp_state == fails_to ? modify_error : 0;
}

static int wanted_access;

static struct ibv_mr *reg_memory(struct ibv_pd *p, void *addr, size_t size, int access)
{
    struct ibv_mr *mr = fails("ibv_reg_mr") ? NULL : calloc(1, sizeof(*mr));

    CHECK(p == &pd && size > 0);
    CHECK(wanted_access == NONE || access == wanted_access);
    if (!mr)
        return NULL;
    mrs++;
    *mr = (struct ibv_mr){.addr = addr, .length = size, .lkey = PD_KEY + (uint32_t)mrs, .rkey = 9};
    return mr;
}

static bool dereg_fails;

int ibv_dereg_mr(struct ibv_mr *mr)
{
    CHECK(mr);
    free(mr);
    mrs--;
    return dereg_fails ? EINVAL : 0;
}

static int takes_receives; /* NONE: all */

/* Receives have buffers of their own, in order. */
static int take_receives(struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    if (fails("ibv_post_recv")) {
        *bad = wr;
        return ENOMEM;
    }
    for (; wr; wr = wr->next) {
        if (takes_receives == 0) {
            *bad = wr;
            takes_receives = NONE;
            return ENOMEM;
        }
        takes_receives -= takes_receives > 0;
        CHECK(wr->num_sge == 1 && wr->sg_list->length == PROV_MSG_MAX);
        CHECK(wr->sg_list->lkey > PD_KEY && (wanted_receives == NONE || wanted_receives-- > 0));
        step("%llu ", (unsigned long long)wr->wr_id);
    }
    return 0;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    CHECK(qp);
    return take_receives(wr, bad);
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    CHECK(srq);
    return take_receives(wr, bad);
}

/*
 * The other modules
 */

static struct vp_ece known_ece; /* of queue pairs */
static int ece_error;
static unsigned int num_released, num_wakes;
static uint64_t now_ms, woken_at;

static struct vp_ece ece_of(struct ibv_qp *qp)
{
    CHECK(qp);
    return known_ece;
}

static int use_ece(struct ibv_qp *qp, const struct vp_ece *ece)
{
    CHECK(qp && ece->options);
    return ece_error;
}

static void log_nomem(const char *what, const char *name, int error)
{
    CHECK(error == ENOMEM);
    note_line(UT_LOG_ERROR, "verbs", "%s on %s", what, name);
}

static enum vp_unit unit_of(const struct vp_device *d, struct ibv_qp *qp)
{
    CHECK(d == own_dev && qp);
    return VP_UNIT_64;
}

static void release_budget(struct vp_conn *conn)
{
    CHECK(!conn->qp && pthread_mutex_trylock(&prov_here.lock) != 0);
    num_released++;
}

static void wake_later(struct vp_ep *e, uint64_t when)
{
    CHECK(e == &own_ep);
    woken_at = when;
}

static void wake_now(struct vp_ep *e)
{
    CHECK(e == &own_ep && pthread_mutex_trylock(&prov_here.lock) != 0);
    num_wakes++;
}

static uint64_t clock_now(void)
{
    return now_ms;
}

static bool check_ours(int fd)
{
    CHECK(fd == 55);
    return are_ours;
}

static bool have_been_closed(void)
{
    return were_closed;
}

static bool memory_is_mapped(const void *at, size_t size, bool write)
{
    CHECK(at);
    step("%zu%c ", size, write ? 'w' : 'r');
    return is_mapped;
}

#undef ibv_reg_mr
#define ut_hash_free             free_table
#define ibv_create_qp_ex         create_qp
#define ibv_qp_to_qp_ex          extend
#define ibv_reg_mr               reg_memory
#define ibv_post_recv            post_recv
#define ibv_post_srq_recv        post_srq_recv
#define vp_ece_of                ece_of
#define vp_ece_use               use_ece
#define vp_log_nomem             log_nomem
#define vp_qp_unit               unit_of
#define vp_budget_release_locked release_budget
#define vp_ep_wake_later         wake_later
#define vp_wake_locked           wake_now
#define ut_clock_ms              clock_now
#define ut_fd_check_still_ours   check_ours
#define ut_fd_were_closed        have_been_closed
#define prov_memory_is_mapped    memory_is_mapped
#define calloc                   get_memory
#define malloc                   get_one
#define posix_memalign           get_pages
#define free                     give_memory
#include "../../provider/verbs/data/mr.c"
#include "../../provider/verbs/data/qp.c"
#include "../../provider/verbs/data/queues.c"
#include "../../provider/verbs/data/recvs.c"
#undef calloc
#undef malloc
#undef free
#undef posix_memalign

static void reset(bool shared)
{
    memset(&prov_here, 0, sizeof(prov_here));
    pthread_mutex_init(&prov_here.lock, NULL);
    prov_here.epoll_fd = 55;
    prov_here.config.local_rank = 5;
    prov_here.tuning = (struct vp_tuning){
        .sq_depth = 128, .srq_depth = 512, .rq_depth = 96, .timeout = 14, .retry_count = 6};
    *own_dev = (struct vp_device){.context = &context,
                                  .pd = &pd,
                                  .channel = &channel,
                                  .has_srq = shared,
                                  .has_wr_api = true,
                                  .max_inline = 220,
                                  .attr = {.max_cqe = 1 << 22,
                                           .max_qp_wr = 1 << 14,
                                           .max_srq_wr = 1 << 14,
                                           .max_qp_rd_atom = 8,
                                           .max_qp_init_rd_atom = 4,
                                           .atomic_cap = IBV_ATOMIC_HCA}};
    context.num_comp_vectors = 4;
    own_port = (struct vp_port){
        .dev = own_dev, .max_msg = 1 << 30, .mtu = IBV_MTU_2048, .name = "fake0:1"};
    memset(&own_ep, 0, sizeof(own_ep));
    own_ep.prov = &prov_here;
    own_ep.port = &own_port;
    vp_list_init(&own_ep.service_list);
    fail_at = wanted_access = takes_receives = wanted_receives = NONE;
    num_modified = modify_error = ece_error = 0;
    fails_to = IBV_QPS_UNKNOWN;
    known_ece = (struct vp_ece){0};
    num_released = num_wakes = 0;
    woken_at = 0;
    now_ms = 1000;
    are_ours = is_mapped = true;
    were_closed = dereg_fails = false;
    lines[0] = steps[0] = failed_call[0] = '\0';
}

static void check_nothing_left(void)
{
    if (cqs || srqs || qps || mrs || blocks)
        printf("after %s: %d CQs, %d SRQs, %d QPs, %d MRs, %d blocks\n", failed_call, cqs, srqs,
               qps, mrs, blocks);
    CHECK(!cqs && !srqs && !qps && !mrs && !blocks);
}

/*
 * Queues of an endpoint
 */

/* Each call that may fail does so once: its code, and nothing is left. */
static void opening_fails_everywhere(bool shared, const char *wanted)
{
    char got[1024] = "";

    for (int n = 0;; n++) {
        reset(shared);
        fail_at = n;
        int rc = vp_queues_open(&own_ep, 100);
        bool has_failed = fail_at == NONE;
        fail_at = NONE;
        CHECK(rc == 0 || rc == -ENOMEM);
        CHECK(rc || (own_ep.send_cq && own_ep.recv_cq && !own_ep.srq == !shared &&
                     own_ep.bounce_mr && own_ep.chain));
        vp_queues_close(&own_ep);
        check_nothing_left();
        if (!has_failed)
            break;
        size_t used = strlen(got);
        snprintf(got + used, sizeof(got) - used, "%s%s ", failed_call, rc ? "!" : "");
    }
    if (strcmp(got, wanted) != 0)
        printf("wanted: %s\ngot:    %s\n", wanted, got);
    CHECK(strcmp(got, wanted) == 0);
}

static void queues_have_sizes(void)
{
    static const struct {
        unsigned int depth;
        int max_cqe;
        uint32_t size, wanted;
    } cases[] = {{24, 1 << 22, 72, 69},
                 {100, 1 << 22, 300, 288},
                 {2048, 1 << 22, 6144, 5888},
                 {2049, 1 << 22, 6145, 5889},
                 {100, 300, 300, 288},
                 {100, 299, 299, 287},
                 {1 << 20, 1 << 22, 1052672, 1008811},
                 {(1 << 20) + 1, 1 << 22, 1052672, 1008811}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        reset(true);
        own_dev->attr.max_cqe = cases[i].max_cqe;
        CHECK(vp_queues_open(&own_ep, cases[i].depth) == 0);
        if (own_ep.cq_size != cases[i].size || own_ep.cq_wanted != cases[i].wanted)
            printf("%u: %u, %u\n", cases[i].depth, own_ep.cq_size, own_ep.cq_wanted);
        CHECK(own_ep.cq_size == cases[i].size && own_ep.cq_wanted == cases[i].wanted);
        CHECK(own_ep.room == own_ep.cq_size && own_ep.room_msgs == own_ep.cq_size / 8);
        CHECK(own_ep.room_signal == own_ep.cq_size / 2 && own_ep.room_inline == own_ep.cq_size / 2);
        CHECK(own_ep.max_inline == 220 && own_ep.max_msg == 1 << 30 &&
              own_ep.bounce_count == VP_BOUNCE_SLOTS);
        for (unsigned int k = 0; k < VP_BOUNCE_SLOTS; k++)
            CHECK(own_ep.bounce_free[k] == k);
        CHECK(ut_hash_reserve(&own_ep.by_qp) && ut_hash_reserve(&own_ep.by_origin));
        tables = 2;
        CHECK(own_ep.bounce_mr->length >= (VP_BOUNCE_SLOTS + 1) * (size_t)PROV_MSG_MAX);
        vp_queues_close(&own_ep);
        CHECK(tables == 0);
        check_nothing_left();
    }
}

/* Half of a long send queue is for a peer that is not busy. */
static void send_queues_have_lengths(void)
{
    static const struct {
        unsigned int wanted;
        int max;
        uint32_t depth, first, signal;
    } cases[] = {{128, 128, 128, 63, 32},  {129, 128, 128, 63, 32},  {128, 127, 127, 63, 31},
                 {63, 128, 63, 63, 15},    {64, 128, 64, 31, 16},    {65, 128, 65, 32, 16},
                 {255, 999, 255, 127, 63}, {256, 999, 256, 127, 64}, {260, 999, 260, 129, 64},
                 {8, 999, 8, 8, 2}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        reset(true);
        prov_here.tuning.sq_depth = cases[i].wanted;
        own_dev->attr.max_qp_wr = cases[i].max;
        CHECK(vp_queues_open(&own_ep, 100) == 0);
        CHECK(own_ep.sq_depth == cases[i].depth && own_ep.sq_first == cases[i].first);
        CHECK(own_ep.signal_every == cases[i].signal);
        CHECK(vp_sq_depth(&own_ep, 0) == cases[i].first &&
              vp_sq_depth(&own_ep, 5) == cases[i].first);
        vp_sq_mark_busy(&own_ep, 5);
        CHECK(vp_sq_depth(&own_ep, 5) == cases[i].depth &&
              vp_sq_depth(&own_ep, 4) == cases[i].first);
        vp_sq_mark_busy(&own_ep, 0);
        CHECK(vp_sq_depth(&own_ep, 0) == cases[i].depth &&
              vp_sq_depth(&own_ep, 5) == cases[i].depth);
        vp_queues_close(&own_ep);
    }
}

static void receive_queues_have_sizes(void)
{
    static const struct {
        bool shared;
        unsigned int wanted;
        int max_cqe, max_wr;
        const char *asked;
        uint32_t room;
    } cases[] = {{true, 512, 9999, 9999, "cq300 cq512 srq512 ", 0},
                 {true, 512, 9999, 511, "cq300 cq511 srq511 ", 0},
                 {true, 512, 400, 9999, "cq300 cq400 srq400 ", 0},
                 {false, 96, 9999, 9999, "cq300 cq768 ", 768},
                 {false, 96, 768, 9999, "cq300 cq768 ", 768},
                 {false, 96, 767, 9999, "cq300 cq767 ", 767},
                 {false, 96, 9999, 50, "cq300 cq400 ", 400}};
    static const struct {
        int vectors, vector;
    } interrupts[] = {{0, 0}, {1, 0}, {2, 1}, {4, 1}, {5, 0}, {6, 5}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        reset(cases[i].shared);
        prov_here.tuning.srq_depth = prov_here.tuning.rq_depth = cases[i].wanted;
        own_dev->attr.max_cqe = cases[i].max_cqe;
        own_dev->attr.max_srq_wr = own_dev->attr.max_qp_wr = cases[i].max_wr;
        CHECK(vp_queues_open(&own_ep, 100) == 0);
        if (strncmp(steps, cases[i].asked, strlen(cases[i].asked)) != 0)
            printf("%s\n", steps);
        CHECK(strncmp(steps, cases[i].asked, strlen(cases[i].asked)) == 0);
        CHECK(own_ep.recv_room == cases[i].room && (own_ep.rq_depth != 0) == !cases[i].shared);
        if (cases[i].shared) { /* a quarter is posted, 128 at least; the owner hears of the half */
            CHECK(own_ep.recvs.depth == 128 && own_ep.recvs.posted == 128 &&
                  strstr(steps, " 127 limit64"));
            CHECK(own_ep.recvs.max_depth == own_ep.recv_cq_size);
        }
        vp_queues_close(&own_ep);
        check_nothing_left();
    }
    for (size_t i = 0; i < sizeof(interrupts) / sizeof(interrupts[0]); i++) {
        reset(true);
        context.num_comp_vectors = interrupts[i].vectors;
        CHECK(vp_queues_open(&own_ep, 100) == 0 && last_vector == interrupts[i].vector);
        vp_queues_close(&own_ep);
    }
    reset(true);
    fail_at = 0;
    CHECK(vp_queues_open(&own_ep, 100) == -ENOMEM && said("E: creating queues on fake0:1"));
    vp_queues_close(&own_ep);
}

/* Entries for the last requests of connections: when the queue grows, and when none is left. */
static void entries_are_reserved(void)
{
    static const struct {
        uint32_t room, credits, wanted;
        int max_cqe;
        bool fails, has_grown;
        uint32_t wanted_then;
        bool is_reserved;
    } cases[] = {{500, 0, 900, 9999, false, false, 900, true}, /* of 1000, 100 for messages */
                 {51, 0, 900, 9999, false, false, 900, true},
                 {50, 0, 900, 9999, false, true, 900, true}, /* messages use them */
                 {500, 99, 900, 9999, false, false, 900, true},
                 {500, 100, 900, 9999, false, true, 900, true}, /* connections do */
                 {500, 100, 0, 9999, false, false, 0, true},
                 {500, 100, 900, 9999, true, false, 0, true},
                 {500, 100, 900, 1000, false, false, 0, true},
                 {500, 100, 900, 1001, false, true, 900, true},
                 {0, 0, 0, 9999, false, false, 0, false},
                 {1, 0, 0, 9999, false, false, 0, true},
                 {200, 799, 0, 9999, false, false, 0, true},
                 {200, 800, 0, 9999, false, false, 0, false}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        reset(true);
        CHECK(vp_queues_open(&own_ep, 100) == 0);
        own_ep.cq_size = 1000;
        own_ep.room_msgs = 100;
        own_ep.room = cases[i].room;
        own_ep.credits = cases[i].credits;
        own_ep.cq_wanted = cases[i].wanted;
        own_dev->attr.max_cqe = cases[i].max_cqe;
        last_resized = 0;
        if (cases[i].fails)
            fail_at = 0;
        bool is_reserved = vp_ep_reserve_cqe(&own_ep);
        uint32_t size = !cases[i].has_grown ? 1000 : cases[i].max_cqe < 2000 ? 1001 : 2000;
        if (is_reserved != cases[i].is_reserved || own_ep.cq_size != size)
            printf("case %zu: %u entries\n", i, own_ep.cq_size);
        CHECK(is_reserved == cases[i].is_reserved && own_ep.cq_size == size);
        CHECK(own_ep.cq_wanted == cases[i].wanted_then &&
              (last_resized != 0) == cases[i].has_grown);
        CHECK(own_ep.room == cases[i].room + size - 1000 - is_reserved);
        CHECK(own_ep.credits == cases[i].credits + is_reserved);
        CHECK(!cases[i].wanted || cases[i].wanted_then || said("stays at 1000 entries: "));
        if (is_reserved)
            vp_ep_release_cqe(&own_ep);
        CHECK(own_ep.room == cases[i].room + size - 1000 && own_ep.credits == cases[i].credits);
        vp_queues_close(&own_ep);
    }
}

/*
 * Receives
 */

static void receives_are_posted_together(void)
{
    static const struct {
        uint32_t depth, posted, at;
    } cases[] = {{1, 0, 1},    {4, 0, 1},    {5, 0, 2},    {8, 0, 2},     {124, 0, 31},
                 {125, 0, 32}, {128, 0, 32}, {129, 0, 32}, {400, 64, 32}, {128, 64, 32},
                 {96, 64, 24}, {96, 72, 24}, {96, 73, 23}, {96, 95, 1},   {96, 96, 1},
                 {64, 64, 1},  {0, 0, 1},    {64, 63, 1}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (refill_at(cases[i].depth, cases[i].posted) != cases[i].at)
            printf("%u of %u\n", cases[i].depth, refill_at(cases[i].depth, cases[i].posted));
        CHECK(refill_at(cases[i].depth, cases[i].posted) == cases[i].at);
    }
    reset(false);
    struct vp_recvs recvs = {0};
    CHECK(vp_recvs_init(&own_ep, &recvs, 64, 64, 64) == 0 && recvs.refill_at == 1);
    vp_recvs_free(&recvs);
    memset(&recvs, 0, sizeof(recvs));
    CHECK(vp_recvs_init(&own_ep, &recvs, 96, 96, 73) == 0 && recvs.refill_at == 23);
    vp_recvs_free(&recvs);
    check_nothing_left();
}

/* The number of receives grows in at most three steps; each part is registered once. */
static void receives_grow(void)
{
    static const struct {
        uint32_t max, depths[4];
    } cases[] = {{512, {128, 256, 512, 512}}, {510, {128, 256, 510, 510}},
                 {520, {130, 260, 520, 520}}, {200, {128, 200, 200, 200}},
                 {257, {128, 257, 257, 257}}, {100, {100, 100, 100, 100}}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        reset(true);
        prov_here.tuning.srq_depth = cases[i].max;
        CHECK(vp_queues_open(&own_ep, 100) == 0);
        for (int k = 0; k < 4; k++) {
            CHECK(own_ep.recvs.depth == cases[i].depths[k] &&
                  own_ep.recvs.posted == cases[i].depths[k]);
            for (uint32_t r = 0; r < own_ep.recvs.depth; r++) {
                CHECK(own_ep.recvs.wrs[r].wr_id == r &&
                      own_ep.recvs.wrs[r].sg_list == &own_ep.recvs.sges[r]);
                CHECK(own_ep.recvs.sges[r].addr ==
                      (uintptr_t)own_ep.recvs.slab + r * (size_t)PROV_MSG_MAX);
                uint32_t part = r < cases[i].depths[0] ? 0 : r < cases[i].depths[1] ? 1 : 2;
                const struct ibv_mr *mr = own_ep.recvs.mrs[part];
                CHECK(mr && own_ep.recvs.sges[r].lkey == mr->lkey);
                CHECK(own_ep.recvs.sges[r].addr >= (uintptr_t)mr->addr &&
                      own_ep.recvs.sges[r].addr + PROV_MSG_MAX <= (uintptr_t)mr->addr + mr->length);
            }
            steps[0] = '\0';
            wanted_receives = k < 3 ? (int)(cases[i].depths[k + 1] - cases[i].depths[k]) : 0;
            vp_recvs_grow(&own_ep, &own_ep.recvs);
            CHECK(wanted_receives == 0);
        }
        vp_queues_close(&own_ep);
        check_nothing_left();
    }
    reset(true);
    CHECK(vp_queues_open(&own_ep, 100) == 0);
    fail_at = 0;
    vp_recvs_grow(&own_ep, &own_ep.recvs);
    CHECK(own_ep.recvs.depth == 128 && own_ep.recvs.max_depth == 128 && own_ep.recvs.posted == 128);
    CHECK(said("I: an endpoint of fake0:1 keeps 128 receives: Cannot allocate memory"));
    vp_queues_close(&own_ep);
    check_nothing_left();
}

/* Receives that the device does not take are posted with the next ones, in order. */
static void refused_receives_are_kept(void)
{
    for (int taken = 0; taken <= 4; taken++) {
        reset(false);
        struct vp_recvs recvs = {0};
        struct ibv_qp *qp = create_qp(&context, &last_attr);
        CHECK(vp_recvs_init(&own_ep, &recvs, 8, 8, 0) == 0);
        recvs.qp = qp;
        CHECK(vp_recvs_post_all(&own_ep, &recvs) == 0 && recvs.posted == 8);
        CHECK(strcmp(steps, "0 1 2 3 4 5 6 7 ") == 0);
        steps[0] = '\0';
        for (uint32_t i = 0; i < 4; i++) /* four were consumed */
            recvs.wrs[i].next = i < 3 ? &recvs.wrs[i + 1] : &recvs.wrs[7];
        recvs.completed = 4;
        recvs.first = &recvs.wrs[0];
        recvs.last = &recvs.wrs[3];
        recvs.to_post = 4;
        takes_receives = taken < 4 ? taken : NONE;
        vp_recvs_refill(&own_ep, &recvs);
        CHECK(recvs.posted == 8 + (uint64_t)taken && recvs.to_post == 4 - (uint32_t)taken);
        CHECK((own_ep.pending & VP_PEND_REFILL) == (taken < 4 ? VP_PEND_REFILL : 0));
        CHECK(woken_at == (taken < 4 ? 1010 : 0));
        if (taken == 4)
            CHECK(strcmp(steps, "0 1 2 3 ") == 0 && !lines[0]);
        else
            CHECK(said("E: posting receives on fake0:1 failed: Cannot allocate memory"));
        if (taken == 4 || taken == 0) { /* another one is consumed, and both are refused */
            recvs.completed = 5;
            if (recvs.to_post)
                recvs.last->next = &recvs.wrs[4];
            else
                recvs.first = &recvs.wrs[4];
            recvs.last = &recvs.wrs[4];
            recvs.to_post++;
        }
        vp_recvs_refill(&own_ep, &recvs);
        CHECK(recvs.to_post == 0);
        CHECK(strcmp(steps, taken == 4 || taken == 0 ? "0 1 2 3 4 " : "0 1 2 3 ") == 0);
        vp_recvs_refill(&own_ep, &recvs); /* nothing to do */
        CHECK(recvs.posted == recvs.completed + 8);
        ibv_destroy_qp(qp);
        vp_recvs_free(&recvs);
        check_nothing_left();
    }
    reset(true); /* those of a larger queue behind those that wait */
    CHECK(vp_queues_open(&own_ep, 100) == 0);
    own_ep.recvs.completed = 1;
    own_ep.recvs.first = own_ep.recvs.last = &own_ep.recvs.wrs[5];
    own_ep.recvs.to_post = 1;
    takes_receives = 126;
    vp_recvs_grow(&own_ep, &own_ep.recvs);
    CHECK(own_ep.recvs.to_post == 3 && own_ep.recvs.posted == 128 + 126 && woken_at == 1010);
    steps[0] = '\0';
    vp_recvs_refill(&own_ep, &own_ep.recvs);
    CHECK(strcmp(steps, "5 254 255 ") == 0);
    vp_queues_close(&own_ep);
    check_nothing_left();
}

/* Receives of a connection need entries of the completion queue. */
static void connections_have_receives(void)
{
    static const struct {
        uint32_t room, size;
        int max_cqe;
        bool resize_fails;
        int rc;
        uint32_t resized, room_then;
    } cases[] = {{96, 200, 9999, false, 0, 0, 0},          {97, 200, 9999, false, 0, 0, 1},
                 {95, 200, 9999, false, 0, 400, 95 + 104}, {0, 96, 9999, false, 0, 192, 0},
                 {95, 95, 9999, false, -ENOSPC, 0, 95}, /* twice as many are too few */
                 {0, 200, 296, false, 0, 296, 0},          {0, 200, 295, false, -ENOSPC, 0, 0},
                 {0, 150, 300, false, 0, 300, 54},         {0, 150, 301, false, 0, 300, 54},
                 {0, 151, 300, false, 0, 300, 53},         {7, 200, 9999, true, -ENOSPC, 0, 7}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        reset(false);
        CHECK(vp_queues_open(&own_ep, 100) == 0);
        struct vp_conn conn = {.ep = &own_ep};
        own_ep.recv_room = cases[i].room;
        own_ep.recv_cq_size = cases[i].size;
        own_dev->attr.max_cqe = cases[i].max_cqe;
        last_resized = 0;
        if (cases[i].resize_fails)
            fail_at = 0;
        int rc = vp_recvs_create(&conn);
        if (rc != cases[i].rc || own_ep.recv_room != cases[i].room_then)
            printf("case %zu: %d, %u\n", i, rc, own_ep.recv_room);
        CHECK(rc == cases[i].rc && own_ep.recv_room == cases[i].room_then);
        CHECK(last_resized == (int)cases[i].resized && !conn.recvs == (rc != 0));
        CHECK(own_ep.recv_cq_size == (cases[i].resized ? cases[i].resized : cases[i].size));
        CHECK(rc == 0 || said("I: the completion queue for receives of fake0:1 stays at "));
        vp_recvs_destroy(&conn);
        CHECK(own_ep.recv_room == cases[i].room_then + (rc ? 0 : 96) && !conn.recvs);
        vp_queues_close(&own_ep);
        check_nothing_left();
    }
    for (int i = 0; i < 3; i++) { /* receives that may still be reported keep their entries */
        reset(false);
        CHECK(vp_queues_open(&own_ep, 100) == 0);
        struct vp_conn conn = {.ep = &own_ep, .end.drained = i == 2};
        CHECK(vp_recvs_create(&conn) == 0 && own_ep.recv_room == 768 - 96);
        conn.recvs->posted = i ? 3 : 0;
        conn.recvs->completed = i == 2 ? 3 : 0;
        vp_recvs_destroy(&conn);
        CHECK(own_ep.recv_room == (i == 1 ? 768 - 96 : 768) &&
              own_ep.recv_deferred == (i == 1 ? 96 : 0));
        CHECK(own_ep.pending == (i == 1 ? VP_PEND_DEFERRED_CQES : 0) && num_wakes == (i == 1));
        pthread_mutex_lock(&prov_here.lock);
        uint32_t deferred = vp_recvs_take_deferred_locked(&own_ep);
        pthread_mutex_unlock(&prov_here.lock);
        vp_recvs_release_deferred(&own_ep, deferred);
        CHECK(own_ep.recv_room == 768 && own_ep.recv_deferred == 0);
        vp_queues_close(&own_ep);
        check_nothing_left();
    }
}

/*
 * Queue pairs
 */

static struct vp_conn *conn_here;

static void open_conn(bool shared, bool active)
{
    reset(shared);
    CHECK(vp_queues_open(&own_ep, 100) == 0);
    conn_here = vp_conn_new(&own_ep, active);
    CHECK(conn_here && conn_here->sq_depth == 63 && conn_here->signal_due == 32);
    CHECK(conn_here->phase == (active ? VP_QUEUED : VP_REQUESTED) && conn_here->active == active);
    CHECK(conn_here->end.reason == VP_REASON_UNKNOWN && conn_here->id.kind == VP_CM_ID_CONN);
    steps[0] = '\0';
}

static void close_conn(void)
{
    vp_conn_drop_qp(conn_here);
    CHECK(qps == 0 && !conn_here->qp && !conn_here->ops && !conn_here->recvs);
    vp_conn_free(conn_here);
    vp_queues_close(&own_ep);
    check_nothing_left();
}

static void queue_pairs_are_created(bool shared, const char *wanted)
{
    char got[256] = "";

    for (int n = 0;; n++) {
        open_conn(shared, true);
        fail_at = n;
        uint32_t room = own_ep.recv_room;
        int rc = vp_conn_create_qp(conn_here);
        bool has_failed = fail_at == NONE;
        fail_at = NONE;
        CHECK(rc == (has_failed ? -ENOMEM : 0) && !conn_here->qp == has_failed);
        CHECK(!conn_here->ops == has_failed && !conn_here->recvs == (has_failed || shared));
        CHECK(own_ep.recv_room == room - (has_failed || shared ? 0 : 96) && !num_wakes);
        snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s ", failed_call);
        close_conn();
        CHECK(num_released == 1);
        if (!has_failed)
            break;
    }
    if (strcmp(got, wanted) != 0)
        printf("wanted: %s\ngot:    %s\n", wanted, got);
    CHECK(strcmp(got, wanted) == 0);
    open_conn(shared, true);
    CHECK(vp_conn_create_qp(conn_here) == 0 && (void *)conn_here->qpx == conn_here->qp);
    CHECK(last_attr.cap.max_send_wr == 63 && last_attr.cap.max_recv_wr == (shared ? 0 : 96));
    CHECK(last_attr.cap.max_send_sge == 1 && last_attr.cap.max_recv_sge == !shared);
    CHECK(last_attr.cap.max_inline_data == 220 && last_attr.qp_context == conn_here);
    CHECK(last_attr.send_cq == own_ep.send_cq && last_attr.recv_cq == own_ep.recv_cq);
    CHECK(last_attr.srq == own_ep.srq && last_attr.pd == &pd && last_attr.qp_type == IBV_QPT_RC);
    CHECK(last_attr.comp_mask == (IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS));
    CHECK(!conn_here->recvs || conn_here->recvs->qp == conn_here->qp);
    close_conn();
    open_conn(shared, true);
    own_dev->has_wr_api = false;
    CHECK(vp_conn_create_qp(conn_here) == 0 && !conn_here->qpx);
    CHECK(last_attr.comp_mask == IBV_QP_INIT_ATTR_PD);
    struct ibv_qp *qp = conn_here->qp;
    struct vp_recvs *recvs = conn_here->recvs;
    were_closed = true; /* the program has closed all descriptors */
    vp_conn_drop_qp(conn_here);
    CHECK(qps == 1 && !conn_here->qp && conn_here->recvs == recvs); /* may be written to */
    were_closed = false;
    ibv_destroy_qp(qp);
    close_conn();
}

static void rings_are_powers_of_two(void)
{
    static const uint32_t cases[][2] = {{1, 0},   {2, 1},   {3, 3},    {4, 3},
                                        {63, 63}, {64, 63}, {65, 127}, {1 << 14, (1 << 14) - 1}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        open_conn(true, false);
        conn_here->sq_depth = cases[i][0];
        CHECK(vp_conn_create_qp(conn_here) == 0 && conn_here->sq_mask == cases[i][1]);
        for (uint32_t k = 0; k <= cases[i][1]; k++)
            CHECK(conn_here->ops[k].slot == k && conn_here->ops[k].conn == conn_here);
        close_conn();
    }
}

/* What the handshake says of a queue pair. */
static struct ibv_qp_attr handshake_attr;
static int handshake_masks[3], init_fails_at;

static int init_attr(struct vp_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
    enum ibv_qp_state state = attr->qp_state;
    int i = state == IBV_QPS_INIT ? 0 : state == IBV_QPS_RTR ? 1 : 2;

    CHECK(id == &conn_here->id);
    *attr = handshake_attr;
    attr->qp_state = state;
    *mask = handshake_masks[i] | IBV_QP_STATE;
    return i == init_fails_at ? -EINVAL : 0;
}

static const struct vp_cm_ops handshake_ops = {.init_qp_attr = init_attr};

static void prepare_connect(bool shared, bool active)
{
    open_conn(shared, active);
    CHECK(vp_conn_create_qp(conn_here) == 0);
    conn_here->id.ops = &handshake_ops;
    conn_here->rmt_mtu = IBV_MTU_4096;
    handshake_attr = (struct ibv_qp_attr){.path_mtu = IBV_MTU_4096, .ah_attr.is_global = 1};
    handshake_masks[0] = handshake_masks[2] = 0;
    handshake_masks[1] = IBV_QP_AV | IBV_QP_PATH_MTU;
    init_fails_at = NONE;
    num_modified = 0;
    steps[0] = '\0';
}

static void queue_pairs_go_up(void)
{
    prepare_connect(false, true);
    wanted_receives = 96; /* before the first message can arrive */
    CHECK(vp_conn_connect_qp(conn_here) == 0 && wanted_receives == 0);
    CHECK(num_modified == 3 && modified[0].qp_state == IBV_QPS_INIT);
    CHECK(modified[1].qp_state == IBV_QPS_RTR && modified[2].qp_state == IBV_QPS_RTS);
    for (int i = 0; i < 3; i++) {
        CHECK(modified[i].min_rnr_timer == 12 && modified[i].rnr_retry == 7);
        CHECK(modified[i].timeout == 14 && modified[i].retry_cnt == 6);
        CHECK(modified[i].qp_access_flags ==
              (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC));
        CHECK(masks[i] == (handshake_masks[i] | IBV_QP_STATE));
    }
    CHECK(conn_here->packet == 2048 && conn_here->qp_state == IBV_QPS_RTS);
    CHECK(conn_here->lcl_unit == VP_UNIT_64);
    conn_here->end.drained = true;
    conn_here->recvs->completed = 96;
    close_conn();
    prepare_connect(true, true);
    own_dev->attr.atomic_cap = IBV_ATOMIC_NONE;
    handshake_masks[1] = 0;
    CHECK(vp_conn_connect_qp(conn_here) == 0 && conn_here->packet == PROV_TOFU_LINE);
    CHECK(modified[1].qp_access_flags == (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ));
    CHECK(modified[1].path_mtu == IBV_MTU_4096 && !steps[0]);
    close_conn();
}

/* A rail has a flow label of its own, where there is one. */
static void rails_have_flow_labels(void)
{
    for (unsigned int i = 0; i < 8; i++) {
        bool has_path = i & 1, is_global = i & 2, is_rail = i & 4;
        prepare_connect(true, true);
        own_ep.rail = is_rail ? RAIL : 0;
        handshake_masks[1] = has_path ? IBV_QP_AV : 0;
        handshake_attr.ah_attr.is_global = is_global;
        handshake_attr.ah_attr.grh.flow_label = 5;
        CHECK(vp_conn_connect_qp(conn_here) == 0);
        CHECK(modified[0].ah_attr.grh.flow_label == 5 && modified[2].ah_attr.grh.flow_label == 5);
        CHECK(modified[1].ah_attr.grh.flow_label ==
              (has_path && is_global && is_rail ? 0xffffcu : 5u));
        close_conn();
    }
}

/* Neither side gets larger packets or more reads than it can take. */
static void limits_of_both_sides(void)
{
    static const struct {
        bool active;
        uint8_t wanted, own, peer, used;
    } sizes[] = {{true, IBV_MTU_4096, IBV_MTU_1024, IBV_MTU_2048, IBV_MTU_1024},
                 {true, IBV_MTU_4096, IBV_MTU_2048, IBV_MTU_1024, IBV_MTU_1024},
                 {true, IBV_MTU_512, IBV_MTU_2048, IBV_MTU_1024, IBV_MTU_512},
                 {true, IBV_MTU_1024, IBV_MTU_1024, IBV_MTU_1024, IBV_MTU_1024},
                 {false, IBV_MTU_4096, IBV_MTU_2048, IBV_MTU_256, IBV_MTU_2048},
                 {false, IBV_MTU_256, IBV_MTU_2048, IBV_MTU_256, IBV_MTU_256}};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        prepare_connect(true, sizes[i].active);
        handshake_attr.path_mtu = sizes[i].wanted;
        own_port.mtu = sizes[i].own;
        conn_here->rmt_mtu = sizes[i].peer;
        CHECK(vp_conn_connect_qp(conn_here) == 0 && modified[1].path_mtu == sizes[i].used);
        CHECK(conn_here->packet == 128u << sizes[i].used);
        close_conn();
    }
    for (uint8_t asked = 3; asked <= 9; asked++) {
        prepare_connect(true, false);
        handshake_attr.max_dest_rd_atomic = handshake_attr.max_rd_atomic = asked;
        CHECK(vp_conn_connect_qp(conn_here) == 0);
        CHECK(modified[1].max_dest_rd_atomic == (asked > 8 ? 8 : asked));
        CHECK(modified[2].max_rd_atomic == (asked > 4 ? 4 : asked));
        close_conn();
    }
}

static void queue_pairs_fail_to_go_up(void)
{
    static const struct {
        int error;
        uint32_t ece;
        int rc;
        bool is_refused;
        const char *line;
    } cases[] = {{ETIMEDOUT, 0, -ECONNABORTED, false, "I: setting up a queue pair on fake0:1: "},
                 {EHOSTUNREACH, 0, -ECONNABORTED, false, "I: "},
                 {ENETUNREACH, 0, -ECONNABORTED, false, "I: "},
                 {ENODATA, 0, -ECONNABORTED, false, "I: "},
                 {EINVAL, 0, -EINVAL, false, "E: setting up a queue pair on fake0:1: Invalid"},
                 {EOPNOTSUPP, 0, -EOPNOTSUPP, false, "E: "},
                 {EINVAL, 8, -ECONNABORTED, true,
                  "I: setting up a queue pair on fake0:1 with ECE "
                  "options 0x8: Invalid argument: the options are"},
                 {EOPNOTSUPP, 8, -ECONNABORTED, true, "I: "},
                 {ENOMEM, 8, -ENOMEM, false, "E: "},
                 {ETIMEDOUT, 8, -ECONNABORTED, false, "I: "}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (int state = 0; state < 3; state++) {
            static const enum ibv_qp_state states[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};
            prepare_connect(true, true);
            conn_here->ece = known_ece = (struct vp_ece){3, cases[i].ece};
            fails_to = states[state];
            modify_error = cases[i].error;
            CHECK(vp_conn_connect_qp(conn_here) == cases[i].rc && num_modified == state + 1);
            CHECK(said(cases[i].line) && own_dev->no_ece == cases[i].is_refused);
            CHECK(conn_here->qp_state == (state ? states[state - 1] : IBV_QPS_RESET));
            close_conn();
        }
    }
    for (int state = 0; state < 3; state++) {
        prepare_connect(true, true);
        init_fails_at = state;
        CHECK(vp_conn_connect_qp(conn_here) == -ECONNABORTED && num_modified == state);
        close_conn();
    }
    prepare_connect(false, true);
    takes_receives = 3;
    CHECK(vp_conn_connect_qp(conn_here) == -ENOMEM && num_modified == 1);
    close_conn();
    CHECK(num_wakes == 1); /* for the receives that were posted */
}

/* Both sides use the same options, or none. */
static void options_are_agreed(void)
{
    static const struct {
        bool active, device_has_none;
        uint32_t peers, known_then;
        int set_error, rc;
        uint32_t used;
        bool is_given_up;
    } cases[] = {{true, false, 8, 8, 0, 0, 8, false},
                 {true, false, 8, 9, 0, -ECONNABORTED, 9, true},
                 {false, false, 8, 9, 0, 0, 9, false},
                 {true, false, 8, 8, -EINVAL, -ECONNABORTED, 0, true},
                 {false, false, 8, 8, -EINVAL, 0, 0, false},
                 {true, true, 8, 8, 0, 0, 8, false},
                 {false, true, 8, 8, 0, 0, 0, false},
                 {true, false, 0, 8, 0, 0, 0, false}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        prepare_connect(true, cases[i].active);
        own_dev->no_ece = cases[i].device_has_none;
        conn_here->ece = (struct vp_ece){3, cases[i].peers};
        known_ece = (struct vp_ece){3, cases[i].known_then};
        ece_error = cases[i].set_error;
        int rc = vp_conn_connect_qp(conn_here);
        if (rc != cases[i].rc || conn_here->ece.options != cases[i].used)
            printf("case %zu: %d, %u\n", i, rc, conn_here->ece.options);
        CHECK(rc == cases[i].rc && conn_here->ece.options == cases[i].used);
        CHECK(conn_here->hs.no_ece == cases[i].is_given_up);
        bool offers = !cases[i].is_given_up && !cases[i].device_has_none;
        CHECK(vp_conn_ece_offer(conn_here).options == (offers ? cases[i].known_then : 0));
        close_conn();
    }
}

/*
 * Failing connections
 */

static void first_error_counts(void)
{
    open_conn(true, true);
    CHECK(vp_conn_create_qp(conn_here) == 0);
    conn_here->ops[6].tag = VP_TAG_PART;
    conn_here->ops[7].tag = VP_TAG_PART;
    CHECK(vp_conn_record_error(conn_here, 10, PROV_PEER) && conn_here->end.err_seq == 10);
    CHECK(!vp_conn_record_error(conn_here, 10, PROV_RMT_ACCESS));
    CHECK(!vp_conn_record_error(conn_here, 11, PROV_RMT_ACCESS));
    CHECK(conn_here->end.err_status == PROV_PEER);
    CHECK(vp_conn_record_error(conn_here, 9, PROV_RMT_ACCESS) && conn_here->end.err_seq == 9);
    CHECK(vp_conn_record_error(conn_here, 6, PROV_PEER) && conn_here->end.err_seq == 8);
    CHECK(!vp_conn_record_error(conn_here, 7, PROV_RMT_ACCESS));
    CHECK(vp_conn_record_error(conn_here, (uint32_t)-1, PROV_RMT_ACCESS));
    CHECK(conn_here->end.err_seq == (uint32_t)-1);
    close_conn();
}

static void refused_requests_end_a_connection(void)
{
    for (int i = 0; i < 4; i++) {
        open_conn(true, true);
        CHECK(vp_conn_create_qp(conn_here) == 0);
        own_dev->gone = i & 1;
        modify_error = i & 2 ? EIO : 0;
        fails_to = IBV_QPS_ERR;
        conn_here->sq_max = conn_here->sq_xfer_max = 9;
        conn_here->head = 4;
        conn_here->inline_until = 7;
        conn_here->signalled = own_ep.signalled = 2;
        CHECK(vp_conn_post_failed(conn_here, 3, PROV_PEER) == !(i & 2));
        CHECK(conn_here->sq_max == 0 && conn_here->sq_xfer_max == 0 && num_modified == 1);
        CHECK(conn_here->inline_until == 4 && conn_here->end.posted_end == 3);
        CHECK(conn_here->end.err_seq == 3 && conn_here->end.err_status == PROV_PEER);
        CHECK(conn_here->end.reason == (i & 1 ? PROV_REASON_LOCAL : PROV_REASON_BROKEN));
        CHECK(conn_here->state == VP_CONN_FAILING && own_ep.signalled == 0);
        CHECK(conn_here->end.deadline == 1000u + (i & 1 ? 200 : 2000) && woken_at == 1010);
        CHECK(!vp_list_empty(&conn_here->service_link) && own_ep.needs_slow_poll);
        CHECK(modified[0].qp_state == IBV_QPS_ERR && masks[0] == IBV_QP_STATE);
        CHECK(!vp_conn_post_failed(conn_here, 2, PROV_RMT_ACCESS) && num_modified == 1);
        CHECK(conn_here->end.err_seq == 3);
        struct vp_list *first = own_ep.service_list.next;
        vp_conn_schedule_service(conn_here); /* once is enough */
        CHECK(own_ep.service_list.next == first && first->next == &own_ep.service_list);
        were_closed = true;
        CHECK(!vp_conn_qp_to_error(conn_here) && num_modified == 1);
        were_closed = false;
        vp_list_remove(&conn_here->service_link);
        close_conn();
    }
}

/*
 * Memory regions
 */

static void memory_is_registered(void)
{
    enum { R = PROV_ACCESS_READ, W = PROV_ACCESS_WRITE, A = PROV_ACCESS_ATOMIC };
    enum { RR = IBV_ACCESS_REMOTE_READ, LW = IBV_ACCESS_LOCAL_WRITE, RW = IBV_ACCESS_REMOTE_WRITE };
    static const struct {
        unsigned int access;
        bool relaxed, has_atomics;
        int flags;
    } cases[] = {{R, false, true, RR},
                 {W, false, true, LW | RW},
                 {R | W, false, true, RR | LW | RW},
                 {A, false, true, LW | IBV_ACCESS_REMOTE_ATOMIC},
                 {A, false, false, 0},
                 {R, true, true, RR | VP_ACCESS_RELAXED},
                 {R | W | A, false, true, RR | LW | RW | IBV_ACCESS_REMOTE_ATOMIC}};
    char memory[40];
    struct prov_mr *mr;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        reset(true);
        own_dev->relaxed = cases[i].relaxed;
        own_dev->attr.atomic_cap = cases[i].has_atomics ? IBV_ATOMIC_HCA : IBV_ATOMIC_NONE;
        wanted_access = cases[i].flags;
        CHECK(vp_reg_mr(&prov_here.base, 0, memory, 40, cases[i].access, &mr) == 0);
        CHECK(mr->lkey == PD_KEY + 1 && mr->rkey == 9 && mrs == 1);
        CHECK(strcmp(steps, cases[i].access & W ? "40w " : "40r ") == 0);
        dereg_fails = i & 1;
        vp_dereg_mr(&prov_here.base, mr);
        CHECK(!dereg_fails || said("W: deregistering memory failed: Invalid argument"));
        CHECK(dereg_fails || !lines[0]);
        check_nothing_left();
    }
    reset(true);
    is_mapped = false;
    CHECK(vp_reg_mr(&prov_here.base, 0, memory, 40, R, &mr) == -EFAULT);
    is_mapped = true;
    are_ours = false;
    CHECK(vp_reg_mr(&prov_here.base, 0, memory, 40, R, &mr) == -EBADF);
    are_ours = true;
    for (int n = 0; n < 2; n++) {
        fail_at = n;
        CHECK(vp_reg_mr(&prov_here.base, 0, memory, 40, R, &mr) == -ENOMEM && fail_at == NONE);
        check_nothing_left();
    }
    CHECK(said("E: registering 40 bytes at 0x") && said(" on fake0"));
    CHECK(vp_reg_mr(&prov_here.base, 0, memory, 40, R, &mr) == 0);
    struct ibv_mr *kept = vp_container_of(mr, struct vp_mr, base)->mr;
    are_ours = false; /* the descriptor is another one now: the region is not touched */
    vp_dereg_mr(&prov_here.base, mr);
    CHECK(mrs == 1 && blocks == 0);
    ibv_dereg_mr(kept);
}

int main(void)
{
    opening_fails_everywhere(
        true,
        "ibv_create_cq! ibv_create_cq! ibv_create_srq! posix_memalign! calloc! calloc! "
        "ibv_reg_mr! posix_memalign! ibv_reg_mr! calloc! calloc! ibv_post_recv! ibv_modify_srq ");
    opening_fails_everywhere(false, "ibv_create_cq! ibv_create_cq! posix_memalign! ibv_reg_mr! "
                                    "calloc! calloc! ");
    queues_have_sizes();
    send_queues_have_lengths();
    receive_queues_have_sizes();
    entries_are_reserved();
    receives_are_posted_together();
    receives_grow();
    refused_receives_are_kept();
    connections_have_receives();
    queue_pairs_are_created(true, "calloc ibv_create_qp_ex  ");
    queue_pairs_are_created(false, "calloc calloc posix_memalign calloc calloc ibv_reg_mr "
                                   "ibv_create_qp_ex  ");
    rings_are_powers_of_two();
    queue_pairs_go_up();
    rails_have_flow_labels();
    limits_of_both_sides();
    queue_pairs_fail_to_go_up();
    options_are_agreed();
    first_error_counts();
    refused_requests_end_a_connection();
    memory_is_registered();
    return 0;
}
