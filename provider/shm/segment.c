/* SPDX-License-Identifier: Apache-2.0 */
/* Shared memory: a sealed memfd of fixed size, freed with the last process that has it open. */
#include "segment.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "prov_types.h"
#include "util/log.h"

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

static struct sp_segment *map(int fd)
{
    void *p = mmap(NULL, sizeof(struct sp_segment), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (p == MAP_FAILED)
        return NULL;
    madvise(p, sizeof(struct sp_segment), MADV_DONTDUMP);
    return p;
}

int sp_segment_create(struct sp_prov *prov)
{
    int fd = memfd_create("utofu-shm", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0 || ftruncate(fd, sizeof(struct sp_segment)) != 0 ||
        fcntl(fd, F_ADD_SEALS, SEALS) != 0 || !(prov->seg = map(fd))) {
        int rc = -errno;
        ut_error(SP_LOG, "cannot make a shared memory segment of %zu bytes (sparse): %s",
                 sizeof(struct sp_segment), strerror(-rc));
        if (fd >= 0)
            close(fd);
        return rc;
    }
    prov->seg_fd = fd;
    if (getrandom(&prov->seg->table.header.probe, 8, 0) != 8)
        prov->seg->table.header.probe = prov->addr.key ^ prov->addr.name;
    return 0;
}

void sp_segment_destroy(struct sp_prov *prov)
{
    sp_segment_unmap(prov->seg);
    close(prov->seg_fd);
}

int sp_segment_map(int fd, uint64_t probe, struct sp_segment **out)
{
    struct stat st;
    struct sp_segment *seg = NULL;
    int seals = fcntl(fd, F_GET_SEALS), rc = 0;

    /* sealed against shrinking: otherwise the peer could cause SIGBUS in this process */
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd, &st) != 0 ||
        st.st_size != sizeof(struct sp_segment)) {
        ut_error(SP_LOG, "a peer's segment is not what this version of the library makes");
        rc = -EPROTO;
    } else if (!(seg = map(fd))) {
        rc = -errno;
    } else if (seg->table.header.probe != probe) {
        sp_segment_unmap(seg);
        rc = -ESRCH;
    } else {
        mprotect(&seg->table, sizeof(seg->table), PROT_READ);
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
