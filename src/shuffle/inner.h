/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of the shuffle mode. The wrapping provider (wrap.c) has an object around each
 * endpoint and connection (conn.c) of the provider inside, and a list of operations for each
 * connection: post.c takes them in, plan.c decides on their pieces and delays, issue.c hands the
 * pieces to the provider inside, report.c tells the owner what has ended and arrived.
 *
 * Everything of an endpoint is touched with its owner's lock held, but for the atomics that
 * progress() reads.
 */
#ifndef UT_SHUFFLE_INNER_H
#define UT_SHUFFLE_INNER_H

#include <pthread.h>
#include <stddef.h>

#include "provider.h"
#include "shuffle/shuffle.h"

enum { SH_MAX_PIECES = 8 };

enum sh_kind {
    SH_WRITE,
    SH_READ,
    SH_ATOMIC,
    SH_SEND,
    SH_EMPTY, /* a write of nothing, which only asks for a completion */
};

/* A part of a write or a read. Others have one. */
struct sh_piece {
    uint32_t offset, length;
    uint64_t due_us; /* not handed over before */
    bool issued;
};

struct sh_op {
    struct sh_op *next;
    uint8_t kind;   /* enum sh_kind */
    uint8_t path;   /* with vcq_id: the way through the network */
    bool strong;    /* behind everything before on its path; its last piece behind its others */
    bool fenced;    /* behind all reads and atomics before */
    bool own;       /* send: behind the operation before with the same cookie, whose notice it is */
    bool tells;     /* a message, or a write with PROV_NOTIFY: these keep their order */
    bool hidden;    /* a read of the library itself, of an STag table: not delayed */
    bool copied;    /* its source is in `copy` */
    bool breaks;    /* it has failed, and the connection ends with it */
    bool overtaken; /* a write: one that tells went before all of it was handed over */
    uint8_t num_pieces, num_issued, num_out;
    enum prov_status status;
    uint64_t vcq_id;       /* that the program has named; 0: not known */
    uint64_t number;       /* among those of the connection */
    uint64_t report_us;    /* 0: not complete yet */
    struct prov_xfer xfer; /* its flags, cookie and so on, also of the other kinds */
    struct prov_atomic atomic;
    struct sh_piece piece[SH_MAX_PIECES];
    uint8_t copy[PROV_COPY_MAX];
    uint32_t size; /* send */
    uint64_t data[];
};

enum sh_event_kind { SH_NOTIFY, SH_MESSAGE, SH_UP };

/* Something that has arrived, and that the owner has not been told of. */
struct sh_event {
    struct sh_event *next;
    uint8_t kind; /* enum sh_event_kind */
    uint32_t imm;
    uint64_t due_us;
    size_t size;
    uint64_t data[];
};

struct sh_conn {
    struct sh_conn *next; /* of the endpoint */
    struct sh_ep *ep;
    struct prov_conn *inside; /* NULL: closed */
    void *ctx;
    uint64_t peer_id;
    struct sh_op *first, **last;
    struct sh_event *first_event, **last_event;
    uint64_t num_posted, num_arrived;
    bool down;   /* no operation is taken, and down() is called when everything is told */
    bool broken; /* by an operation that `breaks`: what is before it is finished first */
    bool closed; /* by the owner */
    enum prov_reason reason;
};

/* A peer asks for a connection. */
struct sh_request {
    struct sh_request *next;
    struct sh_conn *conn;
    size_t size;
    uint8_t hello[PROV_HELLO_MAX];
};

struct sh_ep {
    struct sh_ep *next; /* of the provider */
    struct sh_prov *prov;
    struct prov_ep *inside;
    void *owner;
    const struct prov_callbacks *callbacks;
    uint64_t id;
    struct sh_conn *conns;
    struct sh_request *first_request, **last_request;
    uint64_t num_polls;
    bool polling;
    bool armed;  /* with PROV_ARM_ALL */
    bool missed; /* and then something was told by a poll: the owner is woken all the same, as other
                  * threads may sleep until then */
    uint64_t due_us; /* atomic: when something held back is due; 0: nothing is held back */
};

struct sh_prov {
    struct prov prov;
    struct prov_ops ops;
    struct prov *inside;
    void (*wake)(void *owner);
    bool rests; /* the connections inside may rest, or grow */
    int epoll_fd, event_fd;
    int watching; /* atomic: progress() will look at the endpoints again by itself */
    pthread_mutex_t lock;
    struct sh_ep *eps;
};

/* draw.c: decisions. Each is a number that depends only on the seed, on who communicates with whom,
 * on which communication it is, counted from the start, and on what is decided. */
enum sh_what {
    SH_DRAW_LATE,
    SH_DRAW_CUTS,
    SH_DRAW_CUT, /* and SH_MAX_PIECES behind it */
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
/* Microseconds: none in one case of two, else up to the most that the level allows. */
uint64_t sh_delay_us(uint64_t drawn);
/* Are notices and completions delayed, too? From level 2 on. */
bool sh_tells_late(void);

/* conn.c */
struct sh_conn *sh_conn_new(struct sh_ep *ep, uint64_t peer_id);
void sh_conn_free(struct sh_conn *conn);
/* When something of the endpoint is due next, for progress(). */
void sh_ep_reckon(struct sh_ep *ep, uint64_t now_us);

/* plan.c */
void sh_plan(const struct sh_conn *conn, struct sh_op *op, uint64_t now_us);
/* What the TOQ slot behind an operation says. */
void sh_bind(const struct sh_conn *conn, struct sh_op *op);

/* issue.c: hands over what is due. Returns the first error of the provider inside, where `only` is
 * that operation and nothing of it is handed over; then it is as if it had not been posted. */
int sh_issue(struct sh_conn *conn, const struct sh_op *only, uint64_t now_us);
bool sh_op_is_complete(const struct sh_op *op);
/* An operation, or a part of it, has failed. */
void sh_op_fails(struct sh_conn *conn, struct sh_op *op, enum prov_status status);
void sh_piece_done(void *ctx, uint64_t cookie, enum prov_status status);

/* post.c */
int sh_write(struct prov_conn *conn, const struct prov_xfer *xfer);
int sh_read(struct prov_conn *conn, const struct prov_xfer *xfer);
int sh_send(struct prov_conn *conn, const void *data, size_t size, unsigned int flags,
            uint64_t cookie);
int sh_atomic(struct prov_conn *conn, const struct prov_atomic *atomic);

/* report.c */
extern const struct prov_callbacks sh_callbacks, sh_callbacks_crowded;
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
