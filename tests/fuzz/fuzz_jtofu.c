/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer target: a map of a job from a program, and what another process has put for PMIx. Both
 * are refused, or consistent, also where the check sums are right.
 */
#include <stdlib.h>

#include "fuzz.h"

#include "../../layers/jtofu/map.c"
#include "../../layers/jtofu/store.c"

static void must(bool good)
{
    if (!good)
        __builtin_trap();
}

static void check_map(const struct jt_map *map)
{
    const struct jt_layout *layout = &map->layout;
    uint32_t total = 0;

    for (uint32_t n = 0; n < layout->nodes; n++) {
        must(jt_map_node_at(map, layout->phys[n]) == n);
        for (uint32_t i = map->first[n]; i < map->first[n + 1]; i++) {
            must(layout->node_of[map->ranks[i]] == n);
            must(i == map->first[n] || map->ranks[i - 1] < map->ranks[i]);
        }
        must(map->first[n + 1] - map->first[n] <= map->max_ppn);
        total += map->first[n + 1] - map->first[n];
    }
    must(total == layout->procs);
    must((uint64_t)layout->log[0] * layout->log[1] * layout->log[2] == layout->nodes);
}

/* With check sums that are right, as far as the bytes are there. */
static void mend_sums(uint8_t *bytes, size_t size)
{
    struct head head;

    memcpy(&head, bytes, sizeof(head));
    head.magic = MAGIC;
    head.version = VERSION;
    if ((size_t)head.words * WORD >= sizeof(head) && (size_t)head.words * WORD <= size)
        head.body_sum = sum_words(bytes + sizeof(head), (size_t)head.words * WORD - sizeof(head));
    head.head_sum = sum_head(&head);
    memcpy(bytes, &head, sizeof(head));
}

static void read_map(struct fuzz_input *in, bool mended)
{
    size_t size = in->left > sizeof(struct head) ? in->left : sizeof(struct head);
    uint8_t *bytes = malloc(size);
    struct jt_map *map;
    const char *why;

    must(bytes != NULL);
    fuzz_bytes(in, bytes, size);
    if (mended)
        mend_sums(bytes, size);
    if (jt_map_read(bytes, &map, &why) == JTOFU_SUCCESS) {
        must(why == NULL);
        check_map(map);
        jt_map_free(map);
    } else {
        must(why != NULL);
    }
    free(bytes);
}

static void get_key(const struct jt_store *store, const char *key)
{
    pmix_value_t *value = NULL;

    if (jt_store_get(store, key, JT_ALL_SCOPES, &value) != PMIX_SUCCESS) {
        must(value == NULL);
        return;
    }
    must(value->type != PMIX_STRING || strlen(value->data.string) < JT_STORE_ROOM);
    must(value->type != PMIX_BYTE_OBJECT || value->data.bo.size < JT_STORE_ROOM);
    jt_store_free(value);
}

static void read_store(struct fuzz_input *in)
{
    static struct jt_store store;
    pmix_value_t value = {.type = PMIX_UINT32};

    memset(&store, 0, sizeof(store));
    fuzz_bytes(in, &store.bytes, sizeof(store) - offsetof(struct jt_store, bytes));
    if (store.bytes <= JT_STORE_ROOM)
        store.sum = sum_store(&store);
    if (!jt_store_is_consistent(&store))
        return;
    get_key(&store, "a");
    get_key(&store, "fuzz");
    if (jt_store_put(&store, PMIX_LOCAL, "a", &value) == PMIX_SUCCESS)
        must(store.bytes <= JT_STORE_ROOM);
    get_key(&store, "a");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    uint8_t what = fuzz_byte(&in) % 3;

    if (what == 2)
        read_store(&in);
    else
        read_map(&in, what == 1);
    return 0;
}
