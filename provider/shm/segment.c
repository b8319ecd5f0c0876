/* SPDX-License-Identifier: Apache-2.0 */
/* Segments: a sealed memfd, freed with the last process that has it open. */
#include "segment.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "types.h"
#include "util/fd.h"
#include "util/log.h"

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

/* Returns the size of a segment with this number of rings. */
static uint64_t bytes_of(uint32_t num_rings)
{
    return sizeof(struct sp_seg_table) + num_rings * sizeof(struct sp_ring);
}

/* A segment begins with its rings in descending order, so a file with fewer rings is mapped at a
 * higher address. The addresses of the missing rings are reserved and inaccessible. NULL: errno. */
static struct sp_segment *map_segment(int fd, uint32_t num_rings)
{
    const size_t skip = (SP_MAX_EPS - num_rings) * sizeof(struct sp_ring);
    uint8_t *p = mmap(NULL, sizeof(struct sp_segment), PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (p == MAP_FAILED)
        return NULL;
    if (mmap(p + skip, bytes_of(num_rings), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
             0) == MAP_FAILED) {
        munmap(p, sizeof(struct sp_segment));
        return NULL;
    }
    madvise(p, sizeof(struct sp_segment), MADV_DONTDUMP);
    return (struct sp_segment *)p;
}

/* Returns the number of rings that the limit of the size of files (ulimit -f) allows: a larger file
 * would raise SIGXFSZ. 0: not even one. */
static uint32_t rings_within_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        limit.rlim_cur >= sizeof(struct sp_segment))
        return SP_MAX_EPS;
    if (limit.rlim_cur < bytes_of(1))
        return 0;
    return (uint32_t)((limit.rlim_cur - sizeof(struct sp_seg_table)) / sizeof(struct sp_ring));
}

/* Creates, seals and maps the memfd. Returns its descriptor or -errno. */
static int make_file(struct sp_prov *prov)
{
    int fd = ut_fd_open_ours(memfd_create("utofu-shm", MFD_CLOEXEC | MFD_ALLOW_SEALING));

    if (fd < 0)
        return -errno;
    if (ftruncate(fd, (off_t)bytes_of(prov->num_rings)) != 0 ||
        fcntl(fd, F_ADD_SEALS, SEALS) != 0 || !(prov->seg = map_segment(fd, prov->num_rings))) {
        int rc = -errno;
        close(fd);
        return rc;
    }
    return fd;
}

int sp_segment_create(struct sp_prov *prov)
{
    prov->num_rings = rings_within_limit();
    int fd = prov->num_rings > 0 ? make_file(prov) : -EFBIG;

    if (fd < 0) {
        ut_error(SP_LOG, "cannot make a shared memory segment of %llu bytes (sparse): %s%s",
                 (unsigned long long)bytes_of(prov->num_rings ? prov->num_rings : 1), strerror(-fd),
                 fd == -EFBIG ? "; the size of files is limited: ulimit -f unlimited" : "");
        return fd;
    }
    prov->seg_fd = fd;
    if (getrandom(&prov->seg->table.header.probe, 8, 0) != 8)
        prov->seg->table.header.probe = prov->addr.key ^ prov->addr.name;
    return 0;
}

void sp_segment_destroy(struct sp_prov *prov)
{
    sp_segment_unmap(prov->seg);
    ut_fd_close(prov->seg_fd);
}

/* Returns the number of rings in the file; 0: no segment has this size. */
static uint32_t rings_of(const struct stat *st)
{
    uint64_t size = (uint64_t)st->st_size - sizeof(struct sp_seg_table);
    uint64_t num = size / sizeof(struct sp_ring);

    return num <= SP_MAX_EPS && num * sizeof(struct sp_ring) == size ? (uint32_t)num : 0;
}

int sp_segment_map(int fd, uint64_t probe, struct sp_segment **out, uint32_t *num_rings)
{
    struct stat st;
    struct sp_segment *seg = NULL;
    int seals = fcntl(fd, F_GET_SEALS), rc = 0;

    /* must be sealed: a peer that shrinks it could cause SIGBUS in this process */
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd, &st) != 0 || rings_of(&st) == 0) {
        ut_error(SP_LOG, "a peer's segment has another layout: does it run another version of "
                         "this library?");
        rc = -EPROTO;
    } else if (!(seg = map_segment(fd, rings_of(&st)))) {
        rc = -errno;
    } else if (seg->table.header.probe != probe) {
        sp_segment_unmap(seg);
        rc = -ESRCH;
    } else {
        mprotect(&seg->table, sizeof(seg->table), PROT_READ);
        *num_rings = rings_of(&st);
        *out = seg;
    }
    close(fd);
    return rc;
}

void sp_segment_unmap(struct sp_segment *seg)
{
    if (seg)
        munmap(seg, sizeof(*seg));
}
