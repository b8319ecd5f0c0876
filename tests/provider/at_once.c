/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A few bytes are written as a whole, or at least in ascending order: one thread copies a counter
 * to every word of an area again and again, another reads two of the words, one right after the
 * other.
 */
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "../../provider/common/cma.c"
#include "../../provider/common/bounce.c"
#include "../../provider/common/copy_ordered.c"
#include "../../provider/common/atomic_width.c"
#include "../harness/check.h"

enum { STORED = 2000000, COPIED = 50000, LINES = 2 * PROV_TOFU_LINE };
enum how { BY_STORES, BY_ATTACHING, BY_BOUNCING };
static const char *const names[] = {"stores", "process_vm_writev", "preadv"};

static _Alignas(PROV_TOFU_LINE) uint8_t place[LINES];
static struct prov_bounce bounce;
static bool done;

struct run {
    enum how how;
    size_t at, size;
};

static void copy_once(const struct run *run, const uint32_t *from)
{
    uint8_t *to = place + run->at;

    if (run->how == BY_STORES)
        prov_copy_ordered(to, from, run->size);
    else if (run->how == BY_ATTACHING)
        CHECK(prov_cma_write(getpid(), from, (uintptr_t)to, run->size, false) == 0);
    else
        CHECK(prov_bounce_write(&bounce, to, from, run->size) == 0);
}

static void *copy_often(void *arg)
{
    const struct run *run = arg;
    uint32_t words[LINES / 4], copies = run->how == BY_STORES ? STORED : COPIED;

    for (uint32_t n = 1; n <= copies; n++) {
        for (size_t i = 0; i < run->size / 4; i++)
            words[i] = n;
        copy_once(run, words);
    }
    __atomic_store_n(&done, true, __ATOMIC_RELEASE);
    return NULL;
}

static uint32_t look(size_t at)
{
    return __atomic_load_n((const uint32_t *)(const void *)(place + at), __ATOMIC_ACQUIRE);
}

/* How often the word read second was older than the word read first. */
static unsigned long count_older(size_t first, size_t second)
{
    unsigned long older = 0;

    for (int i = 0; i < 1000; i++) {
        uint32_t a = look(first);
        uint32_t b = look(second);
        older += (int32_t)(b - a) < 0;
    }
    return older;
}

/* The words at `first` and `second` are in one piece (or, with `ascending`, `first` is in a later
 * one). */
static void watch(enum how how, size_t at, size_t size, size_t first, size_t second, bool ascending)
{
    struct run run = {.how = how, .at = at, .size = size};
    unsigned long older = 0, younger = 0;
    pthread_t copier;

    memset(place, 0, sizeof(place));
    __atomic_store_n(&done, false, __ATOMIC_RELAXED);
    CHECK(pthread_create(&copier, NULL, copy_often, &run) == 0);
    while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE)) {
        older += count_older(at + first, at + second);
        if (!ascending)
            younger += count_older(at + second, at + first);
    }
    CHECK(pthread_join(copier, NULL) == 0);
    if (older + younger > 0)
        fprintf(stderr,
                "%s: %zu bytes at %zu: byte %zu was seen %lu times before byte %zu, and %lu times "
                "after it\n",
                names[how], size, at, first, older, second, younger);
    CHECK(older + younger == 0);
}

static void check_pieces(enum how how, unsigned int width)
{
    watch(how, 0, 24, 16, 12, true); /* two pieces, or three: the last one is last */
    if (width < 16)
        return;
    watch(how, 16, 16, 0, 12, false);
    watch(how, 8, 24, 8, 20, false);
    watch(how, 32, 32, 16, 28, false); /* the second half: as one piece or as two */
    if (width < 32)
        return;
    watch(how, 32, 32, 0, 28, false);
    watch(how, 0, 64, 32, 60, false);
}

/* The last word of a line is stored last, and no word is seen in part. */
static void check_lines(void)
{
    watch(BY_STORES, 0, LINES, PROV_TOFU_LINE - 4, PROV_TOFU_LINE - 12, true);
    watch(BY_STORES, 0, LINES, PROV_TOFU_LINE - 4, 4, true);
    watch(BY_STORES, 0, LINES, LINES - 4, PROV_TOFU_LINE + 4, true);
}

int main(void)
{
    cpu_set_t cpus;
    char byte;
    struct iovec here = {&byte, 1};

    if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0 && CPU_COUNT(&cpus) < 2) {
        printf("skipped: nobody can look while another copies, with one CPU\n");
        return 77;
    }
    printf("seen as a whole: %u bytes of a store, %u of a copy by the kernel\n", prov_store_width(),
           prov_kernel_width());
    check_pieces(BY_STORES, prov_store_width());
    check_lines();
    CHECK(prov_bounce_open(&bounce) == 0);
    check_pieces(BY_BOUNCING, prov_kernel_width());
    prov_bounce_close(&bounce);
    if (process_vm_readv(getpid(), &here, 1, &here, 1, 0) == 1)
        check_pieces(BY_ATTACHING, prov_kernel_width());
    return 0;
}
