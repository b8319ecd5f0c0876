/* SPDX-License-Identifier: Apache-2.0 */
/* VCQs: their number, kinds, handles and ids. Sections 3.3 and 3.5. */
#include "ends.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(vcq);

static void run_one(ut_body_fn *body, const char *env)
{
    ut_run(&(struct ut_run_opts){.n = 1, .env = {env}}, body, NULL);
}

/* The place of the VCQ of an id. */
struct place {
    uint8_t coords[6];
    utofu_tni_id_t tni;
    utofu_cq_id_t cq;
    uint16_t extra;
};

static struct place place_of(utofu_vcq_id_t id)
{
    struct place place;

    CHECK_OK(utofu_query_vcq_info(id, place.coords, &place.tni, &place.cq, &place.extra));
    return place;
}

static utofu_vcq_id_t id_of(utofu_vcq_hdl_t vcq)
{
    utofu_vcq_id_t id;

    CHECK_OK(utofu_query_vcq_id(vcq, &id));
    return id;
}

static utofu_vcq_hdl_t create(utofu_tni_id_t tni, unsigned long int flags)
{
    utofu_vcq_hdl_t vcq;

    CHECK_OK(utofu_create_vcq(tni, flags, &vcq));
    return vcq;
}

static utofu_vcq_hdl_t create_cmp(utofu_tni_id_t tni, utofu_cmp_id_t cmp)
{
    utofu_vcq_hdl_t vcq;

    CHECK_OK(utofu_create_vcq_with_cmp_id(tni, cmp, 0, &vcq));
    return vcq;
}

static void check_distinct(const utofu_vcq_id_t *ids, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++)
            CHECK(ids[i] != ids[j], "ids %zu and %zu are both 0x%llx", i, j,
                  (unsigned long long)ids[i]);
}

/* Creating and freeing */

static void again_and_again(void *arg)
{
    (void)arg;
    for (int round = 0; round < 200; round++)
        CHECK_OK(utofu_free_vcq(create((utofu_tni_id_t)(round % UT_TNIS), round % 2)));
}

Test(vcq, can_be_created_and_freed_again_and_again)
{
    run_one(again_and_again, NULL);
}

static void create_bad(void *arg)
{
    static const struct {
        utofu_tni_id_t tni;
        unsigned long int flags;
        int rc, rc_cmp;
    } bad[] = {
        {6, 0, UTOFU_ERR_INVALID_TNI_ID, UTOFU_ERR_INVALID_TNI_ID},
        {65535, 0, UTOFU_ERR_INVALID_TNI_ID, UTOFU_ERR_INVALID_TNI_ID},
        {0, 1UL << 3, UTOFU_ERR_INVALID_FLAGS, UTOFU_ERR_INVALID_FLAGS},
        {0, 1UL << 63, UTOFU_ERR_INVALID_FLAGS, UTOFU_ERR_INVALID_FLAGS},
        {0, ~0UL, UTOFU_ERR_INVALID_FLAGS, UTOFU_ERR_INVALID_FLAGS},
        {0, UTOFU_VCQ_FLAG_EXCLUSIVE | UTOFU_VCQ_FLAG_SESSION_MODE, UTOFU_ERR_INVALID_FLAGS,
         UTOFU_ERR_INVALID_FLAGS},
    };
    utofu_vcq_hdl_t vcq;

    (void)arg;
    for (size_t i = 0; i < NUM(bad); i++) {
        CHECK_RC(utofu_create_vcq(bad[i].tni, bad[i].flags, &vcq), bad[i].rc);
        CHECK_RC(utofu_create_vcq_with_cmp_id(bad[i].tni, 0, bad[i].flags, &vcq), bad[i].rc_cmp);
    }
    CHECK_RC(utofu_create_vcq(0, 0, NULL), UTOFU_ERR_INVALID_POINTER);
    CHECK_RC(utofu_create_vcq_with_cmp_id(0, 0, 0, NULL), UTOFU_ERR_INVALID_POINTER);
    CHECK_RC(utofu_create_vcq_with_cmp_id(0, 8, 0, &vcq), UTOFU_ERR_INVALID_CMP_ID);
    CHECK_RC(utofu_create_vcq_with_cmp_id(0, 65535, 0, &vcq), UTOFU_ERR_INVALID_CMP_ID);
    CHECK_RC(utofu_create_vcq_with_cmp_id(0, 0, UTOFU_VCQ_FLAG_EXCLUSIVE, &vcq),
             UTOFU_ERR_INVALID_FLAGS);
    CHECK_RC(utofu_create_vcq_with_cmp_id(0, 0, UTOFU_VCQ_FLAG_SESSION_MODE, &vcq),
             UTOFU_ERR_INVALID_FLAGS);
    CHECK_OK(utofu_create_vcq_with_cmp_id(0, 0, UTOFU_VCQ_FLAG_THREAD_SAFE, &vcq));
    CHECK_OK(utofu_free_vcq(vcq));
}

Test(vcq, create_refuses_bad_arguments)
{
    run_one(create_bad, NULL);
}

static void sixty_four(void *arg)
{
    utofu_vcq_hdl_t vcq[64];
    utofu_vcq_id_t id[64];

    (void)arg;
    for (size_t i = 0; i < 64; i++) {
        vcq[i] = create((utofu_tni_id_t)(i % UT_TNIS), i % 3 == 0 ? UTOFU_VCQ_FLAG_THREAD_SAFE : 0);
        id[i] = id_of(vcq[i]);
        CHECK_EQ(place_of(id[i]).tni, i % UT_TNIS);
        for (size_t j = 0; j < i; j++)
            CHECK(vcq[i] != vcq[j]);
    }
    check_distinct(id, 64);
    for (size_t i = 0; i < 64; i++)
        CHECK_OK(utofu_free_vcq(vcq[i]));
}

Test(vcq, sixty_four_in_one_process)
{
    run_one(sixty_four, NULL);
}

static void seventy_two(void *arg)
{
    enum { MAX = UT_CQS * UT_VCQS_PER_CQ };
    utofu_vcq_hdl_t vcq[MAX], more;
    utofu_vcq_id_t id[MAX];
    int on_cq[65536 / 64] = {0}, cqs = 0;

    (void)arg;
    for (size_t i = 0; i < MAX; i++) {
        ut_step("VCQ %zu", i);
        vcq[i] = create(3, 0);
        id[i] = id_of(vcq[i]);
        struct place place = place_of(id[i]);
        CHECK(place.cq < NUM(on_cq));
        on_cq[place.cq]++;
    }
    check_distinct(id, MAX);
    for (size_t cq = 0; cq < NUM(on_cq); cq++) {
        CHECK(on_cq[cq] <= UT_VCQS_PER_CQ);
        cqs += on_cq[cq] > 0;
    }
    CHECK_EQ(cqs, UT_CQS);
    CHECK_RC(utofu_create_vcq(3, 0, &more), UTOFU_ERR_FULL);
    CHECK_OK(utofu_free_vcq(create(4, 0))); /* another TNI is not full */
    CHECK_OK(utofu_free_vcq(vcq[40]));
    vcq[40] = create(3, 0);
    CHECK_EQ(id_of(vcq[40]), id[40]); /* the only free place */
    CHECK_RC(utofu_create_vcq(3, 0, &more), UTOFU_ERR_FULL);
    for (size_t i = 0; i < MAX; i++)
        CHECK_OK(utofu_free_vcq(vcq[i]));
}

Test(vcq, nine_cqs_of_eight_vcqs_for_a_process_alone_then_full)
{
    run_one(seventy_two, "UTOFU_NUM_SESSION_MODE_CQS=0");
}

static void most_in_memory(void *arg)
{
    enum { MOST = 256 };
    static utofu_vcq_hdl_t vcqs[MOST + 1];
    char text[1024];
    size_t num = 0;
    int rc = UTOFU_SUCCESS;

    (void)arg;
    while (num <= MOST && rc == UTOFU_SUCCESS) {
        rc = utofu_create_vcq((utofu_tni_id_t)(num % UT_TNIS), 0, &vcqs[num]);
        num += rc == UTOFU_SUCCESS;
    }
    CHECK_RC(rc, UTOFU_ERR_FULL);
    CHECK_EQ(num, MOST);
    utofu_get_last_error(text);
    CHECK(strstr(text, "256"), "%s", text);
    CHECK_OK(utofu_free_vcq(vcqs[--num]));
    CHECK_OK(utofu_create_vcq(0, 0, &vcqs[num++]));
    while (num > 0)
        CHECK_OK(utofu_free_vcq(vcqs[--num]));
}

Test(vcq, two_hundred_and_fifty_six_meet_in_memory_then_full)
{
    run_one(most_in_memory, "UTOFU_PROVIDER=shm");
}

/* Component ids */

static void chosen_components(void *arg)
{
    utofu_vcq_hdl_t vcq[8], other;
    utofu_vcq_id_t id[8];

    (void)arg;
    for (utofu_cmp_id_t cmp = 0; cmp < 8; cmp++) {
        vcq[cmp] = create_cmp(2, cmp);
        id[cmp] = id_of(vcq[cmp]);
        CHECK_RC(utofu_create_vcq_with_cmp_id(2, cmp, 0, &other), UTOFU_ERR_USED);
    }
    check_distinct(id, 8);
    for (utofu_cmp_id_t cmp = 1; cmp < 8; cmp++)
        CHECK_EQ(place_of(id[cmp]).cq, place_of(id[0]).cq);
    other = create_cmp(1, 5); /* on another TNI the id is free */
    CHECK_OK(utofu_free_vcq(other));
    CHECK_OK(utofu_free_vcq(vcq[5]));
    vcq[5] = create_cmp(2, 5);
    CHECK_EQ(id_of(vcq[5]), id[5]);
    for (utofu_cmp_id_t cmp = 0; cmp < 8; cmp++)
        CHECK_OK(utofu_free_vcq(vcq[cmp]));
}

Test(vcq, chosen_component_is_used_until_freed)
{
    run_one(chosen_components, NULL);
}

static void unchosen_components(void *arg)
{
    utofu_vcq_hdl_t chosen[2], vcq[30], other;
    utofu_vcq_id_t id[32];

    (void)arg;
    chosen[0] = create_cmp(0, 3);
    chosen[1] = create_cmp(0, 4);
    id[30] = id_of(chosen[0]);
    id[31] = id_of(chosen[1]);
    for (size_t i = 0; i < 30; i++) {
        vcq[i] = create(0, 0);
        id[i] = id_of(vcq[i]);
    }
    check_distinct(id, 32);
    CHECK_RC(utofu_create_vcq_with_cmp_id(0, 3, 0, &other), UTOFU_ERR_USED);
    for (size_t i = 0; i < 30; i++)
        CHECK_OK(utofu_free_vcq(vcq[i]));
    CHECK_OK(utofu_free_vcq(chosen[0]));
    CHECK_OK(utofu_free_vcq(chosen[1]));
}

Test(vcq, component_that_nobody_chose_is_one_that_is_free)
{
    run_one(unchosen_components, NULL);
}

static void constructed(void *arg)
{
    (void)arg;
    for (utofu_tni_id_t tni = 0; tni < UT_TNIS; tni++) {
        for (utofu_cmp_id_t cmp = 0; cmp < 8; cmp++) {
            utofu_vcq_hdl_t vcq = create_cmp(tni, cmp);
            struct place place = place_of(id_of(vcq));
            uint8_t coords[6];
            utofu_vcq_id_t made;

            CHECK_OK(utofu_query_my_coords(coords));
            CHECK(memcmp(place.coords, coords, 6) == 0);
            CHECK_EQ(place.tni, tni);
            CHECK_OK(utofu_construct_vcq_id(coords, tni, place.cq, cmp, &made));
            CHECK_EQ(made, id_of(vcq));
            CHECK_OK(utofu_free_vcq(vcq));
        }
    }
}

Test(vcq, constructed_id_is_the_queried_one_bit_for_bit)
{
    ut_run(&(struct ut_run_opts){.n = 4, .nodes = 2}, constructed, NULL);
}

static void constructed_for_others(void *arg)
{
    struct {
        uint8_t coords[6];
        utofu_cq_id_t cq;
        utofu_vcq_id_t id;
    } mine, all[8];
    utofu_vcq_hdl_t vcq = create_cmp(1, 6);

    (void)arg;
    memset(&mine, 0, sizeof(mine));
    mine.id = id_of(vcq);
    mine.cq = place_of(mine.id).cq;
    CHECK_OK(utofu_query_my_coords(mine.coords));
    ut_allgather(&mine, all, sizeof(mine));
    for (int rank = 0; rank < ut_size; rank++) {
        utofu_vcq_id_t made;
        struct place place = place_of(all[rank].id);

        CHECK_OK(utofu_construct_vcq_id(all[rank].coords, 1, all[rank].cq, 6, &made));
        CHECK_EQ(made, all[rank].id);
        CHECK(memcmp(place.coords, all[rank].coords, 6) == 0);
        CHECK_EQ(place.tni, 1);
    }
    CHECK_OK(utofu_free_vcq(vcq));
}

Test(vcq, constructed_id_is_that_of_another_process)
{
    ut_run(&(struct ut_run_opts){.n = 8, .nodes = 3}, constructed_for_others, NULL);
}

static void construct_bad(void *arg)
{
    uint8_t good[6], coords[6];
    utofu_vcq_id_t id;

    (void)arg;
    CHECK_OK(utofu_query_my_coords(good));
    CHECK_OK(utofu_construct_vcq_id(good, 0, 0, 0, &id));
    CHECK_RC(utofu_construct_vcq_id(NULL, 0, 0, 0, &id), UTOFU_ERR_INVALID_POINTER);
    CHECK_RC(utofu_construct_vcq_id(good, 0, 0, 0, NULL), UTOFU_ERR_INVALID_POINTER);
    CHECK_RC(utofu_construct_vcq_id(good, 6, 0, 0, &id), UTOFU_ERR_INVALID_TNI_ID);
    CHECK_RC(utofu_construct_vcq_id(good, 65535, 0, 0, &id), UTOFU_ERR_INVALID_TNI_ID);
    CHECK_RC(utofu_construct_vcq_id(good, 0, 65535, 0, &id), UTOFU_ERR_INVALID_CQ_ID);
    CHECK_RC(utofu_construct_vcq_id(good, 0, 0, 8, &id), UTOFU_ERR_INVALID_CMP_ID);
    CHECK_RC(utofu_construct_vcq_id(good, 0, 0, 65535, &id), UTOFU_ERR_INVALID_CMP_ID);
    for (int axis = 3; axis < 6; axis++) {
        memcpy(coords, good, 6);
        coords[axis] = axis == 4 ? 3 : 2;
        CHECK_RC(utofu_construct_vcq_id(coords, 0, 0, 0, &id), UTOFU_ERR_INVALID_COORDS);
        coords[axis] = 255;
        CHECK_RC(utofu_construct_vcq_id(coords, 0, 0, 0, &id), UTOFU_ERR_INVALID_COORDS);
    }
}

Test(vcq, construct_refuses_bad_arguments)
{
    run_one(construct_bad, NULL);
}

/* Exclusive VCQs */

static void exclusive_alone(void *arg)
{
    utofu_vcq_hdl_t exclusive[2], vcq[40];
    size_t count = 0;

    (void)arg;
    exclusive[0] = create(0, UTOFU_VCQ_FLAG_EXCLUSIVE);
    vcq[count++] = create(0, 0);
    exclusive[1] = create(0, UTOFU_VCQ_FLAG_EXCLUSIVE | UTOFU_VCQ_FLAG_THREAD_SAFE);
    while (count < NUM(vcq) && utofu_create_vcq(0, 0, &vcq[count]) == UTOFU_SUCCESS)
        count++;
    CHECK(count >= UT_VCQS_PER_CQ);
    for (size_t e = 0; e < 2; e++) {
        utofu_cq_id_t cq = place_of(id_of(exclusive[e])).cq;

        CHECK(cq != place_of(id_of(exclusive[!e])).cq);
        for (size_t i = 0; i < count; i++)
            CHECK(place_of(id_of(vcq[i])).cq != cq, "VCQ %zu is on an exclusive CQ", i);
    }
    for (size_t i = 0; i < count; i++)
        CHECK_OK(utofu_free_vcq(vcq[i]));
    CHECK_OK(utofu_free_vcq(exclusive[0]));
    CHECK_OK(utofu_free_vcq(exclusive[1]));
}

Test(vcq, exclusive_one_shares_its_cq_with_none)
{
    run_one(exclusive_alone, "UTOFU_NUM_EXCLUSIVE_CQS=2");
}

static void exclusive_reserve(void *arg)
{
    utofu_vcq_hdl_t vcq[UT_CQS * UT_VCQS_PER_CQ], exclusive[4], more;
    size_t count = 0, got = 0;
    int rc;

    (void)arg;
    while ((rc = utofu_create_vcq(5, 0, &vcq[count])) == UTOFU_SUCCESS)
        count++;
    CHECK_RC(rc, UTOFU_ERR_FULL);
    /* the reserved CQs are still available */
    for (; got < 2; got++)
        CHECK_OK(utofu_create_vcq(5, UTOFU_VCQ_FLAG_EXCLUSIVE, &exclusive[got]));
    rc = utofu_create_vcq(5, UTOFU_VCQ_FLAG_EXCLUSIVE, &more);
    CHECK(rc == UTOFU_ERR_NOT_AVAILABLE || rc == UTOFU_ERR_FULL, "%s", ut_rc_name(rc));
    CHECK_OK(utofu_free_vcq(exclusive[0]));
    CHECK_OK(utofu_create_vcq(5, UTOFU_VCQ_FLAG_EXCLUSIVE, &exclusive[0]));
    for (size_t i = 0; i < count; i++)
        CHECK_OK(utofu_free_vcq(vcq[i]));
    CHECK_OK(utofu_free_vcq(exclusive[0]));
    CHECK_OK(utofu_free_vcq(exclusive[1]));
}

Test(vcq, exclusive_cqs_are_set_aside_and_run_out)
{
    run_one(exclusive_reserve, "UTOFU_NUM_EXCLUSIVE_CQS=2");
}

/* One CQ always remains for ordinary VCQs. */
static void exclusive_first(void *arg)
{
    utofu_vcq_hdl_t exclusive[UT_CQS], ordinary, more;
    size_t count = 0;

    (void)arg;
    while (count < UT_CQS &&
           utofu_create_vcq(4, UTOFU_VCQ_FLAG_EXCLUSIVE, &exclusive[count]) == UTOFU_SUCCESS)
        count++;
    CHECK(count > 0 && count < UT_CQS);
    CHECK_OK(utofu_create_vcq(4, 0, &ordinary));
    CHECK_RC(utofu_create_vcq(4, UTOFU_VCQ_FLAG_EXCLUSIVE, &more), UTOFU_ERR_NOT_AVAILABLE);
    for (size_t i = 0; i < count; i++) {
        CHECK(place_of(id_of(exclusive[i])).cq != place_of(id_of(ordinary)).cq);
        CHECK_OK(utofu_free_vcq(exclusive[i]));
    }
    CHECK_OK(utofu_free_vcq(ordinary));
}

Test(vcq, exclusive_ones_leave_a_cq_for_ordinary_ones)
{
    run_one(exclusive_first, NULL);
}

/* Handles */

static int use_handle(int which, utofu_vcq_hdl_t hdl)
{
    static uint64_t word, desc[UT_DESC / 8];
    utofu_vcq_id_t id;
    utofu_stadd_t stadd;
    struct utofu_mrq_notice notice;
    void *cbdata;
    size_t count;

    switch (which) {
    case 0:
        return utofu_free_vcq(hdl);
    case 1:
        return utofu_query_vcq_id(hdl, &id);
    case 2:
        return utofu_reg_mem(hdl, &word, sizeof(word), 0, &stadd);
    case 3:
        return utofu_dereg_mem(hdl, 0, 0);
    case 4:
        return utofu_poll_tcq(hdl, 0, &cbdata);
    case 5:
        return utofu_poll_mrq(hdl, 0, &notice);
    case 6:
        return utofu_query_num_unread_tcq(hdl, &count);
    case 7:
        return utofu_query_num_unread_mrq(hdl, &count);
    case 8:
        return utofu_nop(hdl, 0, NULL);
    case 9:
        return utofu_prepare_nop(hdl, 0, desc, &count);
    case 10:
        return utofu_post_toq(hdl, desc, 0, NULL);
    default:
        return utofu_post_toq(hdl, desc, sizeof(desc), NULL);
    }
}

static void check_refused(utofu_vcq_hdl_t hdl)
{
    for (int which = 0; which < 12; which++) {
        ut_step("use %d of handle 0x%llx", which, (unsigned long long)hdl);
        CHECK_RC(use_handle(which, hdl), UTOFU_ERR_INVALID_VCQ_HDL);
    }
}

static void bad_handles(void *arg)
{
    utofu_vcq_hdl_t live = create(0, 0), stale = create(0, 0);
    static const utofu_vcq_hdl_t odd[] = {0,  1,      2,       7,           8,
                                          64, 0xffff, 0x10000, UINTPTR_MAX, UINTPTR_MAX / 2};

    (void)arg;
    CHECK_OK(utofu_free_vcq(stale));
    check_refused(stale);
    utofu_vcq_hdl_t newer = create(0, 0); /* possibly in the same place */
    CHECK(newer != stale);
    check_refused(stale);
    for (size_t i = 0; i < NUM(odd); i++)
        if (odd[i] != live && odd[i] != newer)
            check_refused(odd[i]);
    for (int bit = 0; bit < 64; bit++)
        if ((live ^ (utofu_vcq_hdl_t)1 << bit) != newer)
            check_refused(live ^ (utofu_vcq_hdl_t)1 << bit);
    check_refused((utofu_vcq_hdl_t)(uintptr_t)&live);
    for (int i = 0; i < 20000; i++) {
        utofu_vcq_hdl_t hdl = (utofu_vcq_hdl_t)(ut_random() >> ut_random_below(64));

        if (hdl != live && hdl != newer)
            CHECK_RC(use_handle((int)ut_random_below(12), hdl), UTOFU_ERR_INVALID_VCQ_HDL);
    }
    CHECK_OK(utofu_free_vcq(live));
    CHECK_OK(utofu_free_vcq(newer));
    for (size_t i = 0; i < NUM(odd); i++) /* nor is any of the earlier handles */
        check_refused(odd[i]);
}

Test(vcq, stale_and_invented_handles_are_errors)
{
    run_one(bad_handles, NULL);
}

static void foreign_handles(void *arg)
{
    utofu_vcq_hdl_t mine = 0, all[3];

    (void)arg;
    if (ut_rank > 0)
        mine = create(0, 0);
    ut_allgather(&mine, all, sizeof(mine));
    if (ut_rank == 0) { /* has no VCQ, so no handle is valid */
        check_refused(all[1]);
        check_refused(all[2]);
    }
    ut_barrier();
    if (ut_rank > 0)
        CHECK_OK(utofu_free_vcq(mine));
}

Test(vcq, handle_of_another_process_is_an_error)
{
    ut_run(&(struct ut_run_opts){.n = 3}, foreign_handles, NULL);
}

/* Ids */

static void ids_differ(void *arg)
{
    enum { EACH = 18 };
    utofu_vcq_hdl_t vcq[EACH];
    utofu_vcq_id_t mine[EACH], all[8 * EACH];

    (void)arg;
    for (size_t i = 0; i < EACH; i++) {
        vcq[i] = i % 3 == 0 ? create_cmp((utofu_tni_id_t)(i % UT_TNIS), (utofu_cmp_id_t)(i / 6))
                            : create((utofu_tni_id_t)(i % UT_TNIS), 0);
        mine[i] = id_of(vcq[i]);
    }
    ut_allgather(mine, all, sizeof(mine));
    check_distinct(all, (size_t)ut_size * EACH);
    for (size_t i = 0; i < EACH; i++)
        CHECK_OK(utofu_free_vcq(vcq[i]));
}

Test(vcq, ids_of_all_processes_and_nodes_differ)
{
    for (int nodes = 1; nodes <= 4; nodes++)
        ut_run(&(struct ut_run_opts){.n = 8, .nodes = nodes}, ids_differ, NULL);
}

/* The CQs of TNI 3 that this process gets. */
static uint64_t cqs_of_process(void)
{
    utofu_vcq_hdl_t vcq[UT_CQS * UT_VCQS_PER_CQ];
    uint64_t cqs = 0;
    size_t count = 0;

    for (int session = 0; session < 2; session++) {
        unsigned long flags = session ? UTOFU_VCQ_FLAG_SESSION_MODE : 0;
        while (count < NUM(vcq) && utofu_create_vcq(3, flags, &vcq[count]) == UTOFU_SUCCESS)
            cqs |= UINT64_C(1) << place_of(id_of(vcq[count++])).cq;
    }
    while (count > 0)
        CHECK_OK(utofu_free_vcq(vcq[--count]));
    return cqs;
}

static void same_cq_numbers(void *arg)
{
    struct place mine, all[8];
    uint64_t cqs = cqs_of_process(), all_cqs[8];
    utofu_vcq_hdl_t vcq = create_cmp(0, 0);

    (void)arg;
    memset(&mine, 0, sizeof(mine));
    mine = place_of(id_of(vcq));
    ut_allgather(&mine, all, sizeof(mine));
    ut_allgather(&cqs, all_cqs, sizeof(cqs));
    /* two processes of a node never share a CQ; those at the same place of their nodes agree */
    for (int rank = 0; rank < ut_size; rank++) {
        if (rank == ut_rank)
            continue;
        if (memcmp(all[rank].coords, mine.coords, 6) == 0)
            CHECK((all_cqs[rank] & cqs) == 0 && all[rank].cq != mine.cq,
                  "ranks %d and %d share a CQ: 0x%llx, 0x%llx", rank, ut_rank,
                  (unsigned long long)all_cqs[rank], (unsigned long long)cqs);
        else if (rank % 4 == ut_rank % 4)
            CHECK_EQ(all[rank].cq, mine.cq);
    }
    CHECK_OK(utofu_free_vcq(vcq));
}

Test(vcq, processes_of_a_node_share_no_cq)
{
    ut_run(&(struct ut_run_opts){.n = 8, .nodes = 2}, same_cq_numbers, NULL);
}

static void info_bad(void *arg)
{
    utofu_vcq_hdl_t vcq = create(0, 0);
    utofu_vcq_id_t id = id_of(vcq);
    uint8_t coords[6];
    utofu_tni_id_t tni;
    utofu_cq_id_t cq;
    uint16_t extra;

    (void)arg;
    CHECK_RC(utofu_query_vcq_id(vcq, NULL), UTOFU_ERR_INVALID_POINTER);
    CHECK_RC(utofu_query_vcq_info(id, NULL, &tni, &cq, &extra), UTOFU_ERR_INVALID_POINTER);
    CHECK_RC(utofu_query_vcq_info(id, coords, NULL, &cq, &extra), UTOFU_ERR_INVALID_POINTER);
    CHECK_RC(utofu_query_vcq_info(id, coords, &tni, NULL, &extra), UTOFU_ERR_INVALID_POINTER);
    CHECK_RC(utofu_query_vcq_info(id, coords, &tni, &cq, NULL), UTOFU_ERR_INVALID_POINTER);
    for (int bit = 0; bit < 64; bit++)
        CHECK_RC(utofu_query_vcq_info(id ^ 1ull << bit, coords, &tni, &cq, &extra),
                 UTOFU_ERR_INVALID_VCQ_ID);
    CHECK_RC(utofu_query_vcq_info(0, coords, &tni, &cq, &extra), UTOFU_ERR_INVALID_VCQ_ID);
    CHECK_RC(utofu_query_vcq_info(UINT64_MAX, coords, &tni, &cq, &extra), UTOFU_ERR_INVALID_VCQ_ID);
    CHECK_OK(utofu_free_vcq(vcq));
}

Test(vcq, info_refuses_garbage_ids_and_null)
{
    run_one(info_bad, NULL);
}

/* Paths */

static const uint8_t *path_number(int number)
{
    static uint8_t path[3];

    path[0] = (uint8_t)(number / 6);
    path[1] = (uint8_t)(number / 2 % 3);
    path[2] = (uint8_t)(number % 2);
    return path;
}

static utofu_vcq_id_t with_path(utofu_vcq_id_t id, const uint8_t *path)
{
    uint8_t copy[3];

    if (path != NULL)
        memcpy(copy, path, 3);
    CHECK_OK(utofu_set_vcq_id_path(&id, path != NULL ? copy : NULL));
    return id;
}

static void paths_in_ids(void *arg)
{
    utofu_vcq_hdl_t vcq = create(0, 0);
    utofu_vcq_id_t mine = id_of(vcq), all[4], set[UT_PATHS];

    (void)arg;
    ut_allgather(&mine, all, sizeof(mine));
    for (int rank = 0; rank < ut_size; rank++) {
        struct place place = place_of(all[rank]);

        for (int i = 0; i < UT_PATHS; i++) {
            set[i] = with_path(all[rank], path_number(i));
            CHECK_EQ(with_path(set[i], path_number(i)), set[i]);
            /* it is still the id of the same VCQ */
            struct place other = place_of(set[i]);
            CHECK(memcmp(other.coords, place.coords, 6) == 0 && other.tni == place.tni &&
                  other.cq == place.cq);
            /* and setting the owner's path gives the id that the owner has */
            CHECK_EQ(with_path(set[i], place.coords + 3), all[rank]);
            CHECK_EQ(with_path(with_path(set[i], NULL), place.coords + 3), all[rank]);
            CHECK_EQ(with_path(set[i], NULL), with_path(all[rank], NULL));
        }
        check_distinct(set, UT_PATHS);
    }
    CHECK_OK(utofu_free_vcq(vcq));
}

Test(vcq, set_path_is_idempotent_and_reversible)
{
    ut_run(&(struct ut_run_opts){.n = 4, .nodes = 4}, paths_in_ids, NULL);
}

static void path_ids(void *arg)
{
    utofu_vcq_hdl_t vcq = create(0, 0);
    utofu_vcq_id_t mine = id_of(vcq), all[4];
    uint8_t coords[4], path[3];

    (void)arg;
    ut_allgather(&mine, all, sizeof(mine));
    for (int rank = 0; rank < ut_size; rank++) {
        utofu_path_id_t path_id[UT_PATHS], any;

        for (int i = 0; i < UT_PATHS; i++) {
            memcpy(path, path_number(i), 3);
            CHECK_OK(utofu_get_path_id(all[rank], path, &path_id[i]));
            for (int j = 0; j < i; j++)
                CHECK(path_id[i] != path_id[j]);
            coords[3] = 0xa5;
            CHECK_OK(utofu_get_path_coords(all[rank], path_id[i], coords));
            CHECK(memcmp(coords, path, 3) == 0 && coords[3] == 0xa5);
        }
        CHECK_OK(utofu_get_path_id(all[rank], NULL, &any));
        CHECK_OK(utofu_get_path_coords(all[rank], any, coords));
        CHECK(coords[0] < 2 && coords[1] < 3 && coords[2] < 2);
    }
    CHECK_OK(utofu_free_vcq(vcq));
}

Test(vcq, twelve_path_ids_to_every_vcq_and_back)
{
    ut_run(&(struct ut_run_opts){.n = 4, .nodes = 4}, path_ids, NULL);
}

static void paths_bad(void *arg)
{
    static const uint8_t bad[][3] = {{2, 0, 0},   {0, 3, 0},   {0, 0, 2},
                                     {255, 0, 0}, {0, 255, 0}, {0, 0, 255}};
    utofu_vcq_hdl_t vcq = create(0, 0);
    utofu_vcq_id_t id = id_of(vcq), garbage = id ^ 0x10, changed;
    uint8_t path[3] = {0, 0, 0};
    utofu_path_id_t path_id;

    (void)arg;
    for (size_t i = 0; i < NUM(bad); i++) {
        memcpy(path, bad[i], 3);
        changed = id;
        CHECK_RC(utofu_set_vcq_id_path(&changed, path), UTOFU_ERR_INVALID_PATH);
        CHECK_EQ(changed, id);
        CHECK_RC(utofu_get_path_id(id, path, &path_id), UTOFU_ERR_INVALID_PATH);
    }
    memset(path, 0, 3);
    CHECK_RC(utofu_set_vcq_id_path(NULL, path), UTOFU_ERR_INVALID_POINTER);
    CHECK_RC(utofu_get_path_id(id, path, NULL), UTOFU_ERR_INVALID_POINTER);
    CHECK_RC(utofu_get_path_coords(id, 0, NULL), UTOFU_ERR_INVALID_POINTER);
    changed = garbage;
    CHECK_RC(utofu_set_vcq_id_path(&changed, path), UTOFU_ERR_INVALID_VCQ_ID);
    CHECK_EQ(changed, garbage);
    CHECK_RC(utofu_set_vcq_id_path(&changed, NULL), UTOFU_ERR_INVALID_VCQ_ID);
    CHECK_RC(utofu_get_path_id(garbage, path, &path_id), UTOFU_ERR_INVALID_VCQ_ID);
    CHECK_RC(utofu_get_path_id(garbage, NULL, &path_id), UTOFU_ERR_INVALID_VCQ_ID);
    CHECK_RC(utofu_get_path_coords(garbage, 0, path), UTOFU_ERR_INVALID_VCQ_ID);
    CHECK_RC(utofu_get_path_coords(id, 255, path), UTOFU_ERR_INVALID_PATH_ID);
    CHECK_OK(utofu_free_vcq(vcq));
}

Test(vcq, paths_refuse_bad_coordinates_ids_and_null)
{
    run_one(paths_bad, NULL);
}

/*
 * A VCQ is freed and created again between two communications of a peer that has no reason to poll,
 * and whose connection still leads to the old one. Both learn of the new VCQ.
 */
static void made_anew(void *arg)
{
    enum { ROUNDS = 12 };
    struct utofu_mrq_notice notice;
    struct ut_end end;
    struct ut_peer peers[2];
    utofu_vcq_id_t id;

    (void)arg;
    ut_open_all(&end, 4096, peers);
    id = peers[1].id;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        ut_step("round %llu", (unsigned long long)round);
        if (round > 0 && ut_rank == 1) {
            ut_end_close(&end);
            ut_end_open(&end, 0, 0, 4096);
        }
        ut_end_gather(&end, peers);
        CHECK_EQ(peers[1].id, id);
        if (ut_rank == 0) {
            struct ut_comm comm = {.kind = round % 3 == 1 ? UT_GET : UT_PUT,
                                   .vcq = end.vcq,
                                   .rmt = id,
                                   .lcl_stadd = end.stadd,
                                   .rmt_stadd = peers[1].stadd,
                                   .length = round % 2 ? 8 : 4096,
                                   .edata = round,
                                   .flags = UT_LCL | UT_RMT};
            if (round % 3 == 2)
                CHECK_OK(utofu_armw8(end.vcq, id, UTOFU_ARMW_OP_ADD, 1, peers[1].stadd, round,
                                     UT_LCL | UT_RMT, NULL));
            else
                ut_submit(&comm);
        }
        CHECK_OK(ut_await_mrq(end.vcq, &notice));
        CHECK_EQ(notice.edata, round);
        if (ut_rank == 1 && round % 3 == 2)
            CHECK_EQ(*(uint64_t *)(void *)end.mem, 1); /* once */
        ut_barrier();
        ut_expect_nothing(end.vcq);
        ut_barrier();
    }
    ut_close_all(&end);
}

/*
 * The same if the new VCQ has made the connection itself, so that its peer has not used any of its
 * memory yet.
 */
static void made_anew_after_asking(void *arg)
{
    struct utofu_mrq_notice notice;
    struct ut_end end;
    struct ut_peer peers[2];

    (void)arg;
    ut_open_all(&end, 4096, peers);
    for (uint64_t round = 0; round < 8; round++) {
        struct ut_comm comm = {.kind = UT_PUT,
                               .vcq = end.vcq,
                               .rmt = peers[!ut_rank].id,
                               .lcl_stadd = end.stadd,
                               .rmt_stadd = peers[!ut_rank].stadd,
                               .length = 8,
                               .edata = round,
                               .flags = UT_LCL | UT_RMT};
        ut_step("round %llu", (unsigned long long)round);
        if (ut_rank == 1)
            ut_submit(&comm);
        CHECK_OK(ut_await_mrq(end.vcq, &notice));
        ut_barrier();
        if (ut_rank == 1) {
            ut_end_close(&end);
            ut_end_open(&end, 0, 0, 4096);
        }
        ut_end_gather(&end, peers);
        comm.rmt_stadd = peers[!ut_rank].stadd;
        if (ut_rank == 0)
            ut_submit(&comm);
        CHECK_OK(ut_await_mrq(end.vcq, &notice));
        ut_barrier();
    }
    ut_close_all(&end);
}

/* The answer to an ARMW is the last message of its target, and the origin is not polled any more:
 * the target's VCQ can still be freed, without a long wait. */
static void freed_behind_an_answer(void *arg)
{
    struct utofu_mrq_notice notice;
    struct ut_end end;
    struct ut_peer peers[2];

    (void)arg;
    ut_open_all(&end, 4096, peers);
    if (ut_rank == 0)
        CHECK_OK(utofu_armw8(end.vcq, peers[1].id, UTOFU_ARMW_OP_ADD, 1, peers[1].stadd, 1,
                             UT_LCL | UT_RMT, NULL));
    CHECK_OK(ut_await_mrq(end.vcq, &notice));
    if (ut_rank == 1)
        ut_end_close(&end);
    ut_barrier();
    if (ut_rank == 0)
        ut_end_close(&end);
}

Test(vcq, freed_behind_an_answer_that_is_not_polled_for_again)
{
    ut_run(&(struct ut_run_opts){.n = 2}, freed_behind_an_answer, NULL);
    ut_run(
        &(struct ut_run_opts){.n = 2, .env = {"UTOFU_PROGRESS_THREAD=0", "UTOFU_PEER_TIMEOUT=600"}},
        freed_behind_an_answer, NULL);
}

Test(vcq, made_anew_is_reached_over_a_connection_that_the_old_one_asked_for)
{
    ut_run(&(struct ut_run_opts){.n = 2}, made_anew_after_asking, NULL);
    ut_run(&(struct ut_run_opts){.n = 2, .env = {"UTOFU_PROGRESS_THREAD=0"}},
           made_anew_after_asking, NULL);
}

Test(vcq, made_anew_is_reached_over_the_connection_of_the_old_one)
{
    for (int nodes = 1; nodes <= 2; nodes++) {
        ut_run(&(struct ut_run_opts){.n = 2, .nodes = nodes}, made_anew, NULL);
        ut_run(&(struct ut_run_opts){.n = 2, .nodes = nodes, .env = {"UTOFU_PROGRESS_THREAD=0"}},
               made_anew, NULL);
    }
}
