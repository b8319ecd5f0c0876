/* SPDX-License-Identifier: Apache-2.0 */
/* Shared memory: creating the process's segment, mapping a peer's. */
#ifndef SP_SEGMENT_H
#define SP_SEGMENT_H

#include <stdint.h>

#include "layout.h"
#include "types.h"

int sp_segment_create(struct sp_prov *prov);
void sp_segment_destroy(struct sp_prov *prov);
/* Maps a peer's segment, which must contain this probe, and closes the descriptor. *num_rings: how
 * many rings it has, 1 to SP_MAX_EPS. -EPROTO after an
 * error line; -ESRCH: it belongs to another process; other negative errno: this process lacks a
 * resource. */
int sp_segment_map(int fd, uint64_t probe, struct sp_segment **seg, uint32_t *num_rings);
void sp_segment_unmap(struct sp_segment *seg);

#endif
