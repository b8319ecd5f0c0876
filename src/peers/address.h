/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the address record of another process, which may be damaged, forged, or of another version
 * of the library, before any other use. Uses wire, ident and provider.h.
 */
#ifndef UT_PEERS_ADDRESS_H
#define UT_PEERS_ADDRESS_H

#include <stddef.h>
#include <stdint.h>

enum { UT_ADDRESS_WHY = 192 };

/* 0; -EPROTO: no address record of this library; -EPROTONOSUPPORT: of another version, or of a
 * process with other settings. On an error, `why` describes it and the remedy, as the continuation
 * of "rank 3". */
int ut_address_check(const void *record, size_t size, uint8_t armw_mode, char why[UT_ADDRESS_WHY]);

#endif
