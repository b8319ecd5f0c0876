/* SPDX-License-Identifier: Apache-2.0 */
/* Settings from the environment. */
#ifndef PRDMA_SETTINGS_H
#define PRDMA_SETTINGS_H

#include "layer.h"

void pr_settings_read(void);
const char *pr_method_name(enum pr_method method);
bool pr_method_of(const char *name, enum pr_method *method);

#endif
