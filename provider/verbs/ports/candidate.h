/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses at which a port might listen, best first. */
#ifndef VP_CANDIDATE_H
#define VP_CANDIDATE_H

#include <stdbool.h>

#include "verbs/prov_types.h"

enum { VP_MAX_GIDS = 1024, VP_MAX_CANDIDATES = 64 };

struct vp_candidate {
    union vp_sockaddr addr;
    unsigned int subnet; /* first subnet of UTOFU_VERBS_SUBNETS that has it, or 0 */
    int rank;            /* higher is preferred */
    int gid_index;
};

/* Does every entry of UTOFU_VERBS_SUBNETS name a subnet? Logs the first that does not. */
bool vp_subnets_are_valid(void);

/* Does UTOFU_VERBS_CONNECT,gid_index choose an index? */
bool vp_wants_gid(void);

/* RoCE: the address that a GID stands for, and its rank. */
void vp_gid_candidate(const struct ibv_gid_entry *entry, struct vp_candidate *out);

/* Is the RoCE port's address still in its table of GIDs? True also if there is no table. */
bool vp_has_its_address(const struct vp_port *port);

/* The best VP_MAX_CANDIDATES of a RoCE or InfiniBand port, in order; returns their number.
 * `elsewhere`: how many addresses are left out because they are of other network namespaces. */
int vp_candidates(const struct vp_device *dev, unsigned int port, bool roce,
                  struct vp_candidate *out, unsigned int *elsewhere);

#endif
