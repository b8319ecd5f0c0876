/* SPDX-License-Identifier: Apache-2.0 */
/* The modules of this process (the program and its libraries), with which utofu-model finds the
 * source lines of addresses. Uses util. */
#ifndef UT_RECORD_MODULES_H
#define UT_RECORD_MODULES_H

#include <stddef.h>
#include <stdint.h>

/* The content of a MODULES block (format.h), to be freed; NULL: no memory. */
uint8_t *ut_modules_pack(size_t *size);

#endif
