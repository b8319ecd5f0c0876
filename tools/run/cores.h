/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cores that this process may use, and which of them a job of utofurun takes. Cores, not
 * hyperthreads: two hyperthreads of one core share its execution units.
 *
 * Uses libc alone.
 */
#ifndef RUN_CORES_H
#define RUN_CORES_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

enum { RUN_MAX_CPUS = 8192 };

/* Room for RUN_MAX_CPUS, for the CPU_..._S macros: a kernel for more than 1024 CPUs refuses to fill
 * a cpu_set_t. */
union run_cpus {
    cpu_set_t set;
    uint8_t bytes[RUN_MAX_CPUS / 8];
};

struct run_core {
    uint32_t package;
    uint32_t first;      /* lowest hyperthread of the core, usable or not: its name */
    union run_cpus cpus; /* its hyperthreads that may be used */
};

/* The usable CPUs, cpuset and affinity mask considered: 0 or a negative errno. */
int run_cpus_allowed(union run_cpus *allowed);

/* Groups CPUs by core, in order of package and CPU number, as `sysfs` (/sys/devices/system/cpu)
 * describes them; a CPU that it does not describe is a core of its own. Returns how many, or a
 * negative errno. *cores is to be freed. */
int run_cores_find(const char *sysfs, const union run_cpus *allowed, struct run_core **cores);

/* Moves `wanted` cores that no other job of utofurun has reserved to the front, and reserves them
 * as long as this process lives. false, and nothing reserved, where there are fewer. */
bool run_cores_reserve(struct run_core *cores, uint32_t num_cores, uint32_t wanted);

#endif
