/* SPDX-License-Identifier: Apache-2.0 */
/* The table of environment variables: every type takes what it should and refuses the rest. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "providers.h"
#include "util/env.h"

static int parse(enum ut_env_id id, const char *text, uint64_t *value)
{
    return ut_env_parse(ut_env_get(id), text, value);
}

Test(env, mrq_entries_are_rounded_to_the_nearest_size)
{
    static const struct {
        const char *text;
        uint64_t want;
    } good[] = {{"0", 2048},        {"2048", 2048},     {"5120", 8192},     {"5119", 2048},
                {"2ki", 2048},      {"128Ki", 131072},  {"2MI", 2097152},   {"9999999", 2097152},
                {"131072", 131072}, {"300000", 131072}, {"330000", 524288}, {"512KI", 524288}};
    uint64_t v;

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        cr_assert_eq(parse(UT_ENV_NUM_MRQ_ENTRIES, good[i].text, &v), 0, "%s", good[i].text);
        cr_assert_eq(v, good[i].want, "%s gives %llu", good[i].text, (unsigned long long)v);
    }
    cr_assert_neq(parse(UT_ENV_NUM_MRQ_ENTRIES, "many", &v), 0);
    cr_assert_neq(parse(UT_ENV_NUM_MRQ_ENTRIES, "-1", &v), 0);
    cr_assert_neq(parse(UT_ENV_NUM_MRQ_ENTRIES, "2Kx", &v), 0);
}

Test(env, swap_protect_takes_any_integer)
{
    uint64_t v;

    cr_assert(parse(UT_ENV_SWAP_PROTECT, "0", &v) == 0 && v == 0);
    cr_assert(parse(UT_ENV_SWAP_PROTECT, "1", &v) == 0 && v == 1);
    cr_assert(parse(UT_ENV_SWAP_PROTECT, "7", &v) == 0 && v == 1);
    cr_assert(parse(UT_ENV_SWAP_PROTECT, "-2", &v) == 0 && v == 1);
    cr_assert_neq(parse(UT_ENV_SWAP_PROTECT, "yes", &v), 0);
}

Test(env, choices_and_ranges_are_kept)
{
    uint64_t v;

    cr_assert(parse(UT_ENV_PROVIDER, "SHM", &v) == 0 && v == UT_PROVIDER_FIRST + PROV_INDEX_shm);
    cr_assert_neq(parse(UT_ENV_PROVIDER, "tcp", &v), 0);
    cr_assert_neq(parse(UT_ENV_PROVIDER, "", &v), 0);
    cr_assert(parse(UT_ENV_NUM_TOQ_ENTRIES, "4096", &v) == 0 && v == 4096);
    cr_assert_neq(parse(UT_ENV_NUM_TOQ_ENTRIES, "2047", &v), 0);
    cr_assert_neq(parse(UT_ENV_NUM_TOQ_ENTRIES, "99999999999999999999999", &v), 0);
    cr_assert(parse(UT_ENV_PEER_TIMEOUT, "3600", &v) == 0 && v == 3600);
    cr_assert_neq(parse(UT_ENV_PEER_TIMEOUT, "3601", &v), 0);
    cr_assert(parse(UT_ENV_PEER_TIMEOUT, "1", &v) == 0 && v == 1);
    cr_assert_neq(parse(UT_ENV_PEER_TIMEOUT, "0", &v), 0);
    cr_assert(parse(UT_ENV_PROGRESS_THREAD, "off", &v) == 0 && v == 0);
    cr_assert_neq(parse(UT_ENV_PROGRESS_THREAD, "maybe", &v), 0);
}

Test(env, lists_have_choices_only)
{
    uint64_t v;

    cr_assert_eq(parse(UT_ENV_LOG_CATEGORY, "all", &v), 0);
    cr_assert_eq(parse(UT_ENV_LOG_CATEGORY, "verbs,link", &v), 0);
    cr_assert_eq(parse(UT_ENV_LOG_CATEGORY, " Shm, api ,", &v), 0);
    cr_assert_neq(parse(UT_ENV_LOG_CATEGORY, "verb", &v), 0);
    cr_assert_neq(parse(UT_ENV_LOG_CATEGORY, "verbs,gate", &v), 0);
    cr_assert_neq(parse(UT_ENV_LOG_CATEGORY, "all|api", &v), 0);
    cr_assert_neq(parse(UT_ENV_LOG_CATEGORY, ",", &v), 0);
    cr_assert_str_eq(ut_env_str(UT_ENV_LOG_CATEGORY), "all"); /* unless set */
}

Test(env, what_is_allowed_can_be_told)
{
    char text[160];

    ut_env_allowed(ut_env_get(UT_ENV_PEER_TIMEOUT), text, sizeof(text));
    cr_assert_str_eq(text, "a number from 1 to 3600");
    ut_env_allowed(ut_env_get(UT_ENV_PROVIDER), text, sizeof(text));
    cr_assert_str_eq(text, "one of auto" PROV_CHOICES);
    ut_env_allowed(ut_env_get(UT_ENV_SHAPE), text, sizeof(text));
    cr_assert_str_eq(text, "a text");
}

Test(env, every_entry_says_what_it_is)
{
    for (int i = 0; i < UT_ENV_COUNT; i++) {
        const struct ut_env_entry *e = ut_env_get((enum ut_env_id)i);
        cr_assert(strncmp(e->name, "UTOFU_", 6) == 0);
        cr_assert_gt(strlen(e->help), 10, "%s", e->name);
        if (e->type == UT_ENV_TYPE_UINT)
            cr_assert(e->min <= e->def && e->def <= e->max, "%s", e->name);
    }
}

/* The names that are nobody's, with a blank behind each. */
static void unknown(const char *environment[], char *out, size_t size)
{
    size_t length, used = 0;
    const char *name;

    out[0] = '\0';
    for (char **at = (char **)environment; (name = ut_env_next_unknown(&at, &length));)
        used += (size_t)snprintf(out + used, size - used, "%.*s ", (int)length, name);
}

Test(env, names_that_are_nobodys_are_found)
{
    const char *bad[] = {"PATH=/bin",      "UTOFU_PROVDER=shm",
                         "UTOFU_ARMW=cpu", "UTOFU_RANKS=1",
                         "UTOFU_DIRS=/x",  "UTOFU_",
                         "UTOFU_ARM=cpu",  NULL};
    const char *good[] = {
        "PATH=/bin",    "UTOFU=1",           "UTOFU_ROOT=x",          "MY_UTOFU_X=1",
        "UTOFU_DIR=/x", "UTOFU_HOME=/opt/u", "UTOFU_VERBS_VERSION=1", NULL};
    char text[256];

    unknown(bad, text, sizeof(text));
    cr_assert_str_eq(text, "UTOFU_PROVDER UTOFU_RANKS UTOFU_DIRS UTOFU_ UTOFU_ARM ");
    unknown(good, text, sizeof(text));
    cr_assert_str_eq(text, "");
    for (int i = 0; i < UT_ENV_COUNT; i++) {
        const char *own[] = {ut_env_get((enum ut_env_id)i)->name, NULL};
        unknown(own, text, sizeof(text));
        cr_assert_str_eq(text, "");
    }
}

Test(env, the_name_that_was_meant_is_told)
{
    static const char *const pairs[][2] = {
        {"UTOFU_LOGLEVEL", "UTOFU_LOG_LEVEL"},
        {"UTOFU_LOG_LEVLE", "UTOFU_LOG_LEVEL"},
        {"UTOFU_PROVDER", "UTOFU_PROVIDER"},
        {"UTOFU_DEVICES", "UTOFU_VERBS_DEVICES"},
        {"UTOFU_MRQ_ENTRIES", "UTOFU_NUM_MRQ_ENTRIES"},
        {"UTOFU_RNAK", "UTOFU_RANK"},
        {"UTOFU_SHM_MAPPING", "UTOFU_SHM_MAP"},
    };
    static const char *const far[] = {
        "UTOFU_", "UTOFU_X", "UTOFU_COLOUR_OF_MY_BENCHMARK",
        "UTOFU_A_NAME_THAT_IS_LONGER_THAN_ANY_THAT_A_LIBRARY_MAY_HAVE"};

    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        const char *nearest = ut_env_nearest(pairs[i][0], strlen(pairs[i][0]));
        cr_assert_not_null(nearest, "%s", pairs[i][0]);
        cr_assert_str_eq(nearest, pairs[i][1]);
    }
    for (size_t i = 0; i < sizeof(far) / sizeof(far[0]); i++)
        cr_assert_null(ut_env_nearest(far[i], strlen(far[i])), "%s", far[i]);
}
