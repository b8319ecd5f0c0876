/* SPDX-License-Identifier: Apache-2.0 */
/* VCQ ids: unique in the job, known to all processes, computable, and with a default path inside */
#include <string.h>

#include "owned.h"

struct place {
    uint8_t coords[6];
    utofu_tni_id_t tni;
    utofu_cq_id_t cq;
    uint16_t extra;
};

/* 0: the case has failed */
static int get_place(struct cf *c, utofu_vcq_id_t id, struct place *place)
{
    int rc;

    memset(place, 0, sizeof(*place));
    rc = utofu_query_vcq_info(id, place->coords, &place->tni, &place->cq, &place->extra);
    if (rc == UTOFU_SUCCESS)
        return 1;
    cf_fail(c, "utofu_query_vcq_info(%lx) returns %s", (unsigned long)id, cf_code(rc));
    return 0;
}

static int same_place(const struct place *a, const struct place *b)
{
    return memcmp(a->coords, b->coords, 6) == 0 && a->tni == b->tni && a->cq == b->cq;
}

/* Ids of several VCQs of all processes, on different TNIs */
static void judge_unique(struct cf *c)
{
    enum { EACH = 6 };
    utofu_vcq_id_t mine[EACH], all[48][EACH];
    size_t total = (size_t)cf_size(c) * EACH;
    const utofu_vcq_id_t *ids = &all[0][0];

    for (size_t i = 0; i < EACH; i++) {
        utofu_tni_id_t tni;
        utofu_vcq_hdl_t vcq;
        int rc;
        if (!cf_tni(c, i / 2, &tni))
            return;
        rc = cf_create_vcq(tni, 0, &vcq);
        if (rc == UTOFU_SUCCESS)
            rc = utofu_query_vcq_id(vcq, &mine[i]);
        CF_NEED(c, rc == UTOFU_SUCCESS, "VCQ %lu or its id: %s", (unsigned long)i, cf_code(rc));
    }
    if (!cf_share(c, mine, sizeof(mine), all))
        return;
    for (size_t i = 0; i < total; i++) {
        for (size_t k = 0; k < i; k++)
            CF_HOLDS(c, ids[i] != ids[k], "a VCQ of rank %lu and one of rank %lu have the id %lx",
                     (unsigned long)(i / EACH), (unsigned long)(k / EACH), (unsigned long)ids[i]);
    }
}

static void judge_stable(struct cf *c)
{
    struct cf_ends e;

    if (cf_open(c, &e, 0, 0, 256)) {
        for (int i = 0; i < 3; i++) {
            utofu_vcq_id_t id = 0;
            int rc = utofu_query_vcq_id(e.vcq, &id);
            CF_HOLDS(c, rc == UTOFU_SUCCESS && id == e.id, "query %d: %s and %lx, not %lx", i,
                     cf_code(rc), (unsigned long)id, (unsigned long)e.id);
        }
    }
    cf_close(c, &e);
}

static void judge_own_place(struct cf *c)
{
    utofu_tni_id_t tni;

    for (size_t i = 0; i < 6 && cf_tni(c, i, &tni); i++) {
        utofu_vcq_hdl_t vcq;
        utofu_vcq_id_t id = 0;
        uint8_t coords[6];
        struct place place;
        CF_NEED(c,
                cf_create_vcq(tni, 0, &vcq) == UTOFU_SUCCESS &&
                    utofu_query_vcq_id(vcq, &id) == UTOFU_SUCCESS &&
                    utofu_query_my_coords(coords) == UTOFU_SUCCESS,
                "no VCQ, id or coordinates");
        if (!get_place(c, id, &place))
            return;
        CF_HOLDS(c, memcmp(coords, place.coords, 6) == 0,
                 "the id has other coordinates than this node");
        CF_HOLDS(c, place.tni == tni, "the id has TNI %d, not %d", (int)place.tni, (int)tni);
        cf_saw(c, place.cq < 9 ? "CQ id below 9" : "CQ id of 9 or more");
        cf_number(c, "CQ id", place.cq);
    }
}

/* What each process is told of its own id, all others are told of it */
static void judge_remote_place(struct cf *c)
{
    struct cf_ends e;
    struct {
        utofu_vcq_id_t id;
        struct place place;
    } mine, all[48];

    memset(&mine, 0, sizeof(mine));
    if (cf_open(c, &e, 0, 0, 256) && get_place(c, e.id, &mine.place)) {
        mine.id = e.id;
        if (cf_share(c, &mine, sizeof(mine), all)) {
            for (int r = 0; r < cf_size(c); r++) {
                struct place place;
                if (!get_place(c, all[r].id, &place))
                    break;
                CF_HOLDS(c, same_place(&place, &all[r].place),
                         "the id of rank %d has another place than in rank %d", r, r);
            }
        }
    }
    cf_close(c, &e);
}

/* CQ ids are unique in their TNI: two processes of a node do not have one (4.1.2: the resources do
 * not overlap) */
static void judge_cqs(struct cf *c)
{
    struct cf_ends e;
    struct place mine, all[48];

    if (cf_open(c, &e, 0, 0, 256) && get_place(c, e.id, &mine) &&
        cf_share(c, &mine, sizeof(mine), all)) {
        for (int r = 0; r < cf_size(c); r++) {
            if (r != cf_rank(c))
                CF_HOLDS(c, !same_place(&mine, &all[r]), "rank %d has a VCQ on the CQ of rank %d",
                         r, cf_rank(c));
        }
    }
    cf_close(c, &e);
}

/* ---- Ids that are computed ---- */

static void construct_own(struct cf *c)
{
    utofu_tni_id_t tni;
    struct utofu_onesided_caps *caps;

    if (!cf_tni(c, 2, &tni) || !(caps = cf_caps_of(c, tni)))
        return;
    for (unsigned i = 0; i < caps->num_cmp_ids && i < 64; i++) {
        utofu_vcq_hdl_t vcq;
        utofu_vcq_id_t id = 0, made = 1;
        struct place place;
        int rc;
        if (!cf_create_component(c, tni, i, 0, &vcq))
            return;
        rc = utofu_query_vcq_id(vcq, &id);
        CF_NEED(c, rc == UTOFU_SUCCESS, "the id of component id %u: %s", i, cf_code(rc));
        if (!get_place(c, id, &place))
            return;
        rc = utofu_construct_vcq_id(place.coords, place.tni, place.cq, (utofu_cmp_id_t)i, &made);
        CF_HOLDS(c, rc == UTOFU_SUCCESS && made == id, "component %u: %s and id %lx, not %lx", i,
                 cf_code(rc), (unsigned long)made, (unsigned long)id);
    }
}

/* Each process computes the ids of all others from their places, and puts to the next one by it */
static void construct_remote(struct cf *c)
{
    struct cf_ends e;
    struct {
        utofu_vcq_id_t id;
        utofu_stadd_t stadd;
        struct place place;
    } mine, all[48];
    utofu_tni_id_t tni;
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t made = 0;
    int rc;

    memset(&mine, 0, sizeof(mine));
    if (!cf_open(c, &e, 2, 0, 256) || !cf_tni(c, 2, &tni) ||
        !cf_create_component(c, tni, 4, 0, &vcq)) {
        cf_close(c, &e);
        return;
    }
    rc = utofu_query_vcq_id(vcq, &mine.id);
    if (rc == UTOFU_SUCCESS)
        rc = cf_reg_mem(vcq, e.recv, 256, 0, &mine.stadd);
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "a VCQ with component id 4: %s", cf_code(rc));
    if (!cf_failed(c) && get_place(c, mine.id, &mine.place) &&
        cf_share(c, &mine, sizeof(mine), all)) {
        int next = cf_next(c);
        for (int r = 0; r < cf_size(c); r++) {
            const struct place *at = &all[r].place;
            uint8_t coords[6];
            memcpy(coords, at->coords, 6);
            rc = utofu_construct_vcq_id(coords, at->tni, at->cq, 4, &made);
            CF_HOLDS(c, rc == UTOFU_SUCCESS && made == all[r].id, "rank %d: %s and id %lx, not %lx",
                     r, cf_code(rc), (unsigned long)made, (unsigned long)all[r].id);
        }
        rc = utofu_construct_vcq_id(all[next].place.coords, all[next].place.tni, all[next].place.cq,
                                    4, &made);
        if (rc == UTOFU_SUCCESS)
            rc = cf_put_sent(e.vcq, made, e.send_stadd, all[next].stadd, 200, 6,
                             UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE);
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "a put to a computed id: %s", cf_code(rc));
        if (cf_expect(c, vcq, UTOFU_MRQ_TYPE_RMT_PUT, 6))
            CF_HOLDS(c, cf_differs(e.recv, cf_prev(c), 0, 200) == 200, "wrong data");
    }
    cf_close(c, &e);
}

/* What an id was computed of is what it tells, for nodes all over the network; nodes that the
   machine does not have may be refused */
static void construct_and_ask(struct cf *c)
{
    static const uint8_t nodes[][6] = {
        {1, 2, 3, 0, 1, 0}, {3, 1, 2, 1, 2, 1}, {2, 3, 1, 1, 0, 0}, {5, 4, 7, 0, 2, 1}};
    utofu_tni_id_t tni;

    for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]) && cf_tni(c, i, &tni); i++) {
        uint8_t coords[6];
        struct place place;
        utofu_vcq_id_t id = 0;
        int rc;
        memcpy(coords, nodes[i], 6);
        memset(&place, 0, sizeof(place));
        rc = utofu_construct_vcq_id(coords, tni, (utofu_cq_id_t)(i + 2), (utofu_cmp_id_t)(i + 1),
                                    &id);
        if (rc == UTOFU_SUCCESS)
            rc = utofu_query_vcq_info(id, place.coords, &place.tni, &place.cq, &place.extra);
        cf_saw_code(c, rc);
        if (rc != UTOFU_SUCCESS)
            continue;
        CF_HOLDS(c, memcmp(place.coords, coords, 6) == 0,
                 "an id of %d %d %d %d %d %d tells %d %d %d %d %d %d", coords[0], coords[1],
                 coords[2], coords[3], coords[4], coords[5], place.coords[0], place.coords[1],
                 place.coords[2], place.coords[3], place.coords[4], place.coords[5]);
        CF_HOLDS(c, place.tni == tni && place.cq == i + 2,
                 "an id of TNI %d and CQ %d tells %d and %d", (int)tni, (int)i + 2, (int)place.tni,
                 (int)place.cq);
    }
}

static void construct_wrong(struct cf *c, int what)
{
    uint8_t coords[6] = {0};
    utofu_vcq_id_t id = 0;

    CF_NEED(c, utofu_query_my_coords(coords) == UTOFU_SUCCESS, "no coordinates");
    if (what == 0)
        coords[3] = 7;
    cf_saw_code(c, utofu_construct_vcq_id(coords, what == 1 ? 60000 : 0, what == 2 ? 60000 : 0,
                                          what == 3 ? 60000 : 0, &id));
}

static void construct_wrong_coords(struct cf *c)
{
    construct_wrong(c, 0);
}
static void construct_wrong_tni(struct cf *c)
{
    construct_wrong(c, 1);
}
static void construct_wrong_cq(struct cf *c)
{
    construct_wrong(c, 2);
}
static void construct_wrong_component(struct cf *c)
{
    construct_wrong(c, 3);
}

/* ---- The default path ---- */

enum { PATHS = 12 };

static void path_at(int i, uint8_t path[3])
{
    path[0] = (uint8_t)(i / 6);
    path[1] = (uint8_t)(i / 2 % 3);
    path[2] = (uint8_t)(i % 2);
}

/* An id keeps its place with each path inside, and a put by it arrives */
static void put_by_each_path(struct cf *c)
{
    struct cf_ends e;

    if (cf_open(c, &e, 0, 0, 4096)) {
        struct place before, behind;
        if (!get_place(c, e.next_id, &before))
            memset(&before, 0, sizeof(before));
        for (int i = 0; i < PATHS && !cf_failed(c); i++) {
            utofu_vcq_id_t id = e.next_id;
            uint8_t path[3];
            int rc;
            path_at(i, path);
            rc = utofu_set_vcq_id_path(&id, path);
            CF_HOLDS(c, rc == UTOFU_SUCCESS, "path %d %d %d: %s", path[0], path[1], path[2],
                     cf_code(rc));
            if (rc != UTOFU_SUCCESS || !get_place(c, id, &behind))
                break;
            CF_HOLDS(c, same_place(&before, &behind), "path %d %d %d changes the place of the id",
                     path[0], path[1], path[2]);
            rc = cf_put_sent(e.vcq, id, e.send_stadd + 256u * (unsigned)i,
                             e.next_recv + 256u * (unsigned)i, 256, (uint64_t)i,
                             UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE);
            CF_HOLDS(c, rc == UTOFU_SUCCESS, "a put by path %d %d %d: %s", path[0], path[1],
                     path[2], cf_code(rc));
            if (cf_expect(c, e.vcq, UTOFU_MRQ_TYPE_RMT_PUT, (uint64_t)i))
                CF_HOLDS(c,
                         cf_differs(e.recv + 256 * i, cf_prev(c), 256u * (unsigned)i, 256) == 256,
                         "wrong data by path %d %d %d", path[0], path[1], path[2]);
        }
    }
    cf_close(c, &e);
}

static void put_by_chosen_path(struct cf *c)
{
    struct cf_ends e;

    if (cf_open(c, &e, 0, 0, 256)) {
        utofu_vcq_id_t id = e.next_id;
        int rc = utofu_set_vcq_id_path(&id, NULL);
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "utofu_set_vcq_id_path(NULL) returns %s", cf_code(rc));
        rc = cf_put_sent(e.vcq, id, e.send_stadd, e.next_recv, 100, 0,
                         UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE);
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "a put by the path that was chosen: %s", cf_code(rc));
        if (cf_expect(c, e.vcq, UTOFU_MRQ_TYPE_RMT_PUT, 0))
            CF_HOLDS(c, cf_differs(e.recv, cf_prev(c), 0, 100) == 100, "wrong data");
    }
    cf_close(c, &e);
}

/* Another variable with the same id stays as it is, and the id of the handle does, too */
static void judge_local_path(struct cf *c)
{
    struct cf_ends e;

    if (cf_open(c, &e, 0, 0, 256)) {
        utofu_vcq_id_t changed = e.id, kept = e.id, asked = 0;
        for (int i = 0; i < PATHS; i++) {
            uint8_t path[3];
            path_at(i, path);
            CF_HOLDS(c, utofu_set_vcq_id_path(&changed, path) == UTOFU_SUCCESS,
                     "path %d is refused", i);
            CF_HOLDS(c, kept == e.id, "another variable has changed");
            CF_HOLDS(c, utofu_query_vcq_id(e.vcq, &asked) == UTOFU_SUCCESS && asked == e.id,
                     "the id of the VCQ has changed");
        }
    }
    cf_close(c, &e);
}

/* The last call counts: the same id results as by it alone, and other paths give other ids */
static void judge_last_path(struct cf *c)
{
    struct cf_ends e;

    if (cf_open(c, &e, 0, 0, 256)) {
        utofu_vcq_id_t once[PATHS];
        for (int i = 0; i < PATHS; i++) {
            utofu_vcq_id_t twice = e.next_id;
            uint8_t path[3], other[3];
            path_at(i, path);
            path_at((i + 5) % PATHS, other);
            once[i] = e.next_id;
            CF_HOLDS(c,
                     utofu_set_vcq_id_path(&once[i], path) == UTOFU_SUCCESS &&
                         utofu_set_vcq_id_path(&twice, other) == UTOFU_SUCCESS &&
                         utofu_set_vcq_id_path(&twice, path) == UTOFU_SUCCESS,
                     "a path is refused");
            CF_HOLDS(c, once[i] == twice, "an earlier path stays in the id");
            for (int k = 0; k < i; k++)
                CF_HOLDS(c, once[i] != once[k], "paths %d and %d give one id", i, k);
        }
    }
    cf_close(c, &e);
}

/* Whether an id is what it was when the coordinates of its node are put in */
static void look_at_default_path(struct cf *c)
{
    struct cf_ends e;

    if (cf_open(c, &e, 0, 0, 256)) {
        utofu_vcq_id_t id = e.next_id;
        struct place place;
        if (get_place(c, id, &place)) {
            CF_HOLDS(c, utofu_set_vcq_id_path(&id, place.coords + 3) == UTOFU_SUCCESS,
                     "the path is refused");
            cf_saw(c, id == e.next_id ? "as from the query" : "another id");
            id = e.next_id;
            CF_HOLDS(c, utofu_set_vcq_id_path(&id, NULL) == UTOFU_SUCCESS, "NULL is refused");
            cf_saw(c, id == e.next_id ? "NULL gives the id of the query" : "NULL gives another id");
        }
    }
    cf_close(c, &e);
}

static void set_wrong_path(struct cf *c)
{
    struct cf_ends e;

    if (cf_open(c, &e, 0, 0, 256)) {
        uint8_t path[3] = {2, 0, 0}, other[3] = {0, 3, 0};
        utofu_vcq_id_t id = e.next_id;
        cf_saw_code(c, utofu_set_vcq_id_path(&id, path));
        cf_saw_code(c, utofu_set_vcq_id_path(&id, other));
    }
    cf_close(c, &e);
}

static void ask_wrong_id(struct cf *c)
{
    struct place place;

    cf_saw_code(
        c, utofu_query_vcq_info(UINT64_MAX, place.coords, &place.tni, &place.cq, &place.extra));
    cf_saw_code(c, utofu_query_vcq_info(0, place.coords, &place.tni, &place.cq, &place.extra));
}

static const struct cf_case cases[] = {
    {"id-unique", "3.3.2.1", 2, CF_PROMISED, 0, "no two VCQs of the network have one id",
     judge_unique},
    {"id-stable", "3.3.2.1", 1, CF_PROMISED, 0, "a VCQ has one id", judge_stable},
    {"id-own-place", "3.3", 9, CF_PROMISED, CF_ALONE,
     "an id has the coordinates of this node and the VCQ's TNI", judge_own_place},
    {"id-remote-place", "3.3.3.1", 2, CF_PROMISED, 0, "all processes are told one place of an id",
     judge_remote_place},
    {"id-cqs", "3.1.1.1", 10, CF_PROMISED, 0, "no two processes share a CQ", judge_cqs},
    {"id-construct-own", "3.3.2.2", 2, CF_PROMISED, CF_ALONE,
     "ids of VCQs with component ids can be computed", construct_own},
    {"id-construct-remote", "3.3.2.2", 3, CF_PROMISED, 0,
     "ids of remote VCQs can be computed, and used", construct_remote},
    {"id-construct-back", "3.3.3.1", 1, CF_PROMISED, CF_ALONE,
     "an id tells what it was computed of", construct_and_ask},
    {"id-construct-coords", "3.1.2.1", 51, CF_OPEN, CF_ALONE, "what wrong coordinates give",
     construct_wrong_coords},
    {"id-construct-tni", "3.1.2.1", 53, CF_OPEN, CF_ALONE, "what a wrong TNI id gives",
     construct_wrong_tni},
    {"id-construct-cq", "3.1.2.1", 54, CF_OPEN, CF_ALONE, "what a wrong CQ id gives",
     construct_wrong_cq},
    {"id-construct-component", "3.1.2.1", 56, CF_OPEN, CF_ALONE, "what a wrong component id gives",
     construct_wrong_component},
    {"id-path-each", "3.3.2.3", 4, CF_PROMISED, 0,
     "an id takes each of twelve default paths, and leads to its VCQ", put_by_each_path},
    {"id-path-chosen", "3.3.2.3", 12, CF_PROMISED, 0, "NULL chooses a path", put_by_chosen_path},
    {"id-path-local", "3.3.2.3", 6, CF_PROMISED, 0, "other variables with the id stay as they are",
     judge_local_path},
    {"id-path-last", "3.3.2.3", 8, CF_PROMISED, 0, "the path that was set last counts",
     judge_last_path},
    {"id-path-default", "3.3.2.3", 3, CF_UNSAID, 0,
     "whether the default path is the node's coordinates as an id has them", look_at_default_path},
    {"id-path-wrong", "3.1.2.1", 52, CF_OPEN, 0, "what coordinates outside of 2, 3, 2 give",
     set_wrong_path},
    {"id-wrong", "3.1.2.1", 58, CF_OPEN, CF_ALONE | CF_RISKY, "what ids of no VCQ give",
     ask_wrong_id},
};
CF_GROUP(vcqid_group, "vcqid", cases);
