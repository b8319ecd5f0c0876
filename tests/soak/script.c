/* SPDX-License-Identifier: Apache-2.0 */
/* See script.h. Uses the public interface and tests/harness/traffic.h. */
#include "script.h"

#include <stdio.h>
#include <string.h>

uint64_t soak_refused_every;
size_t soak_longest = 6000;

/* The words of each origin at each target, and those of all origins at each target. */
static uint8_t own_words[UT_TRAFFIC_VCQS][UT_TRAFFIC_VCQS][SOAK_WORDS];
static uint8_t all_words[UT_TRAFFIC_VCQS][SOAK_WORDS];

/* Memory */

size_t soak_words(int origin)
{
    return ut_get_slice(ut_num_actors) + (size_t)origin * SOAK_WORDS;
}

size_t soak_memory_size(void)
{
    return (soak_words(ut_num_actors + 1) + 4095) / 4096 * 4096;
}

size_t soak_part_start(uint64_t epoch, int vcq)
{
    return (epoch * 7 + (uint64_t)vcq) % 13 * 256 * 37;
}

size_t soak_part_size(uint64_t epoch, int vcq)
{
    size_t most = ut_get_slice(0) - soak_part_start(epoch, vcq);

    return most / 256 * 256 - epoch % 5 * 256 * 11;
}

unsigned int soak_part_stag(uint64_t epoch)
{
    return SOAK_STAG_PART + (unsigned int)(epoch % SOAK_STAGS_PART);
}

void soak_script_forget(int vcq)
{
    for (int other = 0; other < UT_TRAFFIC_VCQS; other++)
        memset(own_words[other][vcq], 0, SOAK_WORDS);
    memset(all_words[vcq], 0, SOAK_WORDS);
}

/* Scripts */

/* The STADD of a place, by one of the registrations that have it. */
static utofu_stadd_t address(struct ut_script *script, int vcq, size_t at, size_t size)
{
    const struct ut_peer *peer = &ut_actors[vcq].peer;
    size_t start = soak_part_start(script->epoch, vcq);
    utofu_stadd_t stadd;

    switch (ut_draw(script, 3)) {
    case 0:
        CHECK_OK(utofu_query_stadd(peer->id, SOAK_STAG_ALL, &stadd));
        return stadd + at;
    case 1:
        if (at < start || at + size > start + soak_part_size(script->epoch, vcq))
            break;
        CHECK_OK(utofu_query_stadd(peer->id, soak_part_stag(script->epoch), &stadd));
        return stadd + at - start;
    default:
        break;
    }
    return peer->stadd + at;
}

static uint64_t change_word(const struct ut_op *op)
{
    switch (op->armw_op) {
    case UTOFU_ARMW_OP_SWAP:
        return op->operand;
    case UTOFU_ARMW_OP_ADD:
        return op->old + op->operand;
    case UTOFU_ARMW_OP_XOR:
        return op->old ^ op->operand;
    case UTOFU_ARMW_OP_AND:
        return op->old & op->operand;
    case UTOFU_ARMW_OP_OR:
        return op->old | op->operand;
    default:
        return op->old == op->comparand ? op->operand : op->old;
    }
}

/* A word of this origin: its ARMWs are executed in order, so the old value is known. */
static void choose_own_word(struct ut_script *script, struct ut_op *op, uint8_t *words, size_t *at)
{
    op->word_size = ut_draw(script, 2) ? 4 : 8;
    *at = op->word_size == 4
              ? 4 * ut_draw(script, SOAK_OWN_ENDS / 4)
              : SOAK_OWN_ENDS + 8 * ut_draw(script, (SOAK_WORDS - SOAK_OWN_ENDS) / 8);
    op->armw_op = (int)ut_draw(script, 6);
    op->comm.flags |= UT_STRONG;
    op->operand = ut_rng_next(&script->rng);
    memcpy(&op->old, words + *at, op->word_size);
    op->comparand = ut_draw(script, 2) ? op->old : ut_rng_next(&script->rng);
}

/* A word of all origins: additions in one, exclusive or in another, so the order does not matter.
 */
static void choose_shared_word(struct ut_script *script, struct ut_op *op, const uint8_t *words,
                               size_t *at)
{
    op->shared = true;
    op->word_size = ut_draw(script, 2) ? 4 : 8;
    op->armw_op = ut_draw(script, 2) ? UTOFU_ARMW_OP_ADD : UTOFU_ARMW_OP_XOR;
    *at = (op->word_size == 8 ? 0 : 16) + (op->armw_op == UTOFU_ARMW_OP_XOR ? op->word_size : 0);
    op->operand = ut_rng_next(&script->rng);
    memcpy(&op->old, words + *at, op->word_size);
}

/* One in five operations is an ARMW. */
static bool choose_word(struct ut_script *script, struct ut_op *op)
{
    uint8_t *words = own_words[script->origin][op->target];
    size_t at, base = soak_words(script->origin);
    uint64_t new;

    if (ut_draw(script, 5) != 0)
        return false;
    op->comm.kind = (enum ut_kind)UT_ARMW;
    if (ut_draw(script, 3)) {
        choose_own_word(script, op, words, &at);
    } else {
        words = all_words[op->target];
        base = soak_words(ut_num_actors);
        choose_shared_word(script, op, words, &at);
    }
    if (op->word_size == 4) {
        op->operand = (uint32_t)op->operand;
        op->comparand = (uint32_t)op->comparand;
    }
    new = change_word(op);
    memcpy(words + at, &new, op->word_size);
    op->comm.rmt = script->id[op->target];
    op->comm.flags |= script->path[op->target];
    op->comm.rmt_stadd = address(script, op->target, base + at, op->word_size);
    return true;
}

/* A wrong remote address, now and then. */
static void spoil(struct ut_script *script, struct ut_op *op)
{
    struct ut_comm *comm = &op->comm;

    if (soak_refused_every == 0 || ut_draw(script, soak_refused_every) != 0)
        return;
    if (op->comm.kind == (enum ut_kind)UT_ARMW || ut_is_stride(comm->kind) || comm->length == 0)
        return;
    if (ut_draw(script, 2)) {
        CHECK_OK(
            utofu_query_stadd(ut_actors[op->target].peer.id, SOAK_STAG_NONE, &comm->rmt_stadd));
        op->refused = UTOFU_ERR_MRQ_RMT_STADD;
    } else if (comm->length > 1) { /* begins before the end of the registered memory */
        CHECK_OK(utofu_query_stadd(ut_actors[op->target].peer.id, SOAK_STAG_ALL, &comm->rmt_stadd));
        comm->rmt_stadd += soak_memory_size() - comm->length / 2;
        op->refused = UTOFU_ERR_MRQ_RMT_LENGTH;
    }
    if (op->refused)
        soak_count(SOAK_REFUSED, script->origin / UT_PER_PROC == ut_rank);
}

void soak_script_open(int processes)
{
    ut_num_actors = processes * UT_PER_PROC;
    ut_traffic = (struct ut_traffic){.slice = SOAK_SLICE,
                                     .longest = soak_longest,
                                     .rarely = true,
                                     .block_bound = 2000,
                                     .address = address,
                                     .choose_other = choose_word,
                                     .spoil = spoil};
}

void soak_script_write(uint64_t epoch)
{
    struct ut_rng rng = ut_rng_start(ut_seed() + epoch * 77);

    for (int vcq = 0; vcq < ut_num_actors; vcq++)
        ut_actors[vcq].shift = (uint32_t)ut_rng_below(&rng, UT_SOURCE_TABLE);
    for (int origin = 0; origin < ut_num_actors; origin++) {
        struct ut_script script = {
            .rng = ut_rng_start(ut_seed() * 1000003 + epoch * UT_TRAFFIC_VCQS + (uint64_t)origin),
            .epoch = epoch,
            .origin = origin};
        ut_script_write(&script);
    }
}

/* The model */

void soak_model_apply(int vcq, uint8_t *model)
{
    ut_model_apply(vcq, model);
    for (int origin = 0; origin < ut_num_actors; origin++)
        memcpy(model + soak_words(origin), own_words[origin][vcq], SOAK_WORDS);
    memcpy(model + soak_words(ut_num_actors), all_words[vcq], SOAK_WORDS);
}

/* Each byte is as before, or one that an operation of the script may have left. */
static void check_possible(int vcq, const uint8_t *mem, const uint8_t *before, int origin,
                           int target)
{
    static bool possible[SOAK_SLICE];
    bool get = origin == vcq && target != vcq;
    size_t base = get ? ut_get_slice(target) : ut_put_slice(origin);
    char place[100];

    for (size_t i = 0; i < SOAK_SLICE; i++)
        possible[i] = mem[base + i] == before[base + i];
    for (int n = 0; n < ut_actors[origin].num_ops; n++) {
        const struct ut_op *op = &ut_actors[origin].ops[n];

        if (op->target != target || op->refused || op->comm.kind == (enum ut_kind)UT_ARMW ||
            ut_is_get(op->comm.kind) != get)
            continue;
        for (size_t b = 0; b < ut_op_blocks(op); b++)
            for (size_t i = 0; i < op->comm.length; i++) {
                size_t at = b * op->comm.stride + i;
                if (mem[base + op->dst + at] == ut_source(get ? target : origin)[op->src + at])
                    possible[op->dst + at] = true;
            }
    }
    for (size_t i = 0; i < SOAK_SLICE; i++) {
        ut_model_place(vcq, base + i, place, sizeof(place));
        CHECK(possible[i], "%s: 0x%02x, which nobody has written there", place, mem[base + i]);
    }
}

/* True if an operation failed as the target was killed: also if the target had done its own part of
 * the epoch. */
static bool has_failed(int origin, int target)
{
    for (int n = 0; n < ut_actors[origin].num_ops; n++) {
        const struct ut_op *op = &ut_actors[origin].ops[n];

        if (op->target == target && op->errors > 0)
            return true;
    }
    return false;
}

void soak_model_check(int vcq, const uint8_t *mem, const uint8_t *model, const uint8_t *before)
{
    bool missed = soak_missed();

    ut_model_check(vcq, mem, model, 0, SOAK_SLICE);
    for (int other = 0; other < ut_num_actors; other++) {
        if (missed && ut_is_dead(other / UT_PER_PROC)) {
            check_possible(vcq, mem, before, other, vcq);
            check_possible(vcq, mem, before, vcq, other);
            continue;
        }
        ut_model_check(vcq, mem, model, ut_put_slice(other), SOAK_SLICE);
        if (has_failed(vcq, other))
            check_possible(vcq, mem, before, vcq, other);
        else
            ut_model_check(vcq, mem, model, ut_get_slice(other), SOAK_SLICE);
        ut_model_check(vcq, mem, model, soak_words(other), SOAK_WORDS);
    }
    if (!missed)
        ut_model_check(vcq, mem, model, soak_words(ut_num_actors), SOAK_WORDS);
}
