/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that the tests of session mode share. Uses the harness and utofu.h. */
#ifndef UT_TEST_RELAY_H
#define UT_TEST_RELAY_H

#include "ends.h"

#define UT_SPS(n) UTOFU_ONESIDED_FLAG_SPS(n)

/* Opens an end on TNI 0, in session mode or not, and gets the addresses of all others. */
void relay_open_all(struct ut_end *end, bool session, size_t size, struct ut_peer peers[]);

/* A put between the same offsets of two buffers. */
struct ut_comm relay_put(const struct ut_end *from, const struct ut_peer *to, size_t offset,
                         size_t length, unsigned long int flags);

/* Computes until the cell is set, without calling the library. */
void relay_compute_until(int cell);

/* The next notice is that of a put, local or remote, with this EDATA. */
void relay_expect(utofu_vcq_hdl_t vcq, uint8_t type, uint64_t edata);

/* Submits; makes room by polling the TCQ when the TOQ is full. */
void relay_submit(const struct ut_comm *comm);

/* Bytes that depend on their place and the round. */
void relay_fill(uint8_t *at, size_t length, uint64_t round);
void relay_check(const uint8_t *at, size_t length, uint64_t round);

#endif
