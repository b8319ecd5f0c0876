/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces of memory: LAPI_Putv(), LAPI_Getv(), LAPI_Amsendv(), the same and all others by
 * LAPI_Xfer() with its handlers, LAPI_Util(), and their codes.
 */
#include "check.h"

enum { AREA = 1 << 20, PIECES = 300 };

static uint8_t *here, *there; /* source or result; memory that others write and read */
static lapi_long_t areas[64], counters[64];
static lapi_cntr_t org, tgt, cmpl;
static int next, handled;

static void sent(lapi_handle_t *h, void *info, lapi_sh_info_t *more)
{
    CHECK(*h == hndl && info == &handled && (int)more->src == next);
    __atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED);
}

static void got(lapi_handle_t *h, void *info)
{
    CHECK(*h == hndl && info == &handled);
    __atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED);
}

/* A vector of `num` pieces of different lengths, beginning at base. */
struct pieces {
    lapi_vec_t vec;
    void *info[PIECES];
    ulong len[PIECES];
};

static size_t make(struct pieces *p, uint8_t *base, uint num, size_t unit, bool strided, size_t gap)
{
    size_t total = 0;

    p->vec = (lapi_vec_t){.vec_type = strided ? LAPI_GEN_STRIDED_XFER : LAPI_GEN_IOVECTOR,
                          .num_vecs = num,
                          .info = p->info,
                          .len = strided ? NULL : p->len};
    if (strided) {
        p->info[0] = base;
        p->info[1] = (void *)(uintptr_t)unit;
        p->info[2] = (void *)(uintptr_t)(unit + gap);
        return num * unit;
    }
    for (uint i = 0; i < num; i++) {
        p->info[i] = base;
        p->len[i] = i % 7 == 3 ? 0 : unit + i % 5;
        base += p->len[i] + gap;
        total += p->len[i];
    }
    return total;
}

/* The k-th byte of the pieces, with their addresses moved to another task's area or back. */
static uint8_t *at(const struct pieces *p, size_t k, const uint8_t *from, uint8_t *to)
{
    if (p->vec.vec_type == LAPI_GEN_STRIDED_XFER)
        return to + ((uint8_t *)p->info[0] - from) + k / (size_t)p->info[1] * (size_t)p->info[2] +
               k % (size_t)p->info[1];
    for (uint i = 0;; i++) {
        if (k < p->len[i])
            return to + ((uint8_t *)p->info[i] - from) + k;
        k -= p->len[i];
    }
}

static struct pieces mine, theirs, wanted;
static size_t total;

static void *header(lapi_handle_t *h, void *uhdr, uint *uhdr_len, ulong *msg_len,
                    compl_hndlr_t **handler, void **info)
{
    (void)h;
    (void)uhdr;
    CHECK(*uhdr_len == 8 && *msg_len == total);
    *handler = got;
    *info = &handled;
    return &wanted.vec;
}

enum how { PUTV, GETV, AMV, HOWS };

static void transfer(enum how how, bool xfer)
{
    static char uhdr[8] = "1234567";
    lapi_xfer_t x = {0};
    lapi_cntr_t *t = (lapi_cntr_t *)(uintptr_t)counters[next];

    if (!xfer && how == PUTV)
        OK(LAPI_Putv(hndl, (uint)next, &theirs.vec, &mine.vec, t, &org, &cmpl));
    else if (!xfer && how == GETV)
        OK(LAPI_Getv(hndl, (uint)next, &theirs.vec, &mine.vec, t, &org));
    else if (!xfer)
        OK(LAPI_Amsendv(hndl, (uint)next, (void *)9, uhdr, 8, &mine.vec, t, &org, &cmpl));
    else if (how == PUTV)
        x.Putv = (lapi_putv_t){LAPI_PUTV_XFER, 0,        (uint)next,     &theirs.vec, &mine.vec,
                               sent,           &handled, counters[next], &org,        &cmpl};
    else if (how == GETV)
        x.Getv =
            (lapi_getv_t){LAPI_GETV_XFER, 0,   (uint)next, &theirs.vec, &mine.vec, got, &handled,
                          counters[next], &org};
    else
        x.Amv = (lapi_amv_t){LAPI_AMV_XFER,
                             0,
                             (uint)next,
                             9,
                             8,
                             (void *)(uintptr_t) "1234567",
                             &mine.vec,
                             sent,
                             &handled,
                             counters[next],
                             &org,
                             &cmpl};
    if (xfer)
        OK(LAPI_Xfer(hndl, &x));
}

static void one(enum how how, uint num, size_t unit, bool strided, bool xfer)
{
    uint8_t *remote = (uint8_t *)(uintptr_t)areas[next];

    total = make(&mine, here, num, unit, strided, 3);
    make(&theirs, remote + 8, num, unit, strided, 11);
    make(&wanted, there + 8, num, unit, strided, 11);
    memset(there, 0, AREA);
    memset(here, 0, AREA);
    for (size_t k = 0; k < total; k++)
        *(how == GETV ? at(&wanted, k, there, there) : at(&mine, k, here, here)) =
            byte_of(me, how, k);
    handled = 0;
    OK(LAPI_Gfence(hndl));
    transfer(how, xfer);
    wait_for(&org, 1);
    if (how != GETV)
        wait_for(&cmpl, 1);
    wait_for(&tgt, 1);
    OK(LAPI_Gfence(hndl));
    for (size_t k = 0; k < total; k++)
        CHECK(*(how == GETV ? at(&mine, k, here, here) : at(&wanted, k, there, there)) ==
              byte_of(how == GETV ? next : (me + n - 1) % n, how, k));
    CHECK(__atomic_load_n(&handled, __ATOMIC_ACQUIRE) == (xfer ? 1 : 0) + (how == AMV ? 1 : 0));
    if (!strided && num > 0)
        CHECK(*(how == GETV ? here + mine.len[0] : there + 8 + wanted.len[0]) == 0); /* the gap */
    OK(LAPI_Gfence(hndl));
}

static void vectors(void)
{
    const struct {
        uint num;
        size_t unit;
    } shapes[] = {{0, 1}, {1, 1}, {2, 8}, {20, 40}, {100, 17}, {PIECES, 9}, {PIECES, 2000}};

    for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++)
        for (int how = 0; how < HOWS; how++)
            for (int k = 0; k < 4; k++)
                one((enum how)how, shapes[s].num, shapes[s].unit, k % 2 == 1, k / 2 == 1);
}

static void *plain(lapi_handle_t *h, void *uhdr, uint *uhdr_len, ulong *msg_len,
                   compl_hndlr_t **handler, void **info)
{
    (void)h;
    (void)uhdr;
    (void)uhdr_len;
    (void)msg_len;
    (void)handler;
    (void)info;
    return there;
}

static void other_xfers(void)
{
    lapi_long_t remote = areas[next];
    int one_more = 1, before = -1;
    long long wide = 2, wide_before = -1;
    lapi_xfer_t x = {
        .Put = {LAPI_PUT_XFER, 0, (uint)next, remote, here, 3000, sent, &handled, 0, &org, &cmpl}};

    memset(there, 0, AREA);
    fill(here, 3000, me, 1);
    handled = 0;
    OK(LAPI_Gfence(hndl));
    OK(LAPI_Xfer(hndl, &x));
    wait_for(&org, 1);
    wait_for(&cmpl, 1);
    CHECK(handled == 1);
    memset(here, 0, 3000);
    x.Get = (lapi_get_t){LAPI_GET_XFER, 0, (uint)next, remote, here, 3000, got, &handled, 0, &org};
    OK(LAPI_Xfer(hndl, &x));
    wait_for(&org, 1);
    CHECK(handled == 2 && is_filled(here, 3000, me, 1));
    OK(LAPI_Gfence(hndl));
    memset(there, 0, 64);
    OK(LAPI_Gfence(hndl));
    x.Rmw = (lapi_rmw_t){LAPI_RMW_XFER, FETCH_AND_ADD, (uint)next, 32,   remote,
                         &one_more,     &before,       &org,       sent, &handled};
    OK(LAPI_Xfer(hndl, &x));
    wait_for(&org, 1);
    CHECK(before == 0 && handled == 3);
    x.Rmw.size = 64;
    x.Rmw.in_val = &wide;
    x.Rmw.prev_tgt_val = &wide_before;
    OK(LAPI_Xfer(hndl, &x));
    wait_for(&org, 1);
    CHECK(wide_before == 1 && handled == 4);
    OK(LAPI_Gfence(hndl));
    CHECK(there[0] == 3);
    OK(LAPI_Gfence(hndl));
    x.Am = (lapi_am_t){LAPI_AM_XFER, 0,    (uint)next, 10, 0,    NULL, here,
                       3000,         sent, &handled,   0,  &org, &cmpl};
    OK(LAPI_Xfer(hndl, &x));
    wait_for(&org, 1);
    wait_for(&cmpl, 1);
    CHECK(handled == 5);
    OK(LAPI_Gfence(hndl));
    CHECK(is_filled(there, 3000, (me + n - 1) % n, 1));
}

static void codes(void)
{
    struct pieces a, b;
    lapi_xfer_t x = {0};
    const uint to = (uint)me;

    make(&a, here, 4, 8, false, 0);
    make(&b, there, 4, 8, false, 0);
#define PUTS(code) CHECK(LAPI_Putv(hndl, to, &b.vec, &a.vec, NULL, NULL, NULL) == (code))
    CHECK(LAPI_Putv(hndl, to, &b.vec, NULL, NULL, NULL, NULL) == LAPI_ERR_ORG_VEC_NULL);
    CHECK(LAPI_Putv(hndl, to, NULL, &a.vec, NULL, NULL, NULL) == LAPI_ERR_TGT_VEC_NULL);
    CHECK(LAPI_Getv(hndl, to, NULL, &a.vec, NULL, NULL) == LAPI_ERR_TGT_VEC_NULL);
    CHECK(LAPI_Amsendv(hndl, to, (void *)9, NULL, 0, NULL, NULL, NULL, NULL) ==
          LAPI_ERR_ORG_VEC_NULL);
    CHECK(LAPI_Amsendv(hndl, to, NULL, NULL, 0, &a.vec, NULL, NULL, NULL) ==
          LAPI_ERR_HDR_HNDLR_NULL);
    CHECK(LAPI_Putv(hndl, (uint)n, &b.vec, &a.vec, NULL, NULL, NULL) == LAPI_ERR_TGT);
    CHECK(LAPI_Putv(hndl + 1, to, &b.vec, &a.vec, NULL, NULL, NULL) == LAPI_ERR_HNDL_INVALID);
    a.vec.vec_type = LAPI_LAST_VECTYPE;
    PUTS(LAPI_ERR_ORG_VEC_TYPE);
    a.vec.vec_type = LAPI_GEN_IOVECTOR;
    b.vec.vec_type = LAPI_LAST_VECTYPE;
    PUTS(LAPI_ERR_TGT_VEC_TYPE);
    b.vec.vec_type = LAPI_GEN_IOVECTOR;
    a.info[1] = NULL;
    PUTS(LAPI_ERR_ORG_VEC_ADDR);
    a.info[1] = here;
    b.info[1] = NULL;
    PUTS(LAPI_ERR_TGT_VEC_ADDR);
    b.info[1] = there;
    a.len[2] = LAPI_MAX_MSG_SZ;
    PUTS(LAPI_ERR_ORG_VEC_LEN);
    a.len[2] = 10;
    b.len[2] = LAPI_MAX_MSG_SZ;
    PUTS(LAPI_ERR_TGT_VEC_LEN);
    b.len[2] = 11;
    PUTS(LAPI_ERR_VEC_LEN_DIFF);
    b.len[2] = 10;
    b.vec.num_vecs = 3;
    PUTS(LAPI_ERR_VEC_NUM_DIFF);
    make(&b, there, 4, 8, true, 0);
    PUTS(LAPI_ERR_VEC_TYPE_DIFF);
    b.info[2] = (void *)7;
    PUTS(LAPI_ERR_TGT_STRIDE);
    make(&a, here, 4, 8, true, 0);
    a.info[2] = (void *)7;
    PUTS(LAPI_ERR_ORG_STRIDE);
    CHECK(LAPI_Xfer(hndl, NULL) == LAPI_ERR_RET_PTR_NULL);
    x.Xfer_type = LAPI_LAST_XFER;
    CHECK(LAPI_Xfer(hndl, &x) == LAPI_ERR_XFER_CMD);
    x.Rmw = (lapi_rmw_t){LAPI_RMW_XFER, SWAP, to, 16, areas[me], here, NULL, NULL, NULL, NULL};
    CHECK(LAPI_Xfer(hndl, &x) == LAPI_ERR_OP_SZ);
    x.Rmw.tgt = (uint)n;
    CHECK(LAPI_Xfer(hndl, &x) == LAPI_ERR_TGT);
    CHECK(LAPI_Xfer(hndl + 1, &x) == LAPI_ERR_HNDL_INVALID);
}

static void lock(void)
{
    lapi_util_t util = {.Util_type = LAPI_GET_THREAD_FUNC};
    int yes = -1;

    OK(LAPI_Util(hndl, &util));
    OK(util.Thread.mutex_lock(hndl));
    OK(util.Thread.mutex_getowner(hndl, &yes));
    CHECK(yes == 1);
    OK(util.Thread.mutex_trylock(hndl, &yes));
    CHECK(yes == 1);
    OK(util.Thread.mutex_unlock(hndl));
    OK(LAPI_Fence(hndl));
    OK(util.Thread.mutex_unlock(hndl));
    OK(util.Thread.mutex_getowner(hndl, &yes));
    CHECK(yes == 0);
    OK(LAPI_Fence(hndl));
    CHECK(util.Thread.mutex_lock(hndl + 1) == LAPI_ERR_HNDL_INVALID);
    CHECK(util.Thread.mutex_trylock(hndl, NULL) == LAPI_ERR_RET_PTR_NULL);
    CHECK(LAPI_Util(hndl, NULL) == LAPI_ERR_RET_PTR_NULL);
    CHECK(LAPI_Util(hndl + 1, &util) == LAPI_ERR_HNDL_INVALID);
    util.Util_type = LAPI_LAST_UTIL;
    CHECK(LAPI_Util(hndl, &util) == LAPI_ERR_UTIL_CMD);
}

int main(void)
{
    init(NULL);
    next = (me + 1) % n;
    here = calloc(1, AREA);
    there = calloc(1, AREA);
    OK(LAPI_Address_init64(hndl, (uintptr_t)there, areas));
    OK(LAPI_Address_init64(hndl, (uintptr_t)&tgt, counters));
    OK(LAPI_Addr_set(hndl, address_of(header), 9));
    OK(LAPI_Addr_set(hndl, address_of(plain), 10));
    vectors();
    other_xfers();
    codes();
    lock();
    OK(LAPI_Term(hndl));
    free(here);
    free(there);
    return 0;
}
