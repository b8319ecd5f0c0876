/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that was used for large messages is unmapped, and other memory is mapped at the same
 * address: by origin and target, completely and in part. The current content is sent.
 */
#include "check.h"

#include <pthread.h>
#include <sys/mman.h>

enum { SIZE = 1 << 20, PART = SIZE / 4, ROUNDS = 6 };

static uint8_t *map_at(void *address, size_t size)
{
    uint8_t *p = mmap(address, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | (address == NULL ? 0 : MAP_FIXED), -1, 0);

    CHECK(p != MAP_FAILED);
    return p;
}

static void replace(uint8_t *area, int round)
{
    size_t begin = round % 3 == 2 ? PART : 0, size = round % 3 == 2 ? PART : SIZE;

    if (round % 3 == 0)
        return;
    CHECK(munmap(area + begin, size) == 0);
    map_at(area + begin, size);
}

/*
 * An arena of the allocator gives pages back with MADV_DONTNEED, and assumes afterwards that they
 * are zero.
 */

enum { BUFFERS = 30, BUFFER = 100000 };

static lapi_long_t areas[64];
static int next;

static void *use_arena(void *unused)
{
    uint8_t *buffers[BUFFERS];
    lapi_cntr_t cmpl;

    (void)unused;
    set(&cmpl, 0);
    for (int i = 0; i < BUFFERS; i++) {
        buffers[i] = malloc(BUFFER);
        memset(buffers[i], 0xff, BUFFER);
        OK(LAPI_Put(hndl, (uint)next, BUFFER, (void *)(uintptr_t)areas[next], buffers[i], NULL,
                    NULL, &cmpl));
        wait_for(&cmpl, 1);
    }
    for (int i = BUFFERS; i > 0; i--)
        free(buffers[i - 1]);
    for (int i = 0; i < BUFFERS; i++) {
        buffers[i] = calloc(1, BUFFER);
        for (size_t k = 0; k < BUFFER; k++)
            CHECK(buffers[i][k] == 0);
    }
    for (int i = 0; i < BUFFERS; i++)
        free(buffers[i]);
    return NULL;
}

static void arena_of_a_thread(void)
{
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, use_arena, NULL) == 0);
    pthread_join(thread, NULL);
    OK(LAPI_Gfence(hndl));
}

int main(void)
{
    static lapi_cntr_t org, cmpl;
    uint8_t *from, *to;
    int before;

    init(NULL);
    next = (me + 1) % n;
    before = (me + n - 1) % n;
    from = map_at(NULL, SIZE);
    to = map_at(NULL, SIZE);
    OK(LAPI_Address_init64(hndl, (uintptr_t)to, areas));
    for (int round = 0; round < ROUNDS; round++) {
        replace(from, round);
        replace(to, round);
        fill(from, SIZE, me, round);
        OK(LAPI_Gfence(hndl));
        OK(LAPI_Put(hndl, (uint)next, SIZE, (void *)(uintptr_t)areas[next], from, NULL, &org,
                    &cmpl));
        wait_for(&cmpl, 1);
        wait_for(&org, 1);
        OK(LAPI_Gfence(hndl));
        CHECK(is_filled(to, SIZE, before, round));
        memset(from, 0, SIZE);
        OK(LAPI_Get(hndl, (uint)next, SIZE, (void *)(uintptr_t)areas[next], from, NULL, &org));
        wait_for(&org, 1);
        CHECK(is_filled(from, SIZE, me, round));
        OK(LAPI_Gfence(hndl));
    }
    arena_of_a_thread();
    OK(LAPI_Term(hndl));
    return 0;
}
