/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of all processes: a chain of session-mode VCQs, and barrier circuits. */
#include "circuit.h"
#include "perf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * Chain: 0 -> 1 -> ... -> n-1 -> 0. Rank 0 puts. In session mode the arriving put starts the
 * descriptor that the next process has queued, and so on; otherwise each process waits for the
 * notice and puts. A sample is one hop.
 */

enum { CHAIN_QUEUED = 1024 };

static struct {
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t next;
    utofu_stadd_t stadd, next_stadd;
    uint8_t *buffer;
    size_t size;
    uint64_t rounds; /* of the earlier sizes */
} chain;

static void set_up(unsigned long relay_flags)
{
    struct {
        utofu_vcq_id_t id;
        utofu_stadd_t stadd;
    } mine, *all = calloc(party.size, sizeof(*all));
    uint32_t next = (party.rank + 1) % party.size;
    utofu_tni_id_t tni = (utofu_tni_id_t)perf_options.tnis[0];

    chain.size = 4096;
    for (uint64_t s = 0; s < perf_options.num_sizes; s++)
        if (perf_options.sizes[s] > chain.size)
            chain.size = (perf_options.sizes[s] + 4095) / 4096 * 4096;
    /* with --verify, rank 0 receives into another area than it sends from */
    size_t all_bytes = perf_options.verify ? 2 * chain.size : chain.size;
    chain.buffer = aligned_alloc(4096, all_bytes);
    if (!chain.buffer || !all)
        party_fail(1, "no memory for %zu bytes", all_bytes);
    chain.rounds = 0;
    unsigned long flags = party.rank ? relay_flags : 0;
    party_check(utofu_create_vcq(tni, flags, &chain.vcq),
                flags ? "utofu_create_vcq in session mode" : "utofu_create_vcq");
    party_check(utofu_query_vcq_id(chain.vcq, &mine.id), "utofu_query_vcq_id");
    party_check(utofu_reg_mem(chain.vcq, chain.buffer, all_bytes, 0, &chain.stadd),
                "utofu_reg_mem");
    memset(chain.buffer, 0, all_bytes); /* untouched memory of any size is mapped */
    mine.stadd = chain.stadd;
    party_gather(&mine, sizeof(mine), all, false);
    chain.next = all[next].id;
    chain.next_stadd = all[next].stadd + (perf_options.verify && next == 0 ? chain.size : 0);
    free(all);
}

void perf_chain_set_up(void)
{
    set_up(UTOFU_VCQ_FLAG_SESSION_MODE);
}

void perf_relay_set_up(void)
{
    set_up(0);
}

void perf_chain_tear_down(void)
{
    party_check(utofu_dereg_mem(chain.vcq, chain.stadd, 0), "utofu_dereg_mem");
    party_check(utofu_free_vcq(chain.vcq), "utofu_free_vcq");
    free(chain.buffer);
}

static void chain_put(size_t size, unsigned long flags)
{
    PERF_START(chain.vcq, utofu_put, chain.next, chain.stadd, chain.next_stadd, size, 0, flags,
               NULL);
}

/* Writes the number of the round into the data, for relays that poll their memory. */
static void stamp(uint64_t round, size_t size)
{
    if (size >= sizeof(round))
        memcpy(chain.buffer, &round, sizeof(round));
}

/* With --verify, each process checks the received data before the next round begins. */
static void expect_round(struct perf_worker *w, uint64_t iteration, const void *arg)
{
    const uint8_t *arrived = chain.buffer + (party.rank ? 0 : chain.size);

    (void)arg;
    perf_expect(&w->run, iteration, arrived, 0, w->run.size, perf_pattern(&w->run, iteration, 0));
    party_barrier();
}

static void fill_round(struct perf_worker *w, uint64_t iteration, const void *arg)
{
    (void)arg;
    perf_fill(chain.buffer, w->run.size, perf_pattern(&w->run, iteration, 0));
}

static void put_round(struct perf_worker *w, uint64_t iteration, const void *flags)
{
    if (!perf_options.verify)
        stamp(chain.rounds + iteration + 1, w->run.size);
    chain_put(w->run.size, *(const unsigned long *)flags);
    perf_await_notice(chain.vcq, UTOFU_MRQ_TYPE_RMT_PUT);
}

static void chain_first(struct perf_worker *w, unsigned long flags)
{
    const struct perf_steps steps = {put_round, fill_round, expect_round, false};

    perf_measure(w, steps, &flags, party.size, party.size);
}

static unsigned long link_flags(void)
{
    return party.rank == party.size - 1 ? UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE
                                        : UTOFU_ONESIDED_FLAG_SPS(1);
}

static void chain_link(struct perf_worker *w)
{
    const struct perf_run *run = &w->run;
    uint64_t total = run->warmup + run->iterations, queued = 0;
    unsigned long flags = link_flags() | UTOFU_ONESIDED_FLAG_TCQ_NOTICE;

    for (uint64_t sent = 0; sent < total; sent++) {
        for (; queued < total && queued - sent < CHAIN_QUEUED; queued++)
            chain_put(run->size, flags);
        perf_await_tcq(chain.vcq);
        if (perf_options.verify)
            expect_round(w, sent, NULL);
    }
}

/* The program does not call the library until all queued descriptors are sent. */
static void chain_link_unattended(const struct perf_run *run)
{
    const uint64_t *arrived = (const uint64_t *)(const void *)chain.buffer;
    uint64_t total = run->warmup + run->iterations;

    if (run->size < sizeof(*arrived))
        party_fail(PARTY_USAGE, "session-chain takes 8 bytes or more where relays do not poll");
    for (uint64_t queued = 0; queued < total;) {
        uint64_t end = queued + CHAIN_QUEUED < total ? queued + CHAIN_QUEUED : total;
        for (; queued < end; queued++)
            chain_put(run->size, link_flags());
        while (__atomic_load_n(arrived, __ATOMIC_ACQUIRE) < chain.rounds + queued)
            perf_be_busy();
    }
}

void perf_chain_run(struct perf_worker *worker)
{
    if (party.rank == 0)
        chain_first(worker, UTOFU_ONESIDED_FLAG_SPS(1));
    else if (perf_options.target == PERF_POLLS)
        chain_link(worker);
    else
        chain_link_unattended(&worker->run);
    chain.rounds += worker->run.warmup + worker->run.iterations;
}

void perf_relay_run(struct perf_worker *worker)
{
    uint64_t total = worker->run.warmup + worker->run.iterations;

    if (party.rank == 0) {
        chain_first(worker, UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE);
        return;
    }
    for (uint64_t i = 0; i < total; i++) {
        perf_await_notice(chain.vcq, UTOFU_MRQ_TYPE_RMT_PUT);
        chain_put(worker->run.size, UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE);
        if (perf_options.verify)
            expect_round(worker, i, NULL);
    }
}

/*
 * Barrier circuits: the butterfly of the examples, and a star.
 */

static utofu_vbg_id_t gates[CIRCUIT_MAX_GATES];
static size_t num_gates;
typedef utofu_vbg_id_t gate_list[CIRCUIT_MAX_GATES];

/*
 * The star: if processes share CPUs, each waits for its turn, and with a star one
 * turn is enough to receive the last result and to start the next communication. The signal of rank
 * 0 goes through its gates in order: gate i collects from rank i; the last of these sends to rank
 * 1, and the gates after it send to the others.
 */
static size_t star_gates(void)
{
    return party.rank == 0 ? 2 * (size_t)party.size - 2 : 1;
}

static void wire_star(struct utofu_vbg_setting settings[], const gate_list *all)
{
    uint32_t last = party.size - 1; /* of the collecting gates */

    for (size_t g = 0; g < num_gates; g++)
        settings[g] = (struct utofu_vbg_setting){
            .vbg_id = gates[g],
            .src_lcl_vbg_id = UTOFU_VBG_ID_NULL,
            .dst_lcl_vbg_id = UTOFU_VBG_ID_NULL,
            .src_rmt_vbg_id = UTOFU_VBG_ID_NULL,
            .dst_rmt_vbg_id = UTOFU_VBG_ID_NULL,
            .dst_path_coords = {UTOFU_PATH_COORD_NULL},
        };
    if (party.rank > 0) {
        settings[0].dst_rmt_vbg_id = all[0][party.rank];
        settings[0].src_rmt_vbg_id = all[0][last + party.rank - 1];
        return;
    }
    for (uint32_t g = 0; g < num_gates; g++) {
        settings[g].src_lcl_vbg_id = gates[(g + num_gates - 1) % num_gates];
        settings[g].dst_lcl_vbg_id = gates[(g + 1) % num_gates];
        if (g > 0 && g <= last)
            settings[g].src_rmt_vbg_id = all[g][0];
        if (g >= last)
            settings[g].dst_rmt_vbg_id = all[g - last + 1][0];
    }
}

void perf_circuit_set_up(void)
{
    struct utofu_vbg_setting settings[CIRCUIT_MAX_GATES];
    int size = (int)party.size, rank = (int)party.rank;
    gate_list *all = calloc(party.size, sizeof(*all));
    utofu_tni_id_t *tnis;
    size_t num_tnis;

    if (!all)
        party_fail(1, "no memory");
    party_check(utofu_get_barrier_tnis(&tnis, &num_tnis), "utofu_get_barrier_tnis");
    if (num_tnis == 0)
        party_fail(1, "there is no TNI for barrier communication");
    utofu_tni_id_t tni = tnis[perf_options.tnis[0] % num_tnis];
    free(tnis);

    if (perf_options.star && party.size > PERF_MAX_STAR)
        party_fail(PARTY_USAGE, "a star has up to %d processes, not %u", PERF_MAX_STAR, party.size);
    num_gates = perf_options.star ? star_gates() : circuit_gates(CIRCUIT_BUTTERFLY, size, rank);
    party_check(utofu_alloc_vbg(tni, num_gates, 0, gates), "utofu_alloc_vbg");
    party_gather(gates, sizeof(gates), all, false);
    if (perf_options.star)
        wire_star(settings, all);
    else
        circuit_wire(CIRCUIT_BUTTERFLY, size, rank, all[0], settings);
    party_check(utofu_set_vbg(settings, num_gates), "utofu_set_vbg");
    free(all);
    party_barrier(); /* the circuit is complete when all processes have set their gates */
}

void perf_circuit_tear_down(void)
{
    party_check(utofu_free_vbg(gates, num_gates), "utofu_free_vbg");
}

struct communication {
    void (*once)(size_t num_data);
};

static void do_communication(struct perf_worker *w, uint64_t iteration, const void *arg)
{
    const struct communication *c = arg;

    (void)iteration;
    c->once(w->run.size / sizeof(uint64_t));
}

static void measure_circuit(struct perf_worker *w, void (*once)(size_t num_data))
{
    const struct perf_steps steps = {do_communication, NULL, NULL, false};
    struct communication c = {once};

    perf_measure(w, steps, &c, 1, 1);
    if (party.rank != 0)
        w->messages = w->bytes = 0; /* one communication of all processes, so counted once */
}

#define AWAIT(poll, ...)                                                                           \
    do {                                                                                           \
        uint32_t spins = 0;                                                                        \
        int poll_rc;                                                                               \
        while ((poll_rc = poll(__VA_ARGS__)) == UTOFU_ERR_NOT_COMPLETED)                           \
            party_idle(&spins, "a barrier communication");                                         \
        party_check(poll_rc, #poll);                                                               \
    } while (0)

static void barrier_once(size_t num_data)
{
    (void)num_data;
    party_check(utofu_barrier(gates[0], 0), "utofu_barrier");
    AWAIT(utofu_poll_barrier, gates[0], 0);
}

void perf_barrier_run(struct perf_worker *worker)
{
    measure_circuit(worker, barrier_once);
}

static void reduce_uint64_once(size_t num_data)
{
    uint64_t data[6] = {1, 2, 3, 4, 5, 6};

    party_check(utofu_reduce_uint64(gates[0], UTOFU_REDUCE_OP_SUM, data, num_data, 0),
                "utofu_reduce_uint64");
    AWAIT(utofu_poll_reduce_uint64, gates[0], 0, data);
    if (data[0] != party.size)
        party_fail(1, "a sum of %u ones was %llu", party.size, (unsigned long long)data[0]);
    for (size_t i = 1; i < num_data && perf_options.verify; i++)
        if (data[i] != (i + 1) * party.size)
            party_fail(1, "value %zu of a reduction: the sum of %u times %zu was %llu", i,
                       party.size, i + 1, (unsigned long long)data[i]);
}

void perf_reduce_uint64_run(struct perf_worker *worker)
{
    measure_circuit(worker, reduce_uint64_once);
}

static void reduce_double_once(size_t num_data)
{
    double data[3] = {0.5, 1e10, -1e-10};

    party_check(utofu_reduce_double(gates[0], UTOFU_REDUCE_OP_BFPSUM, data, num_data, 0),
                "utofu_reduce_double");
    AWAIT(utofu_poll_reduce_double, gates[0], 0, data);
    if (data[0] < 0.5 * party.size || data[0] > 0.5 * party.size)
        party_fail(1, "a sum of %u halves was %g", party.size, data[0]);
    for (size_t i = 1; i < num_data && perf_options.verify; i++) {
        double sum = (i == 1 ? 1e10 : -1e-10) * party.size;
        if (fabs(data[i] - sum) > fabs(sum) * 1e-12)
            party_fail(1, "value %zu of a reduction: the sum was %g instead of %g", i, data[i],
                       sum);
    }
}

void perf_reduce_double_run(struct perf_worker *worker)
{
    measure_circuit(worker, reduce_double_once);
}
