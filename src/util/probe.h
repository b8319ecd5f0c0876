/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes for bpftrace, perf and SystemTap (USDT), if <sys/sdt.h> exists at build time. A probe is
 * one nop in the code, and a note in the file with the places of its arguments: live registers, or
 * memory.
 * So arguments are values that exist at that point, and a probe computes nothing.
 * docs/guide/tracing.md lists the probes.
 */
#ifndef UTIL_PROBE_H
#define UTIL_PROBE_H

#if !defined(UT_WITHOUT_PROBES) && __has_include(<sys/sdt.h>)
#    include <sys/sdt.h>
#    define UT_PROBE2(name, a, b)       STAP_PROBE2(utofu, name, a, b)
#    define UT_PROBE3(name, a, b, c)    STAP_PROBE3(utofu, name, a, b, c)
#    define UT_PROBE4(name, a, b, c, d) STAP_PROBE4(utofu, name, a, b, c, d)
#else
#    define UT_PROBE2(name, a, b)       ((void)0)
#    define UT_PROBE3(name, a, b, c)    ((void)0)
#    define UT_PROBE4(name, a, b, c, d) ((void)0)
#endif

#endif
