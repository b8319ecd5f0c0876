/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 64 MiB in one message from each task to the next, and lengths around the pieces that the target
 * fetches; prints the memory for a task in use.
 *
 *     lapi_huge [wrong]      a wrong byte is detected
 */
#include "check.h"

#include "../../layers/lapi/context.h"

#include <malloc.h>

enum { HUGE_LEN = 64 << 20, PIECE = 4 << 20 };

static uint8_t *in;
static lapi_cntr_t arrived;
static int completed;
static size_t expected;

static void done(lapi_handle_t *h, void *info)
{
    CHECK(*h == hndl && info == in);
    CHECK(arrived.value == 0);
    __atomic_fetch_add(&completed, 1, __ATOMIC_RELEASE);
}

static void *header(lapi_handle_t *h, void *uhdr, uint *uhdr_len, ulong *msg_len,
                    compl_hndlr_t **handler, void **info)
{
    (void)h;
    (void)uhdr;
    (void)uhdr_len;
    CHECK(*msg_len == expected);
    *handler = done;
    *info = in;
    return in;
}

static size_t heap(void)
{
    struct mallinfo2 m = mallinfo2();

    return m.uordblks + m.hblkhd;
}

/* The layer's part: the table of tasks is at least 3/8 full. */
static void memory_of_tasks(void)
{
    size_t layer = sizeof(struct la_peer) + sizeof(struct la_peer *) * 8 / 3, before = heap();

    for (int to = 0; to < n; to++)
        OK(LAPI_Put(hndl, (uint)to, 0, NULL, NULL, NULL, NULL, NULL));
    OK(LAPI_Gfence(hndl));
    if (me == 0)
        printf("lapi_huge: for each task in use %zu bytes of the layer, and %zu of the heap with "
               "uTofu's connection\n",
               layer, (heap() - before) / (size_t)n);
    CHECK(layer <= 128);
}

int main(int argc, char **argv)
{
    const size_t lens[] = {PIECE - 1, PIECE, PIECE + 1, HUGE_LEN};
    lapi_long_t counters[64];
    lapi_cntr_t org, cmpl;
    uint8_t *out;
    int next;

    init(NULL);
    next = (me + 1) % n;
    memory_of_tasks();
    out = malloc(HUGE_LEN);
    in = calloc(1, HUGE_LEN + 1);
    set(&org, 0);
    set(&cmpl, 0);
    OK(LAPI_Addr_set(hndl, address_of(header), 5));
    OK(LAPI_Address_init64(hndl, (uintptr_t)&arrived, counters));
    for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        expected = lens[i];
        fill(out, lens[i], me, 3);
        if (argc > 1 && strcmp(argv[1], "wrong") == 0)
            out[lens[i] - 1] ^= 1;
        memset(in, 0, lens[i] + 1);
        completed = 0;
        OK(LAPI_Gfence(hndl));
        OK(LAPI_Amsend(hndl, (uint)next, (void *)5, NULL, 0, out, lens[i],
                       (lapi_cntr_t *)(uintptr_t)counters[next], &org, &cmpl));
        wait_for(&org, 1);
        memset(out, 0, lens[i]);
        wait_for(&cmpl, 1);
        wait_for(&arrived, 1);
        CHECK(__atomic_load_n(&completed, __ATOMIC_ACQUIRE) == 1);
        CHECK(is_filled(in, lens[i], (me + n - 1) % n, 3) && in[lens[i]] == 0);
        OK(LAPI_Gfence(hndl));
    }
    OK(LAPI_Term(hndl));
    free(out);
    free(in);
    return 0;
}
