/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one process has put for PMIx: keys with their values, in a slot of the board. Pure
 * functions; a slot that comes from another process is checked.
 */
#ifndef JT_STORE_H
#define JT_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pmix.h>

#include "kvs.h"

#pragma GCC visibility push(hidden)

enum { JT_STORE_ROOM = JT_SLOT - 16 };

/* As it stands in the slot. */
struct jt_store {
    uint64_t sum;
    uint32_t bytes, unused;
    uint8_t text[JT_STORE_ROOM];
};

/* Adds the key, or replaces its value. PMIX_SUCCESS; PMIX_ERR_NOT_SUPPORTED: values of this type
 * are not kept; PMIX_ERR_OUT_OF_RESOURCE: there is no room for it. */
pmix_status_t jt_store_put(struct jt_store *store, pmix_scope_t scope, const char *key,
                           const pmix_value_t *value);
enum { JT_ALL_SCOPES = -1 };

/* A new value, which the caller frees as PMIx does. scopes: bits 1 << PMIX_LOCAL and so on, of
 * those that the caller may see. PMIX_SUCCESS, PMIX_ERR_NOT_FOUND or PMIX_ERR_NOMEM. */
pmix_status_t jt_store_get(const struct jt_store *store, const char *key, int scopes,
                           pmix_value_t **value);
/* To be sent: how many bytes of it are in use. */
size_t jt_store_set_checksum(struct jt_store *store);
/* Came as it was sealed, or is empty. */
bool jt_store_is_consistent(const struct jt_store *store);
/* A new value of a byte object; NULL: no memory. */
pmix_value_t *jt_store_bytes(const void *bytes, size_t size);
/* One that was made here, or NULL. */
void jt_store_free(pmix_value_t *value);

#pragma GCC visibility pop

#endif
