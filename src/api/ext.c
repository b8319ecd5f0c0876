/* SPDX-License-Identifier: Apache-2.0 */
/* utofu_ext.h: functions beyond the manual. They have no putofu_* names. */
#include <errno.h>
#include <string.h>

#include "utofu_ext.h"

#include "api/api.h"
#include "check/check.h"
#include "peers/peers.h"
#include "record/record.h"
#include "runtime/setup.h"
#include "runtime/wait.h"
#include "util/env.h"
#include "stats/region.h"

_Static_assert(UTOFU_PROFILE_NAME_MAX == UT_REGION_NAME_MAX, "the limit in utofu_ext.h");

/* Returns 1 if counters or a timeline are recorded, 0 if not, or a return code. */
static int check_region(const char *name)
{
    int rc = ut_process_environment(); /* this call sets the log level, too */

    if (!name)
        return UT_REFUSE(UTOFU_ERR_INVALID_POINTER, "the name of the region is NULL");
    size_t n = strnlen(name, UTOFU_PROFILE_NAME_MAX + 1);
    if (n == 0)
        return UT_REFUSE(UTOFU_ERR_INVALID_ARG, "the name of the region is empty");
    if (n > UTOFU_PROFILE_NAME_MAX)
        return UT_REFUSE(UTOFU_ERR_INVALID_ARG,
                         "the name of the region, '%.20s...', is longer than %d bytes", name,
                         UTOFU_PROFILE_NAME_MAX);
    for (const char *c = name; *c; c++) {
        if ((unsigned char)*c < ' ' || *c == 0x7f || *c == '"' || *c == '\\')
            return UT_REFUSE(UTOFU_ERR_INVALID_ARG,
                             "byte %d of the name of the region is 0x%02x: no control characters, "
                             "'\"' or '\\' are allowed",
                             (int)(c - name), (unsigned char)*c);
    }
    if (ut_process_forked())
        return UT_DECLINE(UTOFU_ERR_NOT_AVAILABLE, "this process was made by fork(): it has no "
                                                   "regions (manual 6.1.4.1)");
    if (rc)
        ut_last_error_text(rc, ut_env_error());
    return rc ? rc : ut_env_num(UT_ENV_STATS) || *ut_env_str(UT_ENV_TRACE);
}

int utofu_profile_start(const char *name)
{
    ut_last_error_begin();
    int rc = check_region(name);

    if (rc > 0 && (rc = ut_region_start(name)) == 0 && ut_record_on)
        ut_record_region(name, true);
    return UT_RESULT(rc, "the region '%s' cannot be started", name ? name : "(NULL)");
}

int utofu_profile_stop(const char *name)
{
    ut_last_error_begin();
    int rc = check_region(name);

    if (rc > 0 && (rc = ut_region_stop(name)) == 0 && ut_record_on)
        ut_record_region(name, false);
    return UT_RESULT(rc, "the region '%s' cannot be stopped", name ? name : "(NULL)");
}

int utofu_profile_seen(utofu_stadd_t stadd, size_t length)
{
    if (length == 0)
        return UT_REFUSE(UTOFU_ERR_INVALID_SIZE, "length is 0");
    if (ut_record_on && !ut_process_forked())
        ut_record_seen(stadd, length);
    return UTOFU_SUCCESS;
}

int utofu_compat_job(struct utofu_job *job)
{
    const struct ut_process *process;

    if (!job)
        return UT_REFUSE(UTOFU_ERR_INVALID_POINTER, "job is NULL");
    ut_last_error_begin();
    int rc = ut_runtime_start(&process);
    if (rc != 0)
        return UT_RESULT(rc, "the library cannot be set up");
    const struct ut_job_info *info = process->job;
    *job = (struct utofu_job){.rank = info->rank,
                              .size = info->size,
                              .node = info->node,
                              .num_nodes = info->num_nodes,
                              .local_rank = info->local_rank,
                              .local_size = info->local_size,
                              .max_local_size = ut_job_max_per_node()};
    return UT_RESULT(UTOFU_SUCCESS, "none");
}

int utofu_query_job(struct utofu_job *job)
{
    int rc = utofu_compat_job(job);

    if (rc == UTOFU_SUCCESS)
        ut_check_extension();
    return rc;
}

int utofu_compat_rank_node(uint32_t rank, uint32_t *node, uint8_t coords[])
{
    const struct ut_process *process;
    struct ut_coords at;

    if (!node || !coords)
        return UT_REFUSE(UTOFU_ERR_INVALID_POINTER, "%s is NULL", node ? "coords" : "node");
    ut_last_error_begin();
    int rc = ut_runtime_start(&process);
    if (rc != 0)
        return UT_RESULT(rc, "the library cannot be set up");
    if (rank >= process->job->size)
        return UT_REFUSE(UTOFU_ERR_INVALID_NUMBER, "rank %u: the job has %u processes", rank,
                         process->job->size);
    rc = ut_peers_node_of(rank, node);
    if (rc != 0)
        return UT_REFUSE(UTOFU_ERR_NOT_AVAILABLE,
                         "rank %u: its node is not known: %s; has it called the library?", rank,
                         strerror(-rc));
    if (!ut_coords_of_node(&process->shape, *node, &at))
        return UT_REFUSE(UTOFU_ERR_NOT_AVAILABLE, "rank %u: its node %u lies outside UTOFU_SHAPE",
                         rank, *node);
    memcpy(coords, at.at, sizeof(at.at));
    return UT_RESULT(UTOFU_SUCCESS, "none");
}

int utofu_query_rank_node(uint32_t rank, uint32_t *node, uint8_t coords[])
{
    int rc = utofu_compat_rank_node(rank, node, coords);

    if (rc == UTOFU_SUCCESS)
        ut_check_extension();
    return rc;
}

int utofu_wait_vcqs(const utofu_vcq_hdl_t vcq_hdls[], size_t num_vcqs, int64_t timeout_us)
{
    utofu_vcq_hdl_t bad = 0;

    if (!vcq_hdls)
        return UT_REFUSE(UTOFU_ERR_INVALID_POINTER, "vcq_hdls is NULL");
    if (num_vcqs == 0 || num_vcqs > UT_MAX_VCQS)
        return UT_REFUSE(UTOFU_ERR_INVALID_NUMBER, "%zu VCQs; 1 to %d may be waited for", num_vcqs,
                         (int)UT_MAX_VCQS);
    ut_check_extension();
    int rc = ut_wait_for_any(vcq_hdls, num_vcqs, timeout_us, &bad);
    switch (rc) {
    case UTOFU_ERR_INVALID_VCQ_HDL:
        return ut_refuse_handle(bad);
    case UTOFU_ERR_OUT_OF_MEMORY:
        return UT_DECLINE(rc, "no memory to wait for %zu VCQs", num_vcqs);
    case UTOFU_ERR_OUT_OF_RESOURCE:
        return UT_DECLINE(rc, "no file descriptor to sleep on: %s", strerror(errno));
    default:
        return rc;
    }
}

int utofu_wake_vcq(utofu_vcq_hdl_t vcq_hdl)
{
    int rc = ut_wait_end(vcq_hdl);

    ut_check_extension();
    return rc == UTOFU_SUCCESS ? rc : ut_refuse_handle(vcq_hdl);
}
