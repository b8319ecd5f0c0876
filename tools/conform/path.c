/* SPDX-License-Identifier: Apache-2.0 */
/* Path ids and path coordinates */
#include <string.h>

#include "owned.h"

enum { PATHS = 12 };

static void path_at(int i, uint8_t path[3])
{
    path[0] = (uint8_t)(i / 6);
    path[1] = (uint8_t)(i / 2 % 3);
    path[2] = (uint8_t)(i % 2);
}

/* The path id of the coordinates with that place; -1: the case has failed */
static int get_path(struct cf *c, utofu_vcq_id_t id, int i)
{
    uint8_t path[3];
    utofu_path_id_t path_id = 0;
    int rc;

    path_at(i, path);
    rc = utofu_get_path_id(id, path, &path_id);
    if (rc == UTOFU_SUCCESS)
        return path_id;
    cf_fail(c, "utofu_get_path_id(%d %d %d) returns %s", path[0], path[1], path[2], cf_code(rc));
    return -1;
}

/* From coordinates to the id and back, for all twelve paths of the id */
static void go_back(struct cf *c, utofu_vcq_id_t id)
{
    for (int i = 0; i < PATHS; i++) {
        uint8_t path[3], back[3] = {9, 9, 9};
        int path_id = get_path(c, id, i), rc;
        if (path_id < 0)
            return;
        path_at(i, path);
        rc = utofu_get_path_coords(id, (utofu_path_id_t)path_id, back);
        CF_HOLDS(c, rc == UTOFU_SUCCESS && memcmp(path, back, 3) == 0,
                 "path %d %d %d has id %d, and this is %d %d %d (%s)", path[0], path[1], path[2],
                 path_id, back[0], back[1], back[2], cf_code(rc));
    }
}

static void go_back_remote(struct cf *c)
{
    struct cf_ends e;

    if (cf_open(c, &e, 0, 0, 256))
        go_back(c, e.next_id);
    cf_close(c, &e);
}

static void go_back_own(struct cf *c)
{
    struct cf_ends e;

    if (cf_open(c, &e, 0, 0, 256))
        go_back(c, e.id);
    cf_close(c, &e);
}

/* An id with another default path has path ids, too */
static void go_back_with_default(struct cf *c)
{
    struct cf_ends e;

    if (cf_open(c, &e, 0, 0, 256)) {
        for (int i = 0; i < PATHS; i += 5) {
            utofu_vcq_id_t id = e.next_id;
            uint8_t path[3];
            path_at(i, path);
            CF_HOLDS(c, utofu_set_vcq_id_path(&id, path) == UTOFU_SUCCESS, "path %d is refused", i);
            go_back(c, id);
        }
    }
    cf_close(c, &e);
}

static void judge_distinct(struct cf *c)
{
    struct cf_ends e;

    if (cf_open(c, &e, 0, 0, 256)) {
        int ids[PATHS];
        for (int i = 0; i < PATHS; i++) {
            ids[i] = get_path(c, e.next_id, i);
            for (int k = 0; k < i; k++)
                CF_HOLDS(c, ids[i] < 0 || ids[i] != ids[k], "two paths have the id %d", ids[i]);
            cf_number(c, "path id", ids[i]);
        }
    }
    cf_close(c, &e);
}

/* The coordinates that are written are three, no more */
static void judge_length(struct cf *c)
{
    struct cf_ends e;

    if (cf_open(c, &e, 0, 0, 256)) {
        uint8_t path[8];
        int id = get_path(c, e.next_id, 7), rc = UTOFU_ERR_FATAL;
        memset(path, 0x5a, sizeof(path));
        if (id >= 0)
            rc = utofu_get_path_coords(e.next_id, (utofu_path_id_t)id, path);
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "utofu_get_path_coords() returns %s", cf_code(rc));
        for (int i = 3; i < 8; i++)
            CF_HOLDS(c, path[i] == 0x5a, "element %d behind the three is written", i);
    }
    cf_close(c, &e);
}

/* Data goes by each path, of the size of many packets */
static void put_by_each(struct cf *c)
{
    struct cf_ends e;

    if (cf_open(c, &e, 0, 0, 16384)) {
        for (int i = 0; i < PATHS && !cf_failed(c); i++) {
            int id = get_path(c, e.next_id, i), rc;
            size_t length = 16384 - 100u * (unsigned)i;
            if (id < 0)
                break;
            rc = cf_put_sent(e.vcq, e.next_id, e.send_stadd, e.next_recv, length, (uint64_t)i,
                             UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_PATH(id));
            CF_HOLDS(c, rc == UTOFU_SUCCESS, "a put by path id %d: %s", id, cf_code(rc));
            if (cf_expect(c, e.vcq, UTOFU_MRQ_TYPE_RMT_PUT, (uint64_t)i))
                CF_HOLDS(c, cf_differs(e.recv, cf_prev(c), 0, length) == length,
                         "wrong data by path id %d", id);
            if (!cf_meet(c))
                break;
            memset(e.recv, 0, e.size);
            if (!cf_meet(c))
                break;
        }
    }
    cf_close(c, &e);
}

/* A get's request goes by the path and its answer comes back by it */
static void get_by_each(struct cf *c)
{
    struct cf_ends e;

    if (cf_open(c, &e, 0, 0, 8192)) {
        for (int i = 0; i < PATHS && !cf_failed(c); i++) {
            int id = get_path(c, e.next_id, i), rc;
            if (id < 0)
                break;
            memset(e.recv, 0, e.size);
            CF_RETRY(rc, e.vcq,
                     utofu_get(e.vcq, e.next_id, e.recv_stadd, e.next_send, 8000, (uint64_t)i,
                               UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_PATH(id),
                               NULL));
            CF_HOLDS(c, rc == UTOFU_SUCCESS, "a get by path id %d: %s", id, cf_code(rc));
            if (cf_expect(c, e.vcq, UTOFU_MRQ_TYPE_LCL_GET, (uint64_t)i))
                CF_HOLDS(c, cf_differs(e.recv, cf_next(c), 0, 8000) == 8000,
                         "wrong data by path id %d", id);
        }
    }
    cf_close(c, &e);
}

static void put_by_chosen(struct cf *c)
{
    struct cf_ends e;

    if (cf_open(c, &e, 0, 0, 256)) {
        utofu_path_id_t id = 0;
        uint8_t path[3] = {9, 9, 9};
        int rc = utofu_get_path_id(e.next_id, NULL, &id);
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "utofu_get_path_id(NULL) returns %s", cf_code(rc));
        rc = utofu_get_path_coords(e.next_id, id, path);
        CF_HOLDS(c, rc == UTOFU_SUCCESS && path[0] < 2 && path[1] < 3 && path[2] < 2,
                 "the path that was chosen is %d %d %d (%s)", path[0], path[1], path[2],
                 cf_code(rc));
        rc = cf_put_sent(e.vcq, e.next_id, e.send_stadd, e.next_recv, 100, 3,
                         UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_PATH(id));
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "a put by the path that was chosen: %s", cf_code(rc));
        if (cf_expect(c, e.vcq, UTOFU_MRQ_TYPE_RMT_PUT, 3))
            CF_HOLDS(c, cf_differs(e.recv, cf_prev(c), 0, 100) == 100, "wrong data");
    }
    cf_close(c, &e);
}

/* Flags choose the path where the id has another one */
static void put_by_both(struct cf *c)
{
    struct cf_ends e;

    if (cf_open(c, &e, 0, 0, 256)) {
        utofu_vcq_id_t id = e.next_id;
        uint8_t path[3] = {1, 2, 1};
        int path_id, rc;
        CF_HOLDS(c, utofu_set_vcq_id_path(&id, path) == UTOFU_SUCCESS, "a path is refused");
        path_id = get_path(c, id, 2);
        rc = path_id < 0 ? UTOFU_ERR_FATAL
                         : cf_put_sent(e.vcq, id, e.send_stadd, e.next_recv, 100, 4,
                                       UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE |
                                           UTOFU_ONESIDED_FLAG_PATH(path_id));
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "a put by a path id and an id with another path: %s",
                 cf_code(rc));
        if (cf_expect(c, e.vcq, UTOFU_MRQ_TYPE_RMT_PUT, 4))
            CF_HOLDS(c, cf_differs(e.recv, cf_prev(c), 0, 100) == 100, "wrong data");
    }
    cf_close(c, &e);
}

/* ---- What is left open or not said ---- */

static void compare_ids(struct cf *c)
{
    struct cf_ends e;

    if (cf_open(c, &e, 0, 0, 256)) {
        for (int i = 0; i < PATHS; i++) {
            int next = get_path(c, e.next_id, i), prev = get_path(c, e.prev_id, i);
            cf_saw(c, next == prev ? "one path id for two VCQs" : "path ids differ");
        }
        cf_saw(c,
               get_path(c, e.next_id, 0) == 0 ? "path 0 0 0 is id 0" : "path 0 0 0 has another id");
    }
    cf_close(c, &e);
}

static void ask_wrong_coords(struct cf *c)
{
    static const uint8_t wrong[4][3] = {{2, 0, 0}, {0, 3, 0}, {0, 0, 2}, {255, 255, 255}};
    struct cf_ends e;

    if (cf_open(c, &e, 0, 0, 256)) {
        for (int i = 0; i < 4; i++) {
            uint8_t path[3];
            utofu_path_id_t id = 0;
            memcpy(path, wrong[i], 3);
            cf_saw_code(c, utofu_get_path_id(e.next_id, path, &id));
        }
    }
    cf_close(c, &e);
}

static void ask_wrong_id(struct cf *c)
{
    struct cf_ends e;

    if (cf_open(c, &e, 0, 0, 256)) {
        uint8_t path[3];
        cf_saw_code(c, utofu_get_path_coords(e.next_id, 12, path));
        cf_saw_code(c, utofu_get_path_coords(e.next_id, 255, path));
    }
    cf_close(c, &e);
}

/* Which path the library takes by itself: how many A, B, C it chooses for the neighbours */
static void look_at_chosen(struct cf *c)
{
    struct cf_ends e;

    if (cf_open(c, &e, 0, 0, 256)) {
        utofu_path_id_t id = 0;
        uint8_t path[3] = {0}, coords[6] = {0};
        utofu_tni_id_t tni;
        utofu_cq_id_t cq;
        uint16_t extra;
        CF_HOLDS(c,
                 utofu_get_path_id(e.next_id, NULL, &id) == UTOFU_SUCCESS &&
                     utofu_get_path_coords(e.next_id, id, path) == UTOFU_SUCCESS &&
                     utofu_query_vcq_info(e.next_id, coords, &tni, &cq, &extra) == UTOFU_SUCCESS,
                 "no path is chosen");
        cf_saw(c,
               memcmp(path, coords + 3, 3) == 0 ? "the target's coordinates" : "other coordinates");
    }
    cf_close(c, &e);
}

static const struct cf_case cases[] = {
    {"path-back", "3.5", 7, CF_PROMISED, 0, "a path id gives the coordinates that it was made of",
     go_back_remote},
    {"path-back-own", "3.5.1.2", 1, CF_PROMISED, 0, "path ids of an own VCQ give their coordinates",
     go_back_own},
    {"path-back-default", "3.5.1.1", 4, CF_PROMISED, 0,
     "an id with a default path of its own has path ids", go_back_with_default},
    {"path-distinct", "2.4", 6, CF_PROMISED, 0, "twelve paths have twelve ids", judge_distinct},
    {"path-length", "3.5.1.2", 8, CF_PROMISED, 0, "three coordinates are written, no more",
     judge_length},
    {"path-put", "3.5", 4, CF_PROMISED, 0, "puts go by each path", put_by_each},
    {"path-get", "2.4", 11, CF_PROMISED, 0, "gets go by each path, and come back", get_by_each},
    {"path-null", "3.5.1.1", 11, CF_PROMISED, 0, "NULL chooses a path that can be used",
     put_by_chosen},
    {"path-both", "3.5", 2, CF_PROMISED, 0,
     "a put may have a path in its flags and another one in the id", put_by_both},
    {"path-two-vcqs", "3.5.1.1", 3, CF_OPEN, 0,
     "a path id is for one VCQ id: whether those of two are alike", compare_ids},
    {"path-wrong-coords", "3.1.2.1", 52, CF_OPEN, 0, "what coordinates outside of 2, 3, 2 give",
     ask_wrong_coords},
    {"path-wrong-id", "3.1.2.1", 60, CF_OPEN, CF_RISKY, "what path ids of no path give",
     ask_wrong_id},
    {"path-choice", "3.5.1.1", 11, CF_OPEN, 0, "which path is chosen", look_at_chosen},
};
CF_GROUP(path_group, "path", cases);
