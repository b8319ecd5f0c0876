/* SPDX-License-Identifier: Apache-2.0 */
#include "stats/counters.h"

#include "util/decimal.h"

const struct ut_counter_entry ut_counters[UT_NUM_COUNTERS] = {
#define COUNTER(id, of, how_, line_, total_, meaning)                                              \
    [UT_COUNT_##id] = {                                                                            \
        .line = line_, .total = total_, .holders = UT_COUNTS_##of, .how = UT_COUNTS_##how_},
#include "stats/totals.h"
#undef COUNTER
};

void ut_counter_add(uint64_t *into, enum ut_counter counter, uint64_t n)
{
    if (ut_counters[counter].how != UT_COUNTS_MOST)
        *into += n;
    else if (n > *into)
        *into = n;
}

/* Prints the number unless it is 0. */
static void print_number(FILE *out, const char *name, uint64_t n)
{
    if (n)
        fprintf(out, " %s=%llu", name, (unsigned long long)n);
}

void ut_counters_add(uint64_t totals[UT_NUM_COUNTERS], const uint64_t n[UT_NUM_COUNTERS],
                     unsigned int holder)
{
    for (int i = 0; i < UT_NUM_COUNTERS; i++) {
        unsigned int holders = ut_counters[i].holders;
        if (holders == holder || (holders == UT_COUNTS_BOTH && holder == UT_COUNTS_VCQ))
            ut_counter_add(&totals[i], i,
                           ut_counters[i].how == UT_COUNTS_TIME ? n[i] / 1000 : n[i]);
    }
}

void ut_counters_print(FILE *out, const uint64_t n[UT_NUM_COUNTERS], unsigned int holders)
{
    for (int i = 0; i < UT_NUM_COUNTERS; i++) {
        const struct ut_counter_entry *e = &ut_counters[i];
        if (!(e->holders & holders))
            continue;
        if (e->how != UT_COUNTS_TIME)
            print_number(out, e->line, n[i]);
        else if (n[i])
            fprintf(out, " %s=%s", e->line, ut_decimal(n[i], 1000000, 3).text);
    }
}
