/* SPDX-License-Identifier: Apache-2.0 */
/* Barrier communication (manual 3.8). */
#include "api/api.h"
#include "barrier/gate.h"
#include "record/record.h"

static int refuse_vbg(utofu_vbg_id_t vbg_id)
{
    return UT_REFUSE(UTOFU_ERR_INVALID_VBG_ID,
                     "VBG %#llx is not the start/end gate of a circuit that this process has set",
                     (unsigned long long)vbg_id);
}

#define ALWAYS_INLINE static inline __attribute__((always_inline))

ALWAYS_INLINE int start_plain(utofu_vbg_id_t vbg_id, const struct ut_value *value)
{
    int rc = ut_gate_start(vbg_id, value);

    if (__builtin_expect(rc == UTOFU_ERR_BUSY, 0))
        return UT_DECLINE(rc,
                          "%s: the previous barrier communication has not been polled to its end",
                          ut_gate_name(vbg_id).text);
    return rc == UTOFU_ERR_INVALID_VBG_ID ? refuse_vbg(vbg_id) : rc;
}

static int __attribute__((noinline, cold))
start_recorded(utofu_vbg_id_t vbg_id, const struct ut_value *value)
{
    uint64_t since = ut_record_now();
    int rc = start_plain(vbg_id, value);

    if (rc == UTOFU_SUCCESS)
        ut_record_start(vbg_id, value->op, since);
    return rc;
}

static int start_gate(utofu_vbg_id_t vbg_id, const struct ut_value *value)
{
    if (__builtin_expect(ut_record_on, 0))
        return start_recorded(vbg_id, value);
    return start_plain(vbg_id, value);
}

UT_PUBLIC(utofu_barrier);
int utofu_barrier(utofu_vbg_id_t vbg_id, unsigned long int flags)
{
    struct ut_value value;

    if (flags != 0)
        return UT_REFUSE(UTOFU_ERR_INVALID_FLAGS, "barrier flags %#lx are not defined", flags);
    ut_value_barrier(&value);
    return start_gate(vbg_id, &value);
}

UT_PUBLIC(utofu_reduce_uint64);
int utofu_reduce_uint64(utofu_vbg_id_t vbg_id, enum utofu_reduce_op op, uint64_t data[],
                        size_t num_data, unsigned long int flags)
{
    struct ut_value value;

    if (flags != 0)
        return UT_REFUSE(UTOFU_ERR_INVALID_FLAGS, "barrier flags %#lx are not defined", flags);
    if (!data)
        return UT_REFUSE(UTOFU_ERR_INVALID_POINTER, "data is NULL");
    if (op < UTOFU_REDUCE_OP_BAND || op > UTOFU_REDUCE_OP_SUM)
        return UT_REFUSE(UTOFU_ERR_INVALID_OP, "operation %d is not defined for uint64_t values",
                         (int)op);
    if (num_data == 0 || num_data > UT_MAX_UINT64_REDUCTION ||
        (op == UTOFU_REDUCE_OP_MAXLOC && num_data % 2))
        return UT_REFUSE(UTOFU_ERR_INVALID_NUMBER, "%zu values: 1 to %d, and pairs for MAXLOC",
                         num_data, UT_MAX_UINT64_REDUCTION);
    ut_value_uint64(&value, op, data, num_data);
    return start_gate(vbg_id, &value);
}

UT_PUBLIC(utofu_reduce_double);
int utofu_reduce_double(utofu_vbg_id_t vbg_id, enum utofu_reduce_op op, double data[],
                        size_t num_data, unsigned long int flags)
{
    struct ut_value value;

    if (flags != 0)
        return UT_REFUSE(UTOFU_ERR_INVALID_FLAGS, "barrier flags %#lx are not defined", flags);
    if (!data)
        return UT_REFUSE(UTOFU_ERR_INVALID_POINTER, "data is NULL");
    if (op != UTOFU_REDUCE_OP_BFPSUM)
        return UT_REFUSE(UTOFU_ERR_INVALID_OP, "operation %d is not defined for double values",
                         (int)op);
    if (num_data == 0 || num_data > UT_MAX_DOUBLE_REDUCTION)
        return UT_REFUSE(UTOFU_ERR_INVALID_NUMBER, "%zu values: 1 to %d", num_data,
                         UT_MAX_DOUBLE_REDUCTION);
    ut_value_double(&value, op, data, num_data);
    return start_gate(vbg_id, &value);
}

/* The result of a failed poll. The cause that broke the circuit is logged already. */
static int __attribute__((noinline, cold))
end_poll(utofu_vbg_id_t vbg_id, enum ut_gate_kind kind, int rc)
{
    static const char *const kinds[] = {[UT_KIND_BARRIER] = "barrier",
                                        [UT_KIND_UINT64] = "reduction of uint64_t values",
                                        [UT_KIND_DOUBLE] = "reduction of double values"};

    if (rc == UTOFU_ERR_INVALID_VBG_ID)
        return refuse_vbg(vbg_id);
    if (rc == UTOFU_ERR_BUSY)
        return UT_DECLINE(rc, "%s: no %s is in progress on this circuit", ut_gate_name(vbg_id).text,
                          kinds[kind]);
    ut_last_error_code(rc);
    return rc;
}

ALWAYS_INLINE int poll_plain(utofu_vbg_id_t vbg_id, enum ut_gate_kind kind, struct ut_value *result)
{
    int rc = ut_gate_poll(vbg_id, kind, result);

    return __builtin_expect(rc < UTOFU_ERR_NOT_COMPLETED, 0) ? end_poll(vbg_id, kind, rc) : rc;
}

static int __attribute__((noinline, cold))
poll_recorded(utofu_vbg_id_t vbg_id, enum ut_gate_kind kind, struct ut_value *result)
{
    uint64_t since = ut_record_now();
    int rc = poll_plain(vbg_id, kind, result);

    ut_record_result(vbg_id, since, rc);
    return rc;
}

static int poll_kind(utofu_vbg_id_t vbg_id, unsigned long int flags, enum ut_gate_kind kind,
                     struct ut_value *result)
{
    if (flags != 0)
        return UT_REFUSE(UTOFU_ERR_INVALID_FLAGS, "poll flags %#lx are not defined", flags);
    if (__builtin_expect(ut_record_on, 0))
        return poll_recorded(vbg_id, kind, result);
    return poll_plain(vbg_id, kind, result);
}

UT_PUBLIC(utofu_poll_barrier);
int utofu_poll_barrier(utofu_vbg_id_t vbg_id, unsigned long int flags)
{
    struct ut_value result;

    return poll_kind(vbg_id, flags, UT_KIND_BARRIER, &result);
}

UT_PUBLIC(utofu_poll_reduce_uint64);
int utofu_poll_reduce_uint64(utofu_vbg_id_t vbg_id, unsigned long int flags, uint64_t data[])
{
    struct ut_value result;

    if (!data)
        return UT_REFUSE(UTOFU_ERR_INVALID_POINTER, "data is NULL");
    int rc = poll_kind(vbg_id, flags, UT_KIND_UINT64, &result);
    if (rc == UTOFU_SUCCESS) {
        for (unsigned int i = 0; i < result.count; i++)
            data[i] = result.u[i];
    }
    return rc;
}

UT_PUBLIC(utofu_poll_reduce_double);
int utofu_poll_reduce_double(utofu_vbg_id_t vbg_id, unsigned long int flags, double data[])
{
    struct ut_value result;

    if (!data)
        return UT_REFUSE(UTOFU_ERR_INVALID_POINTER, "data is NULL");
    int rc = poll_kind(vbg_id, flags, UT_KIND_DOUBLE, &result);
    if (rc == UTOFU_SUCCESS) {
        for (unsigned int i = 0; i < result.count; i++)
            data[i] = ut_bfp_round(&result.f[i]);
    }
    return rc;
}
