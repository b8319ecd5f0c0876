/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Barriers and reductions beside everything else: in each epoch a random circuit
 * (tests/barrier/random_circuit.h) is allocated, set, used for some rounds and freed, under load.
 * The processes tell each other in their seats how far they are.
 */
#include "actor.h"
#include "random_circuit.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 6, STARTED = 0 /* the first cell */ };

/* State of a process: the epoch * 8, plus one of these. */
enum stage { NOTHING, ALLOCATED, SET, THROUGH, OVER };

static struct random_circuit circuit;
static utofu_vbg_id_t ids[MAX_PARTS * MAX_PART_GATES];
static enum stage stage;
static uint64_t now_epoch;
static struct ut_rng values;
static int round_number, pending;
static bool under_way, broken;
static bool done[MAX_PARTS];
static struct ut_contribution all[MAX_PARTS], got[MAX_PARTS];

static bool is_mine(int part)
{
    return circuit.part[part].rank == ut_rank;
}

static void set_stage(enum stage next)
{
    stage = next;
    atomic_store(&soak_board()->seat[ut_rank].gates_stage, (now_epoch + 1) * 8 + (uint64_t)next);
}

/* Are all processes that far? */
static bool all_are(enum stage least)
{
    for (int rank = 0; rank < ut_size; rank++)
        if (atomic_load(&soak_board()->seat[rank].gates_stage) <
            (now_epoch + 1) * 8 + (uint64_t)least)
            return false;
    return true;
}

/* No process needs more relay gates of a TNI than there are. */
static bool fits(void)
{
    int relays[SOAK_MAX_PROCS][UT_TNIS] = {0};

    for (int part = 0; part < circuit.num_parts; part++) {
        const struct random_part *p = &circuit.part[part];
        relays[p->rank][p->tni] += p->num_relays;
        if (relays[p->rank][p->tni] > 32)
            return false;
    }
    return true;
}

static void allocate(void)
{
    uint64_t *mine = soak_board()->seat[ut_rank].gates;

    for (int part = 0, n = 0; part < circuit.num_parts; part++)
        if (is_mine(part))
            CHECK_OK(utofu_alloc_vbg(circuit.part[part].tni,
                                     (size_t)circuit.part[part].num_relays + 1, 0,
                                     &mine[n++ * MAX_PART_GATES]));
    set_stage(ALLOCATED);
}

static void set_gates(void)
{
    struct utofu_vbg_setting settings[MAX_PART_GATES];
    struct ut_rng rng = ut_rng_start(ut_random());
    int seen[SOAK_MAX_PROCS] = {0};

    for (int part = 0; part < circuit.num_parts; part++) {
        int rank = circuit.part[part].rank;
        memcpy(&ids[part * MAX_PART_GATES],
               &soak_board()->seat[rank].gates[seen[rank]++ * MAX_PART_GATES],
               MAX_PART_GATES * sizeof(ids[0]));
    }
    for (int part = 0; part < circuit.num_parts; part++)
        if (is_mine(part)) {
            size_t count = random_part_wire(&circuit, part, ids, settings, &rng);
            CHECK_OK(utofu_set_vbg(settings, count));
        }
    set_stage(SET);
}

static void free_gates(void)
{
    for (int part = 0, n = 0; part < circuit.num_parts; part++)
        if (is_mine(part))
            CHECK_OK(utofu_free_vbg(&soak_board()->seat[ut_rank].gates[n++ * MAX_PART_GATES],
                                    (size_t)circuit.part[part].num_relays + 1));
    stage = OVER;
}

/* The values of a round, known to all processes. */
static void draw_values(void)
{
    struct ut_contribution shape;
    int odd = ut_rng_below(&values, 5) == 0
                  ? (int)ut_rng_below(&values, (uint64_t)circuit.num_parts)
                  : -1;

    ut_contribution_shape(&shape, &values);
    for (int part = 0; part < circuit.num_parts; part++) {
        all[part] = shape;
        if (part == odd)
            ut_contribution_shape(&all[part], &values);
        ut_contribution_fill(&all[part], &values);
    }
}

static uint64_t round_mark(void)
{
    return now_epoch * (ROUNDS + 1) + (uint64_t)round_number + 1;
}

static void start_round(void)
{
    draw_values();
    pending = 0;
    for (int part = 0; part < circuit.num_parts; part++) {
        done[part] = !is_mine(part);
        if (done[part])
            continue;
        got[part] = all[part];
        atomic_store(ut_cell(STARTED + part), round_mark());
        CHECK_OK(ut_contribution_start(ids[part * MAX_PART_GATES], &got[part]));
        pending++;
    }
    under_way = true;
}

/* The expected result of a participant. */
static int expect(int part, struct ut_contribution *want)
{
    const uint64_t *times = circuit.part[part].result;
    struct ut_contribution same[MAX_PARTS];

    *want = all[part];
    if (!random_part_waits(&circuit, part))
        return UTOFU_SUCCESS; /* its own value */
    for (int i = 0; i < circuit.num_parts; i++)
        if (times[i] && (all[i].op != all[part].op || all[i].count != all[part].count))
            return UTOFU_ERR_BARRIER_MISMATCH;
    for (int i = 0; i < circuit.num_parts; i++)
        same[i] = times[i] ? all[i] : all[part];
    ut_contribution_model(want, same, times, circuit.num_parts);
    return UTOFU_SUCCESS;
}

/* All participants whose values are in the result have started. */
static void check_started(int part)
{
    for (int i = 0; i < circuit.num_parts; i++)
        if (random_part_waits(&circuit, part) && circuit.part[part].result[i])
            CHECK(atomic_load(ut_cell(STARTED + i)) >= round_mark(),
                  "participant %d is done before %d has started", part, i);
}

static void take_result(int part, int rc)
{
    struct ut_contribution want;
    int want_rc;

    done[part] = true;
    pending--;
    if (rc == UTOFU_ERR_BARRIER_OTHER) {
        char why[1024] = "";

        utofu_get_last_error(why);
        for (time_t end = time(NULL) + SOAK_TOLD_S; time(NULL) < end && !soak_any_dead();)
            ut_relax();
        CHECK(soak_any_dead(), "all live, but a reduction failed: %s", why);
        soak_count(SOAK_PEER_ERRORS, 1);
        broken = true;
        return;
    }
    check_started(part);
    want_rc = expect(part, &want);
    CHECK_RC(rc, want_rc);
    if (rc == UTOFU_SUCCESS)
        ut_contribution_check(&got[part], &want);
}

static bool poll_round(void)
{
    bool found = false;

    for (int part = 0; part < circuit.num_parts; part++) {
        if (done[part])
            continue;
        int rc = ut_contribution_poll(ids[part * MAX_PART_GATES], &got[part]);
        if (rc == UTOFU_ERR_NOT_COMPLETED)
            continue;
        take_result(part, rc);
        found = true;
    }
    if (pending == 0) {
        under_way = false;
        round_number++;
        soak_count(SOAK_ROUNDS, 1);
    }
    return found;
}

static bool step_rounds(void)
{
    if (under_way)
        return poll_round();
    if (broken || round_number == ROUNDS) {
        set_stage(THROUGH);
        return true;
    }
    start_round();
    return true;
}

static bool gates_step(void)
{
    switch (stage) {
    case NOTHING:
        allocate();
        return true;
    case ALLOCATED:
        if (all_are(ALLOCATED)) {
            set_gates();
            return true;
        }
        break;
    case SET:
        if (under_way || all_are(SET))
            return step_rounds();
        break;
    case THROUGH:
        if (all_are(THROUGH)) {
            free_gates();
            return true;
        }
        break;
    default:
        return false;
    }
    if (soak_any_dead())
        free_gates();
    return false;
}

static void gates_open(void)
{
}

static void gates_prepare(uint64_t epoch)
{
    struct ut_rng rng = ut_rng_start(ut_seed() * 17 + epoch);

    now_epoch = epoch;
    do
        random_circuit_draw(&circuit, ut_size, &rng);
    while (!fits());
    values = ut_rng_start(ut_seed() * 19 + epoch);
    stage = NOTHING;
    round_number = pending = 0;
    under_way = broken = false;
}

static bool gates_is_done(void)
{
    return stage == OVER;
}

static void gates_check(void)
{
}

static void gates_close(void)
{
}

const struct soak_actor soak_gates = {"gates",       gates_open,  gates_prepare, gates_step,
                                      gates_is_done, gates_check, gates_close};
