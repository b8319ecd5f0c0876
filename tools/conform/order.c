/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of order: what memory, TCQ and MRQ show first, with and without STRONG_ORDER
 * (2.2.10, 6.1.3.1). */
#include "families.h"
#include "transfers.h"
#include <string.h>

/* Each process puts to the next one and watches what the previous one puts, round after round: the
   bytes of a round are its number. An answer of 8 bytes behind the data tells the origin that its
   round was seen. */
struct lane {
    struct cf_ends e;
    struct cf_box b;
    size_t bytes;              /* of 'send' and 'recv' before the words for answers */
    volatile uint64_t *answer; /* the number of the round that the next process has seen */
    uint64_t round;
};

static int open_lane(struct cf *c, struct lane *l, size_t bytes)
{
    l->bytes = (bytes + 511) / 256 * 256;
    l->round = 0;
    if (!cf_begin(c, &l->e, &l->b, l->bytes + 512))
        return 0;
    l->answer = (volatile uint64_t *)(void *)(l->e.recv + l->bytes + 256);
    return 1;
}

/* Waits until the round before was seen, and fills the source with the number of the next one */
static int begin_round(struct cf *c, struct lane *l)
{
    double until = cf_deadline();
    while (*l->answer != l->round && cf_now() < until)
        cf_box_look(&l->b);
    CF_HOLDS(c, *l->answer == l->round, "round %lu was not answered", (unsigned long)l->round);
    l->round++;
    memset(l->e.send, (int)(l->round % 251 + 1), l->bytes);
    return !cf_failed(c);
}

static unsigned char find_mark(const struct lane *l)
{
    return (unsigned char)(l->round % 251 + 1);
}

/* Waits until a byte of the target has the number of the round. Not 0 if it has. */
static int watch_byte(struct cf *c, struct lane *l, const unsigned char *at)
{
    const volatile unsigned char *byte = at;
    double until = cf_deadline();
    unsigned turns = 0;
    while (*byte != find_mark(l) && cf_now() < until)
        if (++turns % 64 == 0 || cf_size(c) > 2)
            cf_box_look(&l->b);
    CF_HOLDS(c, *byte == find_mark(l), "byte %lu of round %lu did not come",
             (unsigned long)(at - l->e.recv), (unsigned long)l->round);
    return !cf_failed(c);
}

/* How many bytes of an area of the target are not those of the round. A look from both ends, at one
   byte of 64, comes first: a communication may still run, and any part of it may be the last. */
static size_t count_missing(const struct lane *l, const unsigned char *from, size_t bytes)
{
    const volatile unsigned char *area = from;
    unsigned char mark = find_mark(l);
    size_t i, missing = 0;
    for (i = 0; i < bytes; i += 64)
        missing += (area[bytes - 1 - i] != mark) + (area[i] != mark);
    if (missing)
        return missing;
    for (i = 0; i < bytes; i++)
        missing += area[i] != mark;
    return missing;
}

/* Ends the round at the target: waits until all of the area is there, and answers */
static int end_round(struct cf *c, struct lane *l, const unsigned char *from, size_t bytes)
{
    struct cf_comm m;
    double until = cf_deadline();
    while (count_missing(l, from, bytes) && cf_now() < until)
        cf_box_look(&l->b);
    CF_HOLDS(c, count_missing(l, from, bytes) == 0, "round %lu is not complete",
             (unsigned long)l->round);
    m = cf_comm_at(&l->e, CF_PIGGYBACK8, 0, l->bytes + 256, sizeof(uint64_t));
    m.target = l->e.prev_id;
    m.remote = l->e.prev_recv + l->bytes + 256;
    m.data8 = l->round;
    return !cf_failed(c) && cf_box_begin(&l->b, &m);
}

static void tell_missing(struct cf *c, const struct lane *l, size_t missing, int promised)
{
    if (promised)
        CF_HOLDS(c, missing == 0, "round %lu: %lu bytes are missing", (unsigned long)l->round,
                 (unsigned long)missing);
    else
        cf_saw(c, missing ? "bytes missing" : "all bytes there");
}

/* ---- One communication ---- */
/* The target looks at the byte 'watched' of a put of so many bytes, and then at 'bytes' from 'from'
 * on */
struct look {
    size_t length, watched, from, bytes, rounds;
    size_t lcl_at, rmt_at;
    int two_pages; /* the source lies over a border of 64 KiB, with its last 56 bytes behind it */
    unsigned long flags;
    int promised;
};

static void look_at_put(struct cf *c, const struct look *k)
{
    struct lane l;
    struct cf_comm m;
    size_t i;
    size_t lcl_at = k->lcl_at;
    if (!open_lane(c, &l, k->length + k->lcl_at + k->rmt_at + (k->two_pages ? 131072 : 0)))
        return;
    if (k->two_pages)
        lcl_at = 131072 - (uintptr_t)l.e.send % 65536 - (k->length - 56);
    m = cf_comm_at(&l.e, CF_PUT, lcl_at, k->rmt_at, k->length);
    m.flags = k->flags | CF_TCQ;
    for (i = 0; i < k->rounds && !cf_failed(c); i++) {
        const unsigned char *target = l.e.recv + k->rmt_at;
        if (!begin_round(c, &l) || !cf_box_begin(&l.b, &m) ||
            !watch_byte(c, &l, target + k->watched))
            return;
        tell_missing(c, &l, count_missing(&l, target + k->from, k->bytes), k->promised);
        if (!end_round(c, &l, target, k->length) || !cf_box_wait(&l.b, i + 1, 0, 0))
            return;
    }
    if (begin_round(c, &l))
        cf_close(c, &l.e);
}

static void look_at_last_byte(struct cf *c, size_t length, size_t at, size_t rounds, int strong)
{
    struct look k;
    k.length = length;
    k.watched = length - 1;
    k.from = 0;
    k.bytes = length;
    k.rounds = rounds;
    k.lcl_at = k.rmt_at = at;
    k.two_pages = 0;
    k.flags = strong ? UTOFU_ONESIDED_FLAG_STRONG_ORDER : 0;
    k.promised = strong;
    look_at_put(c, &k);
}

CF_RUN(run_strong_300, look_at_last_byte(c, 300, 0, 200, 1));
CF_RUN(run_strong_4000, look_at_last_byte(c, 4000, 40, 150, 1));
CF_RUN(run_strong_60000, look_at_last_byte(c, 60000, 8, 60, 1));
CF_RUN(run_weak_4000, look_at_last_byte(c, 4000, 40, 150, 0));
CF_RUN(run_weak_60000, look_at_last_byte(c, 60000, 8, 60, 0));

/* One line of the cache, of which one byte is watched */
static void look_at_line(struct cf *c, int first, int promised)
{
    const struct utofu_onesided_caps *caps = cf_caps(c);
    struct look k;
    if (caps == NULL)
        return;
    k.length = caps->cache_line_size;
    k.watched = first ? 0 : k.length - 1;
    k.from = 0;
    k.bytes = k.length;
    k.rounds = 200;
    k.lcl_at = k.rmt_at = 0;
    k.two_pages = 0;
    k.flags = 0;
    k.promised = promised;
    look_at_put(c, &k);
}

CF_RUN(run_line_last, look_at_line(c, 0, 1));
CF_RUN(run_line_first, look_at_line(c, 1, 0));

/* A line whose source lies in two pages: at its last byte, and at its first one */
static void look_at_pages(struct cf *c, size_t watched)
{
    struct look k = {256, 0, 0, 256, 200, 0, 0, 1, 0, 0};
    k.watched = watched;
    look_at_put(c, &k);
}

CF_RUN(run_page_last, look_at_pages(c, 255));
CF_RUN(run_page_first, look_at_pages(c, 0));

/* The source of the last line lies in two pages, and the target looks at its last byte */
static void run_strong_pages(struct cf *c)
{
    struct look k = {5000, 4999, 0, 5000, 150, 0, 120, 1, UTOFU_ONESIDED_FLAG_STRONG_ORDER, 1};
    look_at_put(c, &k);
}

/* The target looks at the first byte of the last line, and then at the other lines */
static void run_strong_any_byte(struct cf *c)
{
    const struct utofu_onesided_caps *caps = cf_caps(c);
    struct look k = {4096, 0, 0, 0, 200, 0, 0, 0, UTOFU_ONESIDED_FLAG_STRONG_ORDER, 1};
    if (caps == NULL)
        return;
    k.watched = k.bytes = k.length - caps->cache_line_size;
    look_at_put(c, &k);
}

/* A put of many lines: the last byte of each line, in any order, and then its line */
static void run_each_line(struct cf *c)
{
    const struct utofu_onesided_caps *caps = cf_caps(c);
    struct lane l;
    struct cf_comm m;
    size_t i, at, line, bytes = 8192;
    if (caps == NULL || !open_lane(c, &l, bytes))
        return;
    line = caps->cache_line_size;
    m = cf_comm_at(&l.e, CF_PUT, 0, 0, bytes);
    m.flags = CF_TCQ;
    for (i = 0; i < 200; i++) {
        if (!begin_round(c, &l) || !cf_box_begin(&l.b, &m))
            return;
        for (at = i % 2 ? 0 : bytes - line; at < bytes; at += i % 2 ? line : (size_t)0 - line) {
            if (!watch_byte(c, &l, l.e.recv + at + line - 1))
                return;
            tell_missing(c, &l, count_missing(&l, l.e.recv + at, line), 1);
        }
        if (!end_round(c, &l, l.e.recv, bytes) || !cf_box_wait(&l.b, i + 1, 0, 0))
            return;
    }
    if (begin_round(c, &l))
        cf_close(c, &l.e);
}

/* A get of the numbers of a source that is filled before: the last byte, then all */
static void look_at_get(struct cf *c, size_t length, size_t rounds, int strong)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    const volatile unsigned char *last;
    double until;
    size_t i, at;
    if (!cf_begin(c, &e, &b, length + 256))
        return;
    last = e.recv + length - 1;
    m = cf_comm_at(&e, CF_GET, 0, 0, length);
    m.flags = CF_LCL | (strong ? UTOFU_ONESIDED_FLAG_STRONG_ORDER : 0);
    for (i = 1; i <= rounds && !cf_failed(c); i++) {
        memset(e.recv, ~cf_pattern(cf_next(c), length - 1), length);
        if (!cf_box_begin(&b, &m))
            return;
        for (until = cf_deadline();
             *last != cf_pattern(cf_next(c), length - 1) && cf_now() < until;)
            cf_box_look(&b);
        for (at = 0; at < length && e.recv[at] == cf_pattern(cf_next(c), at); at++)
            ;
        if (strong)
            CF_HOLDS(c, at == length, "byte %lu was missing at the last byte", (unsigned long)at);
        else
            cf_saw(c, at == length ? "all bytes there" : "bytes missing");
        if (!cf_box_wait(&b, 0, i, 0))
            return;
    }
    if (cf_meet(c))
        cf_close(c, &e);
}

CF_RUN(run_get_strong_300, look_at_get(c, 300, 200, 1));
CF_RUN(run_get_strong_60000, look_at_get(c, 60000, 60, 1));
CF_RUN(run_get_weak_60000, look_at_get(c, 60000, 60, 0));

/* ---- One communication behind another ---- */
/* Data without the flag, then 8 bytes of the round behind them with it: at the second the first are
 * there */
static void look_behind(struct cf *c, enum cf_function second, size_t length, size_t rounds,
                        unsigned long flags, unsigned path)
{
    struct lane l;
    struct cf_comm data, flag;
    utofu_path_id_t id = 0;
    uint8_t coords[3] = {0, 0, 0};
    size_t i, at = (length + 255) / 256 * 256;
    int promised = (flags & UTOFU_ONESIDED_FLAG_STRONG_ORDER) != 0 && !path;
    if (!open_lane(c, &l, at + 256))
        return;
    data = cf_comm_at(&l.e, CF_PUT, 0, 0, length);
    data.flags = CF_TCQ;
    flag = cf_comm_at(&l.e, second, at, at, 8);
    flag.op = UTOFU_ARMW_OP_SWAP;
    coords[1] = (uint8_t)(path % 3);
    coords[2] = (uint8_t)(path / 3);
    if (path && utofu_get_path_id(flag.target, coords, &id) != UTOFU_SUCCESS)
        cf_skip(c, "there is no other path");
    flag.flags = flags | UTOFU_ONESIDED_FLAG_PATH(id);
    for (i = 0; i < rounds && !cf_failed(c); i++) {
        if (!begin_round(c, &l))
            return;
        memset(&flag.operand, find_mark(&l), 8);
        flag.data8 = flag.operand;
        if (!cf_box_begin(&l.b, &data) || !cf_box_begin(&l.b, &flag) ||
            !watch_byte(c, &l, l.e.recv + at))
            return;
        tell_missing(c, &l, count_missing(&l, l.e.recv, length), promised);
        if (!end_round(c, &l, l.e.recv, length) || !cf_box_wait(&l.b, i + 1, 0, 0))
            return;
    }
    if (begin_round(c, &l))
        cf_close(c, &l.e);
}

#define STRONG UTOFU_ONESIDED_FLAG_STRONG_ORDER
CF_RUN(run_behind_put_64, look_behind(c, CF_PUT, 64, 200, STRONG, 0));
CF_RUN(run_behind_put_60000, look_behind(c, CF_PUT, 60000, 60, STRONG, 0));
CF_RUN(run_behind_piggyback, look_behind(c, CF_PIGGYBACK, 3000, 150, STRONG, 0));
CF_RUN(run_behind_piggyback8, look_behind(c, CF_PIGGYBACK8, 3000, 150, STRONG, 0));
CF_RUN(run_behind_armw, look_behind(c, CF_ARMW8, 3000, 150, STRONG, 0));
CF_RUN(run_weak_behind, look_behind(c, CF_PUT, 3000, 150, 0, 0));
CF_RUN(run_weak_behind_large, look_behind(c, CF_PIGGYBACK8, 60000, 60, 0, 0));
CF_RUN(run_other_path, look_behind(c, CF_PIGGYBACK8, 3000, 150, STRONG, 1));

/* At the second the first is executed: an ARMW without the flag, then a put with it */
static void run_behind_the_armw(struct cf *c)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm armw, put;
    const volatile uint64_t *word, *flag;
    uint64_t i;
    if (!cf_begin(c, &e, &b, 1024))
        return;
    word = (const volatile uint64_t *)(const void *)e.recv;
    flag = word + 64;
    armw = cf_comm_at(&e, CF_ARMW8, 0, 0, 0);
    armw.operand = 1;
    put = cf_comm_at(&e, CF_PIGGYBACK8, 0, 512, 8);
    put.flags = STRONG | CF_LCL;
    for (i = 1; i <= 200; i++) {
        put.data8 = i;
        if (!cf_box_begin(&b, &armw) || !cf_box_begin(&b, &put))
            return;
        CF_NEED(c, cf_word(e.vcq, flag, i), "put %lu did not come", (unsigned long)i);
        CF_NEED(c, *word >= i, "at put %lu there were %lu additions", (unsigned long)i,
                (unsigned long)*word);
        if (!cf_box_wait(&b, 0, i, 0) || !cf_meet(c)) /* one round at a time */
            return;
    }
    cf_close(c, &e);
}

/* A get with the flag finds what a put, or an ARMW, before it has written */
static void get_behind(struct cf *c, enum cf_function first, unsigned long flags)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m, get;
    uint64_t i, word;
    if (!cf_begin(c, &e, &b, 1024))
        return;
    m = cf_comm_at(&e, first, 0, 0, 8);
    m.op = UTOFU_ARMW_OP_SWAP;
    get = cf_comm_at(&e, CF_GET, 512, 0, 8);
    get.remote = e.next_recv;
    get.flags = flags | CF_LCL;
    for (i = 1; i <= 200; i++) {
        m.data8 = m.operand = i;
        if (!cf_box_begin(&b, &m) || !cf_box_begin(&b, &get) || !cf_box_wait(&b, 0, i, 0))
            return;
        memcpy(&word, e.recv + 512, sizeof(word));
        if (flags)
            CF_NEED(c, word == i, "get %lu found %lu", (unsigned long)i, (unsigned long)word);
        else
            cf_saw(c, word == i ? "the new word" : "an old word");
    }
    if (cf_meet(c))
        cf_close(c, &e);
}

CF_RUN(run_get_behind_put, get_behind(c, CF_PIGGYBACK8, STRONG));
CF_RUN(run_get_behind_armw, get_behind(c, CF_ARMW8, STRONG));
CF_RUN(run_weak_get_behind, get_behind(c, CF_PIGGYBACK8, 0));

/* Many puts to the same bytes: the last one stays */
static void put_over(struct cf *c, size_t length, unsigned long flags)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    size_t i, olds;
    if (!cf_begin(c, &e, &b, 64 * length))
        return;
    for (i = 0; i < 64; i++)
        memset(e.send + i * length, (int)i + 1, length);
    for (i = 0; i < 64; i++) {
        m = cf_comm_at(&e, CF_PUT, i * length, 0, length);
        m.flags = flags | CF_LCL;
        if (!cf_box_begin(&b, &m))
            return;
    }
    if (!cf_box_wait(&b, 0, 64, 0) || !cf_meet(c))
        return;
    for (i = 0, olds = 0; i < length; i++)
        olds += e.recv[i] != 64;
    if (flags)
        CF_HOLDS(c, olds == 0, "%lu bytes are not those of the last put", (unsigned long)olds);
    else
        cf_saw(c, olds ? "an earlier put stays" : "the last put stays");
    cf_close(c, &e);
}

CF_RUN(run_over_8, put_over(c, 8, STRONG));
CF_RUN(run_over_5000, put_over(c, 5000, STRONG));
CF_RUN(run_weak_over_8, put_over(c, 8, 0));
CF_RUN(run_weak_over_5000, put_over(c, 5000, 0));

/* Gets with the flag write in order: at the last byte of the second the first is there */
static void run_get_behind_get(struct cf *c)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm first, second;
    const volatile unsigned char *last;
    double until;
    size_t i, at;
    if (!cf_begin(c, &e, &b, 8192))
        return;
    first = cf_comm_at(&e, CF_GET, 0, 0, 4000);
    second = cf_comm_at(&e, CF_GET, 4096, 4096, 8);
    second.flags = STRONG | CF_LCL;
    last = e.recv + 4103;
    for (i = 1; i <= 200; i++) {
        memset(e.recv, ~cf_pattern(cf_next(c), 4103), e.size);
        if (!cf_box_begin(&b, &first) || !cf_box_begin(&b, &second))
            return;
        for (until = cf_deadline(); *last != cf_pattern(cf_next(c), 4103) && cf_now() < until;)
            cf_box_look(&b);
        at = cf_differs(e.recv, cf_next(c), 0, 4000);
        CF_NEED(c, at == 4000, "byte %lu of the first get was missing", (unsigned long)at);
        if (!cf_box_wait(&b, 0, i, 0))
            return;
    }
    if (cf_meet(c))
        cf_close(c, &e);
}

/* ---- Entries of different kinds and targets ---- */
static const enum cf_function kinds[] = {CF_PUT,     CF_GET,        CF_ARMW8,  CF_PIGGYBACK,
                                         CF_GET_GAP, CF_PIGGYBACK8, CF_CSWAP4, CF_PUT_GAP};

/* A row of all kinds to the next process, or to all by turns; 'seen' gives the queues that are
 * checked */
static void mix_kinds(struct cf *c, unsigned long seen, int all_targets)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    utofu_vcq_id_t ids[48];
    utofu_stadd_t recvs[48];
    size_t i, to, count = 200;
    int late = 0;
    if (!cf_begin(c, &e, &b, 8192) || !cf_share(c, &e.id, sizeof(e.id), ids) ||
        !cf_share(c, &e.recv_stadd, sizeof(e.recv_stadd), recvs))
        return;
    for (i = 0; i < count; i++) {
        m = cf_comm_to_next(&e, kinds[(i * 5 + i / 8) % 8]);
        to = all_targets ? i * 7 % (size_t)cf_size(c) : (size_t)cf_next(c);
        m.target = ids[to];
        m.remote = recvs[to] + m.rmt_at; /* a get from there reads what is there */
        m.flags = seen;
        m.edata = i;
        m.cbdata = (void *)(uintptr_t)i;
        if (!cf_box_begin(&b, &m))
            return;
    }
    if (!cf_box_wait(&b, seen & CF_TCQ ? count : 0, seen & CF_LCL ? count : 0,
                     seen & CF_RMT ? count : 0))
        return;
    for (i = 0; i < count; i++) {
        if (seen & CF_TCQ)
            CF_NEED(c, (uintptr_t)b.tcq[i].cbdata == i, "TCQ entry %lu is that of start %lu",
                    (unsigned long)i, (unsigned long)(uintptr_t)b.tcq[i].cbdata);
        if (seen & CF_RMT)
            CF_NEED(c, b.rmt[i].notice.edata == i, "remote notice %lu is that of start %lu",
                    (unsigned long)i, (unsigned long)b.rmt[i].notice.edata);
        if (seen & CF_LCL && !all_targets)
            CF_NEED(c, b.lcl[i].notice.edata == i, "local notice %lu is that of start %lu",
                    (unsigned long)i, (unsigned long)b.lcl[i].notice.edata);
        late += seen & CF_LCL && b.lcl[i].notice.edata != i;
    }
    if (all_targets && seen & CF_LCL)
        cf_saw(c, late ? "out of order" : "in order");
    if (cf_meet(c))
        cf_close(c, &e);
}

CF_RUN(run_kinds_tcq, mix_kinds(c, CF_TCQ, 0));
CF_RUN(run_kinds_tcq_targets, mix_kinds(c, CF_TCQ, 1));
CF_RUN(run_kinds_local, mix_kinds(c, CF_LCL, 0));
CF_RUN(run_kinds_remote, mix_kinds(c, CF_RMT, 0));
CF_RUN(run_kinds_all, mix_kinds(c, CF_ALL, 0));
CF_RUN(run_targets_local, mix_kinds(c, CF_LCL, 1));

/* A large communication, then a small one of the same kind: TCQ and notices keep the order all the
 * same */
static void small_behind_large(struct cf *c, enum cf_function f)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    size_t i;
    if (!cf_begin(c, &e, &b, 1048576))
        return;
    for (i = 0; i < 40; i++) {
        m = cf_comm_at(&e, f, 0, 0, i % 2 ? 8 : 1000000);
        m.flags = CF_ALL;
        m.edata = i;
        m.cbdata = (void *)(uintptr_t)i;
        if (!cf_box_begin(&b, &m))
            return;
    }
    if (!cf_box_wait(&b, 40, 40, 40))
        return;
    for (i = 0; i < 40; i++)
        CF_HOLDS(c,
                 (uintptr_t)b.tcq[i].cbdata == i && b.lcl[i].notice.edata == i &&
                     b.rmt[i].notice.edata == i,
                 "entries %lu are not those of communication %lu", (unsigned long)i,
                 (unsigned long)i);
    if (cf_meet(c))
        cf_close(c, &e);
}

CF_RUN(run_small_put, small_behind_large(c, CF_PUT));
CF_RUN(run_small_get, small_behind_large(c, CF_GET));

/* Does the remote notice of a put without the flag tell of the put before it, which has none? */
static void run_other_notice(struct cf *c)
{
    struct lane l;
    struct cf_comm data, last;
    size_t i;
    if (!open_lane(c, &l, 60000))
        return;
    data = cf_comm_at(&l.e, CF_PUT, 0, 0, 50000);
    last = cf_comm_at(&l.e, CF_PUT, 50000, 50000, 8);
    last.flags = CF_TCQ | CF_RMT;
    for (i = 1; i <= 100; i++) {
        if (!begin_round(c, &l) || !cf_box_begin(&l.b, &data) || !cf_box_begin(&l.b, &last) ||
            !cf_box_wait(&l.b, 0, 0, i))
            return;
        tell_missing(c, &l, count_missing(&l, l.e.recv, 50000), 0);
        if (!end_round(c, &l, l.e.recv, 50000) || !cf_box_wait(&l.b, i, 0, 0))
            return;
    }
    if (begin_round(c, &l))
        cf_close(c, &l.e);
}

static const struct cf_case cases[] = {
    {"order-strong-300", "6.1.3.1", 4, CF_PROMISED, 0,
     "With STRONG_ORDER the last line of a put of 300 bytes is written last.", run_strong_300},
    {"order-strong-4000", "6.1.3.1", 6, CF_PROMISED, 0,
     "With STRONG_ORDER the last byte of a put of 4000 bytes tells that all are there.",
     run_strong_4000},
    {"order-strong-60000", "6.1.3.1", 1, CF_PROMISED, 0,
     "With STRONG_ORDER the last byte of a put of 60000 bytes tells that all are there.",
     run_strong_60000},
    {"order-strong-pages", "6.1.3.1", 5, CF_PROMISED, 0,
     "With STRONG_ORDER, and a source of the last line in two pages, the last byte is written "
     "last.",
     run_strong_pages},
    {"order-strong-any-byte", "6.1.3.1", 7, CF_PROMISED, 0,
     "With STRONG_ORDER any byte of the last line tells that the other lines are there.",
     run_strong_any_byte},
    {"order-weak-4000", "2.2.10", 5, CF_OPEN, 0,
     "Without STRONG_ORDER the last byte of a put of 4000 bytes tells nothing of the others.",
     run_weak_4000},
    {"order-weak-60000", "2.2.10", 3, CF_OPEN, 0,
     "Without STRONG_ORDER the lines of a put of 60000 bytes are written in any order.",
     run_weak_60000},
    {"order-line-last", "2.2.10", 7, CF_PROMISED, 0,
     "At the last byte of a line all of the line is there.", run_line_last},
    {"order-line-first", "2.2.10", 6, CF_OPEN, 0,
     "A line is written at once, so that all of it is there at its first byte: how often it is "
     "not.",
     run_line_first},
    {"order-each-line", "2.2.10", 8, CF_PROMISED, 0,
     "Whoever looks at each line of a put knows that all of it is there.", run_each_line},
    {"order-page-last", "2.2.10", 4, CF_OPEN, 0,
     "The last byte of a line whose source lies in two pages tells nothing of the others.",
     run_page_last},
    {"order-page-first", "2.2.10", 4, CF_OPEN, 0,
     "The first byte of a line whose source lies in two pages tells nothing of the others.",
     run_page_first},
    {"order-get-strong-300", "6.1.3.1", 2, CF_PROMISED, 0,
     "With STRONG_ORDER the last byte of a get of 300 bytes tells that all are there.",
     run_get_strong_300},
    {"order-get-strong-60000", "6.1.3.1", 6, CF_PROMISED, 0,
     "With STRONG_ORDER the last byte of a get of 60000 bytes tells that all are there.",
     run_get_strong_60000},
    {"order-get-weak-60000", "2.2.10", 3, CF_OPEN, 0,
     "Without STRONG_ORDER the lines of a get of 60000 bytes are written in any order.",
     run_get_weak_60000},
    {"order-behind-put-64", "2.2.10", 21, CF_PROMISED, 0,
     "A put with STRONG_ORDER is written behind a put of 64 bytes before it.", run_behind_put_64},
    {"order-behind-put-60000", "2.2.10", 21, CF_PROMISED, 0,
     "A put with STRONG_ORDER is written behind a put of 60000 bytes before it.",
     run_behind_put_60000},
    {"order-behind-piggyback", "2.2.10", 20, CF_PROMISED, 0,
     "A piggyback put with STRONG_ORDER is written behind a put before it.", run_behind_piggyback},
    {"order-behind-piggyback8", "3.7.9.1", 10, CF_PROMISED, 0,
     "A piggyback put of a value with STRONG_ORDER is written behind a put before it.",
     run_behind_piggyback8},
    {"order-behind-armw", "2.2.10", 17, CF_PROMISED, CF_ARMW,
     "An ARMW with STRONG_ORDER is written behind a put before it.", run_behind_armw},
    {"order-behind-the-armw", "2.2.10", 21, CF_PROMISED, CF_ARMW,
     "A put with STRONG_ORDER is written behind an ARMW before it.", run_behind_the_armw},
    {"order-get-behind-put", "3.7.9.1", 10, CF_PROMISED, 0,
     "A get with STRONG_ORDER reads what a put before it has written.", run_get_behind_put},
    {"order-get-behind-armw", "3.7.9.1", 10, CF_PROMISED, CF_ARMW,
     "A get with STRONG_ORDER reads what an ARMW before it has written.", run_get_behind_armw},
    {"order-get-behind-get", "2.2.10", 21, CF_PROMISED, 0,
     "A get with STRONG_ORDER is written behind a get before it.", run_get_behind_get},
    {"order-over-8", "2.2.10", 21, CF_PROMISED, 0,
     "Of 64 puts with STRONG_ORDER to the same 8 bytes the last one stays.", run_over_8},
    {"order-over-5000", "2.2.10", 21, CF_PROMISED, 0,
     "Of 64 puts with STRONG_ORDER to the same 5000 bytes the last one stays.", run_over_5000},
    {"order-weak-behind", "2.2.10", 19, CF_OPEN, 0,
     "A put without STRONG_ORDER is written before or behind a put of 3000 bytes before it.",
     run_weak_behind},
    {"order-weak-behind-large", "2.2.10", 19, CF_OPEN, 0,
     "A piggyback put without STRONG_ORDER is written before or behind a put of 60000 bytes.",
     run_weak_behind_large},
    {"order-weak-get-behind", "2.2.10", 19, CF_OPEN, 0,
     "A get without STRONG_ORDER reads what a put before it writes, or what was there.",
     run_weak_get_behind},
    {"order-weak-over-8", "2.2.10", 19, CF_OPEN, 0,
     "Of 64 puts without STRONG_ORDER to the same 8 bytes any one stays.", run_weak_over_8},
    {"order-weak-over-5000", "2.2.10", 19, CF_OPEN, 0,
     "Of 64 puts without STRONG_ORDER to the same 5000 bytes any parts stay.", run_weak_over_5000},
    {"order-other-path", "2.2.10", 21, CF_OPEN, 0,
     "STRONG_ORDER does not bind a put to one that took another path.", run_other_path},
    {"order-other-notice", "2.2.10", 0, CF_UNSAID, 0,
     "Does the notice of a put without STRONG_ORDER tell that the put before it is there?",
     run_other_notice},
    {"order-kinds-tcq", "2.2.10", 22, CF_PROMISED, CF_ARMW,
     "TCQ entries of all kinds of communications come in the order of their starts.",
     run_kinds_tcq},
    {"order-kinds-tcq-targets", "2.2.10", 25, CF_PROMISED, CF_ARMW,
     "TCQ entries come in the order of the starts, whatever the targets are.",
     run_kinds_tcq_targets},
    {"order-kinds-local", "2.2.10", 24, CF_PROMISED, CF_ARMW,
     "Local notices of all kinds with one target come in the order of their starts.",
     run_kinds_local},
    {"order-kinds-remote", "2.2.10", 23, CF_PROMISED, CF_ARMW,
     "Remote notices of all kinds from one origin come in the order of their starts.",
     run_kinds_remote},
    {"order-kinds-all", "2.2.10", 17, CF_PROMISED, CF_ARMW,
     "Each queue keeps the order, whatever the kinds of the communications are.", run_kinds_all},
    {"order-targets-local", "2.2.10", 24, CF_OPEN, CF_ARMW,
     "Local notices of different targets come in any order.", run_targets_local},
    {"order-small-put", "2.2.10", 23, CF_PROMISED, 0,
     "The entries of a put of 8 bytes come behind those of a put of 1 MB before it.",
     run_small_put},
    {"order-small-get", "2.2.10", 24, CF_PROMISED, 0,
     "The entries of a get of 8 bytes come behind those of a get of 1 MB before it.",
     run_small_get},
};
CF_GROUP(order_group, "order", cases);
