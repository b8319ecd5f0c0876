/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Atomic loads, stores and exchanges of the layer with their orders, which x86 does not show:
 * included before each source of acp_rules, which has the functions.
 */
#ifndef UT_TEST_NOTED_ORDERS_H
#define UT_TEST_NOTED_ORDERS_H

void note_load(const volatile void *at, int order);
void note_store(const volatile void *at, int order);
void note_exchange(int order);

#define __atomic_load_n(at, order) (note_load(at, order), __atomic_load_n(at, order))
#define __atomic_store_n(at, value, order)                                                         \
    (note_store(at, order), __atomic_store_n(at, value, order))
#define __atomic_exchange_n(at, value, order)                                                      \
    (note_exchange(order), __atomic_exchange_n(at, value, order))

#endif
