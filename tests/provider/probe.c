/* SPDX-License-Identifier: Apache-2.0 */
/* Whether memory can be read or written, asked of the kernel. */
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "../../provider/common/probe.c"
#include "../harness/check.h"

enum { PAGES = 4 };

static uint8_t *pages; /* readable, nothing, readable and writable, readable and writable */
static size_t page;

static void set_up(void)
{
    page = (size_t)sysconf(_SC_PAGESIZE);
    pages = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    CHECK(mprotect(pages, page, PROT_READ) == 0 && mprotect(pages + page, page, PROT_NONE) == 0);
}

static void readable_memory_is_told_from_missing(void)
{
    CHECK(prov_probe_read(pages, page) && prov_probe_read(pages + page - 1, 1));
    CHECK(!prov_probe_read(pages + page, 1) && !prov_probe_read(pages + page - 1, 2));
    CHECK(!prov_probe_read(pages + 2 * page - 1, 1) && prov_probe_read(pages + 2 * page, 2 * page));
    CHECK(!prov_probe_read(pages, 3 * page)); /* in the middle */
    printf("ok: readable memory is told from missing\n");
}

static void writable_memory_is_told_from_readable(void)
{
    CHECK(!prov_probe_write(pages, 8) && !prov_probe_write(pages + page - 1, 1));
    CHECK(!prov_probe_write(pages + page, 8) && !prov_probe_write(pages + 2 * page - 1, 2));
    CHECK(prov_probe_write(pages + 2 * page, 2 * page));
    CHECK(mprotect(pages + 3 * page, page, PROT_READ) == 0);
    CHECK(!prov_probe_write(pages + 3 * page - 1, 2) && prov_probe_write(pages + 3 * page - 1, 1));
    CHECK(mprotect(pages + 3 * page, page, PROT_READ | PROT_WRITE) == 0);
    printf("ok: writable memory is told from readable\n");
}

static void ends_of_long_memory_are_looked_at(void)
{
    CHECK(prov_probe_range(pages + 2 * page, 2 * page, true) && prov_probe_range(pages, 0, true));
    CHECK(prov_probe_range(pages, page, false) && !prov_probe_range(pages, page, true));
    CHECK(!prov_probe_range(pages + page, 2 * page, false));
    CHECK(!prov_probe_range(pages, 2 * page, false));
    CHECK(!prov_probe_range(pages + 3 * page, SIZE_MAX - 8, false));
    CHECK(!prov_probe_range(pages + 2 * page - 1, 2, false)); /* its first byte is missing */
    CHECK(!prov_probe_range(pages + 2 * page - 1, 2, true));
    CHECK(prov_probe_range(pages + 2 * page, 1, true));
    CHECK(prov_probe_range(pages + page - 1, 1, false));
    CHECK(!prov_probe_range(pages + page - 1, 2, false)); /* its last byte is */
    CHECK(prov_probe_range(pages + 4 * page - 1, 1, true));
    CHECK(mprotect(pages + 3 * page, page, PROT_READ) == 0);
    CHECK(!prov_probe_range(pages + 3 * page - 1, 2, true) &&
          prov_probe_range(pages + 3 * page - 1, 2, false));
    CHECK(mprotect(pages + 3 * page, page, PROT_READ | PROT_WRITE) == 0);
    for (int write = 0; write < 2; write++) { /* before a registration */
        CHECK(prov_memory_is_mapped(pages + 2 * page, 2 * page, write));
        CHECK(prov_memory_is_mapped(pages + 2 * page, 0, write) &&
              prov_memory_is_mapped(pages + 2 * page, 1, write));
        CHECK(!prov_memory_is_mapped(pages + 2 * page - 1, 2, write));
        CHECK(prov_memory_is_mapped(pages, page, write) == !write);
        CHECK(!prov_memory_is_mapped(pages + page - 1, 2, write));
        CHECK(!prov_memory_is_mapped(pages + 3 * page, SIZE_MAX - 8, write));
    }
    CHECK(mprotect(pages + 3 * page, page, PROT_READ) == 0);
    CHECK(!prov_memory_is_mapped(pages + 3 * page - 1, 2, true));
    CHECK(prov_memory_is_mapped(pages + 2 * page, page, true));
    CHECK(mprotect(pages + 3 * page, page, PROT_READ | PROT_WRITE) == 0);
    CHECK(munmap(pages + 2 * page, page) == 0);
    CHECK(!prov_probe_range(pages, PAGES * page, false)); /* a hole in the middle */
    CHECK(mmap(pages + 2 * page, page, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == pages + 2 * page);
    printf("ok: ends of long memory are looked at\n");
}

/* A file that has become shorter gives SIGBUS. */
static void pages_behind_the_end_of_a_file_are_missing(void)
{
    int fd = memfd_create("probe", 0);

    CHECK(fd >= 0 && ftruncate(fd, (off_t)page) == 0);
    void *at = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(at != MAP_FAILED && prov_probe_read(at, 8) && prov_probe_write(at, 8));
    CHECK(ftruncate(fd, 0) == 0);
    CHECK(!prov_probe_read(at, 8) && !prov_probe_write(at, 8));
    munmap(at, page);
    close(fd);
    printf("ok: pages behind the end of a file are missing\n");
}

static void *count_up(void *word)
{
    for (int i = 0; i < 100000; i++)
        __atomic_add_fetch((uint32_t *)word, 1, __ATOMIC_RELAXED);
    return NULL;
}

static void nothing_is_changed(void)
{
    uint32_t *word = (uint32_t *)(void *)(pages + 2 * page);
    static sigset_t before, after;
    pthread_t thread;

    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &before) == 0);
    memset(word, 0xff, 64);
    CHECK(prov_probe_read(word, 64) && prov_probe_write(word, 64));
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &after) == 0);
    CHECK(memcmp(&before, &after, sizeof(before)) == 0);
    for (int i = 0; i < 16; i++)
        CHECK(word[i] == UINT32_MAX);
    *word = 0;
    CHECK(pthread_create(&thread, NULL, count_up, word) == 0);
    for (int i = 0; i < 1000; i++)
        CHECK(prov_probe_write(word, 4));
    CHECK(pthread_join(thread, NULL) == 0 && *word == 100000);
    printf("ok: nothing is changed\n");
}

int main(void)
{
    CHECK(prov_probe_is_supported());
    set_up();
    readable_memory_is_told_from_missing();
    writable_memory_is_told_from_readable();
    ends_of_long_memory_are_looked_at();
    pages_behind_the_end_of_a_file_are_missing();
    nothing_is_changed();
    munmap(pages, PAGES * page);
    return 0;
}
