/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the bytes that a put or get moves: see transfers.h. */
#include "transfers.h"
#include <string.h>

enum { MAX_MOVES = 256 };

/* Carries out all communications, and checks all memory of the target */
static void carry_out(struct cf *c, struct cf_ends *e, struct cf_box *b, struct cf_comm *m,
                      size_t count)
{
    size_t i;
    for (i = 0; i < count; i++) {
        m[i].flags = CF_LCL;
        if (!cf_box_begin(b, m + i))
            return;
    }
    if (cf_box_wait(b, 0, count, 0) && cf_meet(c) && cf_check_recv(c, e, m, count))
        cf_close(c, e);
}

void cf_try_lengths(struct cf *c, enum cf_function f, const size_t *lengths, size_t count,
                    size_t slot)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m[MAX_MOVES];
    size_t i;
    if (!cf_begin(c, &e, &b, slot * count + 64))
        return;
    for (i = 0; i < count; i++)
        m[i] = cf_comm_at(&e, f, slot * i + 3, slot * i + 6, lengths[i]);
    carry_out(c, &e, &b, m, count);
}

void cf_try_length(struct cf *c, enum cf_function f, size_t length)
{
    cf_try_lengths(c, f, &length, 1, length + 64);
}

void cf_try_longest(struct cf *c, enum cf_function f)
{
    const struct utofu_onesided_caps *caps = cf_caps(c);
    if (caps != NULL)
        cf_try_length(c, f, caps->max_putget_size > 16777215 ? 16777215 : caps->max_putget_size);
}

void cf_try_short_lengths(struct cf *c, enum cf_function f)
{
    size_t lengths[64], i;
    for (i = 0; i < 64; i++)
        lengths[i] = i + 1;
    cf_try_lengths(c, f, lengths, 64, 80);
}

void cf_try_packets(struct cf *c, enum cf_function f)
{
    const struct utofu_onesided_caps *caps = cf_caps(c);
    if (caps != NULL)
        cf_try_multiples(c, f, caps->max_mtu, 4);
}

void cf_try_multiples(struct cf *c, enum cf_function f, size_t unit, size_t multiples)
{
    size_t lengths[MAX_MOVES], i;
    for (i = 0; i < multiples; i++) {
        lengths[3 * i] = unit * (i + 1) - 1;
        lengths[3 * i + 1] = unit * (i + 1);
        lengths[3 * i + 2] = unit * (i + 1) + 1;
    }
    cf_try_lengths(c, f, lengths, 3 * multiples, unit * (multiples + 1) + 16);
}

void cf_try_places(struct cf *c, enum cf_function f, size_t length)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m[MAX_MOVES];
    size_t i, slot = length + 40;
    if (!cf_begin(c, &e, &b, MAX_MOVES * slot + 64))
        return;
    for (i = 0; i < MAX_MOVES; i++)
        m[i] = cf_comm_at(&e, f, i * slot / 16 * 16 + i % 16, i * slot / 16 * 16 + i / 16, length);
    carry_out(c, &e, &b, m, MAX_MOVES);
}

void cf_try_random(struct cf *c, enum cf_function f, size_t max)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m[100];
    uint32_t seed = 0, all[48], lcl, rmt, length, slot = (uint32_t)max * 2;
    size_t i;
    if (!cf_begin(c, &e, &b, 100 * (size_t)slot + 64))
        return;
    /* The processes move alike: by the numbers of rank 0 */
    seed = cf_random(c, 0x7fffffff);
    if (!cf_share(c, &seed, sizeof(seed), all))
        return;
    for (i = 0, seed = all[0]; i < 100; i++) {
        lcl = (seed = seed * 1103515245u + 12345u) / 65536 % (uint32_t)max;
        rmt = (seed = seed * 1103515245u + 12345u) / 65536 % (uint32_t)max;
        length = (seed = seed * 1103515245u + 12345u) / 65536 % (uint32_t)max + 1;
        m[i] = cf_comm_at(&e, f, i * slot + lcl, i * slot + rmt, length);
    }
    carry_out(c, &e, &b, m, 100);
}

/* Reports what the box has of the communication that was started last, and how often it was
 * accepted */
static void tell_outcome(struct cf *c, const struct cf_box *b)
{
    size_t i;
    if (b->tcqs == 0 && b->lcls == 0 && b->rmts == 0 && b->bads == 0)
        cf_saw(c, "no entry");
    for (i = 0; i < b->tcqs && i < CF_BOX; i++)
        cf_saw(c, b->tcq[i].code == UTOFU_SUCCESS ? "TCQ SUCCESS" : "TCQ error");
    for (i = 0; i < b->lcls && i < CF_BOX; i++)
        cf_saw(c, "local notice");
    for (i = 0; i < b->rmts && i < CF_BOX; i++)
        cf_saw(c, "remote notice");
}

void cf_tell_code(struct cf *c, const char *where, int code)
{
    char words[64];
    const char *name = cf_code(code);
    size_t i, at = strlen(where);
    memcpy(words, where, at);
    for (i = 0; name[i] != '\0' && name[i] != ' ' && at + 1 < sizeof(words); i++)
        words[at++] = name[i] == '_' ? '-' : name[i];
    words[at] = '\0';
    cf_saw(c, words);
}

void cf_see_refusal(struct cf *c, struct cf_ends *e, struct cf_box *b, struct cf_comm m)
{
    size_t i;
    int rc;
    b->errors_allowed = 1;
    m.flags |= CF_ALL;
    rc = cf_box_start(b, &m);
    cf_tell_code(c, "returns ", rc);
    if (!cf_meet(c))
        return;
    cf_box_watch(b, rc == UTOFU_SUCCESS ? 0.2 : 0.05);
    tell_outcome(c, b);
    for (i = 0; i < b->tcqs && i < CF_BOX; i++)
        if (b->tcq[i].code != UTOFU_SUCCESS)
            cf_tell_code(c, "TCQ ", b->tcq[i].code);
    for (i = 0; i < b->bads && i < CF_BOX; i++)
        cf_tell_code(c, "MRQ ", b->bad[i].code);
    for (i = 0; i < e->size && e->recv[i] == 0; i++)
        ;
    cf_saw(c, i < e->size ? "memory changed" : "memory unchanged");
}

void cf_see_zero(struct cf *c, enum cf_function f)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    if (!cf_begin(c, &e, &b, 8192))
        return;
    m = cf_comm_to_next(&e, f);
    m.length = 0;
    cf_see_refusal(c, &e, &b, m);
    cf_close(c, &e);
}

/* What each process tells of its ends */
struct address {
    utofu_vcq_id_t id;
    utofu_stadd_t send, recv;
};

void cf_try_all_pairs(struct cf *c, enum cf_function f, size_t bytes)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    struct address mine, all[48];
    size_t i, at, size = (size_t)cf_size(c), rank = (size_t)cf_rank(c);
    if (!cf_begin(c, &e, &b, bytes * size))
        return;
    mine.id = e.id;
    mine.send = e.send_stadd;
    mine.recv = e.recv_stadd;
    if (!cf_share(c, &mine, sizeof(mine), all))
        return;
    for (i = 0; i < size; i++) {
        m = cf_comm_at(&e, f, i * bytes, rank * bytes, bytes);
        m.target = all[i].id;
        m.remote = (cf_is_get(f) ? all[i].send : all[i].recv) + rank * bytes;
        m.flags = CF_LCL;
        if (!cf_box_begin(&b, &m))
            return;
    }
    if (!cf_box_wait(&b, 0, size, 0) || !cf_meet(c))
        return;
    for (i = 0; i < size;
         i++) { /* slot i is from rank i, whose slot for this process has these bytes */
        at = cf_differs(e.recv + i * bytes, (int)i, rank * bytes, bytes);
        CF_HOLDS(c, at == bytes, "byte %lu of those of rank %lu differs", (unsigned long)at,
                 (unsigned long)i);
    }
    cf_close(c, &e);
}

void cf_try_all_tnis(struct cf *c, enum cf_function f)
{
    enum { TNIS = 6 };
    struct cf_ends e[TNIS];
    struct cf_box b;
    struct cf_comm m, all[TNIS];
    size_t i, j;
    for (i = 0; i < TNIS; i++)
        if (!cf_open(c, &e[i], i, 0, TNIS * 256))
            return;
    for (i = 0; i < TNIS; i++) {
        for (j = 0; j < TNIS; j++) { /* slot i of what the VCQ of TNI j puts, or gets */
            m = cf_comm_at(&e[i], f, (cf_is_get(f) ? j : i) * 256, (cf_is_get(f) ? j : i) * 256,
                           200);
            m.target = e[j].next_id;
            m.remote = (cf_is_get(f) ? e[j].next_send : e[j].next_recv) + m.rmt_at;
            cf_box_open(&b, c, e[i].vcq);
            if (!cf_box_complete(&b, m))
                return;
        }
    }
    if (!cf_meet(c))
        return;
    for (i = 0; i < TNIS; i++) {
        for (j = 0; j < TNIS; j++)
            all[j] = cf_comm_at(&e[i], f, j * 256, j * 256, 200);
        cf_check_recv(c, &e[i], all, TNIS);
    }
    for (i = TNIS; i-- > 0;)
        cf_close(c, &e[i]);
}

void cf_try_two_vcqs(struct cf *c, enum cf_function f)
{
    struct cf_ends e, other;
    struct cf_box b, idle;
    struct cf_comm m;
    if (!cf_begin(c, &e, &b, 8192) || !cf_begin(c, &other, &idle, 8192))
        return;
    m = cf_comm_to_next(&e, f);
    m.flags = CF_ALL;
    if (!cf_box_begin(&b, &m) || !cf_box_exact(&b, m.blocks, m.blocks, m.blocks) ||
        !cf_box_exact(&idle, 0, 0, 0))
        return;
    cf_check_recv(c, &e, &m, 1);
    cf_check_recv(c, &other, NULL, 0);
    cf_close(c, &other);
    cf_close(c, &e);
}
