/* SPDX-License-Identifier: Apache-2.0 */
/* All that the layer knows in this process. */
#include "ctx.h"

struct al al;
