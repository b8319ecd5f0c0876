/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rails: further connections of a link, by other ports, for parts of long puts. The engine divides
 * a put (engine/parts.c); rails.c makes the connections, when the link's first long put starts, and
 * rail_keys.c finds the keys of memory for ports of other devices. docs/design/rails.md.
 *
 * A rail needs an endpoint at either end. Who has a long put opens its own, and asks the peer by a
 * message to open as many; the peer's answer says how many there are. Then the VCQ with the
 * smaller key asks for the connections. Until they are up, and when they end, a put goes by the
 * link's own connection, which alone carries notices and messages.
 */
#ifndef UT_LINK_RAILS_H
#define UT_LINK_RAILS_H

#include "link/link.h"

enum {
    UT_RAILS_MIN_PUT = 8192,       /* bytes of a put, below which no part is worth a request */
    UT_RAILS_SHARE_SHIFT = 16,     /* shares of ports are in 65536ths */
    UT_RAILS_FIRST_PAUSE_MS = 250, /* between two attempts to have them, doubled each time */
    UT_RAILS_LAST_PAUSE_MS = 64000,
};

/* What is known of one of the peer's STags. */
struct ut_rail_keys {
    uint32_t index; /* of the STag; UT_STAG_NONE: of none */
    uint32_t main;  /* its key for the link's own connection, */
    uint64_t base, size;
    uint32_t rkey[UT_MAX_RAILS]; /* and those for rails; 0: not registered there */
    uint64_t bytes;              /* that were put there and could have gone by more rails */
    uint64_t again_ms, pause_ms; /* the peer is not asked before; the pause before that */
};
enum { UT_RAIL_KEYS = 64 }; /* a power of two */

struct ut_rail {
    struct ut_link *link;
    struct prov_conn *conn; /* NULL: none */
    bool up;
    uint32_t share; /* of a put, while up */
};

struct ut_rails {
    struct ut_rail rail[UT_MAX_RAILS];
    uint32_t from; /* puts of at least so many bytes are divided */
    uint32_t num_up;
    uint32_t out;   /* puts in parts that have not ended, which are in link->armw_out, too */
    uint32_t share; /* of the link's own connection */
    uint32_t ports; /* of this process */
    uint32_t most;  /* further TNIs that may take parts */
    uint8_t other_here, other_there; /* bit n: port n + 1 is of another device than the link's own,
                                      * here, and at the peer */
    struct ut_rail_keys *keys; /* UT_RAIL_KEYS of them, by the index of the STag; NULL: none yet */
    uint64_t again_ms,
        pause_ms; /* no further attempt to have rails before; the pause before that */
};

/* Puts in parts that have not ended. */
static inline uint32_t ut_rails_outstanding(const struct ut_link *link)
{
    return __builtin_expect(link->rails != NULL, 0) ? link->rails->out : 0;
}

static inline struct prov *ut_rails_prov(const struct ut_link *link)
{
    return ut_process_peek()->prov[link->provider];
}

/* The link's connection is up: gives it rails where this process may have them. */
void ut_rails_enable(struct ut_link *link);
/* Is a rail up, and may a long put use it? If not, asks for rails where that may succeed. */
bool ut_rails_are_up(struct ut_link *link);
/* The peer's messages. */
void ut_rails_on_message(struct ut_link *link, const struct ut_msg_head *m);
void ut_rails_on_keys(struct ut_link *link, const struct ut_msg_rail_keys *m);
/* By which rails can `length` bytes be put from here to there, so far as keys are concerned? Bit n:
 * by rail n + 1, whose keys are in `keys`. Where one is missing it is asked for. `own`: the keys
 * for the link's own connection. */
unsigned int ut_rails_find_keys(struct ut_link *link, const struct ut_stag_local *from,
                                utofu_stadd_t to, uint32_t length, struct prov_mr own,
                                struct prov_mr keys[UT_MAX_RAILS]);
/* A rail has refused a part: the keys of the STag are asked for anew. */
void ut_rails_invalidate_keys(struct ut_link *link, utofu_stadd_t to);
/* The peer's VCQ is another one now. */
void ut_rails_drop_keys(struct ut_link *link);
/* Closes the rails of a link that is freed. */
void ut_rails_close(struct ut_link *link);

/* From the callbacks of rails' endpoints. */
void ut_rails_on_request(struct ut_vcq *vcq, struct prov *prov, struct prov_conn *conn,
                         uint64_t peer_id, const void *hello, size_t size);
void ut_rails_on_up(struct ut_rail *rail);
void ut_rails_on_down(struct ut_rail *rail);

#endif
