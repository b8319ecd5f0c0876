/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory [VCQS], with 3 processes or more
 *
 * The memory for a connected peer: the VCQ of rank 0 connects to the VCQs of the others, VCQS per
 * process (1), one after the other, with a put, a get and an ARMW each, and measures the size of
 * its process in between. Rss counts pages shared with the peer in full, Pss by halves. Neither
 * includes the kernel's memory for queue pairs. So with 50 peers or more a second VCQ of rank 0
 * connects to them, too, and the memory for both ends of each connection is measured: the Pss of
 * all processes together, and the memory of the whole machine, which is only meaningful on an idle
 * machine.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "measure.h"
#include "party.h"

enum { STAG = 1, SIZE = 4096, TNIS = 6, MAX_VCQS = 48, MANY = 50 };
enum {
    GO = 0,
    ARMW = 8,
    WORD = 64,
    DATA = 128,
    PID = 192,
    TAKEN = 256
}; /* offsets in the memory */

struct footprint {
    long rss, pss; /* KiB */
};

static uint32_t vcqs = 1; /* per process except rank 0 */

/* A number of KiB from a file of /proc. */
static long read_kib(const char *path, const char *format)
{
    char line[256];
    long kib = -1;
    FILE *file = fopen(path, "r");

    while (file && kib < 0 && fgets(line, sizeof(line), file))
        sscanf(line, format, &kib);
    if (kib < 0)
        party_fail(1, "cannot read %s", path);
    fclose(file);
    return kib;
}

static long read_available_kib(void)
{
    return read_kib("/proc/meminfo", "MemAvailable: %ld kB");
}

static struct footprint look_at(long pid)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%ld/smaps_rollup", pid);
    return (struct footprint){read_kib(path, "Rss: %ld kB"), read_kib(path, "Pss: %ld kB")};
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

/* A put, a get and an ARMW, until each is complete. */
static void connect_peer(utofu_vcq_hdl_t vcq, utofu_vcq_id_t peer, utofu_stadd_t lcl)
{
    unsigned long flags = UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE;
    utofu_stadd_t rmt;

    party_check(utofu_query_stadd(peer, STAG, &rmt), "utofu_query_stadd");
    party_put_word(vcq, peer, rmt + WORD, 1);
    for (int i = 0; i < 2; i++) {
        party_check(utofu_put(vcq, peer, lcl + DATA, rmt + DATA, 8, 0,
                              flags | UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE, NULL),
                    "utofu_put");
        await_notice(vcq);
    }
    party_check(utofu_get(vcq, peer, lcl + DATA, rmt + DATA, 8, 0, flags, NULL), "utofu_get");
    await_notice(vcq);
    party_check(utofu_armw8(vcq, peer, UTOFU_ARMW_OP_ADD, 1, rmt + ARMW, 0, flags, NULL),
                "utofu_armw8");
    await_notice(vcq);
}

static void print_numbers(const char *name, double *kib, uint32_t n)
{
    double sum = 0;

    for (uint32_t i = 0; i < n; i++)
        sum += kib[i];
    printf(" %s mean %.1f median %.0f most", name, sum / n, bench_quantile(kib, (int)n, 0.5));
    printf(" %.0f KiB", kib[n - 1]);
}

static void meet_peer(utofu_vcq_hdl_t vcq, utofu_stadd_t lcl, uint32_t i)
{
    connect_peer(vcq,
                 party_vcq_id(i / vcqs + 1, (utofu_tni_id_t)(i % vcqs % TNIS),
                              (utofu_cmp_id_t)(i % vcqs / TNIS)),
                 lcl);
}

/* The process id of a rank to which the VCQ is connected. */
static long pid_of(utofu_vcq_hdl_t vcq, utofu_stadd_t lcl, const uint8_t *memory, uint32_t rank)
{
    utofu_vcq_id_t peer = party_vcq_id(rank, 0, 0);
    utofu_stadd_t rmt;
    uint64_t pid;

    party_check(utofu_query_stadd(peer, STAG, &rmt), "utofu_query_stadd");
    party_check(utofu_get(vcq, peer, lcl + TAKEN, rmt + PID, sizeof(pid), 0,
                          UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL),
                "utofu_get");
    await_notice(vcq);
    memcpy(&pid, memory + TAKEN, sizeof(pid));
    return (long)pid;
}

/* Pss of all processes. */
static long look_at_all(const long *pids)
{
    long pss = 0;

    for (uint32_t r = 0; r < party.size; r++)
        pss += look_at(pids[r]).pss;
    return pss;
}

static void print_ends(const char *where, long kib, uint32_t connections)
{
    double end = (double)kib / connections / 2;

    printf("%s: %.1f KiB for each end of a connection; 10000 connections of a process would take "
           "%.0f MiB\n",
           where, end, end * 10000 / 1024);
}

/* first_vcq: connected to all others; first_lcl: STADD of `memory`. */
static void measure_ends(utofu_vcq_hdl_t first_vcq, utofu_stadd_t first_lcl, uint8_t *memory)
{
    uint32_t peers = (party.size - 1) * vcqs;
    long *pids = calloc(party.size, sizeof(*pids));
    utofu_vcq_hdl_t vcq;
    utofu_stadd_t lcl;

    if (!pids)
        party_fail(1, "no memory");
    pids[0] = (long)getpid();
    for (uint32_t r = 1; r < party.size; r++)
        pids[r] = pid_of(first_vcq, first_lcl, memory, r);
    party_check(utofu_create_vcq_with_cmp_id(1, 1, 0, &vcq), "utofu_create_vcq_with_cmp_id");
    party_check(utofu_reg_mem_with_stag(vcq, memory, SIZE, STAG, 0, &lcl),
                "utofu_reg_mem_with_stag");
    meet_peer(vcq, lcl, 0);
    long left = read_available_kib(), pss = look_at_all(pids);
    for (uint32_t i = 1; i < peers; i++)
        meet_peer(vcq, lcl, i);
    print_ends("the processes", look_at_all(pids) - pss, peers - 1);
    print_ends("the machine", left - read_available_kib(), peers - 1);
    free(pids);
    party_check(utofu_dereg_mem(vcq, lcl, 0), "utofu_dereg_mem");
    party_check(utofu_free_vcq(vcq), "utofu_free_vcq");
}

static void measure_peers(utofu_vcq_hdl_t vcq, utofu_stadd_t lcl)
{
    uint32_t peers = (party.size - 1) * vcqs;
    double *rss = calloc(peers, sizeof(*rss)), *pss = calloc(peers, sizeof(*pss));

    if (!rss || !pss)
        party_fail(1, "no memory");
    struct footprint start = look_at((long)getpid()), before;
    start = before =
        look_at((long)getpid()); /* the first measurement includes the stream's memory */
    for (uint32_t i = 0; i < peers; i++) {
        meet_peer(vcq, lcl, i);
        struct footprint after = look_at((long)getpid());
        rss[i] = (double)(after.rss - before.rss);
        pss[i] = (double)(after.pss - before.pss);
        before = after;
    }
    printf("%u peers, Rss of rank 0: %ld KiB before, %ld KiB after\n", peers, start.rss,
           before.rss);
    printf("first peer: Rss %.0f KiB, Pss %.0f KiB\neach further peer:", rss[0], pss[0]);
    print_numbers("Rss", rss + 1, peers - 1);
    printf(",");
    print_numbers("Pss", pss + 1, peers - 1);
    printf("\n");
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
    memory[PID / sizeof(*memory)] = (uint64_t)getpid();
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
        if (vcqs > 1) /* the others create theirs first */
            nanosleep(&(struct timespec){.tv_sec = 3}, NULL);
        measure_peers(vcq, lcl);
        if ((party.size - 1) * vcqs >= MANY)
            measure_ends(vcq, lcl, (uint8_t *)memory);
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
    party_check(utofu_dereg_mem(vcq, lcl, 0), "utofu_dereg_mem");
    party_check(utofu_free_vcq(vcq), "utofu_free_vcq");
    for (uint32_t i = 1; party.rank > 0 && i < vcqs; i++)
        party_check(utofu_free_vcq(others[i]), "utofu_free_vcq");
    return 0;
}
