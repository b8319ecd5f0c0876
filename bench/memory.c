/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory [VCQS], with 3 processes or more
 *
 * How much memory a connected peer costs: the VCQ of rank 0 meets those of the others, VCQS of each
 * process (1), one after the other, with a put, a get and an ARMW each, and looks at the size of
 * its process in between. Rss counts pages that are shared with the peer in full, Pss by halves.
 * What the kernel keeps for queue pairs is in neither. So where there are 50 peers or more a second
 * VCQ of rank 0 meets them too, and the memory of the whole machine is looked at, which holds both
 * ends of each connection.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "measure.h"
#include "party.h"

enum { STAG = 1, SIZE = 4096, GO = 0, ARMW = 8, TNIS = 6, MAX_VCQS = 48, MANY = 50 };

struct footprint {
    long rss, pss; /* KiB */
};

static uint32_t vcqs = 1; /* of each process but rank 0 */

/* KiB that the machine has left. */
static long available(void)
{
    char line[256];
    long kib = -1;
    FILE *file = fopen("/proc/meminfo", "r");

    while (file && kib < 0 && fgets(line, sizeof(line), file))
        sscanf(line, "MemAvailable: %ld kB", &kib);
    if (kib < 0)
        party_fail(1, "cannot read /proc/meminfo");
    fclose(file);
    return kib;
}

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

static void meet_peer(utofu_vcq_hdl_t vcq, utofu_stadd_t lcl, uint32_t i)
{
    meet(vcq,
         party_vcq_id(i / vcqs + 1, (utofu_tni_id_t)(i % vcqs % TNIS),
                      (utofu_cmp_id_t)(i % vcqs / TNIS)),
         lcl);
}

static void measure_machine(uint8_t *memory)
{
    uint32_t peers = (party.size - 1) * vcqs;
    utofu_vcq_hdl_t vcq;
    utofu_stadd_t lcl;

    party_check(utofu_create_vcq_with_cmp_id(1, 1, 0, &vcq), "utofu_create_vcq_with_cmp_id");
    party_check(utofu_reg_mem_with_stag(vcq, memory, SIZE, STAG, 0, &lcl),
                "utofu_reg_mem_with_stag");
    meet_peer(vcq, lcl, 0);
    long left = available();
    for (uint32_t i = 1; i < peers; i++)
        meet_peer(vcq, lcl, i);
    double end = (double)(left - available()) / (peers - 1) / 2;
    printf("the machine: %.1f KiB for each end of a connection; 10000 connections of a process "
           "would take %.0f MiB\n",
           end, end * 10000 / 1024);
    party_check(utofu_dereg_mem(vcq, lcl, 0), "utofu_dereg_mem");
    party_check(utofu_free_vcq(vcq), "utofu_free_vcq");
}

static void measure(utofu_vcq_hdl_t vcq, utofu_stadd_t lcl)
{
    uint32_t peers = (party.size - 1) * vcqs;
    long *rss = calloc(peers, sizeof(*rss)), *pss = calloc(peers, sizeof(*pss));

    if (!rss || !pss)
        party_fail(1, "no memory");
    struct footprint start = look(), before;
    start = before = look(); /* the first look pays for the stream */
    for (uint32_t i = 0; i < peers; i++) {
        meet_peer(vcq, lcl, i);
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

int main(int argc, char **argv)
{
    utofu_vcq_hdl_t vcq, others[MAX_VCQS];
    utofu_stadd_t lcl, rmt;
    uint64_t *memory = aligned_alloc(SIZE, SIZE);

    if (argc > 2)
        party_usage_error("memory", "give a number of VCQs, or nothing");
    if (argc == 2)
        vcqs = (uint32_t)bench_number("memory", argv[1], 1, MAX_VCQS);
    party_find("memory", 3, 60);
    if (!memory)
        party_fail(1, "no memory");
    memset(memory, 0, SIZE);
    party_check(utofu_create_vcq_with_cmp_id(0, 0, 0, &vcq), "utofu_create_vcq_with_cmp_id");
    party_check(utofu_reg_mem_with_stag(vcq, memory, SIZE, STAG, 0, &lcl),
                "utofu_reg_mem_with_stag");
    for (uint32_t i = 1; party.rank > 0 && i < vcqs; i++) {
        utofu_stadd_t other;
        party_check(utofu_create_vcq_with_cmp_id((utofu_tni_id_t)(i % TNIS),
                                                 (utofu_cmp_id_t)(i / TNIS), 0, &others[i]),
                    "utofu_create_vcq_with_cmp_id");
        party_check(utofu_reg_mem_with_stag(others[i], memory, SIZE, STAG, 0, &other),
                    "utofu_reg_mem_with_stag");
    }
    if (party.rank == 0) {
        if (vcqs > 1) /* the others make theirs first */
            nanosleep(&(struct timespec){.tv_sec = 3}, NULL);
        measure(vcq, lcl);
        if ((party.size - 1) * vcqs >= MANY)
            measure_machine((uint8_t *)memory);
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
    for (uint32_t i = 1; party.rank > 0 && i < vcqs; i++)
        utofu_free_vcq(others[i]);
    return 0;
}
