/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of the shuffle mode. The wrapping provider (wrap.c) has an object for each
 * endpoint and connection (conn.c) of the inner provider, and a list of operations per connection.
 * post.c accepts the operations, plan.c decides on their pieces and delays, issue.c hands the
 * pieces to the inner provider, report.c reports completions and arrivals to the owner.
 * The lock of the owner guards all data of an endpoint, except the atomics that progress() reads.
 */
#ifndef UT_SHUFFLE_INNER_H
#define UT_SHUFFLE_INNER_H

#include <pthread.h>
#include <stddef.h>
#include <sys/queue.h>

#include "provider.h"
#include "shuffle/shuffle.h"

enum { SH_MAX_PIECES = 8 };

enum sh_kind {
    SH_WRITE,
    SH_READ,
    SH_ATOMIC,
    SH_SEND,
    SH_EMPTY, /* an empty write, which only requests a completion */
};

/* A piece of a write or a read. Other operations have one piece. */
struct sh_piece {
    uint32_t offset, length;
    uint64_t due_us; /* not issued before this time */
    bool issued;
};

struct sh_op {
    TAILQ_ENTRY(sh_op) next;
    uint8_t kind;   /* enum sh_kind */
    uint8_t path;   /* path through the network to vcq_id */
    bool strong;    /* executed after all earlier operations on its path, its last piece last */
    bool fenced;    /* executed after all earlier reads and atomics */
    bool own;       /* send: the notice of the previous operation, with its cookie */
    bool notifies;  /* a message, or a write with PROV_NOTIFY: these stay in order */
    bool hidden;    /* a read of an STag table by the library: not delayed */
    bool copied;    /* the source was copied to `copy` */
    bool breaks;    /* failed: the connection breaks at the turn of this operation */
    bool overtaken; /* write: a notifying operation was issued before all pieces of this one */
    uint8_t num_pieces, num_issued, num_out;
    enum prov_status status;
    uint64_t vcq_id;       /* the remote VCQ of the program's call; 0: unknown */
    uint64_t number;       /* sequence number on the connection */
    uint64_t report_us;    /* 0: not complete yet */
    struct prov_xfer xfer; /* flags, cookie etc. of all kinds */
    struct prov_atomic atomic;
    struct sh_piece piece[SH_MAX_PIECES];
    uint8_t copy[PROV_INLINE_MAX];
    uint32_t size; /* size of a send */
    uint64_t data[];
};

enum sh_event_kind { SH_NOTIFY, SH_MESSAGE, SH_UP };

/* An arrival that is not reported to the owner yet. */
struct sh_event {
    STAILQ_ENTRY(sh_event) next;
    uint8_t kind; /* enum sh_event_kind */
    uint32_t imm;
    uint64_t due_us;
    size_t size;
    uint64_t data[];
};

struct sh_conn {
    LIST_ENTRY(sh_conn) next; /* of the same endpoint */
    struct sh_ep *ep;
    struct prov_conn *inside; /* NULL: closed */
    void *ctx;
    uint64_t peer_id;
    TAILQ_HEAD(sh_ops, sh_op) ops;           /* the oldest first */
    STAILQ_HEAD(sh_events, sh_event) events; /* the oldest first */
    uint64_t num_posted, num_arrived;
    bool down;   /* accepts no operation; down() is called after all reports */
    bool broken; /* an operation that `breaks` will end it; earlier operations finish first */
    bool closed; /* by the owner */
    enum prov_reason reason;
};

/* A connection request of a peer. */
struct sh_request {
    STAILQ_ENTRY(sh_request) next;
    struct sh_conn *conn;
    size_t size;
    uint8_t hello[PROV_PRIVATE_DATA_MAX];
};

struct sh_ep {
    LIST_ENTRY(sh_ep) next; /* of the same provider */
    struct sh_prov *prov;
    struct prov_ep *inside;
    void *owner;
    const struct prov_callbacks *callbacks;
    uint64_t id;
    LIST_HEAD(sh_conns, sh_conn) conns;
    STAILQ_HEAD(sh_requests, sh_request) requests;
    uint64_t num_polls;
    bool polling;
    bool armed;  /* with PROV_ARM_ALL */
    bool missed; /* a poll after arming has reported an arrival: the owner is still woken, because
                  * other threads may sleep */
    uint64_t due_us; /* atomic: when the next operation or event is due; 0: none */
};

struct sh_prov {
    struct prov prov;
    struct prov_ops ops;
    struct prov *inside;
    void (*wake)(void *owner);
    bool rests; /* inner connections may be closed while idle, or grow */
    int epoll_fd, event_fd;
    int watching; /* atomic: progress() will visit the endpoints again without a call of
                   * wake_watcher() */
    pthread_mutex_t lock;
    LIST_HEAD(sh_eps, sh_ep) eps;
};

/* shuffle.c: random decisions. Each depends only on the seed, the two VCQs, the sequence number of
 * the communication, and the kind of decision. */
enum sh_what {
    SH_DRAW_LATE,
    SH_DRAW_CUTS,
    SH_DRAW_CUT, /* and the following SH_MAX_PIECES values */
    SH_DRAW_PIECE = SH_DRAW_CUT + SH_MAX_PIECES,
    SH_DRAW_COPY = SH_DRAW_PIECE + SH_MAX_PIECES,
    SH_DRAW_DONE,
    SH_DRAW_ARRIVAL,
    SH_DRAW_TURN,
    SH_DRAW_TOQ,
    SH_DRAW_START,
    SH_DRAW_HOLD,
};
uint64_t sh_draw(uint64_t id, uint64_t peer_id, uint64_t number, unsigned int what);
/* Microseconds: 0 in every other case, else up to the maximum of the level. */
uint64_t sh_delay_us(uint64_t drawn);
/* True from level 2 on: notices and completions are delayed, too. */
bool sh_delays_reports(void);

/* conn.c */
struct sh_conn *sh_conn_new(struct sh_ep *ep, uint64_t peer_id);
void sh_conn_free(struct sh_conn *conn);
/* Updates due_us, the time at which progress() must visit the endpoint. */
void sh_ep_update_due(struct sh_ep *ep, uint64_t now_us);

/* plan.c */
void sh_plan(const struct sh_conn *conn, struct sh_op *op, uint64_t now_us);
/* Sets the required order of the operation, from its TOQ slot. */
void sh_bind(const struct sh_conn *conn, struct sh_op *op);

/* issue.c: issues the operations that are due. If the inner provider returns its first error for
 * `only`, and no piece of `only` was issued, returns the error; then `only` was not posted. */
int sh_issue(struct sh_conn *conn, const struct sh_op *only, uint64_t now_us);
bool sh_op_is_complete(const struct sh_op *op);
/* The operation, or a piece of it, has failed. */
void sh_op_fail(struct sh_conn *conn, struct sh_op *op, enum prov_status status);
void sh_piece_done(void *ctx, uint64_t cookie, enum prov_status status);

/* post.c */
int sh_write(struct prov_conn *conn, const struct prov_xfer *xfer);
int sh_read(struct prov_conn *conn, const struct prov_xfer *xfer);
int sh_send(struct prov_conn *conn, const void *data, size_t size, unsigned int flags,
            uint64_t cookie);
int sh_atomic(struct prov_conn *conn, const struct prov_atomic *atomic);

/* report.c */
extern const struct prov_callbacks sh_callbacks, sh_callbacks_srq_low;
int sh_ep_poll(struct prov_ep *ep);
static inline struct sh_conn *sh_conn_of(struct prov_conn *conn)
{
    return (struct sh_conn *)conn;
}

static inline struct sh_ep *sh_ep_of(struct prov_ep *ep)
{
    return (struct sh_ep *)ep;
}

#endif
