/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzed equivalence: random communication between all VCQs of several processes, compared with a
 * plain model of the memory and of the order rules of 2.2.10.
 *
 * The run is cut into epochs. The script of a VCQ in an epoch follows from the seed alone, so every
 * process knows all scripts: the owner of a VCQ predicts the contents of its memory at the end of
 * the epoch and all of its notices. Each VCQ's memory has three parts: a source that never changes;
 * for each origin a slice that only its puts write; for each target a slice that only the gets from
 * it write. Within a slice two communications of an epoch overlap only if the later one has
 * STRONG_ORDER (and, for a pair and an epoch, the same path), so the model is exact.
 *
 * UT_FUZZ_OPS: communications in a test. UT_FUZZ_PROCS: processes of the last one, which is for
 * UTOFU_VERBS_MAX_QPS; each VCQ communicates with twice as many, itself among them. UT_FUZZ_TNI: of
 * the second VCQ of each process. UT_FUZZ_LENGTH: bytes of the longest.
 */
#include "ends.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

TestSuite(fuzz);

enum {
    PER_PROC = 2, /* VCQs of a process: a plain one and a thread-safe one */
    MAX_PROCS = 16,
    MAX_VCQS = MAX_PROCS * PER_PROC,
    SLICE = 1 << 16,
    FLUSH = 8, /* bytes at the end of a slice: the last write of an epoch */
    RANDOM_OPS = 120,
    OPS = RANDOM_OPS + 2 * MAX_VCQS, /* and two flushes for each target */
    MAX_BLOCKS = 12,
    MAX_GROUP = 6,
};

/* One communication of a script. */
struct op {
    struct ut_comm comm;
    int target;      /* number of the VCQ; -1 for a NOP */
    size_t src, dst; /* in the source, in the slice */
    int group;       /* operations of a group are posted together; the callback data tells it */
    bool ends_group;
};

/* A VCQ as all processes see it, and its script of this epoch. */
struct vcq {
    struct ut_peer peer;
    struct op ops[OPS];
    int num_ops;
};

/* A VCQ of this process. */
struct own {
    int number;
    struct ut_end end;
    uint8_t *model;
    int submitted; /* operations of the script */
    int due_tcq;   /* the next operation with a TCQ entry, and its block */
    size_t tcq_block;
    int lcl[MAX_VCQS], rmt[MAX_VCQS]; /* per target, per origin: the next operation with a notice */
    size_t lcl_block[MAX_VCQS], rmt_block[MAX_VCQS];
    int due; /* outstanding notices */
};

static struct vcq vcqs[MAX_VCQS];
static struct own own[PER_PROC];
static int num_vcqs;

/* Memory */

static size_t put_slice(int origin)
{
    return SLICE * (1 + (size_t)origin);
}

static size_t get_slice(int target)
{
    return SLICE * (1 + (size_t)num_vcqs + (size_t)target);
}

static uint8_t source_byte(int vcq, size_t i)
{
    uint64_t z = (uint64_t)vcq << 32 | i;

    z = (z ^ (z >> 15)) * 0xd1342543de82ef95ull;
    return (uint8_t)(z >> 40);
}

static void copy_blocks(uint8_t *slice, const struct op *op, int source)
{
    for (size_t block = 0; block < ut_num_blocks(&op->comm); block++)
        for (size_t i = 0; i < op->comm.length; i++)
            slice[op->dst + block * op->comm.stride + i] =
                source_byte(source, op->src + block * op->comm.stride + i);
}

static void apply_scripts(struct own *mine)
{
    for (int origin = 0; origin < num_vcqs; origin++) {
        for (int i = 0; i < vcqs[origin].num_ops; i++) {
            const struct op *op = &vcqs[origin].ops[i];

            if (ut_is_put(op->comm.kind) && op->target == mine->number)
                copy_blocks(mine->model + put_slice(origin), op, origin);
            if (ut_is_get(op->comm.kind) && origin == mine->number)
                copy_blocks(mine->model + get_slice(op->target), op, op->target);
        }
    }
}

static void check_memory(const struct own *mine)
{
    if (memcmp(mine->end.mem, mine->model, mine->end.size) == 0)
        return;
    for (size_t i = 0; i < mine->end.size; i++) {
        size_t slice = i / SLICE;
        bool get = slice > (size_t)num_vcqs;

        CHECK(mine->end.mem[i] == mine->model[i],
              "VCQ %d, %s VCQ %zu, offset %zu: 0x%02x, not 0x%02x", mine->number,
              slice == 0 ? "source"
              : get      ? "got from"
                         : "put by",
              slice == 0 ? 0
              : get      ? slice - 1 - (size_t)num_vcqs
                         : slice - 1,
              i % SLICE, mine->end.mem[i], mine->model[i]);
    }
}

/* Scripts */

struct script {
    struct ut_rng rng;
    int origin;
    utofu_vcq_id_t id[MAX_VCQS]; /* of the targets, with the path of this epoch */
    unsigned long int path[MAX_VCQS];
    size_t put_used[MAX_VCQS], get_used[MAX_VCQS];
};

static uint64_t below(struct script *script, uint64_t bound)
{
    return ut_rng_below(&script->rng, bound);
}

/* Some pairs take the path of the id, others one in the flags. */
static void choose_paths(struct script *script)
{
    for (int target = 0; target < num_vcqs; target++) {
        uint8_t coords[3] = {(uint8_t)below(script, 2), (uint8_t)below(script, 3),
                             (uint8_t)below(script, 2)};
        utofu_path_id_t path;
        utofu_vcq_id_t *id = &script->id[target];

        *id = vcqs[target].peer.id;
        script->path[target] = 0;
        switch (below(script, 4)) {
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

static size_t choose_length(struct script *script)
{
    const size_t bounds[] = {9, 33, 65, 300, 2000, (size_t)ut_env_number("UT_FUZZ_LENGTH", 6000)};

    return below(script, bounds[below(script, 6)]);
}

static size_t extent(const struct ut_comm *comm)
{
    return (ut_num_blocks(comm) - 1) * comm->stride + comm->length;
}

/* A place in the slice: new, or for STRONG_ORDER perhaps over what was written before. */
static size_t choose_place(struct script *script, struct ut_comm *comm, size_t *used)
{
    size_t size = extent(comm), place;

    if ((comm->flags & UT_STRONG) && *used >= size && below(script, 2))
        return below(script, *used - size + 1);
    place = *used + below(script, 16);
    if (place + size > SLICE - FLUSH) { /* no room left */
        comm->length = 0;
        comm->stride = 0;
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
        comm->blocks = 1 + below(script, MAX_BLOCKS);
        comm->stride = below(script, 3) ? comm->length + below(script, 100) : comm->length;
        if ((comm->flags & UT_STRONG) && below(script, 3) == 0)
            comm->stride = below(script, comm->length + 1); /* blocks overlap */
    }
    if (ut_has_gap(comm->kind)) {
        comm->mtu = 1 + below(script, 1920);
        comm->gap = below(script, 256);
    }
}

/* Fills in the fields that follow from the target and the two places. */
static void address_op(const struct script *script, struct op *op)
{
    struct ut_comm *comm = &op->comm;
    bool get = ut_is_get(comm->kind);
    const struct ut_peer *from = &vcqs[script->origin].peer, *to = &vcqs[op->target].peer;

    comm->rmt = script->id[op->target];
    comm->flags |= script->path[op->target];
    comm->lcl_stadd = from->stadd + (get ? get_slice(op->target) + op->dst : op->src);
    comm->rmt_stadd = to->stadd + (get ? op->src : put_slice(script->origin) + op->dst);
}

static void choose_op(struct script *script, struct op *op)
{
    static const unsigned long int flags[] = {UT_TCQ,
                                              UT_LCL,
                                              UT_RMT,
                                              UT_STRONG,
                                              UTOFU_ONESIDED_FLAG_CACHE_INJECTION,
                                              UTOFU_ONESIDED_FLAG_PACKET_RESPONSE,
                                              UTOFU_ONESIDED_FLAG_DELAY_START};
    struct ut_comm *comm = &op->comm;

    *op = (struct op){.target = (int)below(script, (uint64_t)num_vcqs)};
    comm->kind = (enum ut_kind)below(script, UT_NUM_KINDS);
    comm->edata = below(script, 256);
    for (size_t i = 0; i < NUM(flags); i++)
        comm->flags |= below(script, i < 4 ? 2 : 5) == 0 ? flags[i] : 0;
    if (comm->kind == UT_NOP) {
        op->target = -1;
        return;
    }
    choose_shape(script, comm);
    op->dst = choose_place(script, comm,
                           ut_is_get(comm->kind) ? &script->get_used[op->target]
                                                 : &script->put_used[op->target]);
    op->src = below(script, SLICE - extent(comm) + 1);
    address_op(script, op);
}

/* The last put and the last get of a pair: with their notices all operations are complete. */
static void flush_op(struct script *script, struct op *op, int target, enum ut_kind kind)
{
    *op = (struct op){.target = target, .dst = SLICE - FLUSH};
    op->comm = (struct ut_comm){
        .kind = kind, .length = FLUSH, .flags = UT_STRONG | UT_LCL | UT_TCQ, .edata = 255};
    address_op(script, op);
}

static void write_script(int origin, int epoch)
{
    struct script script = {
        .rng = ut_rng_start(ut_seed() * 1000003 + (uint64_t)(epoch * MAX_VCQS + origin)),
        .origin = origin};
    struct vcq *vcq = &vcqs[origin];
    int left = 0;

    choose_paths(&script);
    vcq->num_ops = 0;
    for (int i = 0; i < RANDOM_OPS; i++)
        choose_op(&script, &vcq->ops[vcq->num_ops++]);
    for (int target = 0; target < num_vcqs; target++) {
        flush_op(&script, &vcq->ops[vcq->num_ops++], target, UT_PUT);
        flush_op(&script, &vcq->ops[vcq->num_ops++], target, UT_GET);
    }
    for (int i = 0, group = -1; i < vcq->num_ops; i++) {
        struct op *op = &vcq->ops[i];

        if (left == 0) {
            group++;
            left = below(&script, 3) ? 1 : 2 + (int)below(&script, MAX_GROUP - 1);
            op->comm.prepared = left > 1 || below(&script, 2);
        } else {
            op->comm.prepared = true;
        }
        left--;
        op->group = group;
        op->ends_group = left == 0 || i == vcq->num_ops - 1;
    }
}

/* Expected entries and notices */

static size_t notices_of(const struct op *op, unsigned long int flag)
{
    return (op->comm.flags & flag) && op->comm.kind != UT_NOP ? ut_num_blocks(&op->comm) : 0;
}

static void count_due(struct own *mine)
{
    mine->submitted = mine->due_tcq = 0;
    mine->tcq_block = 0;
    mine->due = 0;
    for (int other = 0; other < num_vcqs; other++) {
        mine->lcl[other] = mine->rmt[other] = 0;
        mine->lcl_block[other] = mine->rmt_block[other] = 0;
        for (int i = 0; i < vcqs[other].num_ops; i++) {
            const struct op *op = &vcqs[other].ops[i];

            if (op->target == mine->number)
                mine->due += (int)notices_of(op, UT_RMT);
            if (other == mine->number)
                mine->due += (int)notices_of(op, UT_LCL);
        }
    }
}

static int number_of(utofu_vcq_id_t id)
{
    for (int i = 0; i < num_vcqs; i++)
        if (vcqs[i].peer.id == id)
            return i;
    CHECK(false, "0x%llx is no id of any VCQ", (unsigned long long)id);
    return -1;
}

/* Moves to the next operation from `origin` to `target` that has a notice of this kind. */
static const struct op *next_due(int origin, int target, unsigned long int flag, int *at,
                                 size_t *block)
{
    for (; *at < vcqs[origin].num_ops; ++*at, *block = 0) {
        const struct op *op = &vcqs[origin].ops[*at];

        if (op->target == target && *block < notices_of(op, flag))
            return op;
    }
    return NULL;
}

static void check_mrq(struct own *mine, const struct utofu_mrq_notice *got)
{
    bool local =
        got->notice_type == UTOFU_MRQ_TYPE_LCL_PUT || got->notice_type == UTOFU_MRQ_TYPE_LCL_GET;
    int other = number_of(got->vcq_id);
    int origin = local ? mine->number : other, target = local ? other : mine->number;
    int *at = local ? &mine->lcl[other] : &mine->rmt[other];
    size_t *block = local ? &mine->lcl_block[other] : &mine->rmt_block[other];
    const struct op *op = next_due(origin, target, local ? UT_LCL : UT_RMT, at, block);

    CHECK(op != NULL, "VCQ %d: no %s notice is due from VCQ %d to VCQ %d", mine->number,
          local ? "local" : "remote", origin, target);
    ut_step("VCQ %d: %s notice of block %zu of operation %d of VCQ %d, a %s", mine->number,
            local ? "local" : "remote", *block, *at, origin, ut_kind_name(op->comm.kind));
    struct utofu_mrq_notice want = local ? ut_lcl_notice(&op->comm, *block)
                                         : ut_rmt_notice(&op->comm, *block, vcqs[origin].peer.id);
    ut_check_notice(got, &want);
    ++*block;
    mine->due--;
}

/* False: there was no notice. */
static bool poll_mrq(struct own *mine)
{
    struct utofu_mrq_notice notice;
    int rc = utofu_poll_mrq(mine->end.vcq, 0, &notice);

    if (rc == UTOFU_ERR_NOT_FOUND)
        return false;
    CHECK_OK(rc);
    check_mrq(mine, &notice);
    return true;
}

/* Skips operations without further TCQ entries. Returns the next one with an entry, or NULL. */
static const struct op *next_with_tcq(struct own *mine)
{
    const struct vcq *vcq = &vcqs[mine->number];

    for (; mine->due_tcq < vcq->num_ops; mine->due_tcq++, mine->tcq_block = 0) {
        const struct op *op = &vcq->ops[mine->due_tcq];

        if ((op->comm.flags & UT_TCQ) && mine->tcq_block < ut_num_blocks(&op->comm))
            return op;
    }
    return NULL;
}

static bool poll_tcq(struct own *mine)
{
    void *cbdata = NULL;
    int rc = utofu_poll_tcq(mine->end.vcq, 0, &cbdata);

    if (rc == UTOFU_ERR_NOT_FOUND)
        return false;
    CHECK_OK(rc);
    const struct op *op = next_with_tcq(mine);
    CHECK(op != NULL && mine->due_tcq < mine->submitted, "VCQ %d: no TCQ entry is due",
          mine->number);
    CHECK_EQ((uintptr_t)cbdata, op->group);
    mine->tcq_block++;
    return true;
}

/* Submitting */

static void complete_comm(const struct own *mine, struct op *op)
{
    op->comm.vcq = mine->end.vcq;
    op->comm.data = mine->end.mem + op->src;
    op->comm.cbdata = (void *)(uintptr_t)op->group;
}

/* Starts the next group; false if there was no room. */
static bool submit_group(struct own *mine)
{
    static uint64_t desc[UT_DESC / 8 * MAX_GROUP * MAX_BLOCKS];
    struct vcq *vcq = &vcqs[mine->number];
    struct op *first = &vcq->ops[mine->submitted];
    size_t total = 0, size = 0;
    int count = 0, rc;

    do {
        complete_comm(mine, &first[count]);
        if (!first->ends_group) {
            CHECK_OK(ut_prepare(&first[count].comm, (uint8_t *)desc + total, &size));
            total += size;
        }
    } while (!first[count++].ends_group);
    ut_step("VCQ %d: operations %d to %d, %s of %zu bytes", mine->number, mine->submitted,
            mine->submitted + count - 1, ut_kind_name(first->comm.kind), first->comm.length);
    if (count == 1)
        rc = ut_start(&first->comm);
    else
        rc = utofu_post_toq(mine->end.vcq, desc, total, first->comm.cbdata);
    if (rc == UTOFU_ERR_BUSY)
        return false;
    CHECK_OK(rc);
    mine->submitted += count;
    return true;
}

/* An epoch */

static void *poll_mrq_to_end(void *arg)
{
    struct own *mine = arg;

    while (mine->due > 0)
        if (!poll_mrq(mine))
            ut_relax();
    return NULL;
}

static bool work_left(void)
{
    bool left = own[0].due > 0; /* the thread takes the notices of the other VCQ */

    for (int i = 0; i < PER_PROC; i++)
        left = left || own[i].submitted < vcqs[own[i].number].num_ops ||
               next_with_tcq(&own[i]) != NULL;
    return left;
}

static bool poll_both(struct own *mine)
{
    bool entry = poll_tcq(mine), notice = mine == &own[0] && poll_mrq(mine);

    return entry || notice;
}

static void do_epoch(void)
{
    pthread_t thread;

    /* The thread-safe VCQ's MRQ is polled by a thread of its own. */
    CHECK(pthread_create(&thread, NULL, poll_mrq_to_end, &own[1]) == 0);
    while (work_left()) {
        struct own *mine = &own[ut_random_below(PER_PROC)];
        int turns = (int)ut_random_below(20);
        bool found = false;

        if (mine->submitted < vcqs[mine->number].num_ops) {
            found = submit_group(mine);
            if (mine->submitted == vcqs[mine->number].num_ops)
                CHECK_OK(utofu_post_toq(mine->end.vcq, NULL, 0, NULL)); /* starts delayed ones */
        }
        for (int i = 0; i < turns; i++)
            found = poll_both(mine) || found;
        if (!found)
            ut_relax();
        if (ut_random_below(200) == 0)
            ut_random_delay(300);
    }
    pthread_join(thread, NULL);
}

static void open_vcqs(void)
{
    struct ut_peer mine[PER_PROC], all[MAX_VCQS];

    num_vcqs = ut_size * PER_PROC;
    for (int i = 0; i < PER_PROC; i++) {
        own[i].number = ut_rank * PER_PROC + i;
        ut_end_open(&own[i].end, i == 0 ? 0 : (utofu_tni_id_t)ut_env_number("UT_FUZZ_TNI", 3),
                    i == 0 ? 0 : UTOFU_VCQ_FLAG_THREAD_SAFE, get_slice(num_vcqs));
        own[i].model = ut_pages(own[i].end.size);
        for (size_t at = 0; at < SLICE; at++)
            own[i].model[at] = own[i].end.mem[at] = source_byte(own[i].number, at);
        mine[i] = ut_end_peer(&own[i].end);
    }
    ut_allgather(mine, all, sizeof(mine));
    for (int i = 0; i < num_vcqs; i++)
        vcqs[i].peer = all[i];
}

static void fuzz(void *arg)
{
    (void)arg;
    open_vcqs();
    int ops = (int)ut_env_number("UT_FUZZ_OPS", 20000);
    int epochs = (ops + num_vcqs * RANDOM_OPS - 1) / (num_vcqs * RANDOM_OPS);

    for (int epoch = 0; epoch < epochs; epoch++) {
        for (int i = 0; i < num_vcqs; i++)
            write_script(i, epoch);
        for (int i = 0; i < PER_PROC; i++)
            count_due(&own[i]);
        ut_barrier();
        do_epoch();
        ut_barrier();
        for (int i = 0; i < PER_PROC; i++) {
            ut_step("epoch %d: memory of VCQ %d", epoch, own[i].number);
            apply_scripts(&own[i]);
            check_memory(&own[i]);
            ut_expect_nothing(own[i].end.vcq);
        }
    }
    ut_barrier();
    for (int i = 0; i < PER_PROC; i++)
        ut_end_close(&own[i].end);
}

static void run(int n, int nodes)
{
    ut_run(&(struct ut_run_opts){.n = n, .nodes = nodes, .timeout_s = 240}, fuzz, NULL);
}

Test(fuzz, one_process_agrees_with_the_model)
{
    run(1, 1);
}

Test(fuzz, two_processes_agree_with_the_model)
{
    run(2, 1);
}

Test(fuzz, three_processes_on_two_nodes_agree_with_the_model)
{
    run(3, 2);
}

Test(fuzz, four_processes_on_four_nodes_agree_with_the_model)
{
    run(4, 4);
}

Test(fuzz, many_processes_agree_with_the_model)
{
    int n = (int)ut_env_number("UT_FUZZ_PROCS", 6);

    run(n < MAX_PROCS ? n : MAX_PROCS, 1);
}
