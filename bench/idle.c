/* SPDX-License-Identifier: Apache-2.0 */
/*
 * idle SECONDS
 *
 * What a process costs that has connected VCQs on all TNIs and does nothing: its CPU time, and how
 * often it woke up.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "measure.h"
#include "party.h"

enum { TNIS = 6, STAG = 1, SIZE = 4096 };

struct use {
    double cpu_ms;
    long switches;
};

static struct use look(void)
{
    struct rusage r;

    getrusage(RUSAGE_SELF, &r);
    return (struct use){(double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1e3 +
                            (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1e-3,
                        r.ru_nvcsw + r.ru_nivcsw};
}

int main(int argc, char **argv)
{
    utofu_vcq_hdl_t vcqs[TNIS];
    utofu_stadd_t lcl[TNIS], rmt;
    uint8_t *memory = aligned_alloc(SIZE, SIZE);

    if (argc != 2)
        party_usage_error("idle", "give the number of seconds");
    long seconds = bench_number("idle", argv[1], 1, 3600);
    party_open("idle", 2, 60);
    if (!memory)
        party_fail(1, "no memory");
    memset(memory, 0, SIZE);
    for (utofu_tni_id_t t = 0; t < TNIS; t++) {
        party_check(utofu_create_vcq_with_cmp_id(t, 0, 0, &vcqs[t]),
                    "utofu_create_vcq_with_cmp_id");
        party_check(utofu_reg_mem_with_stag(vcqs[t], memory, SIZE, STAG, 0, &lcl[t]),
                    "utofu_reg_mem_with_stag");
    }
    for (utofu_tni_id_t t = 0; t < TNIS; t++) {
        utofu_vcq_id_t peer = party_vcq_id((party.rank + 1) % party.size, t, 0);
        party_check(utofu_query_stadd(peer, STAG, &rmt), "utofu_query_stadd");
        party_put_word(vcqs[t], peer, rmt, 1);
    }
    party_barrier();
    struct use before = look(), *all = calloc(party.size, sizeof(*all));
    if (!all)
        party_fail(1, "no memory");
    nanosleep(&(struct timespec){.tv_sec = seconds}, NULL);
    struct use after = look(),
               mine = {after.cpu_ms - before.cpu_ms, after.switches - before.switches};
    party_gather(&mine, sizeof(mine), all, false);
    for (uint32_t r = 0; r < party.size && party.rank == 0; r++)
        printf("rank %u, %ld s with %d connected VCQs: %.3f ms of CPU, %ld context switches\n", r,
               seconds, TNIS, all[r].cpu_ms, all[r].switches);
    free(all);
    party_barrier();
    for (utofu_tni_id_t t = 0; t < TNIS; t++) {
        utofu_dereg_mem(vcqs[t], lcl[t], 0);
        utofu_free_vcq(vcqs[t]);
    }
    party_close();
    return 0;
}
