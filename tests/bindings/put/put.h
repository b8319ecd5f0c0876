/* SPDX-License-Identifier: Apache-2.0 */
/* The same loop in C, C++ and Fortran, for counting instructions: see main.c. */
#ifndef TESTS_BINDINGS_PUT_H
#define TESTS_BINDINGS_PUT_H

#include <utofu.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Puts 8 bytes `number` times, each with a TCQ entry, which it takes. */
void put_words(utofu_vcq_hdl_t vcq, utofu_vcq_id_t peer, utofu_stadd_t lcl, utofu_stadd_t rmt,
               long number);

/* Not one of the calls that are counted. */
void end_with_error(int rc);

#ifdef __cplusplus
}
#endif

#endif
