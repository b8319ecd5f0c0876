/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Step 5: a ring of metal with one hot spot, cut into pieces, one for each process. In every time
 * step a process needs the outermost cells of its neighbours: its halo.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tutorial.h"

enum { CELLS = 16, STEPS = 200, SIZE = 4096 };
enum side { LEFT, RIGHT };

/* Every number that is put has a line of 256 bytes to itself. A neighbour may be one step ahead, so
 * there are two copies of the halo, for even and odd steps. */
struct border {
    double out[2][32], halo[2][2][32]; /* by side; by copy and side */
};

static utofu_vcq_hdl_t vcq;
static uint64_t ids[MAX_PROCESSES], stadds[MAX_PROCESSES];
static struct border *border;
static int arrived[2][2]; /* numbers that have come, by copy and side */

/* The left edge of this piece is the right halo of the left neighbour. */
static void send_edge(enum side side, double value, int neighbour, int copy)
{
    size_t from = offsetof(struct border, out) + sizeof(border->out[0]) * side;
    size_t to = offsetof(struct border, halo) + sizeof(border->halo[0]) * (size_t)copy +
                sizeof(border->halo[0][0]) * !side;
    /* Your lines: */
    border->out[side][0] = value;
    CALL(utofu_put(vcq, ids[neighbour], stadds[my_rank()] + from, stadds[neighbour] + to, 8,
                   (uint64_t)(2 * copy + !side),
                   UTOFU_ONESIDED_FLAG_TCQ_NOTICE | UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE, NULL));
    /* End of your lines. */
}

static double wait_halo(int copy, enum side side)
{
    /* Your lines: */
    while (arrived[copy][side] == 0) {
        uint64_t edata = wait_notice(vcq).edata;
        arrived[edata / 2][edata % 2]++;
    }
    arrived[copy][side]--;
    return border->halo[copy][side][0];
    /* End of your lines. */
}

static void compute(double cells[CELLS], double before, double after)
{
    for (int i = 0; i < CELLS; i++) {
        double next = i < CELLS - 1 ? cells[i + 1] : after, here = cells[i];

        cells[i] = here + 0.25 * (before - 2 * here + next);
        before = here;
    }
}

static void print_sums(const double cells[CELLS])
{
    double sum = 0, all = 0;
    uint64_t bits, sums[MAX_PROCESSES];

    for (int i = 0; i < CELLS; i++)
        sum += cells[i];
    memcpy(&bits, &sum, sizeof(bits));
    exchange(bits, sums);
    for (int rank = 0; rank < num_processes(); rank++) {
        memcpy(&sum, &sums[rank], sizeof(sum));
        all += sum;
        if (my_rank() == 0)
            printf("rank %d has %7.2f\n", rank, sum);
    }
    if (my_rank() == 0)
        printf("all have %7.2f\n", all);
}

int main(void)
{
    double cells[CELLS] = {0};
    int rank = my_rank(), n = num_processes();
    utofu_vcq_id_t id;
    utofu_stadd_t stadd;

    border = new_memory(SIZE);
    if (rank == 0)
        cells[0] = 1000;
    CALL(utofu_create_vcq(0, 0, &vcq));
    CALL(utofu_query_vcq_id(vcq, &id));
    CALL(utofu_reg_mem(vcq, border, SIZE, 0, &stadd));
    exchange(id, ids);
    exchange(stadd, stadds);
    for (int step = 0; step < STEPS; step++) {
        int copy = step % 2;

        send_edge(LEFT, cells[0], (rank + n - 1) % n, copy);
        send_edge(RIGHT, cells[CELLS - 1], (rank + 1) % n, copy);
        double before = wait_halo(copy, LEFT), after = wait_halo(copy, RIGHT);
        compute(cells, before, after);
        wait_sent(vcq);
        wait_sent(vcq);
    }
    print_sums(cells);
    CALL(utofu_dereg_mem(vcq, stadd, 0));
    CALL(utofu_free_vcq(vcq));
    free(border);
    return 0;
}
