/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call sites of the program for other processes, to which an address of this process means nothing:
 * a number of the file, which is equal in all processes that have loaded the file, and an offset.
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "check/inner.h"
#include "util/clock.h"
#include "util/decimal.h"

static uint64_t number_of_file(const char *path)
{
    struct stat st;

    /* the program itself may have been found by a name that is not a path */
    if (stat(path, &st) != 0 && stat("/proc/self/exe", &st) != 0)
        return ut_hash(UT_HASH_FIRST, path, strlen(path));
    return ut_check_mix(ut_check_mix(UT_HASH_FACTOR, (uint64_t)st.st_dev), (uint64_t)st.st_ino);
}

static void find_place(const void *caller, struct ut_check_module_place *p)
{
    Dl_info info;
    int error = errno; /* errno of the program */

    *p = (struct ut_check_module_place){.caller = caller};
    if (caller && dladdr(caller, &info) && info.dli_fname) {
        const char *slash = strrchr(info.dli_fname, '/');
        p->module = number_of_file(info.dli_fname);
        p->offset = (uintptr_t)caller - (uintptr_t)info.dli_fbase;
        snprintf(p->name, sizeof(p->name), "%s", slash ? slash + 1 : info.dli_fname);
    }
    errno = error;
}

const struct ut_check_module_place *ut_check_module_place(struct ut_check *check,
                                                          const void *caller)
{
    uint64_t hash = ut_check_mix(0, (uint64_t)(uintptr_t)caller);
    struct ut_check_module_place *p = &check->recent[hash % UT_CHECK_RECENT];

    if (p->caller != caller)
        find_place(caller, p);
    return p;
}

/* Searched among the modules of this process by its number. */
struct wanted_module {
    uint64_t number;
    uintptr_t base; /* 0: not loaded */
};

static int note_module(struct dl_phdr_info *loaded, size_t size, void *arg)
{
    struct wanted_module *w = arg;
    Dl_info info;

    (void)size;
    for (int i = 0; i < loaded->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &loaded->dlpi_phdr[i];
        if (ph->p_type != PT_LOAD)
            continue;
        if (dladdr((const void *)(loaded->dlpi_addr + ph->p_vaddr), &info) && info.dli_fname &&
            number_of_file(info.dli_fname) == w->number)
            w->base = (uintptr_t)info.dli_fbase;
        break;
    }
    return w->base != 0;
}

static void print_place(const struct ut_table_comm *c, char *text, size_t size)
{
    struct wanted_module w = {.number = c->module};

    if (c->module)
        dl_iterate_phdr(note_module, &w);
    if (w.base)
        ut_check_symbolize((const void *)(w.base + c->offset), text, size);
    else
        snprintf(text, size, "%s+%#llx", c->name, (unsigned long long)c->offset);
}

void ut_check_describe_origin(const struct ut_table_found *found, const char *kind, char *text,
                              size_t size)
{
    const struct ut_table_comm *c = &found->comm;
    char place[320];

    print_place(c, place, sizeof(place));
    snprintf(text, size,
             "%s of %u bytes, number %llu of VCQ %016llx of rank %u, to VCQ %016llx, %s ms ago "
             "in %s",
             kind, c->length, (unsigned long long)c->number, (unsigned long long)c->vcq_id, c->rank,
             (unsigned long long)c->rmt_vcq_id, ut_decimal(ut_clock_ns() - c->at, 1000000, 3).text,
             place);
}

const void *ut_check_origin_place(const struct ut_table_found *found)
{
    return (const void *)(uintptr_t)ut_check_mix(found->comm.module, found->comm.offset);
}
