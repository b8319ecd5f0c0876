/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large messages, of which both tasks move a part if they can: of any length and alignment, in both
 * directions at once, from handlers, and checked as soon as the target's counter is increased.
 *
 *     lapi_shared [both]      the origin must have moved a part
 */
#include "check.h"
#include "large.h"

#include <fcntl.h>
#include <sys/ioctl.h>

enum {
    LARGEST = 2 << 20,
    SPACE = LARGEST + 64,
    PIECE = 256 << 10,
    REPEATS = 50,
    HELPS = 3,
    MOST_TRIES = 20
};

static uint8_t *from, *to, *reply;
static lapi_long_t places[64], counters[64];
static lapi_cntr_t arrived, org, cmpl, answered;
static int next, before;
static const size_t lengths[] = {PIECE,         PIECE + 1, 2 * PIECE - 1, 2 * PIECE,
                                 2 * PIECE + 1, 1000001,   LARGEST};
enum { LENGTHS = sizeof(lengths) / sizeof(lengths[0]) };

static void lengths_and_alignments(void)
{
    for (int i = 0; i < LENGTHS; i++) {
        size_t len = lengths[i], shift = (size_t)(i * 5) % 17;

        fill(from + shift, len, me, i);
        memset(to, 0xee, SPACE);
        OK(LAPI_Gfence(hndl));
        OK(LAPI_Put(hndl, (uint)next, len, (void *)(uintptr_t)(places[next] + 3 * shift),
                    from + shift, (lapi_cntr_t *)(uintptr_t)counters[next], &org, &cmpl));
        wait_for(&arrived, 1);
        CHECK(is_filled(to + 3 * shift, len, before, i));
        CHECK(to[3 * shift + len] == 0xee && (shift == 0 || to[3 * shift - 1] == 0xee));
        wait_for(&org, 1);
        wait_for(&cmpl, 1);
    }
}

/* A word of each page, the last ones first, as these may arrive last. */
static bool has_words(uint64_t value)
{
    for (size_t at = LARGEST; at > 0; at -= 4096)
        if (*(volatile uint64_t *)(to + at - 8) != value)
            return false;
    return true;
}

static void all_is_there_when_the_counter_rises(void)
{
    for (uint64_t i = 1; i <= REPEATS; i++) {
        for (size_t at = LARGEST; at > 0; at -= 4096)
            *(uint64_t *)(from + at - 8) = i;
        OK(LAPI_Put(hndl, (uint)next, LARGEST, (void *)(uintptr_t)places[next], from,
                    (lapi_cntr_t *)(uintptr_t)counters[next], NULL, &cmpl));
        wait_for(&arrived, 1);
        CHECK(has_words(i));
        wait_for(&cmpl, 1);
        OK(LAPI_Gfence(hndl));
    }
}

/* The origin delays copying its claimed part, and the target delays getting one: so the target has
 * finished its own parts while the origin's is missing. */

static _Atomic int helped;

/* Does the layer recognize that the memory is a file's, like memory shared by uTofu: from Linux
 * 6.11 on, if userfaultfd is allowed, and without ThreadSanitizer. */
static bool is_shared(const uint8_t *memory)
{
    uint64_t query[13] = {sizeof(query), 0, (uintptr_t)memory};
    int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    bool known =
        maps >= 0 && ioctl(maps, _IOC(_IOC_READ | _IOC_WRITE, 'f', 17, sizeof(query)), query) == 0;

    close(maps);
    return known && query[8] != 0; /* the inode */
}

/* Of the first task the source, of the next one the target. */
static bool are_shared(void)
{
    lapi_long_t sources[64], targets[64];

    OK(LAPI_Address_init64(hndl, is_shared(from), sources));
    OK(LAPI_Address_init64(hndl, is_shared(to), targets));
    return n > 1 && sources[0] != 0 && targets[1] != 0;
}

static void take_time(void)
{
    usleep(20 * 1000);
}

static void help_slowly(void)
{
    helped++;
    usleep(200 * 1000);
}

static void all_is_there_when_the_origin_is_slow(bool must_help)
{
    lapi_long_t all[64];
    int most = 0;

    before_large_put = me == 0 ? help_slowly : NULL;
    before_large_get = take_time;
    for (uint64_t i = 1; most < HELPS && i <= MOST_TRIES; i++) {
        for (size_t at = LARGEST; at > 0; at -= 4096)
            *(uint64_t *)(from + at - 8) = REPEATS + i;
        OK(LAPI_Gfence(hndl));
        if (me == 0)
            OK(LAPI_Put(hndl, (uint)next, LARGEST, (void *)(uintptr_t)places[next], from,
                        (lapi_cntr_t *)(uintptr_t)counters[next], NULL, &cmpl));
        if (before == 0) {
            wait_for(&arrived, 1);
            CHECK(has_words(REPEATS + i));
        }
        if (me == 0)
            wait_for(&cmpl, 1);
        OK(LAPI_Address_init64(hndl, (lapi_long_t)helped, all));
        most = (int)all[0];
    }
    before_large_put = before_large_get = NULL;
    if (me == 0)
        printf("lapi_shared: %d parts were brought by a slow origin\n", most);
    CHECK(!must_help || most >= HELPS);
}

static void *answer(lapi_handle_t *h, void *uhdr, uint *uhdr_len, ulong *msg_len,
                    compl_hndlr_t **handler, void **info)
{
    (void)msg_len;
    (void)handler;
    (void)info;
    CHECK(*uhdr_len == sizeof(int));
    OK(LAPI_Put(*h, (uint) * (int *)uhdr, LARGEST, (void *)(uintptr_t)places[*(int *)uhdr], reply,
                (lapi_cntr_t *)(uintptr_t)counters[*(int *)uhdr], NULL, &answered));
    return NULL;
}

static void from_a_handler(void)
{
    fill(reply, LARGEST, me, 77);
    OK(LAPI_Gfence(hndl));
    OK(LAPI_Amsend(hndl, (uint)next, (void *)1, &me, sizeof(me), NULL, 0, NULL, NULL, NULL));
    wait_for(&arrived, 1);
    CHECK(is_filled(to, LARGEST, next, 77));
    wait_for(&answered, 1);
    OK(LAPI_Gfence(hndl));
}

int main(int argc, char **argv)
{
    uint8_t *first_from, *first_to;

    (void)argv;
    init(NULL);
    next = (me + 1) % n;
    before = (me + n - 1) % n;
    from = first_from = malloc(SPACE);
    to = first_to = malloc(SPACE);
    reply = malloc(LARGEST);
    OK(LAPI_Addr_set(hndl, address_of(answer), 1));
    OK(LAPI_Address_init64(hndl, (uintptr_t)to, places));
    OK(LAPI_Address_init64(hndl, (uintptr_t)&arrived, counters));
    lengths_and_alignments();
    OK(LAPI_Gfence(hndl));
    /* regions with a page of these stay registered, and are not shared */
    from = aligned_alloc(4096, LARGEST);
    to = aligned_alloc(4096, LARGEST);
    memset(from, 0, LARGEST);
    memset(to, 0, LARGEST);
    OK(LAPI_Address_init64(hndl, (uintptr_t)to, places));
    all_is_there_when_the_counter_rises();
    all_is_there_when_the_origin_is_slow(argc > 1 && are_shared());
    from_a_handler();
    OK(LAPI_Term(hndl));
    free(from);
    free(to);
    free(first_from);
    free(first_to);
    free(reply);
    return 0;
}
