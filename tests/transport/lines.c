/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Barriers and sums. The processes of a node tell their first one; the first ones go along the X,
 * then the Y, then the Z line of the logical grid, on a barrier circuit for each; then they tell
 * the others. Barriers and sums of all processes, several of a node, go around a ring. TNI and
 * number of each gate go to the other processes of a circuit by messages; the rest of its id is
 * calculated.
 */
#include <string.h>

#include "circuit.h"
#include "transport.h"

enum { TAG_GATES = COLLECTIVE, TAG_MEET, TAG_UP, TAG_DOWN };
enum { RING = 3, NUM_CIRCUITS }; /* behind the lines along X, Y and Z */

/* What is not calculated of a gate's id. */
struct gate_number {
    uint8_t tni, gate;
};

struct sums {
    uint64_t whole;
    double fraction;
};

static struct line {
    int n, place; /* processes of the line, and which of them this one is */
    size_t count; /* gates of this process */
    int ranks[MAX_RANKS];
    utofu_vbg_id_t ids[MAX_RANKS][CIRCUIT_MAX_GATES];
} lines[NUM_CIRCUITS];

static int rank, size;
static int local[MAX_RANKS], num_local; /* ranks of this node */
static bool leads;
static uint32_t extents[3];

static void send_now(int to, int tag, const void *data, size_t length)
{
    struct request request;

    message_send(&request, to, (uint16_t)tag, data, length);
    message_wait(&request);
}

static void receive_now(int from, int tag, void *data, size_t length)
{
    struct request request;

    message_receive(&request, from, (uint16_t)tag, data, length);
    message_wait(&request);
}

void lines_meet(void)
{
    for (int step = 1; step < size; step *= 2) {
        send_now((rank + step) % size, TAG_MEET, NULL, 0);
        receive_now((rank - step + size) % size, TAG_MEET, NULL, 0);
    }
}

static void find_extents(void)
{
    uint32_t xyz[3];

    for (int r = 0; r < size; r++) {
        where_logical(r, xyz);
        for (int i = 0; i < 3; i++)
            extents[i] = xyz[i] >= extents[i] ? xyz[i] + 1 : extents[i];
    }
}

/* The first process of each node along a line. */
static void find_line(struct line *line, int along)
{
    uint32_t xyz[3];
    int ranks[MAX_RANKS];

    where_logical(rank, xyz);
    line->n = (int)extents[along];
    line->place = (int)xyz[along];
    for (int i = 0; i < line->n; i++) {
        xyz[along] = (uint32_t)i;
        if (where_ranks_at_logical(xyz, ranks) == 0)
            FAIL("no process at %u,%u,%u", xyz[0], xyz[1], xyz[2]);
        line->ranks[i] = ranks[0];
    }
    if (line->ranks[line->place] != rank)
        FAIL("rank %d is at its own place in the grid", line->ranks[line->place]);
}

/* The vendor's layout: a gate has six bits, and no process. */
static utofu_vbg_id_t make_id(int of, struct gate_number number)
{
    uint8_t at[6];

    where_coords(of, at);
    return (uint64_t)number.tni << 61 | (uint64_t)at[5] << 59 | (uint64_t)at[4] << 57 |
           (uint64_t)at[3] << 56 | (uint64_t)at[2] << 48 | (uint64_t)at[1] << 40 |
           (uint64_t)at[0] << 32 | number.gate;
}

static void read_numbers(const struct line *line, struct gate_number numbers[CIRCUIT_MAX_GATES])
{
    const utofu_vbg_id_t *ids = line->ids[line->place];

    memset(numbers, 0, CIRCUIT_MAX_GATES * sizeof(*numbers));
    for (size_t i = 0; i < line->count; i++) {
        numbers[i] = (struct gate_number){(uint8_t)(ids[i] >> 61), ids[i] & 0x3f};
        if (make_id(rank, numbers[i]) != ids[i])
            FAIL("gate %016llx has not the calculated id", (unsigned long long)ids[i]);
    }
}

static void exchange_gates(struct line *line, int along)
{
    struct gate_number own[CIRCUIT_MAX_GATES], other[CIRCUIT_MAX_GATES];

    read_numbers(line, own);
    for (int i = 1; i < line->n; i++) {
        int to = (line->place + i) % line->n, from = (line->place + line->n - i) % line->n;
        struct request sent;
        message_send(&sent, line->ranks[to], (uint16_t)(TAG_GATES + 16 * (along + 1)), own,
                     sizeof(own));
        receive_now(line->ranks[from], TAG_GATES + 16 * (along + 1), other, sizeof(other));
        for (int k = 0; k < CIRCUIT_MAX_GATES; k++)
            line->ids[from][k] = make_id(line->ranks[from], other[k]);
        message_wait(&sent);
    }
}

/* Gates of the first TNI that has enough of them for this process. */
static void allocate_gates(struct line *line, int tni)
{
    int rc = UTOFU_ERR_FULL;

    for (int i = 0; i < TNIS && rc == UTOFU_ERR_FULL; i++)
        rc = utofu_alloc_vbg((utofu_tni_id_t)((tni + i) % TNIS), line->count, 0,
                             line->ids[line->place]);
    OK(rc);
}

static void find_all(struct line *line)
{
    line->n = size;
    line->place = rank;
    for (int r = 0; r < size; r++)
        line->ranks[r] = r;
}

/* A butterfly along X, a tree along Y, a ring along Z, and one of all, each on another TNI where
 * this process has gates there. */
static void open_line(int along)
{
    struct line *line = &lines[along];
    struct utofu_vbg_setting settings[CIRCUIT_MAX_GATES];
    enum circuit_shape shape = along == RING ? CIRCUIT_RING : (enum circuit_shape)along;

    if (along == RING)
        find_all(line);
    else
        find_line(line, along);
    line->count = circuit_gates(shape, line->n, line->place);
    allocate_gates(line, net_primary() + along);
    exchange_gates(line, along);
    circuit_wire(shape, line->n, line->place, line->ids[0], settings);
    OK(utofu_set_vbg(settings, line->count));
}

void lines_open(void)
{
    uint8_t coords[6];

    rank = where_rank();
    size = where_size();
    where_coords(rank, coords);
    num_local = where_ranks_at_coords(coords, local);
    leads = local[0] == rank;
    find_extents();
    for (int along = 0; leads && along < 3; along++)
        open_line(along);
    open_line(RING);
    lines_meet();
}

void lines_close(void)
{
    for (int along = leads ? 0 : RING; along < NUM_CIRCUITS; along++)
        OK(utofu_free_vbg(lines[along].ids[lines[along].place], lines[along].count));
}

void lines_extents(uint32_t xyz[3])
{
    memcpy(xyz, extents, sizeof(extents));
}

/* The end of what was started on a gate. Of a circuit that breaks: who has ended will be told. */
#define AWAIT(poll)                                                                                \
    do {                                                                                           \
        int state_;                                                                                \
        while ((state_ = (poll)) == UTOFU_ERR_NOT_COMPLETED)                                       \
            if (!net_progress())                                                                   \
                net_idle("a barrier");                                                             \
        while (state_ == UTOFU_ERR_BARRIER_OTHER)                                                  \
            if (!net_progress())                                                                   \
                net_idle("news of who has broken a circuit");                                      \
        OK(state_);                                                                                \
    } while (0)

static void pass_barrier(const struct line *line)
{
    utofu_vbg_id_t gate = line->ids[line->place][0];

    OK(utofu_barrier(gate, 0));
    AWAIT(utofu_poll_barrier(gate, 0));
}

static void sum_line(const struct line *line, struct sums *sums)
{
    utofu_vbg_id_t gate = line->ids[line->place][0];

    OK(utofu_reduce_uint64(gate, UTOFU_REDUCE_OP_SUM, &sums->whole, 1, 0));
    AWAIT(utofu_poll_reduce_uint64(gate, 0, &sums->whole));
    OK(utofu_reduce_double(gate, UTOFU_REDUCE_OP_BFPSUM, &sums->fraction, 1, 0));
    AWAIT(utofu_poll_reduce_double(gate, 0, &sums->fraction));
}

static void gather_sums(struct sums *sums)
{
    struct sums other;

    if (!leads)
        send_now(local[0], TAG_UP, sums, sizeof(*sums));
    for (int i = 1; leads && i < num_local; i++) {
        receive_now(local[i], TAG_UP, &other, sizeof(other));
        sums->whole += other.whole;
        sums->fraction += other.fraction;
    }
}

static void scatter_sums(struct sums *sums)
{
    if (!leads)
        receive_now(local[0], TAG_DOWN, sums, sizeof(*sums));
    for (int i = 1; leads && i < num_local; i++)
        send_now(local[i], TAG_DOWN, sums, sizeof(*sums));
}

void lines_barrier(void)
{
    struct sums none = {0, 0};

    gather_sums(&none);
    for (int along = 0; leads && along < 3; along++)
        pass_barrier(&lines[along]);
    scatter_sums(&none);
    pass_barrier(&lines[RING]);
}

void lines_sum(uint64_t *whole, double *fraction)
{
    struct sums sums = {*whole, *fraction}, around = sums;

    gather_sums(&sums);
    for (int along = 0; leads && along < 3; along++)
        sum_line(&lines[along], &sums);
    scatter_sums(&sums);
    sum_line(&lines[RING], &around);
    if (around.whole != sums.whole)
        FAIL("the sum around the ring is %llu instead of %llu", (unsigned long long)around.whole,
             (unsigned long long)sums.whole);
    *whole = sums.whole;
    *fraction = sums.fraction;
}
