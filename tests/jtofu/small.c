/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PMIx in a job without a PMIx server: what it has, what it refuses, and what other processes see
 * of what one puts.
 *
 * usage: small LAYOUT: as in check.h; two nodes, the first of them with two processes at least
 */
#include "check.h"

#include <pmix.h>
#include <pmix_fjext.h>

static pmix_proc_t self, all, first;
static pmix_status_t answered;
static int calls;

static pmix_value_t of_uint32(uint32_t number)
{
    return (pmix_value_t){.type = PMIX_UINT32, .data.uint32 = number};
}

static pmix_status_t put_number(pmix_scope_t scope, const char *key, uint32_t number)
{
    pmix_value_t value = of_uint32(number);

    return PMIx_Put(scope, key, &value);
}

/* A code, or the number that the process has put. */
static int64_t get_number(const pmix_proc_t *proc, const char *key)
{
    pmix_value_t *value = NULL;
    int64_t number = PMIx_Get(proc, key, NULL, 0, &value);

    if (number == PMIX_SUCCESS) {
        CHECK(value->type == PMIX_UINT32 || value->type == PMIX_UINT16);
        number = value->type == PMIX_UINT32 ? value->data.uint32 : value->data.uint16;
        PMIX_VALUE_RELEASE(value);
    }
    return number;
}

static void use_it_too_early(void)
{
    CHECK(!PMIx_Initialized());
    CHECK(get_number(NULL, PMIX_JOB_SIZE) == PMIX_ERR_INIT);
    CHECK(get_number(NULL, FJPMIX_RANKMAP) == PMIX_ERR_INIT);
    CHECK(put_number(PMIX_LOCAL, "key", 1) == PMIX_ERR_INIT);
    CHECK(PMIx_Commit() == PMIX_ERR_INIT);
    CHECK(PMIx_Fence(NULL, 0, NULL, 0) == PMIX_ERR_INIT);
    CHECK(PMIx_Finalize(NULL, 0) == PMIX_ERR_INIT);
}

static void count_ranks(const pmix_proc_t *proc, pmix_status_t *status, int *num)
{
    pmix_value_t *value = NULL;

    *num = 0;
    *status = PMIx_Get(proc, PMIX_LOCAL_PEERS, NULL, 0, &value);
    for (const char *c = *status == PMIX_SUCCESS ? value->data.string : NULL; c;
         c = strchr(c, ',') ? strchr(c, ',') + 1 : NULL)
        ++*num;
    if (*status == PMIX_SUCCESS)
        PMIX_VALUE_RELEASE(value);
}

static void ask_for_places(void)
{
    pmix_status_t status;
    uint32_t before = 0;
    int num;

    for (uint32_t r = 0; r < me; r++)
        before += node_of[r] == node_of[me];
    CHECK(get_number(&all, PMIX_JOB_SIZE) == num_ranks);
    CHECK(get_number(NULL, PMIX_UNIV_SIZE) == num_ranks);
    CHECK(get_number(&all, PMIX_NUM_NODES) == num_nodes);
    CHECK(get_number(&all, PMIX_LOCAL_SIZE) == num_on[node_of[me]]);
    CHECK(get_number(&self, PMIX_NODEID) == node_of[me]);
    CHECK(get_number(&self, PMIX_LOCAL_RANK) == before);
    CHECK(get_number(&all, PMIX_LOCAL_RANK) == PMIX_ERR_NOT_FOUND);
    count_ranks(&all, &status, &num);
    CHECK(status == PMIX_SUCCESS && (uint32_t)num == num_on[node_of[me]]);
}

static void refuse_what_is_wrong(void)
{
    pmix_value_t array = {.type = PMIX_DATA_ARRAY}, none = {.type = PMIX_STRING}, large;
    pmix_proc_t beyond = self, foreign = self, pair[2] = {self, self};
    char *bytes = calloc(1, 5000);
    pmix_info_t in_place;

    CHECK(bytes);
    large = (pmix_value_t){.type = PMIX_BYTE_OBJECT, .data.bo = {bytes, 5000}};
    beyond.rank = num_ranks;
    foreign.nspace[0] = 'x';
    memset(&in_place, 0, sizeof(in_place));
    strcpy(in_place.key, PMIX_GET_STATIC_VALUES);
    CHECK(PMIx_Put(PMIX_LOCAL, NULL, &large) == PMIX_ERR_BAD_PARAM);
    CHECK(PMIx_Put(PMIX_LOCAL, "key", NULL) == PMIX_ERR_BAD_PARAM);
    CHECK(put_number(PMIX_SCOPE_UNDEF, "key", 1) == PMIX_ERR_BAD_PARAM);
    CHECK(put_number(9, "key", 1) == PMIX_ERR_BAD_PARAM);
    CHECK(PMIx_Put(PMIX_LOCAL, "key", &array) == PMIX_ERR_NOT_SUPPORTED);
    CHECK(PMIx_Put(PMIX_LOCAL, "key", &none) == PMIX_ERR_NOT_SUPPORTED);
    CHECK(PMIx_Put(PMIX_LOCAL, "key", &large) == PMIX_ERR_OUT_OF_RESOURCE);
    CHECK(get_number(&self, "key") == PMIX_ERR_NOT_FOUND);
    CHECK(get_number(&beyond, "key") == PMIX_ERR_NOT_FOUND);
    CHECK(get_number(&foreign, PMIX_JOB_SIZE) == PMIX_ERR_NOT_FOUND);
    CHECK(get_number(&self, NULL) == PMIX_ERR_BAD_PARAM);
    CHECK(PMIx_Get(&self, "key", NULL, 0, NULL) == PMIX_ERR_BAD_PARAM);
    CHECK(PMIx_Get(&all, FJPMIX_RANKMAP, NULL, 0, NULL) == PMIX_ERR_BAD_PARAM);
    pmix_value_t *value = NULL;
    CHECK(PMIx_Get(&all, FJPMIX_RANKMAP, &in_place, 1, &value) == PMIX_ERR_NOT_SUPPORTED);
    CHECK(PMIx_Fence(&self, 1, NULL, 0) == PMIX_ERR_NOT_SUPPORTED);
    CHECK(PMIx_Fence(pair, 2, NULL, 0) == PMIX_ERR_NOT_SUPPORTED);
    CHECK(PMIx_Fence_nb(NULL, 0, NULL, 0, NULL, NULL) == PMIX_ERR_BAD_PARAM);
    CHECK(PMIx_Get_nb(&self, "key", NULL, 0, NULL, NULL) == PMIX_ERR_BAD_PARAM);
    free(bytes);
}

/* All processes, one by one. */
static void fence_by_names(void)
{
    pmix_proc_t procs[MOST_RANKS];

    for (uint32_t r = 0; r < num_ranks; r++) {
        procs[r] = self;
        procs[r].rank = r;
    }
    CHECK(PMIx_Fence(procs, num_ranks, NULL, 0) == PMIX_SUCCESS);
}

/* What others see changes with a commit, and only then. */
static void put_again_and_again(void)
{
    uint32_t peer = (me + 1) % num_ranks;
    pmix_proc_t next = self;

    next.rank = peer;
    for (uint32_t round = 1; round <= 20; round++) {
        CHECK(put_number(PMIX_GLOBAL, "round", round) == PMIX_SUCCESS);
        CHECK(get_number(&self, "round") == round);
        CHECK(get_number(&next, "round") == (round == 1 ? PMIX_ERR_NOT_FOUND : (int64_t)round - 1));
        fence_by_names();
        CHECK(PMIx_Commit() == PMIX_SUCCESS);
        CHECK(PMIx_Fence(&all, 1, NULL, 0) == PMIX_SUCCESS);
        CHECK(get_number(&next, "round") == round);
        CHECK(PMIx_Fence(NULL, 0, NULL, 0) == PMIX_SUCCESS);
    }
}

static void put_for_some(void)
{
    bool same_node = node_of[me] == node_of[0];

    if (me == 0) {
        CHECK(put_number(PMIX_LOCAL, "here", 1) == PMIX_SUCCESS);
        CHECK(put_number(PMIX_REMOTE, "there", 2) == PMIX_SUCCESS);
        CHECK(put_number(PMIX_INTERNAL, "nowhere", 3) == PMIX_SUCCESS);
        CHECK(PMIx_Commit() == PMIX_SUCCESS);
    }
    CHECK(PMIx_Fence(NULL, 0, NULL, 0) == PMIX_SUCCESS);
    CHECK(get_number(&first, "here") == (same_node ? 1 : PMIX_ERR_NOT_FOUND));
    CHECK(get_number(&first, "there") == (me == 0 || !same_node ? 2 : PMIX_ERR_NOT_FOUND));
    CHECK(get_number(&first, "nowhere") == (me == 0 ? 3 : PMIX_ERR_NOT_FOUND));
}

static void put_each_type(void)
{
    pmix_value_t values[] = {
        {.type = PMIX_BOOL, .data.flag = true},      {.type = PMIX_SIZE, .data.size = 1ull << 40},
        {.type = PMIX_INT, .data.integer = -7},      {.type = PMIX_INT64, .data.int64 = INT64_MIN},
        {.type = PMIX_UINT16, .data.uint16 = 65535}, {.type = PMIX_DOUBLE, .data.dval = 0.1},
        {.type = PMIX_PROC_RANK, .data.rank = 5},
    };
    char bytes[] = {'a', 0, 'b'}, text[] = "";
    pmix_value_t object = {.type = PMIX_BYTE_OBJECT, .data.bo = {bytes, sizeof(bytes)}};
    pmix_value_t string = {.type = PMIX_STRING, .data.string = text}, *value;
    const size_t num = sizeof(values) / sizeof(values[0]);
    char key[16];

    for (size_t i = 0; me == 0 && i < num; i++) {
        snprintf(key, sizeof(key), "type %zu", i);
        CHECK(PMIx_Put(PMIX_GLOBAL, key, &values[i]) == PMIX_SUCCESS);
    }
    CHECK(PMIx_Put(PMIX_GLOBAL, "bytes", &object) == PMIX_SUCCESS);
    CHECK(PMIx_Put(PMIX_GLOBAL, "text", &string) == PMIX_SUCCESS);
    CHECK(PMIx_Commit() == PMIX_SUCCESS && PMIx_Fence(NULL, 0, NULL, 0) == PMIX_SUCCESS);
    for (size_t i = 0; i < num; i++) {
        snprintf(key, sizeof(key), "type %zu", i);
        CHECK(PMIx_Get(&first, key, NULL, 0, &value) == PMIX_SUCCESS);
        CHECK(value->type == values[i].type);
        CHECK(memcmp(&value->data, &values[i].data, sizeof(uint16_t)) == 0);
        PMIX_VALUE_RELEASE(value);
    }
    CHECK(PMIx_Get(&first, "bytes", NULL, 0, &value) == PMIX_SUCCESS);
    CHECK(value->data.bo.size == 3 && memcmp(value->data.bo.bytes, bytes, 3) == 0);
    PMIX_VALUE_RELEASE(value);
    CHECK(PMIx_Get(&first, "text", NULL, 0, &value) == PMIX_SUCCESS);
    CHECK(value->type == PMIX_STRING && *value->data.string == '\0');
    PMIX_VALUE_RELEASE(value);
}

static void take_value(pmix_status_t status, pmix_value_t *value, void *arg)
{
    CHECK(arg == &calls && (status != PMIX_SUCCESS || value));
    answered = status;
    calls++;
}

static void take_end(pmix_status_t status, void *arg)
{
    take_value(status, (pmix_value_t *)arg, arg);
}

static void ask_with_callbacks(void)
{
    CHECK(PMIx_Get_nb(&all, FJPMIX_RANKMAP, NULL, 0, take_value, &calls) == PMIX_SUCCESS);
    CHECK(calls == 1 && answered == PMIX_SUCCESS);
    CHECK(PMIx_Get_nb(&first, "text", NULL, 0, take_value, &calls) == PMIX_SUCCESS);
    CHECK(calls == 2 && answered == PMIX_SUCCESS);
    CHECK(PMIx_Get_nb(&first, "none", NULL, 0, take_value, &calls) == PMIX_SUCCESS);
    CHECK(calls == 3 && answered == PMIX_ERR_NOT_FOUND);
    CHECK(PMIx_Fence_nb(NULL, 0, NULL, 0, take_end, &calls) == PMIX_SUCCESS);
    CHECK(calls == 4 && answered == PMIX_SUCCESS);
}

int main(int argc, char **argv)
{
    pmix_proc_t again;

    CHECK(argc == 2);
    read_layout(argv[1]);
    use_it_too_early();
    CHECK(PMIx_Init(&self, NULL, 0) == PMIX_SUCCESS);
    me = self.rank;
    CHECK(PMIx_Init(&again, NULL, 0) == PMIX_SUCCESS && memcmp(&self, &again, sizeof(self)) == 0);
    CHECK(PMIx_Finalize(NULL, 0) == PMIX_SUCCESS && PMIx_Initialized());
    all = first = self;
    all.rank = PMIX_RANK_WILDCARD;
    first.rank = 0;
    ask_for_places();
    refuse_what_is_wrong();
    put_again_and_again();
    put_for_some();
    put_each_type();
    ask_with_callbacks();
    CHECK(PMIx_Finalize(NULL, 0) == PMIX_SUCCESS);
    use_it_too_early();
    return 0;
}
