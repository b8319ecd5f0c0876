/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Validates the address record of another process before any other use: the record may be damaged,
 * forged, or of another version of the library. Uses wire, ident and provider.h.
 */
#ifndef UT_PEERS_ADDRESS_H
#define UT_PEERS_ADDRESS_H

#include <stddef.h>
#include <stdint.h>

enum { UT_ADDRESS_WHY = 192 };

/* Returns 0; -EPROTO: not an address record of this library; -EPROTONOSUPPORT: another version, or
 * a process with other settings. On an error, `why` has the error and the remedy as a continuation
 * of "rank 3". */
int ut_address_check(const void *record, size_t size, uint8_t armw_mode, char why[UT_ADDRESS_WHY]);

#endif
