/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names, meanings and remedies of the return codes. Uses the public header only; the texts are in
 * code_table.h.
 */
#ifndef UT_UTIL_CODES_H
#define UT_UTIL_CODES_H

#include <stdbool.h>
#include <stddef.h>

struct ut_code {
    const char *name; /* "UTOFU_ERR_MRQ_PEER" */
    int number;
    const char *meaning, *remedy; /* sentences */
};
extern const struct ut_code ut_codes[];
extern const size_t ut_num_codes;

/* The code with this number, or NULL. */
const struct ut_code *ut_code_of(int number);
/* Finds a code by its number, with or without sign, or by its name, in upper or lower case, with or
 * without UTOFU_ or UTOFU_ERR_. NULL: no such code. */
const struct ut_code *ut_code_find(const char *text);
/* "UTOFU_ERR_MRQ_PEER", or "unknown code". */
const char *ut_code_name(int number);

#endif
