/* SPDX-License-Identifier: Apache-2.0 */
/* Fills and processes the hello: see hello.h. */
#include <string.h>

#include "link/hello.h"
#include "link/unacked.h"
#include "link/rails.h"
#include "util/log.h"

void ut_link_fill_hello(const struct ut_link *link, uint16_t serial, struct ut_hello *hello)
{
    const struct ut_vcq *vcq = link->vcq;

    *hello = (struct ut_hello){
        .version = UT_WIRE_VERSION,
        .armw_mode = ut_process_peek()->armw_mode,
        .serial = serial,
        .dir_rkey = ut_stag_dir_rkey(vcq->stags, link->provider),
        .dir_addr = (uintptr_t)ut_stag_dir_of(vcq->stags, link->provider),
        .rx_count = link->rx_number,
        .incarnation = vcq->incarnation,
    };
}

/* Sets the receive count to 0 if the receive history is that of another VCQ of the peer. */
static void reset_count_of_other_incarnation(struct ut_link *link, uint64_t incarnation)
{
    if (link->peer_incarnation == 0 && link->rx_history.incarnation != incarnation)
        link->rx_number = 0;
}

bool ut_link_process_hello(struct ut_link *link, const void *data, size_t size)
{
    struct ut_hello hello;

    if (size < sizeof(hello)) {
        ut_error("link",
                 "VCQ %016llx sent an unknown hello of %zu bytes (does its process run another "
                 "version?) and is not connected; use one version in a job",
                 (unsigned long long)link->peer, size);
        return false;
    }
    memcpy(&hello, data, sizeof(hello));
    if (hello.version != UT_WIRE_VERSION || hello.armw_mode != ut_process_peek()->armw_mode) {
        ut_error("link",
                 "VCQ %016llx belongs to another version or ARMW mode of this library and is not "
                 "connected; use one version and one UTOFU_ARMW in a job",
                 (unsigned long long)link->peer);
        return false;
    }
    bool known = link->peer_incarnation == hello.incarnation;
    bool recreated = link->peer_incarnation != 0 && !known;
    /* If this link meets the peer's VCQ for the first time, rx_count counts the messages of an
     * earlier VCQ of this process. If the peer has recreated its VCQ, rx_count goes on. */
    uint64_t count = known || recreated ? hello.rx_count : 0;
    reset_count_of_other_incarnation(link, hello.incarnation);
    link->peer_incarnation = hello.incarnation;
    link->rmt_serial = hello.serial;
    link->dir_addr = hello.dir_addr;
    link->dir_rkey = hello.dir_rkey;
    ut_link_drop_stag_cache(link);
    ut_announced_invalidate(&link->tx_announced);
    if (recreated) {
        ut_rails_drop_keys(link);
        link->rx_number = 0;
        ut_link_free_unacked(link); /* replies to the freed VCQ of the peer */
    }
    ut_link_ack_and_requeue(link, count);
    /* a recreated VCQ gets the communications that the freed VCQ did not receive */
    link->vcq->link_ops->delivered(link, count, recreated);
    link->tx_number = count;
    return true;
}

/* Returns the hello; zeros if the data are too short for one. */
static struct ut_hello read_hello(const void *data, size_t size)
{
    struct ut_hello hello = {0};

    if (size >= sizeof(hello))
        memcpy(&hello, data, sizeof(hello));
    return hello;
}

void ut_link_reset_rx_of_new_incarnation(struct ut_link *link, const void *data, size_t size)
{
    reset_count_of_other_incarnation(link, read_hello(data, size).incarnation);
}

bool ut_link_request_is_outdated(const struct ut_link *link, const void *data, size_t size)
{
    const struct ut_hello hello = read_hello(data, size);

    return hello.incarnation == link->peer_incarnation &&
           (int16_t)(hello.serial - link->rmt_serial) < 0;
}
