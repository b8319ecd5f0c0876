/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets up the process, at the first call that needs it.
 * Uses util, wire, bootstrap, process, peers, stats, and the registry of providers.
 */
#ifndef UT_RUNTIME_SETUP_H
#define UT_RUNTIME_SETUP_H

#include "process/process.h"

/* Returns 0 and *process, or an enum utofu_return_code after an error line. Later calls return the
 * same. */
int ut_runtime_start(const struct ut_process **process);

#endif
