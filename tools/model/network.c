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
    bool waits;      /* for an arrival, before the next train is injected */
    uint32_t *route; /* link * UM_CLASSES + class: the input behind it */
    unsigned int hops;
};

struct um_queue {
    uint32_t head, tail;
    bool busy;
};

struct um_train {
    uint32_t flight, number, hop; /* hop: links that it has passed */
    uint32_t next;                /* in its input, or of the free ones */
};

void um_network_open(struct um_network *n, size_t num_queues)
{
    n->num_tnis = (uint32_t)n->machine->tni_number;
    n->links = um_calloc(n->place->num_links, sizeof(*n->links));
    n->tnis = um_calloc((size_t)n->place->num_nodes * n->num_tnis, sizeof(*n->tnis));
    for (size_t i = 0; i < (size_t)n->place->num_nodes * n->num_tnis; i++)
        n->tnis[i].first_turn = n->tnis[i].last_turn = UM_NONE;
    size_t links = n->place->num_links, tnis = (size_t)n->place->num_nodes * n->num_tnis;
    n->inputs = um_calloc(links * UM_CLASSES + tnis, sizeof(*n->inputs));
    n->outputs = um_calloc(links + tnis, sizeof(*n->outputs));
    for (size_t i = 0; i < links * UM_CLASSES + tnis; i++)
        n->inputs[i].head = n->inputs[i].tail = n->inputs[i].next = UM_NONE;
    for (size_t i = 0; i < links + tnis; i++)
        n->outputs[i].first = n->outputs[i].last = UM_NONE;
    n->free_trains = UM_NONE;
    n->queues = um_calloc(num_queues, sizeof(*n->queues));
    n->num_queues = num_queues;
    for (size_t i = 0; i < num_queues; i++)
        n->queues[i].head = n->queues[i].tail = UM_NONE;
    n->free_flights = UM_NONE;
}

void um_network_close(struct um_network *n)
{
    free(n->inputs);
    free(n->outputs);
    free(n->trains);
    free(n->links);
    free(n->tnis);
    free(n->queues);
    free(n->flights);
}

static struct um_tni *tni_of(const struct um_network *n, uint32_t node, uint16_t tni)
{
    return &n->tnis[(size_t)node * n->num_tnis + tni % n->num_tnis];
}

static uint32_t number_of_tni(const struct um_network *n, uint32_t node, uint16_t tni)
{
    return node * n->num_tnis + tni % n->num_tnis;
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
    uint8_t classes[UM_MOST_HOPS];
    struct um_flight *f = &n->flights[index];
    struct um_queue *q = &n->queues[queue];

    *f = (struct um_flight){.send = *send, .queue = queue, .next = UM_NONE};
    cut_flight(n->machine, f);
    f->hops = um_route(n->place, send->from, send->to, send->path, links);
    f->route = um_calloc(f->hops, sizeof(*f->route));
    um_route_classes(n->place, links, f->hops, classes);
    for (unsigned int i = 0; i < f->hops; i++)
        f->route[i] = links[i] * UM_CLASSES + classes[i];
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

/* The link, or the TNI that receives, which a train goes to. */
static uint32_t output_of(const struct um_network *n, const struct um_train *t)
{
    const struct um_flight *f = &n->flights[t->flight];

    return t->hop < f->hops ? f->route[t->hop] / UM_CLASSES
                            : n->place->num_links + number_of_tni(n, f->send.to, f->send.to_tni);
}

static void receive_train(struct um_network *n, const struct um_train *t, double takes, double now)
{
    const struct um_flight *f = &n->flights[t->flight];
    struct um_tni *tni = tni_of(n, f->send.to, f->send.to_tni);

    tni->receive_busy += takes;
    tni->received += bytes_of(f, t->number);
    um_events_add(n->events, now + takes + f->send.after, UM_EVENT_ARRIVE, t->flight, t->number, 0);
}

static void pass_link(struct um_network *n, const struct um_train *t, double takes, double now)
{
    const struct um_flight *f = &n->flights[t->flight];
    struct um_link *l = &n->links[f->route[t->hop] / UM_CLASSES];

    l->busy += takes;
    l->bytes += bytes_of(f, t->number);
    um_events_add(n->events, now + n->machine->link_hop_ns, UM_EVENT_HOP, t->flight, t->number,
                  t->hop + 1);
}

/* Is there room for the first train of an input in the queue behind its output? A train that is
 * longer than the room passes alone. */
static bool has_room(const struct um_network *n, uint32_t input)
{
    const struct um_train *t = &n->trains[n->inputs[input].head];
    const struct um_flight *f = &n->flights[t->flight];

    if (t->hop == f->hops)
        return true;
    double held = n->inputs[f->route[t->hop]].held;
    return held <= 0 || held + bytes_of(f, t->number) <= n->machine->packet_queued;
}

/* A train has left an input, whose link may have waited for that. */
static void make_room(struct um_network *n, uint32_t input, double bytes, double at)
{
    uint32_t link = input / UM_CLASSES;

    if (link >= n->place->num_links)
        return;
    n->inputs[input].held -= bytes;
    if (n->outputs[link].blocked) {
        n->outputs[link].blocked = false;
        n->outputs[link].pending = true;
        um_events_add(n->events, at, UM_EVENT_OUTPUT, link, 0, 0);
    }
}

/* The first train of an input goes on. */
static void pass_output(struct um_network *n, uint32_t input, uint32_t output, double now)
{
    struct um_input *in = &n->inputs[input];
    uint32_t index = in->head;
    struct um_train t = n->trains[index];
    bool is_link = output < n->place->num_links;
    double takes = wire_of(n->machine, &n->flights[t.flight], t.number) /
                   (is_link ? n->machine->link_rate : n->machine->tni_rate);

    in->head = t.next;
    if (in->head == UM_NONE)
        in->tail = UM_NONE;
    n->trains[index].next = n->free_trains;
    n->free_trains = index;
    in->free_at = n->outputs[output].free_at = now + takes;
    double bytes = bytes_of(&n->flights[t.flight], t.number);
    if (is_link) {
        n->inputs[n->flights[t.flight].route[t.hop]].held += bytes;
        pass_link(n, &t, takes, now);
    } else {
        receive_train(n, &t, takes, now);
    }
    make_room(n, input, bytes, now + takes);
}

static void await_output(struct um_network *n, uint32_t input, uint32_t output, double now)
{
    struct um_output *out = &n->outputs[output];

    n->inputs[input].pending = true;
    n->inputs[input].next = UM_NONE;
    if (out->first == UM_NONE)
        out->first = input;
    else
        n->inputs[out->last].next = input;
    out->last = input;
    if (!out->pending)
        um_events_add(n->events, out->free_at > now ? out->free_at : now, UM_EVENT_OUTPUT, output,
                      0, 0);
    out->pending = true;
    out->blocked = false;
}

/* Lets the first train of an input go on, or notes what it waits for. */
static void serve_input(struct um_network *n, uint32_t input, double now)
{
    struct um_input *in = &n->inputs[input];

    if (in->head == UM_NONE || in->pending)
        return;
    uint32_t output = output_of(n, &n->trains[in->head]);
    struct um_output *out = &n->outputs[output];
    if (in->free_at > now) {
        in->pending = true;
        um_events_add(n->events, in->free_at, UM_EVENT_INPUT, input, 0, 0);
    } else if (out->free_at > now || out->first != UM_NONE || !has_room(n, input)) {
        await_output(n, input, output, now);
    } else {
        pass_output(n, input, output, now);
        serve_input(n, input, now);
    }
}

static void serve_output(struct um_network *n, uint32_t output, double now)
{
    struct um_output *out = &n->outputs[output];
    uint32_t input = out->first, before = UM_NONE;

    out->pending = false;
    while (input != UM_NONE && !has_room(n, input)) {
        before = input;
        input = n->inputs[input].next;
    }
    out->blocked = input == UM_NONE;
    if (input == UM_NONE)
        return;
    if (before == UM_NONE)
        out->first = n->inputs[input].next;
    else
        n->inputs[before].next = n->inputs[input].next;
    if (out->last == input)
        out->last = before;
    n->inputs[input].pending = false;
    pass_output(n, input, output, now);
    out->pending = out->first != UM_NONE;
    if (out->pending)
        um_events_add(n->events, out->free_at, UM_EVENT_OUTPUT, output, 0, 0);
    serve_input(n, input, now);
}

static uint32_t new_train(struct um_network *n)
{
    uint32_t index = n->free_trains;

    if (index != UM_NONE) {
        n->free_trains = n->trains[index].next;
        return index;
    }
    n->trains = um_grow(n->trains, n->num_trains, &n->room_trains, sizeof(*n->trains));
    return (uint32_t)n->num_trains++;
}

/* A train has passed so many links. */
static void enter_node(struct um_network *n, uint32_t flight, uint32_t number, uint32_t hop,
                       double now)
{
    const struct um_flight *f = &n->flights[flight];
    uint32_t input =
        hop ? f->route[hop - 1]
            : n->place->num_links * UM_CLASSES + number_of_tni(n, f->send.from, f->send.from_tni);
    struct um_input *in = &n->inputs[input];
    uint32_t index = new_train(n);

    n->trains[index] = (struct um_train){flight, number, hop, UM_NONE};
    if (in->tail == UM_NONE)
        in->head = index;
    else
        n->trains[in->tail].next = index;
    in->tail = index;
    serve_input(n, input, now);
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
        enter_node(n, e->a, e->b, e->c, e->at);
    else if (e->kind == UM_EVENT_INPUT) {
        n->inputs[e->a].pending = false;
        serve_input(n, e->a, e->at);
    } else if (e->kind == UM_EVENT_OUTPUT)
        serve_output(n, e->a, e->at);
    else
        note_arrival(n, e->a, e->at);
}
