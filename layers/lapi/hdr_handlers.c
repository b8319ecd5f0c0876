/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Header handlers. A record names a handler by an index, by an address, or (from Fortran programs)
 * by its offset from the load address of the program. Only executable addresses are called.
 */
#include "hdr_handlers.h"

#include <link.h>
#include <stdio.h>
#include <string.h>

#include "../common/fd.h"

#define PROGRAM_OFFSET                                                                             \
    (1ull << 63) /* flag of an encoded address: the rest is an offset from the load address of the \
                    program */

void la_hdr_handlers_setup(void)
{
    memset(la.hdr_handlers.addresses, 0, sizeof(la.hdr_handlers.addresses));
}

void *la_hdr_handlers_get(int index)
{
    return la.hdr_handlers.addresses[index];
}

void la_hdr_handlers_set(int index, void *address)
{
    la.hdr_handlers.addresses[index] = address;
}

/* Reads the list of mappings, which includes code generated at run time. */
static bool is_executable(uintptr_t address)
{
    int fd = lc_fd_above_stdio(open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
    FILE *maps = fd < 0 ? NULL : fdopen(fd, "r");
    unsigned long begin, end;
    char line[4352], rights[5];
    bool found = false;

    while (maps != NULL && !found && fgets(line, sizeof(line), maps) != NULL)
        found = sscanf(line, "%lx-%lx %4s", &begin, &end, rights) == 3 && address >= begin &&
                address < end && rights[2] == 'x';
    if (maps != NULL)
        fclose(maps);
    else if (fd >= 0)
        close(fd);
    return found;
}

/* Checks each address that a peer sends only once. */
static bool is_callable(uintptr_t address)
{
    uintptr_t *entry = &la.hdr_handlers.code_cache[(address >> 4) % LA_CODE_CACHE_SIZE];

    if (__builtin_expect(*entry == address, 1))
        return true;
    if (!is_executable(address))
        return false;
    *entry = address;
    return true;
}

/* Finds the load address of the program, and whether an address lies in its code. All tasks have
 * the same code at the same offset. */
struct program_search {
    uintptr_t address, base;
    bool found;
};

static int visit_program(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct program_search *search = arg;

    (void)size;
    search->base = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];

        if (p->p_type == PT_LOAD && (p->p_flags & PF_X) != 0 &&
            search->address - (info->dlpi_addr + p->p_vaddr) < p->p_memsz)
            search->found = true;
    }
    return 1; /* the program is the first object */
}

bool la_hdr_handlers_encode(uintptr_t address, uint64_t *encoded)
{
    struct program_search search = {.address = address};

    dl_iterate_phdr(visit_program, &search);
    *encoded = PROGRAM_OFFSET | (address - search.base);
    return search.found;
}

static uintptr_t find_program_base(void)
{
    struct program_search search = {0};

    dl_iterate_phdr(visit_program, &search);
    return search.base;
}

/* NULL: no such handler. */
hdr_hndlr_t *la_hdr_handlers_find(const struct la_record *rec)
{
    void *address = (void *)(uintptr_t)rec->tgt_addr;
    hdr_hndlr_t *handler;

    if (rec->tgt_addr < LAPI_ADDRTBL_SZ)
        address = la.hdr_handlers.addresses[rec->tgt_addr];
    else if ((rec->tgt_addr & PROGRAM_OFFSET) != 0)
        address = (void *)(find_program_base() + (rec->tgt_addr & ~PROGRAM_OFFSET));
    if (address == NULL || !is_callable((uintptr_t)address))
        return NULL;
    memcpy(&handler, &address, sizeof(handler));
    return handler;
}
