/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between two other processes: the owner of the source executes them. Every process has one
 * ring of commands for all others together. Who wants to send one draws a ticket with an atomic add
 * on the ring's tail, waits until the ring's head is less than the length of the ring behind the
 * ticket, which it usually knows already, and puts the command into the ticket's place. What it
 * sent ends with the remote notice of the owner's answer. Commands that are away have numbers, the
 * lowest that are free, so that answers come to few places: uTofu sends a notice with the data only
 * where one was sent before.
 */
#include "layer.h"

#include <string.h>

enum stage { NO_TICKET, HAS_TICKET, SENT, ANSWERED_WELL, ANSWERED_BADLY };
static struct al_task servants[AL_SERVANTS];
static uint64_t head;
static struct al_task *away[AL_AWAY]; /* by number */
static uint8_t free_numbers[AL_AWAY];
static uint32_t num_free;

void al_command_setup(void)
{
    memset(servants, 0, sizeof(servants));
    memset(away, 0, sizeof(away));
    head = 0;
    for (num_free = 0; num_free < AL_AWAY; num_free++)
        free_numbers[num_free] = (uint8_t)(AL_AWAY - 1 - num_free);
}

void al_command_use(struct al_use *use)
{
    use->fixed += sizeof(servants) + sizeof(away) + sizeof(free_numbers);
}

/*
 * The process that issued the copy.
 */

static uint32_t owner_of(const struct al_task *task)
{
    return al_rank_of(task->src);
}

/* Its number is in `order`, which it does not need any more. */
static void take_number(struct al_task *task)
{
    task->order = free_numbers[--num_free];
    away[task->order] = task;
}

static void give_number(struct al_task *task)
{
    away[task->order] = NULL;
    free_numbers[num_free++] = (uint8_t)task->order;
}

static void got_ticket(struct al_op *op, int rc, uint64_t old_value)
{
    op->task->in_flight--;
    if (rc != UTOFU_SUCCESS) {
        give_number(op->task);
        al_task_fail(op->task, "no ticket of rank %u: %s", op->rank, al_utofu_error());
        return;
    }
    op->task->value = old_value;
    op->task->stage = HAS_TICKET;
    al_task_step(op->task);
}

static void got_head(struct al_op *op, int rc, uint64_t old_value)
{
    struct al_peer *peer;
    uint64_t seen = *(const uint64_t *)al_op_bounce(op);

    (void)old_value;
    op->task->in_flight--;
    if (al_peer_find(op->rank, op->task, &peer) != AL_FOUND)
        return; /* never: it was asked */
    peer->asked = false;
    if (rc == UTOFU_SUCCESS && seen > peer->head_seen)
        peer->head_seen = seen;
    al_task_later(op->task);
}

static void end_answered(struct al_task *task)
{
    bool well = task->stage == ANSWERED_WELL;

    give_number(task);
    if (well)
        al_task_end(task);
    else
        al_task_fail(task, "rank %u could not do it, and says why", owner_of(task));
}

static void sent(struct al_op *op, int rc, uint64_t old_value)
{
    struct al_task *task = op->task;

    (void)old_value;
    task->in_flight--;
    if (rc != UTOFU_SUCCESS)
        al_fatal("a command cannot be sent to rank %u: %s", op->rank, al_utofu_error());
    if (task->stage != SENT)
        end_answered(task);
}

static bool draw_ticket(struct al_task *task, struct al_peer *peer, struct al_op *op)
{
    take_number(task);
    if (al_op_add(op, peer->id, 1, al_peer_control(peer, offsetof(struct al_control, tail))))
        return true;
    give_number(task);
    return false;
}

static bool read_head(struct al_peer *peer, struct al_op *op)
{
    peer->asked = true;
    if (al_op_get(op, peer->id, al_op_bounce_stadd(op),
                  al_peer_control(peer, offsetof(struct al_control, head)), 8))
        return true;
    peer->asked = false;
    return false;
}

static bool put_command(struct al_task *task, struct al_peer *peer, struct al_op *op)
{
    size_t place = offsetof(struct al_control, ring) + task->value % AL_RING * AL_BOUNCE;
    const struct al_command command = {.dst = task->dst,
                                       .src = task->src,
                                       .size = task->size,
                                       .rank = al.rank,
                                       .number = (uint32_t)task->order,
                                       .seq = task->value + 1};

    memcpy(al_op_bounce(op), &command, sizeof(command));
    task->stage = SENT; /* the answer may be here before its notice */
    if (al_op_put(op, peer->id, al_op_bounce_stadd(op), al_peer_control(peer, place),
                  sizeof(command),
                  UTOFU_ONESIDED_FLAG_STRONG_ORDER | UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE))
        return true;
    task->stage = HAS_TICKET;
    return false;
}

/* What comes next for it: a ticket, room in the ring, or the command. */
static bool start_next(struct al_task *task, struct al_peer *peer)
{
    bool full = task->value >= peer->head_seen + AL_RING;
    struct al_op *op;

    if (task->stage == NO_TICKET ? num_free == 0 : full && peer->asked)
        return false;
    op = al_op_take(0, task, owner_of(task),
                    task->stage == NO_TICKET ? got_ticket
                    : full                   ? got_head
                                             : sent);
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
    al_task_later(task);
}

void al_command_answered(uint32_t number, bool well)
{
    struct al_task *task = away[number];

    if (task == NULL || task->stage != SENT) {
        al_log("the answer to a command that was not sent: another program's?");
        return;
    }
    task->stage = well ? ANSWERED_WELL : ANSWERED_BADLY;
    if (task->in_flight == 0)
        end_answered(task);
}

/*
 * The process that executes it.
 */

static void reported(struct al_op *op, int rc, uint64_t old_value)
{
    (void)old_value;
    if (rc != UTOFU_SUCCESS && !al.leaving)
        al_fatal("rank %u cannot be notified that its copy is done: %s", op->rank,
                 al_utofu_error());
    op->task->in_flight--;
    op->task->state = AL_FREE;
}

void al_command_report(struct al_task *task)
{
    uint32_t rank = (uint32_t)(task->order >> 32), number = (uint32_t)task->order;
    size_t place = task->failed ? offsetof(struct al_control, done_badly)
                                : offsetof(struct al_control, done_well);
    struct al_peer *peer;
    struct al_op *op;

    task->state = AL_REPORTS;
    if (al_peer_find(rank, task, &peer) != AL_FOUND)
        return;
    op = al_op_take(0, task, rank, reported);
    if (op == NULL) {
        al_task_later(task);
        return;
    }
    task->in_flight++;
    if (!al_op_put(op, peer->id, al_op_bounce_stadd(op), al_peer_control(peer, place + number), 1,
                   UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE)) {
        task->in_flight--;
        al_task_later(task);
    }
}

static struct al_task *free_servant(void)
{
    for (int i = 0; i < AL_SERVANTS; i++)
        if (servants[i].state == AL_FREE)
            return &servants[i];
    return NULL;
}

static void execute(struct al_task *task, const struct al_command *command)
{
    struct al_place dst, src;

    *task = (struct al_task){.kind = AL_COPY,
                             .state = AL_RUNS,
                             .command = true,
                             .dst = command->dst,
                             .src = command->src,
                             .size = command->size,
                             .order = (uint64_t)command->rank << 32 | (command->number % AL_AWAY)};
    if (al_address_split(command->dst, &dst) && al_address_split(command->src, &src) &&
        src.rank == al.rank)
        al_task_step(task);
    else
        al_task_fail(task, "rank %u sent it to rank %u, which does not own the source",
                     command->rank, al.rank);
}

bool al_command_serve(void)
{
    bool any = false;

    for (;;) {
        struct al_command *next = &al_control->ring[head % AL_RING], command;
        struct al_task *servant;

        if (__atomic_load_n(&next->seq, __ATOMIC_ACQUIRE) != head + 1)
            return any;
        servant = free_servant();
        if (servant == NULL)
            return any;
        command = *next;
        __atomic_store_n(&al_control->head, ++head, __ATOMIC_RELEASE);
        any = true;
        if (command.rank < al.procs) {
            execute(servant, &command);
            al_net_poll(); /* so that its report is sent before anything else is done */
        } else {
            al_log("a command of rank %u, which does not exist, is left out", command.rank);
        }
    }
}
