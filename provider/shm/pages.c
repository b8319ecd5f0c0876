/* SPDX-License-Identifier: Apache-2.0 */
#include "pages.h"

#include <fcntl.h>
#include <stddef.h>
#include <unistd.h>

#include "util/fd.h"

bool sp_pages_open(struct sp_pages *p)
{
    p->fd = ut_fd_high(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
    p->page_size = (uint64_t)sysconf(_SC_PAGESIZE);
    p->num = 0;
    return p->fd >= 0;
}

void sp_pages_close(struct sp_pages *p)
{
    if (p->fd >= 0)
        close(p->fd);
    p->fd = -1;
}

void sp_pages_forget(struct sp_pages *p)
{
    p->num = 0;
}

/* Bits 62 and 63 of an entry: swapped out, present. */
static bool entry_exists(uint64_t entry)
{
    return entry >> 62 != 0;
}

/* Reads the entries from this page number on, before `end`. */
static bool fill_buffer(struct sp_pages *p, uint64_t page, uint64_t end)
{
    uint64_t num = end - page < SP_PAGES_READ ? end - page : SP_PAGES_READ;
    ssize_t got = pread(p->fd, p->entries, num * sizeof(p->entries[0]),
                        (off_t)(page * sizeof(p->entries[0])));

    p->first = page;
    p->num = got > 0 ? (uint64_t)got / sizeof(p->entries[0]) : 0;
    return p->num > 0;
}

bool sp_pages_next(struct sp_pages *p, uint64_t at, uint64_t hi, struct sp_page_run *run)
{
    uint64_t page = at / p->page_size, end = hi / p->page_size;

    if (page - p->first >= p->num && !fill_buffer(p, page, end))
        return false;
    const uint64_t *entries = p->entries + (page - p->first);
    uint64_t n = 1, left = p->first + p->num - page;
    left = left < end - page ? left : end - page;
    run->exist = entry_exists(entries[0]);
    while (n < left && entry_exists(entries[n]) == run->exist)
        n++;
    run->lo = at;
    run->hi = at + n * p->page_size;
    return true;
}

uint64_t sp_pages_count(struct sp_pages *p, uint64_t lo, uint64_t hi, uint64_t limit)
{
    struct sp_page_run run;
    uint64_t bytes = 0;

    for (uint64_t at = lo; at < hi && bytes <= limit && sp_pages_next(p, at, hi, &run); at = run.hi)
        bytes += run.exist ? run.hi - run.lo : 0;
    return bytes;
}

bool sp_pages_exists(struct sp_pages *p, uint64_t at)
{
    uint64_t entry;

    return pread(p->fd, &entry, sizeof(entry), (off_t)(at / p->page_size * sizeof(entry))) !=
               (ssize_t)sizeof(entry) ||
           entry_exists(entry);
}
