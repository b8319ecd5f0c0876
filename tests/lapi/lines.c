/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages and put_here around the size of a line, without a counter that needs an answer: from
 * every task to every task, many at once, so that slots run out, and each compared. Then inline
 * completion handlers, which answer.
 *
 *     lapi_lines [wrong]      a wrong byte is detected
 */
#include "check.h"

#include <pthread.h>

enum {
    MOST_TASKS = 8,
    UHDRS = 9 /* 0 to 32, multiples of 4 */,
    LENS = 41,
    ROOM = LENS + 1,
    ROUNDS = 3
};

static int seen[MOST_TASKS][UHDRS][LENS];
static uint8_t rooms[MOST_TASKS][UHDRS][LENS][ROOM], put_here[MOST_TASKS][LENS][ROOM];
static lapi_cntr_t arrived;
static lapi_long_t counters[MOST_TASKS], areas[MOST_TASKS];
static bool wrong;

static int number_of(uint uhdr_len, ulong len)
{
    return (int)(uhdr_len / 4 * LENS + len);
}

/* Some consume the data, others provide memory for them. */
static void *header(lapi_handle_t *h, void *uhdr, uint *uhdr_len, ulong *msg_len,
                    compl_hndlr_t **handler, void **info)
{
    lapi_return_info_t *more = (lapi_return_info_t *)msg_len;
    const int number = number_of(*uhdr_len, *msg_len);
    uint8_t *room;

    (void)handler;
    (void)info;
    CHECK(*h == hndl && (int)more->src < n && *uhdr_len / 4 < UHDRS && *msg_len < LENS);
    CHECK((uhdr == NULL) == (*uhdr_len == 0) && (uintptr_t)uhdr % 8 == 0);
    CHECK(is_filled(uhdr, *uhdr_len, (int)more->src, number));
    CHECK((more->udata_one_pkt_ptr == NULL) == (*msg_len == 0));
    CHECK(is_filled(more->udata_one_pkt_ptr, *msg_len, (int)more->src, number + 1));
    if (*uhdr_len > 0)
        memset(uhdr, 0xee, *uhdr_len);
    seen[more->src][*uhdr_len / 4][*msg_len]++;
    room = rooms[more->src][*uhdr_len / 4][*msg_len];
    if (number % 2 == 0)
        return room;
    if (*msg_len > 0)
        memcpy(room, more->udata_one_pkt_ptr, *msg_len);
    more->ctl_flags = LAPI_BURY_MSG;
    return NULL;
}

static void send_all(int to)
{
    lapi_cntr_t org, *tgt = (lapi_cntr_t *)(uintptr_t)counters[to];
    uint8_t uhdr[64], data[64];
    int sent = 0;

    set(&org, 0);
    for (uint u = 0; u < UHDRS; u++)
        for (ulong len = 0; len < LENS; len++) {
            const int number = number_of(4 * u, len);

            fill(uhdr, 4 * u, me, number);
            fill(data, len, me, number + 1);
            if (wrong && len == 24 && u == 0)
                data[23] ^= 1;
            OK(LAPI_Amsend(hndl, (uint)to, (void *)12, u == 0 ? NULL : uhdr, 4 * u,
                           len == 0 ? NULL : data, len, number % 3 == 0 ? tgt : NULL, &org, NULL));
            wait_for(&org, 1); /* now the memory may be reused */
            sent++;
        }
    for (ulong len = 0; len < LENS; len++) {
        fill(data, len, me, (int)len);
        OK(LAPI_Put(hndl, (uint)to, len,
                    (uint8_t *)(uintptr_t)areas[to] + ((size_t)me * LENS + len) * ROOM, data, tgt,
                    &org, NULL));
        wait_for(&org, 1);
    }
    CHECK(sent == UHDRS * LENS);
}

/* Checks the messages of all origins, and the bytes after each. */
static void check_all(void)
{
    for (int from = 0; from < n; from++) {
        for (uint u = 0; u < UHDRS; u++)
            for (ulong len = 0; len < LENS; len++) {
                const uint8_t *room = rooms[from][u][len];

                CHECK(seen[from][u][len] == 1);
                CHECK(is_filled(room, len, from, number_of(4 * u, len) + 1) && room[len] == 0);
            }
        for (ulong len = 0; len < LENS; len++)
            CHECK(is_filled(put_here[from][len], len, from, (int)len) &&
                  put_here[from][len][len] == 0);
    }
    CHECK(value_of(&arrived) == n * ((UHDRS * LENS + 2) / 3 + LENS));
}

static void lines(void)
{
    memset(seen, 0, sizeof(seen));
    memset(rooms, 0, sizeof(rooms));
    memset(put_here, 0, sizeof(put_here));
    set(&arrived, 0);
    OK(LAPI_Gfence(hndl));
    for (int i = 0; i < n; i++)
        send_all((me + i) % n);
    OK(LAPI_Gfence(hndl));
    check_all();
    OK(LAPI_Gfence(hndl));
}

/*
 * Inline completion handlers: in the dispatcher, which without the thread for interrupts is a call
 * of the program; the others in a thread of their own.
 */

enum { LARGE = 300000, HOPS = 5 };

static pthread_t program;
static uint8_t *large;
static int ended, inlines, elsewhere;
static lapi_ret_flags_t how;

static void completed(lapi_handle_t *h, void *info)
{
    int left = (int)(intptr_t)info;
    lapi_cntr_t none = {0};

    if (how == LAPI_NORMAL) {
        CHECK(!pthread_equal(pthread_self(), program));
        OK(LAPI_Setcntr(*h, &none, 1));
        OK(LAPI_Waitcntr(*h, &none, 1, NULL));
        __atomic_fetch_add(&elsewhere, 1, __ATOMIC_RELEASE);
    } else {
        CHECK(pthread_equal(pthread_self(), program));
        CHECK(LAPI_Waitcntr(*h, &none, 0, NULL) == LAPI_ERR_IN_HNDLR);
        CHECK(LAPI_Fence(*h) == LAPI_ERR_IN_HNDLR);
        inlines++;
    }
    if (how != LAPI_LOCAL_STATE && left > 0) {
        const int uhdr[2] = {left - 1, me};

        OK(LAPI_Amsend(*h, (uint)((me + left) % n), (void *)13, (void *)(uintptr_t)uhdr,
                       sizeof(uhdr), left % 2 == 0 ? large : NULL, left % 2 == 0 ? LARGE : 0, NULL,
                       NULL, NULL));
    } else {
        __atomic_fetch_add(&ended, 1, __ATOMIC_RELEASE);
    }
}

static void *answered(lapi_handle_t *h, void *uhdr, uint *uhdr_len, ulong *msg_len,
                      compl_hndlr_t **handler, void **info)
{
    lapi_return_info_t *more = (lapi_return_info_t *)msg_len;

    (void)h;
    CHECK(*uhdr_len == 8);
    *handler = completed;
    *info = (void *)(intptr_t) * (int *)uhdr;
    more->ret_flags = how;
    return *msg_len == 0 ? NULL : large + LARGE;
}

static void handlers(lapi_ret_flags_t flags)
{
    const int uhdr[2] = {flags == LAPI_LOCAL_STATE ? 0 : HOPS, me};
    lapi_long_t all[MOST_TASKS];
    int total;

    how = flags;
    ended = inlines = elsewhere = 0;
    OK(LAPI_Gfence(hndl));
    for (int to = 0; to < n; to++)
        OK(LAPI_Amsend(hndl, (uint)to, (void *)13, (void *)(uintptr_t)uhdr, sizeof(uhdr), NULL, 0,
                       NULL, NULL, NULL));
    do { /* until all chains have ended */
        OK(LAPI_Probe(hndl));
        OK(LAPI_Address_init64(hndl, (lapi_long_t)__atomic_load_n(&ended, __ATOMIC_ACQUIRE), all));
        total = 0;
        for (int i = 0; i < n; i++)
            total += (int)all[i];
    } while (total < n * n);
    CHECK(total == n * n);
    OK(LAPI_Address_init64(hndl, (lapi_long_t)(flags == LAPI_NORMAL ? elsewhere : inlines), all));
    total = 0;
    for (int i = 0; i < n; i++)
        total += (int)all[i];
    CHECK(total == n * n * (flags == LAPI_LOCAL_STATE ? 1 : HOPS + 1));
    OK(LAPI_Gfence(hndl));
}

int main(int argc, char **argv)
{
    (void)argv;
    wrong = argc > 1;
    init(NULL);
    CHECK(n <= MOST_TASKS);
    program = pthread_self();
    large = calloc(2, LARGE);
    OK(LAPI_Addr_set(hndl, address_of(header), 12));
    OK(LAPI_Addr_set(hndl, address_of(answered), 13));
    OK(LAPI_Address_init64(hndl, (uintptr_t)&arrived, counters));
    OK(LAPI_Address_init64(hndl, (uintptr_t)put_here, areas));
    for (int round = 0; round < ROUNDS; round++)
        lines();
    OK(LAPI_Senv(hndl, INTERRUPT_SET, 0));
    lines();
    handlers(LAPI_NORMAL);
    handlers(LAPI_LOCAL_STATE);
    handlers(LAPI_SEND_REPLY);
    OK(LAPI_Term(hndl));
    free(large);
    return 0;
}
