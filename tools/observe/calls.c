/* SPDX-License-Identifier: Apache-2.0 */
/* What each call means to the recording, to the timeline and the counters, and to the checks. */
#include "observe/comm.h"

#include <dlfcn.h>
#include <string.h>

#include "observe/config.h"
#include "observe/descs.h"
#include "observe/errors.h"
#include "observe/findings.h"
#include "observe/freed.h"
#include "observe/ops.h"
#include "observe/utofu_regions.h"
#include "record/hold.h"
#include "record/tape.h"
#include "stats/region.h"
#include "util/clock.h"

enum {
    MAX_MTU = 1920,
    INVALID = UTOFU_ERR_INVALID_ARG, /* codes from here on: nothing was done */
};

/* Marks a call on a VCQ that threads may not call at the same time. */
static void enter_vcq(struct ob_vcq *v, const void *caller)
{
    if (OB_UNLIKELY(ob_config.check) && v && !(v->of.flags & UTOFU_VCQ_FLAG_THREAD_SAFE))
        ob_check_enter(v, caller);
}

static void leave_vcq(struct ob_vcq *v)
{
    if (OB_UNLIKELY(ob_config.check) && v && !(v->of.flags & UTOFU_VCQ_FLAG_THREAD_SAFE))
        ob_check_leave(v);
}

/*
 * Communications
 */

static void ob_comm_begin(struct ob_comm *c)
{
    if (OB_UNLIKELY(ob_config.hold) && c->kind == OB_PUT)
        ut_record_hold(c->remote, c->rmt_stadd, c->length, c->flags);
    if (OB_UNLIKELY(ob_config.check)) {
        struct ob_vcq *v = ob_vcq_find(c->vcq_hdl);
        enter_vcq(v, c->caller);
        if (v) {
            ob_lock(&v->lock);
            ob_check_comm(v, c);
            ob_unlock(&v->lock);
        }
    }
    c->begin = ob_config.record ? ut_tape_time() : 0;
    c->at = ob_config.track ? ut_clock_ns() : 0;
}

/* MTU and gap in one number; 0: the largest MTU, no gap. */
static uint32_t pace_of(const struct ob_comm *c)
{
    uint32_t mtu = c->mtu ? (uint32_t)c->mtu : MAX_MTU;

    return mtu == MAX_MTU && c->gap == 0 ? 0 : mtu | (uint32_t)c->gap << 16;
}

static void record_comm(struct ut_tape *t, const struct ob_vcq *v, const struct ob_comm *c)
{
    static const uint8_t ops[] = {[OB_PUT] = UT_RECORD_PUT,
                                  [OB_GET] = UT_RECORD_GET,
                                  [OB_ARMW] = UT_RECORD_ARMW,
                                  [OB_NOP] = UT_RECORD_NOP};
    const uint32_t both = (uint32_t)(UTOFU_ONESIDED_FLAG_SPS(0xf) | UTOFU_ONESIDED_FLAG_PATH(0xf));
    const struct ut_tape_comm comm = {.vcq = v->of.id,
                                      .remote = c->remote,
                                      .word = (uint32_t)c->length | ((uint32_t)c->flags & both),
                                      .pace = pace_of(c),
                                      .head = (uint32_t)(uint16_t)c->flags << 16 |
                                              (uint32_t)(uint8_t)c->edata << 8 | ops[c->kind]};

    for (size_t i = 0; i < c->num_blocks; i++) {
        if (t->used > UT_TAPE_SIZE - UT_TAPE_RECORD_MAX)
            ut_tape_flush(t);
        ut_record_comm(t, &comm, c->rmt_stadd + i * c->stride, v->of.flags,
                       i || c->same_call ? UT_RECORD_SAME_CALL : 0, c->begin);
    }
}

static void track_comm(struct ob_vcq *v, const struct ob_comm *c, uint64_t now)
{
    ob_lock(&v->lock);
    for (size_t i = 0; i < c->num_blocks; i++)
        ob_op_start(v, c, i, now);
    ob_unlock(&v->lock);
}

static int __attribute__((noinline, cold))
fail_comm(struct ob_vcq *v, enum ob_function function, int rc, const void *caller)
{
    if (rc == UTOFU_ERR_BUSY && v && ob_config.track) {
        ob_lock(&v->lock);
        ob_op_busy(v);
        if (ob_config.check)
            ob_check_full(v, caller);
        ob_unlock(&v->lock);
    }
    return ob_error(function, rc, caller);
}

static int ob_comm_end(struct ob_comm *c, int rc)
{
    struct ob_vcq *v = ob_vcq_find(c->vcq_hdl);

    leave_vcq(v);
    if (OB_UNLIKELY(rc != UTOFU_SUCCESS || !v))
        return fail_comm(v, c->function, rc, c->caller);
    if (ob_config.record) {
        struct ut_tape *t = ut_tape_enter();
        if (t) {
            ut_tape_begin_call(t, c->begin);
            record_comm(t, v, c);
            ut_record_end_comm(t, c->begin, (uint32_t)c->length);
        }
    }
    if (ob_config.track)
        track_comm(v, c, ut_clock_ns());
    return rc;
}

/*
 * Other calls
 */

static void ob_call_begin(struct ob_call *call, enum ob_function function, const void *caller)
{
    call->function = (uint16_t)function;
    call->caller = caller;
    call->vcq = NULL;
    call->rc = 0;
    call->begin = ob_config.record ? ut_tape_time() : 0;
    /* of a poll only the end is used: one clock reading less */
    bool poll = function == OB_utofu_poll_tcq || function == OB_utofu_poll_mrq;
    call->at = ob_config.track && !poll ? ut_clock_ns() : 0;
}

static void find_vcq(struct ob_call *call, utofu_vcq_hdl_t handle)
{
    call->vcq = ob_vcq_find(handle);
    if (call->vcq)
        call->of = call->vcq->of;
    enter_vcq(call->vcq, call->caller);
}

static void add_vcq(const struct ob_call *call, unsigned long flags, const utofu_vcq_hdl_t *handle,
                    int cmp)
{
    struct ob_vcq *v = call->rc == UTOFU_SUCCESS && handle ? ob_vcq_add(*handle, flags, cmp) : NULL;

    if (v && ob_config.record)
        ut_record_made(&v->of);
}

static void ob_after_create_vcq(const struct ob_call *call, utofu_tni_id_t tni, unsigned long flags,
                                const utofu_vcq_hdl_t *handle)
{
    (void)tni;
    add_vcq(call, flags, handle, -1);
}

static void ob_after_create_vcq_with_cmp_id(const struct ob_call *call, utofu_tni_id_t tni,
                                            utofu_cmp_id_t cmp, unsigned long flags,
                                            const utofu_vcq_hdl_t *handle)
{
    (void)tni;
    add_vcq(call, flags, handle, cmp);
}

static void ob_before_free_vcq(struct ob_call *call, utofu_vcq_hdl_t handle)
{
    find_vcq(call, handle);
    if (!call->vcq)
        return;
    if (ob_config.check) {
        ob_lock(&call->vcq->lock);
        ob_check_freed(call->vcq, call->caller);
        ob_unlock(&call->vcq->lock);
    }
    ob_vcq_remove(call->vcq); /* another thread may get the handle before this call returns */
}

static void ob_after_free_vcq(struct ob_call *call, utofu_vcq_hdl_t handle)
{
    struct ob_vcq *v = call->vcq;

    leave_vcq(v);
    if (!v)
        return;
    if (call->rc != UTOFU_SUCCESS) {
        ob_vcq_restore(v, handle);
        return;
    }
    if (ob_config.record)
        ut_record_freed(&call->of);
    if (ob_config.track) {
        ob_lock(&v->lock);
        ob_ops_end(v);
        ob_unlock(&v->lock);
    }
}

static void ob_after_set_vcq_id_path(const struct ob_call *call, const utofu_vcq_id_t *id,
                                     const uint8_t path[])
{
    if (call->rc == UTOFU_SUCCESS && id && path)
        ob_vcq_note_path(*id, path);
}

static void ob_after_reg_mem(const struct ob_call *call, utofu_vcq_hdl_t handle, void *addr,
                             size_t size, unsigned long flags, const utofu_stadd_t *stadd)
{
    struct ob_vcq *v = ob_config.check ? ob_vcq_find(handle) : NULL;

    (void)flags;
    if (!v || call->rc != UTOFU_SUCCESS || !stadd)
        return;
    ob_lock(&v->lock);
    ob_region_add(v, *stadd, addr, size);
    ob_unlock(&v->lock);
}

static void ob_after_reg_mem_with_stag(const struct ob_call *call, utofu_vcq_hdl_t handle,
                                       void *addr, size_t size, unsigned int stag,
                                       unsigned long flags, const utofu_stadd_t *stadd)
{
    (void)stag;
    ob_after_reg_mem(call, handle, addr, size, flags, stadd);
}

static void ob_before_dereg_mem(struct ob_call *call, utofu_vcq_hdl_t handle, utofu_stadd_t stadd,
                                unsigned long flags)
{
    struct ob_vcq *v = ob_config.check ? ob_vcq_find(handle) : NULL;

    (void)flags;
    call->vcq = v;
    if (!v)
        return;
    ob_lock(&v->lock);
    ob_check_dereg(v, stadd, call->caller);
    ob_unlock(&v->lock);
}

static void ob_after_dereg_mem(const struct ob_call *call, utofu_vcq_hdl_t handle,
                               utofu_stadd_t stadd, unsigned long flags)
{
    (void)handle;
    (void)flags;
    if (!call->vcq || call->rc != UTOFU_SUCCESS)
        return;
    ob_lock(&call->vcq->lock);
    ob_region_remove(call->vcq, stadd);
    ob_unlock(&call->vcq->lock);
}

/*
 * utofu_post_toq()
 */

static void ob_before_post_toq(struct ob_call *call, utofu_vcq_hdl_t handle, const void *desc,
                               size_t size, void *cbdata)
{
    struct ob_comm comm;

    (void)cbdata;
    find_vcq(call, handle);
    if (!desc || (!ob_config.check && !ob_config.hold))
        return;
    for (size_t at = 0, n; at < size; at += n) {
        n = ob_desc_find((const char *)desc + at, size - at, &comm);
        if (n == 0)
            break;
        comm.caller = call->caller;
        if (ob_config.hold && at + n == size && comm.kind == OB_PUT) {
            ut_record_hold(comm.remote, comm.rmt_stadd, comm.length, comm.flags);
            call->begin = ut_tape_time();
        }
        if (ob_config.check && call->vcq) {
            ob_lock(&call->vcq->lock);
            ob_check_comm(call->vcq, &comm);
            ob_unlock(&call->vcq->lock);
        }
    }
}

static void take_desc(const struct ob_call *call, struct ut_tape *t, struct ob_comm *comm,
                      uint64_t now)
{
    comm->function = call->function;
    comm->caller = call->caller;
    comm->begin = call->begin;
    comm->at = call->at;
    if (t)
        record_comm(t, call->vcq, comm);
    if (ob_config.track)
        track_comm(call->vcq, comm, now);
}

static void ob_after_post_toq(const struct ob_call *call, utofu_vcq_hdl_t handle, const void *desc,
                              size_t size, void *cbdata)
{
    struct ut_tape *t = NULL;
    uint64_t now = ob_config.track ? ut_clock_ns() : 0;
    struct ob_comm comm;

    (void)handle;
    leave_vcq(call->vcq);
    if (call->rc != UTOFU_SUCCESS || !call->vcq) {
        if (call->rc == UTOFU_ERR_BUSY)
            fail_comm(call->vcq, call->function, call->rc, call->caller);
        return;
    }
    if (ob_config.record && (t = ut_tape_enter()))
        ut_tape_begin_call(t, call->begin);
    for (size_t at = 0, n; at < size; at += n) {
        n = ob_desc_find((const char *)desc + at, size - at, &comm);
        if (n == 0) {
            __atomic_fetch_add(&ob_num_unknown_descs, 1, __ATOMIC_RELAXED);
            break;
        }
        comm.cbdata = cbdata;
        comm.same_call = at > 0;
        take_desc(call, t, &comm, now);
    }
    if (t)
        ut_record_end_comm(t, call->begin, 0);
}

/*
 * Polls
 */

static void ob_before_poll_tcq(struct ob_call *call, utofu_vcq_hdl_t handle, unsigned long flags,
                               void **cbdata)
{
    (void)flags;
    (void)cbdata;
    find_vcq(call, handle);
}

static void ob_after_poll_tcq(const struct ob_call *call, utofu_vcq_hdl_t handle,
                              unsigned long flags, void **cbdata)
{
    struct ob_vcq *v = call->vcq;

    (void)handle;
    (void)flags;
    leave_vcq(v);
    if (!v || call->rc <= INVALID)
        return;
    if (ob_config.record)
        ut_record_tcq(&call->of, call->rc);
    if (!ob_config.track)
        return;
    uint64_t now = ut_clock_ns();
    ob_lock(&v->lock);
    if (call->rc == UTOFU_ERR_NOT_FOUND)
        ob_op_empty(v, now);
    else
        ob_op_tcq(v, call->rc, *cbdata, now, call->caller);
    ob_unlock(&v->lock);
}

static void ob_before_poll_mrq(struct ob_call *call, utofu_vcq_hdl_t handle, unsigned long flags,
                               struct utofu_mrq_notice *notice)
{
    (void)flags;
    (void)notice;
    find_vcq(call, handle);
}

static void ob_after_poll_mrq(const struct ob_call *call, utofu_vcq_hdl_t handle,
                              unsigned long flags, const struct utofu_mrq_notice *notice)
{
    struct ob_vcq *v = call->vcq;

    (void)handle;
    (void)flags;
    leave_vcq(v);
    if (!v || call->rc <= INVALID)
        return;
    if (ob_config.record)
        ut_record_mrq(&call->of, call->rc, notice);
    if (!ob_config.track)
        return;
    uint64_t now = ut_clock_ns();
    ob_lock(&v->lock);
    if (call->rc == UTOFU_ERR_NOT_FOUND)
        ob_op_empty(v, now);
    else
        ob_op_mrq(v, call->rc, notice, now, call->caller);
    ob_unlock(&v->lock);
}

/*
 * Barriers
 */

static void ob_after_set_vbg(const struct ob_call *call, const struct utofu_vbg_setting settings[],
                             size_t num)
{
    if (call->rc == UTOFU_SUCCESS && ob_config.record)
        ut_record_set(settings, num);
}

static void start_barrier(const struct ob_call *call, utofu_vbg_id_t gate, unsigned int op)
{
    if (call->rc != UTOFU_SUCCESS)
        return;
    if (ob_config.record)
        ut_record_start(gate, op, call->begin);
    if (ob_config.track)
        ob_gate_start(gate, op, call->at);
}

static void ob_after_barrier(const struct ob_call *call, utofu_vbg_id_t gate, unsigned long flags)
{
    (void)flags;
    start_barrier(call, gate, UTOFU_REDUCE_OP_BARRIER);
}

static void ob_after_reduce_uint64(const struct ob_call *call, utofu_vbg_id_t gate,
                                   enum utofu_reduce_op op, const uint64_t data[], size_t num,
                                   unsigned long flags)
{
    (void)data;
    (void)num;
    (void)flags;
    start_barrier(call, gate, op);
}

static void ob_after_reduce_double(const struct ob_call *call, utofu_vbg_id_t gate,
                                   enum utofu_reduce_op op, const double data[], size_t num,
                                   unsigned long flags)
{
    (void)data;
    (void)num;
    (void)flags;
    start_barrier(call, gate, op);
}

static void end_barrier(const struct ob_call *call, utofu_vbg_id_t gate)
{
    if (call->rc <= INVALID)
        return;
    if (ob_config.record)
        ut_record_result(gate, call->begin, call->rc);
    if (ob_config.track && call->rc != UTOFU_ERR_NOT_COMPLETED)
        ob_gate_result(gate, call->rc, ut_clock_ns());
}

static void ob_after_poll_barrier(const struct ob_call *call, utofu_vbg_id_t gate,
                                  unsigned long flags)
{
    (void)flags;
    end_barrier(call, gate);
}

static void ob_after_poll_reduce_uint64(const struct ob_call *call, utofu_vbg_id_t gate,
                                        unsigned long flags, const uint64_t data[])
{
    (void)flags;
    (void)data;
    end_barrier(call, gate);
}

static void ob_after_poll_reduce_double(const struct ob_call *call, utofu_vbg_id_t gate,
                                        unsigned long flags, const double data[])
{
    (void)flags;
    (void)data;
    end_barrier(call, gate);
}

/*
 * Regions
 */

typedef int region_call(const char *name);
typedef int seen_call(utofu_stadd_t stadd, size_t length);

static int check_name(const char *name)
{
    if (!name)
        return UTOFU_ERR_INVALID_POINTER;
    size_t length = strnlen(name, UT_REGION_NAME_MAX + 1);
    if (length == 0 || length > UT_REGION_NAME_MAX)
        return UTOFU_ERR_INVALID_ARG;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)name[i] < ' ' || name[i] == 0x7f || name[i] == '"' || name[i] == '\\')
            return UTOFU_ERR_INVALID_ARG;
    return UTOFU_SUCCESS;
}

/* A library that has regions, too, gets them first, and its result counts. */
static int pass_region(const char *function, const char *name, bool enter)
{
    region_call *next = (region_call *)(uintptr_t)dlsym(RTLD_NEXT, function);
    int rc = next ? next(name) : check_name(name);

    if (rc != UTOFU_SUCCESS || __atomic_load_n(&ob_state, __ATOMIC_ACQUIRE) != OB_ON)
        return rc;
    if (ob_config.trace || ob_config.stats)
        rc = enter ? ut_region_start(name) : ut_region_stop(name);
    if (rc == UTOFU_SUCCESS && ob_config.record)
        ut_record_region(name, enter);
    return rc;
}

OB_EXPORT __attribute__((weak)) int utofu_profile_start(const char *name)
{
    return pass_region("utofu_profile_start", name, true);
}

OB_EXPORT __attribute__((weak)) int utofu_profile_stop(const char *name)
{
    return pass_region("utofu_profile_stop", name, false);
}

OB_EXPORT __attribute__((weak)) int utofu_profile_seen(utofu_stadd_t stadd, size_t length)
{
    seen_call *next = (seen_call *)(uintptr_t)dlsym(RTLD_NEXT, "utofu_profile_seen");
    int rc = next ? next(stadd, length) : length ? UTOFU_SUCCESS : UTOFU_ERR_INVALID_SIZE;

    if (rc == UTOFU_SUCCESS && __atomic_load_n(&ob_state, __ATOMIC_ACQUIRE) == OB_ON &&
        ob_config.record)
        ut_record_seen(stadd, length);
    return rc;
}

/*
 * The wrappers
 */

#include "wrappers.inc"
