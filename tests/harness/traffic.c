/* SPDX-License-Identifier: Apache-2.0 */
/* See traffic.h. Uses the public interface and ends.h. */
#include "traffic.h"

#include <stdio.h>
#include <string.h>

struct ut_actor ut_actors[UT_TRAFFIC_VCQS];
int ut_num_actors;
struct ut_traffic ut_traffic;

static uint8_t table[UT_SOURCE_TABLE + UT_SOURCE_MAX];

/* Memory */

size_t ut_put_slice(int origin)
{
    return ut_traffic.slice * (1 + (size_t)origin);
}

size_t ut_get_slice(int target)
{
    return ut_traffic.slice * (1 + (size_t)ut_num_actors + (size_t)target);
}

const uint8_t *ut_source(int vcq)
{
    if (table[0] == 0) {
        struct ut_rng bytes = ut_rng_start(1);

        for (size_t i = 0; i < sizeof(table); i++)
            table[i] = (uint8_t)(ut_rng_next(&bytes) % 255 + 1);
    }
    return table + ut_actors[vcq].shift;
}

/* Scripts */

uint64_t ut_draw(struct ut_script *script, uint64_t bound)
{
    return ut_rng_below(&script->rng, bound);
}

/* Some pairs take the path of the id, others one in the flags. */
static void choose_paths(struct ut_script *script)
{
    for (int target = 0; target < ut_num_actors; target++) {
        uint8_t coords[3] = {(uint8_t)ut_draw(script, 2), (uint8_t)ut_draw(script, 3),
                             (uint8_t)ut_draw(script, 2)};
        utofu_path_id_t path;
        utofu_vcq_id_t *id = &script->id[target];

        *id = ut_actors[target].peer.id;
        script->path[target] = 0;
        switch (ut_draw(script, 4)) {
        case 0:
            CHECK_OK(utofu_get_path_id(*id, coords, &path));
            script->path[target] = UTOFU_ONESIDED_FLAG_PATH(path);
            break;
        case 1:
            CHECK_OK(utofu_set_vcq_id_path(id, coords));
            break;
        case 2:
            CHECK_OK(utofu_set_vcq_id_path(id, NULL));
            break;
        default:
            break;
        }
    }
}

static size_t choose_length(struct ut_script *script)
{
    const bool rarely = ut_traffic.rarely;
    const size_t bounds[] = {
        9, 33, 65, 300, 2000, rarely ? 6000 : ut_traffic.longest, ut_traffic.longest};

    return ut_draw(script, bounds[ut_draw(script, rarely && ut_draw(script, 4) == 0 ? 7 : 6)]);
}

static size_t measure_extent(const struct ut_op *op)
{
    return (ut_op_blocks(op) - 1) * op->comm.stride + op->comm.length;
}

/* A place in the slice: new, or for STRONG_ORDER perhaps over what was written before. */
static size_t choose_place(struct ut_script *script, struct ut_op *op, size_t *used)
{
    size_t size = measure_extent(op), place;

    if ((op->comm.flags & UT_STRONG) && *used >= size && ut_draw(script, 2))
        return ut_draw(script, *used - size + 1);
    place = *used + ut_draw(script, 16);
    if (place + size > ut_traffic.slice - UT_SLICE_END) { /* no room left */
        op->comm.length = 0;
        op->comm.stride = 0;
        return 0;
    }
    *used = place + size;
    return place;
}

static void choose_shape(struct ut_script *script, struct ut_comm *comm)
{
    comm->length = choose_length(script);
    if (comm->length > ut_max_length(comm->kind))
        comm->length %= ut_max_length(comm->kind) + 1;
    if (ut_is_stride(comm->kind)) {
        comm->length %= ut_traffic.block_bound;
        comm->blocks = 1 + ut_draw(script, UT_MAX_BLOCKS);
        comm->stride = ut_draw(script, 3) ? comm->length + ut_draw(script, 100) : comm->length;
        if ((comm->flags & UT_STRONG) && ut_draw(script, 3) == 0)
            comm->stride = ut_draw(script, comm->length + 1); /* blocks overlap */
    }
    if (ut_has_gap(comm->kind)) {
        comm->mtu = 1 + ut_draw(script, 1920);
        comm->gap = ut_draw(script, 256);
    }
}

/* Fills in the fields that follow from the target and the two places. */
static void address_op(struct ut_script *script, struct ut_op *op)
{
    struct ut_comm *comm = &op->comm;
    bool get = ut_is_get(comm->kind);
    size_t size = measure_extent(op);
    size_t lcl = get ? ut_get_slice(op->target) + op->dst : op->src;
    size_t rmt = get ? op->src : ut_put_slice(script->origin) + op->dst;

    comm->rmt = script->id[op->target];
    comm->flags |= script->path[op->target];
    comm->lcl_stadd = ut_traffic.address(script, script->origin, lcl, size);
    comm->rmt_stadd = ut_traffic.address(script, op->target, rmt, size);
}

static void choose_op(struct ut_script *script, struct ut_op *op)
{
    static const unsigned long int flags[] = {UT_TCQ,
                                              UT_LCL,
                                              UT_RMT,
                                              UT_STRONG,
                                              UTOFU_ONESIDED_FLAG_CACHE_INJECTION,
                                              UTOFU_ONESIDED_FLAG_PACKET_RESPONSE,
                                              UTOFU_ONESIDED_FLAG_DELAY_START};
    struct ut_comm *comm = &op->comm;

    *op = (struct ut_op){.target = (int)ut_draw(script, (uint64_t)ut_num_actors)};
    comm->kind = (enum ut_kind)ut_draw(script, UT_NUM_KINDS);
    comm->edata = ut_draw(script, 256);
    for (size_t i = 0; i < NUM(flags); i++)
        comm->flags |= ut_draw(script, i < 4 ? 2 : 5) == 0 ? flags[i] : 0;
    if (comm->kind == UT_NOP) {
        op->target = -1;
        return;
    }
    if (ut_traffic.choose_other && ut_traffic.choose_other(script, op))
        return;
    choose_shape(script, comm);
    op->dst = choose_place(script, op,
                           ut_is_get(comm->kind) ? &script->get_used[op->target]
                                                 : &script->put_used[op->target]);
    op->src = ut_draw(script, ut_traffic.slice - measure_extent(op) + 1);
    address_op(script, op);
    if (ut_traffic.spoil)
        ut_traffic.spoil(script, op);
}

/* The last put and the last get of a pair: with their notices all operations are complete. */
static void flush_op(struct ut_script *script, struct ut_op *op, int target, enum ut_kind kind)
{
    *op = (struct ut_op){.target = target, .dst = ut_traffic.slice - UT_SLICE_END};
    op->comm = (struct ut_comm){
        .kind = kind, .length = UT_SLICE_END, .flags = UT_STRONG | UT_LCL | UT_TCQ, .edata = 255};
    address_op(script, op);
}

static void group_ops(struct ut_script *script, struct ut_actor *vcq)
{
    int left = 0;

    for (int i = 0, group = -1; i < vcq->num_ops; i++) {
        struct ut_op *op = &vcq->ops[i];

        if (left == 0) {
            group++;
            left = ut_draw(script, 3) ? 1 : 2 + (int)ut_draw(script, UT_MAX_GROUP - 1);
            op->comm.prepared = left > 1 || ut_draw(script, 2);
        } else {
            op->comm.prepared = true;
        }
        left--;
        op->group = group;
        op->ends_group = left == 0 || i == vcq->num_ops - 1;
    }
}

void ut_script_write(struct ut_script *script)
{
    struct ut_actor *actor = &ut_actors[script->origin];

    actor->num_ops = 0;
    choose_paths(script);
    for (int i = 0; i < UT_RANDOM_OPS; i++)
        choose_op(script, &actor->ops[actor->num_ops++]);
    for (int target = 0; target < ut_num_actors; target++) {
        flush_op(script, &actor->ops[actor->num_ops++], target, UT_PUT);
        flush_op(script, &actor->ops[actor->num_ops++], target, UT_GET);
    }
    group_ops(script, actor);
}

/* The model */

static void copy_blocks(uint8_t *slice, const struct ut_op *op, const uint8_t *source)
{
    for (size_t block = 0; block < ut_op_blocks(op) && !op->refused; block++)
        memcpy(slice + op->dst + block * op->comm.stride,
               source + op->src + block * op->comm.stride, op->comm.length);
}

void ut_model_apply(int vcq, uint8_t *model)
{
    memcpy(model, ut_source(vcq), ut_traffic.slice);
    for (int origin = 0; origin < ut_num_actors; origin++) {
        for (int i = 0; i < ut_actors[origin].num_ops; i++) {
            const struct ut_op *op = &ut_actors[origin].ops[i];

            if (ut_is_put(op->comm.kind) && op->target == vcq)
                copy_blocks(model + ut_put_slice(origin), op, ut_source(origin));
            if (ut_is_get(op->comm.kind) && origin == vcq)
                copy_blocks(model + ut_get_slice(op->target), op, ut_source(op->target));
        }
    }
}

void ut_model_place(int vcq, size_t at, char *text, size_t size)
{
    size_t slice = at / ut_traffic.slice, n = (size_t)ut_num_actors;

    if (slice == 0)
        snprintf(text, size, "VCQ %d, source, byte %zu", vcq, at);
    else if (slice <= n)
        snprintf(text, size, "VCQ %d, put by VCQ %zu, byte %zu", vcq, slice - 1,
                 at % ut_traffic.slice);
    else if (slice <= 2 * n)
        snprintf(text, size, "VCQ %d, got from VCQ %zu, byte %zu", vcq, slice - 1 - n,
                 at % ut_traffic.slice);
    else
        snprintf(text, size, "VCQ %d, byte %zu behind the slices", vcq,
                 at - ut_get_slice(ut_num_actors));
}

/* Which operation of this epoch wrote the byte last, by the model? */
static void describe_writer(int vcq, size_t at, char *text, size_t size)
{
    size_t slice = at / ut_traffic.slice, n = (size_t)ut_num_actors, offset = at % ut_traffic.slice;
    bool get = slice > n;

    *text = '\0';
    if (slice == 0 || slice > 2 * n)
        return;
    int origin = get ? vcq : (int)slice - 1, target = get ? (int)(slice - 1 - n) : vcq;
    for (int i = 0; i < ut_actors[origin].num_ops; i++) {
        const struct ut_op *op = &ut_actors[origin].ops[i];

        if (op->target != target || ut_is_get(op->comm.kind) != get ||
            op->comm.kind == (enum ut_kind)UT_ARMW || op->refused)
            continue;
        for (size_t b = 0; b < ut_op_blocks(op); b++) {
            size_t start = op->dst + b * op->comm.stride;
            if (offset >= start && offset < start + op->comm.length)
                snprintf(text, size, "; written by operation %d of VCQ %d, %s of %zu bytes to %zu",
                         i, origin, ut_op_name(op), op->comm.length, start);
        }
    }
}

/* Prints the runs of wrong bytes; a few right ones by chance do not end a run. */
static void print_wrong_runs(int vcq, const uint8_t *mem, const uint8_t *model, size_t from,
                             size_t end)
{
    enum { MOST = 20, CHANCE = 8 };
    char place[100], writer[160];

    for (size_t i = from, runs = 0; i < end && runs < MOST; i++) {
        size_t last = i;

        if (mem[i] == model[i])
            continue;
        for (size_t at = i; at < end && at - last < CHANCE; at++)
            if (mem[at] != model[at])
                last = at;
        ut_model_place(vcq, i, place, sizeof(place));
        describe_writer(vcq, i, writer, sizeof(writer));
        fprintf(stderr, "%s: 0x%02x, not 0x%02x; a run of %zu bytes%s\n", place, mem[i], model[i],
                last + 1 - i, writer);
        i = last;
        runs++;
    }
}

void ut_model_check(int vcq, const uint8_t *mem, const uint8_t *model, size_t from, size_t size)
{
    char place[100], writer[160];
    size_t wrong = 0, first = 0;

    if (memcmp(mem + from, model + from, size) == 0)
        return;
    for (size_t i = from; i < from + size; i++)
        if (mem[i] != model[i] && wrong++ == 0)
            first = i;
    print_wrong_runs(vcq, mem, model, from, from + size);
    ut_model_place(vcq, first, place, sizeof(place));
    describe_writer(vcq, first, writer, sizeof(writer));
    CHECK(wrong == 0, "%s: 0x%02x, not 0x%02x; %zu bytes are wrong%s", place, mem[first],
          model[first], wrong, writer);
}

/* Operations */

const char *ut_op_name(const struct ut_op *op)
{
    static const char *const names[] = {"cswap", "swap", "add", "xor", "and", "or"};

    return op->comm.kind == (enum ut_kind)UT_ARMW ? names[op->armw_op]
                                                  : ut_kind_name(op->comm.kind);
}

size_t ut_op_blocks(const struct ut_op *op)
{
    return ut_num_blocks(&op->comm);
}

size_t ut_op_notices(const struct ut_op *op, unsigned long int flag)
{
    bool has_notice = (op->comm.flags & flag) && op->comm.kind != UT_NOP && !op->refused;

    return has_notice ? ut_op_blocks(op) : 0;
}

#define WORD(prefix, op, last, ...)                                                                \
    do {                                                                                           \
        const struct ut_comm *c = &(op)->comm;                                                     \
        if ((op)->armw_op == UT_CSWAP)                                                             \
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

static int start_word(const struct ut_op *op)
{
    WORD(utofu_, op, cbdata, op->comm.cbdata);
}

static int prepare_word(const struct ut_op *op, void *desc, size_t *size)
{
    WORD(utofu_prepare_, op, desc, desc, size);
}

int ut_op_prepare(const struct ut_op *op, void *desc, size_t *size)
{
    return op->comm.kind == (enum ut_kind)UT_ARMW ? prepare_word(op, desc, size)
                                                  : ut_prepare(&op->comm, desc, size);
}

int ut_op_start(const struct ut_op *op)
{
    uint64_t desc[UT_DESC / 8];
    size_t size;

    if (op->comm.kind != (enum ut_kind)UT_ARMW)
        return ut_start(&op->comm);
    if (!op->comm.prepared)
        return start_word(op);
    CHECK_OK(prepare_word(op, desc, &size));
    return utofu_post_toq(op->comm.vcq, desc, size, op->comm.cbdata);
}

struct utofu_mrq_notice ut_op_lcl_notice(const struct ut_op *op, size_t block)
{
    struct utofu_mrq_notice notice = ut_lcl_notice(&op->comm, block);

    if (op->comm.kind == (enum ut_kind)UT_ARMW)
        notice.notice_type = UTOFU_MRQ_TYPE_LCL_ARMW;
    return notice;
}

struct utofu_mrq_notice ut_op_rmt_notice(const struct ut_op *op, size_t block,
                                         utofu_vcq_id_t origin)
{
    struct utofu_mrq_notice notice = ut_rmt_notice(&op->comm, block, origin);

    if (op->comm.kind == (enum ut_kind)UT_ARMW)
        notice.notice_type = UTOFU_MRQ_TYPE_RMT_ARMW;
    return notice;
}

/* Expected entries and notices */

void ut_account_begin(struct ut_account *a)
{
    a->submitted = a->due_tcq = 0;
    a->tcq_block = 0;
    for (int other = 0; other < ut_num_actors; other++) {
        a->lcl[other] = a->rmt[other] = 0;
        a->lcl_block[other] = a->rmt_block[other] = 0;
        a->left[other] = 0;
    }
    for (int other = 0; other < ut_num_actors; other++)
        for (int i = 0; i < ut_actors[other].num_ops; i++) {
            const struct ut_op *op = &ut_actors[other].ops[i];

            if (op->target == a->number)
                a->left[other] += (int)ut_op_notices(op, UT_RMT);
            if (other == a->number && op->target >= 0)
                a->left[op->target] += (int)ut_op_notices(op, UT_LCL) + (op->refused != 0);
        }
}

int ut_number_of(utofu_vcq_id_t id)
{
    for (int i = 0; i < ut_num_actors; i++)
        if (ut_actors[i].peer.id == id)
            return i;
    CHECK(false, "0x%llx is no id of any VCQ", (unsigned long long)id);
    return -1;
}

/* Moves to the next operation from `origin` to `target` that has a notice of this kind. */
struct ut_op *ut_next_due(int origin, int target, unsigned long int flag, int *at, size_t *block)
{
    for (; *at < ut_actors[origin].num_ops; ++*at, *block = 0) {
        struct ut_op *op = &ut_actors[origin].ops[*at];

        if (op->target == target && *block + op->errors < ut_op_notices(op, flag))
            return op;
    }
    return NULL;
}

bool ut_notice_is_local(const struct utofu_mrq_notice *notice)
{
    return notice->notice_type == UTOFU_MRQ_TYPE_LCL_PUT ||
           notice->notice_type == UTOFU_MRQ_TYPE_LCL_GET ||
           notice->notice_type == UTOFU_MRQ_TYPE_LCL_ARMW;
}

/* Fails, and prints the entry received and the entries expected. */
static void report_order(const struct ut_account *a, const struct utofu_mrq_notice *got, int due,
                         int origin, int target)
{
    char came[400] = "";

    for (int i = 0; i < ut_actors[origin].num_ops; i++) {
        const struct ut_op *op = &ut_actors[origin].ops[i];
        struct utofu_mrq_notice n = ut_notice_is_local(got)
                                        ? ut_op_lcl_notice(op, 0)
                                        : ut_op_rmt_notice(op, 0, ut_actors[origin].peer.id);
        size_t used = strlen(came);
        if (op->target == target && n.notice_type == got->notice_type && n.edata == got->edata)
            snprintf(came + used, sizeof(came) - used, " %d (%s, %zu bytes, flags 0x%lx)", i,
                     ut_op_name(op), op->comm.length, op->comm.flags);
    }
    const struct ut_op *op = &ut_actors[origin].ops[due];
    CHECK(false,
          "VCQ %d: of VCQ %d to VCQ %d the %s notice of operation %d is due (%s, %zu bytes, flags "
          "0x%lx); it is of type %d with EDATA %llu, of one of these:%s",
          a->number, origin, target, ut_notice_is_local(got) ? "local" : "remote", due,
          ut_op_name(op), op->comm.length, op->comm.flags, got->notice_type,
          (unsigned long long)got->edata, came);
}

void ut_account_check(struct ut_account *a, const struct utofu_mrq_notice *got)
{
    bool local = ut_notice_is_local(got);
    int other = ut_number_of(got->vcq_id);
    int origin = local ? a->number : other, target = local ? other : a->number;
    int *at = local ? &a->lcl[other] : &a->rmt[other];
    size_t *block = local ? &a->lcl_block[other] : &a->rmt_block[other];
    const struct ut_op *op = ut_next_due(origin, target, local ? UT_LCL : UT_RMT, at, block);

    CHECK(op != NULL, "VCQ %d: no %s notice is due from VCQ %d to VCQ %d", a->number,
          local ? "local" : "remote", origin, target);
    ut_step("VCQ %d: %s notice of block %zu of operation %d of VCQ %d, %s", a->number,
            local ? "local" : "remote", *block, *at, origin, ut_op_name(op));
    struct utofu_mrq_notice want = local ? ut_op_lcl_notice(op, *block)
                                         : ut_op_rmt_notice(op, *block, ut_actors[origin].peer.id);
    if (got->notice_type != want.notice_type || got->edata != want.edata)
        report_order(a, got, *at, origin, target);
    ut_check_notice(got, &want);
    if (got->notice_type == UTOFU_MRQ_TYPE_LCL_ARMW && !op->shared)
        CHECK_EQ(got->rmt_value, op->old);
    ++*block;
    a->left[other]--;
}

/* Skips operations without further TCQ entries. Returns the next one with an entry, or NULL. */
const struct ut_op *ut_account_next_tcq(struct ut_account *a)
{
    const struct ut_actor *vcq = &ut_actors[a->number];

    for (; a->due_tcq < vcq->num_ops; a->due_tcq++, a->tcq_block = 0) {
        const struct ut_op *op = &vcq->ops[a->due_tcq];

        if ((op->comm.flags & UT_TCQ) && a->tcq_block < ut_op_blocks(op))
            return op;
    }
    return NULL;
}

bool ut_account_poll_tcq(struct ut_account *a)
{
    void *cbdata = NULL;
    int rc = utofu_poll_tcq(a->end.vcq, 0, &cbdata);

    if (rc == UTOFU_ERR_NOT_FOUND)
        return false;
    CHECK_OK(rc);
    const struct ut_op *op = ut_account_next_tcq(a);
    CHECK(op != NULL && a->due_tcq < a->submitted, "VCQ %d: no TCQ entry is due", a->number);
    CHECK_EQ((uintptr_t)cbdata, op->group);
    a->tcq_block++;
    return true;
}

/* Submitting */

static void complete_op(const struct ut_account *a, struct ut_op *op)
{
    op->comm.vcq = a->end.vcq;
    op->comm.data = a->end.mem + op->src;
    op->comm.cbdata = (void *)(uintptr_t)op->group;
}

bool ut_account_has_submitted(const struct ut_account *a)
{
    return a->submitted == ut_actors[a->number].num_ops;
}

int ut_account_submit(struct ut_account *a)
{
    static uint64_t desc[UT_DESC / 8 * UT_MAX_GROUP * UT_MAX_BLOCKS];
    struct ut_actor *vcq = &ut_actors[a->number];
    struct ut_op *first = &vcq->ops[a->submitted];
    size_t total = 0, size = 0;
    int count = 0, rc;

    do {
        complete_op(a, &first[count]);
        if (!first->ends_group) {
            CHECK_OK(ut_op_prepare(&first[count], (uint8_t *)desc + total, &size));
            total += size;
        }
    } while (!first[count++].ends_group);
    if (count == 1)
        rc = ut_op_start(first);
    else
        rc = utofu_post_toq(a->end.vcq, desc, total, first->comm.cbdata);
    if (rc == UTOFU_ERR_BUSY)
        return 0;
    CHECK(rc == UTOFU_SUCCESS, "%s of %zu bytes gave %s", ut_op_name(first), first->comm.length,
          ut_rc_name(rc));
    a->submitted += count;
    if (a->submitted == vcq->num_ops)
        CHECK_OK(utofu_post_toq(a->end.vcq, NULL, 0, NULL)); /* starts delayed ones */
    return count;
}
