/* SPDX-License-Identifier: Apache-2.0 */
#include "record/modules.h"

#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUILD_ID_MAX = 64 };

struct packed {
    uint8_t *bytes;
    size_t used, room;
    bool failed;
};

static void pack_bytes(struct packed *p, const void *bytes, size_t size)
{
    if (p->used + size > p->room) {
        size_t room = 2 * (p->used + size);
        uint8_t *more = realloc(p->bytes, room);
        if (!more) {
            p->failed = true;
            return;
        }
        p->bytes = more;
        p->room = room;
    }
    memcpy(p->bytes + p->used, bytes, size);
    p->used += size;
}

static void pack_number(struct packed *p, uint64_t value)
{
    uint8_t byte;

    for (; value > 0x7f; value >>= 7) {
        byte = (uint8_t)(value | 0x80);
        pack_bytes(p, &byte, 1);
    }
    byte = (uint8_t)value;
    pack_bytes(p, &byte, 1);
}

static void pack_word(struct packed *p, uint64_t value)
{
    for (int i = 0; i < 8; i++) {
        uint8_t byte = (uint8_t)(value >> 8 * i);
        pack_bytes(p, &byte, 1);
    }
}

/* The build id among the notes of a segment in memory; 0: there is none. */
static size_t find_build_id(const uint8_t *notes, size_t size, const uint8_t **id)
{
    ElfW(Nhdr) note;

    for (size_t at = 0; at + sizeof(note) <= size;) {
        memcpy(&note, notes + at, sizeof(note));
        const uint8_t *name = notes + at + sizeof(note);
        size_t name_size = (note.n_namesz + 3u) & ~3u, desc_size = (note.n_descsz + 3u) & ~3u;
        if (name_size + desc_size > size - at - sizeof(note))
            return 0;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(name, "GNU", 4) == 0) {
            *id = name + name_size;
            return note.n_descsz <= BUILD_ID_MAX ? note.n_descsz : 0;
        }
        at += sizeof(note) + name_size + desc_size;
    }
    return 0;
}

/* The path of a module, from the root; false: it has no file. */
static bool find_file(const char *name, char path[PATH_MAX])
{
    if (*name)
        return strchr(name, '/') && realpath(name, path);
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
    path[n < 0 ? 0 : n] = '\0';
    return n > 0;
}

static int pack_module(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct packed *p = arg;
    uint64_t begin = UINT64_MAX, end = 0, bias = info->dlpi_addr;
    const uint8_t *id = NULL;
    size_t id_size = 0;
    char path[PATH_MAX];

    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        uint64_t at = bias + h->p_vaddr;
        if (h->p_type == PT_LOAD && (h->p_flags & PF_X)) {
            begin = at < begin ? at : begin;
            end = at + h->p_memsz > end ? at + h->p_memsz : end;
        } else if (h->p_type == PT_NOTE && id_size == 0) {
            id_size = find_build_id((const uint8_t *)(uintptr_t)at, h->p_memsz, &id);
        }
    }
    if (begin >= end || !find_file(info->dlpi_name, path))
        return 0;
    pack_word(p, begin);
    pack_word(p, end);
    pack_word(p, bias);
    pack_number(p, id_size);
    pack_bytes(p, id_size ? id : (const uint8_t *)path, id_size);
    pack_number(p, strlen(path));
    pack_bytes(p, path, strlen(path));
    return 0;
}

uint8_t *ut_modules_pack(size_t *size)
{
    struct packed p = {.used = 0};

    dl_iterate_phdr(pack_module, &p);
    if (p.failed) {
        free(p.bytes);
        return NULL;
    }
    *size = p.used;
    return p.bytes;
}
