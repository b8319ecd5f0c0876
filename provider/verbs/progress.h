/* SPDX-License-Identifier: Apache-2.0 */
/* Progress of the background thread. */
#ifndef VP_PROGRESS_H
#define VP_PROGRESS_H

#include "provider.h"

int vp_fd(struct prov *prov);
int vp_progress(struct prov *prov);

#endif
