/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other orders of targets: puts that a thread makes one after the other, to different processes,
 * with nothing but their TCQ entries between.
 */
#ifndef UM_ORDER_H
#define UM_ORDER_H

#include "model/place.h"
#include "model/program.h"

/* By the target's rank, counted from the own one; by rank ^ own; by the number of links. */
enum um_order {
    UM_ORDER_OWN,
    UM_ORDER_ROTATE,
    UM_ORDER_XOR,
    UM_ORDER_NEAR,
    UM_ORDER_FAR,
    UM_ORDERS
};

/* Their names, as of --what-if order=NAME; UM_ORDERS: there is no such order. */
extern const char *const um_order_names[UM_ORDERS];
enum um_order um_order_find(const char *name);

/* A program with its targets in this order, which shares the rest with the other one. */
struct um_program um_order_apply(const struct um_program *program, const struct um_place *place,
                                 enum um_order order);
void um_order_free(struct um_program *program);
/* The targets of the first such puts of a rank, as text: "1 2 3". */
void um_order_targets(const struct um_program *program, uint32_t rank, char *text, size_t size);

#endif
