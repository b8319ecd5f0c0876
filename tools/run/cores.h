/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cores that this process may use, and their assignment to a job of utofurun. Cores, not
 * hyperthreads, as two hyperthreads of one core share its execution units.
 *
 * Uses libc only.
 */
#ifndef RUN_CORES_H
#define RUN_CORES_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

enum { RUN_MAX_CPUS = 8192 };

/* A set of RUN_MAX_CPUS, for the CPU_..._S macros: a kernel for more than 1024 CPUs refuses to fill
 * a cpu_set_t. */
union run_cpus {
    cpu_set_t set;
    uint8_t bytes[RUN_MAX_CPUS / 8];
};

struct run_core {
    uint32_t package;
    uint32_t first;      /* lowest hyperthread of the core, usable or not: its identifier */
    union run_cpus cpus; /* its usable hyperthreads */
};

/* The usable CPUs, according to cpuset and affinity mask: 0 or a negative errno. */
int run_cpus_allowed(union run_cpus *allowed);

/* Groups CPUs by core, in order of package and CPU number, as described by `sysfs`
 * (/sys/devices/system/cpu); a CPU without a description is a core of its own. Returns the number
 * of cores, or a negative errno. The caller frees *cores. */
int run_cores_find(const char *sysfs, const union run_cpus *allowed, struct run_core **cores);

/* Moves `wanted` cores that no other job of utofurun has reserved to the front, and reserves them
 * for the life of this process. False, and none reserved: there are fewer. */
bool run_cores_reserve(struct run_core *cores, uint32_t num_cores, uint32_t wanted);

#endif
