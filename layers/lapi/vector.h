/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors: lists of segments of memory (like struct iovec). */
#ifndef LA_VECTOR_H
#define LA_VECTOR_H

#include "context.h"

#pragma GCC visibility push(hidden)

enum la_side { LA_ORG, LA_TGT };
/* Returns a LAPI_ERR_ORG_* or LAPI_ERR_TGT_* code, or LAPI_SUCCESS. *len: bytes of all segments. */
int la_vec_check(const lapi_vec_t *vec, enum la_side side, uint64_t *len);
/* LAPI_ERR_VEC_*_DIFF if the vectors differ in type, number of segments, or a length. */
int la_vec_compare(const lapi_vec_t *tgt, const lapi_vec_t *org);
/* Encodes a vector for the wire, as a list of struct la_segment. */
uint64_t la_vec_list_size(const lapi_vec_t *vec);
void la_vec_encode(const lapi_vec_t *vec, void *list);
/* Packs the `len` bytes of the segments of an encoded list; unpacks them into its segments, or into
 * those of a vector. */
void la_list_gather(const void *list, uint64_t list_size, void *to, uint64_t len);
void la_list_scatter(const void *list, uint64_t list_size, const void *from, uint64_t len);
void la_vec_scatter(const lapi_vec_t *vec, const void *from, uint64_t len);

#pragma GCC visibility pop

#endif
