/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and values in a slot of the KVS: consecutive entries, each with a header. */
#include "store.h"

#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "../common/hash.h"

struct entry { /* followed by the key with its null byte, and by the value */
    uint16_t type;
    uint8_t scope, key; /* bytes of the key */
    uint32_t value;     /* bytes of the value */
};

static const struct {
    pmix_data_type_t type;
    uint8_t bytes;
} sizes[] = {
    {PMIX_BOOL, sizeof(bool)},
    {PMIX_BYTE, 1},
    {PMIX_SIZE, sizeof(size_t)},
    {PMIX_PID, sizeof(pid_t)},
    {PMIX_INT, sizeof(int)},
    {PMIX_INT8, 1},
    {PMIX_INT16, 2},
    {PMIX_INT32, 4},
    {PMIX_INT64, 8},
    {PMIX_UINT, sizeof(int)},
    {PMIX_UINT8, 1},
    {PMIX_UINT16, 2},
    {PMIX_UINT32, 4},
    {PMIX_UINT64, 8},
    {PMIX_FLOAT, sizeof(float)},
    {PMIX_DOUBLE, sizeof(double)},
    {PMIX_STATUS, sizeof(int)},
    {PMIX_PROC_RANK, 4},
};

/* Size of a value that is stored in the union itself; 0: other types. */
static size_t find_size(pmix_data_type_t type)
{
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        if (sizes[i].type == type)
            return sizes[i].bytes;
    return 0;
}

/* The bytes of a value. NULL: the type is not supported, or the value is missing. */
static const void *find_bytes(const pmix_value_t *value, size_t *size)
{
    *size = find_size(value->type);
    if (*size > 0)
        return &value->data;
    if (value->type == PMIX_STRING && value->data.string != NULL) {
        *size = strlen(value->data.string) + 1;
        return value->data.string;
    }
    if (value->type == PMIX_BYTE_OBJECT &&
        (value->data.bo.bytes != NULL || value->data.bo.size == 0)) {
        *size = value->data.bo.size;
        return value->data.bo.bytes != NULL ? value->data.bo.bytes : "";
    }
    return NULL;
}

static size_t entry_bytes(const struct entry *e)
{
    return sizeof(*e) + e->key + e->value;
}

/* Reads the entry at *at, and advances *at behind it. False: no complete entry. */
static bool next_entry(const struct jt_store *store, size_t *at, struct entry *e)
{
    size_t end = store->bytes < JT_STORE_ROOM ? store->bytes : JT_STORE_ROOM;

    if (*at + sizeof(*e) > end)
        return false;
    memcpy(e, store->text + *at, sizeof(*e));
    if (e->value > end || *at + entry_bytes(e) > end || e->key == 0 ||
        store->text[*at + sizeof(*e) + e->key - 1] != '\0')
        return false;
    *at += entry_bytes(e);
    return true;
}

/* The offset of the key's entry, or -1. */
static ssize_t find_key(const struct jt_store *store, const char *key, struct entry *e)
{
    size_t at = 0, length = strlen(key) + 1;

    while (next_entry(store, &at, e)) {
        size_t begin = at - entry_bytes(e);

        if (e->key == length && memcmp(store->text + begin + sizeof(*e), key, length) == 0)
            return (ssize_t)begin;
    }
    return -1;
}

static void remove_key(struct jt_store *store, const char *key)
{
    struct entry e;
    ssize_t at = find_key(store, key, &e);

    if (at < 0)
        return;
    size_t end = (size_t)at + entry_bytes(&e);
    memmove(store->text + at, store->text + end, store->bytes - end);
    store->bytes -= (uint32_t)entry_bytes(&e);
}

pmix_status_t jt_store_put(struct jt_store *store, pmix_scope_t scope, const char *key,
                           const pmix_value_t *value)
{
    size_t size, length = strlen(key) + 1;
    const void *bytes = find_bytes(value, &size);
    struct entry e = {.type = value->type, .scope = scope}, before;
    size_t room = JT_STORE_ROOM - store->bytes;
    uint8_t *to;

    if (bytes == NULL)
        return PMIX_ERR_NOT_SUPPORTED;
    if (find_key(store, key, &before) >= 0)
        room += entry_bytes(&before);
    if (length > UINT8_MAX || size > room || sizeof(e) + length + size > room)
        return PMIX_ERR_OUT_OF_RESOURCE;
    remove_key(store, key);
    e.key = (uint8_t)length;
    e.value = (uint32_t)size;
    to = store->text + store->bytes;
    memcpy(to, &e, sizeof(e));
    memcpy(to + sizeof(e), key, length);
    memcpy(to + sizeof(e) + length, bytes, size);
    store->bytes += (uint32_t)entry_bytes(&e);
    return PMIX_SUCCESS;
}

pmix_value_t *jt_store_bytes(const void *bytes, size_t size)
{
    pmix_value_t *value = calloc(1, sizeof(*value));
    char *copy = malloc(size > 0 ? size : 1);

    if (value == NULL || copy == NULL) {
        free(value);
        free(copy);
        return NULL;
    }
    memcpy(copy, bytes, size);
    value->type = PMIX_BYTE_OBJECT;
    value->data.bo.bytes = copy;
    value->data.bo.size = size;
    return value;
}

void jt_store_free(pmix_value_t *value)
{
    if (value != NULL && value->type == PMIX_BYTE_OBJECT)
        free(value->data.bo.bytes);
    if (value != NULL && value->type == PMIX_STRING)
        free(value->data.string);
    free(value);
}

/* PMIX_SUCCESS, PMIX_ERR_NOMEM, or PMIX_ERR_NOT_FOUND where the bytes are no value of this type. */
static pmix_status_t make_value(const struct entry *e, const uint8_t *bytes, pmix_value_t **value)
{
    bool is_text = e->type == PMIX_STRING && e->value > 0 && bytes[e->value - 1] == '\0';
    pmix_value_t *v;

    if (!is_text && e->type != PMIX_BYTE_OBJECT &&
        (find_size(e->type) == 0 || find_size(e->type) != e->value))
        return PMIX_ERR_NOT_FOUND;
    v = jt_store_bytes(bytes, e->value);
    if (v == NULL)
        return PMIX_ERR_NOMEM;
    if (e->type != PMIX_BYTE_OBJECT) {
        char *copy = v->data.bo.bytes;

        memset(&v->data, 0, sizeof(v->data));
        v->type = e->type;
        if (is_text) {
            v->data.string = copy;
        } else {
            memcpy(&v->data, bytes, e->value);
            free(copy);
        }
    }
    *value = v;
    return PMIX_SUCCESS;
}

pmix_status_t jt_store_get(const struct jt_store *store, const char *key, int scopes,
                           pmix_value_t **value)
{
    struct entry e;
    ssize_t at = find_key(store, key, &e);

    if (at < 0 || e.scope > PMIX_INTERNAL || (scopes & 1 << e.scope) == 0)
        return PMIX_ERR_NOT_FOUND;
    return make_value(&e, store->text + at + sizeof(e) + e.key, value);
}

static uint64_t sum_store(const struct jt_store *store)
{
    uint64_t sum = store->bytes, word;

    for (size_t at = 0; at < store->bytes; at += sizeof(word)) {
        memcpy(&word, store->text + at, sizeof(word));
        sum = ut_hash_word(sum, word);
        sum ^= sum >> 32; /* mixes the upper bits, which are the best, into the lower bits */
    }
    return sum;
}

size_t jt_store_set_checksum(struct jt_store *store)
{
    size_t whole = ((size_t)store->bytes + 7) / 8 * 8;

    memset(store->text + store->bytes, 0, whole - store->bytes);
    store->sum = sum_store(store);
    return offsetof(struct jt_store, text) + whole;
}

bool jt_store_is_consistent(const struct jt_store *store)
{
    return store->bytes <= JT_STORE_ROOM && store->sum == sum_store(store);
}
