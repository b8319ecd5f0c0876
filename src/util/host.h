/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The identity of the host: equal for two processes exactly if they can see each other's pids and
 * sockets: the same boot, the same pid namespace and the same network namespace.
 */
#ifndef UT_UTIL_HOST_H
#define UT_UTIL_HOST_H

#include <stdint.h>

#define UT_HOST_BOOT_ID "/proc/sys/kernel/random/boot_id"

struct ut_host {
    uint64_t hash; /* of the three fields above */
    uint32_t boot, pid_ns, net_ns;
};

/* 0, or -errno: the boot id cannot be read, and the hash is of the namespaces only. */
int ut_host_read(struct ut_host *host);

#endif
