/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that issue GMAs. */
#ifndef AL_GMA_H
#define AL_GMA_H

#include "acp.h"

#pragma GCC visibility push(hidden)

acp_handle_t al_gma_copy(acp_ga_t dst, acp_ga_t src, size_t size, acp_handle_t order);

#pragma GCC visibility pop

#endif
