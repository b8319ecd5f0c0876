/* SPDX-License-Identifier: Apache-2.0 */
/* Types, return codes, flags and structures of the header: what the manual says of them, and the
   numbers, of which it says nothing. */
#include <limits.h>
#include <string.h>

#include "owned.h"

/* ---- Types (3.1.1.1) ---- */

#define TYPE_CASE(function, type, width)                                                           \
    static void function(struct cf *c)                                                             \
    {                                                                                              \
        CF_HOLDS(c, sizeof(type) * CHAR_BIT == (width), #type " has %lu bits",                     \
                 (unsigned long)(sizeof(type) * CHAR_BIT));                                        \
        CF_HOLDS(c, (type)-1 > 0, #type " is signed");                                             \
    }

TYPE_CASE(judge_tni_id, utofu_tni_id_t, 16)
TYPE_CASE(judge_cq_id, utofu_cq_id_t, 16)
TYPE_CASE(judge_bg_id, utofu_bg_id_t, 16)
TYPE_CASE(judge_cmp_id, utofu_cmp_id_t, 16)
TYPE_CASE(judge_vcq_hdl, utofu_vcq_hdl_t, sizeof(void *) * CHAR_BIT)
TYPE_CASE(judge_vcq_id, utofu_vcq_id_t, 64)
TYPE_CASE(judge_vbg_id, utofu_vbg_id_t, 64)
TYPE_CASE(judge_path_id, utofu_path_id_t, 8)
TYPE_CASE(judge_stadd, utofu_stadd_t, 64)

/* ---- Constants ---- */

struct constant {
    const char *name;
    unsigned long long value, expected;
};

#define CONSTANT(name, expected)                                                                   \
    {                                                                                              \
#        name, (unsigned long long)(long long)(name), (unsigned long long)(long long)(expected)    \
    }
#define COUNT(table) (sizeof(table) / sizeof(table)[0])

static const struct constant return_codes[] = {
    CONSTANT(UTOFU_SUCCESS, 0),
    CONSTANT(UTOFU_ERR_NOT_FOUND, -1),
    CONSTANT(UTOFU_ERR_NOT_COMPLETED, -2),
    CONSTANT(UTOFU_ERR_NOT_PROCESSED, -3),
    CONSTANT(UTOFU_ERR_BUSY, -4),
    CONSTANT(UTOFU_ERR_USED, -5),
    CONSTANT(UTOFU_ERR_FULL, -6),
    CONSTANT(UTOFU_ERR_NOT_AVAILABLE, -7),
    CONSTANT(UTOFU_ERR_NOT_SUPPORTED, -8),
    CONSTANT(UTOFU_ERR_TCQ_OTHER, -128),
    CONSTANT(UTOFU_ERR_TCQ_DESC, -129),
    CONSTANT(UTOFU_ERR_TCQ_MEMORY, -130),
    CONSTANT(UTOFU_ERR_TCQ_STADD, -131),
    CONSTANT(UTOFU_ERR_TCQ_LENGTH, -132),
    CONSTANT(UTOFU_ERR_MRQ_OTHER, -192),
    CONSTANT(UTOFU_ERR_MRQ_PEER, -193),
    CONSTANT(UTOFU_ERR_MRQ_LCL_MEMORY, -194),
    CONSTANT(UTOFU_ERR_MRQ_RMT_MEMORY, -195),
    CONSTANT(UTOFU_ERR_MRQ_LCL_STADD, -196),
    CONSTANT(UTOFU_ERR_MRQ_RMT_STADD, -197),
    CONSTANT(UTOFU_ERR_MRQ_LCL_LENGTH, -198),
    CONSTANT(UTOFU_ERR_MRQ_RMT_LENGTH, -199),
    CONSTANT(UTOFU_ERR_BARRIER_OTHER, -256),
    CONSTANT(UTOFU_ERR_BARRIER_MISMATCH, -257),
    CONSTANT(UTOFU_ERR_INVALID_ARG, -512),
    CONSTANT(UTOFU_ERR_INVALID_POINTER, -513),
    CONSTANT(UTOFU_ERR_INVALID_FLAGS, -514),
    CONSTANT(UTOFU_ERR_INVALID_COORDS, -515),
    CONSTANT(UTOFU_ERR_INVALID_PATH, -516),
    CONSTANT(UTOFU_ERR_INVALID_TNI_ID, -517),
    CONSTANT(UTOFU_ERR_INVALID_CQ_ID, -518),
    CONSTANT(UTOFU_ERR_INVALID_BG_ID, -519),
    CONSTANT(UTOFU_ERR_INVALID_CMP_ID, -520),
    CONSTANT(UTOFU_ERR_INVALID_VCQ_HDL, -521),
    CONSTANT(UTOFU_ERR_INVALID_VCQ_ID, -522),
    CONSTANT(UTOFU_ERR_INVALID_VBG_ID, -523),
    CONSTANT(UTOFU_ERR_INVALID_PATH_ID, -524),
    CONSTANT(UTOFU_ERR_INVALID_STADD, -525),
    CONSTANT(UTOFU_ERR_INVALID_ADDRESS, -526),
    CONSTANT(UTOFU_ERR_INVALID_SIZE, -527),
    CONSTANT(UTOFU_ERR_INVALID_STAG, -528),
    CONSTANT(UTOFU_ERR_INVALID_EDATA, -529),
    CONSTANT(UTOFU_ERR_INVALID_NUMBER, -530),
    CONSTANT(UTOFU_ERR_INVALID_OP, -531),
    CONSTANT(UTOFU_ERR_INVALID_DESC, -532),
    CONSTANT(UTOFU_ERR_INVALID_DATA, -533),
    CONSTANT(UTOFU_ERR_OUT_OF_RESOURCE, -640),
    CONSTANT(UTOFU_ERR_OUT_OF_MEMORY, -641),
    CONSTANT(UTOFU_ERR_FATAL, -768),
};

static const struct constant vcq_flags[] = {
    CONSTANT(UTOFU_VCQ_FLAG_THREAD_SAFE, 1),
    CONSTANT(UTOFU_VCQ_FLAG_EXCLUSIVE, 2),
    CONSTANT(UTOFU_VCQ_FLAG_SESSION_MODE, 4),
};

static const struct constant single_flags[] = {
    CONSTANT(UTOFU_VBG_FLAG_THREAD_SAFE, 1),
    CONSTANT(UTOFU_REG_MEM_FLAG_READ_ONLY, 1),
};

static const struct constant onesided_flags[] = {
    CONSTANT(UTOFU_ONESIDED_FLAG_STRONG_ORDER, 1UL << 0),
    CONSTANT(UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE, 1UL << 2),
    CONSTANT(UTOFU_ONESIDED_FLAG_PADDING, 1UL << 3),
    CONSTANT(UTOFU_ONESIDED_FLAG_CACHE_INJECTION, 1UL << 5),
    CONSTANT(UTOFU_ONESIDED_FLAG_DELAY_START, 1UL << 8),
    CONSTANT(UTOFU_ONESIDED_FLAG_TCQ_NOTICE, 1UL << 14),
    CONSTANT(UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, 1UL << 15),
    CONSTANT(UTOFU_ONESIDED_FLAG_SPS(15), 15UL << 24),
    CONSTANT(UTOFU_ONESIDED_FLAG_PATH(11), 11UL << 28),
};

static const struct constant cap_flags[] = {
    CONSTANT(UTOFU_ONESIDED_CAP_FLAG_SESSION_MODE, 1),
    CONSTANT(UTOFU_ONESIDED_CAP_FLAG_ARMW, 2),
};

static const struct constant cap_armw_ops[] = {
    CONSTANT(UTOFU_ONESIDED_CAP_ARMW_OP_CSWAP, 1), CONSTANT(UTOFU_ONESIDED_CAP_ARMW_OP_SWAP, 2),
    CONSTANT(UTOFU_ONESIDED_CAP_ARMW_OP_ADD, 4),   CONSTANT(UTOFU_ONESIDED_CAP_ARMW_OP_XOR, 8),
    CONSTANT(UTOFU_ONESIDED_CAP_ARMW_OP_AND, 16),  CONSTANT(UTOFU_ONESIDED_CAP_ARMW_OP_OR, 32),
};

static const struct constant cap_reduce_ops[] = {
    CONSTANT(UTOFU_BARRIER_CAP_REDUCE_OP_BARRIER, 2),
    CONSTANT(UTOFU_BARRIER_CAP_REDUCE_OP_BAND, 4),
    CONSTANT(UTOFU_BARRIER_CAP_REDUCE_OP_BOR, 8),
    CONSTANT(UTOFU_BARRIER_CAP_REDUCE_OP_BXOR, 16),
    CONSTANT(UTOFU_BARRIER_CAP_REDUCE_OP_MAX, 32),
    CONSTANT(UTOFU_BARRIER_CAP_REDUCE_OP_MAXLOC, 64),
    CONSTANT(UTOFU_BARRIER_CAP_REDUCE_OP_SUM, 128),
    CONSTANT(UTOFU_BARRIER_CAP_REDUCE_OP_BFPSUM, 256),
};

static const struct constant enumerations[] = {
    CONSTANT(UTOFU_ARMW_OP_SWAP, 1),      CONSTANT(UTOFU_ARMW_OP_ADD, 2),
    CONSTANT(UTOFU_ARMW_OP_XOR, 3),       CONSTANT(UTOFU_ARMW_OP_AND, 4),
    CONSTANT(UTOFU_ARMW_OP_OR, 5),        CONSTANT(UTOFU_MRQ_TYPE_LCL_PUT, 0),
    CONSTANT(UTOFU_MRQ_TYPE_RMT_PUT, 1),  CONSTANT(UTOFU_MRQ_TYPE_LCL_GET, 2),
    CONSTANT(UTOFU_MRQ_TYPE_RMT_GET, 3),  CONSTANT(UTOFU_MRQ_TYPE_LCL_ARMW, 4),
    CONSTANT(UTOFU_MRQ_TYPE_RMT_ARMW, 5),
};

static const struct constant reduce_ops[] = {
    CONSTANT(UTOFU_REDUCE_OP_BARRIER, 1), CONSTANT(UTOFU_REDUCE_OP_BAND, 2),
    CONSTANT(UTOFU_REDUCE_OP_BOR, 3),     CONSTANT(UTOFU_REDUCE_OP_BXOR, 4),
    CONSTANT(UTOFU_REDUCE_OP_MAX, 5),     CONSTANT(UTOFU_REDUCE_OP_MAXLOC, 6),
    CONSTANT(UTOFU_REDUCE_OP_SUM, 7),     CONSTANT(UTOFU_REDUCE_OP_BFPSUM, 8),
};

static const struct constant nulls[] = {
    CONSTANT(UTOFU_VBG_ID_NULL, -1),
    CONSTANT(UTOFU_PATH_COORD_NULL, 255),
};

/* The numbers of the published header: objects of programs, tables of names and logs mean the same
 * with them */
static void compare_values(struct cf *c, const struct constant *table, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        cf_saw(c, table[i].value == table[i].expected ? "as published" : "different");
        if (table[i].value != table[i].expected)
            cf_number(c, table[i].name, (double)(long long)table[i].value);
    }
}

#define VALUES_CASE(function, table)                                                               \
    static void function(struct cf *c)                                                             \
    {                                                                                              \
        compare_values(c, table, COUNT(table));                                                    \
    }

VALUES_CASE(compare_return_codes, return_codes)
VALUES_CASE(compare_vcq_flags, vcq_flags)
VALUES_CASE(compare_single_flags, single_flags)
VALUES_CASE(compare_onesided_flags, onesided_flags)
VALUES_CASE(compare_cap_flags, cap_flags)
VALUES_CASE(compare_cap_armw_ops, cap_armw_ops)
VALUES_CASE(compare_cap_reduce_ops, cap_reduce_ops)
VALUES_CASE(compare_enumerations, enumerations)
VALUES_CASE(compare_reduce_ops, reduce_ops)
VALUES_CASE(compare_nulls, nulls)

static void judge_success(struct cf *c)
{
    CF_HOLDS(c, UTOFU_SUCCESS == 0, "UTOFU_SUCCESS is %d", (int)UTOFU_SUCCESS);
}

static void judge_negative(struct cf *c)
{
    for (size_t i = 0; i < COUNT(return_codes); i++) {
        if (return_codes[i].value == (unsigned long long)UTOFU_SUCCESS)
            continue;
        CF_HOLDS(c, (long long)return_codes[i].value < 0, "%s is not negative",
                 return_codes[i].name);
    }
}

static void judge_distinct_codes(struct cf *c)
{
    for (size_t i = 0; i < COUNT(return_codes); i++) {
        for (size_t k = 0; k < i; k++)
            CF_HOLDS(c, return_codes[i].value != return_codes[k].value, "%s and %s are one number",
                     return_codes[i].name, return_codes[k].name);
    }
}

/* Flags that are combined by a bitwise OR can be told apart: none is 0, and no two share a bit */
static void judge_disjoint(struct cf *c, const struct constant *table, size_t count)
{
    unsigned long long used = 0;

    for (size_t i = 0; i < count; i++) {
        CF_HOLDS(c, table[i].value != 0, "%s is 0", table[i].name);
        CF_HOLDS(c, (table[i].value & used) == 0, "%s has bits of another flag", table[i].name);
        used |= table[i].value;
    }
}

#define DISJOINT_CASE(function, table)                                                             \
    static void function(struct cf *c)                                                             \
    {                                                                                              \
        judge_disjoint(c, table, COUNT(table));                                                    \
    }

DISJOINT_CASE(judge_vcq_flags, vcq_flags)
DISJOINT_CASE(judge_onesided_flags, onesided_flags)
DISJOINT_CASE(judge_cap_flags, cap_flags)
DISJOINT_CASE(judge_cap_armw_ops, cap_armw_ops)
DISJOINT_CASE(judge_cap_reduce_ops, cap_reduce_ops)

/* The macros with an argument take any expression, and each argument gives another value */
static void judge_path_macro(struct cf *c)
{
    utofu_path_id_t id = 5;

    CF_HOLDS(c, UTOFU_ONESIDED_FLAG_PATH(id) != 0,
             "a path id in a variable of its type gives no flag");
    for (unsigned i = 0; i < 12; i++) {
        for (unsigned k = 0; k < i; k++)
            CF_HOLDS(c, UTOFU_ONESIDED_FLAG_PATH(i) != UTOFU_ONESIDED_FLAG_PATH(k),
                     "path ids %u and %u are one flag", i, k);
    }
}

static void judge_sps_macro(struct cf *c)
{
    for (unsigned i = 0; i < 16; i++) {
        for (unsigned k = 0; k < i; k++)
            CF_HOLDS(c, UTOFU_ONESIDED_FLAG_SPS(i) != UTOFU_ONESIDED_FLAG_SPS(k),
                     "SPS %u and %u are one flag", i, k);
    }
}

/* No flag at all is what a program gets by default: SPS 0 is the absence of an SPS */
static void look_at_sps_zero(struct cf *c)
{
    cf_saw(c, UTOFU_ONESIDED_FLAG_SPS(0) == 0 ? "SPS 0 is no flag" : "SPS 0 is a flag");
    cf_saw(c, UTOFU_ONESIDED_FLAG_PATH(0) == 0 ? "path 0 is no flag" : "path 0 is a flag");
}

/* ---- Structures ---- */

/* Members as the manual declares them: each must be assignable through a pointer of its type, or
   this does not compile, and they follow one another in that order */
static void judge_onesided_caps(struct cf *c)
{
    struct utofu_onesided_caps caps;
    unsigned long int *longs[2];
    unsigned int *numbers[2];
    size_t *sizes[8];

    longs[0] = &caps.flags;
    longs[1] = &caps.armw_ops;
    numbers[0] = &caps.num_cmp_ids;
    numbers[1] = &caps.num_reserved_stags;
    sizes[0] = &caps.cache_line_size;
    sizes[1] = &caps.stag_address_alignment;
    sizes[2] = &caps.max_toq_desc_size;
    sizes[3] = &caps.max_putget_size;
    sizes[4] = &caps.max_piggyback_size;
    sizes[5] = &caps.max_edata_size;
    sizes[6] = &caps.max_mtu;
    sizes[7] = &caps.max_gap;
    CF_HOLDS(c,
             (void *)longs[0] == (void *)&caps && longs[0] < longs[1] &&
                 (void *)longs[1] < (void *)numbers[0] && numbers[0] < numbers[1] &&
                 (void *)numbers[1] < (void *)sizes[0],
             "the first members are in another order");
    for (int i = 1; i < 8; i++)
        CF_HOLDS(c, sizes[i - 1] < sizes[i], "the size members %d and %d are in another order", i,
                 i + 1);
}

static void judge_barrier_caps(struct cf *c)
{
    struct utofu_barrier_caps caps;
    unsigned long int *flags = &caps.flags, *ops = &caps.reduce_ops;
    size_t *integers = &caps.max_uint64_reduction, *doubles = &caps.max_double_reduction;

    CF_HOLDS(c,
             (void *)flags == (void *)&caps && flags < ops && (void *)ops < (void *)integers &&
                 integers < doubles,
             "the members are in another order");
}

static void judge_vbg_setting(struct cf *c)
{
    struct utofu_vbg_setting s;
    utofu_vbg_id_t *ids[5];
    uint8_t(*path)[3] = &s.dst_path_coords;

    ids[0] = &s.vbg_id;
    ids[1] = &s.src_lcl_vbg_id;
    ids[2] = &s.src_rmt_vbg_id;
    ids[3] = &s.dst_lcl_vbg_id;
    ids[4] = &s.dst_rmt_vbg_id;
    CF_HOLDS(c, (void *)ids[0] == (void *)&s, "vbg_id is not the first member");
    for (int i = 1; i < 5; i++)
        CF_HOLDS(c, ids[i - 1] < ids[i], "the ids %d and %d are in another order", i, i + 1);
    CF_HOLDS(c, (void *)ids[4] < (void *)path, "dst_path_coords is not the last member");
}

static void measure_structures(struct cf *c)
{
    cf_number(c, "struct utofu_onesided_caps", (double)sizeof(struct utofu_onesided_caps));
    cf_number(c, "struct utofu_barrier_caps", (double)sizeof(struct utofu_barrier_caps));
    cf_number(c, "struct utofu_vbg_setting", (double)sizeof(struct utofu_vbg_setting));
    cf_number(c, "struct utofu_mrq_notice", (double)sizeof(struct utofu_mrq_notice));
    cf_saw(c, sizeof(struct utofu_onesided_caps) == 88 && sizeof(struct utofu_barrier_caps) == 32 &&
                      sizeof(struct utofu_vbg_setting) == 48 &&
                      sizeof(struct utofu_mrq_notice) == 64
                  ? "as published"
                  : "different");
}

/* Every name that the manual promises about is in the header, or this file does not compile: what
   remains to be seen is that functions are functions, whose address can be taken */
static void judge_functions(struct cf *c)
{
    int (*create)(utofu_tni_id_t, unsigned long int, utofu_vcq_hdl_t *) = utofu_create_vcq;
    int (*alloc)(utofu_tni_id_t, size_t, unsigned long int, utofu_vbg_id_t[]) = utofu_alloc_vbg;
    int (*reg)(utofu_vcq_hdl_t, void *, size_t, unsigned long int, utofu_stadd_t *) = utofu_reg_mem;
    int (*reduce)(utofu_vbg_id_t, enum utofu_reduce_op, uint64_t[], size_t, unsigned long int) =
        utofu_reduce_uint64;
    void (*version)(int *, int *) = utofu_query_utofu_version;

    CF_HOLDS(c, create && alloc && reg && reduce && version, "a function has no address");
}

static const struct cf_case cases[] = {
    {"type-tni-id", "3.1.1.1", 4, CF_PROMISED, CF_ALONE,
     "a TNI id is an unsigned integer of 16 bits", judge_tni_id},
    {"type-cq-id", "3.1.1.1", 8, CF_PROMISED, CF_ALONE, "a CQ id is an unsigned integer of 16 bits",
     judge_cq_id},
    {"type-bg-id", "3.1.1.1", 12, CF_PROMISED, CF_ALONE,
     "a BG id is an unsigned integer of 16 bits", judge_bg_id},
    {"type-component-id", "3.1.1.1", 16, CF_PROMISED, CF_ALONE,
     "a component id is an unsigned integer of 16 bits", judge_cmp_id},
    {"type-vcq-handle", "3.1.1.1", 19, CF_PROMISED, CF_ALONE,
     "a VCQ handle is an unsigned integer of pointer size", judge_vcq_hdl},
    {"type-vcq-id", "3.1.1.1", 22, CF_PROMISED, CF_ALONE,
     "a VCQ id is an unsigned integer of 64 bits", judge_vcq_id},
    {"type-vbg-id", "3.1.1.1", 26, CF_PROMISED, CF_ALONE,
     "a VBG id is an unsigned integer of 64 bits", judge_vbg_id},
    {"type-path-id", "3.1.1.1", 29, CF_PROMISED, CF_ALONE,
     "a path id is an unsigned integer of 8 bits", judge_path_id},
    {"type-stadd", "3.1.1.1", 32, CF_PROMISED, CF_ALONE,
     "a STADD is an unsigned integer of 64 bits", judge_stadd},
    {"code-success", "3.1.2.1", 3, CF_PROMISED, CF_ALONE, "UTOFU_SUCCESS is 0", judge_success},
    {"code-negative", "3.1.2.1", 4, CF_PROMISED, CF_ALONE,
     "all return codes but UTOFU_SUCCESS are negative", judge_negative},
    {"code-distinct", "3.1.2.1", 2, CF_PROMISED, CF_ALONE, "no two return codes are one number",
     judge_distinct_codes},
    {"code-values", "3.1.2.1", 0, CF_UNSAID, CF_ALONE, "which numbers the return codes are",
     compare_return_codes},
    {"flag-vcq", "3.3.4.1", 1, CF_PROMISED, CF_ALONE, "the flags of VCQs are bits of their own",
     judge_vcq_flags},
    {"flag-vcq-values", "3.3.4.1", 0, CF_UNSAID, CF_ALONE, "which bits the flags of VCQs are",
     compare_vcq_flags},
    {"flag-vbg-memory-values", "3.4.5.1", 0, CF_UNSAID, CF_ALONE,
     "which bits the flags of VBGs and of memory are", compare_single_flags},
    {"flag-onesided", "3.7.9.1", 1, CF_PROMISED, CF_ALONE,
     "the flags of one-sided communications, SPS and path are bits of their own",
     judge_onesided_flags},
    {"flag-onesided-values", "3.7.9.1", 0, CF_UNSAID, CF_ALONE,
     "which bits the flags of communications are", compare_onesided_flags},
    {"flag-path", "3.5", 5, CF_PROMISED, CF_ALONE, "UTOFU_ONESIDED_FLAG_PATH takes a path id",
     judge_path_macro},
    {"flag-sps", "2.2.8.1", 25, CF_PROMISED, CF_ALONE, "UTOFU_ONESIDED_FLAG_SPS takes 0 to 15",
     judge_sps_macro},
    {"flag-sps-path-zero", "3.7.9.3", 0, CF_UNSAID, CF_ALONE, "whether SPS 0 and path 0 are flags",
     look_at_sps_zero},
    {"flag-cap", "3.2.3.1", 1, CF_PROMISED, CF_ALONE, "the capabilities are bits of their own",
     judge_cap_flags},
    {"flag-cap-values", "3.2.3.1", 0, CF_UNSAID, CF_ALONE, "which bits the capabilities are",
     compare_cap_flags},
    {"flag-cap-armw", "3.2.3.3", 1, CF_PROMISED, CF_ALONE,
     "the ARMW operators are bits of their own", judge_cap_armw_ops},
    {"flag-cap-armw-values", "3.2.3.3", 0, CF_UNSAID, CF_ALONE, "which bits the ARMW operators are",
     compare_cap_armw_ops},
    {"flag-cap-reduce", "3.2.3.4", 1, CF_PROMISED, CF_ALONE, "the reductions are bits of their own",
     judge_cap_reduce_ops},
    {"flag-cap-reduce-values", "3.2.3.4", 0, CF_UNSAID, CF_ALONE, "which bits the reductions are",
     compare_cap_reduce_ops},
    {"enum-armw-notice-values", "3.7.7.1", 0, CF_UNSAID, CF_ALONE,
     "which numbers operators and notices are", compare_enumerations},
    {"enum-reduce-values", "3.8.3.1", 0, CF_UNSAID, CF_ALONE, "which numbers the reductions are",
     compare_reduce_ops},
    {"null-values", "3.4.6.1", 0, CF_UNSAID, CF_ALONE,
     "which numbers the invalid VBG id and coordinate are", compare_nulls},
    {"struct-onesided-caps", "3.2.2.1", 2, CF_PROMISED, CF_ALONE,
     "struct utofu_onesided_caps has the manual's members in its order", judge_onesided_caps},
    {"struct-barrier-caps", "3.2.2.2", 2, CF_PROMISED, CF_ALONE,
     "struct utofu_barrier_caps has the manual's members in its order", judge_barrier_caps},
    {"struct-vbg-setting", "3.4.4.1", 2, CF_PROMISED, CF_ALONE,
     "struct utofu_vbg_setting has the manual's members in its order", judge_vbg_setting},
    {"struct-sizes", "3.2.2.1", 0, CF_UNSAID, CF_ALONE, "how many bytes the structures have",
     measure_structures},
    {"functions", "3", 2, CF_PROMISED, CF_ALONE,
     "the interface is one of C99: functions with the manual's parameters", judge_functions},
};
CF_GROUP(constants_group, "constants", cases);
