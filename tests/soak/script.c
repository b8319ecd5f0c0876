/* SPDX-License-Identifier: Apache-2.0 */
/* See script.h. Uses the public interface and tests/harness/ends.h. */
#include "script.h"

#include <stdio.h>
#include <string.h>

struct soak_vcq soak_vcqs[SOAK_MAX_VCQS];
int soak_num_vcqs;
uint64_t soak_refused_every;
size_t soak_longest = 6000;

enum { TABLE = 1 << 20 };
static uint8_t table[TABLE + SOAK_SLICE];

/* The words of each origin at each target, and those of all origins at each target. */
static uint8_t own_words[SOAK_MAX_VCQS][SOAK_MAX_VCQS][SOAK_WORDS];
static uint8_t all_words[SOAK_MAX_VCQS][SOAK_WORDS];

/* Memory */

size_t soak_put_slice(int origin)
{
    return (size_t)SOAK_SLICE * (1 + (size_t)origin);
}

size_t soak_get_slice(int target)
{
    return (size_t)SOAK_SLICE * (1 + (size_t)soak_num_vcqs + (size_t)target);
}

size_t soak_words(int origin)
{
    return soak_get_slice(soak_num_vcqs) + (size_t)origin * SOAK_WORDS;
}

size_t soak_memory_size(void)
{
    return (soak_words(soak_num_vcqs + 1) + 4095) / 4096 * 4096;
}

const uint8_t *soak_source(int vcq)
{
    return table + soak_vcqs[vcq].shift;
}

size_t soak_part_start(uint64_t epoch, int vcq)
{
    return (epoch * 7 + (uint64_t)vcq) % 13 * 256 * 37;
}

size_t soak_part_size(uint64_t epoch, int vcq)
{
    size_t most = soak_get_slice(0) - soak_part_start(epoch, vcq);

    return most / 256 * 256 - epoch % 5 * 256 * 11;
}

unsigned int soak_part_stag(uint64_t epoch)
{
    return SOAK_STAG_PART + (unsigned int)(epoch % SOAK_STAGS_PART);
}

void soak_script_forget(int vcq)
{
    for (int other = 0; other < SOAK_MAX_VCQS; other++)
        memset(own_words[other][vcq], 0, SOAK_WORDS);
    memset(all_words[vcq], 0, SOAK_WORDS);
}

/* Scripts */

struct script {
    struct ut_rng rng;
    uint64_t epoch;
    int origin;
    utofu_vcq_id_t id[SOAK_MAX_VCQS]; /* of the targets, with the path of this epoch */
    unsigned long int path[SOAK_MAX_VCQS];
    size_t put_used[SOAK_MAX_VCQS], get_used[SOAK_MAX_VCQS];
};

static uint64_t draw(struct script *script, uint64_t bound)
{
    return ut_rng_below(&script->rng, bound);
}

/* Some pairs take the path of the id, others one in the flags. */
static void choose_paths(struct script *script)
{
    for (int target = 0; target < soak_num_vcqs; target++) {
        uint8_t coords[3] = {(uint8_t)draw(script, 2), (uint8_t)draw(script, 3),
                             (uint8_t)draw(script, 2)};
        utofu_path_id_t path;
        utofu_vcq_id_t *id = &script->id[target];

        *id = soak_vcqs[target].peer.id;
        script->path[target] = 0;
        switch (draw(script, 4)) {
        case 0:
            CHECK_OK(utofu_get_path_id(*id, coords, &path));
            script->path[target] = UTOFU_ONESIDED_FLAG_PATH(path);
            break;
        case 1:
            CHECK_OK(utofu_set_vcq_id_path(id, coords));
            break;
        default:
            break;
        }
    }
}

static size_t choose_length(struct script *script)
{
    const size_t bounds[] = {9, 33, 65, 300, 2000, 6000, soak_longest};

    return draw(script, bounds[draw(script, draw(script, 4) ? 6 : 7)]);
}

static size_t measure_extent(const struct soak_op *op)
{
    return (soak_op_blocks(op) - 1) * op->comm.stride + op->comm.length;
}

/* A place in the slice: new, or for STRONG_ORDER perhaps over what was written before. */
static size_t choose_place(struct script *script, struct soak_op *op, size_t *used)
{
    size_t size = measure_extent(op), place;

    if ((op->comm.flags & UT_STRONG) && *used >= size && draw(script, 2))
        return draw(script, *used - size + 1);
    place = *used + draw(script, 16);
    if (place + size > SOAK_SLICE - SOAK_FLUSH) { /* no room left */
        op->comm.length = 0;
        op->comm.stride = 0;
        return 0;
    }
    *used = place + size;
    return place;
}

static void choose_shape(struct script *script, struct ut_comm *comm)
{
    comm->length = choose_length(script);
    if (comm->length > ut_max_length(comm->kind))
        comm->length %= ut_max_length(comm->kind) + 1;
    if (ut_is_stride(comm->kind)) {
        comm->length %= 2000;
        comm->blocks = 1 + draw(script, SOAK_MAX_BLOCKS);
        comm->stride = draw(script, 3) ? comm->length + draw(script, 100) : comm->length;
        if ((comm->flags & UT_STRONG) && draw(script, 3) == 0)
            comm->stride = draw(script, comm->length + 1); /* blocks overlap */
    }
    if (ut_has_gap(comm->kind)) {
        comm->mtu = 1 + draw(script, 1920);
        comm->gap = draw(script, 256);
    }
}

/* The STADD of a place, by one of the registrations that have it. */
static utofu_stadd_t address(struct script *script, int vcq, size_t at, size_t size)
{
    const struct ut_peer *peer = &soak_vcqs[vcq].peer;
    size_t start = soak_part_start(script->epoch, vcq);
    utofu_stadd_t stadd;

    switch (draw(script, 3)) {
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

/* Fills in the fields that follow from the target and the two places. */
static void address_op(struct script *script, struct soak_op *op)
{
    struct ut_comm *comm = &op->comm;
    bool get = ut_is_get(comm->kind);
    size_t size = measure_extent(op);
    size_t lcl = get ? soak_get_slice(op->target) + op->dst : op->src;
    size_t rmt = get ? op->src : soak_put_slice(script->origin) + op->dst;

    comm->rmt = script->id[op->target];
    comm->flags |= script->path[op->target];
    comm->lcl_stadd = address(script, script->origin, lcl, size);
    comm->rmt_stadd = address(script, op->target, rmt, size);
}

static uint64_t change_word(const struct soak_op *op)
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
static void choose_own_word(struct script *script, struct soak_op *op, uint8_t *words, size_t *at)
{
    op->word_size = draw(script, 2) ? 4 : 8;
    *at = op->word_size == 4 ? 4 * draw(script, SOAK_OWN_ENDS / 4)
                             : SOAK_OWN_ENDS + 8 * draw(script, (SOAK_WORDS - SOAK_OWN_ENDS) / 8);
    op->armw_op = (int)draw(script, 6);
    op->comm.flags |= UT_STRONG;
    op->operand = ut_rng_next(&script->rng);
    memcpy(&op->old, words + *at, op->word_size);
    op->comparand = draw(script, 2) ? op->old : ut_rng_next(&script->rng);
}

/* A word of all origins: additions in one, exclusive or in another, so the order does not matter.
 */
static void choose_shared_word(struct script *script, struct soak_op *op, const uint8_t *words,
                               size_t *at)
{
    op->shared = true;
    op->word_size = draw(script, 2) ? 4 : 8;
    op->armw_op = draw(script, 2) ? UTOFU_ARMW_OP_ADD : UTOFU_ARMW_OP_XOR;
    *at = (op->word_size == 8 ? 0 : 16) + (op->armw_op == UTOFU_ARMW_OP_XOR ? op->word_size : 0);
    op->operand = ut_rng_next(&script->rng);
    memcpy(&op->old, words + *at, op->word_size);
}

static void choose_word(struct script *script, struct soak_op *op)
{
    uint8_t *words = own_words[script->origin][op->target];
    size_t at, base = soak_words(script->origin);
    uint64_t new;

    op->comm.kind = (enum ut_kind)SOAK_ARMW;
    if (draw(script, 3)) {
        choose_own_word(script, op, words, &at);
    } else {
        words = all_words[op->target];
        base = soak_words(soak_num_vcqs);
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
}

/* A wrong remote address. */
static void spoil(struct script *script, struct soak_op *op)
{
    struct ut_comm *comm = &op->comm;

    if (op->comm.kind == (enum ut_kind)SOAK_ARMW || ut_is_stride(comm->kind) || comm->length == 0)
        return;
    if (draw(script, 2)) {
        CHECK_OK(
            utofu_query_stadd(soak_vcqs[op->target].peer.id, SOAK_STAG_NONE, &comm->rmt_stadd));
        op->refused = UTOFU_ERR_MRQ_RMT_STADD;
    } else if (comm->length > 1) { /* begins before the end of the registered memory */
        CHECK_OK(utofu_query_stadd(soak_vcqs[op->target].peer.id, SOAK_STAG_ALL, &comm->rmt_stadd));
        comm->rmt_stadd += soak_memory_size() - comm->length / 2;
        op->refused = UTOFU_ERR_MRQ_RMT_LENGTH;
    }
    if (op->refused)
        soak_count(SOAK_REFUSED, script->origin / SOAK_PER_PROC == ut_rank);
}

static void choose_op(struct script *script, struct soak_op *op)
{
    static const unsigned long int flags[] = {UT_TCQ,
                                              UT_LCL,
                                              UT_RMT,
                                              UT_STRONG,
                                              UTOFU_ONESIDED_FLAG_CACHE_INJECTION,
                                              UTOFU_ONESIDED_FLAG_PACKET_RESPONSE,
                                              UTOFU_ONESIDED_FLAG_DELAY_START};
    struct ut_comm *comm = &op->comm;

    *op = (struct soak_op){.target = (int)draw(script, (uint64_t)soak_num_vcqs)};
    comm->kind = (enum ut_kind)draw(script, UT_NUM_KINDS);
    comm->edata = draw(script, 256);
    for (size_t i = 0; i < NUM(flags); i++)
        comm->flags |= draw(script, i < 4 ? 2 : 5) == 0 ? flags[i] : 0;
    if (comm->kind == UT_NOP) {
        op->target = -1;
        return;
    }
    if (draw(script, 5) == 0) {
        choose_word(script, op);
        return;
    }
    choose_shape(script, comm);
    op->dst = choose_place(script, op,
                           ut_is_get(comm->kind) ? &script->get_used[op->target]
                                                 : &script->put_used[op->target]);
    op->src = draw(script, SOAK_SLICE - measure_extent(op) + 1);
    address_op(script, op);
    if (soak_refused_every && draw(script, soak_refused_every) == 0)
        spoil(script, op);
}

/* The last put and the last get of a pair: with their notices all operations are complete. */
static void flush_op(struct script *script, struct soak_op *op, int target, enum ut_kind kind)
{
    *op = (struct soak_op){.target = target, .dst = SOAK_SLICE - SOAK_FLUSH};
    op->comm = (struct ut_comm){
        .kind = kind, .length = SOAK_FLUSH, .flags = UT_STRONG | UT_LCL | UT_TCQ, .edata = 255};
    address_op(script, op);
}

static void group_ops(struct script *script, struct soak_vcq *vcq)
{
    int left = 0;

    for (int i = 0, group = -1; i < vcq->num_ops; i++) {
        struct soak_op *op = &vcq->ops[i];

        if (left == 0) {
            group++;
            left = draw(script, 3) ? 1 : 2 + (int)draw(script, SOAK_MAX_GROUP - 1);
            op->comm.prepared = left > 1 || draw(script, 2);
        } else {
            op->comm.prepared = true;
        }
        left--;
        op->group = group;
        op->ends_group = left == 0 || i == vcq->num_ops - 1;
    }
}

static void write_script(uint64_t epoch, int origin)
{
    struct script script = {
        .rng = ut_rng_start(ut_seed() * 1000003 + epoch * SOAK_MAX_VCQS + (uint64_t)origin),
        .epoch = epoch,
        .origin = origin};
    struct soak_vcq *vcq = &soak_vcqs[origin];

    vcq->num_ops = 0;
    choose_paths(&script);
    for (int i = 0; i < SOAK_RANDOM_OPS; i++)
        choose_op(&script, &vcq->ops[vcq->num_ops++]);
    for (int target = 0; target < soak_num_vcqs; target++) {
        flush_op(&script, &vcq->ops[vcq->num_ops++], target, UT_PUT);
        flush_op(&script, &vcq->ops[vcq->num_ops++], target, UT_GET);
    }
    group_ops(&script, vcq);
}

void soak_script_write(uint64_t epoch)
{
    struct ut_rng rng = ut_rng_start(ut_seed() + epoch * 77);

    if (table[0] == 0) {
        struct ut_rng bytes = ut_rng_start(1);

        for (size_t i = 0; i < sizeof(table); i++)
            table[i] = (uint8_t)(ut_rng_next(&bytes) % 255 + 1);
    }
    for (int vcq = 0; vcq < soak_num_vcqs; vcq++)
        soak_vcqs[vcq].shift = (uint32_t)ut_rng_below(&rng, TABLE);
    for (int origin = 0; origin < soak_num_vcqs; origin++)
        write_script(epoch, origin);
}

/* The model */

static void copy_blocks(uint8_t *slice, const struct soak_op *op, const uint8_t *source)
{
    for (size_t block = 0; block < soak_op_blocks(op) && !op->refused; block++)
        memcpy(slice + op->dst + block * op->comm.stride,
               source + op->src + block * op->comm.stride, op->comm.length);
}

void soak_model_apply(int vcq, uint8_t *model)
{
    memcpy(model, soak_source(vcq), SOAK_SLICE);
    for (int origin = 0; origin < soak_num_vcqs; origin++) {
        for (int i = 0; i < soak_vcqs[origin].num_ops; i++) {
            const struct soak_op *op = &soak_vcqs[origin].ops[i];

            if (ut_is_put(op->comm.kind) && op->target == vcq)
                copy_blocks(model + soak_put_slice(origin), op, soak_source(origin));
            if (ut_is_get(op->comm.kind) && origin == vcq)
                copy_blocks(model + soak_get_slice(op->target), op, soak_source(op->target));
        }
        memcpy(model + soak_words(origin), own_words[origin][vcq], SOAK_WORDS);
    }
    memcpy(model + soak_words(soak_num_vcqs), all_words[vcq], SOAK_WORDS);
}

static void describe_place(int vcq, size_t at, char *text, size_t size)
{
    size_t slice = at / SOAK_SLICE, n = (size_t)soak_num_vcqs;

    if (slice == 0)
        snprintf(text, size, "VCQ %d, source, byte %zu", vcq, at);
    else if (slice <= n)
        snprintf(text, size, "VCQ %d, put by VCQ %zu, byte %zu", vcq, slice - 1, at % SOAK_SLICE);
    else if (slice <= 2 * n)
        snprintf(text, size, "VCQ %d, got from VCQ %zu, byte %zu", vcq, slice - 1 - n,
                 at % SOAK_SLICE);
    else
        snprintf(text, size, "VCQ %d, words of VCQ %zu, byte %zu", vcq,
                 (at - soak_words(0)) / SOAK_WORDS, (at - soak_words(0)) % SOAK_WORDS);
}

/* Which operation of this epoch wrote the byte last, by the model? */
static void describe_writer(int vcq, size_t at, char *text, size_t size)
{
    size_t slice = at / SOAK_SLICE, n = (size_t)soak_num_vcqs, offset = at % SOAK_SLICE;
    bool get = slice > n;

    *text = '\0';
    if (slice == 0 || slice > 2 * n)
        return;
    int origin = get ? vcq : (int)slice - 1, target = get ? (int)(slice - 1 - n) : vcq;
    for (int i = 0; i < soak_vcqs[origin].num_ops; i++) {
        const struct soak_op *op = &soak_vcqs[origin].ops[i];

        if (op->target != target || ut_is_get(op->comm.kind) != get ||
            op->comm.kind == (enum ut_kind)SOAK_ARMW || op->refused)
            continue;
        for (size_t b = 0; b < soak_op_blocks(op); b++) {
            size_t start = op->dst + b * op->comm.stride;
            if (offset >= start && offset < start + op->comm.length)
                snprintf(text, size, "; written by operation %d of VCQ %d, %s of %zu bytes to %zu",
                         i, origin, soak_op_name(op), op->comm.length, start);
        }
    }
}

static void check_bytes(int vcq, const uint8_t *mem, const uint8_t *model, size_t from, size_t size)
{
    char place[100], writer[160];
    size_t wrong = 0, first = 0;

    if (memcmp(mem + from, model + from, size) == 0)
        return;
    for (size_t i = from; i < from + size; i++)
        if (mem[i] != model[i] && wrong++ == 0)
            first = i;
    describe_place(vcq, first, place, sizeof(place));
    describe_writer(vcq, first, writer, sizeof(writer));
    CHECK(wrong == 0, "%s: 0x%02x, not 0x%02x; %zu bytes are wrong%s", place, mem[first],
          model[first], wrong, writer);
}

/* Each byte is as before, or one that an operation of the script may have left. */
static void check_possible(int vcq, const uint8_t *mem, const uint8_t *before, int origin,
                           int target)
{
    static bool possible[SOAK_SLICE];
    bool get = origin == vcq && target != vcq;
    size_t base = get ? soak_get_slice(target) : soak_put_slice(origin);
    char place[100];

    for (size_t i = 0; i < SOAK_SLICE; i++)
        possible[i] = mem[base + i] == before[base + i];
    for (int n = 0; n < soak_vcqs[origin].num_ops; n++) {
        const struct soak_op *op = &soak_vcqs[origin].ops[n];

        if (op->target != target || op->refused || op->comm.kind == (enum ut_kind)SOAK_ARMW ||
            ut_is_get(op->comm.kind) != get)
            continue;
        for (size_t b = 0; b < soak_op_blocks(op); b++)
            for (size_t i = 0; i < op->comm.length; i++) {
                size_t at = b * op->comm.stride + i;
                if (mem[base + op->dst + at] == soak_source(get ? target : origin)[op->src + at])
                    possible[op->dst + at] = true;
            }
    }
    for (size_t i = 0; i < SOAK_SLICE; i++) {
        describe_place(vcq, base + i, place, sizeof(place));
        CHECK(possible[i], "%s: 0x%02x, which nobody has written there", place, mem[base + i]);
    }
}

/* True if an operation failed as the target was killed: also if the target had done its own part of
 * the epoch. */
static bool has_failed(int origin, int target)
{
    for (int n = 0; n < soak_vcqs[origin].num_ops; n++) {
        const struct soak_op *op = &soak_vcqs[origin].ops[n];

        if (op->target == target && op->errors > 0)
            return true;
    }
    return false;
}

void soak_model_check(int vcq, const uint8_t *mem, const uint8_t *model, const uint8_t *before)
{
    bool missed = soak_missed();

    check_bytes(vcq, mem, model, 0, SOAK_SLICE);
    for (int other = 0; other < soak_num_vcqs; other++) {
        if (missed && ut_is_dead(other / SOAK_PER_PROC)) {
            check_possible(vcq, mem, before, other, vcq);
            check_possible(vcq, mem, before, vcq, other);
            continue;
        }
        check_bytes(vcq, mem, model, soak_put_slice(other), SOAK_SLICE);
        if (has_failed(vcq, other))
            check_possible(vcq, mem, before, vcq, other);
        else
            check_bytes(vcq, mem, model, soak_get_slice(other), SOAK_SLICE);
        check_bytes(vcq, mem, model, soak_words(other), SOAK_WORDS);
    }
    if (!missed)
        check_bytes(vcq, mem, model, soak_words(soak_num_vcqs), SOAK_WORDS);
}

/* Operations */

const char *soak_op_name(const struct soak_op *op)
{
    static const char *const names[] = {"cswap", "swap", "add", "xor", "and", "or"};

    return op->comm.kind == (enum ut_kind)SOAK_ARMW ? names[op->armw_op]
                                                    : ut_kind_name(op->comm.kind);
}

size_t soak_op_blocks(const struct soak_op *op)
{
    return ut_num_blocks(&op->comm);
}

bool soak_has_notice(const struct soak_op *op)
{
    return op->comm.kind != UT_NOP && !op->refused;
}

#define WORD(prefix, op, last, ...)                                                                \
    do {                                                                                           \
        const struct ut_comm *c = &(op)->comm;                                                     \
        if ((op)->armw_op == SOAK_CSWAP)                                                           \
            return (op)->word_size == 4                                                            \
                       ? prefix##cswap4(c->vcq, c->rmt, (uint32_t)(op)->comparand,                 \
                                        (uint32_t)(op)->operand, c->rmt_stadd, c->edata, c->flags, \
                                        __VA_ARGS__)                                               \
                       : prefix##cswap8(c->vcq, c->rmt, (op)->comparand, (op)->operand,            \
                                        c->rmt_stadd, c->edata, c->flags, __VA_ARGS__);            \
        return (op)->word_size == 4                                                                \
                   ? prefix##armw4(c->vcq, c->rmt, (enum utofu_armw_op)(op)->armw_op,              \
                                   (uint32_t)(op)->operand, c->rmt_stadd, c->edata, c->flags,      \
                                   __VA_ARGS__)                                                    \
                   : prefix##armw8(c->vcq, c->rmt, (enum utofu_armw_op)(op)->armw_op,              \
                                   (op)->operand, c->rmt_stadd, c->edata, c->flags, __VA_ARGS__);  \
    } while (0)

static int start_word(const struct soak_op *op)
{
    WORD(utofu_, op, cbdata, op->comm.cbdata);
}

static int prepare_word(const struct soak_op *op, void *desc, size_t *size)
{
    WORD(utofu_prepare_, op, desc, desc, size);
}

int soak_op_prepare(const struct soak_op *op, void *desc, size_t *size)
{
    return op->comm.kind == (enum ut_kind)SOAK_ARMW ? prepare_word(op, desc, size)
                                                    : ut_prepare(&op->comm, desc, size);
}

int soak_op_start(const struct soak_op *op)
{
    uint64_t desc[UT_DESC / 8];
    size_t size;

    if (op->comm.kind != (enum ut_kind)SOAK_ARMW)
        return ut_start(&op->comm);
    if (!op->comm.prepared)
        return start_word(op);
    CHECK_OK(prepare_word(op, desc, &size));
    return utofu_post_toq(op->comm.vcq, desc, size, op->comm.cbdata);
}

struct utofu_mrq_notice soak_lcl_notice(const struct soak_op *op, size_t block)
{
    struct utofu_mrq_notice notice = ut_lcl_notice(&op->comm, block);

    if (op->comm.kind == (enum ut_kind)SOAK_ARMW)
        notice.notice_type = UTOFU_MRQ_TYPE_LCL_ARMW;
    return notice;
}

struct utofu_mrq_notice soak_rmt_notice(const struct soak_op *op, size_t block,
                                        utofu_vcq_id_t origin)
{
    struct utofu_mrq_notice notice = ut_rmt_notice(&op->comm, block, origin);

    if (op->comm.kind == (enum ut_kind)SOAK_ARMW)
        notice.notice_type = UTOFU_MRQ_TYPE_RMT_ARMW;
    return notice;
}
