/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linux 6.11 looks up one address. With older kernels, /proc/self/maps is read up to the address,
 * once for any number of mappings in ascending order.
 */
#include "vma.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "util/fd.h"

/* From <linux/fs.h>, which may be older than the kernel. */
struct query {
    uint64_t size, query_flags, query_addr;
    uint64_t vma_start, vma_end, vma_flags, vma_page_size, vma_offset, inode;
    uint32_t dev_major, dev_minor, vma_name_size, build_id_size;
    uint64_t vma_name_addr, build_id_addr;
};
#define QUERY _IOWR('f', 17, struct query)

enum {
    QUERY_READABLE = 1,
    QUERY_WRITABLE = 2,
    QUERY_EXECUTABLE = 4,
    QUERY_SHARED = 8,
    QUERY_COVERING_OR_NEXT = 16,
    NAME = 256,
};

static const char stack_name[] = "[stack]", anonymous_name[] = "[anon";

int sp_vma_prot(const struct sp_vma *vma)
{
    return (vma->readable ? PROT_READ : 0) | (vma->writable ? PROT_WRITE : 0) |
           (vma->executable ? PROT_EXEC : 0);
}

void sp_vma_init(struct sp_vma_maps *maps)
{
    maps->fd = -1;
    maps->lacks_query = false;
    maps->next_line = maps->end = 0;
    maps->last = (struct sp_vma){0};
}

bool sp_vma_open(struct sp_vma_maps *maps)
{
    if (maps->fd < 0)
        maps->fd = ut_fd_above_stdio(open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
    return maps->fd >= 0;
}

void sp_vma_close(struct sp_vma_maps *maps)
{
    if (maps->fd >= 0)
        close(maps->fd);
    maps->fd = -1;
}

/* Returns 1: found; 0: no mapping; -1: the kernel lacks this call. */
static int query_mapping(int fd, uint64_t addr, struct sp_vma *vma)
{
    char name[NAME] = "";
    struct query q = {.size = sizeof(q),
                      .query_flags = QUERY_COVERING_OR_NEXT,
                      .query_addr = addr,
                      .vma_name_size = sizeof(name),
                      .vma_name_addr = (uintptr_t)name};
    int rc = ioctl(fd, QUERY, &q);

    if (rc != 0 && errno == ENAMETOOLONG) { /* the name of a file: not [stack] */
        q.vma_name_size = 0;
        q.vma_name_addr = 0;
        rc = ioctl(fd, QUERY, &q);
    }
    if (rc != 0)
        return errno == ENOENT ? 0 : -1;
    *vma = (struct sp_vma){.lo = q.vma_start,
                           .hi = q.vma_end,
                           .offset = q.vma_offset,
                           .inode = q.inode,
                           .dev_major = q.dev_major,
                           .dev_minor = q.dev_minor,
                           .readable = q.vma_flags & QUERY_READABLE,
                           .writable = q.vma_flags & QUERY_WRITABLE,
                           .executable = q.vma_flags & QUERY_EXECUTABLE,
                           .shared = q.vma_flags & QUERY_SHARED,
                           .stack = strcmp(name, stack_name) == 0,
                           .named = strncmp(name, anonymous_name, strlen(anonymous_name)) == 0};
    return 1;
}

/* A line is "lo-hi rwxp offset major:minor inode   name". Returns the text after the addresses. */
static char *parse_range(char *line, struct sp_vma *vma)
{
    char *at;

    vma->lo = strtoull(line, &at, 16);
    vma->hi = strtoull(at + 1, &at, 16);
    return at;
}

/* `at`: the text after the addresses. */
static void parse_rest(char *at, struct sp_vma *vma)
{
    vma->readable = at[1] == 'r';
    vma->writable = at[2] == 'w';
    vma->executable = at[3] == 'x';
    vma->shared = at[4] == 's';
    vma->offset = strtoull(at + 5, &at, 16);
    vma->dev_major = (uint32_t)strtoul(at, &at, 16);
    vma->dev_minor = (uint32_t)strtoul(at + 1, &at, 16);
    vma->inode = strtoull(at, &at, 10);
    vma->stack = strstr(at, stack_name) != NULL;
    vma->named = strstr(at, anonymous_name) != NULL;
}

/* Returns the next line, without its newline; NULL: the end. */
static char *next_line(struct sp_vma_maps *maps)
{
    for (;;) {
        char *line = maps->buf + maps->next_line,
             *end = memchr(line, '\n', maps->end - maps->next_line);
        if (end) {
            *end = '\0';
            maps->next_line = (size_t)(end + 1 - maps->buf);
            return line;
        }
        maps->end -= maps->next_line;
        memmove(maps->buf, line, maps->end);
        maps->next_line = 0;
        if (maps->end == sizeof(maps->buf))
            maps->end = 0; /* too long for a line */
        ssize_t n = read(maps->fd, maps->buf + maps->end, sizeof(maps->buf) - maps->end);
        if (n <= 0)
            return NULL;
        maps->end += (size_t)n;
    }
}

bool sp_vma_find(struct sp_vma_maps *maps, uint64_t addr, struct sp_vma *vma)
{
    char *line;

    if (!maps->lacks_query) {
        int rc = query_mapping(maps->fd, addr, vma);
        if (rc >= 0)
            return rc > 0;
        maps->lacks_query = true;
    }
    while (maps->last.hi <= addr) {
        if ((line = next_line(maps)) == NULL)
            return false;
        line = parse_range(line, &maps->last);
        if (maps->last.hi > addr)
            parse_rest(line, &maps->last);
    }
    *vma = maps->last;
    return true;
}

bool sp_vma_is_fast(void)
{
    struct sp_vma_maps maps;
    struct sp_vma vma;

    sp_vma_init(&maps);
    if (!sp_vma_open(&maps))
        return false;
    bool fast = query_mapping(maps.fd, 0, &vma) >= 0;
    sp_vma_close(&maps);
    return fast;
}

long sp_vma_count(void)
{
    struct sp_vma_maps maps;
    long count = 0;

    sp_vma_init(&maps);
    if (!sp_vma_open(&maps))
        return -1;
    while (next_line(&maps))
        count++;
    sp_vma_close(&maps);
    return count;
}
