/* SPDX-License-Identifier: Apache-2.0 */
/* The background side: progress.c says what it watches. */
#ifndef VP_PROGRESS_H
#define VP_PROGRESS_H

#include "provider.h"

int vp_fd(struct prov *prov);
int vp_progress(struct prov *prov);

#endif
