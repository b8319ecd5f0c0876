/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the layer in this process. */
#include "ctx.h"

struct al al;
