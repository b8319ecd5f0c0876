/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors: lists of pieces of memory. */
#ifndef LA_VECTOR_H
#define LA_VECTOR_H

#include "context.h"

#pragma GCC visibility push(hidden)

enum la_side { LA_ORG, LA_TGT };
int la_vec_check(const lapi_vec_t *vec, enum la_side side, uint64_t *len);
int la_vec_compare(const lapi_vec_t *tgt, const lapi_vec_t *org);
uint64_t la_vec_list_size(const lapi_vec_t *vec);
/* Writes the addresses and lengths of a vector for the other side. */
void la_vec_encode(const lapi_vec_t *vec, void *list);
void la_vec_gather(const void *list, uint64_t list_size, void *to, uint64_t len);
void la_vec_scatter(const void *list, uint64_t list_size, const void *from, uint64_t len);
/* Scatters packed data to a vector of the program. */
void la_vec_from_packed(const lapi_vec_t *vec, const void *from, uint64_t len);

#pragma GCC visibility pop

#endif
