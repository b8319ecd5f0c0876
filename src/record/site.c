/* SPDX-License-Identifier: Apache-2.0 */
#include "record/site.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "util/hash.h"

enum {
    SLOTS_MAX = 16,      /* return addresses that are compared */
    PATHS_OF_STACK = 32, /* paths with the same stack pointer */
    PATHS_MAX = 4096,    /* of a thread; further calls are of the unknown site */
};

/* A way to a call: return addresses, and where on the stack they are, innermost first. */
struct site_path {
    struct ut_hash_entry by_stack;
    struct ut_site *site;
    uint32_t num;
    uintptr_t at[SLOTS_MAX], value[SLOTS_MAX];
};

static int find_own(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct ut_unwinder *unwinder = arg;
    uintptr_t own = (uintptr_t)find_own, first = UINTPTR_MAX, last = 0;

    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        uintptr_t end = begin + info->dlpi_phdr[i].p_memsz;
        if (info->dlpi_phdr[i].p_type != PT_LOAD)
            continue;
        first = begin < first ? begin : first;
        last = end > last ? end : last;
    }
    if (own < first || own >= last)
        return 0;
    if (*info->dlpi_name) { /* not the program itself, with this library in it */
        unwinder->own_begin = first;
        unwinder->own_end = last;
    }
    return 1;
}

static bool load_unwinder(void *lib, const char *name, void *function)
{
    void *address = lib ? dlsym(lib, name) : NULL;

    memcpy(function, &address, sizeof(address));
    return address != NULL;
}

void ut_unwinder_open(struct ut_unwinder *unwinder)
{
    void *lib = dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_LOCAL);

    if (!load_unwinder(lib, "_Unwind_GetIP", &unwinder->ip_of) ||
        !load_unwinder(lib, "_Unwind_GetCFA", &unwinder->cfa_of) ||
        !load_unwinder(lib, "_Unwind_Backtrace", &unwinder->walk))
        return;
    dl_iterate_phdr(find_own, unwinder);
}

void ut_sites_init(struct ut_sites *s, const struct ut_unwinder *unwinder)
{
    s->unwinder = unwinder;
    s->unknown = (struct ut_site){.next = &s->unknown, .written = true};
    s->last = &s->unknown;
}

void ut_sites_free(struct ut_sites *s)
{
    struct site_path *path;
    struct ut_site *site;

    UT_HASH_FOREACH_ALL (path, &s->paths, by_stack)
        free(path);
    ut_hash_free(&s->paths);
    UT_HASH_FOREACH_ALL (site, &s->sites, by_frames)
        free(site);
    ut_hash_free(&s->sites);
}

/*
 * Unwinding
 */

struct walk {
    const struct ut_unwinder *unwinder;
    uintptr_t frame, from; /* from: above the last return address that was found */
    struct site_path path;
    struct ut_site site;
};

/* A word of the stack of this thread, which may be what a sanitizer calls a red zone. */
#if defined(__GNUC__)
__attribute__((noinline, no_sanitize_address))
#endif
static uintptr_t
read_stack(uintptr_t at)
{
    return *(const volatile uintptr_t *)at;
}

/* Where the return address into a frame is, whose stack begins at `to`; 0: nowhere. */
static uintptr_t find_slot(uintptr_t from, uintptr_t to, uintptr_t value)
{
    if (to - sizeof(to) >= from && read_stack(to - sizeof(to)) == value)
        return to - sizeof(to);
    for (uintptr_t at = from; at + sizeof(at) <= to; at += sizeof(at))
        if (read_stack(at) == value)
            return at;
    return 0;
}

static int take_frame(void *context, void *arg)
{
    struct walk *w = arg;
    uintptr_t ip = w->unwinder->ip_of(context), cfa = w->unwinder->cfa_of(context);

    if (cfa <= w->frame || ip == 0)
        return ip == 0;
    uintptr_t slot = find_slot(w->from, cfa, ip);
    if (slot) {
        w->path.at[w->path.num] = slot;
        w->path.value[w->path.num++] = ip;
        w->from = slot + sizeof(slot);
    }
    if (ip < w->unwinder->own_begin || ip >= w->unwinder->own_end)
        w->site.frames[w->site.num++] = ip;
    return w->site.num == UT_SITE_FRAMES || w->path.num == SLOTS_MAX;
}

/* The site with these frames. */
static struct ut_site *find_site(struct ut_sites *s, const struct ut_site *like)
{
    uint64_t key = UT_HASH_FIRST;
    struct ut_site *site;

    for (uint32_t i = 0; i < like->num; i++)
        key = ut_hash_word(key, like->frames[i]);
    UT_HASH_OBJECT(site, by_frames, ut_hash_find(&s->sites, key));
    if (site || like->num == 0)
        return site ? site : &s->unknown;
    if (!ut_hash_reserve(&s->sites) || !(site = malloc(sizeof(*site))))
        return &s->unknown;
    *site = *like;
    site->next = &s->unknown;
    site->index = s->sites.used + 1;
    ut_hash_insert(&s->sites, &site->by_frames, key);
    return site;
}

static struct ut_site *add_path(struct ut_sites *s, uintptr_t frame)
{
    struct walk w = {.unwinder = s->unwinder, .frame = frame, .from = frame};
    struct site_path *path = NULL;

    s->unwinder->walk(take_frame, &w);
    if (!ut_hash_reserve(&s->paths) || !(path = malloc(sizeof(*path))))
        return &s->unknown;
    *path = w.path;
    path->site = find_site(s, &w.site);
    ut_hash_insert(&s->paths, &path->by_stack, frame);
    return path->site;
}

/* Are the return addresses at their places? From the innermost on: each says how large the frame
 * is in which the next one is. */
#if defined(__GNUC__)
__attribute__((no_sanitize_address))
#endif
static bool
is_on_stack(const struct site_path *path)
{
    for (uint32_t i = 0; i < path->num; i++)
        if (*(const volatile uintptr_t *)path->at[i] != path->value[i])
            return false;
    return true;
}

struct ut_site *ut_site_find(struct ut_sites *s, uintptr_t frame, bool *walked)
{
    struct ut_hash_entry *entry = ut_hash_find(&s->paths, frame);
    unsigned int num = 0;

    if (!s->unwinder->walk)
        return &s->unknown;
    for (; entry; entry = ut_hash_next(entry), num++) {
        struct site_path *path;
        UT_HASH_OBJECT(path, by_stack, entry);
        if (is_on_stack(path))
            return path->site;
    }
    if (num >= PATHS_OF_STACK || s->paths.used >= PATHS_MAX)
        return &s->unknown;
    *walked = true;
    return add_path(s, frame);
}
