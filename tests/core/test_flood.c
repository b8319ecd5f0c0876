/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines that repeat. */
#include "util/rate_limit.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static const char *const fmt = "rank %d is away", *const other = "rank %d is back";

static int count_shown(const char *f, const char *text, int n, uint64_t now_ms)
{
    uint64_t times;
    int shown = 0;

    for (int i = 0; i < n; i++)
        shown += ut_rate_limit_allows(f, text, now_ms, &times);
    return shown;
}

static int told;
static uint64_t told_times;
static char told_text[512];

static void tell(const char *text, uint64_t times)
{
    told++;
    told_times = times;
    snprintf(told_text, sizeof(told_text), "%s", text);
}

Test(flood, equal_lines_are_shown_once_and_then_counted)
{
    cr_assert_eq(count_shown(fmt, "rank 1 is away", 1, 1), 1);
    cr_assert_eq(count_shown(fmt, "rank 1 is away", 8, 2), 0);
    cr_assert_eq(count_shown(fmt, "rank 1 is away", 1, 3), 1); /* the tenth */
    cr_assert_eq(count_shown(fmt, "rank 1 is away", 110604 - 10, 4), 4);
    ut_rate_limit_for_each(tell);
    cr_assert_eq(told, 1);
    cr_assert_eq(told_times, 110604);
    cr_assert_str_eq(told_text, "rank 1 is away");
}

Test(flood, every_peer_and_every_cause_is_shown)
{
    cr_assert_eq(count_shown(fmt, "rank 1 is away", 5, 1), 1);
    cr_assert_eq(count_shown(fmt, "rank 2 is away", 5, 1), 1);
    cr_assert_eq(count_shown(other, "rank 1 is back", 5, 1), 1);
    ut_rate_limit_for_each(tell);
    cr_assert_eq(told, 3);
}

Test(flood, what_comes_seldom_is_shown_each_time)
{
    for (uint64_t t = 1; t < 20; t++)
        cr_assert_eq(count_shown(fmt, "rank 1 is away", 1, t * UT_RATE_LIMIT_PAUSE_MS), 1);
    ut_rate_limit_for_each(tell);
    cr_assert_eq(told, 0);
}

Test(flood, lines_that_differ_in_values_are_counted_when_they_are_very_many)
{
    char text[64];
    int shown = 0;

    for (int i = 0; i < 10000; i++) {
        snprintf(text, sizeof(text), "rank %d is away", i);
        shown += count_shown(fmt, text, 1, 1);
    }
    cr_assert_eq(shown, UT_RATE_LIMIT_BURST + 3); /* 100, 1000 and 10000 */
    ut_rate_limit_for_each(tell);
    cr_assert_eq(told_times, 10000);
    cr_assert(strstr(told_text, "others like it"));
}
