/* SPDX-License-Identifier: Apache-2.0 */
/* VBGs: allocation, ids, settings */
#include <string.h>

#include "circuit.h"
#include "owned.h"

/* Allocates on the first barrier TNI that has room; 0: none has, and the case is skipped, or has
 * failed */
static int alloc_gates(struct cf *c, size_t count, unsigned long flags, utofu_tni_id_t *tni,
                       utofu_vbg_id_t ids[])
{
    int rc = UTOFU_ERR_FULL;

    for (size_t i = 0; i < 6 && rc == UTOFU_ERR_FULL; i++) {
        if (!cf_barrier_tni(c, (size_t)cf_rank(c) + i, tni))
            return 0;
        rc = cf_alloc_vbg(*tni, count, flags, ids);
    }
    if (rc == UTOFU_SUCCESS)
        return 1;
    if (rc == UTOFU_ERR_FULL)
        cf_skip(c, "no TNI has %lu gates free", (unsigned long)count);
    else
        cf_fail(c, "utofu_alloc_vbg(%lu gates, flags %lu) returns %s", (unsigned long)count, flags,
                cf_code(rc));
    return 0;
}

static void alloc_count(struct cf *c, size_t count, unsigned long flags)
{
    utofu_tni_id_t tni;
    utofu_vbg_id_t ids[12];

    for (size_t i = 0; i < 12; i++)
        ids[i] = UTOFU_VBG_ID_NULL;
    if (!alloc_gates(c, count, flags, &tni, ids))
        return;
    for (size_t i = 0; i < 12; i++) {
        CF_HOLDS(c, i >= count || ids[i] != UTOFU_VBG_ID_NULL, "no id %lu of %lu", (unsigned long)i,
                 (unsigned long)count);
        CF_HOLDS(c, i < count || ids[i] == UTOFU_VBG_ID_NULL,
                 "element %lu behind %lu ids is written", (unsigned long)i, (unsigned long)count);
        for (size_t k = 0; k < i && i < count; k++)
            CF_HOLDS(c, ids[i] != ids[k], "one id twice");
    }
    CF_HOLDS(c, cf_free_vbg(ids, count) == UTOFU_SUCCESS, "freeing fails");
}

static void alloc_one(struct cf *c)
{
    alloc_count(c, 1, 0);
}
static void alloc_three(struct cf *c)
{
    alloc_count(c, 3, 0);
}
static void alloc_eight(struct cf *c)
{
    alloc_count(c, 8, 0);
}
static void alloc_safe(struct cf *c)
{
    alloc_count(c, 3, UTOFU_VBG_FLAG_THREAD_SAFE);
}

static void alloc_again(struct cf *c)
{
    utofu_tni_id_t tni;
    utofu_vbg_id_t ids[4];

    for (int i = 0; i < 100; i++) {
        int rc;
        if (!alloc_gates(c, 4, 0, &tni, ids))
            return;
        rc = cf_free_vbg(ids, 4);
        CF_NEED(c, rc == UTOFU_SUCCESS, "freeing %d returns %s", i, cf_code(rc));
    }
}

static void judge_unique(struct cf *c)
{
    utofu_tni_id_t tni;
    utofu_vbg_id_t mine[4], all[48][4];
    const utofu_vbg_id_t *ids = &all[0][0];
    size_t total = 4 * (size_t)cf_size(c);

    if (!alloc_gates(c, 2, 0, &tni, mine) || !alloc_gates(c, 2, 0, &tni, mine + 2) ||
        !cf_share(c, mine, sizeof(mine), all))
        return;
    for (size_t i = 0; i < total; i++) {
        for (size_t k = 0; k < i; k++)
            CF_HOLDS(c, ids[i] != ids[k], "ranks %lu and %lu have one VBG id",
                     (unsigned long)(i / 4), (unsigned long)(k / 4));
    }
}

struct gate_place {
    uint8_t coords[8];
    utofu_tni_id_t tni;
    utofu_bg_id_t gate;
    uint16_t extra;
};

static int get_place(struct cf *c, utofu_vbg_id_t id, struct gate_place *place)
{
    int rc;

    memset(place, 0x5a, sizeof(*place));
    rc = utofu_query_vbg_info(id, place->coords, &place->tni, &place->gate, &place->extra);
    if (rc != UTOFU_SUCCESS)
        cf_fail(c, "utofu_query_vbg_info() returns %s", cf_code(rc));
    return rc == UTOFU_SUCCESS;
}

static void judge_own_place(struct cf *c)
{
    utofu_tni_id_t tni;
    utofu_vbg_id_t ids[4];
    struct gate_place place[4];
    uint8_t coords[6];

    if (!alloc_gates(c, 4, 0, &tni, ids))
        return;
    CF_NEED(c, utofu_query_my_coords(coords) == UTOFU_SUCCESS, "no coordinates");
    for (int i = 0; i < 4; i++) {
        if (!get_place(c, ids[i], &place[i]))
            return;
        CF_HOLDS(c, memcmp(place[i].coords, coords, 6) == 0,
                 "gate %d has other coordinates than this node", i);
        CF_HOLDS(c, place[i].coords[6] == 0x5a && place[i].coords[7] == 0x5a,
                 "more than six coordinates are written");
        CF_HOLDS(c, place[i].tni == tni, "gate %d is on TNI %d, not %d", i, (int)place[i].tni,
                 (int)tni);
        CF_HOLDS(c, place[i].gate < 48, "BG id %d of a TNI with 48", (int)place[i].gate);
        for (int k = 0; k < i; k++)
            CF_HOLDS(c, place[i].gate != place[k].gate, "two gates have the BG id %d",
                     (int)place[i].gate);
        cf_number(c, i == 0 ? "BG id of a start gate" : "BG id of a relay gate", place[i].gate);
    }
}

static void judge_remote_place(struct cf *c)
{
    struct {
        utofu_vbg_id_t id;
        struct gate_place place;
    } mine, all[48];
    utofu_tni_id_t tni;

    memset(&mine, 0, sizeof(mine));
    if (!alloc_gates(c, 1, 0, &tni, &mine.id) || !get_place(c, mine.id, &mine.place))
        return;
    if (!cf_share(c, &mine, sizeof(mine), all))
        return;
    for (int r = 0; r < cf_size(c); r++) {
        struct gate_place place;
        if (!get_place(c, all[r].id, &place))
            return;
        CF_HOLDS(c,
                 memcmp(place.coords, all[r].place.coords, 6) == 0 &&
                     place.tni == all[r].place.tni && place.gate == all[r].place.gate,
                 "the gate of rank %d has another place than in rank %d", r, r);
    }
}

/* ---- Limits ---- */

/* All processes allocate so many gates of one TNI at a time until it is full. Those of a node
   together get at least as many start gates, or relay gates, as a TNI has; a process gets no more.
   Under MPI the MPI library may have some. */
static void fill_tni(struct cf *c, size_t each, int has, const char *kind)
{
    struct {
        uint8_t coords[6];
        int count;
    } mine, all[CF_RANKS];
    utofu_tni_id_t tni;
    int rc = UTOFU_SUCCESS, of_node = 0;

    memset(&mine, 0, sizeof(mine));
    if (!cf_barrier_tni(c, 0, &tni))
        return;
    CF_NEED(c, utofu_query_my_coords(mine.coords) == UTOFU_SUCCESS, "no coordinates");
    while (mine.count < 200) {
        utofu_vbg_id_t ids[5];
        if ((rc = cf_alloc_vbg(tni, each, 0, ids)) != UTOFU_SUCCESS)
            break;
        mine.count += each == 1 ? 1 : (int)each - 1;
    }
    CF_HOLDS(c, rc == UTOFU_ERR_FULL, "behind %d %s gates: %s", mine.count, kind, cf_code(rc));
    CF_HOLDS(c, mine.count <= has, "%d %s gates of a TNI with %d", mine.count, kind, has);
    cf_number(c, "gates of a process", mine.count);
    if (!cf_share(c, &mine, sizeof(mine), all))
        return;
    for (int r = 0; r < cf_size(c); r++)
        of_node += memcmp(all[r].coords, mine.coords, 6) == 0 ? all[r].count : 0;
    cf_number(c, "gates of a node", of_node);
#ifdef CONFORM_MPI
    if (of_node < has)
        cf_skip(c, "%d %s gates of %d: MPI may have the others", of_node, kind, has);
#else
    CF_HOLDS(c, of_node >= has, "the processes of a node have %d %s gates of %d", of_node, kind,
             has);
#endif
}

static void fill_starts(struct cf *c)
{
    fill_tni(c, 1, 16, "start");
}

static void fill_relays(struct cf *c)
{
    fill_tni(c, 5, 32, "relay");
}

static void alloc_too_many(struct cf *c)
{
    utofu_tni_id_t tni;
    utofu_vbg_id_t *ids = cf_keep(1000 * sizeof(*ids));
    int rc;

    if (!cf_barrier_tni(c, 0, &tni))
        return;
    rc = cf_alloc_vbg(tni, 49, 0, ids);
    CF_HOLDS(c, rc == UTOFU_ERR_FULL, "49 gates of a TNI with 48: %s", cf_code(rc));
    rc = cf_alloc_vbg(tni, 1000, 0, ids);
    CF_HOLDS(c, rc == UTOFU_ERR_FULL, "1000 gates of a TNI with 48: %s", cf_code(rc));
}

/* Behind UTOFU_ERR_FULL and a free there is room again */
static void alloc_behind_full(struct cf *c)
{
    utofu_tni_id_t tni;
    utofu_vbg_id_t ids[200], id;
    int count = 0, rc;

    if (!cf_barrier_tni(c, (size_t)cf_rank(c), &tni))
        return;
    while (count < 200 && cf_alloc_vbg(tni, 1, 0, &ids[count]) == UTOFU_SUCCESS)
        count++;
    if (count == 0) {
        cf_skip(c, "no gate is free");
        return;
    }
    rc = cf_free_vbg(&ids[count / 2], 1);
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "freeing one: %s", cf_code(rc));
    rc = cf_alloc_vbg(tni, 1, 0, &id);
    CF_HOLDS(c, rc == UTOFU_SUCCESS || cf_size(c) > 2, "allocating one again: %s", cf_code(rc));
    cf_saw_code(c, rc); /* with many processes on a node another one may have taken it */
    cf_give_back();
}

/* ---- Settings ---- */

/* A circuit with settings that this function has changed: a barrier and a sum work all the same */
static void run_changed(struct cf *c,
                        void (*change)(struct cf *c, struct utofu_vbg_setting settings[],
                                       int count),
                        const char *what)
{
    struct cf_circuit circuit;
    struct utofu_vbg_setting settings[CF_GATES];
    uint64_t sum = (uint64_t)cf_rank(c);
    int count, rc, size = cf_size(c);

    cf_circuit_wire(&circuit, CF_RING, size);
    if (!cf_circuit_allocate(c, &circuit, 0, 0))
        return;
    count = cf_circuit_settings(c, &circuit, settings);
    change(c, settings, count);
    rc = utofu_set_vbg(settings, (size_t)count);
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "%s: utofu_set_vbg() returns %s", what, cf_code(rc));
    if (rc != UTOFU_SUCCESS || !cf_meet(c))
        return;
    rc = cf_circuit_barrier(circuit.id);
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "%s: a barrier returns %s", what, cf_code(rc));
    rc = cf_circuit_uint64(circuit.id, UTOFU_REDUCE_OP_SUM, &sum, 1);
    CF_HOLDS(c, rc == UTOFU_SUCCESS && sum == (uint64_t)(size * (size - 1) / 2),
             "%s: a sum is %lu (%s)", what, (unsigned long)sum, cf_code(rc));
}

/* The first setting stays the start gate's, the others are in another order */
static void swap_relays(struct cf *c, struct utofu_vbg_setting settings[], int count)
{
    struct utofu_vbg_setting kept = settings[1];

    (void)c;
    settings[1] = settings[count - 1];
    settings[count - 1] = kept;
}

static void set_in_other_order(struct cf *c)
{
    run_changed(c, swap_relays, "relays in another order");
}

/* A is UTOFU_PATH_COORD_NULL: B and C are ignored */
static void spoil_path(struct cf *c, struct utofu_vbg_setting settings[], int count)
{
    (void)c;
    for (int i = 0; i < count; i++) {
        settings[i].dst_path_coords[0] = UTOFU_PATH_COORD_NULL;
        settings[i].dst_path_coords[1] = 77;
        settings[i].dst_path_coords[2] = 200;
    }
}

static void set_spoiled_path(struct cf *c)
{
    run_changed(c, spoil_path, "B and C behind a NULL coordinate");
}

/* Paths of their own: each gate another one */
static void choose_path(struct cf *c, struct utofu_vbg_setting settings[], int count)
{
    for (int i = 0; i < count; i++) {
        settings[i].dst_path_coords[0] = (uint8_t)(cf_random(c, 2));
        settings[i].dst_path_coords[1] = (uint8_t)(cf_random(c, 3));
        settings[i].dst_path_coords[2] = (uint8_t)(cf_random(c, 2));
    }
}

static void set_paths(struct cf *c)
{
    run_changed(c, choose_path, "paths that are given");
}

/* The settings of another circuit first, then the right ones: the last call counts */
static void set_wrong_first(struct cf *c, struct utofu_vbg_setting settings[], int count)
{
    struct utofu_vbg_setting wrong[CF_GATES];
    int rc;

    memcpy(wrong, settings, sizeof(wrong));
    for (int i = 0; i < count; i++)
        wrong[i].src_lcl_vbg_id = wrong[i].src_rmt_vbg_id = wrong[i].dst_lcl_vbg_id =
            wrong[i].dst_rmt_vbg_id = UTOFU_VBG_ID_NULL;
    rc = utofu_set_vbg(wrong, (size_t)count);
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "settings without wires: %s", cf_code(rc));
}

static void set_twice(struct cf *c)
{
    run_changed(c, set_wrong_first, "settings that replace others");
}

/* Gates that have been used are set anew, as a tree and as a ring in turn: each time the sums are
 * right */
static void set_anew(struct cf *c)
{
    struct cf_circuit shapes[2];
    int rank = cf_rank(c), size = cf_size(c);

    cf_circuit_wire(&shapes[0], CF_TREE, size);
    cf_circuit_wire(&shapes[1], CF_RING, size);
    for (int r = 0; r < size; r++) {
        while (shapes[0].count[r] < shapes[1].count[r]) /* gates that the tree does not use */
            memset(&shapes[0].wires[r][shapes[0].count[r]++], 0xff, sizeof(struct cf_wires));
    }
    if (!cf_circuit_allocate(c, &shapes[0], 0, 0))
        return;
    memcpy(shapes[1].ids, shapes[0].ids, sizeof(shapes[1].ids));
    for (int turn = 0; turn < 6; turn++) {
        struct utofu_vbg_setting settings[CF_GATES];
        int count = cf_circuit_settings(c, &shapes[turn % 2], settings), rc;
        rc = utofu_set_vbg(settings, (size_t)count);
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "setting %d: %s", turn + 1, cf_code(rc));
        if (rc != UTOFU_SUCCESS || !cf_meet(c))
            return;
        for (int round = 0; round <= turn; round++) {
            uint64_t sum = (uint64_t)(rank + turn + 1), expected = 0;
            for (int r = 0; r < size; r++)
                expected += (uint64_t)(r + turn + 1);
            rc = cf_circuit_uint64(shapes[0].id, UTOFU_REDUCE_OP_SUM, &sum, 1);
            CF_NEED(c, rc == UTOFU_SUCCESS && sum == expected,
                    "setting %d, round %d: the sum is %lu, not %lu (%s)", turn + 1, round,
                    (unsigned long)sum, (unsigned long)expected, cf_code(rc));
        }
        if (!cf_meet(c))
            return;
    }
}

/* A circuit uses some of the gates that were allocated */
static void set_subset(struct cf *c)
{
    struct cf_circuit circuit;
    struct utofu_vbg_setting settings[CF_GATES];
    uint64_t sum = 1;
    int count, rc, rank = cf_rank(c);

    cf_circuit_wire(&circuit, CF_RING, cf_size(c));
    for (int r = 0; r < circuit.size; r++)
        circuit.count[r]++; /* one gate that nobody uses */
    for (int r = 0; r < circuit.size; r++)
        memset(&circuit.wires[r][circuit.count[r] - 1], 0xff, sizeof(struct cf_wires));
    if (!cf_circuit_allocate(c, &circuit, 0, 0))
        return;
    count = cf_circuit_settings(c, &circuit, settings) - 1;
    rc = utofu_set_vbg(settings, (size_t)count);
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "settings of %d gates of %d: %s", count, circuit.count[rank],
             cf_code(rc));
    if (rc != UTOFU_SUCCESS || !cf_meet(c))
        return;
    rc = cf_circuit_uint64(circuit.id, UTOFU_REDUCE_OP_SUM, &sum, 1);
    CF_HOLDS(c, rc == UTOFU_SUCCESS && sum == (uint64_t)cf_size(c), "a sum is %lu (%s)",
             (unsigned long)sum, cf_code(rc));
}

/* A circuit within one process: packets go from one of its gates to another of the same node */
static void set_within(struct cf *c)
{
    utofu_tni_id_t tni;
    utofu_vbg_id_t ids[2];
    struct utofu_vbg_setting settings[2];
    uint64_t value = 5;
    int rc;

    if (!alloc_gates(c, 2, 0, &tni, ids))
        return;
    memset(settings, 0, sizeof(settings));
    for (int i = 0; i < 2; i++) {
        settings[i].vbg_id = ids[i];
        settings[i].src_lcl_vbg_id = settings[i].dst_lcl_vbg_id = UTOFU_VBG_ID_NULL;
        settings[i].src_rmt_vbg_id = settings[i].dst_rmt_vbg_id = ids[!i];
        settings[i].dst_path_coords[0] = UTOFU_PATH_COORD_NULL;
    }
    rc = utofu_set_vbg(settings, 2);
    CF_NEED(c, rc == UTOFU_SUCCESS, "utofu_set_vbg() returns %s", cf_code(rc));
    rc = cf_circuit_barrier(ids[0]);
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "a barrier of one process: %s", cf_code(rc));
    rc = cf_circuit_uint64(ids[0], UTOFU_REDUCE_OP_MAX, &value, 1);
    CF_HOLDS(c, rc == UTOFU_SUCCESS && value == 5, "a maximum of one process: %s", cf_code(rc));
}

/* ---- What is left open ---- */

static void set_wrong(struct cf *c, int what)
{
    utofu_tni_id_t tni;
    utofu_vbg_id_t ids[3];
    struct utofu_vbg_setting settings[3];

    if (!alloc_gates(c, 3, 0, &tni, ids))
        return;
    memset(settings, 0, sizeof(settings));
    for (int i = 0; i < 3; i++) {
        settings[i].vbg_id = ids[i];
        settings[i].src_lcl_vbg_id = settings[i].dst_lcl_vbg_id = settings[i].src_rmt_vbg_id =
            settings[i].dst_rmt_vbg_id = UTOFU_VBG_ID_NULL;
        settings[i].dst_path_coords[0] = UTOFU_PATH_COORD_NULL;
    }
    if (what == 1) {
        settings[0].vbg_id = ids[1];
        settings[1].vbg_id = ids[0];
    }
    if (what == 2) {
        settings[0].dst_path_coords[0] = 2;
        settings[0].dst_rmt_vbg_id = ids[1];
    }
    if (what == 3)
        settings[1].vbg_id = ids[0];
    cf_saw_code(c, utofu_set_vbg(settings, what == 0 ? 0 : 3));
}

static void set_none(struct cf *c)
{
    set_wrong(c, 0);
}
static void set_relay_first(struct cf *c)
{
    set_wrong(c, 1);
}
static void set_wrong_path(struct cf *c)
{
    set_wrong(c, 2);
}
static void set_one_twice(struct cf *c)
{
    set_wrong(c, 3);
}

static void alloc_none(struct cf *c)
{
    utofu_tni_id_t tni;
    utofu_vbg_id_t id = 0;

    if (cf_barrier_tni(c, 0, &tni))
        cf_saw_code(c, utofu_alloc_vbg(tni, 0, 0, &id));
}

static void alloc_unknown(struct cf *c)
{
    utofu_vbg_id_t id = 0;

    cf_saw_code(c, cf_alloc_vbg(60000, 1, 0, &id));
}

static void alloc_unknown_flag(struct cf *c)
{
    utofu_tni_id_t tni;
    utofu_vbg_id_t id = 0;

    if (cf_barrier_tni(c, 0, &tni))
        cf_saw_code(c, cf_alloc_vbg(tni, 1, 1UL << 20, &id));
}

/* Only the process that has allocated gates may free them */
static void free_of_neighbour(struct cf *c)
{
    utofu_tni_id_t tni;
    utofu_vbg_id_t mine, all[48];

    if (!alloc_gates(c, 1, 0, &tni, &mine) || !cf_share(c, &mine, sizeof(mine), all))
        return;
    cf_saw_code(c, utofu_free_vbg(&all[cf_next(c)], 1));
}

static void free_twice(struct cf *c)
{
    utofu_tni_id_t tni;
    utofu_vbg_id_t ids[2];

    if (!alloc_gates(c, 2, 0, &tni, ids))
        return;
    CF_NEED(c, cf_free_vbg(ids, 2) == UTOFU_SUCCESS, "freeing fails");
    cf_saw_code(c, utofu_free_vbg(ids, 2));
}

static void free_part(struct cf *c)
{
    utofu_tni_id_t tni;
    utofu_vbg_id_t ids[3];

    if (alloc_gates(c, 3, 0, &tni, ids))
        cf_saw_code(c, utofu_free_vbg(ids, 2));
}

static void ask_wrong(struct cf *c)
{
    struct gate_place place;

    cf_saw_code(c, utofu_query_vbg_info(UTOFU_VBG_ID_NULL, place.coords, &place.tni, &place.gate,
                                        &place.extra));
}

static const struct cf_case cases[] = {
    {"vbg-one", "3.4.1.1", 8, CF_PROMISED, CF_ALONE | CF_BARRIER, "one gate can be allocated",
     alloc_one},
    {"vbg-three", "3.4.1.1", 2, CF_PROMISED, CF_ALONE | CF_BARRIER,
     "the ids are written to the array, no more", alloc_three},
    {"vbg-eight", "3.4", 6, CF_PROMISED, CF_ALONE | CF_BARRIER, "a TNI has several gates",
     alloc_eight},
    {"vbg-safe", "3.4.5.1", 4, CF_PROMISED, CF_ALONE | CF_BARRIER, "gates can be thread-safe",
     alloc_safe},
    {"vbg-again", "3.4.1.1", 4, CF_PROMISED, CF_ALONE | CF_BARRIER,
     "gates that are freed can be allocated again", alloc_again},
    {"vbg-unique", "3.1.1.1", 27, CF_PROMISED, CF_BARRIER, "no two VBGs of the network have one id",
     judge_unique},
    {"vbg-own-place", "3.4.3.1", 1, CF_PROMISED, CF_ALONE | CF_BARRIER,
     "an id has this node, the TNI, and BGs of 48", judge_own_place},
    {"vbg-remote-place", "3.4.3.1", 2, CF_PROMISED, CF_BARRIER,
     "all processes are told one place of an id", judge_remote_place},
    {"vbg-starts", "6.1.2", 2, CF_PROMISED, CF_BARRIER, "a TNI has 16 start gates, then it is full",
     fill_starts},
    {"vbg-relays", "6.1.2", 2, CF_PROMISED, CF_BARRIER, "a TNI has 32 relay gates, then it is full",
     fill_relays},
    {"vbg-too-many", "3.4.1.1", 13, CF_PROMISED, CF_ALONE | CF_BARRIER,
     "more gates than a TNI has are UTOFU_ERR_FULL", alloc_too_many},
    {"vbg-full-again", "3.1.2.1", 18, CF_PROMISED, CF_ALONE | CF_BARRIER,
     "a gate that is freed can be had again", alloc_behind_full},
    {"vbg-set-order", "3.4.2.1", 12, CF_PROMISED, CF_BARRIER,
     "relay gates may be set in another order", set_in_other_order},
    {"vbg-set-null-path", "3.4.4.1", 11, CF_PROMISED, CF_BARRIER,
     "behind a NULL coordinate A, B and C are ignored", set_spoiled_path},
    {"vbg-set-paths", "3.5", 8, CF_PROMISED, CF_BARRIER, "gates may have paths of their own",
     set_paths},
    {"vbg-set-twice", "3.4.2.1", 13, CF_PROMISED, CF_BARRIER,
     "of several settings the last one counts", set_twice},
    {"vbg-set-anew", "3.4.2.1", 13, CF_PROMISED, CF_BARRIER,
     "gates that have been used are set anew, in another shape", set_anew},
    {"vbg-set-subset", "3.4.2.1", 10, CF_PROMISED, CF_BARRIER, "a part of the gates may be set",
     set_subset},
    {"vbg-set-within", "2.3.1", 12, CF_PROMISED, CF_ALONE | CF_BARRIER,
     "packets may go from one TNI to itself", set_within},
    {"vbg-set-none", "3.4.2.1", 18, CF_OPEN, CF_ALONE | CF_BARRIER | CF_RISKY,
     "what no settings give", set_none},
    {"vbg-set-relay-first", "3.4.2.1", 11, CF_OPEN, CF_ALONE | CF_BARRIER | CF_RISKY,
     "the start gate must be set first: what happens else", set_relay_first},
    {"vbg-set-wrong-path", "3.1.2.1", 52, CF_OPEN, CF_ALONE | CF_BARRIER | CF_RISKY,
     "what a path of no coordinates gives", set_wrong_path},
    {"vbg-set-one-twice", "3.1.2.1", 69, CF_OPEN, CF_ALONE | CF_BARRIER | CF_RISKY,
     "what a gate twice in a call gives", set_one_twice},
    {"vbg-none", "3.4.1.1", 8, CF_OPEN, CF_ALONE | CF_BARRIER | CF_RISKY,
     "what the allocation of no gates gives", alloc_none},
    {"vbg-unknown-tni", "3.1.2.1", 53, CF_OPEN, CF_ALONE | CF_BARRIER,
     "what a TNI that is none gives", alloc_unknown},
    {"vbg-unknown-flag", "3.1.2.1", 50, CF_OPEN, CF_ALONE | CF_BARRIER,
     "what a flag without a meaning gives", alloc_unknown_flag},
    {"vbg-free-other", "3.4.1.2", 2, CF_OPEN, CF_BARRIER | CF_RISKY,
     "only the owner frees gates: what happens to another process", free_of_neighbour},
    {"vbg-free-twice", "3.4.1.2", 3, CF_OPEN, CF_ALONE | CF_BARRIER | CF_RISKY,
     "gates must not be freed twice: what happens", free_twice},
    {"vbg-free-part", "3.4.1.2", 9, CF_OPEN, CF_ALONE | CF_BARRIER | CF_RISKY,
     "all gates of an allocation are freed at once: what happens to a part", free_part},
    {"vbg-ask-null", "3.1.2.1", 59, CF_OPEN, CF_ALONE | CF_BARRIER | CF_RISKY,
     "what the place of the invalid id is", ask_wrong},
};
CF_GROUP(vbg_group, "vbg", cases);
