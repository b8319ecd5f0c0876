/* SPDX-License-Identifier: Apache-2.0 */
/* Header handlers, by index or by address. */
#ifndef LA_HDR_HANDLERS_H
#define LA_HDR_HANDLERS_H

#include "context.h"

#pragma GCC visibility push(hidden)

void la_hdr_handlers_setup(void);
void *la_hdr_handlers_get(int index);                           /* LAPI_Addr_get() */
void la_hdr_handlers_set(int index, void *address);             /* LAPI_Addr_set() */
hdr_hndlr_t *la_hdr_handlers_find(const struct la_record *rec); /* NULL: no such handler */
/* Encodes an address in the code of the program for the wire: as an offset from the load address of
 * the program. False: not in its code. */
bool la_hdr_handlers_encode(uintptr_t address, uint64_t *encoded);

#pragma GCC visibility pop

#endif
