/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Thread-local variables: a few words each, at most 64 bytes for the whole library (a test counts
 * them). Access takes no call of the dynamic linker (initial-exec), so they take static TLS, of
 * which a program that loads libraries late has little for all of them together.
 */
#ifndef UT_UTIL_TLS_H
#define UT_UTIL_TLS_H

#define UT_THREAD_LOCAL __thread __attribute__((tls_model("initial-exec")))

#endif
