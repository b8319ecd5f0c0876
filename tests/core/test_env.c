/* SPDX-License-Identifier: Apache-2.0 */
/* The table of environment variables: every type accepts its values and refuses all others. */
#include <criterion/criterion.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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
    } good[] = {{"0", 2048},
                {"2048", 2048},
                {"5120", 8192},
                {"5119", 2048},
                {"2ki", 2048},
                {"4Ki", 2048},
                {"5Ki", 8192},
                {"128Ki", 131072},
                {"2MI", 2097152},
                {"9999999", 2097152},
                {"131072", 131072},
                {"300000", 131072},
                {"330000", 524288},
                {"512KI", 524288},
                {"1mi", 524288},
                {"0Mi", 2048},
                {"17592186044416Mi", 2097152},
                {"17592186044415Mi", 2097152},
                {"18014398509481984Ki", 2097152},
                {"5120", 8192},
                {"5119", 2048}};
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
    cr_assert(parse(UT_ENV_CHECK, "off", &v) == 0 && v == 0, "0|1|...: also other words");
    cr_assert(parse(UT_ENV_CHECK, "true", &v) == 0 && v == 1);
    cr_assert(parse(UT_ENV_CHECK, "false", &v) == 0 && v == 0);
    cr_assert(parse(UT_ENV_PROGRESS_THREAD, "false", &v) == 0 && v == 0);
    cr_assert(parse(UT_ENV_PROGRESS_THREAD, "1", &v) == 0 && v == 1);
    cr_assert(parse(UT_ENV_SHM_MAP, "yes", &v) == 0 && v == 1);
    cr_assert(parse(UT_ENV_CHECK, "abort", &v) == 0 && v == 2);
    cr_assert_neq(parse(UT_ENV_LOG_LEVEL, "yes", &v), 0);
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
    ut_env_allowed(ut_env_get(UT_ENV_SWAP_PROTECT), text, sizeof(text));
    cr_assert_str_eq(text, "an integer");
    ut_env_allowed(ut_env_get(UT_ENV_PROGRESS_THREAD), text, sizeof(text));
    cr_assert_str_eq(text, "0 or 1");
    ut_env_allowed(ut_env_get(UT_ENV_JOB_KEY), text, sizeof(text));
    cr_assert_str_eq(text, "32 to 128 hexadecimal digits");
}

Test(env, choices_lists_and_options_are_told)
{
    const struct ut_env_entry *mrq = ut_env_get(UT_ENV_NUM_MRQ_ENTRIES),
                              *list = ut_env_get(UT_ENV_LOG_CATEGORY),
                              *tune = ut_env_get(UT_ENV_VERBS_TUNE);
    char text[1000], expected[1000] = "name=value with commas between; the names are ";
    const char *between = "";

    ut_env_allowed(mrq, text, sizeof(text));
    cr_assert(strncmp(text, "a number or one of ", 19) == 0 &&
              strcmp(text + 19, mrq->choices) == 0);
    ut_env_allowed(list, text, sizeof(text));
    cr_assert(strncmp(text, "a list of ", 10) == 0 && strcmp(text + 10, list->choices) == 0);
    for (int i = 0; i < UT_ENV_COUNT; i++) {
        const struct ut_env_entry *e = ut_env_get((enum ut_env_id)i);
        if (e->variable != tune)
            continue;
        strcat(strcat(expected, between), e->name);
        between = ", ";
    }
    ut_env_allowed(tune, text, sizeof(text));
    cr_assert_str_eq(text, expected);
}

Test(env, every_entry_says_what_it_is)
{
    for (int i = 0; i < UT_ENV_COUNT; i++) {
        const struct ut_env_entry *e = ut_env_get((enum ut_env_id)i);
        const char *variable = e->variable ? e->old_name : e->name;
        cr_assert(!variable || strncmp(variable, "UTOFU_", 6) == 0);
        cr_assert(!e->variable || !e->variable->variable, "%s", e->name);
        if (i != UT_ENV_TEST)
            cr_assert_gt(strlen(e->help), 10, "%s", e->name);
        if (e->type == UT_ENV_TYPE_UINT)
            cr_assert(e->min <= e->def && e->def <= e->max, "%s", e->name);
    }
}

/* The names taken for misspelt, each with the one that is meant. */
static void misspelt(const char *const *environment, char *out, size_t size)
{
    struct ut_env_misspelt m;
    size_t used = 0;

    out[0] = '\0';
    for (char **at = (char **)environment; ut_env_next_misspelt(&at, &m);)
        used += (size_t)snprintf(out + used, size - used, "%.*s>%s ", m.length, m.name, m.meant);
}

Test(env, near_misses_are_found_with_what_is_meant)
{
    static const char *const pairs[][2] = {
        {"UTOFU_PROVIDR", "UTOFU_PROVIDER"},
        {"UTOFU_PROVDIR", "UTOFU_PROVIDER"},
        {"UTOFU_ROVIDER", "UTOFU_PROVIDER"},
        {"UTOFU_XPROVIDER", "UTOFU_PROVIDER"},
        {"UTOFU_RPOVIDER", "UTOFU_PROVIDER"},
        {"UTOFU_PROVIDRE", "UTOFU_PROVIDER"},
        {"UTOFU_PROVIDE", "UTOFU_PROVIDER"},
        {"UTOFU_PROVIDERXY", "UTOFU_PROVIDER"},
        {"UTOFU_PRVDER", "UTOFU_PROVIDER"}, /* two letters of eight */
        {"UTOFU_LOGLEVEL", "UTOFU_LOG_LEVEL"},
        {"UTOFU_LOG_LEVLE", "UTOFU_LOG_LEVEL"},
        {"UTOFU_VERBS_DEVICE", "UTOFU_VERBS_DEVICES"},
        {"UTOFU_RNAK", "UTOFU_RANK"},
        {"UTOFU_ANK", "UTOFU_RANK"},
        {"UTOFU_ARNK", "UTOFU_RANK"},
        {"UTOFU_CQ_NAB", "UTOFU_CQ_MAP"},
        {"UTOFU_RANKS", "UTOFU_RANK"},
        {"UTOFU_ARM", "UTOFU_ARMW"},
        {"UTOFU_STATS_FIEL", "UTOFU_STATS,file"}, /* of an old name */
    };
    char text[256], entry[64], want[128];

    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        const char *const environment[] = {entry, NULL};
        snprintf(entry, sizeof(entry), "%s=1", pairs[i][0]);
        snprintf(want, sizeof(want), "%s>%s ", pairs[i][0], pairs[i][1]);
        misspelt(environment, text, sizeof(text));
        cr_assert_str_eq(text, want);
    }
}

Test(env, names_of_others_are_left_alone)
{
    const char *const environment[] = {
        "PATH=/bin",
        "UTOFU=1",
        "MY_UTOFU_RANKS=1",
        "UTOFU_=1",
        "UTOFU_X=1",
        "UTOFU_PROBE_DIR=/x",
        "UTOFU_MYAPP_LEVEL=1",
        "UTOFU_RAM=1",     /* two letters of four */
        "UTOFU_OVIDERS=1", /* three of eight */
        "UTOFU_SHOVE=1",   /* two of five */
        "UTOFU_VPORIDER=1",
        "UTOFU_STARTER=1",
        "UTOFU_DEVICES=1",
        "UTOFU_SHM_MAPPING=1",
        "UTOFU_DIR=/x",
        "UTOFU_HOME=/opt/u",
        "UTOFU_VERBS_VERSION=1",
        "UTOFU_TESTS=1", /* UTOFU_TEST is for tests */
        "UTOFU_COLOUR_OF_MY_BENCHMARK=1",
        "UTOFU_A_NAME_THAT_IS_LONGER_THAN_ANY_THAT_A_LIBRARY_MAY_HAVE=1",
        NULL};
    char text[256];

    misspelt(environment, text, sizeof(text));
    cr_assert_str_eq(text, "");
    for (int i = 0; i < UT_ENV_COUNT; i++) {
        const struct ut_env_entry *e = ut_env_get((enum ut_env_id)i);
        const char *const own[] = {e->variable ? e->old_name : e->name, NULL};
        misspelt(own, text, sizeof(text));
        cr_assert_str_eq(text, "");
    }
}

/*
 * Options
 */

Test(env, options_follow_the_value)
{
    setenv("UTOFU_STATS", "job,json,file=/tmp/a,b", 1);
    setenv("UTOFU_SHUFFLE", "7,level=2", 1);
    setenv("UTOFU_TRACE", "a,b.json,limit=9", 1);
    setenv("UTOFU_LOG_LEVEL", "debug,category=verbs,link", 1);
    setenv("UTOFU_VERBS_CONNECT", "ud,sl=3,pkey=32769", 1);
    cr_assert_eq(ut_env_load(), 0);
    cr_assert_eq(ut_env_num(UT_ENV_STATS), UT_STATS_JOB_JSON);
    cr_assert_str_eq(ut_env_str(UT_ENV_STATS_FILE), "/tmp/a,b");
    cr_assert(ut_env_num(UT_ENV_SHUFFLE) == 7 && ut_env_num(UT_ENV_SHUFFLE_LEVEL) == 2);
    cr_assert_str_eq(ut_env_str(UT_ENV_TRACE), "a,b.json");
    cr_assert_eq(ut_env_num(UT_ENV_TRACE_LIMIT), 9);
    cr_assert_eq(ut_env_num(UT_ENV_LOG_LEVEL), 4);
    cr_assert_str_eq(ut_env_str(UT_ENV_LOG_CATEGORY), "verbs,link");
    cr_assert_eq(ut_env_num(UT_ENV_VERBS_CONNECT), UT_VERBS_CONNECT_UD);
    cr_assert(ut_env_num(UT_ENV_VERBS_SL) == 3 && ut_env_num(UT_ENV_VERBS_PKEY) == 32769);
    cr_assert(!ut_env_is_set(UT_ENV_VERBS_TRAFFIC_CLASS));
}

Test(env, value_before_options_may_be_left_out)
{
    setenv("UTOFU_LOG_LEVEL", "category=shm", 1);
    setenv("UTOFU_VERBS_TUNE", "sq_depth=63,inline=0,rq_depth=", 1);
    setenv("UTOFU_SHM_MAP", ",limit=512", 1);
    cr_assert_eq(ut_env_load(), 0);
    cr_assert(ut_env_num(UT_ENV_LOG_LEVEL) == 2 && !ut_env_is_set(UT_ENV_LOG_LEVEL));
    cr_assert_str_eq(ut_env_str(UT_ENV_LOG_CATEGORY), "shm");
    cr_assert(ut_env_num(UT_ENV_VERBS_SQ_DEPTH) == 63 && ut_env_num(UT_ENV_VERBS_INLINE) == 0);
    cr_assert(ut_env_num(UT_ENV_VERBS_RQ_DEPTH) == 80 && !ut_env_is_set(UT_ENV_VERBS_RQ_DEPTH));
    cr_assert(ut_env_num(UT_ENV_SHM_MAP) == 1 && ut_env_num(UT_ENV_SHM_MAP_LIMIT) == 512);
}

Test(env, variables_without_options_keep_commas_and_equals_signs)
{
    setenv("UTOFU_ROOT", "unix:@x,nodes=2", 1);
    setenv("UTOFU_VERBS_DEVICES", "a,b=c", 1);
    cr_assert_eq(ut_env_load(), 0);
    cr_assert_str_eq(ut_env_str(UT_ENV_ROOT), "unix:@x,nodes=2");
    cr_assert_str_eq(ut_env_str(UT_ENV_VERBS_DEVICES), "a,b=c");
}

Test(env, bad_options_are_refused_with_what_is_allowed)
{
    static const char *const bad[][3] = {
        {"UTOFU_STATS", "1,sheet=x",
         "environment variable UTOFU_STATS: option 'sheet' is not allowed; it takes file"},
        {"UTOFU_SHUFFLE", "7,level=5",
         "environment variable UTOFU_SHUFFLE,level: '5' is not allowed; it takes a number from 1 "
         "to 4"},
        {"UTOFU_SHUFFLE", "7,level=1,level=2",
         "environment variable UTOFU_SHUFFLE: option 'level' is not allowed twice; it takes one"},
        {"UTOFU_SHUFFLE", "7,level",
         "environment variable UTOFU_SHUFFLE: '7,level' is not allowed; it takes a number from 0 "
         "to 4294967295, and options: level"},
        {"UTOFU_VERBS_TUNE", "63",
         "environment variable UTOFU_VERBS_TUNE: '63' is not allowed; it takes name=value with "
         "commas between; the names are sq_depth, srq_depth, rq_depth, inline, rd_atomic, "
         "max_connecting, notice_apart, rails"},
        {"UTOFU_STATS_FILE", "", ""}, /* as if it were not set */
        {"UTOFU_SHUFFLE_LEVEL", "0",
         "environment variable UTOFU_SHUFFLE_LEVEL: '0' is not allowed; it takes a number from 1 "
         "to 4"},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        pid_t child = fork();
        if (child == 0) { /* the environment is read once */
            setenv(bad[i][0], bad[i][1], 1);
            int rc = ut_env_load();
            _exit((rc != 0) == (*bad[i][2] != '\0') && strcmp(ut_env_error(), bad[i][2]) == 0 ? 0
                                                                                              : 1);
        }
        int status;
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_assert_eq(status, 0, "%s=%s", bad[i][0], bad[i][1]);
    }
}

/* The library needs only one of the two texts, and gives the memory of the other back. */
Test(env, the_name_of_this_release_takes_precedence)
{
    enum { LENGTH = 60000 };
    static char text[LENGTH + 1];

    setenv("UTOFU_TRACE", "a.json,limit=9", 1);
    setenv("UTOFU_TRACE_LIMIT", memset(text, '1', LENGTH), 1);
    size_t before = mallinfo2().uordblks;
    cr_assert_eq(ut_env_load(), 0, "%s", ut_env_error());
    cr_assert_lt(mallinfo2().uordblks, before + LENGTH);
    cr_assert_eq(ut_env_num(UT_ENV_TRACE_LIMIT), 9);
    cr_assert(ut_env_get(UT_ENV_TRACE_LIMIT)->is_by_old_name);
}

/* The line of the error ends in its room, and is still told when there are more. */
Test(env, first_of_several_errors_is_kept_and_long_ones_are_cut)
{
    static const char begins[] = "environment variable UTOFU_SHUFFLE: 'xxx";
    char value[2000];

    memset(value, 'x', sizeof(value));
    value[sizeof(value) - 1] = '\0';
    setenv("UTOFU_SHUFFLE", value, 1);
    setenv("UTOFU_STATS", "2,sheet=x,table=y", 1);
    cr_assert_neq(ut_env_load(), 0);
    cr_assert_eq(strnlen(ut_env_error(), 1000), 511);
    cr_assert_eq(strncmp(ut_env_error(), begins, strlen(begins)), 0, "%s", ut_env_error());
    cr_assert_str_eq(ut_env_get(UT_ENV_SHUFFLE)->why_bad,
                     ut_env_error() + strlen("environment variable "));
    cr_assert_str_eq(ut_env_get(UT_ENV_STATS)->why_bad,
                     "UTOFU_STATS: '2' is not allowed; it takes one of 0|1|job|job,json, and "
                     "options: file",
                     "the first of three");
    cr_assert_null(ut_env_get(UT_ENV_TRACE)->why_bad);
}

/* Each type that has a text, set and not set. */
Test(env, texts_are_those_of_the_environment)
{
    setenv("UTOFU_JOB_KEY", "00112233445566778899aabbccddeeff", 1);
    setenv("UTOFU_SHAPE", "2x3x2", 1);
    cr_assert_eq(ut_env_load(), 0);
    cr_assert_str_eq(ut_env_str(UT_ENV_JOB_KEY), "00112233445566778899aabbccddeeff");
    cr_assert_str_eq(ut_env_str(UT_ENV_SHAPE), "2x3x2");
    cr_assert_str_eq(ut_env_str(UT_ENV_CQ_MAP), "auto");
    cr_assert_str_eq(ut_env_str(UT_ENV_ROOT), "");
    cr_assert_str_eq(ut_env_str(UT_ENV_LOG_CATEGORY), "all");
    for (int i = 0; i < UT_ENV_COUNT; i++) {
        const struct ut_env_entry *e = ut_env_get((enum ut_env_id)i);
        bool has_text =
            e->type == UT_ENV_TYPE_STR || e->type == UT_ENV_TYPE_LIST || e->type == UT_ENV_TYPE_KEY;
        cr_assert_eq(e->str != NULL, has_text, "%s", e->name);
    }
}

/* To be removed with the old names, which the next release does not know. */
Test(env, old_names_of_options_mean_the_same)
{
    static const struct {
        const char *old_name, *value;
        enum ut_env_id id;
    } numbers[] = {
        {"UTOFU_SHM_MAP_LIMIT", "512", UT_ENV_SHM_MAP_LIMIT},
        {"UTOFU_VERBS_GID_INDEX", "3", UT_ENV_VERBS_GID_INDEX},
        {"UTOFU_VERBS_SL", "4", UT_ENV_VERBS_SL},
        {"UTOFU_VERBS_PKEY", "5", UT_ENV_VERBS_PKEY},
        {"UTOFU_VERBS_TRAFFIC_CLASS", "104", UT_ENV_VERBS_TRAFFIC_CLASS},
        {"UTOFU_VERBS_SQ_DEPTH", "63", UT_ENV_VERBS_SQ_DEPTH},
        {"UTOFU_VERBS_SRQ_DEPTH", "65", UT_ENV_VERBS_SRQ_DEPTH},
        {"UTOFU_VERBS_RQ_DEPTH", "81", UT_ENV_VERBS_RQ_DEPTH},
        {"UTOFU_VERBS_INLINE", "32", UT_ENV_VERBS_INLINE},
        {"UTOFU_VERBS_RD_ATOMIC", "2", UT_ENV_VERBS_RD_ATOMIC},
        {"UTOFU_VERBS_MAX_CONNECTING", "6", UT_ENV_VERBS_MAX_CONNECTING},
        {"UTOFU_VERBS_NOTICE_APART", "7", UT_ENV_VERBS_NOTICE_APART},
        {"UTOFU_OFI_RMA", "8", UT_ENV_OFI_RMA},
        {"UTOFU_SHUFFLE_LEVEL", "2", UT_ENV_SHUFFLE_LEVEL},
        {"UTOFU_TRACE_LIMIT", "9", UT_ENV_TRACE_LIMIT},
        {"UTOFU_SHM_MAP_REFUSE", "10", UT_ENV_SHM_MAP_REFUSE},
        {"UTOFU_VERBS_WR_API", "0", UT_ENV_VERBS_WR_API},
        {"UTOFU_VERBS_SRQ", "0", UT_ENV_VERBS_SRQ},
    };
    enum { NUM = sizeof(numbers) / sizeof(numbers[0]), TEXTS = 2 };
    int old = 0, options = 0;

    for (size_t i = 0; i < NUM; i++)
        setenv(numbers[i].old_name, numbers[i].value, 1);
    setenv("UTOFU_STATS_FILE", "/tmp/s", 1);
    setenv("UTOFU_LOG_CATEGORY", "verbs,link", 1);
    cr_assert_eq(ut_env_load(), 0);
    for (size_t i = 0; i < NUM; i++)
        cr_assert_eq(ut_env_num(numbers[i].id), strtoull(numbers[i].value, NULL, 10), "%s",
                     numbers[i].old_name);
    cr_assert_str_eq(ut_env_str(UT_ENV_STATS_FILE), "/tmp/s");
    cr_assert_str_eq(ut_env_str(UT_ENV_LOG_CATEGORY), "verbs,link");
    for (int at = 0; ut_env_next_old(&at);)
        old++;
    for (int i = 0; i < UT_ENV_COUNT; i++)
        options += ut_env_get((enum ut_env_id)i)->old_name != NULL;
    cr_assert(old == NUM + TEXTS && options == old, "%d of %d are tested", old, options);
}

Test(env, new_spelling_of_an_old_name_is_told)
{
    char text[128];
    int at = 0;

    setenv("UTOFU_STATS", "job", 1);
    setenv("UTOFU_STATS_FILE", "/tmp/s", 1);
    setenv("UTOFU_SHUFFLE", "7,level=1", 1); /* decides */
    setenv("UTOFU_SHUFFLE_LEVEL", "4", 1);
    cr_assert_eq(ut_env_load(), 0);
    cr_assert_eq(ut_env_num(UT_ENV_SHUFFLE_LEVEL), 1);
    const struct ut_env_entry *e = ut_env_next_old(&at);
    cr_assert_eq(e, ut_env_get(UT_ENV_SHUFFLE_LEVEL));
    e = ut_env_next_old(&at);
    cr_assert_eq(e, ut_env_get(UT_ENV_STATS_FILE));
    ut_env_spell(e, text, sizeof(text));
    cr_assert_str_eq(text, "UTOFU_STATS=job,file=/tmp/s");
    cr_assert_null(ut_env_next_old(&at));
}

Test(env, variable_of_the_tests_is_not_shown)
{
    cr_assert(!ut_env_is_shown(ut_env_get(UT_ENV_TEST)));
    cr_assert(!ut_env_is_shown(ut_env_get(UT_ENV_VERBS_SRQ)));
    cr_assert(ut_env_is_shown(ut_env_get(UT_ENV_STATS_FILE)));
}
