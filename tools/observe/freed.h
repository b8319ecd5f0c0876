/* SPDX-License-Identifier: Apache-2.0 */
/* VCQs that are freed, with the check mode. */
#ifndef OB_FREED_H
#define OB_FREED_H

#include "observe/objects.h"

/* With the lock of the VCQ held, before the call. */
void ob_check_freed(struct ob_vcq *vcq, const void *caller);

#endif
