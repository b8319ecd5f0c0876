/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the linker for the programs' libtofucom.so.1: this tool is linked with the objects. */
#include "info.h"

#include <dlfcn.h>
#include <elf.h>
#include <libgen.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/build_id.h"

#define SONAME "libtofucom.so.1"

struct build_of {
    ElfW(Addr) base;
    char *id;
    size_t size;
};

/* Reads the version in the ELF note of the library. */
static bool read_note(const ElfW(Nhdr) * note, struct build_of *b)
{
    const char *owner = (const char *)(note + 1), *text = owner + ((note->n_namesz + 3) & ~3u);

    if (note->n_type != UT_BUILD_NOTE_TYPE || note->n_namesz != sizeof(UT_BUILD_NOTE_OWNER) ||
        memcmp(owner, UT_BUILD_NOTE_OWNER, note->n_namesz) != 0)
        return false;
    const char *key = memmem(text, note->n_descsz, UT_BUILD_NOTE_KEY, strlen(UT_BUILD_NOTE_KEY));
    if (!key)
        return false;
    key += strlen(UT_BUILD_NOTE_KEY);
    snprintf(b->id, b->size, "%.*s", (int)strcspn(key, "\""), key);
    return true;
}

static int look_for_note(struct dl_phdr_info *object, size_t unused, void *ctx)
{
    struct build_of *b = ctx;

    (void)unused;
    if (object->dlpi_addr != b->base)
        return 0;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &object->dlpi_phdr[i];
        const char *at = (const char *)(object->dlpi_addr + p->p_vaddr), *end = at + p->p_memsz;
        while (p->p_type == PT_NOTE && at + sizeof(ElfW(Nhdr)) <= end) {
            const ElfW(Nhdr) *note = (const void *)at;
            if (read_note(note, b))
                return 1;
            at += sizeof(*note) + ((note->n_namesz + 3) & ~3u) + ((note->n_descsz + 3) & ~3u);
        }
    }
    return 1;
}

bool info_loaded_library(char *path, char *build, size_t size)
{
    void *handle = dlopen(SONAME, RTLD_LAZY | RTLD_LOCAL);
    struct link_map *map;
    char resolved[PATH_MAX];

    path[0] = build[0] = '\0';
    if (!handle)
        return false;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0) {
        struct build_of b = {.base = map->l_addr, .id = build, .size = size};
        snprintf(path, size, "%s", realpath(map->l_name, resolved) ? resolved : map->l_name);
        dl_iterate_phdr(look_for_note, &b);
    }
    dlclose(handle);
    return true;
}

static bool has_library(const char *dir)
{
    char file[2 * PATH_MAX + 32];

    snprintf(file, sizeof(file), "%s/" SONAME, dir);
    return access(file, R_OK) == 0;
}

/* The installation folder, or the one beside this tool in a build or moved installation. */
bool info_library_folder(char *buf, size_t size)
{
    char self[PATH_MAX] = "", dir[2 * PATH_MAX], resolved[PATH_MAX];
    static const char *const beside[] = {"..", "../" UT_LIB_NAME};

    snprintf(buf, size, "%s", UT_LIB_DIR);
    if (has_library(buf))
        return true;
    if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
        return false;
    dirname(self);
    for (size_t i = 0; i < sizeof(beside) / sizeof(beside[0]); i++) {
        snprintf(dir, sizeof(dir), "%s/%s", self, beside[i]);
        if (has_library(dir) && realpath(dir, resolved)) {
            snprintf(buf, size, "%s", resolved);
            return true;
        }
    }
    return false;
}
