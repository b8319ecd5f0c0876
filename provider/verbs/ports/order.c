/* SPDX-License-Identifier: Apache-2.0 */
/* Order in which an adapter places arriving data: see order.h. */
#include "order.h"

#include <errno.h>
#include <stdio.h>
#include <sys/utsname.h>

#include "ud.h"
#include "util/env.h"
#include "util/log.h"

#if defined(__x86_64__) || defined(__i386__)
#    define ON_X86 1
#    include <cpuid.h>
#else
#    define ON_X86 0
#endif

enum { PAGE = 4096 };

/* Values of rdma-core 47 (libibverbs/verbs.h), which earlier headers do not define. */
enum { RETURN_CAPS = 1, WHOLE_MSG = 1, ALIGNED_128_BYTES = 2 };

/* Asks the queue pair which order it promises for writes. It has to be in RTS: rdma-core's
 * mlx5_query_qp_data_in_order() (providers/mlx5/verbs.c) returns 0 in other states. On hosts other
 * than x86, ibv_query_qp_data_in_order() (libibverbs/verbs.c) returns 0 for every device. rdma-core
 * 36 to 46 has no capabilities: there mlx5 returns 0 for every flag, so this asks again without
 * flags. The promise is for one message; a device that keeps the packets of a message in order
 * keeps all packets of the queue pair in order. efa_query_qp_data_in_order()
 * (providers/efa/verbs.c) promises aligned 128 bytes only. */
static enum vp_order query_promise(struct ibv_qp *qp)
{
#ifdef VP_HAS_DATA_IN_ORDER
    int caps = ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_WRITE, RETURN_CAPS);

    if ((caps & WHOLE_MSG) || ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_WRITE, 0) == 1)
        return VP_ORDER_PROMISED;
    return caps & ALIGNED_128_BYTES ? VP_ORDER_128 : VP_ORDER_UNKNOWN;
#else
    (void)qp;
    return VP_ORDER_UNASKED;
#endif
}

/* Brings a queue pair to RTS without sending anything. */
static bool connect_to_itself(const struct vp_device *dev, const struct vp_port *port,
                              struct ibv_qp *qp)
{
    struct vp_ud_addr own = {.qpn = qp->qp_num};
    struct ibv_gid_entry gid;
    struct ibv_port_attr about;
    uint32_t index = (uint32_t)(port->gid_index >= 0 ? port->gid_index : 0);

    if (ibv_query_port(dev->context, port->num, &about) ||
        ibv_query_gid_ex(dev->context, port->num, index, &gid, 0))
        return false;
    own.gid = gid.gid;
    own.lid = about.lid;
    struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT,
                               .pkey_index = port->pkey_index,
                               .port_num = port->num,
                               .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
                              .path_mtu = about.active_mtu,
                              .dest_qp_num = qp->qp_num,
                              .min_rnr_timer = 12};
    struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7};
    vp_ud_path(port, &own, &rtr.ah_attr);
    return ibv_modify_qp(qp, &init,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ==
               0 &&
           ibv_modify_qp(qp, &rtr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) ==
               0 &&
           ibv_modify_qp(qp, &rts,
                         IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                             IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) == 0;
}

static bool can_register(const struct vp_device *dev, void *page, int flags)
{
    struct ibv_mr *mr =
        ibv_reg_mr(dev->pd, page, PAGE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | flags);

    if (mr)
        ibv_dereg_mr(mr);
    return mr != NULL;
}

/* New firmware of mlx5 makes relaxed keys only. UCX's uct_ib_mlx5_devx_md_open() reads the
 * capability mkc_order_write_after_write_ro_only (src/uct/ib/mlx5/dv/ib_mlx5dv_md.c), which needs a
 * query specific to mlx5. This registers a page in both ways instead. */
static bool requires_relaxed_keys(const struct vp_device *dev)
{
    static _Alignas(PAGE) char page[PAGE];

    if (can_register(dev, page, 0) || errno == ENOMEM || errno == EAGAIN || errno == EPERM)
        return false; /* locked memory is short, whatever the kind of key */
    return can_register(dev, page, VP_ACCESS_RELAXED);
}

/* True if relaxed ordering is faster on this CPU. According to UCX's
 * ucs_cpu_model_prefer_relaxed_order() (src/ucs/arch/cpu.h), this holds for AMD Zen: families 17h,
 * 19h and 1Ah. */
static bool prefers_relaxed_keys(void)
{
#if ON_X86
    unsigned int a, vendor_b, vendor_c, vendor_d, b, c, d;

    if (!__get_cpuid(0, &a, &vendor_b, &vendor_c, &vendor_d) || !__get_cpuid(1, &a, &b, &c, &d))
        return false;
    unsigned int family = (a >> 8 & 0xf) + (a >> 20 & 0xff);
    return vendor_b == signature_AMD_ebx && vendor_c == signature_AMD_ecx &&
           vendor_d == signature_AMD_edx && (family == 0x17 || family == 0x19 || family == 0x1a);
#else
    return false;
#endif
}

/* The memcpy() of kernels before 6.4 uses string instructions, which all current x86 CPUs prefer
 * (arch/x86/lib/memcpy_64.S, __memcpy()). Later kernels use them only with fast short string
 * instructions (FSRM). Their memcpy_orig() copies backwards if the lowest byte of the source
 * address is less than that of the destination address. */
bool vp_kernel_copies_forward(const char *release, bool has_fsrm)
{
    unsigned int major = 0, minor = 0;

    if (has_fsrm)
        return true;
    return sscanf(release, "%u.%u", &major, &minor) == 2 &&
           (major < 6 || (major == 6 && minor < 4));
}

static bool has_fsrm(void)
{
#if ON_X86
    unsigned int a, b, c, d;

    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && d >> 4 & 1;
#else
    return false;
#endif
}

/* rdma_rxe copies each packet with memcpy() (drivers/infiniband/sw/rxe/rxe_mr.c). */
static enum vp_order detect_rxe_order(void)
{
    struct utsname host;

    return uname(&host) == 0 && vp_kernel_copies_forward(host.release, has_fsrm())
               ? VP_ORDER_SOFTWARE
               : VP_ORDER_BACKWARD;
}

static enum vp_order detect_order(const struct vp_device *dev, const struct vp_port *port,
                                  struct ibv_qp *qp)
{
    switch (ut_env_num(UT_ENV_VERBS_ORDER)) {
    case UT_VERBS_ORDER_TRUST:
        return VP_ORDER_TRUSTED;
    case UT_VERBS_ORDER_SAFE:
        return VP_ORDER_SAFE;
    case UT_VERBS_ORDER_RELAXED:
        return VP_ORDER_RELAXED;
    default:
        if (dev->attr.vendor_id == VP_VENDOR_RXE)
            return detect_rxe_order();
        if (!connect_to_itself(dev, port, qp))
            ut_debug(VP_CAT, "a queue pair of %s cannot be connected to itself",
                     ibv_get_device_name(dev->context->device));
        return query_promise(qp);
    }
}

/* Keys with relaxed ordering void a promise of the device. So they are used only if the device
 * makes no other keys, if they are faster and the device promises nothing, or if the user asks for
 * them. */
void vp_detect_order(struct vp_device *dev, const struct vp_port *port, struct ibv_qp *qp)
{
    enum vp_order order = detect_order(dev, port, qp);
    bool only = requires_relaxed_keys(dev);

    dev->relaxed =
        only || order == VP_ORDER_RELAXED ||
        ((order == VP_ORDER_UNKNOWN || order == VP_ORDER_UNASKED) && prefers_relaxed_keys());
    if (only && order == VP_ORDER_TRUSTED)
        ut_warn(VP_CAT,
                "UTOFU_VERBS_ORDER=trust: %s makes only memory keys with relaxed ordering, so data "
                "may still arrive in any order",
                ibv_get_device_name(dev->context->device));
    if (dev->relaxed && order != VP_ORDER_SAFE)
        order = VP_ORDER_RELAXED;
    dev->order = (uint8_t)order;
}

/* On x86, PCIe and the CPU's caches transfer lines of 64 bytes. Other architectures may store in
 * any order, so only a word is certain. */
static enum vp_unit unit_for_order(enum vp_order order)
{
    static const uint8_t units[] = {
        [VP_ORDER_UNKNOWN] = VP_UNIT_64,     [VP_ORDER_UNASKED] = VP_UNIT_64,
        [VP_ORDER_SAFE] = VP_UNIT_WORD,      [VP_ORDER_TRUSTED] = VP_UNIT_WHOLE,
        [VP_ORDER_PROMISED] = VP_UNIT_WHOLE, [VP_ORDER_SOFTWARE] = VP_UNIT_WHOLE,
        [VP_ORDER_128] = VP_UNIT_128,        [VP_ORDER_RELAXED] = VP_UNIT_64,
        [VP_ORDER_BACKWARD] = VP_UNIT_WORD,
    };

    if (!ON_X86 && order != VP_ORDER_TRUSTED)
        return VP_UNIT_WORD;
    return (enum vp_unit)units[order];
}

enum vp_unit vp_unit_of(const struct vp_device *dev)
{
    return unit_for_order((enum vp_order)dev->order);
}

enum vp_unit vp_qp_unit(const struct vp_device *dev, struct ibv_qp *qp)
{
    if (dev->order != VP_ORDER_PROMISED && dev->order != VP_ORDER_128)
        return vp_unit_of(dev);
    return (enum vp_unit)vp_weaker_unit((uint8_t)vp_unit_of(dev),
                                        (uint8_t)unit_for_order(query_promise(qp)));
}

uint32_t vp_unit_bytes(enum vp_unit unit)
{
    static const uint8_t bytes[] = {
        [VP_UNIT_WHOLE] = 0, [VP_UNIT_128] = 128, [VP_UNIT_64] = 64, [VP_UNIT_WORD] = 8};

    return bytes[unit];
}

struct vp_order_split vp_split_by_order(enum vp_unit unit, uint64_t to, uint32_t length,
                                        uint32_t packet, bool strong)
{
    struct vp_order_split cut = {0};
    uint32_t bytes = vp_unit_bytes(unit);

    if (!bytes || !length)
        return cut;
    uint32_t in_first = (uint32_t)(to % bytes);
    uint32_t in_last = (uint32_t)((to + length - 1) % bytes) + 1;
    if (strong && in_last < length)
        cut.tail = in_last;
    if (in_first && length - cut.tail > packet)
        cut.head = bytes - in_first;
    return cut;
}

bool vp_needs_read_flush(const struct vp_prov *prov)
{
    return prov->many_ports && ut_env_num(UT_ENV_VERBS_ORDER) != UT_VERBS_ORDER_TRUST;
}

const char *vp_unit_text(enum vp_unit unit, char text[VP_ORDER_TEXT])
{
    if (unit == VP_UNIT_WHOLE)
        snprintf(text, VP_ORDER_TEXT, "order");
    else
        snprintf(text, VP_ORDER_TEXT, "any order but for units of %u bytes", vp_unit_bytes(unit));
    return text;
}

const char *vp_order_reason(enum vp_order order)
{
    static const char *const texts[] = {
        [VP_ORDER_UNKNOWN] = "the adapter promises none",
        [VP_ORDER_UNASKED] = "this libibverbs has no query",
        [VP_ORDER_SAFE] = "UTOFU_VERBS_ORDER=safe",
        [VP_ORDER_TRUSTED] = "UTOFU_VERBS_ORDER=trust",
        [VP_ORDER_PROMISED] = "the adapter promises it",
        [VP_ORDER_SOFTWARE] = "Soft-RoCE keeps it",
        [VP_ORDER_BACKWARD] = "Soft-RoCE of this kernel and CPU may copy backwards",
        [VP_ORDER_128] = "the adapter promises each aligned 128 bytes",
        [VP_ORDER_RELAXED] = "memory keys with relaxed ordering",
    };

    return texts[order];
}
