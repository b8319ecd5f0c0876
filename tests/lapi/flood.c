/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many messages: every task to all others, each answered by its header handler, and large ones with
 * completion handlers in the thread, which wait for counters; then to a slow task, and to a stopped
 * one, while the memory of all is measured.
 *
 *     lapi_flood SMALL LARGE      messages of each task
 */
#include "check.h"

#include <malloc.h>
#include <signal.h>
#include <time.h>

enum { LEN = 20000, SLOW_MS = 300, STOPPED_MS = 500, ROOM = 16 };

static int answers, done;
static uint8_t *rooms[ROOM];
static lapi_cntr_t extra;

static void *answer(lapi_handle_t *h, void *uhdr, uint *uhdr_len, ulong *msg_len,
                    compl_hndlr_t **handler, void **info)
{
    (void)h;
    (void)uhdr;
    (void)uhdr_len;
    (void)msg_len;
    (void)handler;
    (void)info;
    __atomic_fetch_add(&answers, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void *request(lapi_handle_t *h, void *uhdr, uint *uhdr_len, ulong *msg_len,
                     compl_hndlr_t **handler, void **info)
{
    lapi_return_info_t *more = (lapi_return_info_t *)msg_len;

    (void)handler;
    (void)info;
    CHECK(*uhdr_len == 8);
    CHECK(LAPI_Amsend(*h, more->src, (void *)21, uhdr, 8, NULL, 0, NULL, NULL, NULL) ==
          LAPI_SUCCESS);
    return NULL;
}

/* It waits for its own message. */
static void large_done(lapi_handle_t *h, void *info)
{
    (void)info;
    OK(LAPI_Put(*h, (uint)me, 0, NULL, NULL, NULL, NULL, &extra));
    OK(LAPI_Waitcntr(*h, &extra, 1, NULL));
    __atomic_fetch_add(&done, 1, __ATOMIC_RELEASE);
}

static void *large(lapi_handle_t *h, void *uhdr, uint *uhdr_len, ulong *msg_len,
                   compl_hndlr_t **handler, void **info)
{
    static int next;

    (void)h;
    (void)uhdr;
    (void)uhdr_len;
    (void)info;
    CHECK(*msg_len == LEN);
    *handler = large_done;
    return rooms[next++ % ROOM]; /* its content does not matter */
}

static void small_messages(int count)
{
    int uhdr[2] = {me, 0};
    lapi_cntr_t org;

    set(&org, 0);
    for (int i = 0; i < count; i++)
        OK(LAPI_Amsend(hndl, (uint)(i % n), (void *)20, uhdr, 8, NULL, 0, NULL, &org, NULL));
    OK(LAPI_Waitcntr(hndl, &org, count, NULL));
    while (__atomic_load_n(&answers, __ATOMIC_ACQUIRE) < count)
        OK(LAPI_Probe(hndl));
    OK(LAPI_Gfence(hndl));
    CHECK(answers == count);
}

static void large_messages(int count)
{
    static uint8_t data[LEN];
    lapi_cntr_t cmpl;

    set(&cmpl, 0);
    for (int i = 0; i < count; i++)
        OK(LAPI_Amsend(hndl, (uint)((me + i) % n), (void *)22, NULL, 0, data, LEN, NULL, NULL,
                       &cmpl));
    OK(LAPI_Waitcntr(hndl, &cmpl, count, NULL));
    OK(LAPI_Gfence(hndl));
}

static size_t heap(void)
{
    struct mallinfo2 m = mallinfo2();

    return m.uordblks + m.hblkhd;
}

/* Task 0 does nothing for a while; the others send as much as it accepts, and no more is kept. */
static void slow_receiver(int count)
{
    size_t before;

    OK(LAPI_Gfence(hndl));
    OK(LAPI_Senv(hndl, INTERRUPT_SET, 0));
    OK(LAPI_Gfence(hndl));
    before = heap();
    if (me == 0)
        usleep(SLOW_MS * 1000);
    else
        for (int i = 0; i < count; i++)
            OK(LAPI_Amsend(hndl, 0, (void *)21, NULL, 0, NULL, 0, NULL, NULL, NULL));
    CHECK(heap() < before + 100000);
    OK(LAPI_Gfence(hndl));
    OK(LAPI_Senv(hndl, INTERRUPT_SET, 1));
}

static size_t resident(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    size_t pages = 0;

    CHECK(f != NULL && fscanf(f, "%*u %zu", &pages) == 1);
    fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Task 0 is stopped; task 1 wakes it after a while. */
static void stopped_receiver(int count)
{
    lapi_long_t pids[64];
    size_t before, before_all;

    OK(LAPI_Address_init64(hndl, (lapi_long_t)getpid(), pids));
    OK(LAPI_Gfence(hndl));
    before = heap();
    before_all = resident();
    if (me == 0) {
        raise(SIGSTOP);
    } else if (me == 1) {
        usleep(STOPPED_MS * 1000);
        CHECK(kill((pid_t)pids[0], SIGCONT) == 0);
    } else {
        for (int i = 0; i < count; i++)
            OK(LAPI_Amsend(hndl, 0, (void *)21, NULL, 0, NULL, 0, NULL, NULL, NULL));
    }
    CHECK(heap() < before + 100000 && resident() < before_all + (8 << 20));
    OK(LAPI_Gfence(hndl));
}

int main(int argc, char **argv)
{
    init(NULL);
    CHECK(argc == 3);
    for (int i = 0; i < ROOM; i++)
        rooms[i] = malloc(LEN);
    OK(LAPI_Addr_set(hndl, address_of(request), 20));
    OK(LAPI_Addr_set(hndl, address_of(answer), 21));
    OK(LAPI_Addr_set(hndl, address_of(large), 22));
    OK(LAPI_Gfence(hndl));
    small_messages(atoi(argv[1]));
    large_messages(atoi(argv[2]));
    slow_receiver(atoi(argv[1]) / 4);
    if (n > 2)
        stopped_receiver(atoi(argv[1]) / 4);
    OK(LAPI_Term(hndl));
    for (int i = 0; i < ROOM; i++)
        free(rooms[i]);
    return 0;
}
