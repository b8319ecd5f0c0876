/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer target: the other end of utofu-perf --listen sends arbitrary options. Those that are
 * accepted must fit into the arrays of utofu-perf.
 */
#include <stdlib.h>

#include "../../tools/perf/meet.c"

#include "fuzz.h"
#include "fuzz_party.h"

static struct fuzz_input in;

struct party party = {.rank = 1, .size = 2};
struct perf_options perf_options;
static const struct perf_op ops[] = {{.name = "put-lat"}, {.name = "put-bw"}, {.name = "get-lat"}};
const struct perf_op *perf_ops = ops;
unsigned int perf_num_ops = 3;

void party_find(const char *program, uint32_t min_size, unsigned int timeout_s)
{
    (void)program, (void)min_size, (void)timeout_s;
}

void party_reverse(bool wait_for_ever)
{
    (void)wait_for_ever;
}

/* The default options of the other end, with some bytes changed. */
void party_gather(const void *mine, size_t size, void *all, bool root_only)
{
    struct meeting *both = all;
    uint16_t at;

    (void)root_only;
    memcpy(&both[0], mine, size);
    memcpy(&both[1], mine, size);
    while (in.left > 0) {
        uint8_t n = fuzz_byte(&in) % 9, bytes[8];
        fuzz_bytes(&in, &at, sizeof(at));
        fuzz_bytes(&in, bytes, n);
        if (at % size + n <= size)
            memcpy((uint8_t *)&both[0] + at % size, bytes, n);
    }
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    return 0;
}

static void within(uint64_t value, uint64_t least, uint64_t most)
{
    if (value < least || value > most)
        abort();
}

static void check(const struct perf_options *o)
{
    within(o->num_ops, 1, PERF_MAX_OPS);
    for (uint64_t i = 0; i < o->num_ops; i++)
        within(o->ops[i], 0, perf_num_ops - 1);
    within(o->num_sizes, 0, PERF_MAX_SIZES);
    for (uint64_t i = 0; i < o->num_sizes; i++)
        within(o->sizes[i], 0, PERF_MAX_MESSAGE);
    within(o->num_tnis, 1, PERF_MAX_TNIS);
    for (uint64_t i = 0; i < o->num_tnis; i++)
        within(o->tnis[i], 0, PERF_MAX_TNIS - 1);
    within(o->threads, 1, PERF_MAX_THREADS);
    within(o->window, 1, PERF_MAX_WINDOW);
    within(o->buffers, 0, o->window);
    within(o->iterations, 0, PERF_MAX_ITERATIONS);
    within(o->warmup, 0, PERF_MAX_ITERATIONS);
    within(o->duration_ms, 0, PERF_MAX_DURATION_MS);
    within(o->blocks, 1, PERF_MAX_BLOCKS);
    within(o->stride, 0, PERF_MAX_PUT);
    within(o->target, 0, PERF_COMPUTES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    in = (struct fuzz_input){data, size};
    perf_options = (struct perf_options){
        .listen = "20710", .num_ops = 1, .num_tnis = 1, .threads = 1, .window = 64, .blocks = 16};
    if (setjmp(end) == 0) {
        perf_meet_options();
        check(&perf_options);
    }
    return 0;
}
