/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects call functions of other objects through addresses in their data. The dynamic linker fills
 * in these addresses according to relocations, which name the functions (ELF, dl_iterate_phdr(3)).
 * This file replaces the addresses of given functions; the dynamic linker does not change them
 * again.
 */
#include "redirect.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../common/log.h"

#if defined(__x86_64__)
enum { BY_CALL = R_X86_64_JUMP_SLOT, BY_TABLE = R_X86_64_GLOB_DAT, BY_VALUE = R_X86_64_64 };
#elif defined(__aarch64__)
enum { BY_CALL = R_AARCH64_JUMP_SLOT, BY_TABLE = R_AARCH64_GLOB_DAT, BY_VALUE = R_AARCH64_ABS64 };
#elif defined(__riscv)
enum { BY_CALL = R_RISCV_JUMP_SLOT, BY_TABLE = R_RISCV_64, BY_VALUE = R_RISCV_64 };
#elif defined(__powerpc64__)
enum { BY_CALL = R_PPC64_JMP_SLOT, BY_TABLE = R_PPC64_GLOB_DAT, BY_VALUE = R_PPC64_ADDR64 };
#else
enum {
    BY_CALL = -1,
    BY_TABLE = -1,
    BY_VALUE = -1
}; /* on this processor only the link order decides */
#endif

struct work {
    const struct jt_redirect *functions;
    size_t num;
    const char *except;
    int changed;
};

struct object {
    uintptr_t base;
    const Elf64_Sym *symbols;
    const char *names;
    const Elf64_Rela *calls, *others;
    size_t num_calls, num_others;
    uintptr_t fixed, fixed_end; /* range that is write-protected after relocation (RELRO) */
};

static const char *file_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* Converts an address of the dynamic section. glibc has added the load address to it; other C
 * libraries have not. */
static const void *at_address(const struct object *o, Elf64_Addr address)
{
    return (const void *)(address < o->base ? o->base + address : address);
}

static void read_dynamic(struct object *o, const Elf64_Dyn *dynamic)
{
    size_t calls = 0, others = 0;

    for (const Elf64_Dyn *d = dynamic; d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_SYMTAB)
            o->symbols = at_address(o, d->d_un.d_ptr);
        else if (d->d_tag == DT_STRTAB)
            o->names = at_address(o, d->d_un.d_ptr);
        else if (d->d_tag == DT_JMPREL)
            o->calls = at_address(o, d->d_un.d_ptr);
        else if (d->d_tag == DT_RELA)
            o->others = at_address(o, d->d_un.d_ptr);
        else if (d->d_tag == DT_PLTRELSZ)
            calls = d->d_un.d_val;
        else if (d->d_tag == DT_RELASZ)
            others = d->d_un.d_val;
    }
    o->num_calls = o->calls ? calls / sizeof(*o->calls) : 0;
    o->num_others = o->others ? others / sizeof(*o->others) : 0;
}

static bool read_object(struct object *o, const struct dl_phdr_info *info)
{
    const Elf64_Dyn *dynamic = NULL;

    *o = (struct object){.base = info->dlpi_addr};
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const Elf64_Phdr *p = &info->dlpi_phdr[i];

        if (p->p_type == PT_DYNAMIC)
            dynamic = (const void *)(o->base + p->p_vaddr);
        if (p->p_type == PT_GNU_RELRO) {
            o->fixed = o->base + p->p_vaddr;
            o->fixed_end = o->fixed + p->p_memsz;
        }
    }
    if (dynamic == NULL)
        return false;
    read_dynamic(o, dynamic);
    return o->symbols != NULL && o->names != NULL;
}

static const struct jt_redirect *find_function(const struct work *w, const struct object *o,
                                               const Elf64_Rela *r)
{
    const Elf64_Sym *symbol = &o->symbols[ELF64_R_SYM(r->r_info)];
    int type = (int)ELF64_R_TYPE(r->r_info);

    if ((type != BY_CALL && type != BY_TABLE && type != BY_VALUE) || r->r_addend != 0 ||
        symbol->st_shndx != SHN_UNDEF)
        return NULL;
    for (size_t i = 0; i < w->num; i++)
        if (strcmp(o->names + symbol->st_name, w->functions[i].name) == 0)
            return &w->functions[i];
    return NULL;
}

static bool protect_slot(void *const *slot, int protection)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)slot / page * page;

    return mprotect((void *)at, page, protection) == 0;
}

static void set_slot(struct work *w, const struct object *o, void **slot, void *to)
{
    bool is_fixed = (uintptr_t)slot >= o->fixed && (uintptr_t)slot < o->fixed_end;

    if (is_fixed && !protect_slot(slot, PROT_READ | PROT_WRITE)) {
        lc_log("jtofu", -1,
               "cannot redirect a call of PMIx, because its address cannot be written: link "
               "libtofutop before libpmix");
        return;
    }
    __atomic_store_n(slot, to, __ATOMIC_RELEASE);
    if (is_fixed)
        protect_slot(slot, PROT_READ);
    w->changed++;
}

static void redirect_list(struct work *w, const struct object *o, const Elf64_Rela *list,
                          size_t num)
{
    for (size_t i = 0; i < num; i++) {
        const struct jt_redirect *function = find_function(w, o, &list[i]);

        if (function != NULL)
            set_slot(w, o, (void **)(o->base + list[i].r_offset), function->to);
    }
}

static bool is_here(const struct dl_phdr_info *info)
{
    uintptr_t here = (uintptr_t)&is_here;

    for (int i = 0; i < info->dlpi_phnum; i++) {
        const Elf64_Phdr *p = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + p->p_vaddr;

        if (p->p_type == PT_LOAD && here >= begin && here - begin < p->p_memsz)
            return true;
    }
    return false;
}

static int redirect_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct work *w = arg;
    struct object o;

    (void)size;
    if (strncmp(file_of(info->dlpi_name), w->except, strlen(w->except)) == 0 || is_here(info) ||
        !read_object(&o, info))
        return 0;
    redirect_list(w, &o, o.calls, o.num_calls);
    redirect_list(w, &o, o.others, o.num_others);
    return 0;
}

int jt_redirect_calls(const struct jt_redirect *functions, size_t num, const char *except)
{
    struct work w = {.functions = functions, .num = num, .except = except};

    if (BY_CALL >= 0)
        dl_iterate_phdr(redirect_object, &w);
    return w.changed;
}
