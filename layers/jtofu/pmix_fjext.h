/* SPDX-License-Identifier: Apache-2.0 */
/* The PMIx key under which a process finds the map of its job, for jtofu_initialize(). */
#ifndef PMIX_FJEXT_H
#define PMIX_FJEXT_H

#define FJPMIX_RANKMAP "fjpmix.rankmap" /* a byte object of the job: rank PMIX_RANK_WILDCARD */

#endif
