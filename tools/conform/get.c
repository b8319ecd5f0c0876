/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of utofu_get(): what it moves, and what its notices say of the memory at both ends
 * (2.2.4, 3.7, 3.7.1.7). */
#include "families.h"
#include "transfers.h"
#include <string.h>

CF_FAMILY(get, CF_GET);

/* ---- Lengths and places ---- */
CF_RUN(run_lengths_small, cf_try_short_lengths(c, CF_GET));
CF_RUN(run_lengths_lines, cf_try_multiples(c, CF_GET, 128, 8));
CF_RUN(run_lengths_packets, cf_try_packets(c, CF_GET));
CF_RUN(run_lengths_pages, cf_try_multiples(c, CF_GET, 65536, 2));
CF_RUN(run_length_1_mib, cf_try_length(c, CF_GET, 1048576));
CF_RUN(run_length_max, cf_try_longest(c, CF_GET));
CF_RUN(run_places, cf_try_places(c, CF_GET, 37));
CF_RUN(run_random, cf_try_random(c, CF_GET, 3000));
CF_RUN(run_zero, cf_see_zero(c, CF_GET));
CF_RUN(run_all_pairs, cf_try_all_pairs(c, CF_GET, 1000));
CF_RUN(run_all_tnis, cf_try_all_tnis(c, CF_GET));
CF_RUN(run_two_vcqs, cf_try_two_vcqs(c, CF_GET));

/* ---- What a notice says of the memory ---- */
/* Each round gets a slot; the owner overwrites it as soon as its remote notice is there */
static void overwrite_read(const struct cf_ends *e, const struct cf_box *b, size_t bytes,
                           size_t *done)
{
    for (; *done < b->rmts; ++*done)
        memset(e->send + *done * bytes, 0xee, bytes);
}

static void get_overwritten(struct cf *c, size_t bytes, size_t rounds)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    size_t i, at, done = 0;
    if (!cf_begin(c, &e, &b, bytes * rounds))
        return;
    for (i = 0; i < rounds; i++) {
        m = cf_comm_at(&e, CF_GET, i * bytes, i * bytes, bytes);
        m.flags = CF_LCL | CF_RMT;
        if (!cf_box_begin(&b, &m))
            return;
        cf_box_look(&b);
        overwrite_read(&e, &b, bytes, &done);
    }
    while (done < rounds && cf_box_wait(&b, 0, 0, done + 1))
        overwrite_read(&e, &b, bytes, &done);
    if (done < rounds || !cf_box_wait(&b, 0, rounds, rounds))
        return;
    at = cf_differs(e.recv, cf_next(c), 0, bytes * rounds);
    CF_HOLDS(c, at == bytes * rounds, "byte %lu of get %lu is not that before the remote notice",
             (unsigned long)(at % bytes), (unsigned long)(at / bytes));
    cf_close(c, &e);
}

CF_RUN(run_remote_notice_8, get_overwritten(c, 8, 200));
CF_RUN(run_remote_notice_3000, get_overwritten(c, 3000, 100));
CF_RUN(run_remote_notice_256_kib, get_overwritten(c, 262144, 16));

/* Each round gets a slot, and looks at it as soon as the entry is there */
static void get_and_look(struct cf *c, size_t bytes, size_t rounds, unsigned long flag)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    size_t i, at;
    if (!cf_begin(c, &e, &b, bytes * rounds))
        return;
    for (i = 0; i < rounds; i++) {
        m = cf_comm_at(&e, CF_GET, i * bytes, i * bytes, bytes);
        m.flags = CF_LCL | CF_TCQ;
        if (!cf_box_begin(&b, &m) ||
            !(flag == CF_LCL ? cf_box_wait(&b, 0, i + 1, 0) : cf_box_wait(&b, i + 1, 0, 0)))
            return;
        at = cf_differs(e.recv + i * bytes, cf_next(c), i * bytes, bytes);
        if (flag == CF_LCL)
            CF_HOLDS(c, at == bytes, "at local notice %lu byte %lu is missing", (unsigned long)i,
                     (unsigned long)at);
        else
            cf_saw(c, at == bytes ? "all bytes there" : "some bytes missing");
    }
    if (cf_box_wait(&b, rounds, rounds, 0))
        cf_close(c, &e);
}

CF_RUN(run_local_notice_8, get_and_look(c, 8, 200, CF_LCL));
CF_RUN(run_local_notice_3000, get_and_look(c, 3000, 100, CF_LCL));
CF_RUN(run_local_notice_256_kib, get_and_look(c, 262144, 16, CF_LCL));
CF_RUN(run_early_target_8, get_and_look(c, 8, 200, CF_TCQ));
CF_RUN(run_early_target_64_kib, get_and_look(c, 65536, 50, CF_TCQ));

/* ---- The example of 5.1.2: what a CPU stores is got later ---- */
static void run_example(struct cf *c)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    volatile uint64_t *step, *seen;
    uint64_t before = 0;
    size_t i;
    if (!cf_begin(c, &e, &b, 8192))
        return;
    step = (volatile uint64_t *)(void *)e.send;
    seen = (volatile uint64_t *)(void *)e.recv;
    *step = 0;
    m = cf_comm_at(&e, CF_GET, 0, 0, sizeof(*step));
    m.flags = CF_LCL;
    if (!cf_meet(c))
        return;
    for (i = 1; i <= 200; i++) { /* the numbers fit into one byte */
        *step = i;
        if (!cf_box_begin(&b, &m) || !cf_box_wait(&b, 0, i, 0))
            return;
        CF_NEED(c, *seen >= before && *seen <= 200, "after step %lu a get has step %lu",
                (unsigned long)before, (unsigned long)*seen);
        before = *seen;
    }
    if (!cf_meet(c) || !cf_box_complete(&b, m))
        return;
    CF_HOLDS(c, *seen == 200, "a get after the last step has step %lu", (unsigned long)*seen);
    cf_close(c, &e);
}

static const struct cf_case cases[] = {
    CF_FAMILY_CASES(get, "get", "3.7.1.7", 17, 0, "gets the bytes", 19),
    {"get-lengths-1-64", "2.2.4", 1, CF_PROMISED, 0,
     "Gets of each length from 1 to 64 bytes move these bytes and no others.", run_lengths_small},
    {"get-lengths-lines", "2.2.4", 1, CF_PROMISED, 0,
     "Gets around multiples of 128 bytes move their bytes and no others.", run_lengths_lines},
    {"get-lengths-packets", "2.2.9", 3, CF_PROMISED, 0,
     "Data of more than an MTU are moved in packets, and arrive as a whole.", run_lengths_packets},
    {"get-lengths-pages", "2.2.4", 1, CF_PROMISED, 0,
     "Gets around multiples of 64 KiB move their bytes and no others.", run_lengths_pages},
    {"get-length-1-mib", "2.2.4", 1, CF_PROMISED, 0, "A get of 1 MiB moves its bytes.",
     run_length_1_mib},
    {"get-length-max", "3.7.1.7", 11, CF_PROMISED, CF_SLOW, "A get may have max_putget_size bytes.",
     run_length_max},
    {"get-places", "2.2.4", 4, CF_PROMISED, 0,
     "The STADDs give the first byte of source and target, whatever their alignment.", run_places},
    {"get-random", "2.2.4", 5, CF_PROMISED, 0,
     "100 gets of random lengths between random places arrive.", run_random},
    {"get-zero", "3.7.1.7", 0, CF_UNSAID, 0, "What does a get of 0 bytes return and report?",
     run_zero},
    {"get-all-pairs", "2.2.1", 14, CF_PROMISED, 0,
     "The VCQ id of any process lets this one get from there, itself included.", run_all_pairs},
    {"get-all-tnis", "2.2.4", 3, CF_PROMISED, 0,
     "Handle and VCQ id select the TNIs: each TNI gets from each.", run_all_tnis},
    {"get-two-vcqs", "2.2.1", 6, CF_PROMISED, 0,
     "The completion of a get is notified to its VCQ alone, at both ends.", run_two_vcqs},
    {"get-remote-notice-8", "2.2.4", 20, CF_PROMISED, 0,
     "After the remote notice a source of 8 bytes may be overwritten.", run_remote_notice_8},
    {"get-remote-notice-3000", "2.2.10", 14, CF_PROMISED, 0,
     "After the remote notice a source of 3000 bytes may be overwritten.", run_remote_notice_3000},
    {"get-remote-notice-256-kib", "3.7", 15, CF_PROMISED, 0,
     "After the remote notice a source of 256 KiB may be overwritten.", run_remote_notice_256_kib},
    {"get-local-notice-8", "2.2.4", 25, CF_PROMISED, 0,
     "At the local notice the 8 bytes are in memory.", run_local_notice_8},
    {"get-local-notice-3000", "2.2.10", 15, CF_PROMISED, 0,
     "At the local notice all 3000 bytes are in memory.", run_local_notice_3000},
    {"get-local-notice-256-kib", "3.7", 11, CF_PROMISED, 0,
     "At the local notice all 256 KiB are in memory.", run_local_notice_256_kib},
    {"get-early-target-8", "3.7", 17, CF_OPEN, 0,
     "At the TCQ entry of a get of 8 bytes the data are there or not.", run_early_target_8},
    {"get-early-target-64-kib", "3.7", 17, CF_OPEN, 0,
     "At the TCQ entry of a get of 64 KiB the data are there or not.", run_early_target_64_kib},
    {"get-example", "5.1.2", 3, CF_PROMISED, 0,
     "Gets of a counter that its owner raises never see it fall, and the last one sees its end.",
     run_example},
};
CF_GROUP(get_group, "get", cases);
