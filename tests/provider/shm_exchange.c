/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of this process become pages of the memfd, and private pages again, at the same addresses
 * and with the same content: for ranges of some sizes, in which some pages are missing, with each
 * protection, and after an error, which leaves everything as it was. One thread.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shm/exchange.h"
#include "../harness/check.h"

enum { PAGE = 4096, MOST = 600, AROUND = 2 /* pages before and behind the range */ };

static struct sp_exchange x = {.uffd = -1, .uffd_kernel = -1};
static uint8_t *memory; /* AROUND pages, the range, AROUND pages */
static size_t pages;
static bool all_are_there;

static bool is_there(size_t page)
{
    return all_are_there || page % 3 != 1;
}

static uint8_t value_of(size_t page, size_t at)
{
    return is_there(page) ? (uint8_t)(1 + (page * 7 + at) % 251) : 0;
}

/* Maps the range, and what is around it. `shared`: pages of the memfd, from `offset` on. */
static void map_range(size_t n, bool shared, uint64_t offset)
{
    size_t size = (n + 2 * AROUND) * PAGE;

    pages = n;
    x.fd = memfd_create("exchange", MFD_CLOEXEC);
    memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(x.fd >= 0 && memory != MAP_FAILED && ftruncate(x.fd, 1ll << 47) == 0);
    if (shared)
        CHECK(mmap(memory, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, x.fd,
                   (off_t)offset) == memory);
    for (size_t page = 0; page < n + 2 * AROUND; page++)
        for (size_t at = 0; is_there(page) && at < PAGE; at++)
            memory[page * PAGE + at] = value_of(page, at);
}

static void unmap_range(void)
{
    munmap(memory, (pages + 2 * AROUND) * PAGE);
    close(x.fd);
}

static void check_content(void)
{
    for (size_t page = 0; page < pages + 2 * AROUND; page++)
        for (size_t at = 0; at < PAGE; at += 17)
            CHECK(memory[page * PAGE + at] == value_of(page, at));
}

static uint8_t in_file(uint64_t offset)
{
    uint8_t byte = 0xee;

    CHECK(pread(x.fd, &byte, 1, (off_t)offset) == 1);
    return byte;
}

static bool has_pages(uint64_t lo, uint64_t hi)
{
    off_t data = lseek(x.fd, (off_t)lo, SEEK_DATA);

    return data >= 0 && (uint64_t)data < hi;
}

/* Is the page of the range one of the memfd, at its offset? */
static bool is_shared(size_t page, uint64_t offset)
{
    uint8_t *at = memory + (AROUND + page) * PAGE, before = *at;

    *at = (uint8_t)(before + 1);
    bool shared = in_file(offset + (AROUND + page) * PAGE) == (uint8_t)(before + 1);
    *at = before;
    return shared;
}

static unsigned int count_mappings(void)
{
    FILE *file = fopen("/proc/self/maps", "re");
    unsigned int n = 0;

    CHECK(file);
    for (int c; (c = fgetc(file)) != EOF;)
        n += c == '\n';
    fclose(file);
    return n;
}

static struct sp_memfd_part part_at(uint64_t offset, int prot)
{
    uint64_t lo = (uintptr_t)memory + AROUND * PAGE;

    return (struct sp_memfd_part){
        .lo = lo, .hi = lo + pages * PAGE, .offset = offset + AROUND * PAGE, .prot = prot};
}

/* one that is copied in steps of 512 pages */
static const size_t long_runs[] = {511, 512, 513, 1100};
static const size_t sizes[] = {1, 2, 3, 15, 16, 17, 255, 256, 257, MOST};

/* Shared pages become private; the memfd keeps those around them. */
static void shared_pages_become_private(bool cow, const size_t *numbers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (uint64_t offset = 0; offset <= 64 * PAGE; offset += 64 * PAGE) {
            map_range(numbers[i], true, offset);
            const struct sp_memfd_part part = part_at(offset, PROT_READ | PROT_WRITE);
            uint64_t end = part.offset + pages * PAGE;
            CHECK(is_shared(0, offset) && is_shared(pages - 1, offset));
            CHECK(cow ? sp_exchange_restore_cow(&x, &part) : sp_exchange_restore(&x, &part, false));
            CHECK(!has_pages(part.offset, end)); /* freed */
            check_content();
            CHECK(has_pages(offset, part.offset) && has_pages(end, end + AROUND * PAGE));
            for (size_t page = 0; page < pages; page++)
                CHECK(!is_shared(page, offset));
            check_content();
            unmap_range();
        }
    }
}

/* The program's protection stays. */
static void protections_stay(void)
{
    static const int prots[] = {PROT_READ | PROT_WRITE, PROT_READ, PROT_NONE};

    for (size_t i = 0; i < sizeof(prots) / sizeof(prots[0]); i++) {
        map_range(3, true, 0);
        const struct sp_memfd_part part = part_at(0, prots[i]);
        CHECK(mprotect((void *)(uintptr_t)part.lo, pages * PAGE, prots[i]) == 0);
        CHECK(sp_exchange_restore(&x, &part, false));
        int fds[2];
        CHECK(pipe(fds) == 0);
        ssize_t n = write(fds[1], (void *)(uintptr_t)part.lo, 1); /* reads the memory */
        CHECK(n == (prots[i] & PROT_READ ? 1 : -1));
        CHECK(n == 1 || write(fds[1], "a", 1) == 1);
        uint8_t byte = value_of(AROUND, 0);
        CHECK(n == -1 || (read(fds[0], &byte, 1) == 1 && byte == value_of(AROUND, 0) &&
                          write(fds[1], &byte, 1) == 1));
        CHECK(read(fds[0], (void *)(uintptr_t)part.lo, 1) == (prots[i] & PROT_WRITE ? 1 : -1));
        close(fds[0]);
        close(fds[1]);
        CHECK(mprotect((void *)(uintptr_t)part.lo, pages * PAGE, PROT_READ | PROT_WRITE) == 0);
        check_content();
        unmap_range();
    }
}

/* After an error nothing has changed, and nothing is left. */
static void errors_change_nothing(void)
{
    map_range(17, true, 0);
    const struct sp_memfd_part part = part_at(0, PROT_READ | PROT_WRITE);
    unsigned int mappings = count_mappings();
    int fd = x.fd;

    CHECK(!sp_exchange_restore(&x, &part, true)); /* there is no uffd to block threads with */
    CHECK(is_shared(0, 0) && count_mappings() == mappings);
    x.fd = -1;
    CHECK(!sp_exchange_restore(&x, &part, false) && !sp_exchange_restore_cow(&x, &part));
    x.fd = fd;
    CHECK(count_mappings() == mappings);
    for (size_t page = 0; page < pages; page++)
        CHECK(is_shared(page, 0));
    check_content();
    for (int i = 0; i < 20; i++) { /* nor does a success leave mappings */
        CHECK(sp_exchange_restore(&x, &part, false));
        CHECK(mmap((void *)(uintptr_t)part.lo, pages * PAGE, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_FIXED, x.fd, (off_t)part.offset) != MAP_FAILED);
        mappings = i == 0 ? count_mappings() : mappings;
    }
    CHECK(count_mappings() <= mappings);
    unmap_range();
}

/* Private pages become shared: the file offset of a page is its address. */
static void private_pages_become_shared(void)
{
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        map_range(sizes[i], false, 0);
        const struct sp_memfd_part part = part_at(0, PROT_READ | PROT_WRITE);
        uint64_t template = 0, base = (uintptr_t)memory;
        CHECK(sp_exchange_existing(&x, part.lo, part.hi, SP_EXCHANGE_SPLICE, false, &template) ==
              pages * PAGE);
        check_content();
        for (size_t page = 0; page < pages; page++)
            CHECK(is_shared(page, base));
        CHECK(!has_pages(base, part.lo) && !has_pages(part.hi, part.hi + AROUND * PAGE));
        check_content();
        unmap_range();
    }
}

/* Pages are freed in the range alone. */
static void pages_are_freed(void)
{
    map_range(9, true, 0);
    sp_exchange_punch(&x, 3 * PAGE, 5 * PAGE);
    for (size_t page = 0; page < 9 + 2 * AROUND; page++)
        CHECK(in_file(page * PAGE) == (page == 3 || page == 4 ? 0 : value_of(page, 0)));
    unmap_range();
}

int main(void)
{
    const size_t n = sizeof(sizes) / sizeof(sizes[0]);

    shared_pages_become_private(false, sizes, n);
    shared_pages_become_private(true, sizes, n);
    all_are_there = true;
    shared_pages_become_private(true, long_runs, sizeof(long_runs) / sizeof(long_runs[0]));
    all_are_there = false;
    protections_stay();
    errors_change_nothing();
    private_pages_become_shared();
    pages_are_freed();
    return 0;
}
