/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The identity of the host. It is equal for two processes exactly if they can see each other's pids
 * and sockets, that is, in the same boot, pid namespace and network namespace.
 */
#ifndef UT_UTIL_HOST_H
#define UT_UTIL_HOST_H

#include <stdint.h>

#define UT_HOST_BOOT_ID "/proc/sys/kernel/random/boot_id"

struct ut_host {
    uint64_t hash; /* hash of the three fields below */
    uint32_t boot, pid_ns, net_ns;
};

/* Returns 0, or -errno if the boot id cannot be read. Then the hash covers the namespaces only. */
int ut_host_read(struct ut_host *host);

#endif
