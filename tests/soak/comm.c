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
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <utofu_ext.h>

struct own {
    struct ut_account account;
    utofu_stadd_t all, part;
    bool registered;
    uint8_t *before;
    atomic_bool mrq_done;
    bool sleeps;
};

static struct own own[UT_PER_PROC];
static uint64_t now_epoch;
static pthread_t thread;
static bool thread_runs;
static int
    again; /* the main region is registered once more, and that many steps later given back */

/* Opening */

static void open_one(struct own *mine, int i)
{
    size_t size = soak_memory_size();

    mine->account.number = ut_rank * UT_PER_PROC + i;
    ut_end_open(&mine->account.end, (utofu_tni_id_t)(i == 0 ? 0 : 3),
                i == 0 ? 0 : UTOFU_VCQ_FLAG_THREAD_SAFE, size);
    CHECK_OK(utofu_reg_mem_with_stag(mine->account.end.vcq, mine->account.end.mem, size,
                                     SOAK_STAG_ALL, 0, &mine->all));
    mine->account.model = ut_pages(size);
    mine->before = ut_pages(size);
}

static void close_one(struct own *mine)
{
    size_t size = mine->account.end.size;

    if (mine->registered)
        CHECK_OK(utofu_dereg_mem(mine->account.end.vcq, mine->part, 0));
    mine->registered = false;
    CHECK_OK(utofu_dereg_mem(mine->account.end.vcq, mine->all, 0));
    ut_end_close(&mine->account.end);
    munmap(mine->account.model, size);
    munmap(mine->before, size);
}

static void exchange(void)
{
    struct ut_peer mine[UT_PER_PROC], all[UT_TRAFFIC_VCQS];

    for (int i = 0; i < UT_PER_PROC; i++)
        mine[i] = ut_end_peer(&own[i].account.end);
    ut_allgather(mine, all, sizeof(mine));
    for (int i = 0; i < ut_num_actors; i++)
        ut_actors[i].peer = all[i];
}

static void comm_open(void)
{
    soak_script_open(ut_size);
    for (int i = 0; i < UT_PER_PROC; i++)
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
    for (int vcq = 0; vcq < ut_num_actors; vcq++) {
        if (ut_rng_below(&rng, 4) != 0)
            continue;
        any = true;
        soak_script_forget(vcq);
        if (vcq / UT_PER_PROC != ut_rank)
            continue;
        close_one(&own[vcq % UT_PER_PROC]);
        open_one(&own[vcq % UT_PER_PROC], vcq % UT_PER_PROC);
        soak_count(SOAK_LIVES, 1);
    }
    if (any)
        exchange();
}

/* Errors */

/* The error of an operation with a wrong address. It may come before or behind others. */
static void check_refused(struct own *mine, int rc, const struct utofu_mrq_notice *got)
{
    int other = ut_number_of(got->vcq_id);

    for (int i = 0; i < ut_actors[mine->account.number].num_ops; i++) {
        struct ut_op *op = &ut_actors[mine->account.number].ops[i];

        if (op->refused != rc || op->answered || op->target != other ||
            op->comm.edata != got->edata || ut_op_lcl_notice(op, 0).notice_type != got->notice_type)
            continue;
        op->answered = true;
        mine->account.left[other]--;
        return;
    }
    char why[1024] = "";
    utofu_get_last_error(why);
    CHECK(false, "VCQ %d: %s, and no such error is due to VCQ %d: %s", mine->account.number,
          ut_rc_name(rc), other, why);
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
    const struct ut_op *op = &ut_actors[mine->account.number].ops[number];
    size_t answered = op->errors;

    if (number < mine->account.lcl[other])
        answered += ut_op_notices(op, UT_LCL);
    else if (number == mine->account.lcl[other])
        answered += mine->account.lcl_block[other];
    return answered < ut_op_blocks(op) ? ut_op_blocks(op) - answered : 0;
}

/* An operation failed as its target was killed. Errors come for operations without a local notice,
 * too, and in any order. */
static void check_peer_error(struct own *mine, const struct utofu_mrq_notice *got)
{
    int other = ut_number_of(got->vcq_id);

    soak_expect_dead(other / UT_PER_PROC, "a communication to it failed");
    CHECK(ut_notice_is_local(got));
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < ut_actors[mine->account.number].num_ops; i++) {
            struct ut_op *op = &ut_actors[mine->account.number].ops[i];
            bool wanted = ut_op_notices(op, UT_LCL) > 0; /* these first */

            if (op->target == other && wanted == (pass == 0) && op->comm.edata == got->edata &&
                ut_op_lcl_notice(op, 0).notice_type == got->notice_type &&
                count_unanswered(mine, other, i) > 0) {
                op->errors++;
                return;
            }
        }
    CHECK(false, "VCQ %d: an error of VCQ %d too many", mine->account.number, other);
}

/* With the shuffle mode, a put that was held back when the connection broke has this error. */
static bool is_shuffled(void)
{
    const char *seed = getenv("UTOFU_SHUFFLE");

    return seed && strtoull(seed, NULL, 0) != 0;
}

/* False: there was no notice. */
static bool poll_mrq(struct own *mine)
{
    struct utofu_mrq_notice notice;
    int rc = utofu_poll_mrq(mine->account.end.vcq, 0, &notice);

    if (rc == UTOFU_ERR_NOT_FOUND)
        return false;
    soak_count(SOAK_ENTRIES, 1);
    if (rc == UTOFU_SUCCESS)
        ut_account_check(&mine->account, &notice);
    else if (rc == UTOFU_ERR_MRQ_PEER || (rc == UTOFU_ERR_MRQ_OTHER && is_shuffled()))
        check_peer_error(mine, &notice);
    else
        check_refused(mine, rc, &notice);
    return true;
}

static bool is_mrq_done(struct own *mine)
{
    for (int other = 0; other < ut_num_actors; other++) {
        if (!ut_is_dead(other / UT_PER_PROC)) {
            if (mine->account.left[other] > 0)
                return false;
        } else if (ut_next_due(mine->account.number, other, UT_LCL, &mine->account.lcl[other],
                               &mine->account.lcl_block[other]) != NULL) {
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

static bool poll_tcq(struct own *mine)
{
    bool found = ut_account_poll_tcq(&mine->account);

    soak_count(SOAK_ENTRIES, found);
    return found;
}

/* Submitting */

static void note_ops(const struct own *mine, const struct ut_op *first, int count)
{
    for (int i = 0; i < count; i++) {
        const struct ut_op *op = &first[i];

        soak_note(ut_op_name(op), now_epoch, (uint64_t)(mine->account.submitted - count + i),
                  (uint64_t)mine->account.number << 32 | (uint32_t)op->target, op->comm.length,
                  op->comm.flags);
        soak_count(SOAK_OPS, ut_op_blocks(op));
        soak_count(SOAK_BYTES, ut_op_blocks(op) * op->comm.length);
    }
}

/* Starts the next group; false if there was no room. */
static bool submit_group(struct own *mine)
{
    const struct ut_op *first = &ut_actors[mine->account.number].ops[mine->account.submitted];
    int count = ut_account_submit(&mine->account);

    note_ops(mine, first, count);
    return count > 0;
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
            int rc = utofu_wait_vcqs(&mine->account.end.vcq, 1, 20000);
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
    for (int i = 0; i < UT_PER_PROC; i++) {
        struct own *mine = &own[i];

        CHECK_OK(utofu_reg_mem_with_stag(
            mine->account.end.vcq,
            mine->account.end.mem + soak_part_start(epoch, mine->account.number),
            soak_part_size(epoch, mine->account.number), soak_part_stag(epoch), 0, &mine->part));
        mine->registered = true;
        memcpy(mine->account.end.mem, ut_source(mine->account.number), SOAK_SLICE);
        memcpy(mine->before, mine->account.model, mine->account.end.size);
        soak_model_apply(mine->account.number, mine->account.model);
        ut_account_begin(&mine->account);
        atomic_store(&mine->mrq_done, false);
        mine->sleeps = ut_random_below(2);
    }
    CHECK(pthread_create(&thread, NULL, poll_second, &own[1]) == 0);
    thread_runs = true;
}

/* The same region again, under load: the same STADD, and ended once more. */
static void register_again(void)
{
    struct ut_end *end = &own[0].account.end;
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
    struct own *mine = &own[ut_random_below(UT_PER_PROC)];
    int turns = (int)ut_random_below(20);
    bool found = false;

    if (!ut_account_has_submitted(&mine->account))
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
    for (int i = 0; i < UT_PER_PROC; i++)
        if (!ut_account_has_submitted(&own[i].account) || ut_account_next_tcq(&own[i].account) ||
            !atomic_load(&own[i].mrq_done))
            return false;
    if (thread_runs)
        pthread_join(thread, NULL);
    thread_runs = false;
    return true;
}

static void comm_check(void)
{
    for (int i = 0; i < UT_PER_PROC; i++) {
        struct own *mine = &own[i];

        ut_step("epoch %llu: memory of VCQ %d", (unsigned long long)now_epoch,
                mine->account.number);
        soak_model_check(mine->account.number, mine->account.end.mem, mine->account.model,
                         mine->before);
        if (i == 0 && again > 0)
            CHECK_OK(utofu_dereg_mem(mine->account.end.vcq, mine->account.end.stadd, 0));
        if (!soak_any_dead())
            ut_expect_nothing(mine->account.end.vcq);
        CHECK_OK(utofu_dereg_mem(mine->account.end.vcq, mine->part, 0));
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
    for (int i = 0; i < UT_PER_PROC; i++)
        close_one(&own[i]);
}

const struct ut_end *soak_comm_end(int number)
{
    return &own[number].account.end;
}

size_t soak_comm_vcqs(utofu_vcq_hdl_t vcqs[])
{
    vcqs[0] = own[0].account.end.vcq;
    vcqs[1] = own[1].account.end.vcq;
    return 2;
}

const struct soak_actor soak_comm = {"comm",       comm_open,  comm_prepare, comm_step,
                                     comm_is_done, comm_check, comm_close};
