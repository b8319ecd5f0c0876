/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that the tests of mapped registration share: the kernel's data on this process's
 * memory, and system calls forbidden from a certain moment on. Uses the harness and utofu.h. */
#ifndef UT_TEST_PAGES_H
#define UT_TEST_PAGES_H

#include "ends.h"

enum { PAGE = 4096 };

/* Bytes of [at, at + size) that other processes may map. */
size_t pages_mapped(const void *at, size_t size);
/* Whether mapping is enabled, and supported by this kernel. */
bool pages_can_be_mapped(void);
int pages_num_descriptors(void);
/* KiB of a line of "/proc/self/status" like "RssShmem:". */
size_t pages_status_kib(const char *name);
size_t pages_num_mappings(void);
/* Bytes of peers' memory that this process has mapped. */
size_t pages_of_peers(void);
/* KiB of lines of "/proc/self/smaps" like "AnonHugePages:" in mappings that touch [at, at +
 * size). */
size_t pages_smaps_kib(const void *at, size_t size, const char *name);

/* From now on these system calls of this process fail with EPERM. The list ends with -1. */
void pages_forbid(const int *calls);
extern const int pages_cross_memory_attach[], pages_userfaultfd[];
/* From now on the kernel cannot find a mapping by its address for this process, as before Linux
 * 6.11; the second function tells whether it can. */
void pages_forbid_queries(void);
bool pages_are_found_by_address(void);

#endif
