/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small PMIx for jobs that have no PMIx server: rank, size and places of the processes from
 * uTofu, put, commit, get and fence by the board. The functions are those of PMIx with the same
 * names.
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
