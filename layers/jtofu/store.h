/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values that a process has put with PMIx: keys with values, in a slot of the KVS. Pure
 * functions; a slot of another process is validated.
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

/* The layout of a slot. */
struct jt_store {
    uint64_t sum;
    uint32_t bytes, unused;
    uint8_t text[JT_STORE_ROOM];
};

/* Adds the key, or replaces its value. PMIX_SUCCESS; PMIX_ERR_NOT_SUPPORTED: the type is not
 * supported; PMIX_ERR_OUT_OF_RESOURCE: the slot is full. */
pmix_status_t jt_store_put(struct jt_store *store, pmix_scope_t scope, const char *key,
                           const pmix_value_t *value);
enum { JT_ALL_SCOPES = -1 };

/* Returns a new value, which the caller frees as with PMIx. scopes: bits 1 << PMIX_LOCAL etc. of
 * the scopes that the caller may see. PMIX_SUCCESS, PMIX_ERR_NOT_FOUND or PMIX_ERR_NOMEM. */
pmix_status_t jt_store_get(const struct jt_store *store, const char *key, int scopes,
                           pmix_value_t **value);
/* Sets the checksum. Returns the number of bytes in use. */
size_t jt_store_set_checksum(struct jt_store *store);
/* Is the checksum correct? An empty slot is consistent, too. */
bool jt_store_is_consistent(const struct jt_store *store);
/* Returns a new value that is a byte object; NULL: no memory. */
pmix_value_t *jt_store_bytes(const void *bytes, size_t size);
/* Frees a value of this file, or NULL. */
void jt_store_free(pmix_value_t *value);

#pragma GCC visibility pop

#endif
