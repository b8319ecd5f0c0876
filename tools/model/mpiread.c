/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "model/fail.h"
#include "model/mpi.h"
#include "record/format.h"
#include "record/mpi.h"
#include "util/hash.h"

enum { MOST_NUMBERS = 64, MOST_RANKS = 1 << 24, DONE_NUMBERS = 4 };

static struct um_mpi *mpi_of(struct um_program *p)
{
    if (p->mpi)
        return p->mpi;
    p->mpi = um_calloc(1, sizeof(*p->mpi));
    p->mpi->world_rank = um_calloc(p->size, sizeof(uint32_t));
    p->mpi->world_size = um_calloc(p->size, sizeof(uint32_t));
    memset(p->mpi->world_rank, 0xff, p->size * sizeof(uint32_t));
    return p->mpi;
}

void um_mpi_note(struct um_program *p, uint32_t process, uint64_t flags)
{
    if (flags & UT_RECORD_HAS_MPI)
        p->processes[process].has_mpi = true;
}

bool um_mpi_is_missing(const struct um_program *p)
{
    for (uint32_t i = 0; i < p->size; i++)
        if (p->processes[i].has_mpi && (!p->mpi || p->mpi->world_rank[i] == UM_NONE))
            return true;
    return false;
}

const char *um_mpi_name(const struct um_mpi_call *call)
{
    static const char *const colls[UT_RECORD_MPI_COLLS] = {
        "MPI_Barrier", "MPI_Bcast",          "MPI_Reduce",   "MPI_Allreduce",      "MPI_Gather",
        "MPI_Scatter", "MPI_Allgather",      "MPI_Alltoall", "MPI_Reduce_scatter", "MPI_Scan",
        "MPI_Exscan",  "a new communicator", "MPI_Gatherv"};
    static const char *const kinds[UT_RECORD_MPI_KINDS] = {[UT_RECORD_MPI_SEND] = "MPI_Send",
                                                           [UT_RECORD_MPI_RECV] = "MPI_Recv",
                                                           [UT_RECORD_MPI_WAIT] = "MPI_Wait",
                                                           [UT_RECORD_MPI_PROBE] = "MPI_Probe",
                                                           [UT_RECORD_MPI_OPAQUE] =
                                                               "one-sided MPI"};

    return call->kind == UT_RECORD_MPI_COLL ? colls[call->coll] : kinds[call->kind];
}

uint64_t um_mpi_likeness(const struct um_program *p, const struct um_op *op)
{
    const struct um_mpi_call *c = &p->mpi->calls[op->which];
    uint64_t h = ut_hash_word(UT_HASH_FIRST, (uint64_t)c->kind << 40 | (uint64_t)c->coll << 32);

    if (c->kind == UT_RECORD_MPI_WAIT || c->kind == UT_RECORD_MPI_OPAQUE)
        return ut_hash_word(h, c->num);
    h = ut_hash_word(h, (uint64_t)c->comm << 32 | (uint32_t)c->peer);
    return ut_hash_word(h, (uint64_t)(uint32_t)c->tag << 32 | (uint32_t)c->bytes);
}

bool um_mpi_is_collective(const struct um_program *p, const struct um_op *op)
{
    return p->mpi->calls[op->which].kind == UT_RECORD_MPI_COLL;
}

/* One that a process has defined before; UM_NONE: a new one, which is added. */
static struct um_mpi_defined *define_comm(struct um_mpi *m, uint32_t process, uint64_t index,
                                          uint64_t size)
{
    uint64_t num = 0;

    for (size_t i = m->num_defined; i-- > 0 && m->defined[i].process == process;)
        num++;
    struct um_mpi_defined *first = m->defined + (m->num_defined - num);
    if (index < num)
        return &first[index];
    if (index > num)
        return NULL;
    m->defined = um_grow(m->defined, m->num_defined, &m->room_defined, sizeof(*m->defined));
    struct um_mpi_defined *d = &m->defined[m->num_defined++];
    *d = (struct um_mpi_defined){.process = process, .size = (uint32_t)size};
    d->ranks = um_calloc(size, sizeof(*d->ranks));
    return d;
}

static void take_comm(struct um_program *p, struct um_cursor *c, uint32_t process,
                      const int64_t *numbers, uint64_t n)
{
    struct um_mpi *m = mpi_of(p);

    if (n < 2 || (n - 2) % 3 || numbers[0] < 0 || numbers[1] < 0 || numbers[1] > MOST_RANKS)
        um_cursor_fail(c, "a communicator of MPI that is none");
    struct um_mpi_defined *d = define_comm(m, process, (uint64_t)numbers[0], (uint64_t)numbers[1]);
    if (!d)
        um_cursor_fail(c, "the communicators of a process are not numbered one after the other");
    for (uint64_t i = 2; i + 3 <= n; i += 3) {
        const int64_t *run = numbers + i;
        for (int64_t k = 0; k < run[2]; k++) {
            int64_t rank = run[0] + k * run[1];
            if (d->num == d->size || rank < 0 || rank >= MOST_RANKS)
                um_cursor_fail(c, "a communicator of MPI with rank %lld", (long long)rank);
            d->ranks[d->num++] = (uint32_t)rank;
        }
    }
}

static uint32_t add_call(struct um_program *p, const struct um_mpi_record *r, uint8_t kind)
{
    struct um_mpi *m = mpi_of(p);
    struct um_thread *t = &p->threads[r->thread];

    t->ops = um_grow(t->ops, t->num_ops, &t->room, sizeof(*t->ops));
    m->calls = um_grow(m->calls, m->num_calls, &m->room_calls, sizeof(*m->calls));
    m->calls[m->num_calls] = (struct um_mpi_call){.kind = kind,
                                                  .same_call = r->same_call,
                                                  .thread = r->thread,
                                                  .op = (uint32_t)t->num_ops,
                                                  .peer = -1,
                                                  .tag = -1,
                                                  .request = -1,
                                                  .item = UM_NONE};
    t->ops[t->num_ops++] = (struct um_op){.kind = UM_OP_MPI,
                                          .vcq = UM_NONE,
                                          .which = (uint32_t)m->num_calls,
                                          .far = UM_NONE,
                                          .seen = UM_NONE,
                                          .begin = r->begin,
                                          .first = r->begin,
                                          .compute = r->compute};
    return (uint32_t)m->num_calls++;
}

static void take_dones(struct um_mpi *m, struct um_mpi_call *call, const int64_t *numbers,
                       uint64_t n)
{
    call->first = (uint32_t)m->num_dones;
    call->num = (uint32_t)(n / DONE_NUMBERS);
    for (uint64_t i = 0; i + DONE_NUMBERS <= n; i += DONE_NUMBERS) {
        m->dones = um_grow(m->dones, m->num_dones, &m->room_dones, sizeof(*m->dones));
        m->dones[m->num_dones++] = (struct um_mpi_done){.request = numbers[i],
                                                        .source = (int32_t)numbers[i + 1],
                                                        .tag = (int32_t)numbers[i + 2],
                                                        .cancelled = numbers[i + 3] != 0,
                                                        .posted = UM_NONE};
    }
}

static void take_call(struct um_program *p, struct um_cursor *c, const struct um_mpi_record *r,
                      unsigned int kind, const int64_t *numbers, uint64_t n)
{
    static const uint8_t least[UT_RECORD_MPI_KINDS] = {
        [UT_RECORD_MPI_SEND] = 6,  [UT_RECORD_MPI_RECV] = 4, [UT_RECORD_MPI_WAIT] = DONE_NUMBERS,
        [UT_RECORD_MPI_PROBE] = 3, [UT_RECORD_MPI_COLL] = 6, [UT_RECORD_MPI_OPAQUE] = 1};

    if (kind >= UT_RECORD_MPI_KINDS || n < least[kind])
        um_cursor_fail(c, "there is no call of MPI %u with %llu numbers", kind,
                       (unsigned long long)n);
    struct um_mpi *m = mpi_of(p);
    struct um_mpi_call *call = &m->calls[add_call(p, r, (uint8_t)kind)];
    call = &p->mpi->calls[p->mpi->num_calls - 1];
    if (kind == UT_RECORD_MPI_WAIT) {
        take_dones(m, call, numbers, n);
        return;
    }
    if (kind == UT_RECORD_MPI_OPAQUE) {
        m->opaque++;
        return;
    }
    bool coll = kind == UT_RECORD_MPI_COLL;
    if (coll && (numbers[0] < 0 || numbers[0] >= UT_RECORD_MPI_COLLS))
        um_cursor_fail(c, "there is no collective %lld", (long long)numbers[0]);
    if (coll)
        call->coll = (uint8_t)*numbers++;
    call->comm = (uint32_t)numbers[0];
    call->peer = (int32_t)numbers[1];
    call->tag = coll ? -1 : (int32_t)numbers[2];
    if (coll || kind == UT_RECORD_MPI_SEND) {
        call->bytes = (double)numbers[coll ? 2 : 3];
        call->elements = coll ? (double)numbers[3] : 0;
        call->request = numbers[4];
        call->synchronous = !coll && numbers[5] == 1;
    } else if (kind == UT_RECORD_MPI_RECV) {
        call->request = numbers[3];
    }
}

void um_mpi_take(struct um_program *p, struct um_cursor *c, const struct um_mpi_record *r,
                 uint64_t *carried)
{
    int64_t numbers[MOST_NUMBERS] = {0};
    unsigned int kind = um_take_byte(c);
    uint64_t polled = um_take_number(c);
    uint64_t n = um_take_up_to(c, MOST_NUMBERS, "numbers of a call of MPI");
    struct um_mpi_record record = *r;

    for (uint64_t i = 0; i < n; i++)
        numbers[i] = um_take_signed(c);
    if (kind == UT_RECORD_MPI_BEGIN || kind == UT_RECORD_MPI_COMM) {
        *carried += r->compute;
        if (kind == UT_RECORD_MPI_COMM) {
            take_comm(p, c, r->process, numbers, n);
        } else if (n == 2 && numbers[0] >= 0 && numbers[0] < numbers[1]) {
            mpi_of(p)->world_rank[r->process] = (uint32_t)numbers[0];
            mpi_of(p)->world_size[r->process] = (uint32_t)numbers[1];
        } else {
            um_cursor_fail(c, "MPI begins with a rank that there is not");
        }
        return;
    }
    record.compute += *carried;
    *carried = 0;
    take_call(p, c, &record, kind, numbers, n);
    struct um_thread *t = &p->threads[r->thread];
    struct um_op *op = &t->ops[t->num_ops - 1];
    op->first = polled < op->begin ? op->begin - polled : 0;
}
