/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacks VCQ ids of the program, and refuses an id of another job. */
#include "api/api.h"
#include "runtime/setup.h"

int ut_refuse_vcq_id(utofu_vcq_id_t vcq_id)
{
    unsigned long long value = vcq_id;
    uint32_t mark;

    if (!ut_vcq_id_of_other_job(vcq_id, &mark))
        return UT_REFUSE(UTOFU_ERR_INVALID_VCQ_ID, "%016llx is not a VCQ id", value);
    return UT_REFUSE(UTOFU_ERR_INVALID_VCQ_ID,
                     "VCQ id %016llx is of another job: it has mark %u, and the ids of this job "
                     "have mark %u. A VCQ reaches only VCQs of its own job; MPI_Comm_spawn() makes "
                     "another job, and a file with ids may be left over from an earlier job",
                     value, mark, ut_vcq_id_own_job());
}

int ut_find_job(void)
{
    const struct ut_process *process;

    if (ut_process_peek())
        return 0;
    ut_last_error_begin();
    return UT_RESULT(ut_runtime_start(&process), "the library cannot be set up");
}

int ut_take_vcq_id(utofu_vcq_id_t vcq_id, struct ut_vcq_ident *ident)
{
    uint32_t mark;

    /* an id without a valid mark is refused even if this process finds no job */
    if (!ut_vcq_id_unpack(vcq_id, ident) && !ut_vcq_id_of_other_job(vcq_id, &mark))
        return ut_refuse_vcq_id(vcq_id);
    int rc = ut_find_job();
    if (rc != 0)
        return rc;
    if (ut_vcq_id_unpack(vcq_id, ident) && ut_vcq_ident_public(ident))
        return 0;
    return ut_refuse_vcq_id(vcq_id);
}
