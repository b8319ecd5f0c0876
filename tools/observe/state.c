/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/state.h"

enum ob_state ob_state;
struct ob_config ob_config;
OB_THREAD_LOCAL int ob_depth;
void *ob_next[OB_NUM_FUNCTIONS];
const char *const ob_names[OB_NUM_FUNCTIONS] = {
#define OB_FUNCTIONS(name) #name,
#include "wrappers.inc"
#undef OB_FUNCTIONS
};
