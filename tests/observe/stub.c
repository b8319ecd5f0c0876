/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library with the 65 functions of the uTofu manual and no other: one process, which communicates
 * with itself. Its ids, STADDs and descriptors have nothing in common with those of libtofucom.
 */
#include <stdlib.h>
#include <string.h>

/* the header says nothing of visibility */
#pragma GCC visibility push(default)
#include <utofu.h>
#pragma GCC visibility pop

enum { MAX_VCQS = 8, MAX_REGIONS = 32, RING = 4096, MAX_GATES = 16, BLOCK = 1 << 20 };

struct region {
    utofu_stadd_t stadd;
    char *addr;
    size_t size;
};

static struct vcq {
    int used;
    utofu_tni_id_t tni;
    utofu_cmp_id_t cmp;
    struct region regions[MAX_REGIONS];
    void *tcq[RING];
    struct utofu_mrq_notice mrq[RING];
    unsigned int tcq_head, tcq_tail, mrq_head, mrq_tail;
} vcqs[MAX_VCQS];

static struct gate {
    int started, op;
    uint64_t words[8];
    double doubles[4];
    size_t n;
} gates[MAX_GATES];
static unsigned int num_gates;
static utofu_stadd_t next_stadd = (utofu_stadd_t)BLOCK << 20;

/* A descriptor: what the prepare functions write. */
struct desc {
    uint64_t kind, remote, lcl, rmt, length, edata, flags, a, b, check;
};
enum { PUT = 11, GET, ARMW, NOP, PIGGYBACK };

static struct vcq *vcq_of(utofu_vcq_hdl_t handle)
{
    return handle >= 0x100 && handle < 0x100 + MAX_VCQS && vcqs[handle - 0x100].used
               ? &vcqs[handle - 0x100]
               : NULL;
}

static utofu_vcq_id_t id_of(const struct vcq *v, unsigned int path)
{
    return (uint64_t)(v - vcqs) << 40 | (uint64_t)v->tni << 8 | (uint64_t)v->cmp << 4 | path;
}

static char *memory_of(struct vcq *v, utofu_stadd_t stadd, size_t length)
{
    for (int i = 0; i < MAX_REGIONS; i++) {
        struct region *r = &v->regions[i];
        if (r->addr && stadd >= r->stadd && stadd + length <= r->stadd + r->size)
            return r->addr + (stadd - r->stadd);
    }
    return NULL;
}

static void push_notice(struct vcq *v, uint8_t type, const struct desc *d, const struct vcq *other,
                        uint64_t value)
{
    v->mrq[v->mrq_tail++ % RING] = (struct utofu_mrq_notice){.notice_type = type,
                                                             .vcq_id = id_of(other, 0),
                                                             .edata = d->edata,
                                                             .rmt_value = value,
                                                             .lcl_stadd = d->lcl,
                                                             .rmt_stadd = d->rmt};
}

static uint64_t change_word(char *at, const struct desc *d)
{
    uint64_t old = 0, new = d->a;

    memcpy(&old, at, d->length);
    new = d->b == UTOFU_ARMW_OP_ADD ? old + d->a : d->b == UTOFU_ARMW_OP_XOR ? old ^ d->a : d->a;
    memcpy(at, &new, d->length);
    return old;
}

static int execute(struct vcq *v, const struct desc *d, void *cbdata)
{
    static const uint8_t types[] = {[PUT] = UTOFU_MRQ_TYPE_LCL_PUT,
                                    [GET] = UTOFU_MRQ_TYPE_LCL_GET,
                                    [ARMW] = UTOFU_MRQ_TYPE_LCL_ARMW,
                                    [PIGGYBACK] = UTOFU_MRQ_TYPE_LCL_PUT};
    struct vcq *w = d->kind == NOP ? v : &vcqs[d->remote >> 40 & 7];
    char *to = d->kind == NOP ? NULL : memory_of(w, d->rmt, d->length);
    uint64_t value = 0;

    if (v->tcq_tail - v->tcq_head == RING)
        return UTOFU_ERR_BUSY;
    if (d->kind == PUT)
        memcpy(to, memory_of(v, d->lcl, d->length), d->length);
    else if (d->kind == GET)
        memcpy(memory_of(v, d->lcl, d->length), to, d->length);
    else if (d->kind == PIGGYBACK)
        memcpy(to, &d->a, d->length < 16 ? d->length : 16);
    else if (d->kind == ARMW)
        value = change_word(to, d);
    if (d->flags & UTOFU_ONESIDED_FLAG_TCQ_NOTICE)
        v->tcq[v->tcq_tail++ % RING] = cbdata;
    if (d->kind == NOP)
        return UTOFU_SUCCESS;
    if (d->flags & UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE)
        push_notice(w, types[d->kind] + 1, d, v, 0);
    if (d->flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE)
        push_notice(v, types[d->kind], d, w, value);
    return UTOFU_SUCCESS;
}

static int start(utofu_vcq_hdl_t handle, struct desc d, size_t stride, size_t blocks, void *cbdata)
{
    struct vcq *v = vcq_of(handle);

    if (!v)
        return UTOFU_ERR_INVALID_VCQ_HDL;
    for (size_t i = 0; i < blocks; i++, d.lcl += stride, d.rmt += stride) {
        int rc = execute(v, &d, cbdata);
        if (rc != UTOFU_SUCCESS)
            return rc;
    }
    return UTOFU_SUCCESS;
}

static int prepare(utofu_vcq_hdl_t handle, struct desc d, size_t stride, size_t blocks, void *desc,
                   size_t *size)
{
    if (!vcq_of(handle))
        return UTOFU_ERR_INVALID_VCQ_HDL;
    d.check = 0x5eed;
    for (size_t i = 0; i < blocks; i++, d.lcl += stride, d.rmt += stride)
        memcpy((char *)desc + i * sizeof(d), &d, sizeof(d));
    *size = blocks * sizeof(d);
    return UTOFU_SUCCESS;
}

/*
 * The start functions and their twins
 */

#define TRANSFER_PARAMETERS                                                                        \
    utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t lcl_stadd,                   \
        utofu_stadd_t rmt_stadd, size_t length
#define DESC(kind)                                                                                 \
    ((struct desc){(kind), rmt_vcq_id, lcl_stadd, rmt_stadd, length, edata, flags, 0, 0, 0})
#define TRANSFERS(name, kind)                                                                      \
    int utofu_##name(TRANSFER_PARAMETERS, uint64_t edata, unsigned long int flags, void *cbdata)   \
    {                                                                                              \
        return start(vcq_hdl, DESC(kind), 0, 1, cbdata);                                           \
    }                                                                                              \
    int utofu_##name##_gap(TRANSFER_PARAMETERS, uint64_t edata, unsigned long int flags,           \
                           size_t mtu, size_t gap, void *cbdata)                                   \
    {                                                                                              \
        return mtu > 1920 || gap > 255 ? UTOFU_ERR_INVALID_ARG                                     \
                                       : start(vcq_hdl, DESC(kind), 0, 1, cbdata);                 \
    }                                                                                              \
    int utofu_##name##_stride(TRANSFER_PARAMETERS, size_t stride, size_t num_blocks,               \
                              uint64_t edata, unsigned long int flags, void *cbdata)               \
    {                                                                                              \
        return start(vcq_hdl, DESC(kind), stride, num_blocks, cbdata);                             \
    }                                                                                              \
    int utofu_##name##_stride_gap(TRANSFER_PARAMETERS, size_t stride, size_t num_blocks,           \
                                  uint64_t edata, unsigned long int flags, size_t mtu, size_t gap, \
                                  void *cbdata)                                                    \
    {                                                                                              \
        return mtu > 1920 || gap > 255 ? UTOFU_ERR_INVALID_ARG                                     \
                                       : start(vcq_hdl, DESC(kind), stride, num_blocks, cbdata);   \
    }                                                                                              \
    int utofu_prepare_##name(TRANSFER_PARAMETERS, uint64_t edata, unsigned long int flags,         \
                             void *desc, size_t *desc_size)                                        \
    {                                                                                              \
        return prepare(vcq_hdl, DESC(kind), 0, 1, desc, desc_size);                                \
    }                                                                                              \
    int utofu_prepare_##name##_gap(TRANSFER_PARAMETERS, uint64_t edata, unsigned long int flags,   \
                                   size_t mtu, size_t gap, void *desc, size_t *desc_size)          \
    {                                                                                              \
        return mtu > 1920 || gap > 255 ? UTOFU_ERR_INVALID_ARG                                     \
                                       : prepare(vcq_hdl, DESC(kind), 0, 1, desc, desc_size);      \
    }                                                                                              \
    int utofu_prepare_##name##_stride(TRANSFER_PARAMETERS, size_t stride, size_t num_blocks,       \
                                      uint64_t edata, unsigned long int flags, void *desc,         \
                                      size_t *desc_size)                                           \
    {                                                                                              \
        return prepare(vcq_hdl, DESC(kind), stride, num_blocks, desc, desc_size);                  \
    }                                                                                              \
    int utofu_prepare_##name##_stride_gap(TRANSFER_PARAMETERS, size_t stride, size_t num_blocks,   \
                                          uint64_t edata, unsigned long int flags, size_t mtu,     \
                                          size_t gap, void *desc, size_t *desc_size)               \
    {                                                                                              \
        return mtu > 1920 || gap > 255                                                             \
                   ? UTOFU_ERR_INVALID_ARG                                                         \
                   : prepare(vcq_hdl, DESC(kind), stride, num_blocks, desc, desc_size);            \
    }
TRANSFERS(put, PUT)
TRANSFERS(get, GET)

static struct desc piggyback(utofu_vcq_id_t remote, const void *data, utofu_stadd_t rmt,
                             size_t length, uint64_t edata, unsigned long flags)
{
    struct desc d = {PIGGYBACK, remote, 0, rmt, length, edata, flags, 0, 0, 0};

    memcpy(&d.a, data, length < 16 ? length : 16);
    return d;
}

int utofu_put_piggyback(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, void *lcl_data,
                        utofu_stadd_t rmt_stadd, size_t length, uint64_t edata,
                        unsigned long int flags, void *cbdata)
{
    return start(vcq_hdl, piggyback(rmt_vcq_id, lcl_data, rmt_stadd, length, edata, flags), 0, 1,
                 cbdata);
}

int utofu_put_piggyback8(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, uint64_t lcl_data,
                         utofu_stadd_t rmt_stadd, size_t length, uint64_t edata,
                         unsigned long int flags, void *cbdata)
{
    return start(vcq_hdl, piggyback(rmt_vcq_id, &lcl_data, rmt_stadd, length, edata, flags), 0, 1,
                 cbdata);
}

int utofu_prepare_put_piggyback(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, void *lcl_data,
                                utofu_stadd_t rmt_stadd, size_t length, uint64_t edata,
                                unsigned long int flags, void *desc, size_t *desc_size)
{
    return prepare(vcq_hdl, piggyback(rmt_vcq_id, lcl_data, rmt_stadd, length, edata, flags), 0, 1,
                   desc, desc_size);
}

int utofu_prepare_put_piggyback8(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id,
                                 uint64_t lcl_data, utofu_stadd_t rmt_stadd, size_t length,
                                 uint64_t edata, unsigned long int flags, void *desc,
                                 size_t *desc_size)
{
    return prepare(vcq_hdl, piggyback(rmt_vcq_id, &lcl_data, rmt_stadd, length, edata, flags), 0, 1,
                   desc, desc_size);
}

#define ATOMIC(value, op, size)                                                                    \
    ((struct desc){ARMW, rmt_vcq_id, 0, rmt_stadd, (size), edata, flags, (value), (op), 0})
#define ATOMICS(bits, type)                                                                        \
    int utofu_armw##bits(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id,                       \
                         enum utofu_armw_op armw_op, type op_value, utofu_stadd_t rmt_stadd,       \
                         uint64_t edata, unsigned long int flags, void *cbdata)                    \
    {                                                                                              \
        return start(vcq_hdl, ATOMIC(op_value, armw_op, bits), 0, 1, cbdata);                      \
    }                                                                                              \
    int utofu_cswap##bits(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, type old_value,      \
                          type new_value, utofu_stadd_t rmt_stadd, uint64_t edata,                 \
                          unsigned long int flags, void *cbdata)                                   \
    {                                                                                              \
        (void)old_value;                                                                           \
        return start(vcq_hdl, ATOMIC(new_value, 0, bits), 0, 1, cbdata);                           \
    }                                                                                              \
    int utofu_prepare_armw##bits(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id,               \
                                 enum utofu_armw_op armw_op, type op_value,                        \
                                 utofu_stadd_t rmt_stadd, uint64_t edata, unsigned long int flags, \
                                 void *desc, size_t *desc_size)                                    \
    {                                                                                              \
        return prepare(vcq_hdl, ATOMIC(op_value, armw_op, bits), 0, 1, desc, desc_size);           \
    }                                                                                              \
    int utofu_prepare_cswap##bits(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id,              \
                                  type old_value, type new_value, utofu_stadd_t rmt_stadd,         \
                                  uint64_t edata, unsigned long int flags, void *desc,             \
                                  size_t *desc_size)                                               \
    {                                                                                              \
        (void)old_value;                                                                           \
        return prepare(vcq_hdl, ATOMIC(new_value, 0, bits), 0, 1, desc, desc_size);                \
    }
ATOMICS(4, uint32_t)
ATOMICS(8, uint64_t)

int utofu_nop(utofu_vcq_hdl_t vcq_hdl, unsigned long int flags, void *cbdata)
{
    return start(vcq_hdl, (struct desc){.kind = NOP, .flags = flags}, 0, 1, cbdata);
}

int utofu_prepare_nop(utofu_vcq_hdl_t vcq_hdl, unsigned long int flags, void *desc,
                      size_t *desc_size)
{
    return prepare(vcq_hdl, (struct desc){.kind = NOP, .flags = flags}, 0, 1, desc, desc_size);
}

int utofu_post_toq(utofu_vcq_hdl_t vcq_hdl, void *desc, size_t desc_size, void *cbdata)
{
    struct vcq *v = vcq_of(vcq_hdl);

    if (!v)
        return UTOFU_ERR_INVALID_VCQ_HDL;
    for (size_t i = 0; i < desc_size / sizeof(struct desc); i++) {
        const struct desc *d = (const struct desc *)desc + i;
        if (d->check != 0x5eed)
            return UTOFU_ERR_INVALID_DESC;
        int rc = execute(v, d, cbdata);
        if (rc != UTOFU_SUCCESS)
            return rc;
    }
    return UTOFU_SUCCESS;
}

/*
 * Polls
 */

int utofu_poll_tcq(utofu_vcq_hdl_t vcq_hdl, unsigned long int flags, void **cbdata)
{
    struct vcq *v = vcq_of(vcq_hdl);

    if (!v || flags)
        return v ? UTOFU_ERR_INVALID_FLAGS : UTOFU_ERR_INVALID_VCQ_HDL;
    if (v->tcq_head == v->tcq_tail)
        return UTOFU_ERR_NOT_FOUND;
    *cbdata = v->tcq[v->tcq_head++ % RING];
    return UTOFU_SUCCESS;
}

int utofu_poll_mrq(utofu_vcq_hdl_t vcq_hdl, unsigned long int flags,
                   struct utofu_mrq_notice *notice)
{
    struct vcq *v = vcq_of(vcq_hdl);

    if (!v || flags)
        return v ? UTOFU_ERR_INVALID_FLAGS : UTOFU_ERR_INVALID_VCQ_HDL;
    if (v->mrq_head == v->mrq_tail)
        return UTOFU_ERR_NOT_FOUND;
    *notice = v->mrq[v->mrq_head++ % RING];
    return UTOFU_SUCCESS;
}

int utofu_query_num_unread_tcq(utofu_vcq_hdl_t vcq_hdl, size_t *count)
{
    struct vcq *v = vcq_of(vcq_hdl);

    if (v)
        *count = v->tcq_tail - v->tcq_head;
    return v ? UTOFU_SUCCESS : UTOFU_ERR_INVALID_VCQ_HDL;
}

int utofu_query_num_unread_mrq(utofu_vcq_hdl_t vcq_hdl, size_t *count)
{
    struct vcq *v = vcq_of(vcq_hdl);

    if (v)
        *count = v->mrq_tail - v->mrq_head;
    return v ? UTOFU_SUCCESS : UTOFU_ERR_INVALID_VCQ_HDL;
}

/*
 * TNIs, VCQs, memory
 */

int utofu_get_onesided_tnis(utofu_tni_id_t **tni_ids, size_t *num_tnis)
{
    *tni_ids = calloc(2, sizeof(**tni_ids));
    (*tni_ids)[1] = 1;
    *num_tnis = 2;
    return UTOFU_SUCCESS;
}

int utofu_get_barrier_tnis(utofu_tni_id_t **tni_ids, size_t *num_tnis)
{
    return utofu_get_onesided_tnis(tni_ids, num_tnis);
}

int utofu_query_onesided_caps(utofu_tni_id_t tni_id, struct utofu_onesided_caps **tni_caps)
{
    static struct utofu_onesided_caps caps = {.num_cmp_ids = 8,
                                              .num_reserved_stags = 256,
                                              .cache_line_size = 256,
                                              .stag_address_alignment = 256,
                                              .max_toq_desc_size = sizeof(struct desc),
                                              .max_putget_size = BLOCK,
                                              .max_piggyback_size = 16,
                                              .max_edata_size = 1,
                                              .max_mtu = 1920,
                                              .max_gap = 255};
    *tni_caps = &caps;
    return tni_id > 1 ? UTOFU_ERR_INVALID_TNI_ID : UTOFU_SUCCESS;
}

int utofu_query_barrier_caps(utofu_tni_id_t tni_id, struct utofu_barrier_caps **tni_caps)
{
    static struct utofu_barrier_caps caps = {.max_uint64_reduction = 6, .max_double_reduction = 3};

    *tni_caps = &caps;
    return tni_id > 1 ? UTOFU_ERR_INVALID_TNI_ID : UTOFU_SUCCESS;
}

int utofu_create_vcq_with_cmp_id(utofu_tni_id_t tni_id, utofu_cmp_id_t cmp_id,
                                 unsigned long int flags, utofu_vcq_hdl_t *vcq_hdl)
{
    (void)flags;
    for (int i = 0; i < MAX_VCQS; i++) {
        if (vcqs[i].used)
            continue;
        vcqs[i] = (struct vcq){.used = 1, .tni = tni_id, .cmp = cmp_id};
        *vcq_hdl = 0x100u + (unsigned int)i;
        return UTOFU_SUCCESS;
    }
    return UTOFU_ERR_FULL;
}

int utofu_create_vcq(utofu_tni_id_t tni_id, unsigned long int flags, utofu_vcq_hdl_t *vcq_hdl)
{
    return utofu_create_vcq_with_cmp_id(tni_id, 7, flags, vcq_hdl);
}

int utofu_free_vcq(utofu_vcq_hdl_t vcq_hdl)
{
    struct vcq *v = vcq_of(vcq_hdl);

    if (v)
        v->used = 0;
    return v ? UTOFU_SUCCESS : UTOFU_ERR_INVALID_VCQ_HDL;
}

int utofu_query_vcq_id(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t *vcq_id)
{
    struct vcq *v = vcq_of(vcq_hdl);

    if (v)
        *vcq_id = id_of(v, 0);
    return v ? UTOFU_SUCCESS : UTOFU_ERR_INVALID_VCQ_HDL;
}

int utofu_construct_vcq_id(uint8_t coords[], utofu_tni_id_t tni_id, utofu_cq_id_t cq_id,
                           utofu_cmp_id_t cmp_id, utofu_vcq_id_t *vcq_id)
{
    (void)coords;
    *vcq_id = (uint64_t)cq_id << 40 | (uint64_t)tni_id << 8 | (uint64_t)cmp_id << 4;
    return UTOFU_SUCCESS;
}

int utofu_set_vcq_id_path(utofu_vcq_id_t *vcq_id, uint8_t path_coords[])
{
    *vcq_id = (*vcq_id & ~0xfull) | path_coords[0] | path_coords[1] << 1 | path_coords[2] << 3;
    return UTOFU_SUCCESS;
}

int utofu_query_vcq_info(utofu_vcq_id_t vcq_id, uint8_t coords[], utofu_tni_id_t *tni_id,
                         utofu_cq_id_t *cq_id, uint16_t *extra_val)
{
    memset(coords, 0, 6);
    *tni_id = vcq_id >> 8 & 7;
    *cq_id = vcq_id >> 40 & 7;
    *extra_val = 0;
    return UTOFU_SUCCESS;
}

int utofu_get_path_id(utofu_vcq_id_t vcq_id, uint8_t path_coords[], utofu_path_id_t *path_id)
{
    (void)vcq_id;
    *path_id = (utofu_path_id_t)(1 + (path_coords[0] | path_coords[1] << 1 | path_coords[2] << 3));
    return UTOFU_SUCCESS;
}

int utofu_get_path_coords(utofu_vcq_id_t vcq_id, utofu_path_id_t path_id, uint8_t path_coords[])
{
    unsigned int path = path_id ? path_id - 1u : (unsigned int)(vcq_id & 0xf);

    path_coords[0] = path & 1;
    path_coords[1] = path >> 1 & 3;
    path_coords[2] = path >> 3 & 1;
    return UTOFU_SUCCESS;
}

int utofu_reg_mem(utofu_vcq_hdl_t vcq_hdl, void *addr, size_t size, unsigned long int flags,
                  utofu_stadd_t *stadd)
{
    struct vcq *v = vcq_of(vcq_hdl);

    (void)flags;
    for (int i = 0; v && i < MAX_REGIONS; i++) {
        if (v->regions[i].addr)
            continue;
        *stadd = next_stadd;
        next_stadd += (utofu_stadd_t)BLOCK << 10;
        v->regions[i] = (struct region){*stadd, addr, size};
        return UTOFU_SUCCESS;
    }
    return v ? UTOFU_ERR_FULL : UTOFU_ERR_INVALID_VCQ_HDL;
}

int utofu_reg_mem_with_stag(utofu_vcq_hdl_t vcq_hdl, void *addr, size_t size, unsigned int stag,
                            unsigned long int flags, utofu_stadd_t *stadd)
{
    struct vcq *v = vcq_of(vcq_hdl);

    (void)flags;
    if (!v)
        return UTOFU_ERR_INVALID_VCQ_HDL;
    *stadd = (utofu_stadd_t)(stag + 1) << 32 | (utofu_stadd_t)(v - vcqs) << 60;
    v->regions[MAX_REGIONS - 1] = (struct region){*stadd, addr, size};
    return UTOFU_SUCCESS;
}

int utofu_query_stadd(utofu_vcq_id_t vcq_id, unsigned int stag, utofu_stadd_t *stadd)
{
    *stadd = (utofu_stadd_t)(stag + 1) << 32 | (vcq_id >> 40 & 7) << 60;
    return UTOFU_SUCCESS;
}

int utofu_dereg_mem(utofu_vcq_hdl_t vcq_hdl, utofu_stadd_t stadd, unsigned long int flags)
{
    struct vcq *v = vcq_of(vcq_hdl);

    (void)flags;
    for (int i = 0; v && i < MAX_REGIONS; i++) {
        if (v->regions[i].addr && v->regions[i].stadd == stadd) {
            v->regions[i].addr = NULL;
            return UTOFU_SUCCESS;
        }
    }
    return v ? UTOFU_ERR_INVALID_STADD : UTOFU_ERR_INVALID_VCQ_HDL;
}

/*
 * Barriers
 */

static struct gate *gate_of(utofu_vbg_id_t id)
{
    return id >> 8 == 0x77 && (id & 0xff) < num_gates ? &gates[id & 0xff] : NULL;
}

int utofu_alloc_vbg(utofu_tni_id_t tni_id, size_t num_vbgs, unsigned long int flags,
                    utofu_vbg_id_t vbg_ids[])
{
    (void)tni_id;
    (void)flags;
    for (size_t i = 0; i < num_vbgs; i++)
        vbg_ids[i] = 0x7700u + num_gates++;
    return UTOFU_SUCCESS;
}

int utofu_free_vbg(utofu_vbg_id_t vbg_ids[], size_t num_vbgs)
{
    return num_vbgs && gate_of(vbg_ids[0]) ? UTOFU_SUCCESS : UTOFU_ERR_INVALID_VBG_ID;
}

int utofu_set_vbg(struct utofu_vbg_setting vbg_settings[], size_t num_vbg_settings)
{
    return num_vbg_settings && gate_of(vbg_settings[0].vbg_id) ? UTOFU_SUCCESS
                                                               : UTOFU_ERR_INVALID_VBG_ID;
}

int utofu_query_vbg_info(utofu_vbg_id_t vbg_id, uint8_t coords[], utofu_tni_id_t *tni_id,
                         utofu_bg_id_t *bg_id, uint16_t *extra_val)
{
    memset(coords, 0, 6);
    *tni_id = 0;
    *bg_id = vbg_id & 0xff;
    *extra_val = 0;
    return UTOFU_SUCCESS;
}

static int start_gate(utofu_vbg_id_t id, int op, const void *data, size_t size, size_t n)
{
    struct gate *g = gate_of(id);

    if (!g || g->started)
        return g ? UTOFU_ERR_BUSY : UTOFU_ERR_INVALID_VBG_ID;
    g->started = 2;
    g->op = op;
    g->n = n;
    if (op == UTOFU_REDUCE_OP_BFPSUM)
        memcpy(g->doubles, data, n * size);
    else if (data)
        memcpy(g->words, data, n * size);
    return UTOFU_SUCCESS;
}

/* The first poll finds the communication incomplete. */
static int poll_gate(utofu_vbg_id_t id, void *data, const void *from, size_t size)
{
    struct gate *g = gate_of(id);

    if (!g || !g->started)
        return g ? UTOFU_ERR_BUSY : UTOFU_ERR_INVALID_VBG_ID;
    if (--g->started)
        return UTOFU_ERR_NOT_COMPLETED;
    if (data)
        memcpy(data, from, g->n * size);
    return UTOFU_SUCCESS;
}

int utofu_barrier(utofu_vbg_id_t vbg_id, unsigned long int flags)
{
    return flags ? UTOFU_ERR_INVALID_FLAGS
                 : start_gate(vbg_id, UTOFU_REDUCE_OP_BARRIER, NULL, 0, 0);
}

int utofu_reduce_uint64(utofu_vbg_id_t vbg_id, enum utofu_reduce_op op, uint64_t data[],
                        size_t num_data, unsigned long int flags)
{
    return flags ? UTOFU_ERR_INVALID_FLAGS : start_gate(vbg_id, (int)op, data, 8, num_data);
}

int utofu_reduce_double(utofu_vbg_id_t vbg_id, enum utofu_reduce_op op, double data[],
                        size_t num_data, unsigned long int flags)
{
    return flags ? UTOFU_ERR_INVALID_FLAGS : start_gate(vbg_id, (int)op, data, 8, num_data);
}

int utofu_poll_barrier(utofu_vbg_id_t vbg_id, unsigned long int flags)
{
    return flags ? UTOFU_ERR_INVALID_FLAGS : poll_gate(vbg_id, NULL, NULL, 0);
}

int utofu_poll_reduce_uint64(utofu_vbg_id_t vbg_id, unsigned long int flags, uint64_t data[])
{
    return flags ? UTOFU_ERR_INVALID_FLAGS
                 : poll_gate(vbg_id, data, gates[vbg_id & (MAX_GATES - 1)].words, 8);
}

int utofu_poll_reduce_double(utofu_vbg_id_t vbg_id, unsigned long int flags, double data[])
{
    return flags ? UTOFU_ERR_INVALID_FLAGS
                 : poll_gate(vbg_id, data, gates[vbg_id & (MAX_GATES - 1)].doubles, 8);
}

/*
 * Versions
 */

void utofu_query_tofu_version(int *major_ver, int *minor_ver)
{
    *major_ver = 3;
    *minor_ver = 0;
}

void utofu_query_utofu_version(int *major_ver, int *minor_ver)
{
    *major_ver = UTOFU_VERSION_MAJOR;
    *minor_ver = UTOFU_VERSION_MINOR;
}

int utofu_query_my_coords(uint8_t coords[])
{
    memset(coords, 0, 6);
    return UTOFU_SUCCESS;
}
