/* SPDX-License-Identifier: Apache-2.0 */
/* Shared memory segments: creates the segment of this process, and maps a peer's. */
#ifndef SP_SEGMENT_H
#define SP_SEGMENT_H

#include <stdint.h>

#include "layout.h"
#include "types.h"

/* Creates and maps the segment of this process: sets seg, seg_fd and num_rings of `prov`. Returns 0
 * or, after an error line, a negative errno. */
int sp_segment_create(struct sp_prov *prov);
/* Unmaps it and closes its descriptor; peers that have mapped it keep it. */
void sp_segment_destroy(struct sp_prov *prov);
/* Maps a peer's segment, which must contain this probe, and closes the descriptor. *num_rings:
 * number of its rings, 1 to SP_MAX_EPS. Returns -EPROTO after an error line; -ESRCH if the segment
 * belongs to another process; another negative errno if this process lacks a resource. */
int sp_segment_map(int fd, uint64_t probe, struct sp_segment **seg, uint32_t *num_rings);
/* Unmaps a segment; NULL is allowed. */
void sp_segment_unmap(struct sp_segment *seg);

#endif
