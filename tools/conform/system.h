/* SPDX-License-Identifier: Apache-2.0 */
/* What C99 lacks: system.c is the only file that uses POSIX. */
#ifndef CONFORM_SYSTEM_H
#define CONFORM_SYSTEM_H

#include <stddef.h>
#include <stdint.h>

double cf_system_now(void);
void cf_system_rest(double seconds);
void cf_system_yield(void);
void cf_system_host(char *name, size_t size);
uint64_t cf_system_nonce(void);         /* different in each process and at each time */
int cf_system_folder(const char *path); /* makes it if it is missing; 0 if it cannot */
void cf_system_remove_folder(const char *path);
void *cf_system_alloc(size_t alignment, size_t bytes); /* NULL without memory */
int cf_system_terminal(void);                          /* whether stderr is one */
/* The process ends with status 3 and the message unless this is called again within the seconds; 0:
 * no more */
void cf_system_deadline(double seconds, const char *message);
int cf_system_threads(int count, void (*run)(int thread, void *argument),
                      void *argument); /* 0 if not all run */

#endif
