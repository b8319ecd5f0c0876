/* SPDX-License-Identifier: Apache-2.0 */
/* Prepared descriptors. */
#ifndef OB_DESCS_H
#define OB_DESCS_H

#include <stddef.h>
#include <stdint.h>
#include "observe/comm.h"

int ob_prepared(struct ob_comm *comm, int rc, const void *desc, const size_t *desc_size);
/* The next descriptor of a utofu_post_toq(). Returns its size; 0: it is unknown. */
size_t ob_desc_find(const void *desc, size_t size, struct ob_comm *comm);
/* The communications of a utofu_post_toq() that were not prepared here. */
extern uint64_t ob_num_unknown_descs;

#endif
