/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small tables of link and stag, without a job: ranges of STADDs, announced STADDs, receive
 * histories, the cache of a peer's STags, messages that are not acknowledged.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "link/announced.h"
#include "link/link.h"
#include "link/rx_history.h"
#include "link/stag_cache.h"
#include "link/unacked.h"
#include "stag/stag.h"

Test(links, range_of_stadds_ends_where_it_ends)
{
    struct ut_stadd_range range = {.first = 1000, .size = 16, .delta = 5000}, none = {0};
    uint64_t addr;

    for (uint64_t at = 990; at < 1030; at++) {
        for (uint64_t length = 0; length < 20; length++) {
            bool is = at >= 1000 && at < 1016 && at + length <= 1016;
            cr_assert_eq(ut_stadd_range_has(&range, at, length), is, "%llu %llu",
                         (unsigned long long)at, (unsigned long long)length);
            cr_assert_eq(ut_stadd_range_find(&range, at, length, &addr), is);
            cr_assert_eq(addr, at + 5000);
            cr_assert(!ut_stadd_range_has(&none, at, length));
        }
    }
    cr_assert(!ut_stadd_range_has(&range, 1000, 1ull << 62));
}

/*
 * Announced STADDs: the sender's table, and the receiver's, in which it writes
 */

static struct ut_announced tx, rx;

static unsigned int announce(utofu_stadd_t stadd)
{
    unsigned int slot = ut_announced_reserve_slot(&tx, stadd);

    tx.stadds[slot] = stadd;
    cr_assert(ut_announced_store(&rx, slot, stadd));
    return slot;
}

/* What the sender believes to be announced, the receiver has. */
static unsigned int count_announced(void)
{
    unsigned int n = 0;

    for (uint32_t i = 0; tx.mask && i <= tx.mask; i++) {
        if (tx.stadds[i] == UT_NOT_ANNOUNCED)
            continue;
        n++;
        cr_assert(i <= rx.mask);
        cr_assert_eq(rx.stadds[i], tx.stadds[i], "slot %u", i);
        cr_assert_eq(ut_announced_slot(&tx, tx.stadds[i]), i);
    }
    return n;
}

Test(links, announced_stadds_are_those_of_the_receiver)
{
    ut_announced_clear(&tx);
    ut_announced_clear(&rx);
    cr_assert_eq(count_announced(), 0);
    srand(1);
    for (int i = 0; i < 5000; i++) {
        utofu_stadd_t stadd =
            ut_stadd_make((uint32_t)(rand() % 300), 1, 64 * (uint64_t)(rand() % 9));
        unsigned int slot = announce(stadd);
        cr_assert(slot <= tx.mask && slot < UT_NUM_ANNOUNCED);
        cr_assert_eq(announce(stadd), slot, "a second time at the same place");
        if (i % 500 == 0)
            count_announced();
    }
    cr_assert_eq(tx.mask + 1, UT_NUM_ANNOUNCED, "as large as it may be");
    cr_assert_eq(tx.slots, tx.mask + 1);
    cr_assert_gt(count_announced(), UT_NUM_ANNOUNCED / 2);
    ut_announced_invalidate(&tx);
    cr_assert_eq(count_announced(), 0);
    cr_assert_eq(tx.mask + 1, UT_NUM_ANNOUNCED);
    ut_announced_clear(&tx);
    ut_announced_clear(&rx);
}

/* Two STADDs that meet in a slot make the table larger; what keeps its slot stays announced. */
Test(links, announced_stadds_stay_when_the_table_grows)
{
    utofu_stadd_t first[UT_ANNOUNCED_INITIAL_SLOTS];
    unsigned int count = 0;

    ut_announced_clear(&tx);
    ut_announced_clear(&rx);
    cr_assert(ut_announced_alloc(&rx));
    cr_assert_eq(rx.mask + 1, UT_ANNOUNCED_INITIAL_SLOTS);
    uint32_t stag = 0;
    for (; tx.mask < UT_ANNOUNCED_INITIAL_SLOTS; stag++) {
        cr_assert(count < UT_ANNOUNCED_INITIAL_SLOTS || tx.mask >= UT_ANNOUNCED_INITIAL_SLOTS);
        utofu_stadd_t stadd = ut_stadd_make(stag, 0, 0);
        announce(stadd);
        if (tx.mask < UT_ANNOUNCED_INITIAL_SLOTS)
            first[count++] = stadd;
    }
    cr_assert_eq(tx.mask + 1, 2 * UT_ANNOUNCED_INITIAL_SLOTS);
    unsigned int kept = 0;
    for (unsigned int i = 0; i < count; i++) {
        unsigned int slot = ut_announced_slot(&tx, first[i]);
        bool same = slot < UT_ANNOUNCED_INITIAL_SLOTS;
        cr_assert_eq(tx.stadds[slot] == first[i], same, "STADD %u", i);
        kept += same;
    }
    cr_assert_eq(count_announced(), kept + 1);
    /* the receiver grows as far as the slot needs */
    cr_assert(ut_announced_store(&rx, 4 * UT_ANNOUNCED_INITIAL_SLOTS, 77));
    cr_assert_eq(rx.mask + 1, 8 * UT_ANNOUNCED_INITIAL_SLOTS);
    count_announced();
    ut_announced_clear(&tx);
    ut_announced_clear(&rx);
}

/*
 * Receive histories
 */

Test(links, receive_history_is_that_of_a_pair)
{
    enum { KEYS = 60 };

    for (uint64_t key = 0; key < KEYS; key++) {
        for (uint64_t peer = 0; peer < KEYS; peer++)
            ut_rx_history_save(key, peer,
                               (struct ut_rx_history){.count = key * peer, .incarnation = key + 1});
    }
    for (uint64_t key = 0; key < KEYS; key++) {
        for (uint64_t peer = 0; peer < KEYS; peer++) {
            struct ut_rx_history h = ut_rx_history_find(key, peer);
            bool none = key * peer == 0; /* nothing was received */
            cr_assert(h.count == key * peer && h.incarnation == (none ? 0 : key + 1));
        }
    }
    ut_rx_history_save(5, 6, (struct ut_rx_history){.count = 0, .incarnation = 9});
    struct ut_rx_history h = ut_rx_history_find(5, 6);
    cr_assert(h.count == 0 && h.incarnation == 9, "a later one replaces it");
    cr_assert_eq(ut_rx_history_find(KEYS, 0).count, 0);
}

/*
 * The cache of a peer's STags
 */

Test(links, cache_of_stags_keeps_each_entry)
{
    static const uint32_t indices[] = {0,
                                       1,
                                       UT_CACHED_BLOCK_STAGS - 1,
                                       UT_CACHED_BLOCK_STAGS,
                                       UT_STAG_CHUNK - 1,
                                       UT_STAG_CHUNK,
                                       5 * UT_STAG_CHUNK + 3,
                                       2 * UT_STAG_CHUNK};
    enum { COUNT = sizeof(indices) / sizeof(indices[0]) };
    struct ut_stag_cache cache = {.chunks = NULL};

    for (int i = 0; i < COUNT; i++)
        cr_assert_null(ut_stag_cache_find(&cache, indices[i]));
    for (int i = 0; i < COUNT; i++) {
        struct ut_cached_stag *s = ut_stag_cache_find_or_add(&cache, indices[i]);
        cr_assert(s && s->base == 0);
        s->base = indices[i] + 1;
        s->size = 1;
        s->rkey = indices[i] + 2;
    }
    for (int i = 0; i < COUNT; i++) {
        cr_assert_eq(ut_stag_cache_find_or_add(&cache, indices[i])->base, indices[i] + 1);
        cr_assert_eq(ut_stag_cache_find_or_add(&cache, indices[i])->rkey, indices[i] + 2);
    }
    ut_stag_cache_invalidate_chunk(&cache, UT_STAG_CHUNK + 7);
    ut_stag_cache_invalidate_chunk(&cache, 900 * UT_STAG_CHUNK); /* not there */
    for (int i = 0; i < COUNT; i++) {
        struct ut_cached_stag *s = ut_stag_cache_find_or_add(&cache, indices[i]);
        cr_assert_eq(s->base, indices[i] == UT_STAG_CHUNK ? 0 : indices[i] + 1, "%u", indices[i]);
    }
    ut_stag_cache_free(&cache);
    cr_assert(!cache.chunks && cache.num_chunks == 0);
}

/*
 * Messages that are not acknowledged
 */

static void add_message(struct ut_link *link, uint64_t number)
{
    struct ut_link_msg *m = calloc(1, sizeof(*m));

    m->number = number;
    *link->unacked_last = m;
    link->unacked_last = &m->next;
}

Test(links, messages_are_sent_again_unless_acknowledged)
{
    static struct ut_link link;
    const uint64_t left[] = {5, 3, 2, 2, 0};
    const uint64_t counts[] = {0, 2, 3, 2, 9};

    for (int k = 0; k < 5; k++) {
        link.unacked_last = &link.unacked_first;
        for (uint64_t i = 1; i <= 5; i++)
            add_message(&link, i);
        if (k == 3) /* those that were not posted have no number */
            link.unacked_first->next->next->number = 0;
        uint64_t n = 0;
        ut_link_ack_and_requeue(&link, counts[k]);
        cr_assert_eq(link.msg_to_post, link.unacked_first);
        for (struct ut_link_msg *m = link.unacked_first; m; m = m->next, n++)
            cr_assert_eq(m->number, 0, "it gets another number");
        cr_assert_eq(n, k == 3 ? 3 : left[k], "case %d: %llu", k, (unsigned long long)n);
        ut_link_free_unacked(&link);
        cr_assert(!link.unacked_first && !link.msg_to_post &&
                  link.unacked_last == &link.unacked_first);
    }
    ut_link_free_spare_buffers(&link);
    cr_assert(!link.msg_spare && link.num_spare == 0);
}
