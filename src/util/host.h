/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which host this is: equal for two processes exactly when they can see each other's pids and
 * sockets: one boot of a kernel, one pid namespace, one network namespace.
 */
#ifndef UT_UTIL_HOST_H
#define UT_UTIL_HOST_H

#include <stdint.h>

#define UT_HOST_BOOT_ID "/proc/sys/kernel/random/boot_id"

struct ut_host {
    uint64_t hash; /* of all three */
    uint32_t boot, pid_ns, net_ns;
};

/* 0, or -errno: the boot's id cannot be read, and the hash is of the namespaces alone. */
int ut_host_read(struct ut_host *host);

#endif
