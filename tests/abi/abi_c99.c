/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header alone, twice, in strict C99: every function has the parameters of the manual. The
 * types are written out here; a pointer to a function of another type is an error.
 */
#include <utofu.h>
#include <utofu.h>

#define HDL   utofu_vcq_hdl_t
#define ID    utofu_vcq_id_t
#define STADD utofu_stadd_t
#define FLAGS unsigned long int

typedef int get_tnis(uint16_t **, size_t *);
typedef int with_hdl(uintptr_t);
typedef int with_hdl_count(HDL, size_t *);
typedef int with_vbg(utofu_vbg_id_t, FLAGS);
typedef void version(int *, int *);

typedef int put_or_get(HDL, ID, STADD, STADD, size_t, uint64_t, FLAGS, void *);
typedef int gap(HDL, ID, STADD, STADD, size_t, uint64_t, FLAGS, size_t, size_t, void *);
typedef int stride(HDL, ID, STADD, STADD, size_t, size_t, size_t, uint64_t, FLAGS, void *);
typedef int stride_gap(HDL, ID, STADD, STADD, size_t, size_t, size_t, uint64_t, FLAGS, size_t,
                       size_t, void *);
typedef int piggyback(HDL, ID, void *, STADD, size_t, uint64_t, FLAGS, void *);
typedef int piggyback8(HDL, ID, uint64_t, STADD, size_t, uint64_t, FLAGS, void *);
typedef int armw4(HDL, ID, enum utofu_armw_op, uint32_t, STADD, uint64_t, FLAGS, void *);
typedef int armw8(HDL, ID, enum utofu_armw_op, uint64_t, STADD, uint64_t, FLAGS, void *);
typedef int cswap4(HDL, ID, uint32_t, uint32_t, STADD, uint64_t, FLAGS, void *);
typedef int cswap8(HDL, ID, uint64_t, uint64_t, STADD, uint64_t, FLAGS, void *);
typedef int nop(HDL, FLAGS, void *);

typedef int p_put_or_get(HDL, ID, STADD, STADD, size_t, uint64_t, FLAGS, void *, size_t *);
typedef int p_gap(HDL, ID, STADD, STADD, size_t, uint64_t, FLAGS, size_t, size_t, void *, size_t *);
typedef int p_stride(HDL, ID, STADD, STADD, size_t, size_t, size_t, uint64_t, FLAGS, void *,
                     size_t *);
typedef int p_stride_gap(HDL, ID, STADD, STADD, size_t, size_t, size_t, uint64_t, FLAGS, size_t,
                         size_t, void *, size_t *);
typedef int p_piggyback(HDL, ID, void *, STADD, size_t, uint64_t, FLAGS, void *, size_t *);
typedef int p_piggyback8(HDL, ID, uint64_t, STADD, size_t, uint64_t, FLAGS, void *, size_t *);
typedef int p_armw4(HDL, ID, enum utofu_armw_op, uint32_t, STADD, uint64_t, FLAGS, void *,
                    size_t *);
typedef int p_armw8(HDL, ID, enum utofu_armw_op, uint64_t, STADD, uint64_t, FLAGS, void *,
                    size_t *);
typedef int p_cswap4(HDL, ID, uint32_t, uint32_t, STADD, uint64_t, FLAGS, void *, size_t *);
typedef int p_cswap8(HDL, ID, uint64_t, uint64_t, STADD, uint64_t, FLAGS, void *, size_t *);
typedef int p_nop(HDL, FLAGS, void *, size_t *);

static get_tnis *const get_tnis_fn[] = {utofu_get_onesided_tnis, utofu_get_barrier_tnis};
static int (*const onesided_caps_fn)(uint16_t,
                                     struct utofu_onesided_caps **) = utofu_query_onesided_caps;
static int (*const barrier_caps_fn)(uint16_t,
                                    struct utofu_barrier_caps **) = utofu_query_barrier_caps;
static int (*const create_fn)(uint16_t, FLAGS, uintptr_t *) = utofu_create_vcq;
static int (*const create_cmp_fn)(uint16_t, uint16_t, FLAGS,
                                  uintptr_t *) = utofu_create_vcq_with_cmp_id;
static with_hdl *const free_fn = utofu_free_vcq;
static int (*const query_id_fn)(HDL, uint64_t *) = utofu_query_vcq_id;
static int (*const construct_fn)(uint8_t[], uint16_t, uint16_t, uint16_t,
                                 uint64_t *) = utofu_construct_vcq_id;
static int (*const set_path_fn)(uint64_t *, uint8_t[]) = utofu_set_vcq_id_path;
static int (*const info_fn[])(uint64_t, uint8_t[], uint16_t *, uint16_t *,
                              uint16_t *) = {utofu_query_vcq_info, utofu_query_vbg_info};
static int (*const alloc_vbg_fn)(uint16_t, size_t, FLAGS, uint64_t[]) = utofu_alloc_vbg;
static int (*const free_vbg_fn)(uint64_t[], size_t) = utofu_free_vbg;
static int (*const set_vbg_fn)(struct utofu_vbg_setting[], size_t) = utofu_set_vbg;
static int (*const path_id_fn)(uint64_t, uint8_t[], uint8_t *) = utofu_get_path_id;
static int (*const path_coords_fn)(uint64_t, uint8_t, uint8_t[]) = utofu_get_path_coords;
static int (*const reg_fn)(HDL, void *, size_t, FLAGS, uint64_t *) = utofu_reg_mem;
static int (*const reg_stag_fn)(HDL, void *, size_t, unsigned int, FLAGS,
                                uint64_t *) = utofu_reg_mem_with_stag;
static int (*const stadd_fn)(uint64_t, unsigned int, uint64_t *) = utofu_query_stadd;
static int (*const dereg_fn)(HDL, uint64_t, FLAGS) = utofu_dereg_mem;

static put_or_get *const put_or_get_fn[] = {utofu_put, utofu_get};
static gap *const gap_fn[] = {utofu_put_gap, utofu_get_gap};
static stride *const stride_fn[] = {utofu_put_stride, utofu_get_stride};
static stride_gap *const stride_gap_fn[] = {utofu_put_stride_gap, utofu_get_stride_gap};
static piggyback *const piggyback_fn = utofu_put_piggyback;
static piggyback8 *const piggyback8_fn = utofu_put_piggyback8;
static armw4 *const armw4_fn = utofu_armw4;
static armw8 *const armw8_fn = utofu_armw8;
static cswap4 *const cswap4_fn = utofu_cswap4;
static cswap8 *const cswap8_fn = utofu_cswap8;
static nop *const nop_fn = utofu_nop;

static p_put_or_get *const p_put_or_get_fn[] = {utofu_prepare_put, utofu_prepare_get};
static p_gap *const p_gap_fn[] = {utofu_prepare_put_gap, utofu_prepare_get_gap};
static p_stride *const p_stride_fn[] = {utofu_prepare_put_stride, utofu_prepare_get_stride};
static p_stride_gap *const p_stride_gap_fn[] = {utofu_prepare_put_stride_gap,
                                                utofu_prepare_get_stride_gap};
static p_piggyback *const p_piggyback_fn = utofu_prepare_put_piggyback;
static p_piggyback8 *const p_piggyback8_fn = utofu_prepare_put_piggyback8;
static p_armw4 *const p_armw4_fn = utofu_prepare_armw4;
static p_armw8 *const p_armw8_fn = utofu_prepare_armw8;
static p_cswap4 *const p_cswap4_fn = utofu_prepare_cswap4;
static p_cswap8 *const p_cswap8_fn = utofu_prepare_cswap8;
static p_nop *const p_nop_fn = utofu_prepare_nop;

static int (*const post_fn)(HDL, void *, size_t, void *) = utofu_post_toq;
static int (*const poll_tcq_fn)(HDL, FLAGS, void **) = utofu_poll_tcq;
static int (*const poll_mrq_fn)(HDL, FLAGS, struct utofu_mrq_notice *) = utofu_poll_mrq;
static with_hdl_count *const unread_fn[] = {utofu_query_num_unread_tcq, utofu_query_num_unread_mrq};
static with_vbg *const with_vbg_fn[] = {utofu_barrier, utofu_poll_barrier};
static int (*const reduce_uint64_fn)(uint64_t, enum utofu_reduce_op, uint64_t[], size_t,
                                     FLAGS) = utofu_reduce_uint64;
static int (*const reduce_double_fn)(uint64_t, enum utofu_reduce_op, double[], size_t,
                                     FLAGS) = utofu_reduce_double;
static int (*const poll_uint64_fn)(uint64_t, FLAGS, uint64_t[]) = utofu_poll_reduce_uint64;
static int (*const poll_double_fn)(uint64_t, FLAGS, double[]) = utofu_poll_reduce_double;
static version *const version_fn[] = {utofu_query_tofu_version, utofu_query_utofu_version};
static int (*const coords_fn)(uint8_t[]) = utofu_query_my_coords;
static void (*const last_error_fn)(const char *) = utofu_get_last_error;

/* Uses every table above, so that none is removed, and no function is missing at run time. */
#define HAS(fn)       ((fn) != 0)
#define HAS_BOTH(fns) ((fns)[0] != 0 && (fns)[1] != 0)

int main(void)
{
    int found = HAS_BOTH(get_tnis_fn) && HAS(onesided_caps_fn) && HAS(barrier_caps_fn) &&
                HAS(create_fn) && HAS(create_cmp_fn) && HAS(free_fn) && HAS(query_id_fn) &&
                HAS(construct_fn) && HAS(set_path_fn) && HAS_BOTH(info_fn) && HAS(alloc_vbg_fn) &&
                HAS(free_vbg_fn) && HAS(set_vbg_fn) && HAS(path_id_fn) && HAS(path_coords_fn) &&
                HAS(reg_fn) && HAS(reg_stag_fn) && HAS(stadd_fn) && HAS(dereg_fn) &&
                HAS_BOTH(put_or_get_fn) && HAS_BOTH(gap_fn) && HAS_BOTH(stride_fn) &&
                HAS_BOTH(stride_gap_fn) && HAS(piggyback_fn) && HAS(piggyback8_fn) &&
                HAS(armw4_fn) && HAS(armw8_fn) && HAS(cswap4_fn) && HAS(cswap8_fn) && HAS(nop_fn) &&
                HAS_BOTH(p_put_or_get_fn) && HAS_BOTH(p_gap_fn) && HAS_BOTH(p_stride_fn) &&
                HAS_BOTH(p_stride_gap_fn) && HAS(p_piggyback_fn) && HAS(p_piggyback8_fn) &&
                HAS(p_armw4_fn) && HAS(p_armw8_fn) && HAS(p_cswap4_fn) && HAS(p_cswap8_fn) &&
                HAS(p_nop_fn) && HAS(post_fn) && HAS(poll_tcq_fn) && HAS(poll_mrq_fn) &&
                HAS_BOTH(unread_fn) && HAS_BOTH(with_vbg_fn) && HAS(reduce_uint64_fn) &&
                HAS(reduce_double_fn) && HAS(poll_uint64_fn) && HAS(poll_double_fn) &&
                HAS_BOTH(version_fn) && HAS(coords_fn) && HAS(last_error_fn);
    return found ? 0 : 1;
}
