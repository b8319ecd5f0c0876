/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TNIs and links. A flight is a transfer from one TNI to another. It goes in trains of packets:
 * each is injected by its TNI, passes the links of its route, cut-through, and is received by the
 * other TNI. What comes into a node by a link, or from a TNI of the node, is a queue, and only its
 * first train goes on, to the next link or the TNI that receives: it blocks those behind it. A
 * queue behind a link has room for some packets only, and without room the link waits. A link and a
 * TNI that receives serve one train at a time, of the queues that wait for it in turn, so that
 * flights which share one of them share its rate. A link has a queue for each class of its route
 * (um_route_classes), so that no circle of links waits for each other. Flights of the same VCQ, and
 * what a TNI answers, are injected one after the other.
 */
#ifndef UM_NETWORK_H
#define UM_NETWORK_H

#include <stdbool.h>
#include <stdint.h>

#include "model/events.h"
#include "model/place.h"

/* Kinds of events, below UM_EVENT_OTHERS. */
enum {
    UM_EVENT_INJECT,
    UM_EVENT_TURN,
    UM_EVENT_HOP,
    UM_EVENT_ARRIVE,
    UM_EVENT_INPUT,  /* a: an input whose first train may go on */
    UM_EVENT_OUTPUT, /* a: an output that is free */
    UM_EVENT_OTHERS
};

struct um_send {
    uint32_t from, to; /* nodes */
    uint16_t from_tni, to_tni;
    uint8_t path[3];
    double bytes;
    double before, after; /* latency before the first link and behind the last one */
    double mtu, gap;      /* of the communication: 0 and 0 are the machine's MTU and none */
    uint32_t tag, tag2;   /* for the caller */
};

/* Trains that have come by a link, or from a TNI of the node: the first one blocks the others. */
struct um_input {
    uint32_t head, tail; /* trains */
    uint32_t next;       /* of the inputs that wait for the same output */
    double free_at;      /* when the last train has left it */
    double held;         /* bytes that are in it, or on their way */
    bool pending;        /* it waits for an output, or an event will look at it */
};

/* A link, or a TNI that receives: the inputs that wait for it. */
struct um_output {
    uint32_t first, last;
    double free_at;
    bool pending; /* an event is there for the next one */
    bool blocked; /* no queue behind it has room for those that wait */
};

struct um_link {
    double busy, bytes; /* busy: ns; bytes: of programs, without headers */
};

struct um_tni {
    double send_free_at, send_busy, receive_busy, sent, received;
    uint64_t flights;               /* that it has sent */
    uint32_t first_turn, last_turn; /* flights that have a train for it, in their order */
    bool serves;                    /* an event is there for the next one */
};

struct um_network {
    const struct um_machine *machine;
    const struct um_place *place;
    struct um_events *events;
    struct um_link *links;
    struct um_tni *tnis; /* node * number + TNI */
    uint32_t num_tnis;
    struct um_input *inputs; /* behind each link, of each class; and then of each TNI that sends */
    struct um_output *outputs; /* each link, and then each TNI that receives */
    struct um_train *trains;   /* in inputs */
    size_t num_trains, room_trains;
    uint32_t free_trains;
    struct um_queue *queues;
    size_t num_queues;
    struct um_flight *flights;
    size_t num_flights, room_flights;
    uint32_t free_flights;
    /* The last byte of a flight was injected, or has arrived at the other TNI. */
    void (*injected)(void *arg, const struct um_send *send, double at);
    void (*arrived)(void *arg, const struct um_send *send, double at);
    void *arg;
};

void um_network_open(struct um_network *network, size_t num_queues);
/* At the end of the queue; the time is that of the event being handled, or later. */
void um_network_send(struct um_network *network, uint32_t queue, const struct um_send *send,
                     double at);
void um_network_event(struct um_network *network, const struct um_event *event);
void um_network_close(struct um_network *network);

#endif
