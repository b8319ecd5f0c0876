/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers and datatypes of an edge. */
#ifndef PRDMA_DATATYPE_H
#define PRDMA_DATATYPE_H

#include "mpilayer.h"

bool pr_side_edge(const struct pr_side *side, int k, struct pr_edge *edge);
void pr_edge_release(struct pr_edge *edge);
int pr_edge_pack(const struct pr_edge *edge, char *to, MPI_Comm comm);
int pr_edge_unpack(const struct pr_edge *edge, const char *from, MPI_Comm comm);

#endif
