/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads of a peer's STag table (link/stag_read.c): the test has the table, and answers each read at
 * once, later, or with an error. What is read once is not read again, and what the peer has changed
 * is.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "link/link.h"
#include "stag/region.h"

enum { SCRATCH = 3, TOQ = 8, DIR_RKEY = 900, CHUNK_RKEY = 1000, LKEY = 55, PROVIDER = 1 };
enum { BASE = 0x7000100, SIZE = 4096, GENERATION = 5 };

/*
 * The peer
 */

static struct ut_stag_dir_entry dir[UT_STAG_CHUNKS];
static struct ut_stag_entry chunks[3][UT_STAG_CHUNK];

static enum { AT_ONCE, LATER } answers;
static int answer_rc; /* an error in place of an answer */
static unsigned int dir_reads, entry_reads;
static struct prov_xfer outstanding;
static int torn; /* so many reads of entries are torn */

static void register_at(uint32_t index, uint64_t base, uint64_t size, uint32_t info, uint32_t rkey)
{
    uint32_t n = index / UT_STAG_CHUNK;
    struct ut_stag_entry *e = &chunks[n][index % UT_STAG_CHUNK];

    *e = (struct ut_stag_entry){.base = base, .size = size, .info = info, .rkey = rkey};
    e->check = ut_stag_entry_check(e);
    dir[n] = (struct ut_stag_dir_entry){.addr = (uintptr_t)chunks[n], .rkey = CHUNK_RKEY + n};
}

static void copy_answer(const struct prov_xfer *x)
{
    memcpy(x->lcl, (const void *)(uintptr_t)x->rmt, x->length);
    if (x->length == sizeof(struct ut_stag_entry) && torn > 0) {
        torn--;
        ((uint8_t *)x->lcl)[0]++;
    }
}

static int read_at_peer(struct prov_conn *conn, const struct prov_xfer *x)
{
    bool is_dir = x->rkey == DIR_RKEY;

    cr_assert(conn && x->lkey == LKEY && x->flags == PROV_SIGNAL &&
              (x->cookie & 7) == UT_COOKIE_READ);
    cr_assert_eq(x->length,
                 is_dir ? sizeof(struct ut_stag_dir_entry) : sizeof(struct ut_stag_entry));
    if (!is_dir)
        cr_assert(x->rkey >= CHUNK_RKEY && x->rmt >= (uintptr_t)chunks[x->rkey - CHUNK_RKEY] &&
                  x->rmt < (uintptr_t)chunks[x->rkey - CHUNK_RKEY + 1]);
    *(is_dir ? &dir_reads : &entry_reads) += 1;
    if (answer_rc)
        return answer_rc;
    if (answers == LATER) {
        outstanding = *x;
        return 0;
    }
    copy_answer(x);
    return PROV_COMPLETE;
}

/*
 * This side
 */

static uint8_t scratch[SCRATCH * UT_SCRATCH_SIZE];
static uint32_t scratch_free[SCRATCH];
static struct prov_mr mr = {.lkey = LKEY};
static struct ut_region region;
static struct ut_slot toq[TOQ];
static struct ut_vcq vcq;
static struct ut_link *the_link;
static unsigned int posts;

static void post_waiting(struct ut_link *l)
{
    cr_assert(l == the_link && l->reading == UT_STAG_NONE);
    posts++;
}

static const struct ut_link_ops link_ops = {.post_waiting = post_waiting};
static const struct prov_ops ops = {.read = read_at_peer};

static void open_link(void)
{
    struct ut_vcq_ident peer = {.cmp = 1};

    region.mr[PROVIDER] = &mr;
    vcq = (struct ut_vcq){.toq = toq,
                          .toq_mask = TOQ - 1,
                          .link_ops = &link_ops,
                          .scratch = scratch,
                          .scratch_region = &region,
                          .scratch_free = scratch_free,
                          .num_scratch_free = SCRATCH,
                          .runs_scheduled = true};
    for (uint32_t i = 0; i < SCRATCH; i++)
        scratch_free[i] = i;
    the_link = ut_link_get(&vcq, ut_vcq_id_canonical(&peer));
    cr_assert(the_link);
    the_link->peer_component_id = 1;
    the_link->provider = PROVIDER;
    the_link->conn = (void *)&vcq;
    the_link->ops = &ops;
    the_link->state = UT_LINK_UP;
    the_link->dir_addr = (uintptr_t)dir;
    the_link->dir_rkey = DIR_RKEY;
}

TestSuite(reads, .init = open_link);

static const uint32_t good =
    UT_STAG_VALID | UT_STAG_WRITABLE | GENERATION << UT_STAG_GENERATION_SHIFT;

static utofu_stadd_t stadd_at(uint32_t index, uint32_t generation, uint64_t at)
{
    uint32_t stag = index < UT_STAG_CHUNK ? UT_STAG_RESERVED_BASE + 0x100 + index
                                          : UT_STAG_DYNAMIC_BASE + index - UT_STAG_CHUNK;

    return ut_stadd_make(stag, generation, ut_stadd_offset_of_base(index, BASE) + at);
}

static uint64_t addr;
static uint32_t rkey;

static int find(utofu_stadd_t stadd, uint64_t length, bool write)
{
    addr = 0;
    rkey = 0;
    return ut_link_find_memory(the_link, stadd, length, write, false, &addr, &rkey);
}

static void check_reads(unsigned int of_dir, unsigned int of_entries)
{
    cr_assert(dir_reads == of_dir && entry_reads == of_entries, "%u %u", dir_reads, entry_reads);
    dir_reads = entry_reads = 0;
    cr_assert(the_link->reading != UT_STAG_NONE || vcq.num_scratch_free == SCRATCH);
    cr_assert_eq(the_link->scratch == 0, the_link->reading == UT_STAG_NONE);
    for (uint32_t i = 0; i < vcq.num_scratch_free; i++) /* each one once */
        for (uint32_t k = 0; k <= i; k++)
            cr_assert(scratch_free[i] < SCRATCH && (scratch_free[i] != scratch_free[k] || i == k));
}

static const uint32_t indices[] = {0, 255, UT_STAG_CHUNK, UT_STAG_CHUNK + 77,
                                   3 * UT_STAG_CHUNK - 1};
enum { INDICES = sizeof(indices) / sizeof(indices[0]) };

/*
 * Reading
 */

Test(reads, each_chunk_and_each_entry_are_read_once)
{
    for (int i = 0; i < INDICES; i++)
        register_at(indices[i], BASE, SIZE, good, (uint32_t)i + 1);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < INDICES; i++) {
            bool new_chunk = i == 0 || indices[i] / UT_STAG_CHUNK != indices[i - 1] / UT_STAG_CHUNK;
            cr_assert_eq(find(stadd_at(indices[i], GENERATION, 16), 8, true), 0);
            cr_assert(addr == BASE + 16 && rkey == (uint32_t)i + 1);
            check_reads(round == 0 && new_chunk, round == 0);
            cr_assert_eq(find(stadd_at(indices[i], GENERATION, 17), 8, true), 0);
            cr_assert(addr == BASE + 17 && rkey == (uint32_t)i + 1);
            check_reads(0, 0);
        }
    }
    cr_assert_eq(posts, 0);
    cr_assert_null(vcq.scheduled_links);
}

Test(reads, what_the_stag_allows)
{
    static const struct {
        uint64_t at, length;
        int rc;
    } of[] = {{0, 0, 0},
              {0, SIZE, 0},
              {SIZE - 1, 1, 0},
              {SIZE, 0, 0},
              {SIZE, 1, UTOFU_ERR_MRQ_RMT_STADD},
              {SIZE + 1, 0, UTOFU_ERR_MRQ_RMT_STADD},
              {SIZE - 1, 2, UTOFU_ERR_MRQ_RMT_LENGTH},
              {0, SIZE + 1, UTOFU_ERR_MRQ_RMT_LENGTH},
              {(uint64_t)-1, 1, UTOFU_ERR_MRQ_RMT_STADD}};

    for (int writable = 0; writable < 2; writable++) {
        uint32_t index = UT_STAG_CHUNK + 1 + (uint32_t)writable;
        register_at(index, BASE, SIZE, writable ? good : good & ~(uint32_t)UT_STAG_WRITABLE, 7);
        for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
            utofu_stadd_t stadd = stadd_at(index, GENERATION, of[i].at);
            for (int write = 0; write < 2; write++) {
                int rc = of[i].rc == 0 && write && !writable ? UTOFU_ERR_MRQ_RMT_MEMORY : of[i].rc;
                cr_assert_eq(find(stadd, of[i].length, write), rc, "case %zu", i);
                cr_assert(rc || addr == BASE + of[i].at);
            }
        }
    }
    cr_assert_eq(find(stadd_at(UT_STAG_CHUNK + 1, GENERATION + 1, 0), 1, false),
                 UTOFU_ERR_MRQ_RMT_STADD);
    register_at(UT_STAG_CHUNK + 1, BASE, SIZE, good & ~(uint32_t)UT_STAG_VALID, 7);
    ut_link_invalidate_stag(the_link, stadd_at(UT_STAG_CHUNK + 1, GENERATION, 0));
    cr_assert_eq(find(stadd_at(UT_STAG_CHUNK + 1, GENERATION, 0), 1, false),
                 UTOFU_ERR_MRQ_RMT_STADD);
    cr_assert_eq(find(ut_stadd_make(5, 0, 0), 1, false), UTOFU_ERR_MRQ_RMT_STADD, "no STag");
}

/* An error by the cached entry may be outdated: the entry is read again, once. */
Test(reads, entry_is_read_again_before_an_error)
{
    utofu_stadd_t stadd = stadd_at(UT_STAG_CHUNK, GENERATION, 0);

    register_at(UT_STAG_CHUNK, BASE, SIZE, good, 7);
    cr_assert_eq(find(stadd, SIZE, true), 0);
    check_reads(1, 1);
    cr_assert_eq(find(stadd, SIZE + 1, true), UTOFU_ERR_MRQ_RMT_LENGTH);
    check_reads(0, 1);
    register_at(UT_STAG_CHUNK, BASE, 2 * SIZE, good, 8);
    cr_assert_eq(find(stadd, SIZE + 1, true), 0);
    check_reads(0, 1);
    cr_assert_eq(rkey, 8);
    cr_assert_eq(ut_link_find_memory(the_link, stadd, 3 * SIZE, true, true, &addr, &rkey),
                 UTOFU_ERR_MRQ_RMT_LENGTH, "no_reread");
    check_reads(0, 0);
}

/* A chunk that does not exist has no STag; its directory entry is read each time. */
Test(reads, chunk_that_does_not_exist)
{
    utofu_stadd_t stadd = stadd_at(2 * UT_STAG_CHUNK + 9, GENERATION, 0);

    for (int i = 0; i < 2; i++) {
        cr_assert_eq(find(stadd, 1, false), UTOFU_ERR_MRQ_RMT_STADD);
        check_reads(1, 0);
    }
    register_at(2 * UT_STAG_CHUNK + 9, BASE, SIZE, good, 7);
    cr_assert_eq(find(stadd, 1, false), 0);
    check_reads(1, 1);
}

Test(reads, torn_entry_is_read_again)
{
    register_at(UT_STAG_CHUNK, BASE, SIZE, good, 7);
    torn = 3;
    cr_assert_eq(find(stadd_at(UT_STAG_CHUNK, GENERATION, 0), 1, true), 0);
    check_reads(1, 4);
    cr_assert_eq(addr, BASE);
}

/*
 * Reads that take time
 */

static void complete(enum prov_status status)
{
    if (status == PROV_OK)
        copy_answer(&outstanding);
    ut_link_read_done(the_link, status);
}

Test(reads, read_that_completes_later)
{
    utofu_stadd_t stadd = stadd_at(UT_STAG_CHUNK, GENERATION, 0);

    register_at(UT_STAG_CHUNK, BASE, SIZE, good, 7);
    answers = LATER;
    the_link->to_post = UT_NO_SLOT;
    torn = 1;
    for (int i = 0; i < 3; i++) /* one read at a time */
        cr_assert_eq(find(stadd, 8, true), UTOFU_ERR_NOT_COMPLETED);
    check_reads(1, 0);
    cr_assert_eq(vcq.num_scratch_free, SCRATCH - 1);
    complete(PROV_OK);
    check_reads(0, 1);
    complete(PROV_OK); /* torn */
    check_reads(0, 1);
    cr_assert_eq(posts, 0);
    complete(PROV_OK);
    cr_assert_eq(posts, 1);
    check_reads(0, 0);
    cr_assert_eq(find(stadd, 8, true), 0);
    check_reads(0, 0);
    ut_link_read_done(the_link, PROV_OK); /* none is outstanding */
    ut_link_read_done(the_link, PROV_FLUSHED);
    cr_assert_eq(posts, 1);
}

/* The communication that waits uses what was read; one that needs another entry does not take it
 * for its own. */
Test(reads, slot_that_waits_does_not_read_again)
{
    register_at(UT_STAG_CHUNK, BASE, SIZE, good, 7);
    answers = LATER;
    for (int other = 0; other < 2; other++) {
        utofu_stadd_t stadd = stadd_at(UT_STAG_CHUNK, GENERATION, 0);
        ut_link_drop_stag_cache(the_link);
        the_link->to_post = 2;
        toq[2].stag_reread = false;
        toq[2].desc.rmt_stadd = stadd_at(UT_STAG_CHUNK + (uint32_t)other, GENERATION, 0);
        cr_assert_eq(find(stadd, 8, true), UTOFU_ERR_NOT_COMPLETED);
        complete(PROV_OK);
        cr_assert(!toq[2].stag_reread);
        complete(PROV_OK);
        cr_assert_eq(toq[2].stag_reread, !other);
        cr_assert_eq(posts, (unsigned int)other + 1);
    }
}

Test(reads, read_of_a_broken_connection_is_dropped)
{
    utofu_stadd_t stadd = stadd_at(UT_STAG_CHUNK, GENERATION, 0);

    register_at(UT_STAG_CHUNK, BASE, SIZE, good, 7);
    answers = LATER;
    cr_assert_eq(find(stadd, 8, true), UTOFU_ERR_NOT_COMPLETED);
    complete(PROV_FLUSHED);
    cr_assert_eq(posts, 0);
    check_reads(1, 0);
    answers = AT_ONCE;
    cr_assert_eq(find(stadd, 8, true), 0);
    check_reads(1, 1);
}

Test(reads, answer_at_once_after_one_that_came_later)
{
    register_at(UT_STAG_CHUNK, BASE, SIZE, good, 7);
    answers = LATER;
    cr_assert_eq(find(stadd_at(UT_STAG_CHUNK, GENERATION, 0), 8, true), UTOFU_ERR_NOT_COMPLETED);
    answers = AT_ONCE;
    complete(PROV_OK);
    check_reads(1, 1);
    cr_assert_eq(posts, 1);
    cr_assert_eq(find(stadd_at(UT_STAG_CHUNK, GENERATION, 0), 8, true), 0);
}

/* Links that wait for scratch memory, or for an entry of the provider's queue, are tried again. */
Test(reads, reads_that_cannot_be_posted)
{
    utofu_stadd_t stadd = stadd_at(UT_STAG_CHUNK, GENERATION, 0);

    register_at(UT_STAG_CHUNK, BASE, SIZE, good, 7);
    answer_rc = -EAGAIN;
    cr_assert_eq(find(stadd, 8, true), UTOFU_ERR_NOT_COMPLETED);
    cr_assert(the_link->is_scheduled);
    check_reads(1, 0);
    the_link->is_scheduled = false;
    answer_rc = -ENOTCONN; /* the connection breaks */
    cr_assert_eq(find(stadd, 8, true), UTOFU_ERR_NOT_COMPLETED);
    cr_assert(!the_link->is_scheduled);
    check_reads(1, 0);
    answer_rc = 0;
    vcq.num_scratch_free = 0;
    cr_assert_eq(find(stadd, 8, true), UTOFU_ERR_NOT_COMPLETED);
    cr_assert(the_link->is_scheduled && the_link->reading == UT_STAG_NONE && dir_reads == 0);
    vcq.num_scratch_free = SCRATCH;
    cr_assert_eq(find(stadd, 8, true), 0);
}

/* The peer has freed the VCQ with its table: no STag of the chunk is known any more. */
Test(reads, table_that_is_no_longer_accessible)
{
    static const int codes[] = {-EACCES, -EFAULT};

    register_at(UT_STAG_CHUNK, BASE, SIZE, good, 7);
    register_at(UT_STAG_CHUNK + 1, BASE, SIZE, good, 7);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(find(stadd_at(UT_STAG_CHUNK + 1, GENERATION, 0), 1, false), 0);
        answer_rc = codes[i];
        cr_assert_eq(find(stadd_at(UT_STAG_CHUNK, GENERATION + 1, 0), 1, false),
                     UTOFU_ERR_MRQ_RMT_STADD);
        answer_rc = 0;
        cr_assert_null(the_link->is_scheduled ? the_link : NULL);
        the_link->last_stag.size = 0;
        dir_reads = entry_reads = 0;
        cr_assert_eq(find(stadd_at(UT_STAG_CHUNK + 1, GENERATION, 0), 1, false), 0);
        check_reads(1, 1);
    }
}

/* Each link has scratch memory of its own while it reads. */
Test(reads, links_read_beside_each_other)
{
    struct ut_link *first = the_link;
    struct prov_xfer reads_of[2];

    register_at(UT_STAG_CHUNK, BASE, SIZE, good, 7);
    answers = LATER;
    cr_assert_eq(find(stadd_at(UT_STAG_CHUNK, GENERATION, 0), 8, true), UTOFU_ERR_NOT_COMPLETED);
    reads_of[0] = outstanding;
    struct ut_link other = *the_link;
    other.reading = UT_STAG_NONE;
    other.scratch = 0;
    other.stag_cache = (struct ut_stag_cache){.chunks = NULL};
    the_link = &other;
    cr_assert_eq(find(stadd_at(UT_STAG_CHUNK, GENERATION, 0), 8, true), UTOFU_ERR_NOT_COMPLETED);
    reads_of[1] = outstanding;
    cr_assert_eq(vcq.num_scratch_free, SCRATCH - 2);
    for (int i = 0; i < 2; i++) {
        uint8_t *at = reads_of[i].lcl;
        cr_assert(at >= scratch && at + UT_SCRATCH_SIZE <= scratch + sizeof(scratch));
        cr_assert_eq((size_t)(at - scratch) % UT_SCRATCH_SIZE, 0);
    }
    cr_assert_neq(reads_of[0].lcl, reads_of[1].lcl);
    complete(PROV_FLUSHED);
    the_link = first;
    complete(PROV_FLUSHED);
    cr_assert_eq(vcq.num_scratch_free, SCRATCH);
}

/*
 * The shuffle mode, and queries
 */

/* With the shuffle mode the entries of STags that the program chooses are read for each use. */
Test(reads, chosen_stags_are_read_each_time_when_shuffled)
{
    register_at(5, BASE, SIZE, good, 7);
    register_at(255, BASE, SIZE, good, 7);
    register_at(UT_STAG_CHUNK, BASE, SIZE, good, 7);
    vcq.shuffled = true;
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(find(stadd_at(5, GENERATION, 0), 8, true), 0);
        check_reads(i == 0, 1);
        cr_assert_eq(find(stadd_at(255, GENERATION, 0), 8, true), 0);
        check_reads(0, 1);
    }
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(find(stadd_at(UT_STAG_CHUNK, GENERATION, 0), 8, true), 0);
        check_reads(i == 0, i == 0);
    }
    vcq.shuffled = false;
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(find(stadd_at(255, GENERATION, 0), 8, true), 0);
        check_reads(0, 0);
    }
}

Test(reads, stadds_that_are_cached)
{
    utofu_stadd_t dynamic = stadd_at(UT_STAG_CHUNK, GENERATION, 3),
                  chosen = stadd_at(255, GENERATION, 3);
    struct ut_vcq_ident nobody = {.cmp = 2};

    register_at(UT_STAG_CHUNK, BASE, SIZE, good, 7);
    register_at(255, BASE, SIZE, good, 7);
    cr_assert(!ut_link_stadd_is_cached(&vcq, the_link->peer, dynamic, 8, &addr));
    cr_assert(find(dynamic, 8, true) == 0 && find(chosen, 8, true) == 0);
    check_reads(2, 2);
    addr = 0;
    cr_assert(ut_link_stadd_is_cached(&vcq, the_link->peer, dynamic, SIZE - 3, &addr));
    cr_assert_eq(addr, BASE + 3);
    cr_assert(!ut_link_stadd_is_cached(&vcq, the_link->peer, dynamic, SIZE - 2, &addr));
    cr_assert(!ut_link_stadd_is_cached(&vcq, the_link->peer, dynamic + 256, 8, &addr) ||
              addr == BASE + 259);
    cr_assert(!ut_link_stadd_is_cached(&vcq, the_link->peer, chosen, 8, &addr), "it may change");
    cr_assert(!ut_link_stadd_is_cached(&vcq, the_link->peer, ut_stadd_make(5, 0, 0), 0, &addr));
    cr_assert(!ut_link_stadd_is_cached(&vcq, ut_vcq_id_canonical(&nobody), dynamic, 8, &addr));
    check_reads(0, 0);
}

Test(reads, cached_entry_and_its_place)
{
    utofu_stadd_t stadd = stadd_at(UT_STAG_CHUNK + 2, GENERATION, 3);
    struct ut_vcq_ident nobody = {.cmp = 2};
    struct ut_cached_stag cached = {0};
    uint64_t at = 0;

    register_at(UT_STAG_CHUNK + 2, BASE, SIZE, good, 7);
    cr_assert(!ut_link_get_cached_entry(&vcq, the_link->peer, stadd, &at, &cached));
    cr_assert_eq(find(stadd, 8, true), 0);
    cr_assert(ut_link_get_cached_entry(&vcq, the_link->peer, stadd, &at, &cached));
    cr_assert_eq(at, (uintptr_t)&chunks[1][2]);
    cr_assert(cached.base == BASE && cached.size == SIZE && cached.rkey == 7 &&
              cached.flags_and_generation == good);
    cr_assert(
        !ut_link_get_cached_entry(&vcq, the_link->peer, ut_stadd_make(5, 0, 0), &at, &cached));
    cr_assert(!ut_link_get_cached_entry(&vcq, ut_vcq_id_canonical(&nobody), stadd, &at, &cached));
    cr_assert(!ut_link_get_cached_entry(&vcq, the_link->peer, stadd_at(UT_STAG_CHUNK + 90, 0, 0),
                                        &at, &cached));
    the_link->state = UT_LINK_IDLE;
    cr_assert(!ut_link_get_cached_entry(&vcq, the_link->peer, stadd, &at, &cached));
    the_link->state = UT_LINK_UP;
    ut_stag_cache_invalidate_chunk(&the_link->stag_cache, UT_STAG_CHUNK);
    cr_assert(!ut_link_get_cached_entry(&vcq, the_link->peer, stadd, &at, &cached));
    cr_assert(ut_stag_cache_find_or_add(&the_link->stag_cache, UT_STAG_CHUNK + 2));
    cr_assert(!ut_link_get_cached_entry(&vcq, the_link->peer, stadd, &at, &cached), "no chunk");
}

Test(reads, entry_is_checked_again)
{
    utofu_stadd_t stadd = stadd_at(UT_STAG_CHUNK, GENERATION, 3);
    struct ut_vcq_ident nobody = {.cmp = 2};

    register_at(UT_STAG_CHUNK, BASE, SIZE, good, 7);
    cr_assert(!ut_link_recheck_entry(&vcq, the_link->peer, stadd), "it was never read");
    cr_assert_eq(find(stadd, 8, true), 0);
    check_reads(1, 1);
    cr_assert(ut_link_recheck_entry(&vcq, the_link->peer, stadd));
    check_reads(0, 1);
    cr_assert(!ut_link_recheck_entry(&vcq, ut_vcq_id_canonical(&nobody), stadd));
    for (int what = 0; what < 3; what++) { /* each change by itself is seen, once */
        register_at(UT_STAG_CHUNK, BASE + 1, SIZE + (what >= 1),
                    what == 2 ? good & ~(uint32_t)UT_STAG_WRITABLE : good, 7);
        the_link->last_stag.size = SIZE;
        cr_assert(!ut_link_recheck_entry(&vcq, the_link->peer, stadd));
        cr_assert_eq(the_link->last_stag.size, 0, "the fast path does not use it, either");
        cr_assert(ut_link_recheck_entry(&vcq, the_link->peer, stadd));
    }
    check_reads(0, 6);
    the_link->state = UT_LINK_IDLE;
    cr_assert(!ut_link_recheck_entry(&vcq, the_link->peer, stadd));
    the_link->state = UT_LINK_UP;
    vcq.num_scratch_free = 0;
    cr_assert(!ut_link_recheck_entry(&vcq, the_link->peer, stadd));
    vcq.num_scratch_free = SCRATCH;
    check_reads(0, 0);
    answers = LATER;
    cr_assert(!ut_link_recheck_entry(&vcq, the_link->peer, stadd));
    cr_assert(!ut_link_recheck_entry(&vcq, the_link->peer, stadd));
    check_reads(0, 1);
    complete(PROV_OK);
    cr_assert_eq(posts, 1);
}

Test(reads, cause_of_an_error)
{
    static const struct {
        uint32_t generation;
        uint64_t at, length;
        bool write;
        int cause;
    } of[] = {{GENERATION + 1, 0, 1, false, UT_CAUSE_NO_STAG},
              {GENERATION, (uint64_t)-1, 1, false, UT_CAUSE_BEFORE},
              {GENERATION, SIZE, 1, false, UT_CAUSE_BEHIND},
              {GENERATION, 1, SIZE, false, UT_CAUSE_SHORT},
              {GENERATION, 0, 1, true, UT_CAUSE_READ_ONLY},
              {GENERATION, 0, 1, false, UT_CAUSE_ACCESS}};
    uint32_t index = UT_STAG_CHUNK;

    cr_assert_eq(ut_link_error_cause(the_link, stadd_at(index, GENERATION, 0), 1, false).cause,
                 UT_CAUSE_NO_STAG, "it was never read");
    register_at(index, BASE, SIZE, good & ~(uint32_t)UT_STAG_WRITABLE, 7);
    cr_assert_eq(find(stadd_at(index, GENERATION, 0), 1, false), 0);
    for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
        struct ut_failure why = ut_link_error_cause(
            the_link, stadd_at(index, of[i].generation, of[i].at), of[i].length, of[i].write);
        cr_assert_eq(why.cause, of[i].cause, "case %zu: %d", i, (int)why.cause);
    }
    register_at(index + 1, BASE, SIZE, good & ~(uint32_t)UT_STAG_VALID, 7);
    cr_assert_eq(find(stadd_at(index + 1, GENERATION, 0), 1, false), UTOFU_ERR_MRQ_RMT_STADD);
    cr_assert_eq(ut_link_error_cause(the_link, stadd_at(index + 1, GENERATION, 0), 1, false).cause,
                 UT_CAUSE_NO_STAG);
    ut_link_invalidate_stag(the_link, stadd_at(index, GENERATION, 0));
    cr_assert_eq(ut_link_error_cause(the_link, stadd_at(index, GENERATION, 0), 1, false).cause,
                 UT_CAUSE_NO_STAG);
}

/* The fast path has the STag that was used last, if it is writable. */
Test(reads, last_stag_is_found_without_the_cache)
{
    utofu_stadd_t writable = stadd_at(UT_STAG_CHUNK, GENERATION, 0),
                  constant = stadd_at(UT_STAG_CHUNK + 1, GENERATION, 0);

    register_at(UT_STAG_CHUNK, BASE, SIZE, good, 7);
    register_at(UT_STAG_CHUNK + 1, BASE, SIZE, good & ~(uint32_t)UT_STAG_WRITABLE, 9);
    cr_assert_eq(find(constant + 4, 8, false), 0);
    cr_assert(!ut_link_find_last_stag(the_link, constant, 8, &addr, &rkey));
    cr_assert_eq(find(writable + 100, 8, false), 0);
    for (uint64_t at = 0; at <= SIZE; at += 512) {
        bool is = ut_link_find_last_stag(the_link, writable + at, 1, &addr, &rkey);
        cr_assert_eq(is, at < SIZE);
        cr_assert(!is || (addr == BASE + at && rkey == 7));
    }
    cr_assert(!ut_link_find_last_stag(the_link, writable - 1, 1, &addr, &rkey));
    ut_link_invalidate_stag(the_link, writable);
    cr_assert(!ut_link_find_last_stag(the_link, writable, 1, &addr, &rkey));
}
