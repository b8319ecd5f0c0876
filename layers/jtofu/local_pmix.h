/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PMIx for jobs without a PMIx server. Rank, size and location of the processes come from uTofu;
 * put, commit, get and fence use the KVS. Each function implements the function of PMIx with the
 * same name.
 */
#ifndef JT_LOCAL_PMIX_H
#define JT_LOCAL_PMIX_H

#include <pmix.h>

#pragma GCC visibility push(hidden)

pmix_status_t jt_local_pmix_init(pmix_proc_t *proc);
pmix_status_t jt_local_pmix_finalize(void);
int jt_local_pmix_initialized(void);
pmix_status_t jt_local_pmix_put(pmix_scope_t scope, const char *key, const pmix_value_t *value);
pmix_status_t jt_local_pmix_commit(void);
pmix_status_t jt_local_pmix_get(const pmix_proc_t *proc, const char *key, pmix_value_t **value);
pmix_status_t jt_local_pmix_fence(const pmix_proc_t *procs, size_t nprocs);

#pragma GCC visibility pop

#endif
