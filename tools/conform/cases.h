/* SPDX-License-Identifier: Apache-2.0 */
/* Runs cases, one after another, in all processes. */
#ifndef CONFORM_CASES_H
#define CONFORM_CASES_H

#include "frame.h"
#include "groups.h"
#include "result.h"

struct cf_tally {
    int holds, fails, seen, not_tried;
};

/* Whether the options ask for the case */
int cf_cases_wanted(const struct cf_options *o, const struct cf_group *g, const struct cf_case *it);
/* Every process calls it. -1, or the rank of a process that was silent for a minute: then nothing
 * more can be run. */
int cf_cases_run(struct cf *c, const struct cf_options *o, const struct cf_place *places,
                 struct cf_tally *tally);

/* The measurements of --time; as cf_cases_run() */
int cf_cases_time(struct cf *c, const struct cf_options *o);

#endif
