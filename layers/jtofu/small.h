/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small PMIx for jobs that have no PMIx server: rank, size and places of the processes from
 * uTofu, put, commit, get and fence by the board. The functions are those of PMIx with the same
 * names.
 */
#ifndef JT_SMALL_H
#define JT_SMALL_H

#include <pmix.h>

#pragma GCC visibility push(hidden)

pmix_status_t jt_small_init(pmix_proc_t *proc);
pmix_status_t jt_small_finalize(void);
int jt_small_initialized(void);
pmix_status_t jt_small_put(pmix_scope_t scope, const char *key, const pmix_value_t *value);
pmix_status_t jt_small_commit(void);
pmix_status_t jt_small_get(const pmix_proc_t *proc, const char *key, pmix_value_t **value);
pmix_status_t jt_small_fence(const pmix_proc_t *procs, size_t nprocs);

#pragma GCC visibility pop

#endif
