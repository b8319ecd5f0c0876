/* SPDX-License-Identifier: Apache-2.0 */
/* Lines on standard error. */
#ifndef OB_LOG_H
#define OB_LOG_H

#include "observe/state.h"

void ob_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void ob_dump_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
