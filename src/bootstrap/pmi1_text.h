/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of PMI-1 messages: "cmd=name key=value key=value\n". Pure functions.
 */
#ifndef UT_BOOTSTRAP_PMI1_TEXT_H
#define UT_BOOTSTRAP_PMI1_TEXT_H

#include <stddef.h>

/* Copies the value of a key: 0, -ENOENT, or -EMSGSIZE when it does not fit. */
int ut_job_pmi1_value(const char *line, const char *key, char *value, size_t size);

/* Hexadecimal digits of the bytes, with a zero at the end: text has 2 * size + 1 bytes. */
void ut_job_pmi1_encode(const void *bytes, size_t size, char *text);

/* The bytes of hexadecimal digits: 0, -EINVAL, or -EMSGSIZE when there are more than max. */
int ut_job_pmi1_decode(const char *text, void *bytes, size_t max, size_t *size);

#endif
