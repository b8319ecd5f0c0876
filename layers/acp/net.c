/* SPDX-License-Identifier: Apache-2.0 */
/* A port for each color, each on its own TNI. */
#include "net.h"
#include "ctx.h"
#include "log.h"

#include <stdlib.h>

#include <utofu_ext.h>

enum { TCQ_PERIOD = 8 /* polls of the MRQ for each poll of the TCQ */, QUIET_POLLS = 256 };

/* Finds the TNIs; each TNI is a color. */
static bool find_tnis(void)
{
    utofu_tni_id_t *ids;
    size_t n;

    if (utofu_get_onesided_tnis(&ids, &n) != UTOFU_SUCCESS) {
        al_log("acp_init: uTofu is not available: %s", lc_utofu_error());
        return false;
    }
    al.net.num_colors = n < AL_MAX_COLORS ? (uint32_t)n : AL_MAX_COLORS;
    for (uint32_t i = 0; i < al.net.num_colors; i++)
        al.net.tnis[i] = ids[i];
    free(ids);
    if (al.net.num_colors == 0)
        al_log("acp_init: uTofu has no TNI here: see utofu-info --check");
    return al.net.num_colors > 0;
}

bool al_net_setup(void)
{
    return find_tnis() && al_port_open(0);
}

void al_net_count_usage(struct al_usage *usage)
{
    for (uint32_t i = 0; i < AL_MAX_COLORS; i++)
        if (al.net.ports[i] != NULL)
            usage->fixed += sizeof(*al.net.ports[i]) + al.net.ports[i]->memory.size;
}

uint32_t al_net_colors(void)
{
    return al.net.num_colors;
}

uint32_t al_net_ops_in_flight(void)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < al.net.num_colors; i++)
        if (al.net.ports[i] != NULL)
            n += lc_port_ops_in_flight(al.net.ports[i]);
    return n;
}

static void lose_peer(uint32_t rank)
{
    if (!al.leaving)
        al_fatal("rank %u has ended or cannot be reached, so the job ends: %s", rank,
                 lc_utofu_error());
}

static void handle_notice(int rc, const struct utofu_mrq_notice *notice)
{
    if (rc <= UTOFU_ERR_INVALID_ARG)
        al_fatal("cannot poll the MRQ: %s", lc_utofu_error());
    if (notice->notice_type == UTOFU_MRQ_TYPE_RMT_PUT)
        al.up->put_arrived(notice->rmt_stadd);
    else
        al_log("ignored an unexpected notice of a get or an atomic of VCQ 0x%llx: does another "
               "program of the job use it?",
               (unsigned long long)notice->vcq_id);
}

static const struct lc_port_config port_config = {
    .job = &al.job,
    .cmp_id = AL_COMP_WORK,
    .num_ops = AL_OPS,
    .bounce_size = AL_BOUNCE,
    .peer_lost = lose_peer,
    .handle_notice = handle_notice,
};

bool al_port_open(uint32_t color)
{
    struct lc_port *port;

    if (al.net.ports[color] != NULL)
        return true;
    port = calloc(1, sizeof(*port));
    if (port == NULL)
        al_log("no memory for the port of color %u", color);
    if (port == NULL || !lc_port_open(port, &port_config, al.net.tnis[color])) {
        free(port);
        return false;
    }
    al.net.ports[color] = port;
    return true;
}

void al_net_close(void)
{
    for (uint32_t i = 0; i < AL_MAX_COLORS; i++) {
        if (al.net.ports[i] == NULL)
            continue;
        lc_port_close(al.net.ports[i]);
        free(al.net.ports[i]);
        al.net.ports[i] = NULL;
    }
}

struct lc_port *al_port(uint32_t color)
{
    return al.net.ports[color];
}

bool al_port_is_valid_id(utofu_vcq_id_t id)
{
    uint8_t coords[6];
    utofu_tni_id_t tni;
    utofu_cq_id_t cq;
    uint16_t extra;

    return utofu_query_vcq_info(id, coords, &tni, &cq, &extra) == UTOFU_SUCCESS;
}

bool al_port_id_of(utofu_vcq_id_t color0_id, uint32_t color, utofu_vcq_id_t *id)
{
    uint8_t coords[6];
    utofu_tni_id_t tni;
    utofu_cq_id_t cq;
    uint16_t extra;

    *id = color0_id;
    return color == 0 ||
           (utofu_query_vcq_info(color0_id, coords, &tni, &cq, &extra) == UTOFU_SUCCESS &&
            utofu_construct_vcq_id(coords, al.net.tnis[color], cq, AL_COMP_WORK, id) ==
                UTOFU_SUCCESS);
}

size_t al_net_vcqs(utofu_vcq_hdl_t vcqs[AL_MAX_COLORS])
{
    size_t n = 0;

    for (uint32_t i = 0; i < al.net.num_colors; i++)
        if (al.net.ports[i] != NULL)
            vcqs[n++] = al.net.ports[i]->vcq;
    return n;
}

bool al_net_drain(void)
{
    for (int polls = 0; polls < QUIET_POLLS && al_net_ops_in_flight() > 0; polls++)
        al_net_poll();
    return al_net_ops_in_flight() == 0;
}

bool al_net_poll(void)
{
    bool any = false;

    for (uint32_t i = 0; i < al.net.num_colors; i++)
        if (al.net.ports[i] != NULL && lc_port_poll(al.net.ports[i], TCQ_PERIOD))
            any = true;
    return any;
}

void al_net_disable_callbacks(void)
{
    for (uint32_t i = 0; i < al.net.num_colors; i++)
        if (al.net.ports[i] != NULL)
            al.net.ports[i]->callbacks_off = true;
}

void al_net_wake(void)
{
    if (al.net.ports[0] != NULL)
        al_check_rc(utofu_wake_vcq(al.net.ports[0]->vcq), "utofu_wake_vcq");
}
