/* SPDX-License-Identifier: Apache-2.0 */
/* Queries of the machine: TNIs, capabilities, versions, coordinates. */
#include "ends.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(queries);

/* Runs a body in one process that has a node for itself. */
static void run_one(ut_body_fn *body)
{
    ut_run(&(struct ut_run_opts){.n = 1}, body, NULL);
}

typedef int get_tnis_fn(utofu_tni_id_t **tni_ids, size_t *num_tnis);
static get_tnis_fn *const get_tnis[] = {utofu_get_onesided_tnis, utofu_get_barrier_tnis};

static void six_tnis(void *arg)
{
    (void)arg;
    for (size_t i = 0; i < 2; i++) {
        utofu_tni_id_t *ids = NULL;
        size_t count = 0;

        CHECK_OK(get_tnis[i](&ids, &count));
        CHECK_EQ(count, UT_TNIS);
        for (size_t tni = 0; tni < count; tni++)
            CHECK_EQ(ids[tni], tni);
        memset(ids, 0xff, count * sizeof(*ids)); /* the caller owns the array */
        free(ids);
        CHECK_OK(get_tnis[i](&ids, &count));
        CHECK_EQ(ids[5], 5);
        free(ids);
    }
}

Test(queries, six_tnis_in_an_array_that_is_freed)
{
    run_one(six_tnis);
}

static void tnis_bad_pointers(void *arg)
{
    (void)arg;
    for (size_t i = 0; i < 2; i++) {
        utofu_tni_id_t *ids;
        size_t count;

        CHECK_RC(get_tnis[i](NULL, &count), UTOFU_ERR_INVALID_POINTER);
        CHECK_RC(get_tnis[i](&ids, NULL), UTOFU_ERR_INVALID_POINTER);
        CHECK_RC(get_tnis[i](NULL, NULL), UTOFU_ERR_INVALID_POINTER);
    }
}

Test(queries, tnis_refuse_null_pointers)
{
    run_one(tnis_bad_pointers);
}

/* The line size is the table's, except over an adapter with less order (UT_LINE), and on a host
 * that is not x86. */
static void onesided_caps(void *arg)
{
    const char *text = getenv("UT_LINE");
    size_t line = text ? (size_t)atoi(text) : 256;
#if !defined(__x86_64__) && !defined(__i386__)
    const char *provider = getenv("UTOFU_PROVIDER");
    if (provider && strcmp(provider, "verbs") == 0)
        line = 8;
#endif

    (void)arg;
    for (utofu_tni_id_t tni = 0; tni < UT_TNIS; tni++) {
        struct utofu_onesided_caps *caps = NULL, *again = NULL;

        CHECK_OK(utofu_query_onesided_caps(tni, &caps));
        CHECK_EQ(caps->flags, UTOFU_ONESIDED_CAP_FLAG_SESSION_MODE | UTOFU_ONESIDED_CAP_FLAG_ARMW);
        CHECK_EQ(caps->armw_ops,
                 UTOFU_ONESIDED_CAP_ARMW_OP_CSWAP | UTOFU_ONESIDED_CAP_ARMW_OP_SWAP |
                     UTOFU_ONESIDED_CAP_ARMW_OP_ADD | UTOFU_ONESIDED_CAP_ARMW_OP_XOR |
                     UTOFU_ONESIDED_CAP_ARMW_OP_AND | UTOFU_ONESIDED_CAP_ARMW_OP_OR);
        CHECK_EQ(caps->num_cmp_ids, 8);
        CHECK_EQ(caps->num_reserved_stags, 256);
        CHECK_EQ(caps->cache_line_size, line);
        CHECK_EQ(caps->stag_address_alignment, 256);
        CHECK_EQ(caps->max_toq_desc_size, 64);
        CHECK_EQ(caps->max_putget_size, 16777215);
        CHECK_EQ(caps->max_piggyback_size, 32);
        CHECK_EQ(caps->max_edata_size, 1);
        CHECK_EQ(caps->max_mtu, 1920);
        CHECK_EQ(caps->max_gap, 255);
        CHECK_OK(utofu_query_onesided_caps(tni, &again));
        CHECK(memcmp(caps, again, sizeof(*caps)) == 0);
    }
}

Test(queries, onesided_caps_are_those_of_table_6_4)
{
    run_one(onesided_caps);
}

static void barrier_caps(void *arg)
{
    (void)arg;
    for (utofu_tni_id_t tni = 0; tni < UT_TNIS; tni++) {
        struct utofu_barrier_caps *caps = NULL;

        CHECK_OK(utofu_query_barrier_caps(tni, &caps));
        CHECK_EQ(caps->flags, 0);
        CHECK_EQ(caps->reduce_ops,
                 UTOFU_BARRIER_CAP_REDUCE_OP_BARRIER | UTOFU_BARRIER_CAP_REDUCE_OP_BAND |
                     UTOFU_BARRIER_CAP_REDUCE_OP_BOR | UTOFU_BARRIER_CAP_REDUCE_OP_BXOR |
                     UTOFU_BARRIER_CAP_REDUCE_OP_MAX | UTOFU_BARRIER_CAP_REDUCE_OP_MAXLOC |
                     UTOFU_BARRIER_CAP_REDUCE_OP_SUM | UTOFU_BARRIER_CAP_REDUCE_OP_BFPSUM);
        CHECK_EQ(caps->max_uint64_reduction, 6);
        CHECK_EQ(caps->max_double_reduction, 3);
    }
}

Test(queries, barrier_caps_are_those_of_table_6_5)
{
    run_one(barrier_caps);
}

static void caps_bad(void *arg)
{
    static const utofu_tni_id_t bad[] = {6, 7, 255, 256, 32768, 65535};
    struct utofu_onesided_caps *onesided;
    struct utofu_barrier_caps *barrier;

    (void)arg;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CHECK_RC(utofu_query_onesided_caps(bad[i], &onesided), UTOFU_ERR_INVALID_TNI_ID);
        CHECK_RC(utofu_query_barrier_caps(bad[i], &barrier), UTOFU_ERR_INVALID_TNI_ID);
    }
    CHECK_RC(utofu_query_onesided_caps(0, NULL), UTOFU_ERR_INVALID_POINTER);
    CHECK_RC(utofu_query_barrier_caps(0, NULL), UTOFU_ERR_INVALID_POINTER);
}

Test(queries, caps_refuse_unknown_tnis_and_null)
{
    run_one(caps_bad);
}

static void versions(void *arg)
{
    int tofu[2] = {-1, -1}, utofu[2] = {-1, -1};

    (void)arg;
    utofu_query_tofu_version(&tofu[0], &tofu[1]);
    utofu_query_utofu_version(&utofu[0], &utofu[1]);
    CHECK_EQ(tofu[0], 3);
    CHECK_EQ(tofu[1], 0);
    CHECK_EQ(utofu[0], UTOFU_VERSION_MAJOR);
    CHECK_EQ(utofu[1], UTOFU_VERSION_MINOR);
}

Test(queries, versions_are_tofu_3_0_and_the_headers)
{
    run_one(versions);
}

static void versions_null(void *arg)
{
    int number = -1;

    (void)arg;
    utofu_query_tofu_version(NULL, NULL);
    utofu_query_utofu_version(NULL, NULL);
    utofu_query_tofu_version(&number, NULL);
    CHECK_EQ(number, 3);
    utofu_query_utofu_version(NULL, &number);
    CHECK_EQ(number, UTOFU_VERSION_MINOR);
}

Test(queries, versions_skip_null_pointers)
{
    run_one(versions_null);
}

static void coords_agree(void *arg)
{
    uint8_t mine[8] = {0, 0, 0, 0, 0, 0, 0xa5, 0x5a}, all[8][8];

    (void)arg;
    CHECK_OK(utofu_query_my_coords(mine));
    CHECK(mine[6] == 0xa5 && mine[7] == 0x5a, "more than six elements were written");
    CHECK(mine[3] < 2 && mine[4] < 3 && mine[5] < 2, "a, b, c = %d, %d, %d", mine[3], mine[4],
          mine[5]);
    ut_allgather(mine, all, sizeof(mine));
    for (int rank = 0; rank < ut_size; rank++) {
        bool same_node = rank * ut_nodes / ut_size == ut_node;

        CHECK_EQ(memcmp(all[rank], mine, 6) == 0, same_node);
    }
}

Test(queries, coords_are_equal_on_a_node_and_differ_between_nodes)
{
    ut_run(&(struct ut_run_opts){.n = 8, .nodes = 4}, coords_agree, NULL);
}

static void coords_null(void *arg)
{
    (void)arg;
    CHECK_RC(utofu_query_my_coords(NULL), UTOFU_ERR_INVALID_POINTER);
}

Test(queries, coords_refuse_null)
{
    run_one(coords_null);
}

static void last_error(void *arg)
{
    char text[1025];

    (void)arg;
    memset(text, '#', sizeof(text));
    CHECK_RC(utofu_query_my_coords(NULL), UTOFU_ERR_INVALID_POINTER);
    utofu_get_last_error(text);
    CHECK(memchr(text, '\0', 1024) != NULL, "not ended within 1,024 bytes");
    CHECK(text[0] != '\0', "no text on an error");
    CHECK(strchr(text, '\n') == NULL, "more than a line: %s", text);
    CHECK(text[1024] == '#', "more than 1,024 bytes written");
    utofu_get_last_error(NULL);
}

Test(queries, last_error_is_a_line_of_text)
{
    run_one(last_error);
}
