/* SPDX-License-Identifier: Apache-2.0 */
/* lives.h for C++, Fortran and Python: one kind at a time. */
#ifndef UT_TEST_LIVES_C_H
#define UT_TEST_LIVES_C_H

#define LIVES_EXPORT __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

LIVES_EXPORT void lives_c_begin(const char *name, int rank);
/* 0: it was the last life. */
LIVES_EXPORT int lives_c_next(void);
/* 0: something has grown. */
LIVES_EXPORT int lives_c_end(void);

#ifdef __cplusplus
}
#endif

#endif
