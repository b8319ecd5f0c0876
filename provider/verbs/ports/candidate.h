/* SPDX-License-Identifier: Apache-2.0 */
/* Candidate addresses at which a port might listen, best first. */
#ifndef VP_CANDIDATE_H
#define VP_CANDIDATE_H

#include <stdbool.h>

#include "verbs/prov_types.h"

enum { VP_MAX_GIDS = 1024, VP_MAX_CANDIDATES = 64 };

struct vp_candidate {
    union vp_sockaddr addr;
    unsigned int
        subnet; /* index of the first subnet in UTOFU_VERBS_SUBNETS with this address, or 0 */
    int rank;   /* higher is preferred */
    int gid_index;
};

/* True if every entry of UTOFU_VERBS_SUBNETS is a subnet. Logs the first that is not. */
bool vp_subnets_are_valid(void);

/* True if UTOFU_VERBS_CONNECT has a gid_index. */
bool vp_wants_gid(void);

/* RoCE: gets the address that a GID represents, and its rank. */
void vp_gid_candidate(const struct ibv_gid_entry *entry, struct vp_candidate *out);

/* True if the RoCE port's address is still in the GID table, or if there is no table. */
bool vp_has_its_address(const struct vp_port *port);

/* Gets the best VP_MAX_CANDIDATES addresses of a RoCE or InfiniBand port, in order. Returns their
 * number. `other_namespaces`: number of addresses left out because they belong to other network
 * namespaces. */
int vp_candidates(const struct vp_device *dev, unsigned int port, bool roce,
                  struct vp_candidate *out, unsigned int *other_namespaces);

#endif
