/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs provider's heap of timed operations, compared with a table. */
#include <criterion/criterion.h>
#include <string.h>

#include "../../provider/verbs/heap.h"

enum { NODES = 64, STEPS = 200000, TIMES = 40 };

static struct vp_heap heap;
static struct vp_heap_node nodes[NODES];
static uint64_t at[NODES]; /* 0: it is not there */
static uint64_t seed = 88172645463325252;

static uint32_t below(uint32_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 20) % n;
}

static uint64_t earliest(void)
{
    uint64_t first = 0;

    for (int i = 0; i < NODES; i++)
        if (at[i] && (!first || at[i] < first))
            first = at[i];
    return first;
}

/* Is the link to each node right, and no node later than its children? */
static unsigned int check(struct vp_heap_node *const *link, uint64_t least)
{
    unsigned int count = 0;

    for (; *link; link = &(*link)->next) {
        struct vp_heap_node *node = *link;
        cr_assert_eq(node->link, link);
        cr_assert_geq(node->at, least);
        cr_assert_eq(at[node - nodes], node->at);
        count += 1 + check(&node->child, node->at);
    }
    return count;
}

static void check_all(void)
{
    unsigned int there = 0;

    for (int i = 0; i < NODES; i++) {
        there += at[i] != 0;
        cr_assert_eq(vp_heap_has(&nodes[i]), at[i] != 0);
    }
    cr_assert_eq(check(&heap.first, 0), there);
    cr_assert_eq(vp_heap_next(&heap), earliest());
}

Test(heap, whatever_is_done_the_earliest_is_first)
{
    for (int step = 0; step < STEPS; step++) {
        uint32_t i = below(NODES);
        if (below(3) == 0) {
            vp_heap_remove(&nodes[i]);
            at[i] = 0;
        } else {
            at[i] = 1 + below(TIMES); /* many at the same time */
            vp_heap_add(&heap, &nodes[i], at[i]);
        }
        if (step % 16 == 0 || step < 1000)
            check_all();
    }
}

Test(heap, they_come_in_order_and_not_before_their_time)
{
    uint64_t last = 0;
    struct vp_heap_node *due;

    for (int i = 0; i < NODES; i++) {
        at[i] = 10 + below(1000);
        vp_heap_add(&heap, &nodes[i], at[i]);
    }
    cr_assert_null(vp_heap_due(&heap, 9));
    cr_assert_null(vp_heap_due(&heap, earliest() - 1));
    for (int left = NODES; left > 0; left--) {
        uint64_t next = earliest();
        due = vp_heap_due(&heap, next);
        cr_assert_not_null(due);
        cr_assert(due->at == next && next >= last);
        last = next;
        vp_heap_remove(due);
        at[due - nodes] = 0;
        check_all();
    }
    cr_assert_null(vp_heap_due(&heap, UINT64_MAX));
}

Test(heap, an_empty_one_has_none)
{
    cr_assert_eq(vp_heap_next(&heap), 0);
    cr_assert_null(vp_heap_due(&heap, UINT64_MAX));
    vp_heap_remove(&nodes[0]); /* it is in none */
    cr_assert_not(vp_heap_has(&nodes[0]));
}
