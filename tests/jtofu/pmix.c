/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of PMIx that asks for the map of the job, and exchanges a value with the first process
 * of its node, as MPI libraries for Fugaku do. It is a program, or with PLUG_IN a component that a
 * program loads and that brings PMIx and libtofutop along.
 *
 * usage: pmix LAYOUT: the layout as in check.h
 */
#include "check.h"

#include <pmix.h>
#include <pmix_fjext.h>
#include <unistd.h>

enum { JOB = 12 };

static pmix_proc_t self, all;

static uint32_t get_number(const char *key)
{
    pmix_value_t *value = NULL;
    uint32_t number;

    CHECK(PMIx_Get(&all, key, NULL, 0, &value) == PMIX_SUCCESS);
    CHECK(value->type == PMIX_UINT32);
    number = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    return number;
}

static void take_map(void)
{
    const uint32_t in_a_row[3] = {num_nodes, 1, 1};
    pmix_value_t *value = NULL, *again = NULL;

    CHECK(PMIx_Get(&all, FJPMIX_RANKMAP, NULL, 0, &value) == PMIX_SUCCESS);
    CHECK(value->type == PMIX_BYTE_OBJECT);
    CHECK(PMIx_Get(&all, FJPMIX_RANKMAP, NULL, 0, &again) == PMIX_SUCCESS);
    CHECK(value->data.bo.size == again->data.bo.size &&
          value->data.bo.bytes != again->data.bo.bytes);
    CHECK(memcmp(value->data.bo.bytes, again->data.bo.bytes, value->data.bo.size) == 0);
    /* the way that does not know of byte objects */
    CHECK(jtofu_initialize(JOB, me, value->data.ptr) == JTOFU_SUCCESS);
    PMIX_VALUE_RELEASE(value);
    PMIX_VALUE_RELEASE(again);
    check_map(JOB, in_a_row);
}

static void put_name(void)
{
    char name[32];
    pmix_value_t value = {.type = PMIX_STRING};

    snprintf(name, sizeof(name), "name of rank %u", me);
    value.data.string = name;
    CHECK(PMIx_Put(PMIX_LOCAL, "test.name", &value) == PMIX_SUCCESS);
    CHECK(PMIx_Commit() == PMIX_SUCCESS);
}

/* The leader may not have put it yet. */
static void get_name_of_leader(void)
{
    union jtofu_phys_coords at;
    pmix_proc_t leader = self;
    pmix_value_t *value = NULL;
    jtofu_rank_t first;
    size_t num;
    char name[32];
    int tries = 0, rc;

    CHECK(jtofu_query_phys_coords(JOB, me, &at) == JTOFU_SUCCESS);
    CHECK(jtofu_query_ranks_from_phys_coords(JOB, &at, 1, &first, &num) == JTOFU_SUCCESS);
    leader.rank = first;
    while ((rc = PMIx_Get(&leader, "test.name", NULL, 0, &value)) == PMIX_ERR_NOT_FOUND) {
        CHECK(++tries < 60000);
        usleep(1000);
    }
    CHECK(rc == PMIX_SUCCESS && value->type == PMIX_STRING);
    snprintf(name, sizeof(name), "name of rank %u", first);
    CHECK(strcmp(value->data.string, name) == 0);
    PMIX_VALUE_RELEASE(value);
}

static int take_part(int argc, char **argv)
{
    CHECK(argc == 2);
    read_layout(argv[1]);
    CHECK(PMIx_Init(&self, NULL, 0) == PMIX_SUCCESS);
    me = self.rank;
    all = self;
    all.rank = PMIX_RANK_WILDCARD;
    CHECK(PMIx_Initialized());
    CHECK(get_number(PMIX_JOB_SIZE) == num_ranks);
    take_map();
    put_name();
    get_name_of_leader();
    CHECK(PMIx_Fence(NULL, 0, NULL, 0) == PMIX_SUCCESS);
    CHECK(PMIx_Finalize(NULL, 0) == PMIX_SUCCESS);
    return 0;
}

#ifdef PLUG_IN
__attribute__((visibility("default"))) int component(int argc, char **argv);

int component(int argc, char **argv)
{
    return take_part(argc, argv);
}
#else
int main(int argc, char **argv)
{
    return take_part(argc, argv);
}
#endif
