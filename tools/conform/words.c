/* SPDX-License-Identifier: Apache-2.0 */
/* Words that ARMWs change: see words.h. */
#include "words.h"
#include <string.h>

enum { APART = 16 };

static void fill_words(const struct cf_ends *e, const struct cf_change *changes, size_t count,
                       size_t at, size_t width)
{
    size_t i;
    memset(e->recv, 0xa5, e->size);
    for (i = 0; i < count; i++)
        memcpy(e->recv + i * APART + at, &changes[i].before, width);
}

static void check_words(struct cf *c, const struct cf_ends *e, const struct cf_change *changes,
                        size_t count, size_t at, size_t width)
{
    unsigned char expected[APART];
    size_t i;
    for (i = 0; i < count; i++) {
        memset(expected, 0xa5, APART);
        memcpy(expected + at, &changes[i].after, width);
        CF_NEED(c, memcmp(e->recv + i * APART, expected, APART) == 0,
                "word %lu: %#llx with operand %#llx is %#x... at %#x, or a neighbour has changed",
                (unsigned long)i, (unsigned long long)changes[i].before,
                (unsigned long long)changes[i].operand, e->recv[i * APART + at], expected[at]);
    }
}

void cf_try_changes(struct cf *c, enum cf_function f, enum utofu_armw_op op,
                    const struct cf_change *changes, size_t count, size_t at)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    size_t i;
    if (!cf_begin(c, &e, &b, count * APART))
        return;
    fill_words(&e, changes, count, at, cf_width(f));
    if (!cf_meet(c))
        return;
    for (i = 0; i < count; i++) {
        m = cf_comm_at(&e, f, 0, i * APART + at, 0);
        m.op = op;
        m.operand = changes[i].operand;
        m.compare = changes[i].compare;
        m.flags = CF_LCL;
        if (!cf_box_begin(&b, &m))
            return;
    }
    if (!cf_box_wait(&b, 0, count, 0))
        return;
    for (i = 0; i < count; i++)
        CF_NEED(c, b.lcl[i].notice.rmt_value == changes[i].before,
                "notice %lu has the value %#llx before, not %#llx", (unsigned long)i,
                (unsigned long long)b.lcl[i].notice.rmt_value,
                (unsigned long long)changes[i].before);
    if (!cf_meet(c))
        return;
    check_words(c, &e, changes, count, at, cf_width(f));
    cf_close(c, &e);
}

int cf_word_of_first(struct cf *c, const struct cf_ends *e, enum cf_function f, struct cf_comm *m)
{
    struct {
        utofu_vcq_id_t id;
        utofu_stadd_t recv;
    } mine, all[48];
    mine.id = e->id;
    mine.recv = e->recv_stadd;
    if (!cf_share(c, &mine, sizeof(mine), all))
        return 0;
    *m = cf_comm_at(e, f, 0, 0, 0);
    m->target = all[0].id;
    m->remote = all[0].recv;
    return 1;
}

int cf_change_word(struct cf_box *b, const struct cf_comm *m, uint64_t *before)
{
    b->lcls = 0; /* the first notice is that of this one */
    if (!cf_box_complete(b, *m))
        return 0;
    *before = b->lcl[0].notice.rmt_value;
    return 1;
}

int cf_add_up(struct cf *c, uint64_t mine, uint64_t *sum)
{
    uint64_t all[48];
    int i;
    if (!cf_share(c, &mine, sizeof(mine), all))
        return 0;
    for (*sum = 0, i = 0; i < cf_size(c); i++)
        *sum += all[i];
    return 1;
}
