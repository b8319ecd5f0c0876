/* SPDX-License-Identifier: Apache-2.0 */
/* For programs that hang. */
#ifndef OB_DUMP_H
#define OB_DUMP_H

#include "observe/state.h"

/* Prints what is not finished on this signal, HUP, QUIT, USR1 or USR2. 0, or -1. */
int ob_dump_open(const char *signal_name);

#endif
