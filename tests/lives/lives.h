/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lives: a thing is made, used and given back N times, and the process has the same memory,
 * descriptors, mappings and threads after the first tenth of the lives and at the end. For programs
 * of any kind; uses the C library and /proc only.
 *
 * Environment: UT_LIVES (N, default 300), UT_LIVES_TABLE (a file to which each process appends a
 * line with what it had), UT_LIVES_LEAK (heap, fd, map or thread: the bad twin, which loses one in
 * each life, and passes if that is noticed), UT_LIVES_KEPT (bytes that each life may leave behind:
 * what is documented). trace.c tells who allocated what is left behind.
 */
#ifndef UT_TEST_LIVES_H
#define UT_TEST_LIVES_H

#include <dirent.h>
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LIVES_DEFAULT = 300, LIVES_MIN = 20 };

/* What a process has. */
enum lives_kind {
    LIVES_HEAP,
    LIVES_RSS,
    LIVES_WRITABLE, /* also pages that nobody has touched */
    LIVES_FDS,
    LIVES_MAPS,
    LIVES_THREADS,
    LIVES_KINDS
};

struct lives_sample {
    long of[LIVES_KINDS]; /* three of bytes, then numbers */
};

struct lives {
    const char *name;
    int rank;
    long total, done;
    struct lives_sample tenth, end;
};

/* Calls a function of trace.c, if that is preloaded. */
static inline void lives_trace(const char *function, const char *name, int of_rank)
{
    void (*call)(const char *, int) = (void (*)(const char *, int))dlsym(NULL, function);

    if (call)
        call(name, of_rank);
}

static inline long lives_total(void)
{
    const char *set = getenv("UT_LIVES");
    long total = set ? atol(set) : LIVES_DEFAULT;

    return total < LIVES_MIN ? LIVES_MIN : total;
}

static inline long lives_entries(const char *path)
{
    DIR *dir = opendir(path);
    long count = 0;

    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count;
}

/* The number of mappings, and the bytes of those that are private and writable, as neighbours of
 * these are one mapping. A segment that is shared, as a peer's of shm, has hundreds of MiB. */
static inline long lives_mappings(long *writable)
{
    FILE *file = fopen("/proc/self/maps", "r");
    unsigned long from, to;
    char line[4200], mode[8];
    long lines = 0;

    *writable = 0;
    while (file && fgets(line, sizeof(line), file)) {
        lines++;
        if (sscanf(line, "%lx-%lx %7s", &from, &to, mode) == 3 && mode[1] == 'w' && mode[3] == 'p')
            *writable += (long)(to - from);
    }
    if (file)
        fclose(file);
    return lines;
}

static inline long lives_resident(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = 0, resident = 0;

    if (!file || fscanf(file, "%ld %ld", &pages, &resident) != 2)
        abort();
    fclose(file);
    return resident * sysconf(_SC_PAGESIZE);
}

static inline struct lives_sample lives_take(void)
{
    struct lives_sample s;
    struct mallinfo2 info;

    malloc_trim(0); /* free pages that malloc keeps, up to 2 MiB, are resident without a use */
    info = mallinfo2();

    s.of[LIVES_HEAP] = (long)(info.uordblks + info.hblkhd);
    s.of[LIVES_RSS] = lives_resident();
    s.of[LIVES_FDS] = lives_entries("/proc/self/fd");
    s.of[LIVES_MAPS] = lives_mappings(&s.of[LIVES_WRITABLE]);
    s.of[LIVES_THREADS] = lives_entries("/proc/self/task");
    return s;
}

static inline void *lives_sleep(void *unused)
{
    for (;;)
        pause();
    return unused;
}

/* The bad twin. */
static inline void lives_lose(long life)
{
    const char *what = getenv("UT_LIVES_LEAK");
    /* volatile, as the compiler leaves out what nobody reads */
    static void *volatile memory __attribute__((unused));
    pthread_t lost;

    if (!what)
        return;
    if (strcmp(what, "heap") == 0)
        memory = malloc(1000);
    else if (strcmp(what, "fd") == 0 && dup(0) < 0)
        abort();
    else if (strcmp(what, "map") == 0 && /* neighbours of one kind would be one mapping */
             mmap(NULL, 4096, life % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                  0) == MAP_FAILED)
        abort();
    else if (strcmp(what, "thread") == 0 && life % 10 == 0 &&
             pthread_create(&lost, NULL, lives_sleep, NULL) != 0)
        abort();
}

static inline struct lives lives_begin(const char *name, int of_rank)
{
    return (struct lives){.name = name, .rank = of_rank, .total = lives_total()};
}

/* Called after each life. False: it was the last. */
static inline bool lives_next(struct lives *l)
{
    lives_lose(l->done);
    if (++l->done == l->total / 10) {
        l->tenth = lives_take();
        lives_trace("lives_trace_mark", l->name, l->rank);
    }
    if (l->done < l->total)
        return true;
    l->end = lives_take();
    lives_trace("lives_trace_print", l->name, l->rank);
    return false;
}

/* How much more there may be at the end than after the first tenth: 1 MiB for all lives, and less
 * of the heap for few lives; a few objects that are used again. */
static inline long lives_limit(const struct lives *l, enum lives_kind kind)
{
    enum { KIB = 1024, MIB = 1024 * KIB, WRITABLE = 32 * MIB, FDS = 8, MAPS = 24, THREADS = 1 };
    const char *set = getenv("UT_LIVES_KEPT");
    long heap = 128L * KIB + 8 * l->total, kept = set ? atol(set) * l->total : 0;

    switch (kind) {
    case LIVES_HEAP:
        return kept + (heap < MIB ? heap : MIB);
    case LIVES_RSS:
        return kept + MIB;
    case LIVES_WRITABLE:
        return kept + WRITABLE;
    case LIVES_FDS:
        return FDS;
    case LIVES_MAPS:
        return MAPS;
    default:
        return THREADS;
    }
}

static inline void lives_tell(FILE *to, const struct lives *l)
{
    static const char *const names[] = {"heap", "rss", "writable", "fds", "maps", "threads"};
    const char *provider = getenv("UTOFU_PROVIDER");

    fprintf(to, "lives %s provider=%s rank=%d lives=%ld", l->name, provider ? provider : "auto",
            l->rank, l->total);
    for (int i = 0; i < LIVES_KINDS; i++)
        fprintf(to, " %s=%ld:%ld", names[i], l->tenth.of[i], l->end.of[i]);
    fprintf(to, " bytes/life=%.2f\n",
            (double)(l->end.of[LIVES_HEAP] - l->tenth.of[LIVES_HEAP]) /
                (double)(l->total - l->total / 10));
}

/* True if nothing has grown, and for the bad twin if something has. Prints what has grown. */
static inline bool lives_end(const struct lives *l)
{
    const char *table = getenv("UT_LIVES_TABLE");
    FILE *file = table ? fopen(table, "a") : NULL;
    bool is_flat = true;

    if (file) {
        lives_tell(file, l);
        fclose(file);
    }
    for (enum lives_kind kind = LIVES_HEAP; kind < LIVES_KINDS; kind++)
        if (l->end.of[kind] - l->tenth.of[kind] > lives_limit(l, kind))
            is_flat = false;
    if (getenv("UT_LIVES_LEAK"))
        return !is_flat;
    if (!is_flat)
        lives_tell(stderr, l);
    return is_flat;
}

#endif
