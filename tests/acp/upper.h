/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ACP_TEST_UPPER_H
#define ACP_TEST_UPPER_H

#include <stdbool.h>
#include <stddef.h>

extern bool upper_is_ready;
void *upper_malloc(void);

#endif
