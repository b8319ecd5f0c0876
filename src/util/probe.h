/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes for bpftrace, perf and SystemTap (USDT), where <sys/sdt.h> was there for the build. A
 * probe is one nop in the code, and a note in the file that says where its arguments are: registers
 * that are live, or memory. So arguments are values that are there at that point, and nothing is
 * computed for a probe. docs/guide/tracing.md lists the probes.
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
