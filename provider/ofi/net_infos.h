/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frees memory that libfabric's `net` loses. In libfabric 1.16 and 1.17, `net` never frees the copy
 * of a fi_info that it makes for each endpoint (xnet_init_rdm() of prov/net/src/xnet_rdm.c), nor
 * the one for each connection that it accepts (xnet_process_connreq() of xnet_rdm_cm.c): 1.2 KiB
 * for a VCQ with a connection. libfabric 1.18 frees both; its name of `net` is `tcp`.
 *
 * `net` passes these copies to operations of its fabric and of its domain, in tables of the public
 * interface. This module replaces the two operations, and frees a copy after the last use of it. If
 * a patched `net` frees the copy itself, it closes the copy's device (fid_nic), which is an object
 * of this module.
 */
#ifndef FP_NET_INFOS_H
#define FP_NET_INFOS_H

#include "types.h"

struct fp_net_infos;

/* For a fabric, after its opening. Does nothing if the fabric is not `net`. 0 or -ENOMEM. */
int fp_net_infos_open(struct fp_prov *prov);
/* Before the fabric is closed. */
void fp_net_infos_close(struct fp_prov *prov);

/* For a domain, after its opening. Does nothing if the fabric is not `net`. 0 or -ENOMEM. */
int fp_net_infos_watch(struct fp_prov *prov, struct fp_fids *fids);
/* Before the domain is closed, and after its endpoints are. */
void fp_net_infos_unwatch(struct fp_prov *prov, struct fp_fids *fids);

#endif
