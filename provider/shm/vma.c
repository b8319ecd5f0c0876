/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Newer kernels (6.11) answer for one address; from older ones all of /proc/self/maps is read up to
 * the place.
 */
#include "vma.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Of <linux/fs.h>, which may be older than the kernel. */
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

static const char stack_name[] = "[stack]";

int sp_vma_open(void)
{
    return open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
}

/* 1: found; 0: nothing there; -1: this kernel cannot tell. */
static int ask(int fd, uint64_t addr, struct sp_vma *vma)
{
    char name[NAME] = "";
    struct query q = {.size = sizeof(q),
                      .query_flags = QUERY_COVERING_OR_NEXT,
                      .query_addr = addr,
                      .vma_name_size = sizeof(name),
                      .vma_name_addr = (uintptr_t)name};
    int rc = ioctl(fd, QUERY, &q);

    if (rc != 0 && errno == ENAMETOOLONG) { /* a file's */
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
                           .stack = strcmp(name, stack_name) == 0};
    return 1;
}

/* A line is "lo-hi rwxp offset major:minor inode   name". */
static void parse(const char *line, struct sp_vma *vma)
{
    char *at;

    *vma = (struct sp_vma){.lo = strtoull(line, &at, 16)};
    vma->hi = strtoull(at + 1, &at, 16);
    vma->readable = at[1] == 'r';
    vma->writable = at[2] == 'w';
    vma->executable = at[3] == 'x';
    vma->shared = at[4] == 's';
    vma->offset = strtoull(at + 5, &at, 16);
    vma->dev_major = (uint32_t)strtoul(at, &at, 16);
    vma->dev_minor = (uint32_t)strtoul(at + 1, &at, 16);
    vma->inode = strtoull(at, &at, 10);
    vma->stack = strstr(at, stack_name) != NULL;
}

/* Calls take() for each line until it returns true. */
static bool read_lines(int fd, bool (*take)(const char *line, void *arg), void *arg)
{
    char buf[8192];
    size_t have = 0;
    ssize_t n;

    while ((n = read(fd, buf + have, sizeof(buf) - 1 - have)) > 0) {
        have += (size_t)n;
        buf[have] = '\0';
        char *line = buf, *end;
        while ((end = strchr(line, '\n')) != NULL) {
            *end = '\0';
            if (take(line, arg))
                return true;
            line = end + 1;
        }
        have = strlen(line);
        memmove(buf, line, have);
        if (have == sizeof(buf) - 1)
            have = 0; /* no line is that long */
    }
    return false;
}

struct search {
    uint64_t addr;
    struct sp_vma *vma;
};

static bool is_it(const char *line, void *arg)
{
    struct search *s = arg;

    parse(line, s->vma);
    return s->vma->hi > s->addr;
}

bool sp_vma_find(int fd, uint64_t addr, struct sp_vma *vma)
{
    struct search s = {addr, vma};
    int rc = ask(fd, addr, vma);

    if (rc >= 0)
        return rc > 0;
    return lseek(fd, 0, SEEK_SET) == 0 && read_lines(fd, is_it, &s);
}

static bool count_one(const char *line, void *arg)
{
    (void)line;
    ++*(long *)arg;
    return false;
}

long sp_vma_count(void)
{
    long count = 0;
    int fd = sp_vma_open();

    if (fd < 0)
        return -1;
    read_lines(fd, count_one, &count);
    close(fd);
    return count;
}
