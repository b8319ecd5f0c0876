/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each kind of message once, and active messages of all sizes around the limits, from every task to
 * every task.
 *
 *     lapi_basic TASKS [polling]
 */
#include "check.h"

enum { BIG = 3 << 20 };

static void *table[64];
static uint8_t *out, *in;
static lapi_long_t counters[64]; /* addresses of c.tgt, which may differ between tasks */

static struct {
    lapi_cntr_t org, tgt, cmpl;
} c;

static void reset_counters(void)
{
    set(&c.org, 0);
    set(&c.tgt, 0);
    set(&c.cmpl, 0);
}

static void addresses(void)
{
    lapi_long_t numbers[64], number;
    void *back;

    OK(LAPI_Address_init64(hndl, (lapi_long_t)(1000 + me), numbers));
    for (int i = 0; i < n; i++)
        CHECK(numbers[i] == (lapi_long_t)(1000 + i));
    OK(LAPI_Address(&c, &number));
    CHECK(number == (uintptr_t)&c);
    OK(LAPI_Addr_set(hndl, &c, 3));
    OK(LAPI_Addr_get(hndl, &back, 3));
    CHECK(back == &c);
    OK(LAPI_Addr_get(hndl, &back, 4));
    CHECK(back == NULL);
}

/*
 * The handlers of sizes(). The user header describes the message.
 */

struct what {
    int from, number;
};

static int headers, completions, last_uhdr_len;
static ulong last_len;
static bool inline_handler, consume;

static void completed(lapi_handle_t *h, void *info)
{
    CHECK(*h == hndl && info == &completions);
    CHECK(c.tgt.value == 0); /* increased afterwards */
    __atomic_fetch_add(&completions, 1, __ATOMIC_RELEASE);
}

static void *header(lapi_handle_t *h, void *uhdr, uint *uhdr_len, ulong *msg_len,
                    compl_hndlr_t **handler, void **info)
{
    lapi_return_info_t *more = (lapi_return_info_t *)msg_len;
    struct what what;

    CHECK(*h == hndl);
    headers++;
    last_uhdr_len = (int)*uhdr_len;
    last_len = *msg_len;
    if (*uhdr_len >= sizeof(what)) {
        CHECK((uintptr_t)uhdr % 8 == 0);
        memcpy(&what, uhdr, sizeof(what));
        CHECK((int)more->src == what.from);
        CHECK(is_filled((uint8_t *)uhdr + 8, *uhdr_len - 8, what.from, what.number));
        memset(uhdr, 0, *uhdr_len);
    }
    *handler = completed;
    *info = &completions;
    if (inline_handler)
        more->ret_flags = LAPI_LOCAL_STATE;
    if (consume && more->udata_one_pkt_ptr != NULL) {
        memcpy(in, more->udata_one_pkt_ptr, *msg_len);
        more->ctl_flags = LAPI_BURY_MSG;
        return NULL;
    }
    return in;
}

static void send_one(int from, int to, uint uhdr_len, size_t len)
{
    static uint8_t uhdr[4096];
    const struct what what = {.from = from, .number = (int)len};

    reset_counters();
    headers = completions = 0;
    memset(in, 0, len + 1);
    OK(LAPI_Gfence(hndl));
    if (me == from) {
        if (uhdr_len >= 8) {
            memcpy(uhdr, &what, 8);
            fill(uhdr + 8, uhdr_len - 8, from, (int)len);
        }
        fill(out, len, from, (int)len);
        OK(LAPI_Amsend(hndl, (uint)to, table[to], uhdr_len == 0 ? NULL : uhdr, uhdr_len,
                       len == 0 ? NULL : out, len, (lapi_cntr_t *)(uintptr_t)counters[to], &c.org,
                       &c.cmpl));
        wait_for(&c.org, 1);
        memset(out, 0xee, len);
        memset(uhdr, 0xee, uhdr_len);
        wait_for(&c.cmpl, 1);
    }
    if (me == to) {
        wait_for(&c.tgt, 1);
        CHECK(headers == 1 && __atomic_load_n(&completions, __ATOMIC_ACQUIRE) == 1);
        CHECK(last_uhdr_len == (int)uhdr_len && last_len == len);
        CHECK(is_filled(in, len, from, (int)len) && in[len] == 0);
    }
    OK(LAPI_Gfence(hndl));
    CHECK(value_of(&c.org) == 0 && value_of(&c.tgt) == 0 && value_of(&c.cmpl) == 0);
}

static void sizes(void)
{
    int packet, most;

    OK(LAPI_Qenv(hndl, MAX_PKT_SZ, &packet));
    OK(LAPI_Qenv(hndl, MAX_UHDR_SZ, &most));
    CHECK(most >= 1024);
    const size_t lens[] = {0,
                           1,
                           7,
                           8,
                           111,
                           112,
                           113,
                           1000,
                           (size_t)packet - 9,
                           (size_t)packet - 8,
                           (size_t)packet - 7,
                           (size_t)packet,
                           (size_t)packet + 1,
                           4096,
                           65536,
                           BIG};
    const uint uhdrs[] = {0, 4, 8, 12, 1024, (uint)most};

    for (int to = 0; to < n; to++)
        for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
            inline_handler = i % 2 == 0;
            consume = i % 3 == 0;
            send_one((to + (int)i) % n, to, uhdrs[i % 6], lens[i]);
            send_one((to + (int)i) % n, to, 8, lens[i]);
            send_one((to + (int)i) % n, to, (uint)most, lens[i]);
        }
}

static void put_and_get(void)
{
    const size_t lens[] = {0, 1, 8, 112, 113, 1984, 1985, 5000, BIG};
    int to = (me + 1) % n, from = (me + n - 1) % n;
    lapi_long_t where[64];

    OK(LAPI_Address_init64(hndl, (uintptr_t)in, where));
    for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        size_t len = lens[i];

        reset_counters();
        memset(in, 0, BIG + 1);
        fill(out, len, me, 5);
        OK(LAPI_Gfence(hndl));
        OK(LAPI_Put(hndl, (uint)to, len, (void *)(uintptr_t)where[to], out,
                    (lapi_cntr_t *)(uintptr_t)counters[to], &c.org, &c.cmpl));
        wait_for(&c.org, 1);
        wait_for(&c.cmpl, 1);
        wait_for(&c.tgt, 1);
        CHECK(is_filled(in, len, from, 5) && in[len] == 0);
        OK(LAPI_Gfence(hndl));
        memset(out, 0, BIG + 1);
        OK(LAPI_Get(hndl, (uint)to, len, (void *)(uintptr_t)where[to], out,
                    (lapi_cntr_t *)(uintptr_t)counters[to], &c.org));
        wait_for(&c.org, 1);
        CHECK(is_filled(out, len, me, 5) && out[len] == 0);
        wait_for(&c.tgt, 1);
        OK(LAPI_Gfence(hndl));
    }
}

static void rmw(void)
{
    static long long wide;
    static int narrow;
    lapi_long_t wides[64], narrows[64];
    int to = (me + 1) % n;

    wide = narrow = 5;
    reset_counters();
    OK(LAPI_Address_init64(hndl, (uintptr_t)&wide, wides));
    OK(LAPI_Address_init64(hndl, (uintptr_t)&narrow, narrows));
    const struct {
        RMW_ops_t op;
        long long in[2], prev, then;
    } ops[] = {
        {FETCH_AND_ADD, {-7, 0}, 5, -2},    {SWAP, {12, 0}, -2, 12},
        {FETCH_AND_OR, {3, 0}, 12, 15},     {COMPARE_AND_SWAP, {14, 1}, 15, 15},
        {COMPARE_AND_SWAP, {15, 1}, 15, 1},
    };
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        int in4[2] = {(int)ops[i].in[0], (int)ops[i].in[1]}, prev4 = 99;
        long long in8[2] = {ops[i].in[0], ops[i].in[1]}, prev8 = 99;

        OK(LAPI_Rmw(hndl, ops[i].op, (uint)to, (int *)(uintptr_t)narrows[to], in4, &prev4, &c.org));
        OK(LAPI_Rmw64(hndl, ops[i].op, (uint)to, (long long *)(uintptr_t)wides[to], in8, &prev8,
                      &c.org));
        wait_for(&c.org, 2);
        CHECK(prev4 == (int)ops[i].prev && prev8 == ops[i].prev);
        OK(LAPI_Gfence(hndl));
        CHECK(narrow == (int)ops[i].then && wide == ops[i].then);
        OK(LAPI_Gfence(hndl));
    }
    for (int i = 0; i < 100; i++) {
        int one = 1;

        OK(LAPI_Rmw(hndl, FETCH_AND_ADD, (uint)(i % n), (int *)(uintptr_t)narrows[i % n], &one,
                    NULL, NULL));
    }
    OK(LAPI_Gfence(hndl));
    CHECK(narrow == 1 + n * (99 / n + (me <= 99 % n ? 1 : 0)));
}

/*
 * Replies, and replies to replies, from header handlers and inline completion handlers.
 */

enum { HOPS = 20 };
static lapi_cntr_t ended;

static void *hop(lapi_handle_t *h, void *uhdr, uint *uhdr_len, ulong *msg_len,
                 compl_hndlr_t **handler, void **info)
{
    lapi_return_info_t *more = (lapi_return_info_t *)msg_len;
    int left = *(int *)uhdr;

    (void)handler;
    (void)info;
    *(int *)uhdr = left - 1;
    if (left > 0)
        CHECK(LAPI_Amsend(*h, left % 2 ? more->src : (uint)((me + 1) % n), (void *)7, uhdr,
                          *uhdr_len, NULL, 0, NULL, NULL, NULL) == LAPI_SUCCESS);
    else
        __atomic_fetch_add(&ended.value, 1, __ATOMIC_RELEASE);
    CHECK(LAPI_Waitcntr(*h, &ended, 1, NULL) == LAPI_ERR_IN_HNDLR);
    return NULL;
}

static void replies(void)
{
    int left[2] = {HOPS, me}, total = 0, mine;

    set(&ended, 0);
    OK(LAPI_Addr_set(hndl, address_of(hop), 7));
    OK(LAPI_Gfence(hndl));
    for (int to = 0; to < n; to++)
        OK(LAPI_Amsend(hndl, (uint)to, (void *)7, left, sizeof(left), NULL, 0, NULL, NULL, NULL));
    do { /* all chains have ended */
        lapi_long_t all[64];

        mine = value_of(&ended);
        OK(LAPI_Address_init64(hndl, (lapi_long_t)mine, all));
        total = 0;
        for (int i = 0; i < n; i++)
            total += (int)all[i];
    } while (total < n * n);
    CHECK(total == n * n);
}

/* The barrier of LAPI_Address_init64() does not fence. */
static void fences(void)
{
    lapi_long_t where[64], ignored[64];
    long *there = (long *)in, value;
    int to = (me + 1) % n;

    OK(LAPI_Address_init64(hndl, (uintptr_t)in, where));
    for (int round = 1; round <= 300; round++) {
        for (int i = 0; i < 12; i++) {
            value = round * 100 + i;
            OK(LAPI_Put(hndl, (uint)to, sizeof(value), (long *)(uintptr_t)where[to] + i, &value,
                        NULL, &c.org, NULL));
            wait_for(&c.org, 1);
        }
        OK(LAPI_Fence(hndl));
        OK(LAPI_Address_init64(hndl, 0, ignored));
        for (int i = 0; i < 12; i++)
            CHECK(there[i] == round * 100 + i);
        OK(LAPI_Address_init64(hndl, 0, ignored));
    }
}

static void polling(void)
{
    lapi_msg_info_t info;
    int was;

    OK(LAPI_Gfence(hndl));
    OK(LAPI_Qenv(hndl, INTERRUPT_SET, &was));
    OK(LAPI_Senv(hndl, INTERRUPT_SET, 0));
    OK(LAPI_Probe(hndl));
    OK(LAPI_Gfence(hndl));
    OK(LAPI_Msgpoll(hndl, 3, &info));
    reset_counters();
    OK(LAPI_Put(hndl, (uint)me, 0, NULL, NULL, &c.tgt, &c.org, NULL));
    do {
        OK(LAPI_Msgpoll(hndl, 1000, &info));
    } while (info.status == LAPI_DISP_CNTR);
    wait_for(&c.tgt, 1);
    OK(LAPI_Senv(hndl, INTERRUPT_SET, was));
}

int main(int argc, char **argv)
{
    char text[LAPI_MSG_STRING];

    OK(LAPI_Msg_string(LAPI_ERR_TGT, text));
    CHECK(strncmp(text, "LAPI_ERR_TGT:", 13) == 0);
    init(NULL);
    CHECK(argc >= 2 && n == atoi(argv[1]) && me >= 0 && me < n);
    if (argc > 2)
        OK(LAPI_Senv(hndl, INTERRUPT_SET, 0));
    out = malloc(BIG + 1);
    in = malloc(BIG + 1);
    addresses();
    OK(LAPI_Address_init64(hndl, (uintptr_t)&c.tgt, counters));
    OK(LAPI_Address_init(hndl, address_of(header), table));
    sizes();
    put_and_get();
    rmw();
    replies();
    fences();
    polling();
    OK(LAPI_Term(hndl));
    free(out);
    free(in);
    return 0;
}
