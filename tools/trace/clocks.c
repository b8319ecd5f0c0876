/* SPDX-License-Identifier: Apache-2.0 */
#include "clocks.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_ROUNDS = 6,
    MARGIN_NS = 10000,    /* minimum distance of a kept guess from its bounds */
    MIN_FLIGHT_NS = 1000, /* minimum flight time between hosts, if only one side is bounded */
    WIDE = 8,             /* bounds this many times as wide as the narrowest are ignored */
    REPAIR_PER_CENT = 1,  /* time runs this much slower after an arrival that was moved */
};

static const int64_t unbounded = INT64_MAX / 4;

/* A clock's correction as a polyline, also used for the result. */
struct line {
    struct tr_knot *knots;
    int64_t *widths; /* distance of the bounds of each knot */
    size_t used, size;
};

/* The activity of one host in a part of the trace. */
struct span {
    int64_t first, last, correction;
    int64_t width; /* between the bounds */
};

/* The state of the fit: the ends of hop i are ends 2i (sent) and 2i + 1 (received). */
struct fit {
    const struct tr_hop *hops;
    size_t count;
    uint32_t hosts;
    int64_t *common;    /* of each end, as far as known */
    size_t *order;      /* of hops by time; later of ends by host and time */
    int64_t *bounds;    /* [a][b]: b's correction is at most a's plus this */
    struct span *spans; /* of each host, in the current part */
    struct line *lines; /* of each host, from common time to improved common time */
    size_t parts;       /* number of parts with constant corrections */
};

static uint32_t host_of(const struct fit *f, size_t end)
{
    return end & 1 ? f->hops[end / 2].to : f->hops[end / 2].from;
}

static int64_t local_of(const struct fit *f, size_t end)
{
    return end & 1 ? f->hops[end / 2].received : f->hops[end / 2].sent;
}

/*
 * Constant corrections of one part
 */

static int64_t *bound(const struct fit *f, uint32_t a, uint32_t b)
{
    return &f->bounds[(size_t)a * f->hosts + b];
}

static void tighten(int64_t *value, int64_t most)
{
    if (most < *value)
        *value = most;
}

/* Derives the bounds that follow by way of host k. */
static void close_over(struct fit *f, uint32_t k)
{
    for (uint32_t a = 0; a < f->hosts; a++) {
        int64_t to_k = *bound(f, a, k);
        for (uint32_t b = 0; to_k < unbounded && b < f->hosts; b++)
            if (*bound(f, k, b) < unbounded)
                tighten(bound(f, a, b), to_k + *bound(f, k, b));
    }
}

/* Collects the bounds of these hops and all that follow; false: they contradict each other. */
static bool gather_bounds(struct fit *f, size_t first, size_t end)
{
    for (size_t i = 0; i < (size_t)f->hosts * f->hosts; i++)
        f->bounds[i] = unbounded;
    for (uint32_t h = 0; h < f->hosts; h++)
        *bound(f, h, h) = 0;
    for (size_t i = first; i < end; i++) {
        size_t hop = f->order[i];
        tighten(bound(f, f->hops[hop].to, f->hops[hop].from),
                f->common[2 * hop + 1] - f->common[2 * hop]);
    }
    for (uint32_t k = 0; k < f->hosts; k++)
        close_over(f, k);
    for (uint32_t h = 0; h < f->hosts; h++)
        if (*bound(f, h, h) < 0)
            return false;
    return true;
}

/* The value nearest to 0 that is well within the bounds. */
static int64_t choose(int64_t least, int64_t most)
{
    if (least > -unbounded && most < unbounded) {
        int64_t margin = (most - least) / 2 < MARGIN_NS ? (most - least) / 2 : MARGIN_NS;
        least += margin;
        most -= margin;
    } else if (least > 0) {
        least += MIN_FLIGHT_NS;
    } else if (most < 0) {
        most -= MIN_FLIGHT_NS;
    }
    return least > 0 ? least : most < 0 ? most : 0;
}

/* Chooses the corrections host after host, within the bounds of earlier ones; host 0 has none. */
static void choose_corrections(struct fit *f)
{
    f->spans[0].correction = 0;
    f->spans[0].width = 0;
    for (uint32_t h = 1; h < f->hosts; h++) {
        bool bounded = *bound(f, h, 0) < unbounded && *bound(f, 0, h) < unbounded;
        f->spans[h].width = bounded ? *bound(f, h, 0) + *bound(f, 0, h) : unbounded;
    }
    for (uint32_t h = 1; h < f->hosts; h++) {
        int64_t correction = choose(-*bound(f, h, 0), *bound(f, 0, h));
        f->spans[h].correction = correction;
        *bound(f, 0, h) = correction;
        *bound(f, h, 0) = -correction;
        close_over(f, 0);
        close_over(f, h);
    }
}

/*
 * Lines
 */

static bool add_knot(struct line *line, int64_t local, int64_t common)
{
    if (line->used == line->size) {
        size_t size = line->size ? line->size * 2 : 16;
        struct tr_knot *more = realloc(line->knots, size * sizeof(*more));
        if (!more)
            return false;
        line->knots = more;
        int64_t *widths = realloc(line->widths, size * sizeof(*widths));
        if (!widths)
            return false;
        line->widths = widths;
        line->size = size;
    }
    line->knots[line->used++] = (struct tr_knot){local, common};
    return true;
}

/* Interpolates linearly between two knots; beyond them the correction of the last one. */
static int64_t on_line(const struct tr_knot *knots, size_t n, int64_t local)
{
    size_t first = 0, end = n; /* the first knot at or after it is in [first, end] */

    while (first < end) {
        size_t middle = first + (end - first) / 2;
        if (knots[middle].local < local)
            first = middle + 1;
        else
            end = middle;
    }
    if (n == 0)
        return local;
    if (first == 0 || first == n) {
        const struct tr_knot *k = &knots[first == n ? n - 1 : 0];
        return local + (k->common - k->local);
    }
    const struct tr_knot *a = &knots[first - 1], *b = &knots[first];
    double share = (double)(local - a->local) / (double)(b->local - a->local);
    int64_t change = (b->common - b->local) - (a->common - a->local);
    return local + (a->common - a->local) + (int64_t)(share * (double)change);
}

/*
 * Parts
 */

static void find_spans(struct fit *f, size_t first, size_t end)
{
    for (uint32_t h = 0; h < f->hosts; h++)
        f->spans[h] = (struct span){.first = INT64_MAX, .last = INT64_MIN};
    for (size_t i = first; i < end; i++) {
        for (size_t e = 2 * f->order[i]; e < 2 * f->order[i] + 2; e++) {
            struct span *span = &f->spans[host_of(f, e)];
            span->first = f->common[e] < span->first ? f->common[e] : span->first;
            span->last = f->common[e] > span->last ? f->common[e] : span->last;
        }
    }
}

/* The corrections apply in the middle of each host's activity. */
static bool end_part(struct fit *f)
{
    f->parts++;
    for (uint32_t h = 0; h < f->hosts; h++) {
        const struct span *span = &f->spans[h];
        struct line *line = &f->lines[h];
        int64_t middle = span->first / 2 + span->last / 2;
        if (span->first > span->last)
            continue;
        if (!add_knot(line, middle, middle + span->correction))
            return false;
        line->widths[line->used - 1] = span->width;
    }
    return true;
}

/* Keeps the knots with narrow bounds, in comparison with the others, and in order. */
static void select_knots(struct line *line)
{
    int64_t least = unbounded;
    size_t kept = 0;

    for (size_t i = 0; i < line->used; i++)
        tighten(&least, line->widths[i]);
    for (size_t i = 0; i < line->used; i++) {
        struct tr_knot k = line->knots[i];
        if ((line->widths[i] > MARGIN_NS && line->widths[i] / WIDE > least) ||
            (kept > 0 && line->knots[kept - 1].local >= k.local))
            continue;
        line->knots[kept++] = k;
    }
    line->used = kept;
}

static bool cut(struct fit *f, size_t first, size_t end)
{
    if (!gather_bounds(f, first, end)) {
        size_t middle = first + (end - first) / 2;
        return end - first == 1 || (cut(f, first, middle) && cut(f, middle, end));
    }
    find_spans(f, first, end);
    choose_corrections(f);
    return end_part(f);
}

/* Extrapolates before the first knot and after the last one. */
static bool extend(struct line *line)
{
    struct tr_knot *k = line->knots;
    size_t n = line->used;

    if (n < 2)
        return true;
    struct tr_knot before = {2 * k[0].local - k[1].local, 2 * k[0].common - k[1].common};
    struct tr_knot behind = {2 * k[n - 1].local - k[n - 2].local,
                             2 * k[n - 1].common - k[n - 2].common};
    if (!add_knot(line, 0, 0) || !add_knot(line, behind.local, behind.common))
        return false;
    memmove(line->knots + 1, line->knots, n * sizeof(*k));
    line->knots[0] = before;
    return true;
}

static const struct fit *sorting; /* qsort() has no argument for the comparison function */

static int by_time_sent(const void *a, const void *b)
{
    size_t i = *(const size_t *)a, j = *(const size_t *)b;
    int64_t s = sorting->common[2 * i], t = sorting->common[2 * j];

    return s != t ? (s > t) - (s < t) : (i > j) - (i < j);
}

/* False: no memory. */
static bool correct_once(struct fit *f)
{
    for (size_t i = 0; i < f->count; i++)
        f->order[i] = i;
    sorting = f;
    qsort(f->order, f->count, sizeof(*f->order), by_time_sent);
    f->parts = 0;
    for (uint32_t h = 0; h < f->hosts; h++)
        f->lines[h].used = 0;
    if (!cut(f, 0, f->count))
        return false;
    for (uint32_t h = 0; h < f->hosts; h++) {
        select_knots(&f->lines[h]);
        if (!extend(&f->lines[h]))
            return false;
    }
    for (size_t e = 0; e < 2 * f->count; e++) {
        const struct line *line = &f->lines[host_of(f, e)];
        f->common[e] = on_line(line->knots, line->used, f->common[e]);
    }
    return true;
}

/*
 * Remaining errors: host by host in order of time, an arrival is moved behind the sending of its
 * message
 */

/* By host and time; arrivals come before sends of the same time. */
static int by_host_and_time(const void *a, const void *b)
{
    size_t i = *(const size_t *)a, j = *(const size_t *)b;
    uint32_t g = host_of(sorting, i), h = host_of(sorting, j);
    int64_t s = local_of(sorting, i), t = local_of(sorting, j);

    if (g != h)
        return (g > h) - (g < h);
    if (s != t)
        return (s > t) - (s < t);
    return (int)(j & 1) - (int)(i & 1);
}

struct sweep {
    const struct fit *f;
    size_t *next, *end; /* of each host, in f->order */
    uint32_t *todo;     /* stack of hosts that can continue, each at most once */
    bool *listed;
    size_t num_todo;
    bool *left; /* of each hop: it was sent */
};

static void list(struct sweep *s, uint32_t host)
{
    if (s->listed[host] || s->next[host] == s->end[host])
        return;
    s->listed[host] = true;
    s->todo[s->num_todo++] = host;
}

/* Sets the time of the next end of this host. It keeps (nearly) the distance from the previous end
 * on the host's own clock, and comes after the sending of its message. */
static void settle(struct sweep *s, uint32_t host, int64_t *was)
{
    const struct fit *f = s->f;
    size_t i = s->next[host]++, e = f->order[i];
    int64_t at = f->common[e], least = at;

    if (i > 0 && host_of(f, f->order[i - 1]) == host) {
        int64_t apart = at > *was ? at - *was : 0;
        least = f->common[f->order[i - 1]] + apart - apart * REPAIR_PER_CENT / 100;
    }
    if (e & 1 && s->left[e / 2] && least < f->common[e - 1])
        least = f->common[e - 1];
    *was = at;
    f->common[e] = at > least ? at : least;
    if (!(e & 1)) {
        s->left[e / 2] = true;
        list(s, f->hops[e / 2].to);
    }
}

static bool must_wait(const struct sweep *s, uint32_t host)
{
    size_t e = s->f->order[s->next[host]];

    return e & 1 && !s->left[e / 2];
}

static void sweep_all(struct sweep *s, int64_t *was)
{
    const struct fit *f = s->f;

    for (uint32_t h = 0; h < f->hosts; h++)
        list(s, h);
    for (uint32_t forced = 0; forced < f->hosts;) {
        while (s->num_todo > 0) {
            uint32_t h = s->todo[--s->num_todo];
            s->listed[h] = false;
            while (s->next[h] < s->end[h] && !must_wait(s, h))
                settle(s, h, &was[h]);
        }
        /* each host waits for another one, which no clocks explain: take one */
        for (forced = 0; forced < f->hosts && s->next[forced] == s->end[forced];)
            forced++;
        if (forced < f->hosts) {
            settle(s, forced, &was[forced]);
            list(s, forced);
        }
    }
}

static void find_hosts(const struct fit *f, struct sweep *s)
{
    for (size_t i = 0; i < 2 * f->count; i++) {
        uint32_t h = host_of(f, f->order[i]);
        if (s->end[h] == 0)
            s->next[h] = i;
        s->end[h] = i + 1;
    }
}

static bool order_all(struct fit *f)
{
    size_t n = f->hosts;
    struct sweep s = {.f = f,
                      .next = calloc(n, sizeof(*s.next)),
                      .end = calloc(n, sizeof(*s.end)),
                      .todo = calloc(n, sizeof(*s.todo)),
                      .listed = calloc(n, sizeof(*s.listed)),
                      .left = calloc(f->count, sizeof(*s.left))};
    int64_t *was = calloc(n, sizeof(*was));
    bool ok = s.next && s.end && s.todo && s.listed && s.left && was;

    for (size_t e = 0; e < 2 * f->count; e++)
        f->order[e] = e;
    sorting = f;
    qsort(f->order, 2 * f->count, sizeof(*f->order), by_host_and_time);
    if (ok) {
        find_hosts(f, &s);
        sweep_all(&s, was);
    }
    free(s.next);
    free(s.end);
    free(s.todo);
    free(s.listed);
    free(s.left);
    free(was);
    return ok;
}

/*
 * All together
 */

/* One knot per time at which a host sent or received. */
static bool give(const struct fit *f, struct tr_clock *clocks)
{
    for (uint32_t h = 0; h < f->hosts; h++)
        f->lines[h].used = 0;
    for (size_t i = 0; i < 2 * f->count; i++) {
        size_t e = f->order[i];
        struct line *line = &f->lines[host_of(f, e)];
        if (line->used > 0 && line->knots[line->used - 1].local == local_of(f, e))
            line->knots[line->used - 1].common = f->common[e]; /* the later one */
        else if (!add_knot(line, local_of(f, e), f->common[e]))
            return false;
    }
    for (uint32_t h = 0; h < f->hosts; h++) {
        clocks[h].knots = f->lines[h].knots;
        clocks[h].num_knots = f->lines[h].used;
        f->lines[h].knots = NULL;
    }
    return true;
}

static bool fit_all(struct fit *f, struct tr_clock *clocks)
{
    f->parts = 0;
    for (int round = 0; round < MAX_ROUNDS && f->parts != 1; round++)
        if (!correct_once(f))
            return false;
    return order_all(f) && give(f, clocks);
}

bool tr_clocks_fit(struct tr_clock *clocks, uint32_t n, const struct tr_hop *hops, size_t count)
{
    struct fit f = {.hops = hops,
                    .count = count,
                    .hosts = n,
                    .common = calloc(2 * count, sizeof(*f.common)),
                    .order = calloc(2 * count, sizeof(*f.order)),
                    .bounds = calloc((size_t)n * n, sizeof(*f.bounds)),
                    .spans = calloc(n, sizeof(*f.spans)),
                    .lines = calloc(n, sizeof(*f.lines))};
    bool ok = count == 0;

    if (count > 0 && f.common && f.order && f.bounds && f.spans && f.lines) {
        for (size_t e = 0; e < 2 * count; e++)
            f.common[e] = local_of(&f, e) + clocks[host_of(&f, e)].guess;
        ok = fit_all(&f, clocks);
    }
    for (uint32_t h = 0; f.lines && h < n; h++) {
        free(f.lines[h].knots);
        free(f.lines[h].widths);
    }
    free(f.common);
    free(f.order);
    free(f.bounds);
    free(f.spans);
    free(f.lines);
    return ok;
}

void tr_clocks_free(struct tr_clock *clocks, uint32_t n)
{
    for (uint32_t h = 0; h < n; h++)
        free(clocks[h].knots);
}

int64_t tr_clock_common(const struct tr_clock *clock, int64_t local)
{
    return clock->num_knots > 0 ? on_line(clock->knots, clock->num_knots, local)
                                : local + clock->guess;
}
