/* SPDX-License-Identifier: Apache-2.0 */
/* Mappings of this process: PROCMAP_QUERY and /proc/self/maps give the same result. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/vma.h"

enum { PAGE = 4096, PAGES = 3000 };

/* Pages of many kinds, each a mapping of its own, or two at the most. */
static uint8_t *make_mappings(int fd)
{
    uint8_t *mem = mmap(NULL, (size_t)PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    cr_assert(mem != MAP_FAILED);
    for (int i = 0; i < PAGES; i++) {
        uint8_t *at = mem + (size_t)i * PAGE;
        if (i % 3 == 0)
            cr_assert_eq(mprotect(at, PAGE, PROT_READ | PROT_WRITE), 0);
        else if (i % 5 == 0)
            cr_assert_eq(mmap(at, PAGE, PROT_READ | (i % 2 ? PROT_WRITE : PROT_EXEC),
                              (i % 7 ? MAP_SHARED : MAP_PRIVATE) | MAP_FIXED, fd, (off_t)i * PAGE),
                         at);
    }
    return mem;
}

static bool same(const struct sp_vma *a, const struct sp_vma *b)
{
    return a->lo == b->lo && a->hi == b->hi && a->offset == b->offset && a->inode == b->inode &&
           a->dev_major == b->dev_major && a->dev_minor == b->dev_minor &&
           a->readable == b->readable && a->writable == b->writable &&
           a->executable == b->executable && a->shared == b->shared && a->stack == b->stack;
}

/* The lines of the file, read with the C library. */
static struct sp_vma *list(size_t *n)
{
    struct sp_vma *all = calloc(PAGES * 3, sizeof(*all));
    FILE *f = fopen("/proc/self/maps", "r");
    char *line = NULL;
    size_t room = 0;

    cr_assert(all && f);
    for (*n = 0; getline(&line, &room, f) > 0 && *n < PAGES * 3; ++*n) {
        struct sp_vma *v = &all[*n];
        char mode[5];
        cr_assert_eq(sscanf(line, "%lx-%lx %4s %lx %x:%x %lu", &v->lo, &v->hi, mode, &v->offset,
                            &v->dev_major, &v->dev_minor, &v->inode),
                     7, "%s", line);
        v->readable = mode[0] == 'r';
        v->writable = mode[1] == 'w';
        v->executable = mode[2] == 'x';
        v->shared = mode[3] == 's';
        v->stack = strstr(line, "[stack]") != NULL;
    }
    cr_assert_gt(room, 3700, "no long line");
    free(line);
    fclose(f);
    return all;
}

/* Each mapping within [lo, hi), and the gap before it. Other mappings may change meanwhile. */
static void walk(const struct sp_vma *all, size_t n, uint64_t lo, uint64_t hi, bool reads)
{
    struct sp_vma_maps maps;
    struct sp_vma v;
    uint64_t gap = 0;
    int found = 0;

    sp_vma_init(&maps);
    cr_assert(sp_vma_open(&maps));
    maps.lacks_query = reads;
    for (size_t i = 0; i < n; i++) {
        if (all[i].lo <= lo || all[i].hi >= hi)
            continue;
        gap = gap ? gap : all[i].lo;
        cr_assert(sp_vma_find(&maps, gap, &v) && same(&v, &all[i]), "%lx", all[i].lo);
        cr_assert(sp_vma_find(&maps, all[i].lo, &v) && same(&v, &all[i]), "%lx", all[i].lo);
        cr_assert(sp_vma_find(&maps, all[i].hi - 1, &v) && same(&v, &all[i]), "%lx", all[i].lo);
        gap = all[i].hi;
        found++;
    }
    cr_assert_gt(found, PAGES / 3);
    cr_assert(!sp_vma_find(&maps, UINT64_MAX - PAGE, &v));
    sp_vma_close(&maps);
}

/* The kernel still reports the mapping's name. */
static void remove_long_name(void)
{
    char here[4200], *slash;

    cr_assert_eq(unlink("file"), 0);
    while (getcwd(here, sizeof(here)) && (slash = strrchr(here, '/')) > here + 1) {
        cr_assert_eq(chdir(".."), 0);
        cr_assert_eq(rmdir(slash + 1), 0);
    }
}

/* The maximum length of a name: longer than half of the read size. */
static int open_long_name(void)
{
    char name[4000] = "";
    size_t n = 0;

    cr_assert(chdir("/tmp") == 0);
    while (n < 3700) {
        char part[256];
        memset(part, 'a' + (int)(n % 26), 250);
        part[250] = '\0';
        if (n == 0)
            snprintf(part, sizeof(part), "utofu-vma-%d", (int)getpid());
        cr_assert(mkdir(part, 0700) == 0 && chdir(part) == 0);
        n += (size_t)snprintf(name + n, sizeof(name) - n, "/%s", part);
    }
    FILE *f = fopen("file", "w+");
    cr_assert(f && ftruncate(fileno(f), (off_t)PAGES * PAGE) == 0);
    int fd = dup(fileno(f));
    fclose(f);
    remove_long_name();
    return fd;
}

Test(vma, mappings_are_found_by_asking_and_by_reading)
{
    int fd = open_long_name();
    uint8_t *mem = make_mappings(fd);
    size_t n;
    struct sp_vma *all = list(&n);
    uint64_t lo = (uintptr_t)mem, hi = lo + (uint64_t)PAGES * PAGE;

    walk(all, n, lo, hi, false);
    walk(all, n, lo, hi, true);
    /* the twin: another page is another mapping */
    cr_assert_eq(mprotect(mem, PAGE, PROT_READ), 0);
    struct sp_vma_maps maps;
    struct sp_vma v;
    sp_vma_init(&maps);
    cr_assert(sp_vma_open(&maps) && sp_vma_find(&maps, (uintptr_t)mem, &v) && !v.writable);
    sp_vma_close(&maps);
    free(all);
    munmap(mem, (size_t)PAGES * PAGE);
    close(fd);
}

Test(vma, mappings_are_counted)
{
    long before = sp_vma_count();
    uint8_t *mem = make_mappings(memfd_create("utofu-vma", 0));

    cr_assert(before > 10 && sp_vma_count() > before + PAGES / 2, "%ld, then %ld", before,
              sp_vma_count());
    munmap(mem, (size_t)PAGES * PAGE);
    cr_assert_lt(sp_vma_count(), before + 10);
}
