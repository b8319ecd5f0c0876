/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a stack does that calculates the ids of its peers: the map from PMIx, local rank and number
 * of processes per node from the map, TNI and CQ from Fugaku's table of these, the VCQ id from
 * coordinates, TNI and CQ; then a put to each other process, whose id was never sent.
 * UTOFU_CQ_MAP=fugaku.
 *
 * usage: calculated LAYOUT: as in check.h, with 4 processes on a node at most
 */
#include "check.h"

#include <pmix.h>
#include <pmix_fjext.h>
#include <sched.h>

enum { JOB = 250, COMPONENT = 7, STAG = 9 };

static void take_map(pmix_proc_t *self)
{
    pmix_proc_t all;
    pmix_value_t *value = NULL;

    CHECK(PMIx_Init(self, NULL, 0) == PMIX_SUCCESS);
    me = self->rank;
    all = *self;
    all.rank = PMIX_RANK_WILDCARD;
    CHECK(PMIx_Get(&all, FJPMIX_RANKMAP, NULL, 0, &value) == PMIX_SUCCESS);
    CHECK(jtofu_initialize(JOB, me, value->data.ptr) == JTOFU_SUCCESS);
    PMIX_VALUE_RELEASE(value);
}

static uint32_t find_local_rank(uint32_t rank, union jtofu_phys_coords *at)
{
    jtofu_rank_t ranks[48];
    size_t num;

    CHECK(jtofu_query_phys_coords(JOB, rank, at) == JTOFU_SUCCESS);
    CHECK(jtofu_query_ranks_from_phys_coords(JOB, at, most, ranks, &num) == JTOFU_SUCCESS);
    for (uint32_t i = 0; i < num; i++)
        if (ranks[i] == rank)
            return i;
    CHECK(!"the rank is on its own node");
    return 0;
}

/* The TNI and the CQ of the n-th process of a node. */
static void choose_cq(uint32_t n, utofu_tni_id_t *tni, utofu_cq_id_t *cq)
{
    static const utofu_cq_id_t of_four[] = {0, 2, 5, 8};

    *tni = (utofu_tni_id_t)n;
    *cq = (utofu_cq_id_t)(most == 4 ? of_four[n] : most == 3 ? 4 * n : most == 2 ? 6 * n : 0);
}

static utofu_vcq_id_t calculate_id(uint32_t rank)
{
    union jtofu_phys_coords at;
    union jtofu_path_coords path;
    utofu_vcq_id_t id;
    utofu_tni_id_t tni;
    utofu_cq_id_t cq;
    size_t num;

    choose_cq(find_local_rank(rank, &at), &tni, &cq);
    CHECK(utofu_construct_vcq_id(at.a, tni, cq, COMPONENT, &id) == UTOFU_SUCCESS);
    CHECK(jtofu_query_onesided_paths(&at, 1, &path, &num) == JTOFU_SUCCESS && num == 1);
    CHECK(utofu_set_vcq_id_path(&id, path.a) == UTOFU_SUCCESS);
    CHECK(utofu_set_vcq_id_path(&id, NULL) == UTOFU_SUCCESS);
    return id;
}

static utofu_vcq_hdl_t open_vcq(void)
{
    union jtofu_phys_coords at;
    utofu_tni_id_t tni;
    utofu_cq_id_t cq;
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t id;

    choose_cq(find_local_rank(me, &at), &tni, &cq);
    CHECK(utofu_create_vcq_with_cmp_id(tni, COMPONENT, 0, &vcq) == UTOFU_SUCCESS);
    CHECK(utofu_query_vcq_id(vcq, &id) == UTOFU_SUCCESS);
    CHECK(utofu_set_vcq_id_path(&id, NULL) == UTOFU_SUCCESS && id == calculate_id(me));
    return vcq;
}

static void put_own_rank(utofu_vcq_hdl_t vcq, uint32_t to)
{
    utofu_vcq_id_t id = calculate_id(to);
    utofu_stadd_t there;
    struct utofu_mrq_notice notice;
    int rc;

    CHECK(utofu_query_stadd(id, STAG, &there) == UTOFU_SUCCESS);
    CHECK(utofu_put_piggyback8(vcq, id, me + 1, there + 8 * me, 8, 0,
                               UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL) == UTOFU_SUCCESS);
    while ((rc = utofu_poll_mrq(vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND)
        sched_yield();
    CHECK(rc == UTOFU_SUCCESS);
}

int main(int argc, char **argv)
{
    uint64_t *words = aligned_alloc(4096, 4096);
    utofu_vcq_hdl_t vcq;
    utofu_stadd_t stadd;
    pmix_proc_t self;

    CHECK(argc == 2 && words);
    read_layout(argv[1]);
    take_map(&self);
    CHECK(jtofu_query_max_proc_per_node() == (int)most);
    vcq = open_vcq();
    memset(words, 0, 4096);
    CHECK(utofu_reg_mem_with_stag(vcq, words, 4096, STAG, 0, &stadd) == UTOFU_SUCCESS);
    CHECK(PMIx_Fence(NULL, 0, NULL, 0) == PMIX_SUCCESS);
    for (uint32_t r = 0; r < num_ranks; r++)
        put_own_rank(vcq, r);
    CHECK(PMIx_Fence(NULL, 0, NULL, 0) == PMIX_SUCCESS);
    for (uint32_t r = 0; r < num_ranks; r++)
        CHECK(__atomic_load_n(&words[r], __ATOMIC_ACQUIRE) == r + 1);
    CHECK(utofu_dereg_mem(vcq, stadd, 0) == UTOFU_SUCCESS);
    CHECK(utofu_free_vcq(vcq) == UTOFU_SUCCESS);
    CHECK(jtofu_finalize() == JTOFU_SUCCESS && PMIx_Finalize(NULL, 0) == PMIX_SUCCESS);
    free(words);
    return 0;
}
