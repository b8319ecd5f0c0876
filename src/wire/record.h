/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access to the provider addresses in an untrusted address record: no function reads beyond its
 * end. Uses wire.h and provider.h.
 */
#ifndef UT_WIRE_RECORD_H
#define UT_WIRE_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "wire/wire.h"

/* Returns the offset behind the addresses; 0: the record is shorter than its header. */
size_t ut_record_end(const void *record, size_t size);

/* Returns the address of the provider with this number; NULL: none. */
const struct ut_record_address *ut_record_find(const void *record, size_t size, uint8_t number);

#endif
