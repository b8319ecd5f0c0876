/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What several layers need, of which each module has a header of its own: their place in the job
 * (job.h), lines on standard error (log.h), how their processes meet before there are connections
 * (meet.h), the ring of ranks (ring.h), threads that wait (rest.h), when a peer is asked whether it
 * lives (probe.h), and when a wait is to say that it is one (patience.h). They are compiled into
 * each layer that uses them, use the public utofu.h alone, and have no variables of their own.
 */
#ifndef LC_COMMON_H
#define LC_COMMON_H

#include <stdbool.h>

#include "job.h"
#include "log.h"
#include "meet.h"
#include "patience.h"
#include "probe.h"
#include "rest.h"
#include "ring.h"

#endif
