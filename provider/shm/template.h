/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Template mappings keep the program's advice about memory (madvise(), mbind()) while the memory is
 * remapped. A template is an untouched page of a mapping with the same attributes. A clone of the
 * template, made as large as the memory, replaces the memory when it is restored.
 */
#ifndef SP_TEMPLATE_H
#define SP_TEMPLATE_H

#include <stdbool.h>
#include <stdint.h>

struct sp_templates {
    void *tree; /* tsearch() tree of disjoint address ranges */
};

/* Addresses of the memory of a template. */
struct sp_template_range {
    uint64_t lo, hi;
};

/* Creates the template of a private anonymous mapping whose page at `lo` does not exist. Accesses
 * of other threads to the page may block in userfaultfd meanwhile. 0: no memory. */
uint64_t sp_template_create(uint64_t lo);
/* Does the same for any mapping, from its entry in /proc/self/smaps, for which the kernel scans all
 * pages of the process up to there. Gives up after the mapping at which 10 ms of CPU time are
 * exceeded. *us: the CPU time. */
uint64_t sp_template_create_from_smaps(uint64_t lo, uint64_t *us);
/* Unmaps the template; 0 is allowed. */
void sp_template_free(uint64_t template);

/* Creates memory of this size with the template's attributes and the same offset in a huge page as
 * `at`. NULL: no memory. */
uint8_t *sp_template_clone(uint64_t template, uint64_t size, uint64_t at);

/* Records the template of [lo, hi), which was remapped. The template is freed when all of the range
 * is restored. */
void sp_templates_add(struct sp_templates *templates, uint64_t lo, uint64_t hi, uint64_t template);
/* Returns the template of the memory that was at this address, and its range; 0: none. */
uint64_t sp_templates_find(const struct sp_templates *templates, uint64_t at,
                           struct sp_template_range *range);
/* Records that [lo, hi) was restored. */
void sp_templates_remove(struct sp_templates *templates, uint64_t lo, uint64_t hi);
/* Frees all templates. */
void sp_templates_close(struct sp_templates *templates);

#endif
