/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of PMI-1 messages: "cmd=name key=value key=value\n". Pure functions.
 */
#ifndef UT_BOOTSTRAP_PMI1_TEXT_H
#define UT_BOOTSTRAP_PMI1_TEXT_H

#include <stddef.h>

/* Copies the value of a key: 0, -ENOENT, or -EMSGSIZE if it does not fit. */
int ut_job_pmi1_value(const char *line, const char *key, char *value, size_t size);

/* Writes the bytes as hexadecimal digits, zero-terminated: text has 2 * size + 1 bytes. */
void ut_job_pmi1_encode(const void *bytes, size_t size, char *text);

/* Reads hexadecimal digits: 0, -EINVAL, or -EMSGSIZE if there are more than max bytes. */
int ut_job_pmi1_decode(const char *text, void *bytes, size_t max, size_t *size);

#endif
