/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order model of the verbs provider: the unit that follows from a device's answers, and its
 * effect on a transfer. The test simulates the device: the functions of libibverbs are replaced.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

#include "../../provider/verbs/ports/order.h"

#undef ibv_reg_mr
#undef ibv_query_port

enum { PACKET = 1024, WHOLE = 1, BLOCKS = 2 };

#if defined(__x86_64__) || defined(__i386__)
enum { X86 = 1 };
#else
enum { X86 = 0 };
#endif

/* properties of the device */
static int answer; /* capabilities of ibv_query_qp_data_in_order() */
static bool knows_no_flags, refuses_strict, refuses_relaxed;
static int why = EINVAL;

int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
    (void)qp, (void)op;
    if (flags && knows_no_flags)
        return 0;
    return flags ? answer : answer & WHOLE;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t size, uint64_t iova,
                                unsigned int access)
{
    static struct ibv_mr mr;

    (void)pd, (void)addr, (void)size, (void)iova;
    if (access & VP_ACCESS_RELAXED ? refuses_relaxed : refuses_strict) {
        errno = why;
        return NULL;
    }
    return &mr;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t size, int access)
{
    return ibv_reg_mr_iova2(pd, addr, size, 0, (unsigned int)access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    (void)mr;
    return 0;
}

int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
    (void)context, (void)port, (void)attr;
    return EIO; /* the queue pair does not change state, and is queried all the same */
}

/* The device's order with this value of UTOFU_VERBS_ORDER. */
static struct vp_device find(const char *order)
{
    static struct ibv_device device;
    static struct ibv_context context = {.device = &device};
    struct vp_device dev = {.context = &context};
    struct vp_port port = {.dev = &dev};
    struct ibv_qp qp = {.state = IBV_QPS_RTS};

    setenv("UTOFU_VERBS_ORDER", order, 1);
    vp_detect_order(&dev, &port, &qp);
    cr_assert_eq(vp_qp_unit(&dev, &qp), vp_unit_of(&dev));
    return dev;
}

static void expect_unit(const struct vp_device *dev, enum vp_unit on_x86)
{
    cr_assert_eq(vp_unit_of(dev), X86 ? on_x86 : VP_UNIT_WORD, "%d (%s)", vp_unit_of(dev),
                 vp_order_reason((enum vp_order)dev->order));
}

Test(order, promise_of_whole_messages_is_kept)
{
    answer = WHOLE | BLOCKS;
    struct vp_device dev = find("auto");

    expect_unit(&dev, VP_UNIT_WHOLE);
    cr_assert(!dev.relaxed);
}

Test(order, library_that_knows_no_capabilities_is_asked_without)
{
    answer = WHOLE;
    knows_no_flags = true;
    struct vp_device dev = find("auto");

    expect_unit(&dev, VP_UNIT_WHOLE);
}

Test(order, promise_of_128_bytes_is_no_promise_of_more)
{
    answer = BLOCKS;
    struct vp_device dev = find("auto");

    expect_unit(&dev, VP_UNIT_128);
    cr_assert(!dev.relaxed);
}

Test(order, without_a_promise_a_line_of_the_cpu_is_left)
{
    struct vp_device dev = find("auto");

    expect_unit(&dev, VP_UNIT_64);
}

Test(order, safe_promises_a_word)
{
    answer = WHOLE | BLOCKS;
    struct vp_device dev = find("safe");

    cr_assert_eq(vp_unit_of(&dev), VP_UNIT_WORD);
    cr_assert(!dev.relaxed);
}

Test(order, trust_needs_no_promise)
{
    struct vp_device dev = find("trust");

    cr_assert_eq(vp_unit_of(&dev), VP_UNIT_WHOLE);
    cr_assert(!dev.relaxed);
}

Test(order, queue_pair_without_the_promise_of_its_device_has_none)
{
    struct ibv_qp qp = {.state = IBV_QPS_RTS};

    answer = WHOLE | BLOCKS;
    struct vp_device dev = find("auto");
    answer = BLOCKS;
    cr_assert_eq(vp_qp_unit(&dev, &qp), X86 ? VP_UNIT_128 : VP_UNIT_WORD);
    answer = 0;
    cr_assert_eq(vp_qp_unit(&dev, &qp), X86 ? VP_UNIT_64 : VP_UNIT_WORD);
}

Test(order, keys_with_relaxed_ordering_take_the_promise_back)
{
    answer = WHOLE | BLOCKS;
    refuses_strict = true;
    struct vp_device dev = find("auto");
    expect_unit(&dev, VP_UNIT_64);
    cr_assert(dev.relaxed);
    cr_assert_eq(vp_mr_access_flags(&dev), VP_ACCESS_RELAXED);
}

Test(order, trust_does_not_make_relaxed_keys_strict)
{
    answer = WHOLE | BLOCKS;
    refuses_strict = true;
    struct vp_device dev = find("trust");

    expect_unit(&dev, VP_UNIT_64);
    cr_assert(dev.relaxed);
}

Test(order, safe_keeps_its_word_with_relaxed_keys)
{
    refuses_strict = true;
    struct vp_device dev = find("safe");

    cr_assert_eq(vp_unit_of(&dev), VP_UNIT_WORD);
    cr_assert(dev.relaxed);
}

Test(order, relaxed_keys_may_be_asked_for)
{
    answer = WHOLE | BLOCKS;
    struct vp_device dev = find("relaxed");

    expect_unit(&dev, VP_UNIT_64);
    cr_assert(dev.relaxed);
}

Test(order, device_that_refuses_all_keys_is_not_taken_for_a_relaxed_one)
{
    answer = WHOLE | BLOCKS;
    refuses_strict = refuses_relaxed = true;
    struct vp_device dev = find("auto");

    cr_assert(!dev.relaxed);
}

Test(order, shortage_of_memory_says_nothing_of_keys)
{
    answer = WHOLE | BLOCKS;
    refuses_strict = true;
    why = ENOMEM;
    struct vp_device dev = find("auto");

    cr_assert(!dev.relaxed);
    expect_unit(&dev, VP_UNIT_WHOLE);
}

/* The table of order.h: address, length and kind of a transfer, and its first and last part. */
static const struct {
    enum vp_unit unit;
    bool strong;
    uint64_t to;
    uint32_t length, head, tail;
} cuts[] = {
    {VP_UNIT_WHOLE, true, 8, 4 * PACKET, 0, 0},
    {VP_UNIT_WHOLE, false, 8, 4 * PACKET, 0, 0},
    /* one unit, or a part of one */
    {VP_UNIT_128, true, 1024, 128, 0, 0},
    {VP_UNIT_128, true, 1024 + 120, 8, 0, 0},
    {VP_UNIT_64, true, 1024 + 64, 64, 0, 0},
    {VP_UNIT_WORD, true, 1024, 8, 0, 0},
    {VP_UNIT_WORD, true, 1024 + 3, 5, 0, 0},
    {VP_UNIT_64, true, 1024, 0, 0, 0},
    /* a strong one of several units: the last unit, or the part in it */
    {VP_UNIT_128, true, 1024, 256, 0, 128},
    {VP_UNIT_128, true, 1024, 192, 0, 64},
    {VP_UNIT_64, true, 1024, 128, 0, 64},
    {VP_UNIT_64, true, 1024 + 56, 16, 0, 8},
    {VP_UNIT_WORD, true, 1024, 64, 0, 8},
    {VP_UNIT_WORD, true, 1024 + 4, 8, 0, 4},
    /* the others are not cut, unless a unit would be in two packets */
    {VP_UNIT_64, false, 1024, 4 * PACKET, 0, 0},
    {VP_UNIT_64, false, 1024 + 8, PACKET, 0, 0},
    {VP_UNIT_64, false, 1024 + 8, PACKET + 1, 56, 0},
    {VP_UNIT_128, false, 1024 + 8, 4 * PACKET, 120, 0},
    {VP_UNIT_WORD, false, 1024 + 3, 4 * PACKET, 5, 0},
    {VP_UNIT_WORD, false, 1024 + 8, 4 * PACKET, 0, 0},
    {VP_UNIT_64, true, 1024 + 8, 4 * PACKET, 56, 8},
    {VP_UNIT_64, true, 1024 + 8, PACKET + 8, 0, 16},
};

Test(order, transfer_is_cut_as_its_unit_wants)
{
    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
        struct vp_order_split cut =
            vp_split_by_order(cuts[i].unit, cuts[i].to, cuts[i].length, PACKET, cuts[i].strong);

        cr_expect_eq(cut.head, cuts[i].head, "%zu: head %u", i, cut.head);
        cr_expect_eq(cut.tail, cuts[i].tail, "%zu: tail %u", i, cut.tail);
    }
}

Test(order, smaller_unit_of_both_ends_counts)
{
    cr_assert_eq(vp_weaker_unit(VP_UNIT_WHOLE, VP_UNIT_128), VP_UNIT_128);
    cr_assert_eq(vp_weaker_unit(VP_UNIT_WORD, VP_UNIT_64), VP_UNIT_WORD);
    cr_assert_eq(vp_unit_bytes(VP_UNIT_WHOLE), 0);
    cr_assert_eq(vp_unit_bytes(VP_UNIT_128), 128);
    cr_assert_eq(vp_unit_bytes(VP_UNIT_64), 64);
    cr_assert_eq(vp_unit_bytes(VP_UNIT_WORD), 8);
}

Test(order, soft_roce_keeps_order_where_the_kernel_copies_forwards)
{
    cr_expect(vp_kernel_copies_forward("6.1.0-43-amd64", false));
    cr_expect(vp_kernel_copies_forward("5.15.0", false));
    cr_expect(vp_kernel_copies_forward("6.3.13", false));
    cr_expect_not(vp_kernel_copies_forward("6.4.0", false));
    cr_expect_not(vp_kernel_copies_forward("6.12.57+deb12-amd64", false));
    cr_expect_not(vp_kernel_copies_forward("7.0.0", false));
    cr_expect_not(vp_kernel_copies_forward("unknown", false));
    cr_expect(vp_kernel_copies_forward("6.12.57+deb12-amd64", true));
}
