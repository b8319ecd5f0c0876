/* SPDX-License-Identifier: Apache-2.0 */
/* Which of libfabric's fabrics is used, and its endpoints. */
#ifndef FP_FABRIC_H
#define FP_FABRIC_H

#include "types.h"

/* Asks libfabric what this host has, and takes the first that will do. NULL: nothing; `why` (size
 * FP_WHY) says so. */
struct fi_info *fp_fabric_choose(const struct fp_lib *lib, char why[FP_WHY]);

/* Whether this host has a fabric that would be used: its name, or why there is none. For tools. */
bool fp_fabric_look(char text[FP_WHY]);

/* Messages up to this size arrive in the order in which they were sent, bytes: larger ones of
 * ofi_rxm are fetched by their receiver, and those behind them overtake them. */
size_t fp_fabric_in_order(const struct fp_lib *lib, const struct fi_info *info);

/* What two processes must have in common. */
uint32_t fp_fabric_hash(const struct fp_lib *lib, const struct fi_info *info);

/* An endpoint with a completion queue and an address vector of its own, and with a domain of its
 * own where the fabric serves all sockets of one at once. cq_fd: -1 where the fabric has no
 * descriptor to sleep on. 0 or -errno after an error line. */
int fp_fids_open(struct fp_prov *prov, struct fp_fids *fids);
/* Any of them may be NULL. fp_fids_end() closes the endpoint alone, so that the fabric uses no
 * memory any more; what is registered is then closed before the rest, which fp_fids_close() closes.
 */
void fp_fids_end(struct fp_fids *fids);
void fp_fids_close(struct fp_prov *prov, struct fp_fids *fids);

/* Does cq_fd tell of everything that comes from now on? False: something is there already. */
bool fp_fids_may_sleep(struct fp_prov *prov, struct fp_fids *fids);

/* Its name, which peers insert into their address vectors. */
int fp_ep_name(struct fid_ep *ep, uint8_t name[FP_NAME_MAX], uint8_t *size);

#endif
