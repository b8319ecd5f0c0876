/* SPDX-License-Identifier: Apache-2.0 */
/* Where a recorded call was made: sites are the return addresses of the program, found once for
 * each way to a call. */
#include <alloca.h>
#include <criterion/criterion.h>
#include <string.h>

#include "record/site.h"

enum { PATHS_OF_STACK = 32, PATHS_MAX = 4096 };

static struct ut_unwinder unwinder;
static struct ut_sites sites;
static bool walked;
static unsigned int num_walked;

static void begin(void)
{
    ut_unwinder_open(&unwinder);
    cr_assert(unwinder.walk && unwinder.own_begin == 0 && unwinder.own_end == 0,
              "the library is in this program");
    ut_sites_init(&sites, &unwinder);
}

static void end(void)
{
    ut_sites_free(&sites);
}

TestSuite(sites, .init = begin, .fini = end);

#define NOINLINE       __attribute__((noinline, noclone))
#define NO_TAIL_CALL() __asm__ volatile("" ::: "memory")

/* As a recorded call. */
static NOINLINE struct ut_site *find(void)
{
    walked = false;
    struct ut_site *site = ut_site_find(&sites, (uintptr_t)__builtin_frame_address(0), &walked);

    num_walked += walked;
    NO_TAIL_CALL();
    return site;
}

static NOINLINE struct ut_site *call_a(void)
{
    struct ut_site *site = find();

    NO_TAIL_CALL();
    return site;
}

static NOINLINE struct ut_site *call_b(void)
{
    struct ut_site *site = find();

    NO_TAIL_CALL();
    return site;
}

/* The same call with more on the stack. */
static NOINLINE struct ut_site *call_deeper(size_t bytes)
{
    volatile char *more = alloca(bytes);

    more[0] = 1;
    struct ut_site *site = call_a();
    NO_TAIL_CALL();
    return site;
}

static bool is_in(uint64_t address, struct ut_site *(*function)(void))
{
    return address > (uintptr_t)function && address < (uintptr_t)function + 256;
}

Test(sites, same_way_is_the_same_site)
{
    struct ut_site *first = NULL;

    for (int i = 0; i < 5; i++) {
        struct ut_site *site = call_a();
        cr_assert_eq(walked, i == 0, "found once");
        first = first ? first : site;
        cr_assert_eq(site, first);
    }
    cr_assert(first->index == 1 && !first->written && first->next == &sites.unknown);
    cr_assert(first->num >= 2 && first->num <= UT_SITE_FRAMES);
    cr_assert(is_in(first->frames[0], call_a));
    struct ut_site *other = call_b();
    cr_assert(walked && other != first && other->index == 2 && is_in(other->frames[0], call_b));
    cr_assert_neq(call_b(), other, "called from another place");
}

Test(sites, another_way_with_the_same_addresses_is_the_same_site)
{
    struct ut_site *site[3];

    for (size_t i = 0; i < 3; i++) {
        site[i] = call_deeper(64 + 512 * i);
        cr_assert(walked);
    }
    cr_assert(site[0] == site[1] && site[1] == site[2]);
    cr_assert_eq(sites.sites.used, 1);
    cr_assert_eq(sites.paths.used, 3);
}

static NOINLINE struct ut_site *call_from_depth(unsigned int depth)
{
    struct ut_site *site = depth ? call_from_depth(depth - 1) : find();

    NO_TAIL_CALL();
    return site;
}

Test(sites, frames_are_eight_at_most)
{
    const struct ut_site *site = call_from_depth(20);

    cr_assert_eq(site->num, UT_SITE_FRAMES);
    for (int i = 2; i < UT_SITE_FRAMES; i++)
        cr_assert_eq(site->frames[i], site->frames[1], "%d", i);
    cr_assert_eq(call_from_depth(20)->num, UT_SITE_FRAMES);
}

/* Frames of the library are left out. */
Test(sites, frames_of_the_library_itself)
{
    uint64_t frame = call_a()->frames[0];

    unwinder.own_begin = frame;
    unwinder.own_end = frame + 1;
    cr_assert_neq(call_a()->frames[0], frame);
    cr_assert(walked);
    unwinder.own_begin = frame - 5;
    unwinder.own_end = frame;
    cr_assert_eq(call_a()->frames[0], frame);
    unwinder.own_begin = frame + 1;
    unwinder.own_end = frame + 5;
    cr_assert_eq(call_a()->frames[0], frame);
    unwinder.own_begin = 1;
    unwinder.own_end = UINTPTR_MAX;
    cr_assert_eq(call_a(), &sites.unknown, "nothing is left");
}

/* Calls at the same depth of the stack. */
Test(sites, ways_from_one_depth_are_limited)
{
    struct ut_site *site[40];
    unsigned int i = 0;

#define ONE   site[i++] = find();
#define EIGHT ONE ONE ONE ONE ONE ONE ONE ONE
    EIGHT EIGHT EIGHT EIGHT EIGHT cr_assert_eq(num_walked, PATHS_OF_STACK);
    for (i = 0; i < 40; i++)
        cr_assert_eq(site[i]->index, i < PATHS_OF_STACK ? i + 1 : 0, "%u", i);
}

static NOINLINE void call_at_each_depth(unsigned int depth)
{
    find();
    if (depth > 0)
        call_at_each_depth(depth - 1);
    NO_TAIL_CALL();
}

Test(sites, ways_of_a_thread_are_limited)
{
    call_at_each_depth(PATHS_MAX + 100);
    cr_assert_eq(num_walked, PATHS_MAX);
    cr_assert_eq(find(), &sites.unknown);
}

Test(sites, without_an_unwinder_all_are_unknown)
{
    unwinder.walk = NULL;
    cr_assert_eq(call_a(), &sites.unknown);
    cr_assert(!walked && sites.unknown.index == 0 && sites.unknown.written);
}
