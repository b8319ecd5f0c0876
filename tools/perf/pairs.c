/* SPDX-License-Identifier: Apache-2.0 */
/* One-sided communication between the two processes of a pair. */
#include "perf.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define RMT    UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE
#define LCL    UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE
#define TCQ    UTOFU_ONESIDED_FLAG_TCQ_NOTICE
#define STRONG UTOFU_ONESIDED_FLAG_STRONG_ORDER

/* The addresses of a lane, for the other process. */
struct lane_record {
    utofu_vcq_id_t id;
    utofu_stadd_t stadd;
};
_Static_assert(sizeof(struct lane_record) * PERF_MAX_THREADS * PERF_MAX_TNIS <= PARTY_RECORD_MAX,
               "fits");

static struct perf_worker *workers;

struct perf_worker *perf_pairs_workers(void)
{
    return workers;
}

/*
 * Waiting
 */

uint64_t perf_make_room(utofu_vcq_hdl_t vcq)
{
    void *cbdata;
    int rc = utofu_poll_tcq(vcq, 0, &cbdata);

    if (rc == UTOFU_ERR_NOT_FOUND)
        return 0;
    party_check(rc, "utofu_poll_tcq");
    return 1;
}

void perf_await_tcq(utofu_vcq_hdl_t vcq)
{
    uint32_t spins = 0;
    void *cbdata;
    int rc;

    while ((rc = utofu_poll_tcq(vcq, 0, &cbdata)) == UTOFU_ERR_NOT_FOUND)
        party_idle(&spins, "a TCQ entry");
    party_check(rc, "utofu_poll_tcq");
}

void perf_await_notice(utofu_vcq_hdl_t vcq, uint8_t type)
{
    struct utofu_mrq_notice notice;
    uint32_t spins = 0;
    int rc;

    while ((rc = utofu_poll_mrq(vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND)
        party_idle(&spins, "an MRQ notice");
    party_check(rc, "utofu_poll_mrq");
    if (notice.notice_type != type)
        party_fail(1, "an MRQ notice of type %u came instead of type %u", notice.notice_type, type);
}

static void await_byte(const uint8_t *at, uint8_t value)
{
    uint32_t spins = 0;

    while (__atomic_load_n(at, __ATOMIC_ACQUIRE) != value)
        party_idle(&spins, "data in memory");
}

static uint8_t *arriving(struct perf_worker *w)
{
    return w->buffer + w->span;
}

static uint64_t *word(struct perf_worker *w, size_t offset)
{
    return (uint64_t *)(void *)(w->buffer + 2 * w->span + offset);
}

static utofu_stadd_t rmt_arriving(const struct perf_worker *w, const struct perf_lane *lane)
{
    return lane->rmt_stadd + w->span;
}

static utofu_stadd_t rmt_word(const struct perf_worker *w, size_t offset)
{
    return w->lanes[0].rmt_stadd + 2 * w->span + offset;
}

/* Puts one message: a put, or several, of which the last one has the flags and is ordered after the
 * others. */
static void put_message(const struct perf_worker *w, struct perf_lane *lane, utofu_stadd_t from,
                        utofu_stadd_t to, unsigned long flags)
{
    size_t left = w->run.size;

    for (;;) {
        bool last = left <= PERF_MAX_PUT;
        size_t n = last ? left : PERF_PIECE;
        int rc;
        while ((rc = utofu_put(lane->vcq, lane->rmt, from, to, n, 0, last ? flags : 0, NULL)) ==
               UTOFU_ERR_BUSY)
            lane->tcq_taken += perf_make_room(lane->vcq);
        if (rc != UTOFU_SUCCESS)
            party_check(rc, "utofu_put");
        if (last)
            return;
        left -= n;
        from += n;
        to += n;
        flags |= STRONG;
    }
}

/* Notifies a passive target, or the other of two measuring processes, that this side is done. */
static void say_stop(struct perf_worker *w)
{
    const struct perf_lane *lane = &w->lanes[0];

    PERF_START(lane->vcq, utofu_put_piggyback8, lane->rmt, 1, rmt_word(w, PERF_WORD_STOP),
               sizeof(uint64_t), 0, STRONG, NULL);
}

/*
 * --verify if the other side is passive: the measuring side puts the number of the iteration into a
 * word of the other side, which checks or fills its memory, and answers.
 */

static uint64_t sender(uint32_t rank, const struct perf_worker *w)
{
    return (uint64_t)rank * PERF_MAX_THREADS + w->number;
}

static uint64_t pattern_of(const struct perf_worker *w, uint64_t iteration, uint32_t rank)
{
    return perf_pattern(&w->run, iteration, sender(rank, w));
}

static size_t messages_apart(const struct perf_worker *w)
{
    size_t step = w->run.size ? w->run.size : 1, apart = w->span / step;

    return perf_options.buffers && perf_options.buffers < apart ? perf_options.buffers : apart;
}

/* The bytes that an iteration may access. */
static size_t extent(const struct perf_worker *w)
{
    size_t n = messages_apart(w);

    if (w->run.op->check == PERF_STRIDE)
        return w->span;
    if (!w->run.op->windowed)
        return w->run.size;
    return (n < w->run.window ? n : w->run.window) * w->run.size;
}

static size_t stride_of(const struct perf_worker *w)
{
    return perf_options.stride ? perf_options.stride : 2 * w->run.size;
}

static void expect_arrived(struct perf_worker *w, uint64_t iteration)
{
    uint64_t pattern = pattern_of(w, iteration, w->partner);

    if (w->run.op->check != PERF_STRIDE) {
        perf_expect(&w->run, iteration, arriving(w), 0, extent(w), pattern);
        return;
    }
    for (uint64_t b = 0; b < perf_options.blocks; b++)
        perf_expect(&w->run, iteration, arriving(w), b * stride_of(w), w->run.size, pattern);
}

static void answer(struct perf_worker *w, uint64_t iteration)
{
    const struct perf_lane *lane = &w->lanes[0];

    switch (w->run.op->check) {
    case PERF_PUT:
    case PERF_STRIDE:
        expect_arrived(w, iteration);
        break;
    case PERF_GET:
        perf_fill(arriving(w), extent(w), pattern_of(w, iteration, party.rank));
        break;
    case PERF_ADD:
        perf_expect_word(&w->run, iteration, *word(w, PERF_WORD_ARMW), ++w->adds);
        break;
    case PERF_WORD:
        perf_expect_word(&w->run, iteration, *word(w, PERF_WORD_CONNECT),
                         pattern_of(w, iteration, w->partner));
        break;
    case PERF_NOTHING:
        break;
    }
    PERF_START(lane->vcq, utofu_put_piggyback8, lane->rmt, iteration + 1,
               rmt_word(w, PERF_WORD_ANSWER), sizeof(uint64_t), 0, STRONG, NULL);
}

static void answer_requests(struct perf_worker *w)
{
    uint64_t request = __atomic_exchange_n(word(w, PERF_WORD_REQUEST), 0, __ATOMIC_ACQ_REL);

    if (request)
        answer(w, request - 1);
}

static void ask(struct perf_worker *w, uint64_t iteration)
{
    const struct perf_lane *lane = &w->lanes[0];
    uint32_t spins = 0;

    PERF_START(lane->vcq, utofu_put_piggyback8, lane->rmt, iteration + 1,
               rmt_word(w, PERF_WORD_REQUEST), sizeof(uint64_t), 0, STRONG, NULL);
    while (__atomic_load_n(word(w, PERF_WORD_ANSWER), __ATOMIC_ACQUIRE) != iteration + 1) {
        perf_make_room(lane->vcq);
        answer_requests(w); /* if both sides measure */
        party_idle(&spins, "the other side, which verifies");
    }
    *word(w, PERF_WORD_ANSWER) = 0;
}

static void before_iteration(struct perf_worker *w, uint64_t iteration, const void *arg)
{
    (void)arg;
    if (w->run.op->check == PERF_GET)
        ask(w, iteration);
    else if (w->run.op->check == PERF_PUT || w->run.op->check == PERF_STRIDE)
        perf_fill(w->buffer, extent(w), pattern_of(w, iteration, party.rank));
}

static void after_iteration(struct perf_worker *w, uint64_t iteration, const void *arg)
{
    (void)arg;
    if (w->run.op->check == PERF_GET)
        perf_expect(&w->run, iteration, w->buffer, 0, extent(w),
                    pattern_of(w, iteration, w->partner));
    else
        ask(w, iteration);
}

void perf_be_busy(void)
{
    volatile double sum = 0; /* prevents removal of the loop */

    if (perf_options.target == PERF_SLEEPS) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        return;
    }
    double x = sum;
    for (int i = 1; i <= 1000; i++)
        x += 1.0 / i;
    sum = x;
}

/* Makes progress, or sleeps, until the origin sends stop. */
static void await_stop(struct perf_worker *w)
{
    uint64_t *stop = word(w, PERF_WORD_STOP);
    struct utofu_mrq_notice notice;
    uint32_t spins = 0;
    int rc;

    while (!__atomic_load_n(stop, __ATOMIC_ACQUIRE)) {
        if (perf_options.target != PERF_POLLS) {
            perf_be_busy();
            party_look_after_others();
            continue;
        }
        if (perf_options.verify)
            answer_requests(w);
        for (unsigned int l = 0; l < w->num_lanes; l++) {
            rc = utofu_poll_mrq(w->lanes[l].vcq, 0, &notice);
            if (rc != UTOFU_ERR_NOT_FOUND)
                party_check(rc, "utofu_poll_mrq");
        }
        if (++spins % 4096 == 0) {
            party_look_after_others();
            sched_yield();
        }
    }
    *stop = 0;
}

/*
 * Ping-pong: a sample is half a round trip, or the whole
 */

static size_t patterned(const struct perf_worker *w, const struct perf_ping *ping)
{
    return w->run.size > ping->apart ? w->run.size - ping->apart : 0;
}

static void fill_ping(struct perf_worker *w, uint64_t iteration, const void *ping)
{
    perf_fill(w->buffer, patterned(w, ping), pattern_of(w, iteration, party.rank));
}

static void expect_ping(struct perf_worker *w, uint64_t iteration, const void *ping)
{
    perf_expect(&w->run, iteration, arriving(w), 0, patterned(w, ping),
                pattern_of(w, iteration, w->partner));
}

static uint8_t ping_value(uint64_t iteration)
{
    return (uint8_t)(iteration % 255 + 1);
}

static void ping_once(struct perf_worker *w, uint64_t iteration, const void *arg)
{
    const struct perf_ping *ping = arg;

    ping->send(w, ping_value(iteration));
    ping->receive(w, ping_value(iteration));
}

static void ping_pong_target(struct perf_worker *w, const struct perf_ping *ping)
{
    uint64_t total = w->run.warmup + w->run.iterations;

    for (uint64_t i = 0; i < total; i++) {
        ping->receive(w, ping_value(i));
        if (perf_options.verify) {
            expect_ping(w, i, ping);
            fill_ping(w, i, ping);
        }
        ping->send(w, ping_value(i));
    }
}

static void send_with_notice(struct perf_worker *w, uint8_t value)
{
    struct perf_lane *lane = &w->lanes[0];

    (void)value;
    put_message(w, lane, lane->lcl_stadd, rmt_arriving(w, lane), RMT);
}

static void receive_notice(struct perf_worker *w, uint8_t value)
{
    (void)value;
    perf_await_notice(w->lanes[0].vcq, UTOFU_MRQ_TYPE_RMT_PUT);
}

const struct perf_ping perf_by_notice = {send_with_notice, receive_notice, 0};

static void send_last_byte(struct perf_worker *w, uint8_t value)
{
    struct perf_lane *lane = &w->lanes[0];

    w->buffer[w->run.size - 1] = value;
    put_message(w, lane, lane->lcl_stadd, rmt_arriving(w, lane), STRONG);
}

static void receive_last_byte(struct perf_worker *w, uint8_t value)
{
    await_byte(arriving(w) + w->run.size - 1, value);
}

const struct perf_ping perf_by_memory = {send_last_byte, receive_last_byte, 1};

/* Clears the last byte of the area, which an earlier operation may have set to the expected
 * value. */
void perf_put_memory_prepare(struct perf_worker *w)
{
    __atomic_store_n(arriving(w) + w->run.size - 1, 0, __ATOMIC_RELEASE);
}

static void send_piggyback(struct perf_worker *w, uint8_t value)
{
    const struct perf_lane *lane = &w->lanes[0];

    (void)value;
    PERF_START(lane->vcq, utofu_put_piggyback, lane->rmt, w->buffer, rmt_arriving(w, lane),
               w->run.size, 0, RMT, NULL);
}

const struct perf_ping perf_by_piggyback = {send_piggyback, receive_notice, 0};

/*
 * One-sided: the other side is passive
 */

struct repeated {
    struct perf_worker *worker;
    uint64_t windows; /* of a sample */
};

static void do_once(void *arg)
{
    const struct repeated *r = arg;

    r->worker->run.op->once(r->worker);
}

static void do_windows(struct perf_worker *w, uint64_t iteration, const void *arg)
{
    const struct repeated *r = arg;

    (void)iteration;
    for (uint64_t n = 0; n < r->windows; n++)
        w->run.op->once(w);
}

/* All rounds of a row have the same number of windows in a sample. With --verify it is 1, as each
 * window has other data. */
static void measure_one_sided(struct perf_worker *w)
{
    const struct perf_steps steps = {do_windows, before_iteration, after_iteration, false};
    bool windowed = w->run.op->windowed;
    uint64_t messages = w->run.op->check == PERF_STRIDE ? perf_options.blocks
                        : windowed                      ? w->run.window
                                                        : 1;
    struct repeated r = {w, 1};

    if (windowed && !perf_options.verify) {
        if (w->windows == 0)
            w->windows = bench_count_windows(do_once, &r, messages * w->run.size);
        r.windows = w->windows;
    }
    messages *= r.windows;
    perf_measure(w, steps, &r, windowed ? (double)messages : 1, messages);
    say_stop(w);
}

void perf_put_once(struct perf_worker *w)
{
    struct perf_lane *lane = &w->lanes[0];

    put_message(w, lane, lane->lcl_stadd, rmt_arriving(w, lane), LCL);
    perf_await_notice(lane->vcq, UTOFU_MRQ_TYPE_LCL_PUT);
}

void perf_get_once(struct perf_worker *w)
{
    const struct perf_lane *lane = &w->lanes[0];
    size_t done = 0;

    for (; w->run.size - done > PERF_MAX_PUT; done += PERF_PIECE)
        PERF_START(lane->vcq, utofu_get, lane->rmt, lane->lcl_stadd + done,
                   rmt_arriving(w, lane) + done, PERF_PIECE, 0, LCL, NULL);
    PERF_START(lane->vcq, utofu_get, lane->rmt, lane->lcl_stadd + done,
               rmt_arriving(w, lane) + done, w->run.size - done, 0, LCL, NULL);
    for (size_t notices = 0; notices <= done / PERF_PIECE; notices++)
        perf_await_notice(lane->vcq, UTOFU_MRQ_TYPE_LCL_GET);
}

void perf_armw_once(struct perf_worker *w)
{
    const struct perf_lane *lane = &w->lanes[0];

    PERF_START(lane->vcq, utofu_armw8, lane->rmt, UTOFU_ARMW_OP_ADD, 1, rmt_word(w, PERF_WORD_ARMW),
               0, LCL, NULL);
    perf_await_notice(lane->vcq, UTOFU_MRQ_TYPE_LCL_ARMW);
}

/* A new VCQ for each sample; only its first put is measured. */
struct first_put {
    utofu_vcq_hdl_t *vcq;
};

static void create_vcq(struct perf_worker *w, uint64_t iteration, const void *arg)
{
    const struct first_put *first = arg;

    (void)w;
    (void)iteration;
    party_check(utofu_create_vcq((utofu_tni_id_t)perf_options.tnis[0], 0, first->vcq),
                "utofu_create_vcq");
}

static void put_first(struct perf_worker *w, uint64_t iteration, const void *arg)
{
    const struct first_put *first = arg;

    party_check(
        utofu_put_piggyback8(*first->vcq, w->lanes[0].rmt, pattern_of(w, iteration, party.rank),
                             rmt_word(w, PERF_WORD_CONNECT), sizeof(uint64_t), 0, LCL, NULL),
        "utofu_put_piggyback8");
    perf_await_notice(*first->vcq, UTOFU_MRQ_TYPE_LCL_PUT);
}

static void free_vcq(struct perf_worker *w, uint64_t iteration, const void *arg)
{
    const struct first_put *first = arg;

    if (perf_options.verify)
        after_iteration(w, iteration, NULL);
    party_check(utofu_free_vcq(*first->vcq), "utofu_free_vcq");
}

static void measure_connections(struct perf_worker *w)
{
    const struct perf_steps steps = {put_first, create_vcq, free_vcq, true};
    utofu_vcq_hdl_t vcq;
    struct first_put first = {&vcq};

    perf_measure(w, steps, &first, 1, 1);
    say_stop(w);
}

/* Blocks of a stride, all within the buffers. */
void perf_stride_once(struct perf_worker *w)
{
    const struct perf_lane *lane = &w->lanes[0];

    PERF_START(lane->vcq, utofu_put_stride, lane->rmt, lane->lcl_stadd, rmt_arriving(w, lane),
               w->run.size, stride_of(w), perf_options.blocks, 0, LCL, NULL);
    for (uint64_t b = 0; b < perf_options.blocks; b++)
        perf_await_notice(lane->vcq, UTOFU_MRQ_TYPE_LCL_PUT);
}

/* Each message has a TCQ entry; the last one of a lane, ordered after the others, a notice. */
void perf_window_once(struct perf_worker *w)
{
    uint64_t window = w->run.window;
    size_t apart = messages_apart(w), next = 0;

    for (uint64_t i = 0; i < window; i++) {
        struct perf_lane *lane = &w->lanes[i % w->num_lanes];
        size_t offset = next * w->run.size;
        unsigned long flags = i + w->num_lanes >= window ? TCQ | LCL | STRONG : TCQ;
        put_message(w, lane, lane->lcl_stadd + offset, rmt_arriving(w, lane) + offset, flags);
        next = next + 1 == apart ? 0 : next + 1;
    }
    for (uint64_t i = 0; i < window; i++) {
        struct perf_lane *lane = &w->lanes[i % w->num_lanes];
        if (lane->tcq_taken)
            lane->tcq_taken--;
        else
            perf_await_tcq(lane->vcq);
    }
    for (uint64_t l = 0; l < w->num_lanes && l < window; l++)
        perf_await_notice(w->lanes[(window - 1 - l) % w->num_lanes].vcq, UTOFU_MRQ_TYPE_LCL_PUT);
}

void perf_pairs_run(struct perf_worker *w)
{
    const struct perf_op *op = w->run.op;
    const struct perf_steps ping_pong = {ping_once, fill_ping, expect_ping, false};

    if (op->ping && w->origin)
        perf_measure(w, ping_pong, op->ping, op->parts, 2);
    else if (op->ping)
        ping_pong_target(w, op->ping);
    else if ((w->origin || op->both_measure) && op->once)
        measure_one_sided(w);
    else if (w->origin)
        measure_connections(w);
    if (!op->ping && (!w->origin || op->both_measure))
        await_stop(w);
}

/*
 * Set-up
 */

static size_t largest(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* The size of the largest transfer of all operations. */
static size_t area_size(void)
{
    size_t span = 0;

    for (uint64_t o = 0; o < perf_options.num_ops; o++) {
        const struct perf_op *op = &perf_ops[perf_options.ops[o]];
        size_t size = op->default_to;
        for (uint64_t s = 0; s < perf_options.num_sizes && !op->fixed; s++)
            if (perf_options.sizes[s] <= op->max_size)
                size = s ? largest(size, perf_options.sizes[s]) : perf_options.sizes[s];
        if (op->kind != PERF_PAIRS)
            continue;
        size_t need = size;
        if (op->check == PERF_STRIDE) {
            size_t stride = perf_options.stride ? perf_options.stride : 2 * size;
            need = stride * (perf_options.blocks - 1) + size;
        } else if (op->windowed) {
            uint64_t buffers = perf_options.buffers ? perf_options.buffers : perf_options.window;
            need = largest(size,
                           size * buffers < PERF_BUFFER_BYTES ? size * buffers : PERF_BUFFER_BYTES);
        }
        span = largest(span, need);
    }
    return (span + 4095) / 4096 * 4096;
}

static void open_worker(struct perf_worker *w, unsigned int number, size_t span)
{
    bool lower = party.rank < party.size / 2;

    w->number = number;
    w->partner = (party.rank + party.size / 2) % party.size;
    w->origin = lower;
    w->num_lanes = (unsigned int)perf_options.num_tnis;
    w->span = span;
    w->buffer = aligned_alloc(4096, 2 * span + PERF_WORDS);
    if (!w->buffer)
        party_fail(1, "no memory for buffers of %zu bytes", 2 * span);
    for (unsigned int l = 0; l < w->num_lanes; l++) {
        struct perf_lane *lane = &w->lanes[l];
        uint64_t tni = perf_options.tnis[(number + l) % perf_options.num_tnis];
        party_check(
            utofu_create_vcq((utofu_tni_id_t)tni,
                             perf_options.exclusive ? UTOFU_VCQ_FLAG_EXCLUSIVE : 0, &lane->vcq),
            perf_options.exclusive ? "utofu_create_vcq of an exclusive VCQ" : "utofu_create_vcq");
        party_check(utofu_query_vcq_id(lane->vcq, &lane->id), "utofu_query_vcq_id");
        party_check(utofu_reg_mem(lane->vcq, w->buffer, 2 * span + PERF_WORDS, 0, &lane->lcl_stadd),
                    "utofu_reg_mem");
    }
    /* after the registration: untouched memory of any size is mapped by peers of this host */
    memset(w->buffer, 0, 2 * span + PERF_WORDS);
}

void perf_pairs_open(void)
{
    size_t lanes = perf_options.threads * perf_options.num_tnis;
    struct lane_record *mine = calloc(lanes, sizeof(*mine));
    struct lane_record *all = calloc(lanes * party.size, sizeof(*all));
    uint32_t partner = (party.rank + party.size / 2) % party.size;
    size_t n = 0, span = area_size();

    workers = calloc(perf_options.threads, sizeof(*workers));
    if (!mine || !all || !workers)
        party_fail(1, "no memory");
    for (unsigned int t = 0; t < perf_options.threads; t++) {
        open_worker(&workers[t], t, span);
        for (unsigned int l = 0; l < workers[t].num_lanes; l++)
            mine[n++] = (struct lane_record){workers[t].lanes[l].id, workers[t].lanes[l].lcl_stadd};
    }
    party_gather(mine, lanes * sizeof(*mine), all, false);
    n = partner * lanes;
    for (unsigned int t = 0; t < perf_options.threads; t++) {
        for (unsigned int l = 0; l < workers[t].num_lanes; l++) {
            workers[t].lanes[l].rmt = all[n].id;
            workers[t].lanes[l].rmt_stadd = all[n++].stadd;
        }
    }
    free(mine);
    free(all);
}

void perf_pairs_close(void)
{
    for (unsigned int t = 0; t < perf_options.threads; t++) {
        struct perf_worker *w = &workers[t];
        for (unsigned int l = 0; l < w->num_lanes; l++) {
            party_check(utofu_dereg_mem(w->lanes[l].vcq, w->lanes[l].lcl_stadd, 0),
                        "utofu_dereg_mem");
            party_check(utofu_free_vcq(w->lanes[l].vcq), "utofu_free_vcq");
        }
        free(w->buffer);
    }
    free(workers);
    workers = NULL;
}
