/* SPDX-License-Identifier: Apache-2.0 */
/* LAPI_Putv(), LAPI_Getv(), LAPI_Amsendv(): each packs a vector into one message. */
#ifndef LA_VECTOR_CALLS_H
#define LA_VECTOR_CALLS_H

#include "context.h"

#pragma GCC visibility push(hidden)

int la_putv(struct la_req *r, const lapi_vec_t *tgt_vec, const lapi_vec_t *org_vec);
int la_getv(struct la_req *r, const lapi_vec_t *tgt_vec, const lapi_vec_t *org_vec);
int la_amsendv(struct la_req *r, const lapi_vec_t *org_vec);

#pragma GCC visibility pop

#endif
