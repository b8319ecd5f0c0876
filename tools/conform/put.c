/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of utofu_put(): what it moves, and what its notices say of the memory at both ends
 * (2.2.3, 3.7, 3.7.1.1). */
#include "families.h"
#include "transfers.h"
#include <string.h>

CF_FAMILY(put, CF_PUT);

/* ---- Lengths and places ---- */
CF_RUN(run_lengths_small, cf_try_short_lengths(c, CF_PUT));
CF_RUN(run_lengths_lines, cf_try_multiples(c, CF_PUT, 128, 8));
CF_RUN(run_lengths_packets, cf_try_packets(c, CF_PUT));
CF_RUN(run_lengths_pages, cf_try_multiples(c, CF_PUT, 65536, 2));
CF_RUN(run_length_1_mib, cf_try_length(c, CF_PUT, 1048576));
CF_RUN(run_length_max, cf_try_longest(c, CF_PUT));
CF_RUN(run_places, cf_try_places(c, CF_PUT, 37));
CF_RUN(run_random, cf_try_random(c, CF_PUT, 3000));
CF_RUN(run_zero, cf_see_zero(c, CF_PUT));
CF_RUN(run_all_pairs, cf_try_all_pairs(c, CF_PUT, 1000));
CF_RUN(run_all_tnis, cf_try_all_tnis(c, CF_PUT));
CF_RUN(run_two_vcqs, cf_try_two_vcqs(c, CF_PUT));

/* ---- What an entry says of the source ---- */
/* Puts 'bytes' of the value of each round into a slot of its own; the source is overwritten as soon
   as the TCQ entry is there, or at once */
static void put_and_overwrite(struct cf *c, size_t bytes, size_t rounds, int at_once)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    size_t i, j, olds;
    if (!cf_begin(c, &e, &b, bytes * rounds))
        return;
    for (i = 0; i < rounds; i++) {
        memset(e.send, (int)i + 1, bytes);
        m = cf_comm_at(&e, CF_PUT, 0, i * bytes, bytes);
        m.flags = CF_TCQ | CF_LCL;
        if (!cf_box_begin(&b, &m) || (!at_once && !cf_box_wait(&b, i + 1, 0, 0)))
            return;
        memset(e.send, 0xee, bytes);
        if (at_once && !cf_box_wait(&b, i + 1, i + 1, 0))
            return;
    }
    if (!cf_box_wait(&b, rounds, rounds, 0) || !cf_meet(c))
        return;
    for (i = 0; i < rounds; i++) {
        for (j = 0, olds = 0; j < bytes; j++)
            olds += e.recv[i * bytes + j] == i + 1;
        if (at_once)
            cf_saw(c, olds == bytes ? "old bytes" : olds == 0 ? "new bytes" : "mixed bytes");
        else
            CF_HOLDS(c, olds == bytes,
                     "%lu of %lu bytes of round %lu are those before the TCQ entry",
                     (unsigned long)olds, (unsigned long)bytes, (unsigned long)i);
    }
    cf_close(c, &e);
}

CF_RUN(run_tcq_source_8, put_and_overwrite(c, 8, 200, 0));
CF_RUN(run_tcq_source_1000, put_and_overwrite(c, 1000, 100, 0));
CF_RUN(run_tcq_source_256_kib, put_and_overwrite(c, 262144, 16, 0));
CF_RUN(run_early_source_8, put_and_overwrite(c, 8, 200, 1));
CF_RUN(run_early_source_64_kib, put_and_overwrite(c, 65536, 50, 1));

/* ---- What a notice says of the target ---- */
/* Looks at the data of each remote notice that has come: one slot of so many bytes each */
static void look_at_slots(struct cf *c, const struct cf_ends *e, struct cf_box *b, size_t bytes,
                          size_t *seen)
{
    size_t at;
    for (; *seen < b->rmts; ++*seen) {
        at = cf_differs(e->recv + *seen * bytes, cf_prev(c), *seen * bytes, bytes);
        CF_HOLDS(c, at == bytes, "at remote notice %lu byte %lu of the data is missing",
                 (unsigned long)*seen, (unsigned long)at);
    }
}

static void put_and_look(struct cf *c, size_t bytes, size_t rounds)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    size_t i, seen = 0;
    if (!cf_begin(c, &e, &b, bytes * rounds))
        return;
    for (i = 0; i < rounds; i++) {
        m = cf_comm_at(&e, CF_PUT, i * bytes, i * bytes, bytes);
        m.flags = CF_RMT;
        if (!cf_box_begin(&b, &m))
            return;
        cf_box_look(&b);
        look_at_slots(c, &e, &b, bytes, &seen);
    }
    while (seen < rounds && cf_box_wait(&b, 0, 0, seen + 1))
        look_at_slots(c, &e, &b, bytes, &seen);
    if (seen == rounds)
        cf_close(c, &e);
}

CF_RUN(run_remote_notice_8, put_and_look(c, 8, 200));
CF_RUN(run_remote_notice_3000, put_and_look(c, 3000, 100));
CF_RUN(run_remote_notice_256_kib, put_and_look(c, 262144, 16));

/* After the local notice of a put, a get of the same bytes finds them */
static void put_and_get_back(struct cf *c, size_t bytes, size_t rounds)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m, back;
    unsigned char *copy = cf_alloc(bytes);
    utofu_stadd_t stadd;
    size_t i, j;
    int rc;
    if (!cf_begin(c, &e, &b, bytes))
        goto out;
    rc = utofu_reg_mem(e.vcq, copy, bytes, 0, &stadd);
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "utofu_reg_mem() returned %s", cf_code(rc));
    if (rc != UTOFU_SUCCESS)
        goto out;
    for (i = 0; i < rounds && !cf_failed(c); i++) {
        memset(e.send, (int)i + 1, bytes);
        m = cf_comm_at(&e, CF_PUT, 0, 0, bytes);
        back = m;
        back.function = CF_GET;
        back.local = stadd;
        if (!cf_box_complete(&b, m) || !cf_box_complete(&b, back))
            break;
        for (j = 0; j < bytes && copy[j] == i + 1; j++)
            ;
        CF_HOLDS(c, j == bytes, "after the local notice of round %lu byte %lu was %u",
                 (unsigned long)i + 1, (unsigned long)j, copy[j < bytes ? j : 0]);
    }
    rc = utofu_dereg_mem(e.vcq, stadd, 0);
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "utofu_dereg_mem() returned %s", cf_code(rc));
    cf_close(c, &e);
out:
    cf_free(copy);
}

CF_RUN(run_local_notice_8, put_and_get_back(c, 8, 200));
CF_RUN(run_local_notice_64_kib, put_and_get_back(c, 65536, 50));

/* One STADD serves any number of communications */
static void run_stadd_reused(struct cf *c)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    size_t i;
    if (!cf_begin(c, &e, &b, 8192))
        return;
    for (i = 0; i < 1000; i++) {
        m = cf_comm_at(&e, CF_PUT, i, 2 * i, 3000);
        m.flags = CF_TCQ;
        if (i % 200 == 0 && !cf_box_wait(&b, i, 0, 0))
            return;
        if (!cf_box_begin(&b, &m))
            return;
    }
    m = cf_comm_at(&e, CF_PUT, 0, 0, 8192);
    m.flags = UTOFU_ONESIDED_FLAG_STRONG_ORDER;
    if (cf_box_wait(&b, 1000, 0, 0) && cf_box_complete(&b, m) && cf_meet(c) &&
        cf_check_recv(c, &e, &m, 1))
        cf_close(c, &e);
}

/* ---- The example of 5.1.1, in a ring ---- */
static void pass_token(struct cf *c, int by_notice)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    volatile uint64_t *word;
    uint64_t lap, laps = 50, value = 0;
    int first = cf_rank(c) == 0;
    if (!cf_begin(c, &e, &b, 8192))
        return;
    word = (volatile uint64_t *)(void *)e.recv;
    m = cf_comm_at(&e, CF_PUT, 0, 0, sizeof(uint64_t));
    m.flags = CF_TCQ | CF_LCL | (by_notice ? CF_RMT : 0);
    for (lap = 1; lap <= laps; lap++) {
        if (!first) {
            if (by_notice ? !cf_box_wait(&b, 0, 0, lap) : !cf_word(e.vcq, word, lap))
                break;
            value = *word;
        }
        memcpy(e.send, &lap, sizeof(lap));
        m.edata = lap;
        m.cbdata = (void *)(uintptr_t)lap;
        if (!cf_box_begin(&b, &m) || !cf_box_wait(&b, lap, lap, 0))
            return;
        if (first) {
            if (by_notice ? !cf_box_wait(&b, 0, 0, lap) : !cf_word(e.vcq, word, lap))
                break;
            value = *word;
        }
        CF_NEED(c, value == lap, "the token of lap %lu has %lu", (unsigned long)lap,
                (unsigned long)value);
        CF_NEED(c, b.tcq[lap - 1].cbdata == m.cbdata && b.lcl[lap - 1].notice.edata == lap,
                "lap %lu: wrong callback data or EDATA", (unsigned long)lap);
    }
    CF_NEED(c, lap > laps, "the token of lap %lu did not come", (unsigned long)lap);
    cf_close(c, &e);
}

CF_RUN(run_example_notice, pass_token(c, 1));
CF_RUN(run_example_memory, pass_token(c, 0));

static const struct cf_case cases[] = {
    CF_FAMILY_CASES(put, "put", "3.7.1.1", 17, 0, "puts the bytes", 19),
    {"put-lengths-1-64", "2.2.3", 1, CF_PROMISED, 0,
     "Puts of each length from 1 to 64 bytes move these bytes and no others.", run_lengths_small},
    {"put-lengths-lines", "2.2.3", 1, CF_PROMISED, 0,
     "Puts around multiples of 128 bytes move their bytes and no others.", run_lengths_lines},
    {"put-lengths-packets", "2.2.9", 3, CF_PROMISED, 0,
     "Data of more than an MTU are moved in packets, and arrive as a whole.", run_lengths_packets},
    {"put-lengths-pages", "2.2.3", 1, CF_PROMISED, 0,
     "Puts around multiples of 64 KiB move their bytes and no others.", run_lengths_pages},
    {"put-length-1-mib", "2.2.3", 1, CF_PROMISED, 0, "A put of 1 MiB moves its bytes.",
     run_length_1_mib},
    {"put-length-max", "3.7.1.1", 11, CF_PROMISED, CF_SLOW, "A put may have max_putget_size bytes.",
     run_length_max},
    {"put-places", "2.2.3", 4, CF_PROMISED, 0,
     "The STADDs give the first byte of source and target, whatever their alignment.", run_places},
    {"put-random", "2.2.3", 5, CF_PROMISED, 0,
     "100 puts of random lengths between random places arrive.", run_random},
    {"put-zero", "3.7.1.1", 0, CF_UNSAID, 0, "What does a put of 0 bytes return and report?",
     run_zero},
    {"put-all-pairs", "2.2.1", 14, CF_PROMISED, 0,
     "The VCQ id of any process lets this one put there, itself included.", run_all_pairs},
    {"put-all-tnis", "2.2.3", 3, CF_PROMISED, 0,
     "Handle and VCQ id select the TNIs: each TNI puts to each.", run_all_tnis},
    {"put-two-vcqs", "2.2.1", 6, CF_PROMISED, 0,
     "The completion of a put is notified to its VCQ alone, at both ends.", run_two_vcqs},
    {"put-tcq-source-8", "2.2.3", 16, CF_PROMISED, 0,
     "After the TCQ entry a source of 8 bytes may be overwritten.", run_tcq_source_8},
    {"put-tcq-source-1000", "2.2.10", 12, CF_PROMISED, 0,
     "After the TCQ entry a source of 1000 bytes may be overwritten.", run_tcq_source_1000},
    {"put-tcq-source-256-kib", "3.7", 8, CF_PROMISED, 0,
     "After the TCQ entry a source of 256 KiB may be overwritten.", run_tcq_source_256_kib},
    {"put-early-source-8", "3.7", 16, CF_OPEN, 0,
     "A source of 8 bytes that is overwritten before the TCQ entry: old or new bytes arrive.",
     run_early_source_8},
    {"put-early-source-64-kib", "3.7", 16, CF_OPEN, 0,
     "A source of 64 KiB that is overwritten before the TCQ entry: old or new bytes arrive.",
     run_early_source_64_kib},
    {"put-remote-notice-8", "2.2.3", 21, CF_PROMISED, 0,
     "At the remote notice the 8 bytes of the put are in memory.", run_remote_notice_8},
    {"put-remote-notice-3000", "2.2.10", 13, CF_PROMISED, 0,
     "At the remote notice all 3000 bytes of the put are in memory.", run_remote_notice_3000},
    {"put-remote-notice-256-kib", "3.7", 14, CF_PROMISED, 0,
     "At the remote notice all 256 KiB of the put are in memory.", run_remote_notice_256_kib},
    {"put-local-notice-8", "2.2.3", 25, CF_PROMISED, 0,
     "At the local notice the target has the 8 bytes: a get finds them.", run_local_notice_8},
    {"put-local-notice-64-kib", "3.7", 10, CF_PROMISED, 0,
     "At the local notice the target has all 64 KiB: a get finds them.", run_local_notice_64_kib},
    {"put-stadd-reused", "2.2.2", 8, CF_PROMISED, 0,
     "A STADD serves 1000 communications and offsets.", run_stadd_reused},
    {"put-example-notice", "5.1.1", 4, CF_PROMISED, 0,
     "A token that the processes pass on, each time at the remote notice, goes round.",
     run_example_notice},
    {"put-example-memory", "5.1.1", 5, CF_PROMISED, 0,
     "A token that the processes pass on when the word in memory has changed goes round.",
     run_example_memory},
};
CF_GROUP(put_group, "put", cases);
