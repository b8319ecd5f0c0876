/* SPDX-License-Identifier: Apache-2.0 */
/* The freedoms that this process has met, for the dump of a program that aborts: how often, and
 * when the last time. */
#include "shuffle/freedoms.h"

#include "util/clock.h"
#include "vcq/vcq.h"

/* What happened, and what to do; sections of the manual. In the order of enum sh_freedom. */
static const struct freedom_text {
    const char *what, *instead;
} texts[SH_NUM_FREEDOMS] = {
    [SH_FREEDOM_BUSY] = {"UTOFU_ERR_BUSY of a TOQ with little room",
                         "poll the TCQ after UTOFU_ERR_BUSY, and try again (3.7.1)"},
    [SH_FREEDOM_START] = {"a communication with DELAY_START that began at once",
                          "have data and target ready before the call (3.7.9.1)"},
    [SH_FREEDOM_ORDER] = {"a communication that overtook an earlier one to the same VCQ",
                          "STRONG_ORDER, or a notice of each (2.2.10)"},
    [SH_FREEDOM_PIECES] = {"a line of a put or get that came before the lines below it",
                           "look at each line, or wait for a notice (2.2.10)"},
    [SH_FREEDOM_LATE] = {"a notice or completion that came later than its data",
                         "poll until it comes (3.7.5)"},
};

/* What the program has met so far. Atomic. */
static struct {
    struct {
        uint64_t times, last_us;
    } uses[SH_NUM_FREEDOMS];
    const struct ut_vcq *busy_vcq;  /* the TOQ that has last had no room, */
    uint32_t busy_calls, busy_room; /* and its calls and room at that time */
} met;

void sh_freedom_met(enum sh_freedom freedom)
{
    __atomic_add_fetch(&met.uses[freedom].times, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&met.uses[freedom].last_us, ut_clock_us(), __ATOMIC_RELAXED);
}

void ut_shuffle_note_busy(const struct ut_vcq *vcq)
{
    if (vcq->toq_limit > vcq->toq_mask)
        return;
    __atomic_store_n(&met.busy_calls, ut_vcq_calls(vcq), __ATOMIC_RELAXED);
    __atomic_store_n(&met.busy_room, vcq->toq_limit, __ATOMIC_RELAXED);
    __atomic_store_n(&met.busy_vcq, vcq, __ATOMIC_RELAXED);
    sh_freedom_met(SH_FREEDOM_BUSY);
}

/* True if the program has not called the library for that VCQ since. */
static bool busy_was_last(const struct ut_vcq *vcq)
{
    return vcq && ut_vcq_calls(vcq) == __atomic_load_n(&met.busy_calls, __ATOMIC_RELAXED);
}

/* The freedom that was met last, of those that are not in `printed`; -1: none is left. */
static int find_last(unsigned int printed, const uint64_t last_us[SH_NUM_FREEDOMS])
{
    int found = -1;

    for (int i = 0; i < SH_NUM_FREEDOMS; i++)
        if (last_us[i] != 0 && !(printed >> i & 1) && (found < 0 || last_us[i] > last_us[found]))
            found = i;
    return found;
}

void ut_shuffle_dump(void (*print)(const char *fmt, ...))
{
    const struct ut_vcq *vcq = __atomic_load_n(&met.busy_vcq, __ATOMIC_RELAXED);
    uint64_t now = ut_clock_us(), last_us[SH_NUM_FREEDOMS];
    unsigned int printed = 0;
    int i;

    for (i = 0; i < SH_NUM_FREEDOMS; i++)
        last_us[i] = __atomic_load_n(&met.uses[i].last_us, __ATOMIC_RELAXED);
    if (busy_was_last(vcq))
        print("shuffle last call: UTOFU_ERR_BUSY, injected, of VCQ %016llx, whose TOQ takes %u of "
              "%u descriptors; no other call on it since: %s",
              (unsigned long long)vcq->id, __atomic_load_n(&met.busy_room, __ATOMIC_RELAXED),
              vcq->toq_mask + 1, texts[SH_FREEDOM_BUSY].instead);
    for (; (i = find_last(printed, last_us)) >= 0; printed |= 1u << i) {
        uint64_t ago_us = now > last_us[i] ? now - last_us[i] : 0;
        print("shuffle met %llu us ago, %llu times: %s: %s", (unsigned long long)ago_us,
              (unsigned long long)__atomic_load_n(&met.uses[i].times, __ATOMIC_RELAXED),
              texts[i].what, texts[i].instead);
    }
}
