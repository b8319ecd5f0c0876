/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the bytes that a put or get moves: lengths, places, times. Each function is the body of
 * several cases. */
#ifndef CONFORM_TRANSFERS_H
#define CONFORM_TRANSFERS_H

#include "onesided.h"

/* Moves of these lengths, each in a slot of its own of so many bytes */
void cf_try_lengths(struct cf *c, enum cf_function f, const size_t *lengths, size_t count,
                    size_t slot);
/* One move of so many bytes, and of max_putget_size bytes */
void cf_try_length(struct cf *c, enum cf_function f, size_t length);
void cf_try_longest(struct cf *c, enum cf_function f);
/* Moves of 1 to 64 bytes */
void cf_try_short_lengths(struct cf *c, enum cf_function f);
/* Lengths around multiples of max_mtu */
void cf_try_packets(struct cf *c, enum cf_function f);
/* Lengths around each of the multiples of a unit, up to so many */
void cf_try_multiples(struct cf *c, enum cf_function f, size_t unit, size_t multiples);
/* Moves of 'length' bytes from and to every pair of places modulo 16 */
void cf_try_places(struct cf *c, enum cf_function f, size_t length);
/* 100 moves of random lengths up to 'max' between random places */
void cf_try_random(struct cf *c, enum cf_function f, size_t max);
/* What a move of no bytes returns, and which notices it has */
void cf_see_zero(struct cf *c, enum cf_function f);
/* Counts "returns UTOFU-ERR-FULL": where the code comes from, up to 20 letters, and its name */
void cf_tell_code(struct cf *c, const char *where, int code);
/* What a communication that exceeds a limit does: returns, and reports */
void cf_see_refusal(struct cf *c, struct cf_ends *e, struct cf_box *b, struct cf_comm m);
/* Each process with each other one, 'bytes' each */
void cf_try_all_pairs(struct cf *c, enum cf_function f, size_t bytes);
/* From a VCQ of each TNI to one of each TNI */
void cf_try_all_tnis(struct cf *c, enum cf_function f);
/* Of two VCQs on one TNI only the one that communicates has entries */
void cf_try_two_vcqs(struct cf *c, enum cf_function f);

#endif
