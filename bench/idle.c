/* SPDX-License-Identifier: Apache-2.0 */
/*
 * idle SECONDS
 *
 * The cost of an idle process with connected VCQs on all TNIs, one of them in session mode with a
 * waiting descriptor: its CPU time, and how often it woke up.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "measure.h"
#include "party.h"

enum { TNIS = 6, VCQS = TNIS + 1, SESSION = TNIS, STAG = 1, SIZE = 4096 };

struct use {
    double cpu_ms;
    long switches;
};

static struct use read_usage(void)
{
    struct rusage r;

    getrusage(RUSAGE_SELF, &r);
    return (struct use){(double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1e3 +
                            (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1e-3,
                        r.ru_nvcsw + r.ru_nivcsw};
}

/* Each process starts a put of the next process's session-mode VCQ, which shows that session mode
 * works; then another descriptor waits. */
static void wait_in_session(const utofu_vcq_hdl_t vcqs[], const utofu_stadd_t lcl[],
                            utofu_vcq_id_t next, utofu_stadd_t rmt, uint8_t *memory)
{
    const unsigned int from = 64, relayed = 128, arrives = 192; /* offsets */
    uint32_t spins = 0;
    void *cbdata;

    memory[from] = 1;
    for (int i = 0; i < 2; i++)
        party_check(
            utofu_put(vcqs[SESSION], next, lcl[SESSION] + relayed, rmt + arrives, 8, 0, 0, NULL),
            "utofu_put");
    party_check(utofu_put(vcqs[0], next, lcl[0] + from, rmt + relayed, 8, 0,
                          UTOFU_ONESIDED_FLAG_SPS(1), NULL),
                "utofu_put");
    while (!__atomic_load_n((uint64_t *)(void *)(memory + arrives), __ATOMIC_ACQUIRE)) {
        int rc = utofu_poll_tcq(vcqs[SESSION], 0, &cbdata);
        party_check(rc == UTOFU_ERR_NOT_FOUND ? UTOFU_SUCCESS : rc, "utofu_poll_tcq");
        party_idle(&spins, "a put in session mode");
    }
}

int main(int argc, char **argv)
{
    utofu_vcq_hdl_t vcqs[VCQS];
    utofu_stadd_t lcl[VCQS], rmt;
    uint8_t *memory = aligned_alloc(SIZE, SIZE);

    if (argc != 2)
        party_usage_error("idle", "give the number of seconds");
    long seconds = bench_number("idle", argv[1], 1, 3600);
    party_open("idle", 2, 60);
    if (!memory)
        party_fail(1, "no memory");
    memset(memory, 0, SIZE);
    for (utofu_tni_id_t t = 0; t < VCQS; t++) {
        if (t == SESSION)
            party_check(utofu_create_vcq(0, UTOFU_VCQ_FLAG_SESSION_MODE, &vcqs[t]),
                        "utofu_create_vcq in session mode");
        else
            party_check(utofu_create_vcq_with_cmp_id(t, 0, 0, &vcqs[t]),
                        "utofu_create_vcq_with_cmp_id");
        party_check(utofu_reg_mem_with_stag(vcqs[t], memory, SIZE, STAG, 0, &lcl[t]),
                    "utofu_reg_mem_with_stag");
    }
    utofu_vcq_id_t *ids = calloc(party.size, sizeof(*ids)), session;
    if (!ids)
        party_fail(1, "no memory");
    party_check(utofu_query_vcq_id(vcqs[SESSION], &session), "utofu_query_vcq_id");
    party_gather(&session, sizeof(session), ids, false);
    uint32_t next = (party.rank + 1) % party.size;
    for (utofu_tni_id_t t = 0; t < TNIS; t++) {
        utofu_vcq_id_t peer = party_vcq_id(next, t, 0);
        party_check(utofu_query_stadd(peer, STAG, &rmt), "utofu_query_stadd");
        party_put_word(vcqs[t], peer, rmt, 1);
    }
    party_check(utofu_query_stadd(ids[next], STAG, &rmt), "utofu_query_stadd");
    wait_in_session(vcqs, lcl, ids[next], rmt, memory);
    party_barrier();
    struct use before = read_usage(), *all = calloc(party.size, sizeof(*all));
    if (!all)
        party_fail(1, "no memory");
    nanosleep(&(struct timespec){.tv_sec = seconds}, NULL);
    struct use after = read_usage(),
               mine = {after.cpu_ms - before.cpu_ms, after.switches - before.switches};
    party_gather(&mine, sizeof(mine), all, false);
    for (uint32_t r = 0; r < party.size && party.rank == 0; r++)
        printf(
            "rank %u, %ld s with %d connected VCQs: %.3f ms of CPU, %ld context switches, %.4f %% "
            "of a core\n",
            r, seconds, VCQS, all[r].cpu_ms, all[r].switches, all[r].cpu_ms / (double)seconds / 10);
    free(all);
    free(ids);
    party_barrier();
    for (utofu_tni_id_t t = 0; t < VCQS; t++) {
        party_check(utofu_dereg_mem(vcqs[t], lcl[t], 0), "utofu_dereg_mem");
        party_check(utofu_free_vcq(vcqs[t]), "utofu_free_vcq");
    }
    party_close();
    return 0;
}
