/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends a test of Criterion that waits for ever: Criterion 2.4's own --timeout does not end a
 * process that sleeps. Each test is a process with BXFI_MAP in its environment, the runner is not.
 * The harness's jobs have deadlines of their own, of ten minutes at most.
 */
#define UT_LIMIT_S         660
#define UT_LIMIT_ONLY_WITH "BXFI_MAP"
#include "limit.h"
