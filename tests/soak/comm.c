/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scripts of two VCQs of this process (script.h): submits the operations, polls, and accounts
 * for every TCQ entry, notice and error. A thread polls the MRQ of the second VCQ, or sleeps until
 * there is something in it.
 */
#include "actor.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <utofu_ext.h>

struct own {
    int number;
    struct ut_end end;
    utofu_stadd_t all, part;
    bool registered;
    uint8_t *model, *before;
    int submitted; /* operations of the script */
    int due_tcq;   /* the next operation with a TCQ entry, and its block */
    size_t tcq_block;
    /* per target, per origin: the next operation with a notice, and its block */
    int lcl[SOAK_MAX_VCQS], rmt[SOAK_MAX_VCQS];
    size_t lcl_block[SOAK_MAX_VCQS], rmt_block[SOAK_MAX_VCQS];
    int left[SOAK_MAX_VCQS]; /* outstanding notices and errors, by the other VCQ */
    atomic_bool mrq_done;
    bool sleeps;
};

static struct own own[SOAK_PER_PROC];
static uint64_t now_epoch;
static pthread_t thread;
static bool thread_runs;
static int
    again; /* the main region is registered once more, and that many steps later given back */

/* Opening */

static void open_one(struct own *mine, int i)
{
    size_t size = soak_memory_size();

    mine->number = ut_rank * SOAK_PER_PROC + i;
    ut_end_open(&mine->end, (utofu_tni_id_t)(i == 0 ? 0 : 3),
                i == 0 ? 0 : UTOFU_VCQ_FLAG_THREAD_SAFE, size);
    CHECK_OK(
        utofu_reg_mem_with_stag(mine->end.vcq, mine->end.mem, size, SOAK_STAG_ALL, 0, &mine->all));
    mine->model = ut_pages(size);
    mine->before = ut_pages(size);
}

static void close_one(struct own *mine)
{
    size_t size = mine->end.size;

    if (mine->registered)
        CHECK_OK(utofu_dereg_mem(mine->end.vcq, mine->part, 0));
    mine->registered = false;
    CHECK_OK(utofu_dereg_mem(mine->end.vcq, mine->all, 0));
    ut_end_close(&mine->end);
    munmap(mine->model, size);
    munmap(mine->before, size);
}

static void exchange(void)
{
    struct ut_peer mine[SOAK_PER_PROC], all[SOAK_MAX_VCQS];

    for (int i = 0; i < SOAK_PER_PROC; i++)
        mine[i] = ut_end_peer(&own[i].end);
    ut_allgather(mine, all, sizeof(mine));
    for (int i = 0; i < soak_num_vcqs; i++)
        soak_vcqs[i].peer = all[i];
}

static void comm_open(void)
{
    soak_num_vcqs = ut_size * SOAK_PER_PROC;
    for (int i = 0; i < SOAK_PER_PROC; i++)
        open_one(&own[i], i);
    exchange();
}

/* In some epochs some processes free a VCQ and create it anew. */
static void renew(uint64_t epoch)
{
    struct ut_rng rng = ut_rng_start(ut_seed() * 31 + epoch);
    bool any = false;

    if (epoch == 0 || ut_rng_below(&rng, 8) != 0)
        return;
    for (int vcq = 0; vcq < soak_num_vcqs; vcq++) {
        if (ut_rng_below(&rng, 4) != 0)
            continue;
        any = true;
        soak_script_forget(vcq);
        if (vcq / SOAK_PER_PROC != ut_rank)
            continue;
        close_one(&own[vcq % SOAK_PER_PROC]);
        open_one(&own[vcq % SOAK_PER_PROC], vcq % SOAK_PER_PROC);
        soak_count(SOAK_LIVES, 1);
    }
    if (any)
        exchange();
}

/* Expected entries and notices */

static size_t count_notices(const struct soak_op *op, unsigned long int flag)
{
    return (op->comm.flags & flag) && soak_has_notice(op) ? soak_op_blocks(op) : 0;
}

static void count_due(struct own *mine)
{
    mine->submitted = mine->due_tcq = 0;
    mine->tcq_block = 0;
    for (int other = 0; other < soak_num_vcqs; other++) {
        mine->lcl[other] = mine->rmt[other] = 0;
        mine->lcl_block[other] = mine->rmt_block[other] = 0;
        mine->left[other] = 0;
    }
    for (int other = 0; other < soak_num_vcqs; other++)
        for (int i = 0; i < soak_vcqs[other].num_ops; i++) {
            const struct soak_op *op = &soak_vcqs[other].ops[i];

            if (op->target == mine->number)
                mine->left[other] += (int)count_notices(op, UT_RMT);
            if (other == mine->number && op->target >= 0)
                mine->left[op->target] += (int)count_notices(op, UT_LCL) + (op->refused != 0);
        }
    atomic_store(&mine->mrq_done, false);
}

static int number_of(utofu_vcq_id_t id)
{
    for (int i = 0; i < soak_num_vcqs; i++)
        if (soak_vcqs[i].peer.id == id)
            return i;
    CHECK(false, "0x%llx is no id of any VCQ", (unsigned long long)id);
    return -1;
}

/* Moves to the next operation from `origin` to `target` that has a notice of this kind. */
static struct soak_op *next_due(int origin, int target, unsigned long int flag, int *at,
                                size_t *block)
{
    for (; *at < soak_vcqs[origin].num_ops; ++*at, *block = 0) {
        struct soak_op *op = &soak_vcqs[origin].ops[*at];

        if (op->target == target && *block + op->errors < count_notices(op, flag))
            return op;
    }
    return NULL;
}

static bool is_local(const struct utofu_mrq_notice *notice)
{
    return notice->notice_type == UTOFU_MRQ_TYPE_LCL_PUT ||
           notice->notice_type == UTOFU_MRQ_TYPE_LCL_GET ||
           notice->notice_type == UTOFU_MRQ_TYPE_LCL_ARMW;
}

/* Fails, and prints the entry received and the entries expected. */
static void report_order(const struct own *mine, const struct utofu_mrq_notice *got, int due,
                         int origin, int target)
{
    char came[400] = "";

    for (int i = 0; i < soak_vcqs[origin].num_ops; i++) {
        const struct soak_op *op = &soak_vcqs[origin].ops[i];
        struct utofu_mrq_notice n = is_local(got)
                                        ? soak_lcl_notice(op, 0)
                                        : soak_rmt_notice(op, 0, soak_vcqs[origin].peer.id);
        size_t used = strlen(came);
        if (op->target == target && n.notice_type == got->notice_type && n.edata == got->edata)
            snprintf(came + used, sizeof(came) - used, " %d (%s, %zu bytes, flags 0x%lx)", i,
                     soak_op_name(op), op->comm.length, op->comm.flags);
    }
    const struct soak_op *op = &soak_vcqs[origin].ops[due];
    CHECK(false,
          "VCQ %d: of VCQ %d to VCQ %d the %s notice of operation %d is due (%s, %zu bytes, flags "
          "0x%lx); it is of type %d with EDATA %llu, of one of these:%s",
          mine->number, origin, target, is_local(got) ? "local" : "remote", due, soak_op_name(op),
          op->comm.length, op->comm.flags, got->notice_type, (unsigned long long)got->edata, came);
}

static void check_notice(struct own *mine, const struct utofu_mrq_notice *got)
{
    bool local = is_local(got);
    int other = number_of(got->vcq_id);
    int origin = local ? mine->number : other, target = local ? other : mine->number;
    int *at = local ? &mine->lcl[other] : &mine->rmt[other];
    size_t *block = local ? &mine->lcl_block[other] : &mine->rmt_block[other];
    const struct soak_op *op = next_due(origin, target, local ? UT_LCL : UT_RMT, at, block);

    CHECK(op != NULL, "VCQ %d: no %s notice is due from VCQ %d to VCQ %d", mine->number,
          local ? "local" : "remote", origin, target);
    ut_step("epoch %llu, VCQ %d: %s notice of block %zu of operation %d of VCQ %d, %s",
            (unsigned long long)now_epoch, mine->number, local ? "local" : "remote", *block, *at,
            origin, soak_op_name(op));
    struct utofu_mrq_notice want = local ? soak_lcl_notice(op, *block)
                                         : soak_rmt_notice(op, *block, soak_vcqs[origin].peer.id);
    if (got->notice_type != want.notice_type || got->edata != want.edata)
        report_order(mine, got, *at, origin, target);
    ut_check_notice(got, &want);
    if (got->notice_type == UTOFU_MRQ_TYPE_LCL_ARMW && !op->shared)
        CHECK_EQ(got->rmt_value, op->old);
    ++*block;
    mine->left[other]--;
}

/* The error of an operation with a wrong address. It may come before or behind others. */
static void check_refused(struct own *mine, int rc, const struct utofu_mrq_notice *got)
{
    int other = number_of(got->vcq_id);

    for (int i = 0; i < soak_vcqs[mine->number].num_ops; i++) {
        struct soak_op *op = &soak_vcqs[mine->number].ops[i];

        if (op->refused != rc || op->answered || op->target != other ||
            op->comm.edata != got->edata || soak_lcl_notice(op, 0).notice_type != got->notice_type)
            continue;
        op->answered = true;
        mine->left[other]--;
        return;
    }
    char why[1024] = "";
    utofu_get_last_error(why);
    CHECK(false, "VCQ %d: %s, and no such error is due to VCQ %d: %s", mine->number, ut_rc_name(rc),
          other, why);
}

void soak_expect_dead(int rank, const char *what)
{
    char why[1024] = "";

    utofu_get_last_error(why);
    for (time_t end = time(NULL) + SOAK_TOLD_S; time(NULL) < end && !ut_is_dead(rank);)
        ut_relax();
    CHECK(ut_is_dead(rank), "rank %d lives, but %s: %s", rank, what, why);
    soak_count(SOAK_PEER_ERRORS, 1);
}

/* Blocks of an operation to `other` that have no answer yet. */
static size_t count_unanswered(const struct own *mine, int other, int number)
{
    const struct soak_op *op = &soak_vcqs[mine->number].ops[number];
    size_t answered = op->errors;

    if (number < mine->lcl[other])
        answered += count_notices(op, UT_LCL);
    else if (number == mine->lcl[other])
        answered += mine->lcl_block[other];
    return answered < soak_op_blocks(op) ? soak_op_blocks(op) - answered : 0;
}

/* An operation failed as its target was killed. Errors come for operations without a local notice,
 * too, and in any order. */
static void check_peer_error(struct own *mine, const struct utofu_mrq_notice *got)
{
    int other = number_of(got->vcq_id);

    soak_expect_dead(other / SOAK_PER_PROC, "a communication to it failed");
    CHECK(is_local(got));
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < soak_vcqs[mine->number].num_ops; i++) {
            struct soak_op *op = &soak_vcqs[mine->number].ops[i];
            bool wanted = count_notices(op, UT_LCL) > 0; /* these first */

            if (op->target == other && wanted == (pass == 0) && op->comm.edata == got->edata &&
                soak_lcl_notice(op, 0).notice_type == got->notice_type &&
                count_unanswered(mine, other, i) > 0) {
                op->errors++;
                return;
            }
        }
    CHECK(false, "VCQ %d: an error of VCQ %d too many", mine->number, other);
}

/* False: there was no notice. */
static bool poll_mrq(struct own *mine)
{
    struct utofu_mrq_notice notice;
    int rc = utofu_poll_mrq(mine->end.vcq, 0, &notice);

    if (rc == UTOFU_ERR_NOT_FOUND)
        return false;
    soak_count(SOAK_ENTRIES, 1);
    if (rc == UTOFU_SUCCESS)
        check_notice(mine, &notice);
    else if (rc == UTOFU_ERR_MRQ_PEER)
        check_peer_error(mine, &notice);
    else
        check_refused(mine, rc, &notice);
    return true;
}

static bool is_mrq_done(struct own *mine)
{
    for (int other = 0; other < soak_num_vcqs; other++) {
        if (!ut_is_dead(other / SOAK_PER_PROC)) {
            if (mine->left[other] > 0)
                return false;
        } else if (next_due(mine->number, other, UT_LCL, &mine->lcl[other],
                            &mine->lcl_block[other]) != NULL) {
            return false;
        }
    }
    return true;
}

static void look_mrq(struct own *mine, bool *found)
{
    if (poll_mrq(mine))
        *found = true;
    else if (is_mrq_done(mine))
        atomic_store(&mine->mrq_done, true);
}

/* Skips operations without further TCQ entries. Returns the next one with an entry, or NULL. */
static const struct soak_op *next_with_tcq(struct own *mine)
{
    const struct soak_vcq *vcq = &soak_vcqs[mine->number];

    for (; mine->due_tcq < vcq->num_ops; mine->due_tcq++, mine->tcq_block = 0) {
        const struct soak_op *op = &vcq->ops[mine->due_tcq];

        if ((op->comm.flags & UT_TCQ) && mine->tcq_block < soak_op_blocks(op))
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
    const struct soak_op *op = next_with_tcq(mine);
    CHECK(op != NULL && mine->due_tcq < mine->submitted, "VCQ %d: no TCQ entry is due",
          mine->number);
    CHECK_EQ((uintptr_t)cbdata, op->group);
    soak_count(SOAK_ENTRIES, 1);
    mine->tcq_block++;
    return true;
}

/* Submitting */

static void complete_op(const struct own *mine, struct soak_op *op)
{
    op->comm.vcq = mine->end.vcq;
    op->comm.data = mine->end.mem + op->src;
    op->comm.cbdata = (void *)(uintptr_t)op->group;
}

static void note_ops(const struct own *mine, const struct soak_op *first, int count)
{
    for (int i = 0; i < count; i++) {
        const struct soak_op *op = &first[i];

        soak_note(soak_op_name(op), now_epoch, (uint64_t)(mine->submitted + i),
                  (uint64_t)mine->number << 32 | (uint32_t)op->target, op->comm.length,
                  op->comm.flags);
        soak_count(SOAK_OPS, soak_op_blocks(op));
        soak_count(SOAK_BYTES, soak_op_blocks(op) * op->comm.length);
    }
}

/* Starts the next group; false if there was no room. */
static bool submit_group(struct own *mine)
{
    static uint64_t desc[UT_DESC / 8 * SOAK_MAX_GROUP * SOAK_MAX_BLOCKS];
    struct soak_vcq *vcq = &soak_vcqs[mine->number];
    struct soak_op *first = &vcq->ops[mine->submitted];
    size_t total = 0, size = 0;
    int count = 0, rc;

    do {
        complete_op(mine, &first[count]);
        if (!first->ends_group) {
            CHECK_OK(soak_op_prepare(&first[count], (uint8_t *)desc + total, &size));
            total += size;
        }
    } while (!first[count++].ends_group);
    if (count == 1)
        rc = soak_op_start(first);
    else
        rc = utofu_post_toq(mine->end.vcq, desc, total, first->comm.cbdata);
    if (rc == UTOFU_ERR_BUSY)
        return false;
    CHECK(rc == UTOFU_SUCCESS, "%s of %zu bytes gave %s", soak_op_name(first), first->comm.length,
          ut_rc_name(rc));
    note_ops(mine, first, count);
    mine->submitted += count;
    if (mine->submitted == vcq->num_ops)
        CHECK_OK(utofu_post_toq(mine->end.vcq, NULL, 0, NULL)); /* starts delayed ones */
    return true;
}

/* An epoch */

static void *poll_second(void *arg)
{
    struct own *mine = arg;

    while (!atomic_load(&mine->mrq_done)) {
        bool found = false;

        look_mrq(mine, &found);
        if (found)
            continue;
        if (mine->sleeps) {
            int rc = utofu_wait_vcqs(&mine->end.vcq, 1, 20000);
            CHECK(rc == UTOFU_SUCCESS || rc == UTOFU_ERR_NOT_FOUND, "wait gave %s", ut_rc_name(rc));
            soak_count(SOAK_SLEEPS, 1);
        }
        ut_relax();
    }
    return NULL;
}

static void comm_prepare(uint64_t epoch)
{
    now_epoch = epoch;
    renew(epoch);
    soak_script_write(epoch);
    for (int i = 0; i < SOAK_PER_PROC; i++) {
        struct own *mine = &own[i];

        CHECK_OK(utofu_reg_mem_with_stag(
            mine->end.vcq, mine->end.mem + soak_part_start(epoch, mine->number),
            soak_part_size(epoch, mine->number), soak_part_stag(epoch), 0, &mine->part));
        mine->registered = true;
        memcpy(mine->end.mem, soak_source(mine->number), SOAK_SLICE);
        memcpy(mine->before, mine->model, mine->end.size);
        soak_model_apply(mine->number, mine->model);
        count_due(mine);
        mine->sleeps = ut_random_below(2);
    }
    CHECK(pthread_create(&thread, NULL, poll_second, &own[1]) == 0);
    thread_runs = true;
}

/* The same region again, under load: the same STADD, and ended once more. */
static void register_again(void)
{
    struct ut_end *end = &own[0].end;
    utofu_stadd_t stadd;

    if (again == 0 && ut_random_below(200) == 0) {
        CHECK_OK(utofu_reg_mem(end->vcq, end->mem, end->size + 8, 0, &stadd));
        CHECK_EQ(stadd, end->stadd);
        again = 1 + (int)ut_random_below(50);
        soak_count(SOAK_LEASES, 1);
    } else if (again > 0 && --again == 0) {
        CHECK_OK(utofu_dereg_mem(end->vcq, end->stadd, 0));
    }
}

static bool comm_step(void)
{
    struct own *mine = &own[ut_random_below(SOAK_PER_PROC)];
    int turns = (int)ut_random_below(20);
    bool found = false;

    if (mine->submitted < soak_vcqs[mine->number].num_ops)
        found = submit_group(mine);
    for (int i = 0; i < turns; i++) {
        found = poll_tcq(mine) || found;
        if (mine == &own[0] && !atomic_load(&mine->mrq_done))
            look_mrq(mine, &found);
    }
    register_again();
    return found;
}

static bool comm_is_done(void)
{
    for (int i = 0; i < SOAK_PER_PROC; i++)
        if (own[i].submitted < soak_vcqs[own[i].number].num_ops || next_with_tcq(&own[i]) ||
            !atomic_load(&own[i].mrq_done))
            return false;
    if (thread_runs)
        pthread_join(thread, NULL);
    thread_runs = false;
    return true;
}

static void comm_check(void)
{
    for (int i = 0; i < SOAK_PER_PROC; i++) {
        struct own *mine = &own[i];

        ut_step("epoch %llu: memory of VCQ %d", (unsigned long long)now_epoch, mine->number);
        soak_model_check(mine->number, mine->end.mem, mine->model, mine->before);
        if (i == 0 && again > 0)
            CHECK_OK(utofu_dereg_mem(mine->end.vcq, mine->end.stadd, 0));
        if (!soak_any_dead())
            ut_expect_nothing(mine->end.vcq);
        CHECK_OK(utofu_dereg_mem(mine->end.vcq, mine->part, 0));
        mine->registered = false;
    }
    again = 0;
    soak_count(SOAK_EPOCHS, 1);
}

static void comm_close(void)
{
    if (thread_runs) { /* a process was killed before the epoch began */
        atomic_store(&own[1].mrq_done, true);
        pthread_join(thread, NULL);
        thread_runs = false;
    }
    for (int i = 0; i < SOAK_PER_PROC; i++)
        close_one(&own[i]);
}

const struct ut_end *soak_comm_end(int number)
{
    return &own[number].end;
}

size_t soak_comm_vcqs(utofu_vcq_hdl_t vcqs[])
{
    vcqs[0] = own[0].end.vcq;
    vcqs[1] = own[1].end.vcq;
    return 2;
}

const struct soak_actor soak_comm = {"comm",       comm_open,  comm_prepare, comm_step,
                                     comm_is_done, comm_check, comm_close};
