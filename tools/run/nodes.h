/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Namespaces of simulated nodes: the processes of each node share System V IPC and /dev/shm with
 * each other only, as on hosts of their own. A helper process makes one node after the other: the
 * launcher itself stays where it is. A user without privileges gets one user namespace for the
 * whole job, in which user and group are the same, as processes of several could not access each
 * other's memory.
 *
 * Uses libc only.
 */
#ifndef RUN_NODES_H
#define RUN_NODES_H

#include <stdbool.h>

/* Starts the helper. hides_shm: each node gets a /dev/shm of its own, too. 0 or a negative errno.
 */
int run_nodes_begin(bool hides_shm);
/* Makes the next node, which processes enter from now on. 0 or a negative errno: then they enter
 * none, nor later ones. */
int run_nodes_next(void);
/* In a child that was forked after run_nodes_next(): enters that node. 0 or a negative errno. */
int run_nodes_enter(void);
/* Ends the helper. Nodes last as long as their processes. */
void run_nodes_end(void);

#endif
