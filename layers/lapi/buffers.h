/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the program: registered as it is used, and vectors of pieces of it. */
#ifndef LA_BUFFERS_H
#define LA_BUFFERS_H

#include "context.h"

#pragma GCC visibility push(hidden)

/*
 * rcache.c
 */
void la_rcache_setup(void);
void la_rcache_close(void);
struct la_region *la_rcache_get(const void *address, uint64_t size, bool write,
                                utofu_stadd_t *stadd);
/* The same, but for la_rcache_is_current(), which may follow until the memory is used. */
struct la_region *la_rcache_get_unchecked(const void *address, uint64_t size, bool write,
                                          utofu_stadd_t *stadd);
bool la_rcache_is_current(struct la_region *reg);
void la_rcache_put(struct la_region *reg);
bool la_rcache_is_shared(const struct la_region *reg); /* with processes of this host */

/*
 * vector.c
 */
enum la_side { LA_ORG, LA_TGT };
int la_vec_check(const lapi_vec_t *vec, enum la_side side, uint64_t *len);
int la_vec_compare(const lapi_vec_t *tgt, const lapi_vec_t *org);
uint64_t la_vec_list_size(const lapi_vec_t *vec);
void la_vec_list(const lapi_vec_t *vec, void *list);
void la_vec_gather(const void *list, uint64_t list_size, void *to, uint64_t len);
void la_vec_scatter(const void *list, uint64_t list_size, const void *from, uint64_t len);
/* To the pieces of a vector of the program. */
void la_vec_fill(const lapi_vec_t *vec, const void *from, uint64_t len);

#pragma GCC visibility pop

#endif
