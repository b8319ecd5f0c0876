/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between two other processes. The owner of the source executes them. Every process has one
 * ring of commands, which all other processes share. To send a command, a process takes a ticket
 * with an atomic add on the tail of the ring, waits until the head is less than one ring length
 * behind the ticket (it usually knows so already), and puts the command into the slot of the
 * ticket. An outstanding command has a number, the lowest free one, so that answers use few
 * addresses: uTofu sends data and notice together only to addresses used before.
 *
 * The owner answers twice. The first answer is a word, the stamp of the command, without a notice.
 * It completes the copy if the issuer polls, and is sent only after success. The second answer has
 * a remote notice. It wakes an issuer that sleeps, completes the copy if the word has not, and
 * frees the number. Stamps are never reused, so a word that arrives after its notice does no harm.
 */
#include "command.h"
#include "address.h"
#include "control.h"
#include "ctx.h"
#include "direct.h"
#include "log.h"
#include "net.h"
#include "peers.h"
#include "progress.h"
#include "task.h"

#include <string.h>

#include "../common/stall.h"

enum stage { NO_TICKET, HAS_TICKET, SENT, ANSWERED, SUCCEEDED, FAILED };

void al_command_setup(void)
{
    memset(al.commands.executors, 0, sizeof(al.commands.executors));
    memset(al.commands.outstanding, 0, sizeof(al.commands.outstanding));
    al.commands.head = al.commands.awaited = 0;
    al.commands.latest = 0;
    for (al.commands.num_free = 0; al.commands.num_free < AL_OUTSTANDING; al.commands.num_free++)
        al.commands.free_numbers[al.commands.num_free] =
            (uint8_t)(AL_OUTSTANDING - 1 - al.commands.num_free);
}

/*
 * The issuer of the copy
 */

static uint32_t owner_of(const struct al_task *task)
{
    return al_rank_of(task->src);
}

/* Stores the number in `order`, which is not needed any more. */
static void alloc_number(struct al_task *task)
{
    task->order = al.commands.free_numbers[--al.commands.num_free];
    al.commands.outstanding[task->order] = task;
}

static void free_number(uint64_t number)
{
    al.commands.outstanding[number] = NULL;
    al.commands.free_numbers[al.commands.num_free++] = (uint8_t)number;
}

/* Consecutive numbers have answer words in different cache lines. */
static size_t answer_index(uint64_t number)
{
    const size_t in_line = 8, lines = AL_OUTSTANDING / in_line;

    return number % lines * in_line + number / lines;
}

/* Fails a command that cannot be sent because the ring of the owner is inconsistent. */
static void fail_unsent(struct al_task *task, uint64_t ticket, uint64_t seen)
{
    free_number(task->order);
    al_task_fail(task,
                 "ticket %llu of rank %u's ring of commands, of which %llu were executed: does "
                 "another program of the job use this memory?",
                 (unsigned long long)ticket, owner_of(task), (unsigned long long)seen);
}

static void handle_ticket(struct lc_op *op, int rc, uint64_t old_value)
{
    struct al_task *task = op->arg;
    struct al_peer *peer;

    task->in_flight--;
    if (rc != UTOFU_SUCCESS) {
        free_number(task->order);
        al_task_fail(task, "cannot get a ticket of rank %u: %s", op->rank, lc_utofu_error());
        return;
    }
    if (al_peer_find(op->rank, task, &peer) != AL_FOUND)
        return; /* cannot happen: the peer is known */
    if (old_value < peer->head_seen) {
        fail_unsent(task, old_value, peer->head_seen);
        return;
    }
    task->value = old_value;
    task->stage = HAS_TICKET;
    al_task_step(task);
}

/* The head stops at a ticket whose command has not arrived, and there are at most AL_OUTSTANDING
 * outstanding tickets of each process. */
static bool is_head_for(uint64_t ticket, uint64_t seen)
{
    return seen <= ticket && ticket - seen <= (uint64_t)al.job.procs * AL_OUTSTANDING;
}

static void handle_head(struct lc_op *op, int rc, uint64_t old_value)
{
    struct al_task *task = op->arg;
    struct al_peer *peer;
    uint64_t seen = *(const uint64_t *)lc_op_bounce(op);

    (void)old_value;
    task->in_flight--;
    if (al_peer_find(op->rank, task, &peer) != AL_FOUND)
        return; /* cannot happen: the peer is known */
    peer->head_read_pending = false;
    if (rc == UTOFU_SUCCESS && !is_head_for(task->value, seen)) {
        fail_unsent(task, task->value, seen);
        return;
    }
    if (rc == UTOFU_SUCCESS && seen > peer->head_seen)
        peer->head_seen = seen;
    al_task_retry_later(task);
}

static void complete_answered(struct al_task *task)
{
    enum stage stage = task->stage;

    if (stage == ANSWERED)
        al.commands.outstanding[task->order] = &al.commands.ended;
    else
        free_number(task->order);
    if (stage == FAILED)
        al_task_fail(task, "rank %u has failed to execute it, and logs the reason", owner_of(task));
    else
        al_task_end(task);
}

static void finish_send(struct lc_op *op, int rc, uint64_t old_value)
{
    struct al_task *task = op->arg;

    (void)old_value;
    task->in_flight--;
    if (rc != UTOFU_SUCCESS)
        al_fatal("cannot send a command to rank %u: %s", op->rank, lc_utofu_error());
    if (task->stage != SENT)
        complete_answered(task);
}

static bool draw_ticket(struct al_task *task, struct al_peer *peer, struct lc_op *op)
{
    alloc_number(task);
    if (lc_op_armw(op, peer->id, UTOFU_ARMW_OP_ADD, 1,
                   al_control_stadd(peer->id, offsetof(struct al_control, tail))))
        return true;
    free_number(task->order);
    return false;
}

static bool read_head(struct al_peer *peer, struct lc_op *op)
{
    peer->head_read_pending = true;
    if (lc_op_get(op, peer->id, lc_op_bounce_stadd(op),
                  al_control_stadd(peer->id, offsetof(struct al_control, head)), 8))
        return true;
    peer->head_read_pending = false;
    return false;
}

static bool put_command(struct al_task *task, struct al_peer *peer, struct lc_op *op)
{
    size_t place = offsetof(struct al_control, ring) + task->value % AL_RING * AL_BOUNCE;
    const struct al_command command = {.dst = task->dst,
                                       .src = task->src,
                                       .size = task->size,
                                       .rank = al.job.rank,
                                       .number = (uint32_t)task->order,
                                       .stamp = ++al.commands.last_stamp,
                                       .seq = task->value + 1};

    memcpy(lc_op_bounce(op), &command, sizeof(command));
    task->stage = SENT; /* the answer may arrive before the notice of the put */
    if (lc_op_put(op, peer->id, lc_op_bounce_stadd(op), al_control_stadd(peer->id, place),
                  sizeof(command),
                  UTOFU_ONESIDED_FLAG_STRONG_ORDER | UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE)) {
        task->value = command.stamp;
        al.commands.latest = command.number;
        al.commands.awaited = command.stamp;
        return true;
    }
    task->stage = HAS_TICKET;
    return false;
}

/* Starts the next step of a command: a ticket, a read of the head, or the put. */
static bool start_next(struct al_task *task, struct al_peer *peer)
{
    bool full = task->value >= peer->head_seen && task->value - peer->head_seen >= AL_RING;
    struct lc_op *op;

    if (task->stage == NO_TICKET ? al.commands.num_free == 0 : full && peer->head_read_pending)
        return false;
    op = lc_op_alloc(al_port(0), 0, owner_of(task),
                     task->stage == NO_TICKET ? handle_ticket
                     : full                   ? handle_head
                                              : finish_send,
                     task);
    if (op == NULL)
        return false;
    if (task->stage == NO_TICKET)
        return draw_ticket(task, peer, op);
    return full ? read_head(peer, op) : put_command(task, peer, op);
}

void al_command_send(struct al_task *task)
{
    struct al_peer *peer;

    if (al_peer_find(owner_of(task), task, &peer) != AL_FOUND)
        return;
    task->in_flight++;
    if (start_next(task, peer))
        return;
    task->in_flight--;
    al_task_retry_later(task);
}

bool al_command_poll_answer(void)
{
    struct al_task *task = al.commands.outstanding[al.commands.latest];

    if (al.commands.awaited == 0 ||
        __atomic_load_n(&al.control->answers[answer_index(al.commands.latest)], __ATOMIC_ACQUIRE) !=
            al.commands.awaited)
        return false;
    al.commands.awaited = 0;
    task->stage = ANSWERED;
    if (task->in_flight == 0)
        complete_answered(task);
    return true;
}

static void handle_notice(uint32_t number, bool success)
{
    struct al_task *task = al.commands.outstanding[number];

    if (task == &al.commands.ended) {
        free_number(number);
        return;
    }
    if (task == NULL || (task->stage != SENT && task->stage != ANSWERED)) {
        al_log("ignored an answer to a command that was not sent: does another program of the job "
               "use this memory?");
        return;
    }
    if (al.commands.awaited == task->value)
        al.commands.awaited = 0;
    task->stage = success ? SUCCEEDED : FAILED;
    if (task->in_flight == 0)
        complete_answered(task);
}

/* Handles the notice of a put of a peer. Commands, answers, barrier words and the end of the job
 * are polled in memory; their notices only wake this process, but the notice of an answer also
 * frees the number. */
void al_command_put_arrived(utofu_stadd_t stadd)
{
    uint64_t last = stadd - 1 - al.area.memory.stadd;

    uint64_t success = last - offsetof(struct al_control, succeeded);
    uint64_t failure = last - offsetof(struct al_control, failed_commands);

    if (success < AL_OUTSTANDING)
        handle_notice((uint32_t)success, true);
    else if (failure < AL_OUTSTANDING)
        handle_notice((uint32_t)failure, false);
    else if (last >= offsetof(struct al_control, answers))
        al_log("ignored an unexpected notice at STADD 0x%llx: does another program of the job use "
               "this memory?",
               (unsigned long long)stadd);
}

void al_command_drain(const char *function)
{
    struct lc_stall_timer stall = {0};
    uint32_t idle = 0;

    while (al.commands.num_free < AL_OUTSTANDING) {
        if (lc_stall_should_log(&stall, idle))
            al_log("%s: has waited %llu s for the notices of %u copies that other processes "
                   "execute",
                   function, lc_stall_seconds(&stall), AL_OUTSTANDING - al.commands.num_free);
        al_progress_or_wait(&idle);
    }
    al_progress_wait_done();
}

/*
 * The executor of the copy
 */

static void finish_report(struct lc_op *op, int rc, uint64_t old_value)
{
    struct al_task *task = op->arg;

    (void)old_value;
    if (rc != UTOFU_SUCCESS && !al.leaving)
        al_fatal("cannot notify rank %u that its copy is complete: %s", op->rank, lc_utofu_error());
    if (--task->in_flight == 0 && !task->queued)
        task->state = AL_FREE;
}

/* Puts one of the two answers. False: no op is free, or the TOQ is full. */
static bool put_answer(struct al_task *task, const struct al_peer *peer, uint64_t word, size_t size,
                       size_t place, unsigned long int flags)
{
    struct lc_op *op = lc_op_alloc(al_port(0), 0, peer->rank, finish_report, task);

    if (op == NULL)
        return false;
    task->in_flight++;
    if (lc_op_put_word(op, peer->id, word, al_control_stadd(peer->id, place), size, flags))
        return true;
    task->in_flight--;
    return false;
}

/* The first answer is optional, and is skipped if there is no room. */
static void report_word(struct al_task *task, const struct al_peer *peer)
{
    size_t place = answer_index((uint32_t)task->order);

    task->retried = true; /* only one attempt */
    if (!task->failed)
        put_answer(task, peer, al.commands.stamps[task - al.commands.executors], 8,
                   offsetof(struct al_control, answers) + 8 * place, 0);
}

void al_command_report(struct al_task *task)
{
    uint32_t rank = (uint32_t)(task->order >> 32), number = (uint32_t)task->order;
    size_t place = task->failed ? offsetof(struct al_control, failed_commands)
                                : offsetof(struct al_control, succeeded);
    struct al_peer *peer;

    if (task->state != AL_REPORTS) {
        task->state = AL_REPORTS;
        task->retried = false;
    }
    if (al_peer_find(rank, task, &peer) != AL_FOUND)
        return;
    if (!task->retried)
        report_word(task, peer);
    if (!put_answer(task, peer, number, 1, place + number, UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE))
        al_task_retry_later(task);
}

static struct al_task *find_free_executor(void)
{
    for (int i = 0; i < AL_EXECUTORS; i++)
        if (al.commands.executors[i].state == AL_FREE)
            return &al.commands.executors[i];
    return NULL;
}

static void execute_command(struct al_task *task, const struct al_command *command)
{
    struct al_place dst, src;

    *task = (struct al_task){.kind = AL_COPY,
                             .state = AL_RUNS,
                             .command = true,
                             .dst = command->dst,
                             .src = command->src,
                             .size = command->size,
                             .order = (uint64_t)command->rank << 32 | command->number};
    al.commands.stamps[task - al.commands.executors] = command->stamp;
    if (al_rank_of(command->src) == al.job.rank && al_direct_execute(task))
        return;
    if (al_address_unpack(command->dst, &dst) && al_address_unpack(command->src, &src) &&
        src.rank == al.job.rank)
        al_task_step(task);
    else
        al_task_fail(task, "rank %u sent it to rank %u, which does not own the source",
                     command->rank, al.job.rank);
}

/* The issuer has a number for the command, and is not this process. */
static bool is_answerable(const struct al_command *command)
{
    return command->rank < al.job.procs && command->rank != al.job.rank &&
           command->number < AL_OUTSTANDING;
}

bool al_command_execute_ring(void)
{
    bool any = false;

    for (;;) {
        struct al_command *next = &al.control->ring[al.commands.head % AL_RING], command;
        struct al_task *executor;

        if (__atomic_load_n(&next->seq, __ATOMIC_ACQUIRE) != al.commands.head + 1)
            return any;
        executor = find_free_executor();
        if (executor == NULL)
            return any;
        command = *next;
        __atomic_store_n(&al.control->head, ++al.commands.head, __ATOMIC_RELEASE);
        any = true;
        if (is_answerable(&command)) {
            execute_command(executor, &command);
            al_net_poll(); /* completes what was started, so that it is reported first */
        } else {
            al_log("dropped command %u of rank %u: nobody would receive its answer", command.number,
                   command.rank);
        }
    }
}
