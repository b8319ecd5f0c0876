/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Circuits that cannot work: a participant dies; an input without a sender, two senders to one
 * input, a partner that never sets its gate. The first case ends with UTOFU_ERR_BARRIER_OTHER and
 * names the culprit; the others wait, and log the reason at level warning.
 */
#include "circuits.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

TestSuite(barrier_failures);

/* Death */

struct death {
    int shape, victim, moment;
    char report[8192];
};
enum { BEFORE_START, WHILE_WAITING, NUM_MOMENTS, DEATH_ROUND = 20 };

static void die(void)
{
    ut_mark_dead(ut_rank);
    kill(getpid(), SIGKILL);
}

static void dying(void *arg)
{
    const struct death *d = arg;
    static struct ut_circuit circuit;
    int rc = UTOFU_SUCCESS;

    ut_circuit_open(&circuit, (enum circuit_shape)d->shape, (utofu_tni_id_t)(ut_rank % 3), 0);
    for (int round = 0; rc == UTOFU_SUCCESS; round++) {
        ut_step("round %d", round);
        if (ut_rank == d->victim && round == DEATH_ROUND) {
            if (d->moment == WHILE_WAITING)
                CHECK_OK(utofu_barrier(circuit.mine[0], 0));
            die();
        }
        CHECK_OK(utofu_barrier(circuit.mine[0], 0));
        rc = ut_barrier_await(circuit.mine[0]);
        /* the victim's last messages may still be in its send queue when it is killed */
        CHECK(rc == UTOFU_SUCCESS || round >= DEATH_ROUND - 1);
        CHECK(round < DEATH_ROUND + 2 || rc != UTOFU_SUCCESS, "round %d went well", round);
    }
    CHECK_RC(rc, UTOFU_ERR_BARRIER_OTHER);
    char text[1024], want[32];
    utofu_get_last_error(text);
    snprintf(want, sizeof(want), "rank %d)", d->victim);
    CHECK(strstr(text, want) != NULL, "the culprit, rank %d, is not named: %s", d->victim, text);
    CHECK(strncmp(text, "UTOFU_ERR_BARRIER_OTHER (-256): ", 32) == 0, "no code: %s", text);
    /* the circuit stays broken */
    CHECK_OK(utofu_barrier(circuit.mine[0], 0));
    CHECK_RC(ut_barrier_await(circuit.mine[0]), UTOFU_ERR_BARRIER_OTHER);
    ut_circuit_close(&circuit);
}

static void run_deaths(int shape)
{
    for (int moment = 0; moment < NUM_MOMENTS; moment++) {
        for (int victim = 0; victim < 5; victim += 2) {
            struct death d = {shape, victim, moment, ""};
            ut_run(&(struct ut_run_opts){.n = 5, .may_die = 1u << victim, .timeout_s = 120}, dying,
                   &d);
        }
    }
}

Test(barrier_failures, a_death_in_a_butterfly_reaches_everybody)
{
    run_deaths(CIRCUIT_BUTTERFLY);
}

Test(barrier_failures, a_death_in_a_tree_reaches_everybody)
{
    run_deaths(CIRCUIT_TREE);
}

Test(barrier_failures, a_death_in_a_ring_reaches_everybody)
{
    run_deaths(CIRCUIT_RING);
}

/* Circuits that wait for ever; the tests wait until the library has logged the reason. */

static void await_text(utofu_vbg_id_t id, const char *want)
{
    char text[1024] = "";

    while (strstr(text, want) == NULL) {
        CHECK_RC(utofu_poll_barrier(id, 0), UTOFU_ERR_NOT_COMPLETED);
        utofu_get_last_error(text);
        ut_relax();
    }
}

/* This process calls nothing while the others wait. */
static void await_others(int others)
{
    while (atomic_load(ut_cell(0)) < (uint64_t)others)
        ut_relax();
}

static void said(utofu_vbg_id_t id, const char *want)
{
    await_text(id, want);
    atomic_fetch_add(ut_cell(0), 1);
    await_others(ut_size - 1);
}

static void partner_never_sets(void *arg)
{
    static struct ut_circuit circuit;

    (void)arg;
    ut_circuit_alloc(&circuit, CIRCUIT_BUTTERFLY, 0, 0);
    ut_barrier();
    if (ut_rank == 2) {
        await_others(3);
    } else {
        ut_circuit_set(&circuit);
        CHECK_OK(utofu_barrier(circuit.mine[0], 0));
        /* 3 exchanges with 2 first, 0 with 2 second; 1 with 3, which waits for 2 */
        said(circuit.mine[0], ut_rank == 0   ? "of gate 16 (TNI 0, rank 2), which is not set"
                              : ut_rank == 3 ? "of gate 0 (TNI 0, rank 2), which is not set"
                                             : "rank 3), which waits for a packet itself");
    }
    ut_barrier();
}

static void partner_never_starts(void *arg)
{
    static struct ut_circuit circuit;

    (void)arg;
    ut_circuit_open(&circuit, CIRCUIT_TREE, 4, 0);
    if (ut_rank == 2) {
        await_others(3);
    } else {
        CHECK_OK(utofu_barrier(circuit.mine[0], 0));
        said(circuit.mine[0],
             ut_rank == 0 ? "of gate 0 (TNI 4, rank 2), which has not been started" : "itself");
    }
    ut_barrier();
}

static void nobody_sends(void *arg)
{
    static struct ut_circuit circuit;

    (void)arg;
    ut_circuit_alloc(&circuit, CIRCUIT_BUTTERFLY, 1, 0);
    if (ut_rank == 0)
        circuit.settings[1].dst_rmt_vbg_id = UTOFU_VBG_ID_NULL;
    ut_circuit_set(&circuit);
    ut_barrier();
    CHECK_OK(utofu_barrier(circuit.mine[0], 0));
    if (ut_rank == 2) {
        await_text(circuit.mine[0], "of gate 16 (TNI 1, rank 0), which is set to send elsewhere");
    } else if (ut_rank == 0) {
        await_others(1);
    }
    if (ut_rank == 2)
        atomic_fetch_add(ut_cell(0), 1);
    ut_barrier();
}

static void two_senders(void *arg)
{
    static struct ut_circuit circuit;

    (void)arg;
    ut_circuit_alloc(&circuit, CIRCUIT_BUTTERFLY, 1, 0);
    if (ut_rank == 1) /* to 0 instead of 3 in the second step, where 2 also sends */
        circuit.settings[1].dst_rmt_vbg_id = circuit.ids[0];
    ut_circuit_set(&circuit);
    ut_barrier();
    CHECK_OK(utofu_barrier(circuit.mine[0], 0));
    if (ut_rank == 0) {
        char text[1024] = "";
        int rc = UTOFU_ERR_NOT_COMPLETED;
        while (
            rc == UTOFU_ERR_NOT_COMPLETED ||
            strstr(
                text,
                "received a packet from gate 16 (TNI 1, rank 1), but is not set to receive it") ==
                NULL) {
            if (rc == UTOFU_ERR_NOT_COMPLETED)
                rc = utofu_poll_barrier(circuit.mine[0], 0);
            utofu_get_last_error(text);
            ut_relax();
        }
        CHECK_OK(rc); /* an unexpected sender does no harm */
    } else if (ut_rank == 3) {
        await_text(circuit.mine[0], "of gate 16 (TNI 1, rank 1), which is set to send elsewhere");
    } else {
        CHECK_OK(ut_barrier_await(circuit.mine[0]));
    }
    ut_barrier();
}

static void signal_missing(void *arg)
{
    utofu_vbg_id_t ids[3], other[2];
    struct utofu_vbg_setting s[3];

    (void)arg;
    CHECK_OK(utofu_alloc_vbg(0, 3, 0, ids));
    CHECK_OK(utofu_alloc_vbg(3, 2, 0, other));
    for (int i = 0; i < 3; i++)
        s[i] = (struct utofu_vbg_setting){
            ids[i], UTOFU_VBG_ID_NULL, UTOFU_VBG_ID_NULL, UTOFU_VBG_ID_NULL, UTOFU_VBG_ID_NULL,
            {255}};
    s[0].src_lcl_vbg_id = ids[1]; /* which waits for a packet from another TNI, */
    s[1].dst_lcl_vbg_id = ids[0];
    s[1].src_rmt_vbg_id = other[1]; /* which waits for a signal from a gate that is not set */
    CHECK_OK(utofu_set_vbg(s, 3));
    struct utofu_vbg_setting t[2] = {s[2], s[2]};
    t[0].vbg_id = other[0];
    t[1].vbg_id = other[1];
    t[1].src_lcl_vbg_id = other[0];
    t[1].dst_rmt_vbg_id = ids[1];
    CHECK_OK(utofu_set_vbg(t, 2));
    CHECK_OK(utofu_barrier(ids[0], 0));
    await_text(ids[0],
               "gate 16 (TNI 3, rank 0) waits for a signal of gate 0 (TNI 3, rank 0), which "
               "is set to send elsewhere");
    CHECK_OK(utofu_free_vbg(ids, 3)); /* freeing ends the wait */
    CHECK_OK(utofu_free_vbg(other, 2));
}

static void run_waiting(int n, ut_body_fn *body)
{
    ut_run(&(struct ut_run_opts){.n = n, .timeout_s = 120, .env = {"UTOFU_LOG_LEVEL=warning"}},
           body, NULL);
}

Test(barrier_failures, a_partner_that_never_sets_its_gate_is_named)
{
    run_waiting(4, partner_never_sets);
}

Test(barrier_failures, a_partner_that_never_starts_is_named)
{
    run_waiting(4, partner_never_starts);
}

Test(barrier_failures, an_input_that_nobody_sends_to_is_named)
{
    run_waiting(4, nobody_sends);
}

Test(barrier_failures, a_second_sender_is_named_and_ignored)
{
    run_waiting(4, two_senders);
}

Test(barrier_failures, a_missing_signal_is_traced_across_tnis)
{
    run_waiting(1, signal_missing);
}
