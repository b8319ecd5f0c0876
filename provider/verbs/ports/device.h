/* SPDX-License-Identifier: Apache-2.0 */
/* RDMA devices and ports that the provider uses. */
#ifndef VP_DEVICE_H
#define VP_DEVICE_H

#include <stdbool.h>

#include "verbs/prov_types.h"

int vp_devices_open(struct vp_prov *prov);
void vp_devices_close(struct vp_prov *prov);
bool vp_port_is_active(const struct vp_port *port);
/* True if an event reported that the port went down, and it is still down. Makes no system call
 * without such an event. Called by progress(). */
bool vp_port_is_down(const struct vp_port *port);
/* Logs an error, with the limit of locked memory if this limit may be the cause. */
void vp_log_nomem(const char *what, const char *device, int err);

#endif
