/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies to and from memory of this process that may be unmapped: unmapped memory is an error and
 * raises no signal. The kernel copies between that memory and a memfd that this process has mapped.
 * This takes less than half of the time of process_vm_writev(), which looks up the process and pins
 * its pages.
 */
#ifndef PROV_BOUNCE_H
#define PROV_BOUNCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PROV_BOUNCE_MAX = 8192 }; /* maximum bytes of one copy */

struct prov_bounce {
    int fd;        /* -1: no memfd */
    uint8_t *here; /* mapping of the memfd */
};

/* Returns 0, or -errno: no memfd is available, and every copy returns -ENOSYS. */
int prov_bounce_open(struct prov_bounce *b);
void prov_bounce_close(struct prov_bounce *b);

/* Copies `size` bytes, at most PROV_BOUNCE_MAX, to (or from) memory that may be unmapped. Writes
 * keep the order of cma.h. Returns 0; -EFAULT: part of the memory is unmapped, or not writable
 * (readable). One thread at a time. */
int prov_bounce_write(struct prov_bounce *b, void *to, const void *from, size_t size);
int prov_bounce_read(struct prov_bounce *b, void *to, const void *from, size_t size);

#endif
