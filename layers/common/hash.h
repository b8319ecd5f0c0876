/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes and hash tables: headers that need nothing else of the library. */
#ifndef LC_HASH_H
#define LC_HASH_H

#include "../../src/util/hash_table.h"

#endif
