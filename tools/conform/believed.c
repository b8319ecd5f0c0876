/* SPDX-License-Identifier: Apache-2.0 */
/* Cases for beliefs that no sentence of the manual is about. Their answers judge beliefs.c. */
#include "circuit.h"
#include "conform.h"
#include "owned.h"
#include <string.h>

struct where {
    uint8_t coords[6];
    uint16_t known;
};

/* How many processes this node has, and how many of them have a lower rank. 0 if that is not known.
 */
static int find_place(struct cf *c, int *local, int *processes)
{
    struct where mine, all[48];
    int rank;
    memset(&mine, 0, sizeof(mine));
    mine.known = utofu_query_my_coords(mine.coords) == UTOFU_SUCCESS;
    if (!cf_share(c, &mine, sizeof(mine), all))
        return 0;
    *local = *processes = 0;
    for (rank = 0; rank < cf_size(c); rank++)
        if (memcmp(&all[rank], &mine, sizeof(mine)) == 0) {
            *local += rank < cf_rank(c);
            ++*processes;
        }
    return mine.known;
}

/* The number that programs expect of the first CQ of a process, with up to four of them on a node
 */
static void number_of_first_cq(struct cf *c)
{
    static const int numbers[4][4] = {{0}, {0, 6}, {0, 4, 8}, {0, 2, 5, 8}};
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t id;
    utofu_tni_id_t tni;
    utofu_cq_id_t cq;
    uint8_t coords[6];
    uint16_t extra;
    int local, processes, rc;
    if (!find_place(c, &local, &processes) || !cf_tni(c, 0, &tni))
        return;
    rc = cf_create_vcq_with_cmp_id(tni, 1, 0, &vcq);
    if (rc == UTOFU_ERR_FULL || rc == UTOFU_ERR_USED) {
        cf_skip(c, "no VCQ with a component id: %s", cf_code(rc));
        return;
    }
    CF_NEED(c, rc == UTOFU_SUCCESS, "utofu_create_vcq_with_cmp_id() returned %s", cf_code(rc));
    rc = utofu_query_vcq_id(vcq, &id);
    CF_NEED(c, rc == UTOFU_SUCCESS, "utofu_query_vcq_id() returned %s", cf_code(rc));
    rc = utofu_query_vcq_info(id, coords, &tni, &cq, &extra);
    CF_NEED(c, rc == UTOFU_SUCCESS, "utofu_query_vcq_info() returned %s", cf_code(rc));
    cf_number(c, "first CQ", cq);
    cf_number(c, "processes of a node", processes);
    if (processes > 4)
        cf_skip(c, "more than four processes on a node");
    else
        cf_saw(c,
               cq == numbers[processes - 1][local] ? "the number of the table" : "another number");
}

static void components_of_a_cq(struct cf *c)
{
    utofu_cq_id_t cq[2];
    utofu_tni_id_t tni;
    int i, rc;
    if (!cf_tni(c, 0, &tni))
        return;
    for (i = 0; i < 2; i++) {
        utofu_vcq_hdl_t vcq;
        utofu_vcq_id_t id;
        uint8_t coords[6];
        uint16_t extra;
        rc = cf_create_vcq_with_cmp_id(tni, (utofu_cmp_id_t)i, 0, &vcq);
        if (rc == UTOFU_ERR_FULL || rc == UTOFU_ERR_USED) {
            cf_skip(c, "no VCQ with component id %d: %s", i, cf_code(rc));
            return;
        }
        CF_NEED(c, rc == UTOFU_SUCCESS, "utofu_create_vcq_with_cmp_id() returned %s", cf_code(rc));
        rc = utofu_query_vcq_id(vcq, &id);
        CF_NEED(c, rc == UTOFU_SUCCESS, "utofu_query_vcq_id() returned %s", cf_code(rc));
        rc = utofu_query_vcq_info(id, coords, &tni, &cq[i], &extra);
        CF_NEED(c, rc == UTOFU_SUCCESS, "utofu_query_vcq_info() returned %s", cf_code(rc));
    }
    cf_saw(c, cq[0] == cq[1] ? "one CQ" : "two CQs");
}

static void response_flag(struct cf *c)
{
    struct cf_ends e;
    struct utofu_mrq_notice notice;
    int rc;
    if (cf_open(c, &e, 0, 0, 256)) {
        CF_RETRY(rc, e.vcq,
                 utofu_put(e.vcq, e.next_id, e.send_stadd, e.next_recv, 256, 0,
                           1UL << 1 | UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL));
        if (rc == UTOFU_SUCCESS)
            rc = cf_mrq(e.vcq, &notice);
        cf_saw(c, rc == UTOFU_SUCCESS ? "the put is done" : "the put fails");
        cf_meet(c);
        if (rc == UTOFU_SUCCESS)
            cf_saw(c, cf_differs(e.recv, cf_prev(c), 0, 256) == 256 ? "its data are there"
                                                                    : "its data are wrong");
    }
    cf_close(c, &e);
}

/* This process stores into the first word of a line, and the previous process puts to the last one.
 * Ends with a value in both. */
static void line_with_stores(struct cf *c)
{
    enum { ROUNDS = 20000 };
    struct cf_ends e;
    volatile uint64_t *words;
    uint64_t i, last = 0, *source;
    int rc = UTOFU_SUCCESS, on = cf_open(c, &e, 0, 0, 256);
    if (!on) {
        cf_close(c, &e);
        return;
    }
    words = (volatile uint64_t *)(void *)e.recv;
    source = (uint64_t *)(void *)e.send;
    on = cf_meet(c);
    for (i = 1; i <= ROUNDS && on && rc == UTOFU_SUCCESS; i++) {
        void *cbdata;
        words[0] = i;
        *source = i;
        CF_RETRY(rc, e.vcq,
                 utofu_put(e.vcq, e.next_id, e.send_stadd, e.next_recv + 248, 8, 0,
                           UTOFU_ONESIDED_FLAG_TCQ_NOTICE | UTOFU_ONESIDED_FLAG_STRONG_ORDER,
                           NULL));
        if (rc == UTOFU_SUCCESS)
            rc = cf_tcq(e.vcq, &cbdata);
        if (words[0] != i)
            cf_saw(c, "a store is lost");
        if (words[31] < last)
            cf_saw(c, "a put is lost");
        last = words[31];
    }
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "a put ended with %s", cf_code(rc));
    if (cf_meet(c)) {
        cf_word(e.vcq, &words[31], ROUNDS);
        cf_saw(c, words[0] == ROUNDS && words[31] == ROUNDS ? "both are there at the end"
                                                            : "one is lost at the end");
    }
    cf_close(c, &e);
}

/* ---- What the model of the network assumes: microseconds ---- */
enum { TIMES = 500 };

static void report_times(struct cf *c, const char *name, const double times[TIMES])
{
    double least = times[0], sum = 0;
    char text[64];
    int i;
    for (i = 0; i < TIMES; i++) {
        sum += times[i];
        least = times[i] < least ? times[i] : least;
    }
    strcpy(text, name);
    strcat(text, " least");
    cf_number(c, text, least * 1e6);
    strcpy(text, name);
    strcat(text, " mean");
    cf_number(c, text, sum / TIMES * 1e6);
}

/* From the call of a put to its TCQ entry, and to its local notice; by rank 0 alone, while the
 * others wait */
static void time_entries(struct cf *c)
{
    struct cf_ends e;
    double entry[TIMES], notice[TIMES];
    int i, rc = UTOFU_SUCCESS;
    if (cf_open(c, &e, 0, 0, 4096) && cf_rank(c) == 0) {
        for (i = 0; i < TIMES && rc == UTOFU_SUCCESS; i++) {
            struct utofu_mrq_notice seen;
            void *cbdata;
            double began = cf_now();
            rc = utofu_put(e.vcq, e.next_id, e.send_stadd, e.next_recv, 8, 0,
                           UTOFU_ONESIDED_FLAG_TCQ_NOTICE | UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE,
                           NULL);
            while (rc == UTOFU_SUCCESS &&
                   (rc = utofu_poll_tcq(e.vcq, 0, &cbdata)) == UTOFU_ERR_NOT_FOUND &&
                   cf_now() < began + 10)
                rc = UTOFU_SUCCESS;
            entry[i] = cf_now() - began;
            while (rc == UTOFU_SUCCESS &&
                   (rc = utofu_poll_mrq(e.vcq, 0, &seen)) == UTOFU_ERR_NOT_FOUND &&
                   cf_now() < began + 10)
                rc = UTOFU_SUCCESS;
            notice[i] = cf_now() - began;
        }
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "a put ended with %s", cf_code(rc));
        if (rc == UTOFU_SUCCESS) {
            report_times(c, "us to the TCQ entry", entry);
            report_times(c, "us to the local notice", notice);
        }
    }
    cf_meet(c);
    cf_close(c, &e);
}

/* Puts of 1 KiB by one thread through one TNI, and in turn through two */
static void time_two_tnis(struct cf *c)
{
    struct cf_ends e[2];
    int i, v, vcqs, rc = UTOFU_SUCCESS;
    int on = cf_open(c, &e[0], 0, 0, 1024);
    on = on && cf_open(c, &e[1], 1, 0, 1024);
    for (vcqs = 1; vcqs <= 2 && on && cf_rank(c) == 0; vcqs++) {
        double began = cf_now();
        for (i = 0; i < TIMES + 8 && rc == UTOFU_SUCCESS; i++) {
            void *cbdata;
            v = i % vcqs;
            if (i >= 8)
                rc = cf_tcq(e[v].vcq, &cbdata);
            if (i < TIMES && rc == UTOFU_SUCCESS)
                CF_RETRY(rc, e[v].vcq,
                         utofu_put(e[v].vcq, e[v].next_id, e[v].send_stadd, e[v].next_recv, 1024, 0,
                                   UTOFU_ONESIDED_FLAG_TCQ_NOTICE, NULL));
        }
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "a put ended with %s", cf_code(rc));
        cf_number(c, vcqs == 1 ? "us a put by one TNI" : "us a put by two TNIs",
                  (cf_now() - began) * 1e6 / TIMES);
    }
    cf_meet(c);
    if (on)
        cf_close(c, &e[1]);
    cf_close(c, &e[0]);
}

static void time_a_barrier(struct cf *c)
{
    struct cf_circuit circuit;
    double times[TIMES];
    int i, rc = UTOFU_SUCCESS;
    if (!cf_circuit_open(c, &circuit, CF_BUTTERFLY, 0, 0))
        return;
    for (i = 0; i < TIMES && rc == UTOFU_SUCCESS; i++) {
        double began = cf_now();
        rc = cf_circuit_barrier(circuit.id);
        times[i] = cf_now() - began;
    }
    CF_NEED(c, rc == UTOFU_SUCCESS, "a barrier ended with %s", cf_code(rc));
    report_times(c, "us a barrier", times);
}

static const struct cf_case cases[] = {
    {"believed-cq-number", "2.1.3", 0, CF_UNSAID, 0,
     "Has the first CQ of a process the number that programs expect which calculate VCQ ids?",
     number_of_first_cq},
    {"believed-component-cq", "3.3.1.2", 0, CF_UNSAID, CF_ALONE,
     "Are VCQs with component ids on one CQ?", components_of_a_cq},
    {"believed-response-flag", "3.7.9.1", 0, CF_UNSAID, 0,
     "Does bit 1 of the flags, which the published header calls PACKET_RESPONSE, leave a put as it "
     "is?",
     response_flag},
    {"believed-line-with-stores", "2.2.10", 0, CF_UNSAID, CF_RISKY | CF_SLOW,
     "Do stores of a CPU and puts to other words of the same line leave each other alone?",
     line_with_stores},
    {"believed-entry-time", "3.7.4.1", 0, CF_UNSAID, 0,
     "How long does a put of 8 bytes take to its TCQ entry and to its local notice?", time_entries},
    {"believed-two-tnis", "2.1.2", 0, CF_UNSAID, 0,
     "Does one thread put 1 KiB faster by two TNIs than by one?", time_two_tnis},
    {"believed-barrier-time", "2.3", 0, CF_UNSAID, CF_BARRIER, "How long does a barrier take?",
     time_a_barrier},
};
CF_GROUP(believed_group, "believed", cases);
