/* SPDX-License-Identifier: Apache-2.0 */
/* The queries of TNIs */
#include <stdlib.h>
#include <string.h>

#include "owned.h"

typedef int get_tnis_fn(utofu_tni_id_t **tni_ids, size_t *num_tnis);

/* The TNIs of a query, to be freed; NULL: the case has failed */
static utofu_tni_id_t *get_tnis(struct cf *c, get_tnis_fn *get, size_t *count)
{
    utofu_tni_id_t *ids = NULL;
    int rc;

    *count = (size_t)-1;
    rc = get(&ids, count);
    if (rc == UTOFU_SUCCESS && ids != NULL && *count > 0 && *count < 1000)
        return ids;
    cf_fail(c, "the query returns %s and %lu TNIs%s", cf_code(rc), (unsigned long)*count,
            ids ? "" : ", and no array");
    if (rc == UTOFU_SUCCESS && *count == 0)
        free(ids);
    return NULL;
}

static void judge_query(struct cf *c, get_tnis_fn *get)
{
    size_t count;
    utofu_tni_id_t *ids = get_tnis(c, get, &count);

    if (ids)
        cf_number(c, "TNIs", (double)count);
    free(ids);
}

/* Ids are unique in the node, and less than the number of TNIs that it has, 6 */
static void judge_ids(struct cf *c, get_tnis_fn *get)
{
    size_t count;
    utofu_tni_id_t *ids = get_tnis(c, get, &count);

    if (!ids)
        return;
    CF_HOLDS(c, count <= 6, "%lu TNIs of a node with 6", (unsigned long)count);
    for (size_t i = 0; i < count; i++) {
        CF_HOLDS(c, ids[i] < 6, "TNI id %d", (int)ids[i]);
        for (size_t k = 0; k < i; k++)
            CF_HOLDS(c, ids[i] != ids[k], "TNI id %d twice", (int)ids[i]);
    }
    free(ids);
}

/* An array belongs to the caller: it can be written to and freed, and later queries do not see it
 */
static void judge_array(struct cf *c, get_tnis_fn *get)
{
    size_t count, again;
    utofu_tni_id_t *ids = get_tnis(c, get, &count), *others;

    if (!ids)
        return;
    memset(ids, 0xff, count * sizeof(*ids));
    for (int i = 0; i < 200; i++) {
        others = get_tnis(c, get, &again);
        if (!others)
            break;
        CF_HOLDS(c, others != ids, "two queries give one array");
        CF_HOLDS(c, again == count, "%lu TNIs and then %lu", (unsigned long)count,
                 (unsigned long)again);
        CF_HOLDS(c, others[0] != (utofu_tni_id_t)-1, "an array that was overwritten comes back");
        free(others);
        if (cf_failed(c))
            break;
    }
    free(ids);
}

static void count_tnis(struct cf *c, get_tnis_fn *get)
{
    size_t count;
    utofu_tni_id_t *ids = get_tnis(c, get, &count);

    if (!ids)
        return;
    cf_saw(c, count == 6 ? "all six" : "fewer");
    cf_number(c, "TNIs", (double)count);
    free(ids);
}

#define QUERY_CASE(function, judge, get)                                                           \
    static void function(struct cf *c)                                                             \
    {                                                                                              \
        judge(c, get);                                                                             \
    }

QUERY_CASE(query_onesided, judge_query, utofu_get_onesided_tnis)
QUERY_CASE(query_barrier, judge_query, utofu_get_barrier_tnis)
QUERY_CASE(judge_onesided_ids, judge_ids, utofu_get_onesided_tnis)
QUERY_CASE(judge_barrier_ids, judge_ids, utofu_get_barrier_tnis)
QUERY_CASE(judge_onesided_array, judge_array, utofu_get_onesided_tnis)
QUERY_CASE(judge_barrier_array, judge_array, utofu_get_barrier_tnis)
QUERY_CASE(count_onesided, count_tnis, utofu_get_onesided_tnis)
QUERY_CASE(count_barrier, count_tnis, utofu_get_barrier_tnis)

static void use_onesided_caps(struct cf *c)
{
    size_t count = cf_count_tnis(c);
    utofu_tni_id_t tni;

    for (size_t i = 0; i < count && cf_tni(c, i, &tni); i++)
        cf_caps_of(c, tni);
}

static void use_barrier_caps(struct cf *c)
{
    size_t count;
    utofu_tni_id_t *ids = get_tnis(c, utofu_get_barrier_tnis, &count);

    for (size_t i = 0; ids && i < count; i++)
        cf_barrier_caps_of(c, ids[i]);
    free(ids);
}

static void use_for_vcqs(struct cf *c)
{
    size_t count = cf_count_tnis(c);
    utofu_tni_id_t tni;

    for (size_t i = 0; i < count && cf_tni(c, i, &tni); i++) {
        utofu_vcq_hdl_t vcq;
        int rc = cf_create_vcq(tni, 0, &vcq);
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "utofu_create_vcq(TNI %d) returns %s", (int)tni,
                 cf_code(rc));
    }
}

static void use_for_vbgs(struct cf *c)
{
    size_t count;
    utofu_tni_id_t *ids = get_tnis(c, utofu_get_barrier_tnis, &count);

    for (size_t i = 0; ids && i < count; i++) {
        utofu_vbg_id_t gates[2];
        int rc = cf_alloc_vbg(ids[i], 2, 0, gates);
        CF_HOLDS(c, rc == UTOFU_SUCCESS || rc == UTOFU_ERR_FULL,
                 "utofu_alloc_vbg(TNI %d) returns %s", (int)ids[i], cf_code(rc));
        cf_saw_code(c, rc);
    }
    free(ids);
}

/* Each local TNI reaches the same TNI of the next process with a put */
static void communicate_by_each(struct cf *c)
{
    size_t count = cf_count_tnis(c);

    for (size_t i = 0; i < count && i < 6; i++) {
        struct cf_ends e;
        if (cf_open(c, &e, i, 0, 256)) {
            int rc = cf_put_sent(e.vcq, e.next_id, e.send_stadd, e.next_recv, 200, i,
                                 UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE);
            CF_HOLDS(c, rc == UTOFU_SUCCESS, "a put on TNI %lu of the list: %s", (unsigned long)i,
                     cf_code(rc));
            if (cf_expect(c, e.vcq, UTOFU_MRQ_TYPE_RMT_PUT, i))
                CF_HOLDS(c, cf_differs(e.recv, cf_prev(c), 0, 200) == 200,
                         "wrong data on TNI %lu of the list", (unsigned long)i);
        }
        cf_close(c, &e);
        if (cf_failed(c))
            return;
    }
}

/* TNIs of all processes of a node: whether each process has all of them */
static void compare_processes(struct cf *c)
{
    size_t count = cf_count_tnis(c), all[48];

    if (count == 0 || !cf_share(c, &count, sizeof(count), all))
        return;
    for (int r = 1; r < cf_size(c); r++)
        cf_saw(c, all[r] == all[0] ? "as many as rank 0" : "another number");
}

static void ask_unknown_onesided(struct cf *c)
{
    struct utofu_onesided_caps *caps = NULL;

    cf_saw_code(c, utofu_query_onesided_caps(60000, &caps));
}

static void ask_unknown_barrier(struct cf *c)
{
    struct utofu_barrier_caps *caps = NULL;

    cf_saw_code(c, utofu_query_barrier_caps(60000, &caps));
}

static void create_on_unknown(struct cf *c)
{
    utofu_vcq_hdl_t vcq;

    cf_saw_code(c, cf_create_vcq(60000, 0, &vcq));
}

static void pass_null(struct cf *c)
{
    utofu_tni_id_t *ids = NULL;
    size_t count;

    cf_saw_code(c, utofu_get_onesided_tnis(NULL, &count));
    cf_saw_code(c, utofu_get_onesided_tnis(&ids, NULL));
    free(ids);
    cf_saw_code(c, utofu_query_onesided_caps(0, NULL));
}

static const struct cf_case cases[] = {
    {"tni-onesided", "3.2.1.1", 2, CF_PROMISED, CF_ALONE,
     "the TNIs for one-sided communication can be asked for", query_onesided},
    {"tni-barrier", "3.2.1.2", 2, CF_PROMISED, CF_ALONE | CF_BARRIER,
     "the TNIs for barriers can be asked for", query_barrier},
    {"tni-onesided-number", "3.2.1.1", 3, CF_OPEN, CF_ALONE,
     "there may be fewer TNIs than the node has", count_onesided},
    {"tni-barrier-number", "3.2.1.2", 3, CF_OPEN, CF_ALONE | CF_BARRIER,
     "there may be fewer TNIs than the node has", count_barrier},
    {"tni-onesided-ids", "3.1.1.1", 6, CF_PROMISED, CF_ALONE,
     "TNI ids are unique, and less than the node's TNIs", judge_onesided_ids},
    {"tni-barrier-ids", "3.1.1.1", 5, CF_PROMISED, CF_ALONE | CF_BARRIER,
     "ids of TNIs for barriers are unique, and less than the node's TNIs", judge_barrier_ids},
    {"tni-onesided-array", "3.2.1.1", 5, CF_PROMISED, CF_ALONE,
     "the array is the caller's, who frees it", judge_onesided_array},
    {"tni-barrier-array", "3.2.1.2", 5, CF_PROMISED, CF_ALONE | CF_BARRIER,
     "the array is the caller's, who frees it", judge_barrier_array},
    {"tni-onesided-caps", "3.2.1.1", 4, CF_PROMISED, CF_ALONE,
     "the capabilities of each of these TNIs can be asked for", use_onesided_caps},
    {"tni-barrier-caps", "3.2.1.2", 4, CF_PROMISED, CF_ALONE | CF_BARRIER,
     "the capabilities of each of these TNIs can be asked for", use_barrier_caps},
    {"tni-vcq", "3.2.1.1", 4, CF_PROMISED, CF_ALONE, "each of these TNIs serves to create a VCQ",
     use_for_vcqs},
    {"tni-vbg", "3.2.1.2", 4, CF_PROMISED, CF_ALONE | CF_BARRIER,
     "each of these TNIs serves to allocate VBGs", use_for_vbgs},
    {"tni-communicates", "3.2.1.1", 2, CF_PROMISED, 0,
     "each of these TNIs executes one-sided communication", communicate_by_each},
    {"tni-processes", "3.2.1.1", 0, CF_UNSAID, 0, "whether all processes have as many TNIs",
     compare_processes},
    {"tni-unknown-caps", "3.2.1.3", 4, CF_OPEN, CF_ALONE,
     "other TNIs cannot be asked for: what is returned", ask_unknown_onesided},
    {"tni-unknown-barrier-caps", "3.2.1.4", 4, CF_OPEN, CF_ALONE | CF_BARRIER,
     "other TNIs cannot be asked for: what is returned", ask_unknown_barrier},
    {"tni-unknown-vcq", "3.1.2.1", 53, CF_OPEN, CF_ALONE,
     "what the creation of a VCQ on a TNI that is none returns", create_on_unknown},
    {"tni-null", "3.1.2.1", 49, CF_OPEN, CF_ALONE | CF_RISKY,
     "what the queries of TNIs return for NULL", pass_null},
};
CF_GROUP(tni_group, "tni", cases);
