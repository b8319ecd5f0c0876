/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The address record of another process, which may be damaged, forged, or of another version of the
 * library: nothing of it is used before it was looked at here. Uses wire, ident and provider.h.
 */
#ifndef UT_PEERS_ADDRESS_H
#define UT_PEERS_ADDRESS_H

#include <stddef.h>
#include <stdint.h>

enum { UT_ADDRESS_WHY = 192 };

/* 0; -EPROTO: no address record of this library; -EPROTONOSUPPORT: of another version, or of a
 * process that is set up in another way. With an error, why says what it is and what to do, to
 * follow "rank 3". */
int ut_address_check(const void *record, size_t size, uint8_t armw_mode, char why[UT_ADDRESS_WHY]);

#endif
