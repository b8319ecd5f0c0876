/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of limits: what the capabilities say against what works, and much at a time
 * (3.2.2.1, 6.1.2). */
#include "families.h"
#include "transfers.h"

/* ---- Much at a time ---- */
/* So many communications with notices at both ends, started without waiting for any */
static void start_many(struct cf *c, enum cf_function f, size_t length, size_t count)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    size_t i, slots = 16, slot = (length + 255) / 256 * 256;
    if (!cf_begin(c, &e, &b, slots * slot))
        return;
    for (i = 0; i < count; i++) {
        m = cf_comm_at(&e, f, i % slots * slot, i % slots * slot, length);
        m.flags = CF_ALL;
        m.edata = i % 256;
        if (!cf_box_begin(&b, &m))
            return;
    }
    if (!cf_box_exact(&b, count, count, count))
        return;
    for (i = 0; i < slots && i < count; i++) {
        size_t at =
            cf_differs(e.recv + i * slot, cf_is_get(f) ? cf_next(c) : cf_prev(c), i * slot, length);
        CF_HOLDS(c, at == length, "byte %lu of slot %lu differs", (unsigned long)at,
                 (unsigned long)i);
    }
    cf_close(c, &e);
}

CF_RUN(run_many_puts, start_many(c, CF_PUT, 8, 5000));
CF_RUN(run_many_gets, start_many(c, CF_GET, 8, 5000));
CF_RUN(run_large_puts, start_many(c, CF_PUT, 1048576, 64));
CF_RUN(run_large_gets, start_many(c, CF_GET, 1048576, 64));

/* All processes put to process 0 at a time */
static void run_incast(struct cf *c)
{
    enum { BYTES = 1000, ROUNDS = 200 };
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    struct {
        utofu_vcq_id_t id;
        utofu_stadd_t recv;
    } mine, all[48];
    size_t i, at, slot = (size_t)cf_rank(c) * BYTES;
    if (!cf_begin(c, &e, &b, (size_t)cf_size(c) * BYTES))
        return;
    mine.id = e.id;
    mine.recv = e.recv_stadd;
    if (!cf_share(c, &mine, sizeof(mine), all))
        return;
    m = cf_comm_at(&e, CF_PUT, slot, slot, BYTES);
    m.target = all[0].id;
    m.remote = all[0].recv + slot;
    m.flags = CF_LCL;
    for (i = 0; i < ROUNDS; i++)
        if (!cf_box_begin(&b, &m))
            return;
    if (!cf_box_exact(&b, 0, ROUNDS, 0))
        return;
    for (i = 0; cf_rank(c) == 0 && i < (size_t)cf_size(c); i++) {
        at = cf_differs(e.recv + i * BYTES, (int)i, i * BYTES, BYTES);
        CF_HOLDS(c, at == BYTES, "byte %lu of process %lu differs", (unsigned long)at,
                 (unsigned long)i);
    }
    cf_close(c, &e);
}

/* Every process exchanges with both neighbours at a time, through one VCQ */
static void run_both_neighbours(struct cf *c)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m[2];
    size_t i, at;
    if (!cf_begin(c, &e, &b, 8192))
        return;
    m[0] = cf_comm_at(&e, CF_PUT, 0, 0, 3000);
    m[1] = cf_comm_at(&e, CF_PUT, 4096, 4096, 3000);
    m[1].target = e.prev_id;
    m[1].remote = e.prev_recv + 4096;
    for (i = 0; i < 100; i++) {
        m[i % 2].flags = CF_LCL | CF_RMT;
        if (!cf_box_begin(&b, &m[i % 2]))
            return;
    }
    if (!cf_box_exact(&b, 0, 100, 100))
        return;
    at = cf_differs(e.recv, cf_prev(c), 0, 3000);
    CF_HOLDS(c, at == 3000, "byte %lu of the previous process differs", (unsigned long)at);
    at = cf_differs(e.recv + 4096, cf_next(c), 4096, 3000);
    CF_HOLDS(c, at == 3000, "byte %lu of the next process differs", (unsigned long)at);
    cf_close(c, &e);
}

/* How many regions a VCQ has at a time, up to 1000; a put reads from each */
static void run_regions(struct cf *c)
{
    enum { REGIONS = 1000, APART = 4096 };
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    unsigned char *memory = cf_alloc((size_t)REGIONS * APART);
    utofu_stadd_t stadds[REGIONS];
    size_t i, count;
    int rc = UTOFU_SUCCESS;
    if (!cf_begin(c, &e, &b, 8192))
        goto out;
    for (count = 0; count < REGIONS; count++) {
        rc = utofu_reg_mem(e.vcq, memory + count * APART, 64, 0, &stadds[count]);
        if (rc != UTOFU_SUCCESS)
            break;
    }
    if (count < REGIONS)
        cf_tell_code(c, "then ", rc);
    cf_number(c, "regions up to 1000", (double)count);
    for (i = 0; i < count && !cf_failed(c); i++) {
        m = cf_comm_at(&e, CF_PUT, 0, 0, 64);
        m.local = stadds[i];
        m.flags = CF_LCL;
        cf_box_begin(&b, &m);
    }
    cf_box_wait(&b, 0, count, 0);
    for (i = 0; i < count; i++) {
        rc = utofu_dereg_mem(e.vcq, stadds[i], 0);
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "utofu_dereg_mem() returned %s", cf_code(rc));
    }
    cf_close(c, &e);
out:
    cf_free(memory);
}

/* 100000 local notices wait in an MRQ of the size that 4.3.2.3 gives it by default */
static void run_notices(struct cf *c)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    size_t i;
    int rc;
    if (!cf_begin(c, &e, &b, 8192))
        return;
    m = cf_comm_at(&e, CF_PIGGYBACK8, 0, 0, 8);
    m.flags = CF_LCL;
    for (i = 0; i < 100000; i++) {
        CF_RETRY(rc, e.vcq, cf_start(&m));
        CF_NEED(c, rc == UTOFU_SUCCESS, "start %lu returned %s", (unsigned long)i, cf_code(rc));
    }
    if (cf_meet(c) && cf_box_exact(&b, 0, 100000, 0))
        cf_close(c, &e);
}

static const struct cf_case cases[] = {
    {"many-puts", "3.7", 4, CF_PROMISED, CF_SLOW,
     "5000 puts that follow each other have all their entries.", run_many_puts},
    {"many-gets", "3.7", 4, CF_PROMISED, CF_SLOW,
     "5000 gets that follow each other have all their entries.", run_many_gets},
    {"many-large-puts", "2.2.12", 1, CF_PROMISED, CF_SLOW, "64 puts of 1 MiB at a time arrive.",
     run_large_puts},
    {"many-large-gets", "2.2.12", 1, CF_PROMISED, CF_SLOW, "64 gets of 1 MiB at a time arrive.",
     run_large_gets},
    {"many-incast", "2.2.12", 1, CF_PROMISED, 0,
     "Puts of all processes to one process at a time arrive.", run_incast},
    {"many-both-neighbours", "5.1.4", 1, CF_PROMISED, 0,
     "Processes exchange with both neighbours at a time.", run_both_neighbours},
    {"many-regions", "2.2.2", 10, CF_OPEN, CF_SLOW,
     "A VCQ has many regions at a time; their number is limited.", run_regions},
    {"many-notices", "3.7", 31, CF_PROMISED, CF_SLOW | CF_RISKY,
     "100000 notices have room in an MRQ of 131072 entries.", run_notices},
};
CF_GROUP(limits_group, "limits", cases);
