/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The VCQs and the mailbox of this process, and those of all others. Each process has a VCQ with
 * component 7 on its primary TNI, then on the others, and registers one piece of memory with an
 * STag on the first one. So the ids of VCQs and STADDs are calculated, and no process asks another
 * one.
 */
#include <string.h>

#include "box.h"

enum { CMP = 7, STAG = 10, SLOT_SIZE = 1024, LINE = 256, BOX_ALIGNMENT = 65536 };
_Static_assert(sizeof(struct header) + EAGER_MAX == SLOT_SIZE, "a message fills its slot");

static struct address addresses[MAX_RANKS];
static struct by_id {
    utofu_vcq_id_t id;
    int rank;
} sorted[MAX_RANKS];
static int rank, size, primary;
static utofu_vcq_hdl_t vcqs[TNIS];
static char *box; /* the registered memory */

const struct address *box_of(int of)
{
    return &addresses[of];
}

utofu_vcq_hdl_t box_vcq(int tni)
{
    return vcqs[tni];
}

int box_primary(void)
{
    return primary;
}

char *box_at(size_t offset)
{
    return box + offset;
}

/*
 * The memory: the own word and the one that was fetched; for each process a credit word, a word for
 * bad news and one that its word is read to; slots of messages from each process, and to it.
 */

static size_t round_up(size_t size_, size_t unit)
{
    return (size_ + unit - 1) / unit * unit;
}

static size_t words_offset(int which, int of)
{
    return 2 * LINE + (size_t)which * round_up(8 * (size_t)size, LINE) + 8 * (size_t)of;
}

size_t box_fetched(void)
{
    return LINE;
}

size_t box_credit(int of)
{
    return words_offset(0, of);
}

size_t box_news(int of)
{
    return words_offset(1, of);
}

size_t box_beat(int of)
{
    return words_offset(2, of);
}

size_t box_slot(bool outgoing, int of, int slot)
{
    size_t before = ((size_t)(outgoing ? size : 0) + (size_t)of) * SLOTS + (size_t)slot;

    return words_offset(3, 0) + before * SLOT_SIZE;
}

static size_t box_size(void)
{
    return round_up(box_slot(true, size, 0), LINE);
}

uint64_t box_read(size_t offset)
{
    return __atomic_load_n((uint64_t *)(box + offset), __ATOMIC_ACQUIRE);
}

/*
 * Ids.
 */

/* Where Fugaku puts local rank n, on a node of ppn processes. */
static void find_cq(int ppn, int n, utofu_tni_id_t *tni, utofu_cq_id_t *cq)
{
    static const utofu_cq_id_t few[4][4] = {{0}, {0, 6}, {0, 4, 8}, {0, 2, 5, 8}};
    static const utofu_cq_id_t many[5][8] = {{0, 2, 5, 8},
                                             {0, 2, 5, 8, 10},
                                             {0, 2, 5, 8, 9, 10},
                                             {0, 2, 5, 6, 8, 9, 10},
                                             {0, 2, 4, 5, 6, 8, 9, 10}};
    int tnis = ppn <= 8 ? 2 : ppn <= 12 ? 3 : TNIS;

    if (ppn <= 4) {
        *tni = (utofu_tni_id_t)n;
        *cq = few[ppn - 1][n];
        return;
    }
    *tni = (utofu_tni_id_t)(n % tnis * (TNIS / tnis));
    *cq = many[ppn <= 24 ? 0 : (ppn - 25) / 6 + 1][n / tnis];
}

static void calculate_ids(int of, struct address *address, utofu_tni_id_t *tni)
{
    int ranks[MAX_RANKS], n, local = 0;
    uint8_t coords[6], path[3];
    utofu_path_id_t path_id;
    utofu_cq_id_t cq;

    where_coords(of, coords);
    n = where_ranks_at_coords(coords, ranks);
    while (local < n && ranks[local] != of)
        local++;
    if (local == n)
        FAIL("rank %d is not on its own node", of);
    find_cq(where_most(), local, tni, &cq);
    OK(utofu_construct_vcq_id(coords, *tni, cq, CMP, &address->id));
    OK(utofu_set_vcq_id_path(&address->id, NULL));
    OK(utofu_query_stadd(address->id, STAG, &address->stadd));
    if (where_path(of, path)) {
        OK(utofu_get_path_id(address->id, path, &path_id));
        address->path = UTOFU_ONESIDED_FLAG_PATH(path_id);
    }
}

static int compare_ids(const void *a, const void *b)
{
    const struct by_id *x = a, *y = b;

    return x->id < y->id ? -1 : x->id > y->id;
}

/* Notices have the id as its owner knows it, whatever the path. */
static void sort_ids(void)
{
    uint8_t coords[6];
    utofu_tni_id_t tni;
    utofu_cq_id_t cq;
    uint16_t extra;

    for (int r = 0; r < size; r++) {
        OK(utofu_query_vcq_info(addresses[r].id, coords, &tni, &cq, &extra));
        OK(utofu_construct_vcq_id(coords, tni, cq, CMP, &sorted[r].id));
        sorted[r].rank = r;
    }
    qsort(sorted, (size_t)size, sizeof(sorted[0]), compare_ids);
}

int box_find_rank(utofu_vcq_id_t id)
{
    struct by_id key = {id, 0};
    struct by_id *found = bsearch(&key, sorted, (size_t)size, sizeof(sorted[0]), compare_ids);

    if (!found)
        FAIL("a notice of VCQ %016llx, which is nobody's", (unsigned long long)id);
    return found->rank;
}

void box_open(void)
{
    utofu_vcq_id_t id;
    utofu_stadd_t own;
    utofu_tni_id_t tni;

    rank = where_rank();
    size = where_size();
    for (int r = size - 1; r >= 0; r--) {
        calculate_ids(r, &addresses[r], &tni);
        if (r == rank)
            primary = tni;
    }
    sort_ids();
    for (int i = 0; i < TNIS; i++) {
        int t = (primary + i) % TNIS;
        OK(utofu_create_vcq_with_cmp_id((utofu_tni_id_t)t, CMP, 0, &vcqs[t]));
    }
    OK(utofu_query_vcq_id(vcqs[primary], &id));
    if (box_find_rank(id) != rank)
        FAIL("the VCQ has the id that was calculated for rank %d", box_find_rank(id));
    box = aligned_alloc(BOX_ALIGNMENT, round_up(box_size(), BOX_ALIGNMENT));
    memset(box, 0, box_size());
    OK(utofu_reg_mem_with_stag(vcqs[primary], box, box_size(), STAG, 0, &own));
    if (own != addresses[rank].stadd)
        FAIL("STag %d has STADD %llx, not %llx", STAG, (unsigned long long)own,
             (unsigned long long)addresses[rank].stadd);
}

void box_close(void)
{
    OK(utofu_dereg_mem(vcqs[primary], addresses[rank].stadd, 0));
    for (int t = 0; t < TNIS; t++)
        OK(utofu_free_vcq(vcqs[t]));
    free(box);
}
