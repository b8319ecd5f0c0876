/* SPDX-License-Identifier: Apache-2.0 */
/* Creates, clones and records template mappings: see template.h. */
#include "template.h"

#include <fcntl.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "pages.h"
#include "util/fd.h"

#ifndef MREMAP_DONTUNMAP
#    define MREMAP_DONTUNMAP 4 /* Linux 5.7 */
#endif

enum { MAX_SMAPS_US = 10000 }; /* CPU time of sp_template_create_from_smaps() */

struct template
{
    struct sp_template_range range;
    uint64_t left; /* bytes that are still remapped */
    uint64_t page; /* address of the template */
};

static uint64_t page_size(void)
{
    return (uint64_t)sysconf(_SC_PAGESIZE);
}

/*
 * One template
 */

/* Moves the page with MREMAP_DONTUNMAP: for a page that does not exist, the kernel only creates a
 * new mapping with the same attributes (copy_vma() in mm/vma.c of Linux). Uses the system call
 * directly, as MPI libraries intercept the C library's function, and may use memory that is
 * blocked. */
static void *copy_mapping(uint64_t at, uint64_t page)
{
    return (void *)syscall(SYS_mremap, at, page, page, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0);
}

uint64_t sp_template_create(uint64_t lo)
{
    const uint64_t page = page_size();
    void *template = copy_mapping(lo, page);

    if (template == MAP_FAILED)
        return 0;
    munlock(template, page); /* the mlock() of UTOFU_SWAP_PROTECT ends with the registration */
    return (uintptr_t) template;
}

static const struct {
    char name[3]; /* name in VmFlags of /proc/self/smaps */
    int advice;
} advices[] = {
    {"sr", MADV_SEQUENTIAL}, {"rr", MADV_RANDOM},    {"dc", MADV_DONTFORK},
    {"wf", MADV_WIPEONFORK}, {"dd", MADV_DONTDUMP},  {"hg", MADV_HUGEPAGE},
    {"nh", MADV_NOHUGEPAGE}, {"mg", MADV_MERGEABLE},
};

/* Creates a template with these VmFlags of /proc/self/smaps, two letters each. */
static uint64_t create_from_flags(const char *flags)
{
    const uint64_t size = page_size();
    const int no_reserve = strstr(flags, "nr") ? MAP_NORESERVE : 0;
    void *page =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | no_reserve, -1, 0);

    if (page == MAP_FAILED)
        return 0;
    for (size_t i = 0; i < sizeof(advices) / sizeof(advices[0]); i++)
        if (strstr(flags, advices[i].name))
            madvise(page, size, advices[i].advice);
    return (uintptr_t)page;
}

static uint64_t cpu_time_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

uint64_t sp_template_create_from_smaps(uint64_t lo, uint64_t *us)
{
    const char *head = "VmFlags:"; /* last line of a mapping's entry */
    const uint64_t start = cpu_time_us();
    unsigned long long begin, end;
    uint64_t template = 0;
    char line[512];
    bool matches = false;
    int fd = ut_fd_above_stdio(open("/proc/self/smaps", O_RDONLY | O_CLOEXEC));
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");

    while (file && template == 0 && fgets(line, sizeof(line), file)) {
        if (strncmp(line, head, strlen(head)) == 0) {
            if (matches)
                template = create_from_flags(line + strlen(head));
            else if (cpu_time_us() - start > MAX_SMAPS_US)
                break;
        } else if (sscanf(line, "%llx-%llx ", &begin, &end) == 2) {
            matches = begin <= lo && lo < end;
        }
    }
    if (file)
        fclose(file);
    else if (fd >= 0)
        close(fd);
    *us = cpu_time_us() - start;
    return template;
}

void sp_template_free(uint64_t template)
{
    if (template)
        munmap((void *)(uintptr_t) template, page_size());
}

/* Cuts off the first huge page: the kernel allocates a page table for the first page
 * (move_page_tables() in mm/mremap.c of Linux), so it could never be huge. */
uint8_t *sp_template_clone(uint64_t template, uint64_t size, uint64_t at)
{
    const uint64_t page = page_size(), all = SP_HUGE + size;
    uint8_t *place = sp_huge_reserve(all, at, PROT_NONE);
    void *copy = place ? copy_mapping(template, page) : MAP_FAILED;

    if (copy != MAP_FAILED && syscall(SYS_mremap, copy, page, all, MREMAP_MAYMOVE | MREMAP_FIXED,
                                      place) == (long)(uintptr_t)place) {
        munmap(place, SP_HUGE);
        return place + SP_HUGE;
    }
    if (copy != MAP_FAILED)
        munmap(copy, page);
    if (place)
        munmap(place, all);
    return NULL;
}

/*
 * The tree of templates
 */

/* Overlapping ranges are equal. */
static int compare_ranges(const void *a, const void *b)
{
    const struct template *x = a, *y = b;

    return x->range.hi <= y->range.lo ? -1 : x->range.lo >= y->range.hi ? 1 : 0;
}

/* Returns a template whose range overlaps [lo, hi); NULL: none. */
static struct template *find_template(const struct sp_templates *templates, uint64_t lo,
                                      uint64_t hi)
{
    const struct template key = {.range = {lo, hi}};
    struct template **found = tfind(&key, &templates->tree, compare_ranges);

    return found ? *found : NULL;
}

static void free_template(void *arg)
{
    struct template *t = arg;

    sp_template_free(t->page);
    free(t);
}

void sp_templates_add(struct sp_templates *templates, uint64_t lo, uint64_t hi, uint64_t page)
{
    struct template *t = malloc(sizeof(*t));

    if (!t) {
        sp_template_free(page);
        return;
    }
    sp_templates_remove(templates, lo, hi);
    *t = (struct template){.range = {lo, hi}, .left = hi - lo, .page = page};
    struct template **at = tsearch(t, &templates->tree, compare_ranges);
    if (!at || *at != t)
        free_template(t);
}

uint64_t sp_templates_find(const struct sp_templates *templates, uint64_t at,
                           struct sp_template_range *range)
{
    const struct template *t = find_template(templates, at, at + 1);

    if (!t)
        return 0;
    *range = t->range;
    return t->page;
}

void sp_templates_remove(struct sp_templates *templates, uint64_t lo, uint64_t hi)
{
    struct template *t;

    while (lo < hi && (t = find_template(templates, lo, hi))) {
        uint64_t from = t->range.lo > lo ? t->range.lo : lo;
        uint64_t to = t->range.hi < hi ? t->range.hi : hi;
        /* other ranges that overlap are on both sides */
        if (from > lo)
            sp_templates_remove(templates, lo, from);
        t->left -= to - from < t->left ? to - from : t->left;
        if (t->left == 0) {
            tdelete(t, &templates->tree, compare_ranges);
            free_template(t);
        }
        lo = to;
    }
}

void sp_templates_close(struct sp_templates *templates)
{
    tdestroy(templates->tree, free_template);
    templates->tree = NULL;
}
