/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A two-dimensional field is cut into vertical stripes, one for each process, in a ring. In every
 * step each process sends its outermost columns to its neighbours, into their extra columns (the
 * halo). A column is not contiguous but has a word every ROW bytes: a strided put. The descriptors
 * are always the same, so they are prepared once and posted in every step.
 *
 *     cc -o halo_exchange halo_exchange.c meet.c $(pkg-config --cflags --libs utofu)
 *     utofurun -n 4 ./halo_exchange
 *     mpirun -n 4 ./halo_exchange
 */
#include <stdio.h>
#include <stdlib.h>

#include "meet.h"

enum { NX = 16, NY = 64, STEPS = 50, STAG = 0, ROW = 8 * (NX + 2), FIELD = ROW * NY };
enum side { LEFT, RIGHT };

/* Two fields: the one that this step reads, and the one that it writes. A neighbour may be one step
 * ahead, never two, so it never writes to columns that are still being read. */
struct stripe {
    uint64_t field[2][NY][NX + 2];
};

static utofu_vcq_hdl_t vcq;
static utofu_vcq_id_t ids[MAX_PROCESSES];
static utofu_stadd_t my_stadd;
static int arrived[2][2]; /* number of columns received, of each field and side */

/* Prepares the descriptors that send column `from` to a neighbour's column `to`. All rows except
 * the last have no notice. The last row is ordered after them, and its notice means that the column
 * has arrived. */
static size_t prepare_column(void *desc, int neighbour, int field, size_t from, size_t to,
                             enum side side)
{
    const size_t last = ROW * (NY - 1);
    utofu_stadd_t theirs, lcl = my_stadd + FIELD * (size_t)field + 8 * from;
    size_t rows, final;

    CALL(utofu_query_stadd(ids[neighbour], STAG, &theirs));
    theirs += FIELD * (size_t)field + 8 * to;
    CALL(utofu_prepare_put_stride(vcq, ids[neighbour], lcl, theirs, 8, ROW, NY - 1, 0, 0, desc,
                                  &rows));
    CALL(utofu_prepare_put(vcq, ids[neighbour], lcl + last, theirs + last, 8,
                           (uint64_t)(2 * field + side),
                           UTOFU_ONESIDED_FLAG_STRONG_ORDER | UTOFU_ONESIDED_FLAG_TCQ_NOTICE |
                               UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE,
                           (char *)desc + rows, &final));
    return rows + final;
}

static void wait_column(int field, enum side side)
{
    while (arrived[field][side] == 0) {
        uint64_t edata = wait_notice(vcq).edata;

        arrived[edata / 2][edata % 2]++;
    }
    arrived[field][side]--;
}

static int column_has_left(void)
{
    void *cbdata;

    return utofu_poll_tcq(vcq, 0, &cbdata) == UTOFU_SUCCESS;
}

/* Returns the number of rows sent meanwhile: the queue has no room while the TOQ is full. */
static int post_column(void *desc, size_t size)
{
    int left = 0, rc;

    while ((rc = utofu_post_toq(vcq, desc, size, NULL)) == UTOFU_ERR_BUSY)
        left += column_has_left();
    CALL(rc);
    return left;
}

static uint64_t next_value(uint64_t left, uint64_t here, uint64_t right)
{
    return 3 * left + 5 * here + 7 * right;
}

static uint64_t first_value(size_t x, size_t y)
{
    return 1000 * x + y;
}

/* The same computation without communication: the whole ring, one row. */
static uint64_t expected(size_t width, size_t x, size_t y)
{
    static uint64_t row[2][MAX_PROCESSES * NX];

    for (size_t i = 0; i < width; i++)
        row[0][i] = first_value(i, y);
    for (int step = 0; step < STEPS; step++)
        for (size_t i = 0; i < width; i++)
            row[(step + 1) % 2][i] = next_value(row[step % 2][(i + width - 1) % width],
                                                row[step % 2][i], row[step % 2][(i + 1) % width]);
    return row[STEPS % 2][x];
}

static void step_field(struct stripe *stripe, int step)
{
    for (size_t y = 0; y < NY; y++)
        for (size_t x = 1; x <= NX; x++)
            stripe->field[!(step % 2)][y][x] =
                next_value(stripe->field[step % 2][y][x - 1], stripe->field[step % 2][y][x],
                           stripe->field[step % 2][y][x + 1]);
}

int main(void)
{
    struct stripe *stripe = aligned_memory(sizeof(*stripe));
    uint64_t *desc[2][2]; /* for each field and side: NY descriptors of up to 64 bytes */
    size_t size[2][2], registered = (sizeof(*stripe) + 255) / 256 * 256,
                       first = NX * (size_t)my_rank();
    int left = (my_rank() + num_processes() - 1) % num_processes();
    int right = (my_rank() + 1) % num_processes();

    vcq = open_vcq();
    CALL(utofu_reg_mem_with_stag(vcq, stripe, registered, STAG, 0, &my_stadd));
    for (size_t y = 0; y < NY; y++)
        for (size_t x = 0; x < NX; x++)
            stripe->field[0][y][x + 1] = first_value(first + x, y);
    meet(vcq, ids);
    for (int field = 0; field < 2; field++) {
        desc[field][LEFT] = aligned_memory(64 * NY);
        desc[field][RIGHT] = aligned_memory(64 * NY);
        /* the left column goes to the right halo of the left neighbour */
        size[field][LEFT] = prepare_column(desc[field][LEFT], left, field, 1, NX + 1, RIGHT);
        size[field][RIGHT] = prepare_column(desc[field][RIGHT], right, field, NX, 0, LEFT);
    }
    for (int step = 0; step < STEPS; step++) {
        int field = step % 2, sent = 0;

        for (int side = LEFT; side <= RIGHT; side++)
            sent += post_column(desc[field][side], size[field][side]);
        wait_column(field, LEFT);
        wait_column(field, RIGHT);
        step_field(stripe, step);
        while (sent < 2) /* this process's columns are sent: they may be written again */
            sent += column_has_left();
    }
    for (size_t y = 0; y < NY; y += 13)
        for (size_t x = 0; x < NX; x += NX - 1)
            if (stripe->field[STEPS % 2][y][x + 1] !=
                expected(NX * (size_t)num_processes(), first + x, y)) {
                fprintf(stderr, "rank %d: wrong value at %zu, %zu\n", my_rank(), first + x, y);
                return 1;
            }
    printf("rank %d: %d steps are right\n", my_rank(), STEPS);
    CALL(utofu_dereg_mem(vcq, my_stadd, 0)); /* all columns have been received and sent */
    close_vcq(vcq);
    for (int field = 0; field < 2; field++) {
        free(desc[field][LEFT]);
        free(desc[field][RIGHT]);
    }
    free(stripe);
    return 0;
}
