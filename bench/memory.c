/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory, with 3 processes or more
 *
 * How much memory a connected peer costs: the VCQ of rank 0 meets those of the others one after the
 * other, with a put, a get and an ARMW each, and looks at the size of its process in between. Rss
 * counts pages that are shared with the peer in full, Pss by halves.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "party.h"

enum { STAG = 1, SIZE = 4096, GO = 0, ARMW = 8 };

struct footprint {
    long rss, pss; /* KiB */
};

static struct footprint look(void)
{
    static char line[256];
    struct footprint f = {0, 0};
    FILE *file = fopen("/proc/self/smaps_rollup", "r");

    if (!file)
        party_fail(1, "cannot read /proc/self/smaps_rollup");
    while (fgets(line, sizeof(line), file)) {
        sscanf(line, "Rss: %ld kB", &f.rss);
        sscanf(line, "Pss: %ld kB", &f.pss);
    }
    fclose(file);
    return f;
}

static void await_notice(utofu_vcq_hdl_t vcq)
{
    struct utofu_mrq_notice notice;
    uint32_t spins = 0;
    int rc;

    while ((rc = utofu_poll_mrq(vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND)
        party_idle(&spins, "a notice");
    party_check(rc, "utofu_poll_mrq");
}

/* A put, a get and an ARMW, until each is done. */
static void meet(utofu_vcq_hdl_t vcq, utofu_vcq_id_t peer, utofu_stadd_t lcl)
{
    unsigned long flags = UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE;
    utofu_stadd_t rmt;

    party_check(utofu_query_stadd(peer, STAG, &rmt), "utofu_query_stadd");
    party_put_word(vcq, peer, rmt + 64, 1);
    for (int i = 0; i < 2; i++) {
        party_check(utofu_put(vcq, peer, lcl + 128, rmt + 128, 8, 0,
                              flags | UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE, NULL),
                    "utofu_put");
        await_notice(vcq);
    }
    party_check(utofu_get(vcq, peer, lcl + 128, rmt + 128, 8, 0, flags, NULL), "utofu_get");
    await_notice(vcq);
    party_check(utofu_armw8(vcq, peer, UTOFU_ARMW_OP_ADD, 1, rmt + ARMW, 0, flags, NULL),
                "utofu_armw8");
    await_notice(vcq);
}

static int compare(const void *a, const void *b)
{
    long x = *(const long *)a, y = *(const long *)b;

    return (x > y) - (x < y);
}

static void print(const char *who, long *rss, long *pss, uint32_t n)
{
    long rss_sum = 0, pss_sum = 0;

    for (uint32_t i = 0; i < n; i++) {
        rss_sum += rss[i];
        pss_sum += pss[i];
    }
    qsort(rss, n, sizeof(*rss), compare);
    qsort(pss, n, sizeof(*pss), compare);
    printf("%s: Rss mean %.1f median %ld most %ld KiB, Pss mean %.1f median %ld most %ld KiB\n",
           who, (double)rss_sum / n, rss[n / 2], rss[n - 1], (double)pss_sum / n, pss[n / 2],
           pss[n - 1]);
}

static void measure(utofu_vcq_hdl_t vcq, utofu_stadd_t lcl)
{
    uint32_t peers = party.size - 1;
    long *rss = calloc(peers, sizeof(*rss)), *pss = calloc(peers, sizeof(*pss));

    if (!rss || !pss)
        party_fail(1, "no memory");
    struct footprint start = look(), before;
    start = before = look(); /* the first look pays for the stream */
    for (uint32_t i = 0; i < peers; i++) {
        meet(vcq, party_vcq_id(i + 1, 0, 0), lcl);
        struct footprint after = look();
        rss[i] = after.rss - before.rss;
        pss[i] = after.pss - before.pss;
        before = after;
    }
    printf("%u peers, Rss of rank 0: %ld KiB before, %ld KiB after\n", peers, start.rss,
           before.rss);
    printf("first peer: Rss %ld KiB, Pss %ld KiB\n", rss[0], pss[0]);
    print("each further peer", rss + 1, pss + 1, peers - 1);
    free(rss);
    free(pss);
}

int main(void)
{
    utofu_vcq_hdl_t vcq;
    utofu_stadd_t lcl, rmt;
    uint64_t *memory = aligned_alloc(SIZE, SIZE);

    party_find("memory", 3, 60);
    if (!memory)
        party_fail(1, "no memory");
    memset(memory, 0, SIZE);
    party_check(utofu_create_vcq_with_cmp_id(0, 0, 0, &vcq), "utofu_create_vcq_with_cmp_id");
    party_check(utofu_reg_mem_with_stag(vcq, memory, SIZE, STAG, 0, &lcl),
                "utofu_reg_mem_with_stag");
    if (party.rank == 0) {
        measure(vcq, lcl);
        for (uint32_t r = 1; r < party.size; r++) {
            utofu_vcq_id_t peer = party_vcq_id(r, 0, 0);
            party_check(utofu_query_stadd(peer, STAG, &rmt), "utofu_query_stadd");
            party_put_word(vcq, peer, rmt + GO, 1);
        }
    } else {
        while (!__atomic_load_n(memory, __ATOMIC_ACQUIRE))
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    }
    utofu_dereg_mem(vcq, lcl, 0);
    utofu_free_vcq(vcq);
    return 0;
}
