/* SPDX-License-Identifier: Apache-2.0 */
#include "model/network.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/fail.h"

enum {
    TRAINS = 16,        /* a flight goes in about so many trains, */
    MOST_PACKETS = 4,   /* of at most so many packets each */
    LEAST_IN_FLIGHT = 3 /* trains */
};

struct um_flight {
    struct um_send send;
    uint32_t queue, next; /* next: in the queue, or of the free ones */
    uint32_t next_turn;   /* of those that wait for the TNI */
    uint32_t trains, injected, arrived, window;
    double train; /* bytes of a train, but for the last one */
    double mtu;
    bool waits; /* for an arrival, before the next train is injected */
    uint32_t *route;
    unsigned int hops;
};

struct um_queue {
    uint32_t head, tail;
    bool busy;
};

void um_network_open(struct um_network *n, size_t num_queues)
{
    n->num_tnis = (uint32_t)n->machine->tni_number;
    n->links = um_calloc(n->place->num_links, sizeof(*n->links));
    n->tnis = um_calloc((size_t)n->place->num_nodes * n->num_tnis, sizeof(*n->tnis));
    for (size_t i = 0; i < (size_t)n->place->num_nodes * n->num_tnis; i++)
        n->tnis[i].first_turn = n->tnis[i].last_turn = UM_NONE;
    n->queues = um_calloc(num_queues, sizeof(*n->queues));
    n->num_queues = num_queues;
    for (size_t i = 0; i < num_queues; i++)
        n->queues[i].head = n->queues[i].tail = UM_NONE;
    n->free_flights = UM_NONE;
}

void um_network_close(struct um_network *n)
{
    free(n->links);
    free(n->tnis);
    free(n->queues);
    free(n->flights);
}

static struct um_tni *tni_of(const struct um_network *n, uint32_t node, uint16_t tni)
{
    return &n->tnis[(size_t)node * n->num_tnis + tni % n->num_tnis];
}

static uint32_t new_flight(struct um_network *n)
{
    uint32_t index = n->free_flights;

    if (index != UM_NONE) {
        n->free_flights = n->flights[index].next;
        return index;
    }
    n->flights = um_grow(n->flights, n->num_flights, &n->room_flights, sizeof(*n->flights));
    return (uint32_t)n->num_flights++;
}

/* How a flight is cut into trains. */
static void cut_flight(const struct um_machine *m, struct um_flight *f)
{
    f->mtu = f->send.mtu > 0 && f->send.mtu < m->packet_mtu ? f->send.mtu : m->packet_mtu;
    double packets = ceil(f->send.bytes / f->mtu), each = ceil(packets / TRAINS);

    each = each > MOST_PACKETS ? MOST_PACKETS : each < 1 ? 1 : each;
    f->train = each * f->mtu;
    f->trains = packets < 1 ? 1 : (uint32_t)ceil(packets / each);
    double window = ceil(m->packet_buffered / f->train);
    f->window = window < LEAST_IN_FLIGHT ? LEAST_IN_FLIGHT : (uint32_t)window;
}

static double bytes_of(const struct um_flight *f, uint32_t train)
{
    return train + 1 < f->trains ? f->train : f->send.bytes - f->train * (f->trains - 1);
}

/* Bytes on a link: with the packets' overhead. */
static double wire_of(const struct um_machine *m, const struct um_flight *f, uint32_t train)
{
    double bytes = bytes_of(f, train), packets = ceil(bytes / f->mtu);

    return bytes + (packets > 1 ? packets : 1) * m->packet_overhead;
}

/* The flight has a train for its TNI, which serves the others that wait before. */
static void take_turn(struct um_network *n, uint32_t index, double now)
{
    struct um_flight *f = &n->flights[index];
    struct um_tni *t = tni_of(n, f->send.from, f->send.from_tni);

    f->next_turn = UM_NONE;
    if (t->first_turn == UM_NONE)
        t->first_turn = index;
    else
        n->flights[t->last_turn].next_turn = index;
    t->last_turn = index;
    if (!t->serves) {
        t->serves = true;
        um_events_add(n->events, now > t->send_free_at ? now : t->send_free_at, UM_EVENT_INJECT,
                      (uint32_t)(t - n->tnis), 0, 0);
    }
}

static void begin_flight(struct um_network *n, uint32_t index, double at)
{
    n->queues[n->flights[index].queue].busy = true;
    um_events_add(n->events, at, UM_EVENT_TURN, index, 0, 0);
}

void um_network_send(struct um_network *n, uint32_t queue, const struct um_send *send, double at)
{
    uint32_t links[UM_MOST_HOPS], index = new_flight(n);
    struct um_flight *f = &n->flights[index];
    struct um_queue *q = &n->queues[queue];

    *f = (struct um_flight){.send = *send, .queue = queue, .next = UM_NONE};
    cut_flight(n->machine, f);
    f->hops = um_route(n->place, send->from, send->to, send->path, links);
    f->route = um_calloc(f->hops, sizeof(*f->route));
    memcpy(f->route, links, f->hops * sizeof(*links));
    if (q->tail != UM_NONE)
        n->flights[q->tail].next = index;
    else
        q->head = index;
    q->tail = index;
    if (!q->busy)
        begin_flight(n, index, at);
}

/* The last train is injected: the next flight of the queue follows. */
static void end_injection(struct um_network *n, uint32_t index, double at)
{
    struct um_flight *f = &n->flights[index];
    struct um_queue *q = &n->queues[f->queue];
    struct um_send send = f->send;

    q->head = f->next;
    q->busy = false;
    if (q->head == UM_NONE)
        q->tail = UM_NONE;
    else
        begin_flight(n, q->head, at);
    n->injected(n->arg, &send, at); /* may move the flights */
}

/* A train of the flight whose turn it is, which then waits for its next one. */
static void inject_train(struct um_network *n, struct um_tni *t, double now)
{
    const struct um_machine *m = n->machine;
    uint32_t index = t->first_turn;
    struct um_flight *f = &n->flights[index];
    uint32_t train = f->injected;

    t->first_turn = f->next_turn;
    /* the gap reduces the rate to 8 / (gap + 8): manual 3.7 */
    double takes = wire_of(m, f, train) / m->tni_rate * (f->send.gap + 8) / 8;
    t->send_busy += takes;
    t->sent += bytes_of(f, train);
    t->flights += train == 0;
    double least = train == 0 ? m->tni_gap_ns : 0;
    t->send_free_at = now + (takes > least ? takes : least);
    double first = f->send.bytes < f->mtu ? f->send.bytes : f->mtu;
    um_events_add(n->events, now + f->send.before + first / m->tni_packet_rate, UM_EVENT_HOP, index,
                  train, 0);
    f->injected++;
    if (f->injected == f->trains)
        end_injection(n, index, now + takes);
    else if (f->injected - f->arrived < f->window)
        um_events_add(n->events, now + takes, UM_EVENT_TURN, index, 0, 0);
    else
        f->waits = true;
}

static void serve_tni(struct um_network *n, uint32_t tni, double now)
{
    struct um_tni *t = &n->tnis[tni];

    t->serves = false;
    if (t->first_turn == UM_NONE)
        return;
    t->serves = true;
    inject_train(n, t, now);
    um_events_add(n->events, n->tnis[tni].send_free_at, UM_EVENT_INJECT, tni, 0, 0);
}

static void receive_train(struct um_network *n, uint32_t index, uint32_t train, double now)
{
    const struct um_machine *m = n->machine;
    const struct um_flight *f = &n->flights[index];
    struct um_tni *t = tni_of(n, f->send.to, f->send.to_tni);
    double takes = wire_of(m, f, train) / m->tni_rate;
    double begin = t->receive_free_at > now ? t->receive_free_at : now;

    t->receive_free_at = begin + takes;
    t->receive_busy += takes;
    t->received += bytes_of(f, train);
    um_events_add(n->events, begin + takes + f->send.after, UM_EVENT_ARRIVE, index, train, 0);
}

static void pass_link(struct um_network *n, uint32_t index, uint32_t train, uint32_t number,
                      double now)
{
    const struct um_machine *m = n->machine;
    const struct um_flight *f = &n->flights[index];

    if (number == f->hops) {
        receive_train(n, index, train, now);
        return;
    }
    struct um_link *l = &n->links[f->route[number]];
    double takes = wire_of(m, f, train) / m->link_rate;
    double begin = l->free_at > now ? l->free_at : now;
    l->free_at = begin + takes;
    l->busy += takes;
    l->bytes += bytes_of(f, train);
    um_events_add(n->events, begin + m->link_hop_ns, UM_EVENT_HOP, index, train, number + 1);
}

static void note_arrival(struct um_network *n, uint32_t index, double now)
{
    struct um_flight *f = &n->flights[index];

    f->arrived++;
    if (f->waits) {
        f->waits = false;
        take_turn(n, index, now);
    }
    if (f->arrived < f->trains)
        return;
    struct um_send send = f->send;
    free(f->route);
    f->route = NULL;
    f->next = n->free_flights;
    n->free_flights = index;
    n->arrived(n->arg, &send, now);
}

void um_network_event(struct um_network *n, const struct um_event *e)
{
    if (e->kind == UM_EVENT_INJECT)
        serve_tni(n, e->a, e->at);
    else if (e->kind == UM_EVENT_TURN)
        take_turn(n, e->a, e->at);
    else if (e->kind == UM_EVENT_HOP)
        pass_link(n, e->a, e->b, e->c, e->at);
    else
        note_arrival(n, e->a, e->at);
}
