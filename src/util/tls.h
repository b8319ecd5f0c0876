/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Thread-local variables: a few words, at most 64 bytes for the whole library (a test counts them).
 * Their access needs no call of the dynamic linker (initial-exec), so they take static TLS. A
 * program
 * that loads libraries late has little of it for all of them together.
 */
#ifndef UT_UTIL_TLS_H
#define UT_UTIL_TLS_H

#define UT_THREAD_LOCAL __thread __attribute__((tls_model("initial-exec")))

#endif
