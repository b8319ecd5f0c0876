/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rails: further connections of a link over other ports, for parts of long puts. Rail r (from 1)
 * uses the port of TNI own + r on both sides; element r - 1 of a list and bit r - 1 of a mask
 * belong to it. The engine splits a put (engine/parts.c). rails.c makes the connections when the
 * first long put of the link starts. rail_keys.c gets the memory keys for ports of other devices.
 * See docs/design/rails.md.
 *
 * A rail needs an endpoint on both sides. The side with a long put opens its own endpoints, and
 * sends a message that asks the peer to open as many. The reply has the number of endpoints that
 * the peer opened. Then the VCQ with the smaller id connects them. While the rails are not up,
 * puts use the link's own connection, which alone carries notices and messages.
 */
#ifndef UT_LINK_RAILS_H
#define UT_LINK_RAILS_H

#include "link/link.h"

enum {
    UT_RAILS_MIN_SPLIT_THRESHOLD = 8192, /* bytes */
    UT_RAILS_SHARE_SHIFT = 16,           /* shares of ports are in units of 1/65536 */
    UT_RAILS_FIRST_PAUSE_MS = 250,       /* between two attempts to connect rails; doubles */
    UT_RAILS_MAX_PAUSE_MS = 64000,
};

/* Keys of one STag of the peer. */
struct ut_rail_keys {
    uint32_t index;    /* index of the STag; UT_STAG_NONE: unused entry */
    uint32_t own_rkey; /* key for the link's own connection */
    uint64_t base, size;
    uint32_t rkey[UT_MAX_RAILS];        /* keys for the rails; 0: not registered for this port */
    uint64_t bytes_without_keys;        /* total size of puts that lacked keys of the STag */
    uint64_t next_attempt_ms, pause_ms; /* time of the next request for keys, and the last pause */
};
enum { UT_NUM_RAIL_KEYS = 64 }; /* a power of two */

struct ut_rail {
    struct ut_link *link;
    struct prov_conn *conn; /* NULL: none */
    bool up;
    uint32_t share; /* share of each split put on this rail, while up */
};

struct ut_rails {
    struct ut_rail rail[UT_MAX_RAILS];
    uint32_t split_threshold; /* minimum size of a put that is split */
    uint32_t num_up;          /* number of rails that are up */
    uint32_t
        split_puts_out; /* split puts that are outstanding; link->unordered_out includes them */
    uint32_t share;     /* share of the link's own connection */
    uint32_t num_ports; /* ports of this process: TNI n uses port n % num_ports */
    uint32_t max_rails; /* maximum number of rails of the link */
    /* bit n: the port of rail n + 1 belongs to another device than the port of the link's own
     * connection, here and at the peer */
    uint8_t lcl_other_devices, rmt_other_devices;
    struct ut_rail_keys *keys; /* UT_NUM_RAIL_KEYS entries, by STag index; NULL: not allocated */
    /* time of the next attempt to connect rails, and the last pause */
    uint64_t next_attempt_ms, pause_ms;
};

/* Number of outstanding split puts. */
static inline uint32_t ut_rails_outstanding(const struct ut_link *link)
{
    return __builtin_expect(link->rails != NULL, 0) ? link->rails->split_puts_out : 0;
}

static inline struct prov *ut_rails_prov(const struct ut_link *link)
{
    return ut_process_peek()->prov[link->provider];
}

/* True if a rail is up and a long put may use it. Otherwise requests rails if that may succeed. */
bool ut_rails_are_up(struct ut_link *link);
/* Handles a message UT_MSG_RAILS. */
void ut_rails_on_message(struct ut_link *link, const struct ut_msg_head *m);

/* Callbacks of the rails' endpoints. `peer_endpoint_id`: key of the peer's VCQ id, with the number
 * of the rail. */
void ut_rails_on_request(struct ut_vcq *vcq, struct prov *prov, struct prov_conn *conn,
                         uint64_t peer_endpoint_id, const void *hello, size_t size);
void ut_rails_on_up(struct ut_rail *rail);
void ut_rails_on_down(struct ut_rail *rail);

#include "link/rail_keys.h"
#include "link/rail_setup.h"

#endif
