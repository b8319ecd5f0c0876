/* SPDX-License-Identifier: Apache-2.0 */
#include "model/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/cursor.h"
#include "model/fail.h"
#include "model/mpi.h"
#include "model/table.h"
#include "record/format.h"
#include "util/hash.h"

#include "utofu.h"

enum { MOST_RANKS = 1 << 24, MOST_THREADS = 1 << 20 };

/* A site of a thread, and the index of the site that followed it the last time. */
struct followed {
    uint32_t site; /* of the program's */
    size_t next;
};

/* What the records of one thread refer to. */
struct dictionary {
    uint32_t *vcqs, *gates; /* indices of the program's */
    uint8_t (*paths)[3];    /* of the VCQ ids */
    size_t num_vcqs, room_vcqs, num_gates, room_gates, room_paths;
    uint64_t stadd; /* of the last record with one */
    /* the last communication, TCQ entry and notice, which the next one may repeat; UM_NONE: none */
    struct um_comm comm;
    bool has_comm;
    uint32_t tcq, mrq, far;
    uint8_t notice;
    uint32_t thread;
    uint64_t carried; /* CPU time of records of MPI without an operation */
    struct followed *sites;
    size_t num_sites, room_sites, site; /* site: of the last record */
    bool at_site;                       /* SITE or AT was just read */
    bool used;
};

struct reading {
    struct um_program *program;
    struct um_table vcqs, gates, regions;
    struct um_cursor c;
    uint32_t rank;
    uint64_t version;           /* of this file */
    struct dictionary *threads; /* of this process */
    size_t num_threads;
    uint64_t records;
};

/*
 * Ids
 */

static void take_vcq(struct reading *r, struct dictionary *d)
{
    struct um_program *p = r->program;
    struct um_vcq v = {.process = UM_NONE, .thread = UM_NONE};
    uint8_t path[3];

    if (um_take_number(&r->c) != d->num_vcqs)
        um_cursor_fail(&r->c, "the VCQ ids of a thread are not numbered one after the other");
    um_take_word(&r->c, 8);
    um_take_bytes(&r->c, v.coords, 6);
    v.tni = (uint16_t)um_take_up_to(&r->c, 7, "TNI");
    v.cq = (uint16_t)um_take_up_to(&r->c, 4095, "CQ");
    v.cmp = (uint16_t)um_take_up_to(&r->c, 7, "component");
    um_take_bytes(&r->c, path, 3);
    uint64_t flags = um_take_up_to(&r->c, 1 << 16, "VCQ flags");
    for (int i = 0; i < 6; i++)
        v.key = v.key << 8 | v.coords[i];
    uint64_t rest = (uint64_t)v.tni << 32 | (uint64_t)v.cq << 8 | v.cmp;
    uint32_t *index = um_table_at(&r->vcqs, v.key, rest, (uint32_t)p->num_vcqs);
    if (*index == p->num_vcqs) {
        p->vcqs = um_grow(p->vcqs, p->num_vcqs, &p->room_vcqs, sizeof(*p->vcqs));
        p->vcqs[p->num_vcqs++] = v;
    }
    if (flags) {
        p->vcqs[*index].process = r->rank;
        p->vcqs[*index].session = (flags - 1) & UTOFU_VCQ_FLAG_SESSION_MODE;
    }
    d->vcqs = um_grow(d->vcqs, d->num_vcqs, &d->room_vcqs, sizeof(*d->vcqs));
    d->paths = um_grow(d->paths, d->num_vcqs, &d->room_paths, sizeof(*d->paths));
    /* the owner's own a, b, c are the default, also where --map puts it elsewhere */
    if (memcmp(path, v.coords + 3, 3) == 0)
        memset(path, UM_DEFAULT_PATH, 3);
    memcpy(d->paths[d->num_vcqs], path, 3);
    d->vcqs[d->num_vcqs++] = *index;
}

static void take_gate(struct reading *r, struct dictionary *d)
{
    struct um_program *p = r->program;
    struct um_gate g = {.process = UM_NONE, .src = {UM_NONE, UM_NONE}, .dst = {UM_NONE, UM_NONE}};

    if (um_take_number(&r->c) != d->num_gates)
        um_cursor_fail(&r->c, "the gates of a thread are not numbered one after the other");
    g.id = um_take_word(&r->c, 8);
    um_take_bytes(&r->c, g.coords, 6);
    g.tni = (uint16_t)um_take_up_to(&r->c, 7, "TNI");
    g.number = (uint16_t)um_take_up_to(&r->c, 47, "gate");
    uint32_t *index = um_table_at(&r->gates, g.id, 0, (uint32_t)p->num_gates);
    if (*index == p->num_gates) {
        p->gates = um_grow(p->gates, p->num_gates, &p->room_gates, sizeof(*p->gates));
        p->gates[p->num_gates++] = g;
    }
    d->gates = um_grow(d->gates, d->num_gates, &d->room_gates, sizeof(*d->gates));
    d->gates[d->num_gates++] = *index;
}

/* The place of a VCQ in the thread's table. */
static uint64_t take_vcq_number(struct reading *r, const struct dictionary *d)
{
    uint64_t n = um_take_number(&r->c);

    if (n >= d->num_vcqs)
        um_cursor_fail(&r->c, "VCQ %llu of %zu", (unsigned long long)n, d->num_vcqs);
    return n;
}

static uint32_t take_own_vcq(struct reading *r, const struct dictionary *d)
{
    uint32_t vcq = d->vcqs[take_vcq_number(r, d)];

    if (r->program->vcqs[vcq].process != r->rank)
        um_cursor_fail(&r->c, "a call on the VCQ of another process");
    return vcq;
}

/*
 * Sites
 */

static uint32_t add_site(struct um_program *p, const struct um_site *site)
{
    p->sites = um_grow(p->sites, p->num_sites, &p->room_sites, sizeof(*p->sites));
    p->sites[p->num_sites] = *site;
    return (uint32_t)p->num_sites++;
}

static void go_to_site(struct dictionary *d, size_t site)
{
    d->sites[d->site].next = site;
    d->site = site;
    d->at_site = true;
}

static void take_site(struct reading *r, struct dictionary *d)
{
    struct um_site site = {.process = r->rank};

    site.num = (uint32_t)um_take_up_to(&r->c, UM_FRAMES, "return addresses of a site:");
    for (uint32_t i = 0; i < site.num; i++)
        site.frames[i] = um_take_word(&r->c, 8);
    d->sites = um_grow(d->sites, d->num_sites, &d->room_sites, sizeof(*d->sites));
    d->sites[d->num_sites++] = (struct followed){add_site(r->program, &site), 0};
    go_to_site(d, d->num_sites - 1);
}

static void take_at(struct reading *r, struct dictionary *d)
{
    uint64_t site = um_take_number(&r->c);

    if (site >= d->num_sites)
        um_cursor_fail(&r->c, "site %llu of %zu", (unsigned long long)site, d->num_sites);
    go_to_site(d, (size_t)site);
}

/* The site of a timed record. */
static uint32_t next_site(struct dictionary *d)
{
    if (!d->at_site)
        d->site = d->sites[d->site].next;
    d->at_site = false;
    return d->sites[d->site].site;
}

static void take_started(struct reading *r, const struct dictionary *d)
{
    struct um_program *p = r->program;
    uint32_t vcq = take_own_vcq(r, d);

    p->started = um_grow(p->started, p->num_started, &p->room_started, sizeof(*p->started));
    p->started[p->num_started++] = (struct um_started){vcq, um_take_word(&r->c, 8)};
}

static uint32_t take_gate_index(struct reading *r, const struct dictionary *d)
{
    uint64_t n = um_take_number(&r->c);

    if (n >= d->num_gates)
        um_cursor_fail(&r->c, "gate %llu of %zu", (unsigned long long)n, d->num_gates);
    return d->gates[n];
}

static uint32_t take_gate_or_none(struct reading *r, const struct dictionary *d)
{
    uint64_t n = um_take_number(&r->c);

    if (n > d->num_gates)
        um_cursor_fail(&r->c, "gate %llu of %zu", (unsigned long long)n - 1, d->num_gates);
    return n ? d->gates[n - 1] : UM_NONE;
}

/*
 * Records
 */

static struct um_op *add_op(struct reading *r, const struct dictionary *d, enum um_op_kind kind,
                            uint64_t begin, uint64_t compute)
{
    struct um_thread *t = &r->program->threads[d->thread];

    t->ops = um_grow(t->ops, t->num_ops, &t->room, sizeof(*t->ops));
    struct um_op *op = &t->ops[t->num_ops++];
    *op = (struct um_op){.kind = (uint8_t)kind,
                         .vcq = UM_NONE,
                         .which = UM_NONE,
                         .far = UM_NONE,
                         .seen = UM_NONE,
                         .begin = begin,
                         .first = begin,
                         .compute = compute};
    return op;
}

static unsigned int operation_of(unsigned int code)
{
    return code & ~(unsigned int)(UT_RECORD_SAME_CALL | UT_RECORD_AGAIN);
}

/* The end of a record of a poll that has found something. */
static void take_first(struct reading *r, unsigned int code, struct um_op *op)
{
    uint64_t polled = code & UT_RECORD_POLLED ? um_take_number(&r->c) : 0;

    op->first = polled < op->begin ? op->begin - polled : 0;
}

/* What a record of a communication tells besides its remote STADD. */
static void take_description(struct reading *r, const struct dictionary *d, struct um_comm *comm)
{
    comm->vcq = take_own_vcq(r, d);
    uint64_t remote = take_vcq_number(r, d);
    comm->remote = comm->kind == UM_NOP ? UM_NONE : d->vcqs[remote];
    comm->length = (uint32_t)um_take_up_to(&r->c, 16777215, "length");
    comm->flags = (uint16_t)um_take_up_to(&r->c, UINT16_MAX, "flags");
    uint8_t word = um_take_byte(&r->c);
    comm->sps = word & 0xf;
    if (word >> 4)
        um_take_bytes(&r->c, comm->path, 3);
    else
        memcpy(comm->path, d->paths[remote], 3);
    comm->edata = (uint8_t)um_take_up_to(&r->c, 255, "edata");
    comm->mtu = (uint16_t)um_take_up_to(&r->c, 1920, "MTU");
    if (comm->mtu)
        comm->gap = (uint16_t)um_take_up_to(&r->c, 255, "gap");
}

static void take_comm(struct reading *r, struct dictionary *d, unsigned int code, uint64_t begin,
                      uint64_t compute)
{
    struct um_program *p = r->program;
    struct um_comm comm = {.kind = (uint8_t)(operation_of(code) - UT_RECORD_PUT + UM_PUT),
                           .next = {UM_NONE, UM_NONE, UM_NONE}};

    if (!(code & UT_RECORD_AGAIN))
        take_description(r, d, &comm);
    else if (d->has_comm && d->comm.kind == comm.kind)
        comm = d->comm;
    else
        um_cursor_fail(&r->c, "a communication that repeats none before it");
    d->stadd += (uint64_t)um_take_signed(&r->c);
    comm.stadd = d->stadd;
    comm.begin = begin;
    comm.process = r->rank;
    comm.thread = d->thread;
    comm.same_call = code & UT_RECORD_SAME_CALL;
    p->comms = um_grow(p->comms, p->num_comms, &p->room_comms, sizeof(*p->comms));
    struct um_op *op = add_op(r, d, UM_OP_COMM, begin, compute);
    op->which = (uint32_t)p->num_comms;
    op->vcq = comm.vcq;
    comm.op = (uint32_t)(p->threads[d->thread].num_ops - 1);
    p->comms[p->num_comms++] = comm;
    d->comm = comm;
    d->has_comm = true;
}

static void take_tcq(struct reading *r, struct dictionary *d, unsigned int code, uint64_t begin,
                     uint64_t compute)
{
    if (!(code & UT_RECORD_AGAIN)) {
        d->tcq = take_own_vcq(r, d);
        r->program->failed += um_take_number(&r->c) != 0;
    } else if (d->tcq == UM_NONE) {
        um_cursor_fail(&r->c, "a TCQ entry that repeats none before it");
    }
    struct um_op *op = add_op(r, d, UM_OP_TCQ, begin, compute);
    op->vcq = d->tcq;
    take_first(r, code, op);
}

static void take_mrq(struct reading *r, struct dictionary *d, unsigned int code, uint64_t begin,
                     uint64_t compute)
{
    if (!(code & UT_RECORD_AGAIN)) {
        d->mrq = take_own_vcq(r, d);
        r->program->failed += um_take_number(&r->c) != 0;
        d->notice = (uint8_t)um_take_up_to(&r->c, 5, "type of a notice");
        d->far = d->vcqs[take_vcq_number(r, d)];
    } else if (d->mrq == UM_NONE) {
        um_cursor_fail(&r->c, "a notice that repeats none before it");
    }
    struct um_op *op = add_op(r, d, UM_OP_MRQ, begin, compute);
    op->vcq = d->mrq;
    op->notice = d->notice;
    op->far = d->far;
    op->edata = (uint8_t)um_take_number(&r->c);
    take_first(r, code, op);
}

static void take_set(struct reading *r, struct dictionary *d)
{
    struct um_gate *g = &r->program->gates[take_gate_index(r, d)];

    g->process = r->rank;
    g->set = true;
    g->src[0] = take_gate_or_none(r, d);
    g->src[1] = take_gate_or_none(r, d);
    g->dst[0] = take_gate_or_none(r, d);
    g->dst[1] = take_gate_or_none(r, d);
    um_take_bytes(&r->c, g->path, 3);
}

static uint32_t take_region(struct reading *r)
{
    struct um_program *p = r->program;
    char name[64] = "";
    uint64_t length = um_take_up_to(&r->c, 63, "length of a region's name"), words[8] = {0}, h = 0;

    um_take_bytes(&r->c, name, (size_t)length);
    for (uint64_t i = 0; i < length; i++) {
        if ((unsigned char)name[i] < ' ' || name[i] == 0x7f || name[i] == '"' || name[i] == '\\')
            um_cursor_fail(&r->c, "a byte that the name of a region cannot have");
    }
    memcpy(words, name, sizeof(name));
    for (int i = 1; i < 8; i++)
        h = ut_hash_word(h, words[i]);
    uint32_t *index = um_table_at(&r->regions, words[0], h, (uint32_t)p->num_regions);
    if (*index == p->num_regions) {
        p->regions = um_grow(p->regions, p->num_regions, &p->room_regions, sizeof(*p->regions));
        memcpy(p->regions[p->num_regions++], name, sizeof(name));
    }
    return *index;
}

static void take_mpi(struct reading *r, struct dictionary *d, unsigned int code, uint64_t begin,
                     uint64_t compute)
{
    const struct um_mpi_record record = {r->rank, d->thread, begin, compute,
                                         (code & UT_RECORD_SAME_CALL) != 0};

    um_mpi_take(r->program, &r->c, &record, &d->carried);
}

static void take_timed(struct reading *r, struct dictionary *d, unsigned int code,
                       uint64_t *last_begin)
{
    unsigned int op = operation_of(code);
    uint64_t begin = *last_begin + um_take_number(&r->c), compute = um_take_number(&r->c);

    *last_begin = begin;
    if (op > UT_RECORD_MRQ && op != UT_RECORD_MPI && op != code)
        um_cursor_fail(&r->c, "there is no operation %u in a recording", code);
    switch (op) {
    case UT_RECORD_PUT:
    case UT_RECORD_GET:
    case UT_RECORD_ARMW:
    case UT_RECORD_NOP:
        take_comm(r, d, code, begin, compute);
        break;
    case UT_RECORD_TCQ:
        take_tcq(r, d, code, begin, compute);
        break;
    case UT_RECORD_MRQ:
        take_mrq(r, d, code, begin, compute);
        break;
    case UT_RECORD_FREE:
        add_op(r, d, UM_OP_FREE, begin, compute)->vcq = take_own_vcq(r, d);
        break;
    case UT_RECORD_SET:
        take_set(r, d);
        break;
    case UT_RECORD_START:
    case UT_RECORD_RESULT:
        add_op(r, d, op == UT_RECORD_START ? UM_OP_START : UM_OP_RESULT, begin, compute)->which =
            take_gate_index(r, d);
        um_take_number(&r->c);
        break;
    case UT_RECORD_ENTER:
    case UT_RECORD_LEAVE:
        add_op(r, d, op == UT_RECORD_ENTER ? UM_OP_ENTER : UM_OP_LEAVE, begin, compute)->which =
            take_region(r);
        break;
    case UT_RECORD_MPI:
        take_mpi(r, d, code, begin, compute);
        break;
    case UT_RECORD_SEEN: {
        struct um_op *seen = add_op(r, d, UM_OP_SEEN, begin, compute);
        seen->stadd = um_take_number(&r->c);
        seen->length = um_take_number(&r->c);
        break;
    }
    default:
        um_cursor_fail(&r->c, "there is no operation %u in a recording", op);
    }
}

static void take_call(struct reading *r, struct dictionary *d, unsigned int code,
                      uint64_t *last_begin)
{
    const struct um_thread *t = &r->program->threads[d->thread];
    uint32_t site = next_site(d);
    size_t before = t->num_ops;

    take_timed(r, d, code, last_begin);
    if (t->num_ops > before)
        t->ops[before].site = site;
}

/*
 * Blocks
 */

static struct dictionary *take_thread(struct reading *r)
{
    struct um_program *p = r->program;
    uint64_t number = um_take_up_to(&r->c, MOST_THREADS, "number of a thread");

    if (number >= r->num_threads) {
        r->threads = realloc(r->threads, (number + 1) * sizeof(*r->threads));
        if (!r->threads)
            um_fail(UM_EXIT_BAD, "no memory for %llu threads", (unsigned long long)number);
        memset(r->threads + r->num_threads, 0, (number + 1 - r->num_threads) * sizeof(*r->threads));
        r->num_threads = number + 1;
    }
    struct dictionary *d = &r->threads[number];
    if (!d->used) {
        d->used = true;
        d->tcq = d->mrq = UM_NONE;
        d->thread = (uint32_t)p->num_threads;
        d->sites = um_grow(NULL, 0, &d->room_sites, sizeof(*d->sites));
        d->sites[d->num_sites++] = (struct followed){0, 0};
        p->threads = um_grow(p->threads, p->num_threads, &p->room_threads, sizeof(*p->threads));
        p->threads[p->num_threads++] =
            (struct um_thread){.process = r->rank, .number = (uint32_t)number};
    }
    return d;
}

static void take_calls(struct reading *r)
{
    struct dictionary *d = take_thread(r);
    uint64_t last_begin = um_take_word(&r->c, 8);

    while (r->c.at < r->c.size) {
        unsigned int code = um_take_byte(&r->c);
        r->records++;
        if (code == UT_RECORD_VCQ)
            take_vcq(r, d);
        else if (code == UT_RECORD_GATE)
            take_gate(r, d);
        else if (code == UT_RECORD_STARTED)
            take_started(r, d);
        else if (code == UT_RECORD_SITE)
            take_site(r, d);
        else if (code == UT_RECORD_AT)
            take_at(r, d);
        else
            take_call(r, d, code, &last_begin);
    }
}

static void take_modules(struct reading *r)
{
    struct um_process *p = &r->program->processes[r->rank];

    for (size_t i = 0; i < p->num_modules; i++)
        free(p->modules[i].path);
    p->num_modules = 0;
    while (r->c.at < r->c.size) {
        struct um_module m = {.begin = um_take_word(&r->c, 8)};
        m.end = um_take_word(&r->c, 8);
        m.bias = um_take_word(&r->c, 8);
        m.build_id_size = (uint32_t)um_take_up_to(&r->c, sizeof(m.build_id), "build id of");
        um_take_bytes(&r->c, m.build_id, m.build_id_size);
        size_t length = (size_t)um_take_up_to(&r->c, PATH_MAX, "path of");
        m.path = um_calloc(length + 1, 1);
        um_take_bytes(&r->c, m.path, length);
        p->modules = um_grow(p->modules, p->num_modules, &p->room_modules, sizeof(*p->modules));
        p->modules[p->num_modules++] = m;
    }
}

static struct um_moment take_moment(struct reading *r)
{
    uint64_t ticks = um_take_word(&r->c, 8);

    return (struct um_moment){ticks, um_take_word(&r->c, 8)};
}

static void take_last(struct reading *r)
{
    struct um_process *process = &r->program->processes[r->rank];

    process->last = take_moment(r);
    if (process->last.ticks < process->first.ticks || process->last.ns < process->first.ns)
        um_cursor_fail(&r->c, "the clock of the recording runs backwards");
}

static void take_flags(struct reading *r)
{
    if (r->version >= 5)
        um_mpi_note(r->program, r->rank, um_take_number(&r->c));
}

static void take_end(struct reading *r)
{
    uint64_t records = um_take_number(&r->c);

    if (records != r->records)
        um_cursor_fail(&r->c, "%llu records, and not the %llu that were written",
                       (unsigned long long)r->records, (unsigned long long)records);
    take_last(r);
    take_flags(r);
}

static void take_head(struct reading *r)
{
    struct um_program *p = r->program;
    char job[sizeof(p->job)] = "";

    uint64_t version = um_take_number(&r->c);
    if (version < UT_RECORD_OLDEST || version > UT_RECORD_VERSION)
        um_cursor_fail(&r->c,
                       "version %llu of the layout; this utofu-model reads versions %d to %d",
                       (unsigned long long)version, UT_RECORD_OLDEST, UT_RECORD_VERSION);
    r->version = version;
    uint64_t rank = um_take_number(&r->c);
    uint64_t size = um_take_up_to(&r->c, MOST_RANKS, "processes of the job,");
    um_take_bytes(&r->c, job,
                  (size_t)um_take_up_to(&r->c, sizeof(job) - 1, "length of the job's name"));
    if (rank >= size)
        um_cursor_fail(&r->c, "rank %llu of %llu", (unsigned long long)rank,
                       (unsigned long long)size);
    if (!p->processes) {
        memcpy(p->job, job, sizeof(job));
        p->size = (uint32_t)size;
        p->processes = um_calloc(size, sizeof(*p->processes));
    } else if (p->size != size || strcmp(p->job, job) != 0) {
        um_cursor_fail(&r->c,
                       "this is a recording of job '%s' of %llu processes, and those before "
                       "are of job '%s' of %u",
                       job, (unsigned long long)size, p->job, p->size);
    }
    struct um_process *process = &p->processes[rank];
    if (process->present)
        um_cursor_fail(&r->c, "rank %llu is also in %s", (unsigned long long)rank, process->file);
    process->present = true;
    process->file = r->c.path;
    process->host = um_take_word(&r->c, 8);
    um_take_bytes(&r->c, process->coords, 6);
    if (process->coords[3] > 1 || process->coords[4] > 2 || process->coords[5] > 1)
        um_cursor_fail(&r->c, "a node with a, b, c = %u,%u,%u, which end at 1, 2, 1",
                       process->coords[3], process->coords[4], process->coords[5]);
    process->to_realtime = um_take_signed(&r->c);
    process->by_counter = um_take_up_to(&r->c, 1, "kind of ticks");
    process->first = take_moment(r);
    process->last = process->first;
    r->rank = (uint32_t)rank;
    take_flags(r);
}

/* Is there no whole block any more? The last one of a killed process may lack bytes. */
static bool is_cut(const struct reading *r, size_t file_size)
{
    const uint8_t *head = r->c.bytes + r->c.at;

    if (file_size - r->c.at < UT_RECORD_BLOCK_HEAD)
        return true;
    size_t size = head[1] | (size_t)head[2] << 8 | (size_t)head[3] << 16 | (size_t)head[4] << 24;
    return file_size - r->c.at - UT_RECORD_BLOCK_HEAD < size;
}

/* One block; false: it was the last one. */
static bool take_block(struct reading *r, size_t file_size, bool first)
{
    size_t begin = r->c.at;

    if (!first && r->program->partial && is_cut(r, file_size)) {
        r->program->num_cut++;
        r->c.at = file_size;
        return false;
    }
    if (begin == file_size)
        um_cursor_fail(&r->c,
                       "the recording ends here, without its end: it was cut, or the process "
                       "was killed");
    r->c.size = file_size;
    uint8_t type = um_take_byte(&r->c);
    uint64_t size = um_take_word(&r->c, 4), sum = um_take_word(&r->c, 4);
    if (file_size - r->c.at < size)
        um_cursor_fail(&r->c, "a block of %llu bytes, of which the file has %zu: it was cut",
                       (unsigned long long)size, file_size - r->c.at);
    if (ut_record_checksum(r->c.bytes + r->c.at, size) != sum)
        um_cursor_fail(&r->c, "the content of this block is damaged: its checksum is wrong");
    r->c.size = r->c.at + size;
    if (first != (type == UT_RECORD_HEAD))
        um_cursor_fail(&r->c, "the first block, and only this one, is the head");
    if (type == UT_RECORD_HEAD) {
        take_head(r);
    } else if (type == UT_RECORD_MODULES) {
        take_modules(r);
    } else if (type == UT_RECORD_MOMENT) {
        take_last(r);
    } else if (type == UT_RECORD_CALLS) {
        take_calls(r);
    } else if (type == UT_RECORD_END) {
        take_end(r);
    } else {
        um_cursor_fail(&r->c, "there is no block of type %u", type);
    }
    if (r->c.at != r->c.size)
        um_cursor_fail(&r->c, "the block is longer than its content");
    return type != UT_RECORD_END;
}

static void read_bytes(struct reading *r, size_t size)
{
    r->c.size = size;
    r->c.at = 0;
    r->records = 0;
    if (size < UT_RECORD_MAGIC_SIZE ||
        memcmp(r->c.bytes, UT_RECORD_MAGIC, UT_RECORD_MAGIC_SIZE) != 0)
        um_cursor_fail(&r->c, "this is no recording: make one with UTOFU_TRACE=FILE,record=1");
    r->c.at = UT_RECORD_MAGIC_SIZE;
    for (bool first = true; take_block(r, size, first); first = false)
        ;
    if (r->c.at != size)
        um_cursor_fail(&r->c, "something follows the end of the recording");
    for (size_t i = 0; i < r->num_threads; i++) {
        free(r->threads[i].vcqs);
        free(r->threads[i].gates);
        free(r->threads[i].paths);
        free(r->threads[i].sites);
    }
    free(r->threads);
    r->threads = NULL;
    r->num_threads = 0;
}

static void read_file(struct reading *r, const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &st) != 0)
        um_fail(UM_EXIT_BAD, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        um_fail(UM_EXIT_BAD, "%s: is no regular file", path);
    r->c = (struct um_cursor){.path = path};
    if (st.st_size == 0)
        um_cursor_fail(&r->c, "the file is empty");
    void *bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        um_fail(UM_EXIT_BAD, "%s: %s", path, strerror(errno));
    close(fd);
    r->c.bytes = bytes;
    read_bytes(r, (size_t)st.st_size);
    munmap(bytes, (size_t)st.st_size);
}

/*
 * Time
 */

/* The ticks of a counter are the same in all processes of a host, which so have one conversion:
 * that of the first of them. */
static const struct um_process *clock_of(const struct um_program *p, uint32_t rank)
{
    for (uint32_t i = 0; i < rank; i++) {
        if (p->processes[i].by_counter && p->processes[i].host == p->processes[rank].host)
            return &p->processes[i];
    }
    return &p->processes[rank];
}

static double ns_a_tick(const struct um_process *clock)
{
    uint64_t ticks = clock->last.ticks - clock->first.ticks;

    return ticks ? (double)(clock->last.ns - clock->first.ns) / (double)ticks : 1;
}

static uint64_t ns_of(const struct um_process *clock, uint64_t ticks)
{
    double since = (double)(int64_t)(ticks - clock->first.ticks) * ns_a_tick(clock);

    return clock->first.ns + (uint64_t)(int64_t)since;
}

/* From ticks to ns. */
static void convert_times(struct um_program *p)
{
    const struct um_process **clocks = um_calloc(p->size, sizeof(struct um_process *));

    for (uint32_t rank = 0; rank < p->size; rank++)
        if (p->processes[rank].by_counter)
            clocks[rank] = clock_of(p, rank);
    for (size_t t = 0; t < p->num_threads; t++) {
        const struct um_process *clock = clocks[p->threads[t].process];
        for (size_t i = 0; clock && i < p->threads[t].num_ops; i++) {
            struct um_op *op = &p->threads[t].ops[i];
            op->begin = ns_of(clock, op->begin);
            op->first = ns_of(clock, op->first);
            op->compute = (uint64_t)((double)op->compute * ns_a_tick(clock));
        }
    }
    for (size_t i = 0; i < p->num_comms; i++) {
        const struct um_process *clock = clocks[p->comms[i].process];
        if (clock)
            p->comms[i].begin = ns_of(clock, p->comms[i].begin);
    }
    for (size_t i = 0; i < p->num_started; i++) {
        const struct um_process *clock = clocks[p->vcqs[p->started[i].vcq].process];
        if (clock)
            p->started[i].at = ns_of(clock, p->started[i].at);
    }
    free(clocks);
}

void um_recordings_read(struct um_program *program, char *const paths[], int num_paths)
{
    struct reading r = {.program = program};

    add_site(program, &(struct um_site){.process = UM_NONE});
    for (int i = 0; i < num_paths; i++)
        read_file(&r, paths[i]);
    for (uint32_t rank = 0; rank < program->size; rank++) {
        if (!program->processes[rank].present)
            um_fail(UM_EXIT_BAD,
                    "the recording of rank %u is missing: %u processes were recorded, and all are "
                    "needed",
                    rank, program->size);
    }
    convert_times(program);
    for (size_t v = 0; v < program->num_vcqs; v++) {
        const struct um_vcq *vcq = &program->vcqs[v];
        if (vcq->process == UM_NONE)
            um_fail(
                UM_EXIT_BAD,
                "a recording has communications with the VCQ at %u,%u,%u,%u,%u,%u, TNI %u, CQ %u, "
                "which no recorded process has made: the recordings do not belong together",
                vcq->coords[0], vcq->coords[1], vcq->coords[2], vcq->coords[3], vcq->coords[4],
                vcq->coords[5], vcq->tni, vcq->cq);
    }
    um_table_free(&r.vcqs);
    um_table_free(&r.gates);
    um_table_free(&r.regions);
}
