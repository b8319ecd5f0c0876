/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target that computes, outside of the library: with INTERRUPT_SET 1 the others' messages are
 * handled meanwhile; with 0 none is handled before it makes a call.
 *
 *     lapi_computes [polling]      it computes until they are handled, although none can be
 */
#include "check.h"

#include <time.h>

enum { LARGE = 300000, QUIET_MS = 300 };

static uint8_t area[LARGE];
static int handled;
static lapi_cntr_t go;
static lapi_long_t gos[64];
static volatile double result;

static void compute(void)
{
    for (int i = 1; i < 10000; i++)
        result += 1.0 / i;
}

static int messages(void)
{
    return __atomic_load_n(&handled, __ATOMIC_ACQUIRE);
}

static void completed(lapi_handle_t *h, void *info)
{
    (void)h;
    (void)info;
    __atomic_fetch_add(&handled, 1, __ATOMIC_RELEASE);
}

static void *header(lapi_handle_t *h, void *uhdr, uint *uhdr_len, ulong *msg_len,
                    compl_hndlr_t **handler, void **info)
{
    (void)h;
    (void)uhdr;
    (void)uhdr_len;
    (void)msg_len;
    (void)info;
    *handler = completed;
    return area;
}

/* Small, middle and large ones, a get, and an atomic operation, until all are complete. */
static void use_task_0(const lapi_long_t *areas)
{
    static uint8_t data[LARGE];
    const ulong lens[] = {8, 1500, LARGE};
    lapi_cntr_t org, cmpl;
    int one = 0, before;

    set(&org, 0);
    set(&cmpl, 0);
    for (int i = 0; i < 3; i++)
        OK(LAPI_Amsend(hndl, 0, (void *)6, NULL, 0, data, lens[i], NULL, NULL, &cmpl));
    OK(LAPI_Get(hndl, 0, LARGE, (void *)(uintptr_t)areas[0], data, NULL, &org));
    OK(LAPI_Rmw(hndl, FETCH_AND_ADD, 0, (int *)(uintptr_t)areas[0], &one, &before, &org));
    wait_for(&cmpl, 3);
    wait_for(&org, 2);
}

static void with_thread(const lapi_long_t *areas)
{
    if (me == 0)
        while (messages() < 3 * (n - 1))
            compute();
    else
        use_task_0(areas);
    OK(LAPI_Gfence(hndl));
    CHECK(me != 0 || messages() == 3 * (n - 1));
}

/* The others send while task 0 is in no call. */
static void without_thread(void)
{
    OK(LAPI_Senv(hndl, INTERRUPT_SET, 0));
    OK(LAPI_Gfence(hndl));
    handled = 0;
    OK(LAPI_Gfence(hndl));
    if (me == 0) {
        struct timespec begin, now;

        for (int to = 1; to < n; to++)
            OK(LAPI_Put(hndl, (uint)to, 0, NULL, NULL, (lapi_cntr_t *)(uintptr_t)gos[to], NULL,
                        NULL));
        clock_gettime(CLOCK_MONOTONIC, &begin);
        do {
            compute();
            clock_gettime(CLOCK_MONOTONIC, &now);
        } while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 <
                 QUIET_MS);
        CHECK(messages() == 0);
        while (messages() < n - 1)
            OK(LAPI_Probe(hndl));
    } else {
        wait_for(&go, 1);
        OK(LAPI_Amsend(hndl, 0, (void *)6, NULL, 0, area, 8, NULL, NULL, NULL));
    }
    OK(LAPI_Gfence(hndl));
}

int main(int argc, char **argv)
{
    lapi_long_t areas[64];

    init(NULL);
    if (argc > 1 && strcmp(argv[1], "polling") == 0) {
        OK(LAPI_Senv(hndl, INTERRUPT_SET, 0));
        alarm(3);
    }
    OK(LAPI_Addr_set(hndl, address_of(header), 6));
    OK(LAPI_Address_init64(hndl, (uintptr_t)area, areas));
    OK(LAPI_Address_init64(hndl, (uintptr_t)&go, gos));
    OK(LAPI_Gfence(hndl));
    with_thread(areas);
    without_thread();
    OK(LAPI_Term(hndl));
    return 0;
}
