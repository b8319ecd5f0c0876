/* SPDX-License-Identifier: Apache-2.0 */
/* The capabilities: the values of chapter 6, and whether the limits are true: the last allowed
   value works, and what happens one beyond it. */
#include <string.h>

#include "circuit.h"
#include "owned.h"

/* ---- The values of tables 6.4 and 6.5, on each TNI ---- */

static void judge_onesided(struct cf *c, const char *name, size_t place, unsigned long expected)
{
    size_t count = cf_count_tnis(c);
    utofu_tni_id_t tni;

    for (size_t i = 0; i < count && cf_tni(c, i, &tni); i++) {
        struct utofu_onesided_caps *caps = cf_caps_of(c, tni);
        unsigned long values[11];
        if (!caps)
            return;
        values[0] = caps->flags;
        values[1] = caps->armw_ops;
        values[2] = caps->num_cmp_ids;
        values[3] = caps->num_reserved_stags;
        values[4] = (unsigned long)caps->stag_address_alignment;
        values[5] = (unsigned long)caps->max_toq_desc_size;
        values[6] = (unsigned long)caps->max_putget_size;
        values[7] = (unsigned long)caps->max_piggyback_size;
        values[8] = (unsigned long)caps->max_edata_size;
        values[9] = (unsigned long)caps->max_mtu;
        values[10] = (unsigned long)caps->max_gap;
        CF_HOLDS(c, values[place] == expected, "%s of TNI %d is %lu, not %lu", name, (int)tni,
                 values[place], expected);
    }
}

#define ONESIDED_CASE(function, place, member, expected)                                           \
    static void function(struct cf *c)                                                             \
    {                                                                                              \
        judge_onesided(c, #member, place, expected);                                               \
    }

ONESIDED_CASE(judge_flags, 0, flags,
              UTOFU_ONESIDED_CAP_FLAG_SESSION_MODE | UTOFU_ONESIDED_CAP_FLAG_ARMW)
ONESIDED_CASE(judge_armw_ops, 1, armw_ops,
              UTOFU_ONESIDED_CAP_ARMW_OP_CSWAP | UTOFU_ONESIDED_CAP_ARMW_OP_SWAP |
                  UTOFU_ONESIDED_CAP_ARMW_OP_ADD | UTOFU_ONESIDED_CAP_ARMW_OP_XOR |
                  UTOFU_ONESIDED_CAP_ARMW_OP_AND | UTOFU_ONESIDED_CAP_ARMW_OP_OR)
ONESIDED_CASE(judge_cmp_ids, 2, num_cmp_ids, 8)
ONESIDED_CASE(judge_stags, 3, num_reserved_stags, 256)
ONESIDED_CASE(judge_alignment, 4, stag_address_alignment, 256)
ONESIDED_CASE(judge_desc_size, 5, max_toq_desc_size, 64)
ONESIDED_CASE(judge_putget_size, 6, max_putget_size, 16777215)
ONESIDED_CASE(judge_piggyback_size, 7, max_piggyback_size, 32)
ONESIDED_CASE(judge_edata_size, 8, max_edata_size, 1)
ONESIDED_CASE(judge_mtu, 9, max_mtu, 1920)
ONESIDED_CASE(judge_gap, 10, max_gap, 255)

/* Another adapter than Tofu's may place less than a line of 256 bytes in order: the value is asked,
 * not assumed */
static void look_at_line(struct cf *c)
{
    utofu_tni_id_t tni;
    struct utofu_onesided_caps *caps;

    if (!cf_tni(c, 0, &tni) || !(caps = cf_caps_of(c, tni)))
        return;
    CF_HOLDS(
        c, caps->cache_line_size > 0 && (caps->cache_line_size & (caps->cache_line_size - 1)) == 0,
        "cache_line_size is %lu", (unsigned long)caps->cache_line_size);
    cf_saw(c, caps->cache_line_size == 256 ? "256 bytes" : "another size");
    cf_number(c, "cache line size", (double)caps->cache_line_size);
}

static void judge_barrier(struct cf *c, const char *name, size_t place, unsigned long expected)
{
    utofu_tni_id_t tni;
    struct utofu_barrier_caps *caps;
    unsigned long values[4];

    for (size_t i = 0; i < 6; i++) {
        if (!cf_barrier_tni(c, i, &tni) || !(caps = cf_barrier_caps_of(c, tni)))
            return;
        values[0] = caps->flags;
        values[1] = caps->reduce_ops;
        values[2] = (unsigned long)caps->max_uint64_reduction;
        values[3] = (unsigned long)caps->max_double_reduction;
        CF_HOLDS(c, values[place] == expected, "%s of TNI %d is %lu, not %lu", name, (int)tni,
                 values[place], expected);
    }
}

#define BARRIER_CASE(function, place, member, expected)                                            \
    static void function(struct cf *c)                                                             \
    {                                                                                              \
        judge_barrier(c, #member, place, expected);                                                \
    }

BARRIER_CASE(judge_barrier_flags, 0, flags, 0)
BARRIER_CASE(judge_reduce_ops, 1, reduce_ops,
             UTOFU_BARRIER_CAP_REDUCE_OP_BARRIER | UTOFU_BARRIER_CAP_REDUCE_OP_BAND |
                 UTOFU_BARRIER_CAP_REDUCE_OP_BOR | UTOFU_BARRIER_CAP_REDUCE_OP_BXOR |
                 UTOFU_BARRIER_CAP_REDUCE_OP_MAX | UTOFU_BARRIER_CAP_REDUCE_OP_MAXLOC |
                 UTOFU_BARRIER_CAP_REDUCE_OP_SUM | UTOFU_BARRIER_CAP_REDUCE_OP_BFPSUM)
BARRIER_CASE(judge_uint64_reduction, 2, max_uint64_reduction, 6)
BARRIER_CASE(judge_double_reduction, 3, max_double_reduction, 3)

/* The data is the library's, and stays as it is */
static void judge_memory(struct cf *c)
{
    utofu_tni_id_t tni;
    struct utofu_onesided_caps *caps, kept;
    utofu_vcq_hdl_t vcq;

    if (!cf_tni(c, 0, &tni) || !(caps = cf_caps_of(c, tni)))
        return;
    memcpy(&kept, caps, sizeof(kept));
    CF_NEED(c, cf_create_vcq(tni, 0, &vcq) == UTOFU_SUCCESS, "no VCQ");
    cf_free_vcq(vcq);
    for (int i = 0; i < 100; i++) {
        if (!cf_caps_of(c, tni))
            return;
    }
    CF_HOLDS(c, memcmp(&kept, caps, sizeof(kept)) == 0, "the data of an earlier query has changed");
}

static void look_at_memory(struct cf *c)
{
    utofu_tni_id_t tni[2];
    struct utofu_onesided_caps *first, *second;

    if (!cf_tni(c, 0, &tni[0]) || !cf_tni(c, 1, &tni[1]))
        return;
    first = cf_caps_of(c, tni[0]);
    second = cf_caps_of(c, tni[0]);
    if (!first || !second)
        return;
    cf_saw(c, first == second ? "one pointer for two queries" : "a pointer for each query");
    second = cf_caps_of(c, tni[1]);
    if (second && tni[0] != tni[1])
        cf_saw(c, first == second ? "one pointer for two TNIs" : "a pointer for each TNI");
}

/* ---- Limits that are measured ---- */

/* The last component id is allowed */
static void create_last_component(struct cf *c)
{
    utofu_tni_id_t tni;
    struct utofu_onesided_caps *caps;
    utofu_vcq_hdl_t vcq;

    if (!cf_tni(c, 0, &tni) || !(caps = cf_caps_of(c, tni)))
        return;
    cf_create_component(c, tni, caps->num_cmp_ids - 1, 0, &vcq);
}

static void create_beyond_component(struct cf *c)
{
    utofu_tni_id_t tni;
    struct utofu_onesided_caps *caps;
    utofu_vcq_hdl_t vcq;

    if (!cf_tni(c, 0, &tni) || !(caps = cf_caps_of(c, tni)))
        return;
    cf_saw_code(c, cf_create_vcq_with_cmp_id(tni, (utofu_cmp_id_t)caps->num_cmp_ids, 0, &vcq));
}

/* The longest put arrives as a whole */
/* One byte more than allowed: 16 MiB on this machine */
static void put_too_long(struct cf *c)
{
    struct cf_ends e;
    utofu_tni_id_t tni;
    struct utofu_onesided_caps *caps;

    if (!cf_tni(c, 0, &tni) || !(caps = cf_caps_of(c, tni)))
        return;
    if (cf_open(c, &e, 0, 0, caps->max_putget_size + 1)) {
        int rc = utofu_put(e.vcq, e.next_id, e.send_stadd, e.next_recv, caps->max_putget_size + 1,
                           0, UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL);
        struct utofu_mrq_notice notice;
        cf_saw_code(c, rc);
        if (rc == UTOFU_SUCCESS)
            cf_saw_code(c, cf_mrq(e.vcq, &notice));
    }
    cf_close(c, &e);
}

static void put_longest_piggyback(struct cf *c)
{
    struct cf_ends e;
    utofu_tni_id_t tni;
    struct utofu_onesided_caps *caps;

    if (!cf_tni(c, 0, &tni) || !(caps = cf_caps_of(c, tni)))
        return;
    if (cf_open(c, &e, 0, 0, 512)) {
        int rc;
        CF_RETRY(rc, e.vcq,
                 utofu_put_piggyback(e.vcq, e.next_id, e.send, e.next_recv,
                                     caps->max_piggyback_size, 3,
                                     UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE, NULL));
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "a piggyback of %lu bytes: %s",
                 (unsigned long)caps->max_piggyback_size, cf_code(rc));
        if (cf_expect(c, e.vcq, UTOFU_MRQ_TYPE_RMT_PUT, 3)) {
            size_t wrong = cf_differs(e.recv, cf_prev(c), 0, caps->max_piggyback_size);
            CF_HOLDS(c, wrong == caps->max_piggyback_size, "byte %lu is wrong",
                     (unsigned long)wrong);
            CF_HOLDS(c, e.recv[caps->max_piggyback_size] == 0,
                     "the byte behind the data is written");
        }
    }
    cf_close(c, &e);
}

static void put_too_long_piggyback(struct cf *c)
{
    struct cf_ends e;
    utofu_tni_id_t tni;
    struct utofu_onesided_caps *caps;

    if (!cf_tni(c, 0, &tni) || !(caps = cf_caps_of(c, tni)))
        return;
    if (cf_open(c, &e, 0, 0, 512))
        cf_saw_code(c, utofu_put_piggyback(e.vcq, e.next_id, e.send, e.next_recv,
                                           caps->max_piggyback_size + 1, 0, 0, NULL));
    cf_close(c, &e);
}

/* EDATA of the full size arrives with all its bits, on both sides */
static void put_largest_edata(struct cf *c)
{
    struct cf_ends e;
    utofu_tni_id_t tni;
    struct utofu_onesided_caps *caps;

    if (!cf_tni(c, 0, &tni) || !(caps = cf_caps_of(c, tni)))
        return;
    if (cf_open(c, &e, 0, 0, 256)) {
        uint64_t largest =
            caps->max_edata_size >= 8 ? UINT64_MAX : ((uint64_t)1 << 8 * caps->max_edata_size) - 1;
        int rc = cf_put_sent(e.vcq, e.next_id, e.send_stadd, e.next_recv, 8, largest,
                             UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE);
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "a put with EDATA %lu: %s", (unsigned long)largest,
                 cf_code(rc));
        cf_expect(c, e.vcq, UTOFU_MRQ_TYPE_RMT_PUT, largest);
    }
    cf_close(c, &e);
}

static void put_too_large_edata(struct cf *c)
{
    struct cf_ends e;
    utofu_tni_id_t tni;
    struct utofu_onesided_caps *caps;

    if (!cf_tni(c, 0, &tni) || !(caps = cf_caps_of(c, tni)))
        return;
    if (caps->max_edata_size >= 8) {
        cf_skip(c, "every EDATA is allowed");
        return;
    }
    if (cf_open(c, &e, 0, 0, 256)) {
        struct utofu_mrq_notice notice;
        int rc = utofu_put(e.vcq, e.next_id, e.send_stadd, e.next_recv, 8,
                           ((uint64_t)1 << 8 * caps->max_edata_size) + 5,
                           UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL);
        cf_saw_code(c, rc);
        if (rc == UTOFU_SUCCESS && cf_mrq(e.vcq, &notice) == UTOFU_SUCCESS)
            cf_saw(c, notice.edata == 5 ? "the low bytes arrive" : "other EDATA arrives");
    }
    cf_close(c, &e);
}

/* MTU and gap at their largest: the data arrives all the same */
static void put_with_gap(struct cf *c, size_t mtu, size_t gap)
{
    struct cf_ends e;

    if (cf_open(c, &e, 0, 0, 65536)) {
        int rc;
        CF_RETRY(rc, e.vcq,
                 utofu_put_gap(e.vcq, e.next_id, e.send_stadd, e.next_recv, 60000, 4,
                               UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE, mtu, gap, NULL));
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "a put with MTU %lu and gap %lu: %s", (unsigned long)mtu,
                 (unsigned long)gap, cf_code(rc));
        if (cf_expect(c, e.vcq, UTOFU_MRQ_TYPE_RMT_PUT, 4)) {
            size_t wrong = cf_differs(e.recv, cf_prev(c), 0, 60000);
            CF_HOLDS(c, wrong == 60000, "byte %lu is wrong", (unsigned long)wrong);
        }
    }
    cf_close(c, &e);
}

static void put_with_largest_gap(struct cf *c)
{
    utofu_tni_id_t tni;
    struct utofu_onesided_caps *caps;

    if (cf_tni(c, 0, &tni) && (caps = cf_caps_of(c, tni)))
        put_with_gap(c, caps->max_mtu, caps->max_gap);
}

static void put_with_largest_mtu(struct cf *c)
{
    utofu_tni_id_t tni;
    struct utofu_onesided_caps *caps;

    if (cf_tni(c, 0, &tni) && (caps = cf_caps_of(c, tni)))
        put_with_gap(c, caps->max_mtu, 0);
}

static void put_beyond_gap(struct cf *c)
{
    struct cf_ends e;
    utofu_tni_id_t tni;
    struct utofu_onesided_caps *caps;

    if (!cf_tni(c, 0, &tni) || !(caps = cf_caps_of(c, tni)))
        return;
    if (cf_open(c, &e, 0, 0, 256)) {
        cf_saw_code(c, utofu_put_gap(e.vcq, e.next_id, e.send_stadd, e.next_recv, 8, 0, 0,
                                     caps->max_mtu, caps->max_gap + 1, NULL));
        cf_saw_code(c, utofu_put_gap(e.vcq, e.next_id, e.send_stadd, e.next_recv, 8, 0, 0,
                                     caps->max_mtu + 1, 0, NULL));
    }
    cf_close(c, &e);
}

/* Descriptors of all kinds are not longer than the limit */
static void prepare_each_kind(struct cf *c)
{
    struct cf_ends e;
    utofu_tni_id_t tni;
    struct utofu_onesided_caps *caps;

    if (!cf_tni(c, 0, &tni) || !(caps = cf_caps_of(c, tni)))
        return;
    if (cf_open(c, &e, 0, 0, 512)) {
        static const char *const kinds[] = {"put", "put with gap", "piggyback", "piggyback8",
                                            "get", "armw",         "nop"};
        unsigned char *room = cf_keep(1024);
        size_t size[7] = {0, 0, 0, 0, 0, 0, 0};
        int rc[7];
        rc[0] =
            utofu_prepare_put(e.vcq, e.next_id, e.send_stadd, e.next_recv, 8, 0, 0, room, &size[0]);
        rc[1] = utofu_prepare_put_gap(e.vcq, e.next_id, e.send_stadd, e.next_recv, 8, 0, 0,
                                      caps->max_mtu, 1, room, &size[1]);
        rc[2] = utofu_prepare_put_piggyback(e.vcq, e.next_id, e.send, e.next_recv,
                                            caps->max_piggyback_size, 0, 0, room, &size[2]);
        rc[3] =
            utofu_prepare_put_piggyback8(e.vcq, e.next_id, 1, e.next_recv, 8, 0, 0, room, &size[3]);
        rc[4] =
            utofu_prepare_get(e.vcq, e.next_id, e.recv_stadd, e.next_send, 8, 0, 0, room, &size[4]);
        rc[5] = utofu_prepare_armw8(e.vcq, e.next_id, UTOFU_ARMW_OP_ADD, 1, e.next_recv, 0, 0, room,
                                    &size[5]);
        rc[6] = utofu_prepare_nop(e.vcq, 0, room, &size[6]);
        for (int i = 0; i < 7; i++) {
            CF_HOLDS(c, rc[i] == UTOFU_SUCCESS, "preparing a %s: %s", kinds[i], cf_code(rc[i]));
            CF_HOLDS(c, size[i] > 0 && size[i] <= caps->max_toq_desc_size,
                     "the descriptor of a %s has %lu bytes", kinds[i], (unsigned long)size[i]);
            cf_number(c, kinds[i], (double)size[i]);
        }
    }
    cf_close(c, &e);
}

/* What the flags promise can be had, unless other users of the machine have taken it */
static void use_session_mode(struct cf *c)
{
    utofu_tni_id_t tni;
    struct utofu_onesided_caps *caps;
    utofu_vcq_hdl_t vcq;
    int rc;

    if (!cf_tni(c, 0, &tni) || !(caps = cf_caps_of(c, tni)))
        return;
    rc = cf_create_vcq(tni, UTOFU_VCQ_FLAG_SESSION_MODE, &vcq);
    if (caps->flags & UTOFU_ONESIDED_CAP_FLAG_SESSION_MODE)
        CF_HOLDS(c, rc != UTOFU_ERR_NOT_SUPPORTED,
                 "session mode is a capability and not supported");
    else
        CF_HOLDS(c, rc != UTOFU_SUCCESS, "session mode is not a capability, but works");
}

/* Each operator of armw_ops executes */
static void use_armw_ops(struct cf *c)
{
    static const struct {
        unsigned long cap;
        enum utofu_armw_op op;
        const char *name;
    } ops[] = {{UTOFU_ONESIDED_CAP_ARMW_OP_SWAP, UTOFU_ARMW_OP_SWAP, "SWAP"},
               {UTOFU_ONESIDED_CAP_ARMW_OP_ADD, UTOFU_ARMW_OP_ADD, "ADD"},
               {UTOFU_ONESIDED_CAP_ARMW_OP_XOR, UTOFU_ARMW_OP_XOR, "XOR"},
               {UTOFU_ONESIDED_CAP_ARMW_OP_AND, UTOFU_ARMW_OP_AND, "AND"},
               {UTOFU_ONESIDED_CAP_ARMW_OP_OR, UTOFU_ARMW_OP_OR, "OR"}};
    struct cf_ends e;
    utofu_tni_id_t tni;
    struct utofu_onesided_caps *caps;

    if (!cf_tni(c, 0, &tni) || !(caps = cf_caps_of(c, tni)))
        return;
    if (cf_open(c, &e, 0, 0, 256)) {
        uint64_t expected = 0;
        for (unsigned i = 0; i < 5; i++) {
            int rc;
            if (!(caps->armw_ops & ops[i].cap))
                continue;
            CF_RETRY(rc, e.vcq,
                     utofu_armw8(e.vcq, e.next_id, ops[i].op, 12 + i, e.next_recv, i,
                                 UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL));
            CF_HOLDS(c, rc == UTOFU_SUCCESS, "%s is a capability and returns %s", ops[i].name,
                     cf_code(rc));
            if (!cf_expect(c, e.vcq, UTOFU_MRQ_TYPE_LCL_ARMW, i))
                break;
            expected = i == 0   ? 12
                       : i == 1 ? expected + 13
                       : i == 2 ? expected ^ 14
                       : i == 3 ? expected & 15
                                : expected | 16;
        }
        if (cf_meet(c))
            CF_HOLDS(c, *(volatile uint64_t *)(void *)e.recv == expected,
                     "the word is %lu after all operators, not %lu",
                     (unsigned long)*(volatile uint64_t *)(void *)e.recv, (unsigned long)expected);
    }
    cf_close(c, &e);
}

/* ---- Numbers of elements of a reduction ---- */

static void reduce_most_integers(struct cf *c)
{
    struct cf_circuit circuit;
    struct utofu_barrier_caps *caps;
    uint64_t data[64];
    int rc, size = cf_size(c);

    if (!cf_circuit_open(c, &circuit, CF_RING, 0, 0) ||
        !(caps = cf_barrier_caps_of(c, circuit.tni)))
        return;
    CF_NEED(c, caps->max_uint64_reduction <= 64, "%lu elements",
            (unsigned long)caps->max_uint64_reduction);
    for (size_t i = 0; i < 64; i++)
        data[i] = i + 1;
    rc = cf_circuit_uint64(circuit.id, UTOFU_REDUCE_OP_SUM, data, caps->max_uint64_reduction);
    CF_NEED(c, rc == UTOFU_SUCCESS, "a sum of %lu elements: %s",
            (unsigned long)caps->max_uint64_reduction, cf_code(rc));
    for (size_t i = 0; i < caps->max_uint64_reduction; i++)
        CF_HOLDS(c, data[i] == (i + 1) * (uint64_t)size, "element %lu is %lu", (unsigned long)i,
                 (unsigned long)data[i]);
    CF_HOLDS(c, data[caps->max_uint64_reduction] == caps->max_uint64_reduction + 1,
             "the element behind is written");
    cf_meet(c);
}

static void reduce_most_doubles(struct cf *c)
{
    struct cf_circuit circuit;
    struct utofu_barrier_caps *caps;
    double data[64];
    int rc, size = cf_size(c);

    if (!cf_circuit_open(c, &circuit, CF_RING, 0, 0) ||
        !(caps = cf_barrier_caps_of(c, circuit.tni)))
        return;
    CF_NEED(c, caps->max_double_reduction < 64, "%lu elements",
            (unsigned long)caps->max_double_reduction);
    for (size_t i = 0; i < 64; i++)
        data[i] = (double)i + 0.5;
    rc = cf_circuit_double(circuit.id, UTOFU_REDUCE_OP_BFPSUM, data, caps->max_double_reduction);
    CF_NEED(c, rc == UTOFU_SUCCESS, "a sum of %lu elements: %s",
            (unsigned long)caps->max_double_reduction, cf_code(rc));
    for (size_t i = 0; i < caps->max_double_reduction; i++)
        CF_HOLDS(c, data[i] == ((double)i + 0.5) * size, "element %lu is %g", (unsigned long)i,
                 data[i]);
    CF_HOLDS(c, data[caps->max_double_reduction] == (double)caps->max_double_reduction + 0.5,
             "the element behind is written");
    cf_meet(c);
}

/* One element too many, and none: refused, or what happens */
static void reduce_too_many(struct cf *c)
{
    struct cf_circuit circuit;
    struct utofu_barrier_caps *caps;
    uint64_t integers[64] = {0};
    double doubles[64] = {0};

    if (!cf_circuit_open(c, &circuit, CF_RING, 0, 0) ||
        !(caps = cf_barrier_caps_of(c, circuit.tni)))
        return;
    cf_saw_code(c, cf_circuit_uint64(circuit.id, UTOFU_REDUCE_OP_SUM, integers,
                                     caps->max_uint64_reduction + 1));
    cf_saw_code(c, cf_circuit_double(circuit.id, UTOFU_REDUCE_OP_BFPSUM, doubles,
                                     caps->max_double_reduction + 1));
    cf_saw_code(c, cf_circuit_uint64(circuit.id, UTOFU_REDUCE_OP_SUM, integers, 0));
    cf_meet(c);
}

static const struct cf_case cases[] = {
    {"cap-flags", "6.1.2", 3, CF_PROMISED, CF_ALONE, "TNIs have session mode and ARMW",
     judge_flags},
    {"cap-armw-ops", "6.1.2", 3, CF_PROMISED, CF_ALONE, "TNIs have all six operators of ARMW",
     judge_armw_ops},
    {"cap-component-ids", "6.1.2", 3, CF_PROMISED, CF_ALONE, "num_cmp_ids is 8", judge_cmp_ids},
    {"cap-reserved-stags", "6.1.2", 3, CF_PROMISED, CF_ALONE, "num_reserved_stags is 256",
     judge_stags},
    {"cap-stag-alignment", "6.1.2", 3, CF_PROMISED, CF_ALONE, "stag_address_alignment is 256",
     judge_alignment},
    {"cap-descriptor-size", "6.1.2", 3, CF_PROMISED, CF_ALONE, "max_toq_desc_size is 64",
     judge_desc_size},
    {"cap-put-size", "6.1.2", 3, CF_PROMISED, CF_ALONE, "max_putget_size is 16777215",
     judge_putget_size},
    {"cap-piggyback-size", "6.1.2", 3, CF_PROMISED, CF_ALONE, "max_piggyback_size is 32",
     judge_piggyback_size},
    {"cap-edata-size", "6.1.2", 3, CF_PROMISED, CF_ALONE, "max_edata_size is 1", judge_edata_size},
    {"cap-mtu", "6.1.2", 3, CF_PROMISED, CF_ALONE, "max_mtu is 1920", judge_mtu},
    {"cap-gap", "6.1.2", 3, CF_PROMISED, CF_ALONE, "max_gap is 255", judge_gap},
    {"cap-cache-line", "3.2.2.1", 11, CF_OPEN, CF_ALONE, "cache_line_size is the machine's",
     look_at_line},
    {"cap-barrier-flags", "6.1.2", 5, CF_PROMISED, CF_ALONE | CF_BARRIER,
     "no flags of barriers are set", judge_barrier_flags},
    {"cap-reduce-ops", "6.1.2", 5, CF_PROMISED, CF_ALONE | CF_BARRIER,
     "TNIs have all eight reductions", judge_reduce_ops},
    {"cap-uint64-number", "6.1.2", 5, CF_PROMISED, CF_ALONE | CF_BARRIER,
     "max_uint64_reduction is 6", judge_uint64_reduction},
    {"cap-double-number", "6.1.2", 5, CF_PROMISED, CF_ALONE | CF_BARRIER,
     "max_double_reduction is 3", judge_double_reduction},
    {"cap-memory", "3.2.1.3", 2, CF_PROMISED, CF_ALONE, "the library keeps the data of a query",
     judge_memory},
    {"cap-pointers", "3.2.1.3", 0, CF_UNSAID, CF_ALONE, "whether queries share their data",
     look_at_memory},
    {"limit-component-last", "3.3.1.2", 7, CF_PROMISED, CF_ALONE,
     "component ids up to num_cmp_ids - 1 can be used", create_last_component},
    {"limit-component-beyond", "3.3.1.2", 13, CF_OPEN, CF_ALONE,
     "what component id num_cmp_ids gives", create_beyond_component},
    {"limit-put-beyond", "3.2.2.1", 17, CF_OPEN, CF_SLOW | CF_RISKY,
     "what a put of max_putget_size + 1 bytes gives", put_too_long},
    {"limit-piggyback-longest", "3.2.2.1", 18, CF_PROMISED, 0,
     "a piggyback may have max_piggyback_size bytes", put_longest_piggyback},
    {"limit-piggyback-beyond", "3.2.2.1", 19, CF_OPEN, CF_RISKY,
     "what a piggyback that is too long gives", put_too_long_piggyback},
    {"limit-edata-largest", "3.2.2.1", 20, CF_PROMISED, 0, "EDATA may have max_edata_size bytes",
     put_largest_edata},
    {"limit-edata-beyond", "3.2.2.1", 20, CF_OPEN, 0, "what EDATA of more bytes gives",
     put_too_large_edata},
    {"limit-mtu-largest", "3.2.2.1", 21, CF_PROMISED, 0, "the MTU may be max_mtu",
     put_with_largest_mtu},
    {"limit-gap-largest", "3.2.2.1", 22, CF_PROMISED, 0, "the gap may be max_gap",
     put_with_largest_gap},
    {"limit-gap-mtu-beyond", "3.2.2.1", 22, CF_OPEN, CF_RISKY, "what a larger gap or MTU gives",
     put_beyond_gap},
    {"limit-descriptor", "3.2.2.1", 14, CF_PROMISED, 0,
     "no descriptor is longer than max_toq_desc_size", prepare_each_kind},
    {"limit-session", "3.2.3.1", 3, CF_PROMISED, CF_ALONE,
     "the flag tells whether there is session mode", use_session_mode},
    {"limit-armw-ops", "3.2.3.3", 2, CF_PROMISED, CF_ARMW, "the operators of armw_ops can be used",
     use_armw_ops},
    {"limit-reduce-integers", "3.2.2.2", 7, CF_PROMISED, CF_BARRIER,
     "a reduction may have max_uint64_reduction integers", reduce_most_integers},
    {"limit-reduce-doubles", "3.2.2.2", 8, CF_PROMISED, CF_BARRIER,
     "a reduction may have max_double_reduction doubles", reduce_most_doubles},
    {"limit-reduce-beyond", "3.8.1.2", 12, CF_OPEN, CF_BARRIER | CF_RISKY,
     "what other numbers of elements give", reduce_too_many},
};
CF_GROUP(caps_group, "caps", cases);
