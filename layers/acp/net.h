/* SPDX-License-Identifier: Apache-2.0 */
/* The VCQs, one for each color in use, and their operations. */
#ifndef AL_NET_H
#define AL_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <utofu.h>

#include "../common/port.h"
#include "sizes.h"

#pragma GCC visibility push(hidden)

struct al_net {
    struct lc_port *ports[AL_MAX_COLORS];
    utofu_tni_id_t tnis[AL_MAX_COLORS];
    uint32_t num_colors;
};

bool al_net_setup(void); /* finds the colors, and opens color 0 */
void al_net_close(void);
uint32_t al_net_colors(void);
bool al_port_open(uint32_t color);
struct lc_port *al_port(uint32_t color);
bool al_port_is_valid_id(utofu_vcq_id_t id); /* could this be the id of a VCQ? */
/* The VCQ id of another color of the same process. False: color0_id is not a VCQ id. */
bool al_port_id_of(utofu_vcq_id_t color0_id, uint32_t color, utofu_vcq_id_t *id);

bool al_net_poll(void);              /* true: something has happened */
uint32_t al_net_ops_in_flight(void); /* over all colors */
bool al_net_drain(void);             /* polls for a while; true: no operation is in flight */
void al_net_disable_callbacks(void); /* disables the callbacks of operations in flight */
void al_net_wake(void); /* ends the sleep in utofu_wait_vcqs(); called without the lock */
void al_net_count_usage(struct al_usage *usage);
size_t al_net_vcqs(utofu_vcq_hdl_t vcqs[AL_MAX_COLORS]);

#pragma GCC visibility pop

#endif
