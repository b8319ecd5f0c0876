/* SPDX-License-Identifier: Apache-2.0 */
/* The key of PMIx under which a process finds the map of its job, for jtofu_initialize(). */
#ifndef PMIX_FJEXT_H
#define PMIX_FJEXT_H

#define FJPMIX_RANKMAP "fjpmix.rankmap" /* (byte object) of the job: rank PMIX_RANK_WILDCARD */

#endif
