/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copying to and from memory of this process that may not be there: that is an error, and no
 * signal. The kernel copies between it and a memfd, of which this process has a mapping. That takes
 * less than half of what process_vm_writev() takes, which looks up the process and pins its pages.
 */
#ifndef PROV_BOUNCE_H
#define PROV_BOUNCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PROV_BOUNCE_MAX = 8192 }; /* bytes of a copy */

struct prov_bounce {
    int fd;        /* -1: there is none */
    uint8_t *here; /* its mapping */
};

/* 0; -errno: memfds cannot be had, and every copy returns -ENOSYS. */
int prov_bounce_open(struct prov_bounce *b);
void prov_bounce_close(struct prov_bounce *b);

/* Copies `size` bytes, at most PROV_BOUNCE_MAX: to memory that may not be there, in the order of
 * attach.h; or from it. 0; -EFAULT: not all of it is there, or it may not be written (or read).
 * One thread at a time. */
int prov_bounce_write(struct prov_bounce *b, void *to, const void *from, size_t size);
int prov_bounce_read(struct prov_bounce *b, void *to, const void *from, size_t size);

#endif
