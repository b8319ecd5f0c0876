/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the program has advised about memory (madvise(), mbind()) is kept while the memory is
 * remapped: by a twin, an untouched page of a mapping of the same kind. A copy of the twin, made as
 * large as the memory is, replaces the memory when it is given back.
 */
#ifndef SP_TEMPLATE_H
#define SP_TEMPLATE_H

#include <stdbool.h>
#include <stdint.h>

struct sp_templates {
    void *tree; /* by address, of ranges that do not overlap */
};

/* The addresses of the memory of a twin. */
struct sp_template_range {
    uint64_t lo, hi;
};

/* Makes the twin of a mapping whose page at `lo` does not exist, for private anonymous memory.
 * Threads that access the page may wait for userfaultfd meanwhile. 0: no memory. */
uint64_t sp_template_create(uint64_t lo);
/* The same for any mapping, by its entry in /proc/self/smaps, for which the kernel looks at all
 * pages of the process up to there. Gives up after the mapping at which 10 ms of CPU time are
 * exceeded. *us: the CPU time. */
uint64_t sp_template_create_from_smaps(uint64_t lo, uint64_t *us);
void sp_template_free(uint64_t template);

/* Makes memory of this size like the twin, with the same offset in a huge page as `at`. NULL: no
 * memory. */
uint8_t *sp_template_clone(uint64_t template, uint64_t size, uint64_t at);

/* [lo, hi) was remapped, and `twin` is its twin, freed when all of it has been given back. */
void sp_templates_add(struct sp_templates *templates, uint64_t lo, uint64_t hi, uint64_t template);
/* Returns the twin of the memory that was at this address, and its range; 0: none. */
uint64_t sp_templates_find(const struct sp_templates *templates, uint64_t at,
                           struct sp_template_range *range);
/* [lo, hi) was given back. */
void sp_templates_remove(struct sp_templates *templates, uint64_t lo, uint64_t hi);
void sp_templates_close(struct sp_templates *templates);

#endif
