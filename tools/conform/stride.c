/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of the stride functions: several puts or gets by one call
 * (3.7, 3.7.1.3, 3.7.1.4, 3.7.1.9, 3.7.1.10). */
#include "families.h"
#include "transfers.h"

CF_FAMILY(put_stride, CF_PUT_STRIDE);
CF_FAMILY(put_stride_gap, CF_PUT_STRIDE_GAP);
CF_FAMILY(get_stride, CF_GET_STRIDE);
CF_FAMILY(get_stride_gap, CF_GET_STRIDE_GAP);

/* Blocks of a length at a distance, with a local notice each; all memory of the target is checked
 */
static void try_blocks(struct cf *c, enum cf_function f, size_t length, size_t stride,
                       size_t blocks)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    size_t i;
    if (!cf_begin(c, &e, &b, 1024 + stride * blocks + length))
        return;
    m = cf_comm_at(&e, f, 72, 328, length);
    m.stride = stride;
    m.blocks = blocks;
    m.flags = CF_ALL;
    if (!cf_box_begin(&b, &m) || !cf_box_exact(&b, blocks, blocks, blocks))
        return;
    for (i = 0; i < blocks && i < CF_BOX && !cf_failed(c); i++) {
        cf_check_lcl(c, &e, &m, i, &b.lcl[i].notice);
        cf_check_rmt(c, &e, &m, i, &b.rmt[i].notice);
    }
    if (cf_check_recv(c, &e, &m, 1))
        cf_close(c, &e);
}

#define BLOCKS(name, f, length, stride, blocks)                                                    \
    CF_RUN(run_##name, try_blocks(c, f, length, stride, blocks))

BLOCKS(put_one, CF_PUT_STRIDE, 100, 300, 1);
BLOCKS(put_adjacent, CF_PUT_STRIDE, 96, 96, 20);
BLOCKS(put_overlap, CF_PUT_STRIDE, 96, 40, 20);
BLOCKS(put_bytes, CF_PUT_STRIDE, 1, 2, 100);
BLOCKS(put_far, CF_PUT_STRIDE_GAP, 500, 65536, 10);
BLOCKS(put_200, CF_PUT_STRIDE, 8, 24, 200);
BLOCKS(put_same, CF_PUT_STRIDE, 40, 0, 4);
BLOCKS(get_one, CF_GET_STRIDE, 100, 300, 1);
BLOCKS(get_adjacent, CF_GET_STRIDE, 96, 96, 20);
BLOCKS(get_overlap, CF_GET_STRIDE, 96, 40, 20);
BLOCKS(get_bytes, CF_GET_STRIDE, 1, 2, 100);
BLOCKS(get_far, CF_GET_STRIDE_GAP, 500, 65536, 10);
BLOCKS(get_200, CF_GET_STRIDE, 8, 24, 200);
BLOCKS(get_same, CF_GET_STRIDE, 40, 0, 4);

static void see_blocks(struct cf *c, enum cf_function f, size_t blocks)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    if (!cf_begin(c, &e, &b, 8192))
        return;
    m = cf_comm_to_next(&e, f);
    m.blocks = blocks;
    m.stride = 0;
    m.length = 8;
    cf_see_refusal(c, &e, &b, m);
    cf_close(c, &e);
}

CF_RUN(run_put_none, see_blocks(c, CF_PUT_STRIDE, 0));
CF_RUN(run_get_none, see_blocks(c, CF_GET_STRIDE, 0));

/* How many blocks one call can have: the largest power of two that is accepted on an empty TOQ */
static void see_most(struct cf *c, enum cf_function f)
{
    struct cf_ends e;
    struct cf_comm m;
    void *cbdata;
    size_t i;
    int rc = UTOFU_SUCCESS;
    if (!cf_open(c, &e, 0, 0, 8192))
        return;
    m = cf_comm_to_next(&e, f);
    m.length = 8;
    m.stride = 0;
    m.flags = CF_TCQ;
    for (m.blocks = 64; m.blocks <= 16384; m.blocks *= 2) {
        rc = cf_start(&m);
        if (rc != UTOFU_SUCCESS)
            break;
        for (i = 0; i < m.blocks; i++)
            CF_NEED(c, cf_tcq(e.vcq, &cbdata) == UTOFU_SUCCESS, "entry %lu of %lu is missing",
                    (unsigned long)i, (unsigned long)m.blocks);
    }
    cf_number(c, "blocks of a call", (double)m.blocks / 2);
    cf_tell_code(c, rc == UTOFU_SUCCESS ? "16384 blocks " : "more ", rc);
    cf_close(c, &e);
}

CF_RUN(run_put_most, see_most(c, CF_PUT_STRIDE));
CF_RUN(run_get_most, see_most(c, CF_GET_STRIDE));

/* clang-format off */
#define SHAPE(name, function, sentence, kind, says)                                                \
    {"put-stride-" name, "3.7", sentence, kind, 0, says, run_put_##function},                      \
    {"get-stride-" name, "3.7", sentence, kind, 0, says, run_get_##function}
/* clang-format on */

static const struct cf_case cases[] = {
    CF_FAMILY_CASES(put_stride, "put-stride", "3.7.1.3", 20, 0, "puts the blocks", 20),
    CF_FAMILY_CASES(put_stride_gap, "put-stride-gap", "3.7.1.4", 24, 0, "puts the blocks", 20),
    CF_FAMILY_CASES(get_stride, "get-stride", "3.7.1.9", 20, 0, "gets the blocks", 20),
    CF_FAMILY_CASES(get_stride_gap, "get-stride-gap", "3.7.1.10", 24, 0, "gets the blocks", 20),
    SHAPE("one", one, 45, CF_PROMISED, "One block is one communication."),
    SHAPE("adjacent", adjacent, 47, CF_PROMISED, "A stride of the length leaves no byte out."),
    SHAPE("overlap", overlap, 47, CF_PROMISED,
          "Blocks that overlap move the bytes of the formula, each block for itself."),
    SHAPE("bytes", bytes, 47, CF_PROMISED, "Blocks of one byte leave the bytes between them."),
    SHAPE("far", far, 47, CF_PROMISED, "The stride may be 64 KiB."),
    SHAPE("200", 200, 20, CF_PROMISED,
          "Each of 200 blocks has its TCQ entry and its notices, with its own STADDs."),
    SHAPE("same", same, 47, CF_PROMISED, "A stride of 0 moves the same block each time."),
    SHAPE("none", none, 0, CF_UNSAID, "What does a call of 0 blocks return and report?"),
    SHAPE("most", most, 0, CF_UNSAID, "How many blocks does one call take on an empty TOQ?"),
};
CF_GROUP(stride_group, "stride", cases);
