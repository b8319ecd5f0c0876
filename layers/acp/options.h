/* SPDX-License-Identifier: Apache-2.0 */
/* The options of acp_init(), and the variables of the upper layers of ACP. */
#ifndef AL_OPTIONS_H
#define AL_OPTIONS_H

#include <stdbool.h>

#include "sizes.h"

#pragma GCC visibility push(hidden)

bool al_options_parse(int *argc, char ***argv);
void al_options_sizes(size_t sizes[AL_STARTERS]);
bool al_option_rank(uint32_t *rank);   /* true if --acp-myrank was given */
bool al_option_procs(uint32_t *procs); /* true if --acp-nprocs was given */
uint64_t al_option_first_handle(void);

#pragma GCC visibility pop

#endif
