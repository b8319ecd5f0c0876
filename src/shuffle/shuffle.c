/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the mode is on, and its random decisions: pure functions of the seed and the operation.
 * These functions need no provider. */
#include "shuffle/shuffle.h"
#include "shuffle/freedoms.h"
#include "shuffle/inner.h"
#include "util/env.h"
#include "util/hash.h"
#include "util/log.h"
#include "vcq/vcq.h"

enum { MIN_TOQ = 8, MAX_TOQ = 64 };

/* From which level on reports are delayed, and the TOQ is small. */
enum { LEVEL_TELLS_LATE = 2, LEVEL_SMALL_TOQ = 3 };
static const unsigned int longest_us[] = {0, 20, 200, 200, 2000};

static struct {
    uint64_t seed, level; /* seed 0: the mode is off */
} shuffle;

bool ut_shuffle_is_on(void)
{
    return shuffle.seed != 0;
}

void ut_shuffle_open(bool warns)
{
    shuffle.seed = ut_env_num(UT_ENV_SHUFFLE);
    shuffle.level = ut_env_num(UT_ENV_SHUFFLE_LEVEL);
    if (ut_shuffle_is_on() && warns)
        ut_log_note(
            "process",
            "UTOFU_SHUFFLE=%llu, level %llu: communication is slow and out of order, as far as "
            "the uTofu manual allows, to find errors of the program (docs/guide/check.md)",
            (unsigned long long)shuffle.seed, (unsigned long long)shuffle.level);
}

/* the last steps of splitmix64 */
static uint64_t mix_bits(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

uint64_t sh_draw(uint64_t id, uint64_t peer_id, uint64_t number, unsigned int what)
{
    uint64_t z = mix_bits(shuffle.seed + UT_HASH_FACTOR);

    z = mix_bits(z ^ id);
    z = mix_bits(z + peer_id);
    return mix_bits(z ^ (number << 6 | what));
}

uint64_t sh_delay_us(uint64_t drawn)
{
    return drawn & 1 ? (drawn >> 1) % (longest_us[shuffle.level] + 1) : 0;
}

bool sh_delays_reports(void)
{
    return shuffle.level >= LEVEL_TELLS_LATE;
}

uint32_t ut_shuffle_toq_limit(const struct ut_vcq *vcq)
{
    uint64_t drawn = sh_draw(ut_vcq_id_key(vcq->id), 0, vcq->toq_tail, SH_DRAW_TOQ);

    /* session-mode descriptors wait for arrivals, which may need further descriptors */
    if (!ut_shuffle_is_on() || shuffle.level < LEVEL_SMALL_TOQ ||
        vcq->flags & UTOFU_VCQ_FLAG_SESSION_MODE)
        return vcq->toq_mask + 1;
    return MIN_TOQ + (uint32_t)(drawn % (MAX_TOQ - MIN_TOQ + 1));
}

bool ut_shuffle_toq_room(struct ut_vcq *vcq, uint32_t n)
{
    uint32_t limit = ut_shuffle_toq_limit(vcq);

    if (vcq->toq_tail != vcq->toq_head || n > vcq->toq_mask + 1)
        return false;
    vcq->toq_limit = limit > n ? limit : n;
    return true;
}

bool ut_shuffle_starts(struct ut_vcq *vcq)
{
    bool starts = ut_shuffle_is_on() && shuffle.level >= LEVEL_SMALL_TOQ &&
                  (sh_draw(ut_vcq_id_key(vcq->id), 0, vcq->toq_tail, SH_DRAW_START) & 1) != 0;

    if (starts)
        sh_freedom_met(SH_FREEDOM_START);
    return starts;
}

bool ut_shuffle_holds(const struct ut_vcq *vcq)
{
    return ut_shuffle_is_on() &&
           (sh_draw(ut_vcq_id_key(vcq->id), 0, vcq->toq_exec, SH_DRAW_HOLD) & 1) != 0;
}
