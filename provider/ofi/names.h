/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of peers' endpoints in an endpoint's address vector: one entry for the connections to
 * one name. An entry without a connection is kept for a while, as a fabric may drop unsent messages
 * with it, and then removed, so that the vector does not grow with each connection.
 */
#ifndef FP_NAMES_H
#define FP_NAMES_H

#include "types.h"

/* Inserts the name, for one more connection. NULL after an error line. */
struct fp_name *fp_name_get(struct fp_ep *ep, const uint8_t name[FP_NAME_MAX]);
/* The connection has ended. */
void fp_name_put(struct fp_ep *ep, struct fp_name *name);
/* Frees the entries, after the address vector was closed. */
void fp_names_free(struct fp_ep *ep);

#endif
