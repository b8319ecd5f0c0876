/* SPDX-License-Identifier: Apache-2.0 */
/* The provider addresses behind struct ut_address_record. */
#include "wire/record.h"

#include <string.h>

#include "provider.h"

/* Returns the offset of address `n`, or of the end for n == num_addrs; 0: beyond the record. */
static size_t address_at(const uint8_t *bytes, size_t size, unsigned int n)
{
    struct ut_address_record r;
    struct ut_record_address a;

    if (size < sizeof(r))
        return 0;
    memcpy(&r, bytes, sizeof(r));
    size_t at = sizeof(r) + (r.cq_list ? r.num_cqs * sizeof(uint16_t) : 0);
    for (unsigned int i = 0; i < n; i++) {
        if (size < sizeof(a) || at > size - sizeof(a))
            return 0;
        memcpy(&a, bytes + at, sizeof(a));
        at += sizeof(a) + a.size;
    }
    return n <= r.num_addrs && at <= size ? at : 0;
}

size_t ut_record_end(const void *record, size_t size)
{
    struct ut_address_record r;

    if (size < sizeof(r))
        return 0;
    memcpy(&r, record, sizeof(r));
    return address_at(record, size, r.num_addrs);
}

const struct ut_record_address *ut_record_find(const void *record, size_t size, uint8_t number)
{
    const uint8_t *bytes = record;

    for (unsigned int n = 0; address_at(bytes, size, n + 1); n++) {
        const struct ut_record_address *a = (const void *)(bytes + address_at(bytes, size, n));
        if (a->provider == number)
            return a->size > 0 && a->size <= PROV_ADDR_MAX ? a : NULL;
    }
    return NULL;
}
