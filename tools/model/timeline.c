/* SPDX-License-Identifier: Apache-2.0 */
/* A timeline in the machine's time: Chrome trace events, as those of UTOFU_TRACE. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "model/fail.h"
#include "model/mpi.h"
#include "model/report.h"

static FILE *file;
static const char *separator;

static void write_slice(uint32_t rank, uint32_t track, double at, double length, const char *name,
                        const char *category)
{
    fprintf(file,
            "%s{\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"ts\":%.4f,\"dur\":%.4f,\"name\":\"%s\","
            "\"cat\":\"%s\"}",
            separator, rank, track, at * 1e-3, length * 1e-3, name, category);
    separator = ",\n";
}

static void write_arrow(char phase, uint32_t rank, uint32_t track, double at, uint32_t id)
{
    fprintf(file,
            "%s{\"ph\":\"%c\",\"pid\":%u,\"tid\":%u,\"ts\":%.4f,\"id\":%u,\"name\":\"message\","
            "\"cat\":\"between\"%s}",
            separator, phase, rank, track, at * 1e-3, id, phase == 'f' ? ",\"bp\":\"e\"" : "");
    separator = ",\n";
}

static void name_of_op(const struct um_sim *s, const struct um_op *op, char *name, size_t size)
{
    static const char *const ops[] = {"",         "poll TCQ",   "poll MRQ",
                                      "free VCQ", "start",      "poll barrier",
                                      "region",   "region end", "seen"};
    static const char *const kinds[] = {"put", "get", "armw", "nop"};

    if (op->kind == UM_OP_MPI) {
        snprintf(name, size, "%s", um_mpi_name(&s->program->mpi->calls[op->which]));
        return;
    }
    if (op->kind != UM_OP_COMM) {
        snprintf(name, size, "%s", ops[op->kind]);
        return;
    }
    const struct um_comm *c = &s->program->comms[op->which];
    if (c->kind == UM_NOP)
        snprintf(name, size, "nop");
    else
        snprintf(name, size, "%s %.0f B %s rank %u", kinds[c->kind], um_comm_bytes(s, c),
                 c->kind == UM_GET ? "from" : "to", s->program->vcqs[c->remote].process);
}

static void write_op(const struct um_sim *s, uint32_t thread, size_t i)
{
    const struct um_thread *t = &s->program->threads[thread];
    const struct um_op_state *state = &s->threads[thread].ops[i];
    char name[96];

    if (state->wait > 0)
        write_slice(t->process, t->number, state->begin - state->wait, state->wait, "wait", "wait");
    name_of_op(s, &t->ops[i], name, sizeof(name));
    if (state->end > state->begin)
        write_slice(t->process, t->number, state->begin, state->end - state->begin, name, "call");
    if (t->ops[i].kind == UM_OP_COMM)
        write_arrow('s', t->process, t->number, state->begin, t->ops[i].which);
    if (state->cause != UM_NONE && !state->by_start && !state->by_mpi && state->wait > 0)
        write_arrow('f', t->process, t->number, state->begin, state->cause);
}

static void write_regions(const struct um_sim *s, uint32_t thread)
{
    const struct um_thread *t = &s->program->threads[thread];

    for (size_t i = 0; i < t->num_ops; i++) {
        unsigned int kind = t->ops[i].kind;
        if (kind != UM_OP_ENTER && kind != UM_OP_LEAVE)
            continue;
        fprintf(file,
                "%s{\"ph\":\"%c\",\"pid\":%u,\"tid\":%u,\"ts\":%.4f,\"name\":\"%s\",\"cat\":"
                "\"region\",\"id\":\"%u.%u\"}",
                separator, kind == UM_OP_ENTER ? 'b' : 'e', t->process, t->number,
                s->threads[thread].ops[i].end * 1e-3, s->program->regions[t->ops[i].which], thread,
                t->ops[i].which);
        separator = ",\n";
    }
}

void um_report_timeline(const struct um_sim *s, const char *path)
{
    file = fopen(path, "we");
    if (!file)
        um_fail(UM_EXIT_BAD, "%s: %s", path, strerror(errno));
    fputs("[\n", file);
    separator = "";
    for (uint32_t rank = 0; rank < s->program->size; rank++) {
        const uint8_t *at = s->place->coords[rank];
        fprintf(file,
                "%s{\"ph\":\"M\",\"pid\":%u,\"name\":\"process_name\",\"args\":{\"name\":\"rank %u "
                "at %u,%u,%u,%u,%u,%u\"}}",
                separator, rank, rank, at[0], at[1], at[2], at[3], at[4], at[5]);
        separator = ",\n";
    }
    for (uint32_t t = 0; t < s->program->num_threads; t++) {
        for (size_t i = 0; i < s->program->threads[t].num_ops; i++)
            write_op(s, t, i);
        write_regions(s, t);
    }
    fputs("\n]\n", file);
    int error = ferror(file);
    if (fclose(file) != 0 || error)
        um_fail(UM_EXIT_BAD, "%s: cannot be written", path);
}
