/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every number, size and offset that object files of existing programs depend on. The numbers are
 * written out here, not taken from the header, so that a mistake in the header is detected.
 */
#include <stddef.h>
#include <stdint.h>
#include <utofu.h>

#define SAME(value, number)  _Static_assert((value) == (number), #value " is " #number)
#define BITS(value, number)  SAME((unsigned long)(value), number##UL)
#define TYPE(type, expected) _Static_assert(_Generic((type)0, expected : 1), #type)
#define SIZE(type, bytes)    SAME(sizeof(type), bytes)
#define MEMBER(type, name, at, bytes)                                                              \
    SAME(offsetof(struct type, name), at);                                                         \
    SAME(sizeof(((struct type *)0)->name), bytes)
#define MEMBER_TYPE(type, name, expected)                                                          \
    _Static_assert(_Generic(((struct type *)0)->name, expected : 1), #type "::" #name)

SAME(UTOFU_VERSION_MAJOR, 1);
SAME(UTOFU_VERSION_MINOR, 0);
BITS(UTOFU_ONESIDED_CAP_FLAG_SESSION_MODE, 0x1);
BITS(UTOFU_ONESIDED_CAP_FLAG_ARMW, 0x2);
BITS(UTOFU_ONESIDED_CAP_ARMW_OP_CSWAP, 0x1);
BITS(UTOFU_ONESIDED_CAP_ARMW_OP_SWAP, 0x2);
BITS(UTOFU_ONESIDED_CAP_ARMW_OP_ADD, 0x4);
BITS(UTOFU_ONESIDED_CAP_ARMW_OP_XOR, 0x8);
BITS(UTOFU_ONESIDED_CAP_ARMW_OP_AND, 0x10);
BITS(UTOFU_ONESIDED_CAP_ARMW_OP_OR, 0x20);
BITS(UTOFU_BARRIER_CAP_REDUCE_OP_BARRIER, 0x2);
BITS(UTOFU_BARRIER_CAP_REDUCE_OP_BAND, 0x4);
BITS(UTOFU_BARRIER_CAP_REDUCE_OP_BOR, 0x8);
BITS(UTOFU_BARRIER_CAP_REDUCE_OP_BXOR, 0x10);
BITS(UTOFU_BARRIER_CAP_REDUCE_OP_MAX, 0x20);
BITS(UTOFU_BARRIER_CAP_REDUCE_OP_MAXLOC, 0x40);
BITS(UTOFU_BARRIER_CAP_REDUCE_OP_SUM, 0x80);
BITS(UTOFU_BARRIER_CAP_REDUCE_OP_BFPSUM, 0x100);
BITS(UTOFU_VCQ_FLAG_THREAD_SAFE, 0x1);
BITS(UTOFU_VCQ_FLAG_EXCLUSIVE, 0x2);
BITS(UTOFU_VCQ_FLAG_SESSION_MODE, 0x4);
BITS(UTOFU_VBG_FLAG_THREAD_SAFE, 0x1);
BITS(UTOFU_REG_MEM_FLAG_READ_ONLY, 0x1);
BITS(UTOFU_ONESIDED_FLAG_STRONG_ORDER, 0x1);
BITS(UTOFU_ONESIDED_FLAG_PACKET_RESPONSE, 0x2);
BITS(UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE, 0x4);
BITS(UTOFU_ONESIDED_FLAG_PADDING, 0x8);
BITS(UTOFU_ONESIDED_FLAG_CACHE_INJECTION, 0x20);
BITS(UTOFU_ONESIDED_FLAG_DELAY_START, 0x100);
BITS(UTOFU_ONESIDED_FLAG_TCQ_NOTICE, 0x4000);
BITS(UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, 0x8000);
SAME(UTOFU_VBG_ID_NULL, 0xffffffffffffffffUL);
SAME(UTOFU_PATH_COORD_NULL, 0xff);
SAME(sizeof(UTOFU_VBG_ID_NULL), 8);
SAME(sizeof(UTOFU_PATH_COORD_NULL), 1);
SAME(sizeof(UTOFU_ONESIDED_FLAG_TCQ_NOTICE), sizeof(unsigned long));
BITS(UTOFU_ONESIDED_FLAG_PATH(0), 0x0);
BITS(UTOFU_ONESIDED_FLAG_PATH(1), 0x10000000);
BITS(UTOFU_ONESIDED_FLAG_PATH((utofu_path_id_t)255), 0xff0000000);
BITS(UTOFU_ONESIDED_FLAG_SPS(0), 0x0);
BITS(UTOFU_ONESIDED_FLAG_SPS(1), 0x1000000);
BITS(UTOFU_ONESIDED_FLAG_SPS(15), 0xf000000);
BITS(UTOFU_ONESIDED_FLAG_SPS(1 + 2), 0x3000000);

SAME(UTOFU_SUCCESS, 0);
SAME(UTOFU_ERR_NOT_FOUND, -1);
SAME(UTOFU_ERR_NOT_COMPLETED, -2);
SAME(UTOFU_ERR_NOT_PROCESSED, -3);
SAME(UTOFU_ERR_BUSY, -4);
SAME(UTOFU_ERR_USED, -5);
SAME(UTOFU_ERR_FULL, -6);
SAME(UTOFU_ERR_NOT_AVAILABLE, -7);
SAME(UTOFU_ERR_NOT_SUPPORTED, -8);
SAME(UTOFU_ERR_TCQ_OTHER, -128);
SAME(UTOFU_ERR_TCQ_DESC, -129);
SAME(UTOFU_ERR_TCQ_MEMORY, -130);
SAME(UTOFU_ERR_TCQ_STADD, -131);
SAME(UTOFU_ERR_TCQ_LENGTH, -132);
SAME(UTOFU_ERR_MRQ_OTHER, -192);
SAME(UTOFU_ERR_MRQ_PEER, -193);
SAME(UTOFU_ERR_MRQ_LCL_MEMORY, -194);
SAME(UTOFU_ERR_MRQ_RMT_MEMORY, -195);
SAME(UTOFU_ERR_MRQ_LCL_STADD, -196);
SAME(UTOFU_ERR_MRQ_RMT_STADD, -197);
SAME(UTOFU_ERR_MRQ_LCL_LENGTH, -198);
SAME(UTOFU_ERR_MRQ_RMT_LENGTH, -199);
SAME(UTOFU_ERR_BARRIER_OTHER, -256);
SAME(UTOFU_ERR_BARRIER_MISMATCH, -257);
SAME(UTOFU_ERR_INVALID_ARG, -512);
SAME(UTOFU_ERR_INVALID_POINTER, -513);
SAME(UTOFU_ERR_INVALID_FLAGS, -514);
SAME(UTOFU_ERR_INVALID_COORDS, -515);
SAME(UTOFU_ERR_INVALID_PATH, -516);
SAME(UTOFU_ERR_INVALID_TNI_ID, -517);
SAME(UTOFU_ERR_INVALID_CQ_ID, -518);
SAME(UTOFU_ERR_INVALID_BG_ID, -519);
SAME(UTOFU_ERR_INVALID_CMP_ID, -520);
SAME(UTOFU_ERR_INVALID_VCQ_HDL, -521);
SAME(UTOFU_ERR_INVALID_VCQ_ID, -522);
SAME(UTOFU_ERR_INVALID_VBG_ID, -523);
SAME(UTOFU_ERR_INVALID_PATH_ID, -524);
SAME(UTOFU_ERR_INVALID_STADD, -525);
SAME(UTOFU_ERR_INVALID_ADDRESS, -526);
SAME(UTOFU_ERR_INVALID_SIZE, -527);
SAME(UTOFU_ERR_INVALID_STAG, -528);
SAME(UTOFU_ERR_INVALID_EDATA, -529);
SAME(UTOFU_ERR_INVALID_NUMBER, -530);
SAME(UTOFU_ERR_INVALID_OP, -531);
SAME(UTOFU_ERR_INVALID_DESC, -532);
SAME(UTOFU_ERR_INVALID_DATA, -533);
SAME(UTOFU_ERR_OUT_OF_RESOURCE, -640);
SAME(UTOFU_ERR_OUT_OF_MEMORY, -641);
SAME(UTOFU_ERR_FATAL, -768);
SIZE(enum utofu_return_code, 4);

SAME(UTOFU_ARMW_OP_SWAP, 1);
SAME(UTOFU_ARMW_OP_ADD, 2);
SAME(UTOFU_ARMW_OP_XOR, 3);
SAME(UTOFU_ARMW_OP_AND, 4);
SAME(UTOFU_ARMW_OP_OR, 5);
SIZE(enum utofu_armw_op, 4);

SAME(UTOFU_REDUCE_OP_BARRIER, 1);
SAME(UTOFU_REDUCE_OP_BAND, 2);
SAME(UTOFU_REDUCE_OP_BOR, 3);
SAME(UTOFU_REDUCE_OP_BXOR, 4);
SAME(UTOFU_REDUCE_OP_MAX, 5);
SAME(UTOFU_REDUCE_OP_MAXLOC, 6);
SAME(UTOFU_REDUCE_OP_SUM, 7);
SAME(UTOFU_REDUCE_OP_BFPSUM, 8);
SIZE(enum utofu_reduce_op, 4);

SAME(UTOFU_MRQ_TYPE_LCL_PUT, 0);
SAME(UTOFU_MRQ_TYPE_RMT_PUT, 1);
SAME(UTOFU_MRQ_TYPE_LCL_GET, 2);
SAME(UTOFU_MRQ_TYPE_RMT_GET, 3);
SAME(UTOFU_MRQ_TYPE_LCL_ARMW, 4);
SAME(UTOFU_MRQ_TYPE_RMT_ARMW, 5);
SIZE(enum utofu_mrq_notice_type, 4);

TYPE(utofu_tni_id_t, uint16_t);
TYPE(utofu_cq_id_t, uint16_t);
TYPE(utofu_bg_id_t, uint16_t);
TYPE(utofu_cmp_id_t, uint16_t);
TYPE(utofu_vcq_hdl_t, uintptr_t);
TYPE(utofu_vcq_id_t, uint64_t);
TYPE(utofu_vbg_id_t, uint64_t);
TYPE(utofu_stadd_t, uint64_t);
TYPE(utofu_path_id_t, uint8_t);

SIZE(struct utofu_onesided_caps, 88);
MEMBER(utofu_onesided_caps, flags, 0, 8);
MEMBER_TYPE(utofu_onesided_caps, flags, unsigned long);
MEMBER(utofu_onesided_caps, armw_ops, 8, 8);
MEMBER_TYPE(utofu_onesided_caps, armw_ops, unsigned long);
MEMBER(utofu_onesided_caps, num_cmp_ids, 16, 4);
MEMBER_TYPE(utofu_onesided_caps, num_cmp_ids, unsigned int);
MEMBER(utofu_onesided_caps, num_reserved_stags, 20, 4);
MEMBER_TYPE(utofu_onesided_caps, num_reserved_stags, unsigned int);
MEMBER(utofu_onesided_caps, cache_line_size, 24, 8);
MEMBER_TYPE(utofu_onesided_caps, cache_line_size, size_t);
MEMBER(utofu_onesided_caps, stag_address_alignment, 32, 8);
MEMBER_TYPE(utofu_onesided_caps, stag_address_alignment, size_t);
MEMBER(utofu_onesided_caps, max_toq_desc_size, 40, 8);
MEMBER_TYPE(utofu_onesided_caps, max_toq_desc_size, size_t);
MEMBER(utofu_onesided_caps, max_putget_size, 48, 8);
MEMBER_TYPE(utofu_onesided_caps, max_putget_size, size_t);
MEMBER(utofu_onesided_caps, max_piggyback_size, 56, 8);
MEMBER_TYPE(utofu_onesided_caps, max_piggyback_size, size_t);
MEMBER(utofu_onesided_caps, max_edata_size, 64, 8);
MEMBER_TYPE(utofu_onesided_caps, max_edata_size, size_t);
MEMBER(utofu_onesided_caps, max_mtu, 72, 8);
MEMBER_TYPE(utofu_onesided_caps, max_mtu, size_t);
MEMBER(utofu_onesided_caps, max_gap, 80, 8);
MEMBER_TYPE(utofu_onesided_caps, max_gap, size_t);

SIZE(struct utofu_barrier_caps, 32);
MEMBER(utofu_barrier_caps, flags, 0, 8);
MEMBER_TYPE(utofu_barrier_caps, flags, unsigned long);
MEMBER(utofu_barrier_caps, reduce_ops, 8, 8);
MEMBER_TYPE(utofu_barrier_caps, reduce_ops, unsigned long);
MEMBER(utofu_barrier_caps, max_uint64_reduction, 16, 8);
MEMBER_TYPE(utofu_barrier_caps, max_uint64_reduction, size_t);
MEMBER(utofu_barrier_caps, max_double_reduction, 24, 8);
MEMBER_TYPE(utofu_barrier_caps, max_double_reduction, size_t);

SIZE(struct utofu_vbg_setting, 48);
MEMBER(utofu_vbg_setting, vbg_id, 0, 8);
MEMBER_TYPE(utofu_vbg_setting, vbg_id, uint64_t);
MEMBER(utofu_vbg_setting, src_lcl_vbg_id, 8, 8);
MEMBER_TYPE(utofu_vbg_setting, src_lcl_vbg_id, uint64_t);
MEMBER(utofu_vbg_setting, src_rmt_vbg_id, 16, 8);
MEMBER_TYPE(utofu_vbg_setting, src_rmt_vbg_id, uint64_t);
MEMBER(utofu_vbg_setting, dst_lcl_vbg_id, 24, 8);
MEMBER_TYPE(utofu_vbg_setting, dst_lcl_vbg_id, uint64_t);
MEMBER(utofu_vbg_setting, dst_rmt_vbg_id, 32, 8);
MEMBER_TYPE(utofu_vbg_setting, dst_rmt_vbg_id, uint64_t);
MEMBER(utofu_vbg_setting, dst_path_coords, 40, 3);

SIZE(struct utofu_mrq_notice, 64);
MEMBER(utofu_mrq_notice, notice_type, 0, 1);
MEMBER_TYPE(utofu_mrq_notice, notice_type, uint8_t);
MEMBER(utofu_mrq_notice, padding1, 1, 7);
MEMBER(utofu_mrq_notice, vcq_id, 8, 8);
MEMBER_TYPE(utofu_mrq_notice, vcq_id, uint64_t);
MEMBER(utofu_mrq_notice, edata, 16, 8);
MEMBER_TYPE(utofu_mrq_notice, edata, uint64_t);
MEMBER(utofu_mrq_notice, rmt_value, 24, 8);
MEMBER_TYPE(utofu_mrq_notice, rmt_value, uint64_t);
MEMBER(utofu_mrq_notice, lcl_stadd, 32, 8);
MEMBER_TYPE(utofu_mrq_notice, lcl_stadd, uint64_t);
MEMBER(utofu_mrq_notice, rmt_stadd, 40, 8);
MEMBER_TYPE(utofu_mrq_notice, rmt_stadd, uint64_t);
MEMBER(utofu_mrq_notice, reserved, 48, 16);

int main(void)
{
    return 0; /* compiling is the test */
}
