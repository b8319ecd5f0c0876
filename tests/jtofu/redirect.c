/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which addresses of which objects jtofu replaces (redirect.c), in objects that the test makes:
 * those of given functions that the object takes from others, by each kind of relocation, write-
 * protected or not; none of the library itself and of the one that is left out.
 */
#include <elf.h>
#include <link.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../harness/check.h"

typedef int each_object(struct dl_phdr_info *info, size_t size, void *arg);
static int played_iterate(each_object *call, void *arg);
static int played_mprotect(void *at, size_t size, int protection);
#define dl_iterate_phdr played_iterate
#define mprotect        played_mprotect
#include "../../layers/jtofu/redirect.c"
#undef dl_iterate_phdr
#undef mprotect

enum { CALLS = 2, OTHERS = 7, SLOTS = CALLS + OTHERS + 2, PAGE = 4096, OF_OTHER_KIND = 0x7f };

/* The names begin at the object's address. */
static struct image {
    char names[32];
    Elf64_Dyn dynamic[8];
    Elf64_Sym symbols[6];
    Elf64_Rela calls[CALLS + 1], others[OTHERS + 1];
    void *slots[SLOTS] __attribute__((aligned(PAGE))); /* of the calls, then of the others */
} image __attribute__((aligned(PAGE)));

enum { NO_NAME, F, G, UNKNOWN, LONGER, DEFINED_F };

static Elf64_Phdr headers[4];
static struct dl_phdr_info objects[2];
static int num_objects, num_protects, fail_protect;
static int lines;
static char f_here, g_here; /* where f and g go */
static const struct jt_redirect functions[] = {{"f", &f_here}, {"g", &g_here}};

void lc_log(const char *layer, int rank, const char *format, ...)
{
    CHECK(strcmp(layer, "jtofu") == 0 && rank == -1 && strstr(format, "cannot be written"));
    lines++;
}

static int played_iterate(each_object *call, void *arg)
{
    for (int i = 0; i < num_objects; i++)
        if (call(&objects[i], sizeof(objects[i]), arg) != 0)
            return 1;
    return 0;
}

/* The address is writable between two calls, in this order. */
static int played_mprotect(void *at, size_t size, int protection)
{
    if (fail_protect)
        return -1;
    CHECK(at == (void *)image.slots && size == (size_t)sysconf(_SC_PAGESIZE));
    CHECK(protection == (num_protects++ % 2 ? PROT_READ : PROT_READ | PROT_WRITE));
    return 0;
}

static Elf64_Rela relocation(int slot, int type, int symbol, int addend)
{
    return (Elf64_Rela){.r_offset = offsetof(struct image, slots) + (size_t)slot * sizeof(void *),
                        .r_info = ELF64_R_INFO((uint64_t)symbol, (uint64_t)type),
                        .r_addend = addend};
}

/* An address of the dynamic section: as glibc leaves it, or not. */
static Elf64_Dyn entry(Elf64_Sxword tag, size_t offset, bool is_absolute)
{
    return (Elf64_Dyn){.d_tag = tag, .d_un.d_ptr = offset + (is_absolute ? (uintptr_t)&image : 0)};
}

static void make_image(bool is_absolute)
{
    static const int types[OTHERS] = {0, 1, 2, 0, 0, 0, 0};
    static const int symbols[OTHERS] = {F, G, F, G, UNKNOWN, LONGER, DEFINED_F};
    const int kinds[] = {BY_TABLE, BY_VALUE, OF_OTHER_KIND};

    memset(&image, 0, sizeof(image));
    memcpy(image.names, "\0f\0g\0h\0ff", 10);
    for (int i = F; i <= DEFINED_F; i++)
        image.symbols[i].st_name = (Elf64_Word[]){0, 1, 3, 5, 7, 1}[i];
    image.symbols[DEFINED_F].st_shndx = 4;
    image.calls[0] = relocation(0, BY_CALL, F, 0);
    image.calls[1] = relocation(1, BY_CALL, G, 0);
    image.calls[2] = relocation(SLOTS - 2, BY_CALL, F, 0); /* behind the end */
    for (int i = 0; i < OTHERS; i++)
        image.others[i] = relocation(CALLS + i, kinds[types[i]], symbols[i], i == 3 ? 8 : 0);
    image.others[OTHERS] = relocation(SLOTS - 1, BY_TABLE, F, 0); /* behind the end */
    Elf64_Dyn *d = image.dynamic;
    d[0] = entry(DT_SYMTAB, offsetof(struct image, symbols), is_absolute);
    d[1] = entry(DT_STRTAB, offsetof(struct image, names), is_absolute);
    d[2] = entry(DT_JMPREL, offsetof(struct image, calls), is_absolute);
    d[3] = entry(DT_RELA, offsetof(struct image, others), is_absolute);
    d[4] = (Elf64_Dyn){.d_tag = DT_PLTRELSZ, .d_un.d_val = CALLS * sizeof(Elf64_Rela)};
    d[5] = (Elf64_Dyn){.d_tag = DT_RELASZ, .d_un.d_val = OTHERS * sizeof(Elf64_Rela)};
    headers[0] = (Elf64_Phdr){.p_type = PT_LOAD, .p_memsz = sizeof(image)};
    headers[1] = (Elf64_Phdr){.p_type = PT_DYNAMIC, .p_vaddr = offsetof(struct image, dynamic)};
    headers[2] = (Elf64_Phdr){.p_type = PT_NULL};
    headers[3] = (Elf64_Phdr){.p_type = PT_NULL};
    objects[0] = (struct dl_phdr_info){.dlpi_addr = (uintptr_t)&image,
                                       .dlpi_name = "/lib/libother.so",
                                       .dlpi_phdr = headers,
                                       .dlpi_phnum = 4};
    num_objects = 1;
    num_protects = fail_protect = lines = 0;
}

static int redirect(void)
{
    return jt_redirect_calls(functions, 2, "libpmix.so");
}

/* Slots as a text: where each of them points. */
static bool are_slots(const char *text)
{
    char now[SLOTS + 1] = "";

    for (int i = 0; i < SLOTS; i++)
        now[i] = image.slots[i] == &f_here ? 'f' : image.slots[i] == &g_here ? 'g' : '.';
    if (strcmp(now, text) != 0)
        printf("%s, not %s\n", now, text);
    return strcmp(now, text) == 0;
}

static const char all[] = "fgfg.......", none[] = "...........";

static void functions_are_found(void)
{
    for (int is_absolute = 0; is_absolute < 2; is_absolute++) {
        make_image(is_absolute);
        CHECK(redirect() == 4 && are_slots(all) && num_protects == 0 && lines == 0);
    }
    make_image(true);
    CHECK(jt_redirect_calls(functions, 1, "libpmix.so") == 2 && are_slots("f.f........"));
}

static void parts_may_be_missing(void)
{
    static const struct {
        int entry, changed;
        const char *slots;
    } cases[] = {{0, 0, none},          {1, 0, none},          {2, 2, "..fg......."},
                 {3, 2, "fg........."}, {4, 2, "..fg......."}, {5, 2, "fg........."}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        make_image(true);
        image.dynamic[cases[i].entry].d_tag = DT_DEBUG;
        CHECK(redirect() == cases[i].changed && are_slots(cases[i].slots));
    }
    make_image(true);
    headers[1].p_type = PT_NULL;
    CHECK(redirect() == 0 && are_slots(none));
}

static void protected_addresses_are_written(void)
{
    static const struct {
        size_t first, num;
        int protects;
        const char *without; /* what is written if nothing can be made writable */
    } cases[] = {
        {0, SLOTS, 4, none}, {0, 1, 1, ".gfg......."}, {1, 2, 2, "f..g......."}, {4, 4, 0, all}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int fails = 0; fails < 2; fails++) {
            make_image(true);
            headers[3] = (Elf64_Phdr){.p_type = PT_GNU_RELRO,
                                      .p_vaddr = offsetof(struct image, slots) +
                                                 cases[i].first * sizeof(void *),
                                      .p_memsz = cases[i].num * sizeof(void *)};
            fail_protect = fails;
            CHECK(redirect() == (fails ? 4 - cases[i].protects : 4));
            CHECK(are_slots(fails ? cases[i].without : all));
            CHECK(num_protects == (fails ? 0 : 2 * cases[i].protects));
            CHECK(lines == (fails ? cases[i].protects : 0));
        }
}

static void some_objects_are_left_alone(void)
{
    static const struct {
        const char *name;
        bool left;
    } cases[] = {
        {"/usr/lib/libpmix.so.2", true}, {"libpmix.so", true}, {"libpmix.s", false},
        {"/libpmix.so/libx.so", false},  {"", false},          {"/lib/mylibpmix.so", false}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        make_image(true);
        objects[1] = objects[0]; /* and what follows */
        objects[0].dlpi_name = cases[i].name;
        num_objects = 1;
        CHECK(redirect() == (cases[i].left ? 0 : 4) && are_slots(cases[i].left ? none : all));
        num_objects = 2;
        CHECK(redirect() == (cases[i].left ? 4 : 8) && are_slots(all));
    }
}

/* The object that this code is in is left alone. */
static void the_library_is_left_alone(void)
{
    const uintptr_t here = (uintptr_t)&is_here, base = (uintptr_t)&image;
    const struct {
        uint32_t type;
        uintptr_t begin;
        size_t size;
        bool left;
    } cases[] = {{PT_LOAD, here, 1, true},         {PT_LOAD, here - 8, 9, true},
                 {PT_LOAD, here - 8, 8, false},    {PT_LOAD, here + 1, 64, false},
                 {PT_LOAD, here - 64, 4096, true}, {PT_NOTE, here, 64, false}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        make_image(true);
        headers[3] = (Elf64_Phdr){
            .p_type = cases[i].type, .p_vaddr = cases[i].begin - base, .p_memsz = cases[i].size};
        CHECK(redirect() == (cases[i].left ? 0 : 4) && are_slots(cases[i].left ? none : all));
    }
}

int main(void)
{
    if (BY_CALL < 0)
        return 77; /* on this processor nothing is redirected */
    functions_are_found();
    parts_may_be_missing();
    protected_addresses_are_written();
    some_objects_are_left_alone();
    the_library_is_left_alone();
    return 0;
}
