/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which call waits for a put that is seen by reading memory. docs/guide/model.md explains the rule:
 *
 *   0. A put that is followed by one with a remote notice, in strong order, is seen by that notice.
 *   1. Where the program says what it has seen (utofu_profile_seen), that call waits.
 *   2. Puts that repeat (same origin, target, address and length) and calls of the target that
 *      repeat as often belong together, at the earliest call that no repetition contradicts: one
 *      that in none of them was made before its put; a wait in polls is made with its first poll.
 *      A put behind the last of these calls belongs to the place where the next would be.
 *      A call between the put's start and that call does not wait only if this was shown: in some
 *      repetition the same call, counted back from the one that waits, was made before its put was
 *      started; then no call before it waits, either. Without that, the earlier call counts.
 *      Where a thread puts the same length to many
 *      addresses of a target, as to the blocks of a buffer, all these puts are also taken together,
 *      and the later of the two calls counts.
 *      Notices that repeat are treated alike: one that was polled earlier than it is needed is not
 *      waited for by its poll.
 *   3. All others: the target's first call after the put was started.
 */
#include "model/match.h"

#include <stdlib.h>
#include <string.h>

#include "model/fail.h"
#include "model/mpi.h"
#include "model/starts.h"
#include "model/table.h"
#include "util/hash.h"

#include "utofu.h"

enum {
    LEAST_REPEATS = 4,
    MOST_LATER = 2,         /* repetitions by which a call may follow its put */
    MOST_A_REPETITION = 64, /* puts a call, or calls a put, that are alike */
    MANY_ADDRESSES = 4,     /* from so many on, puts to different addresses are alike */
    CLOCKS_NS = 50,         /* by so much the clocks of two processors may differ */
    MOST_IN_PERIOD = 8,     /* puts to different addresses that make a repetition */
    MOST_BACK = 4096,       /* calls that a put may be shown not to be waited for by */
};

/* A put that may be seen by reading memory. */
struct put {
    uint32_t thread; /* of the target */
    uint32_t comm;
    uint32_t call;  /* of the thread, which waits for it; UM_NONE: not known; num_ops: none */
    uint64_t lands; /* at this time, at the earliest; the target's clock */
    uint64_t after; /* a call before this time does not wait for it */
    uint64_t stream, pair; /* the same origin, target and length; and address */
    uint32_t next;         /* the first call of the thread that may wait for it */
    bool hinted;
    uint32_t op;     /* of a notice: where it was polled, */
    uint32_t latest; /* and the last call that it may be needed for */
};

/* A call of utofu_profile_seen(). */
struct hint {
    uint32_t process, thread, op;
    uint64_t begin;
};

/* Calls of a thread that are alike: their places in the thread. */
struct calls {
    uint64_t like;
    uint32_t *at;
    uint32_t num;
};

/* All calls of a thread by likeness. */
struct groups {
    struct calls *calls;
    size_t num;
    uint32_t *of;     /* the group of each call */
    uint32_t *places; /* what calls[].at point to */
};

struct seeing {
    struct um_program *program;
    struct put *puts;
    size_t num_puts, room_puts;
    struct hint *hints;
    size_t num_hints, room_hints;
};

static void wait_for(struct um_program *p, uint32_t thread, uint32_t op, uint32_t comm,
                     enum um_basis basis)
{
    struct um_op *o = &p->threads[thread].ops[op];

    p->seen = um_grow(p->seen, p->num_seen, &p->room_seen, sizeof(*p->seen));
    p->seen[p->num_seen] = (struct um_seen){.comm = comm, .next = o->seen, .basis = (uint8_t)basis};
    o->seen = (uint32_t)p->num_seen++;
}

/*
 * The thread that uses a VCQ
 */

static void find_threads(struct um_program *p)
{
    struct um_table counts = {.entries = NULL};
    uint32_t *most = um_calloc(p->num_vcqs, sizeof(*most));

    for (size_t t = 0; t < p->num_threads; t++) {
        for (size_t i = 0; i < p->threads[t].num_ops; i++) {
            uint32_t vcq = p->threads[t].ops[i].vcq;
            if (vcq == UM_NONE)
                continue;
            uint32_t n = ++*um_table_at(&counts, vcq, t, 0);
            if (n > most[vcq]) {
                most[vcq] = n;
                p->vcqs[vcq].thread = (uint32_t)t;
            }
        }
    }
    /* a VCQ that is never used by its process: its first thread looks at the memory */
    for (size_t v = 0; v < p->num_vcqs; v++) {
        for (size_t t = 0; t < p->num_threads && p->vcqs[v].thread == UM_NONE; t++) {
            if (p->threads[t].process == p->vcqs[v].process)
                p->vcqs[v].thread = (uint32_t)t;
        }
    }
    um_table_free(&counts);
    free(most);
}

/*
 * 1. What the program says
 */

static bool do_overlap(uint64_t stadd, uint64_t length, const struct um_comm *c)
{
    return c->stadd < stadd + length && stadd < c->stadd + c->length;
}

static int compare_hints(const void *a, const void *b)
{
    const struct hint *x = a, *y = b;

    if (x->process != y->process)
        return x->process < y->process ? -1 : 1;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static void collect_hints(struct seeing *s)
{
    const struct um_program *p = s->program;

    for (size_t t = 0; t < p->num_threads; t++) {
        for (size_t i = 0; i < p->threads[t].num_ops; i++) {
            const struct um_op *op = &p->threads[t].ops[i];
            if (op->kind != UM_OP_SEEN)
                continue;
            s->hints = um_grow(s->hints, s->num_hints, &s->room_hints, sizeof(*s->hints));
            s->hints[s->num_hints++] =
                (struct hint){p->threads[t].process, (uint32_t)t, (uint32_t)i, op->begin};
        }
    }
    if (s->num_hints)
        qsort(s->hints, s->num_hints, sizeof(*s->hints), compare_hints);
}

/* The first hint of a process that is not before a time. */
static size_t find_hint(const struct seeing *s, uint32_t process, uint64_t time)
{
    const struct hint wanted = {.process = process, .begin = time};
    size_t low = 0, high = s->num_hints;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_hints(&s->hints[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Does the process ever say that it has seen these bytes? */
static bool is_hinted(const struct seeing *s, const struct um_comm *c)
{
    uint32_t process = s->program->vcqs[c->remote].process;

    for (size_t i = find_hint(s, process, 0); i < s->num_hints; i++) {
        const struct hint *h = &s->hints[i];
        const struct um_op *op = &s->program->threads[h->thread].ops[h->op];
        if (h->process != process)
            return false;
        if (do_overlap(op->stadd, op->length, c))
            return true;
    }
    return false;
}

/* The put is seen by the first utofu_profile_seen() of its address after it was started. */
static void attach_hinted(struct seeing *s, const struct put *put)
{
    struct um_program *p = s->program;
    const struct um_comm *c = &p->comms[put->comm];
    uint32_t process = p->vcqs[c->remote].process;

    for (size_t i = find_hint(s, process, put->lands); i < s->num_hints; i++) {
        const struct hint *h = &s->hints[i];
        const struct um_op *op = &p->threads[h->thread].ops[h->op];
        if (h->process != process)
            return; /* the program has not looked at it */
        if (do_overlap(op->stadd, op->length, c)) {
            wait_for(p, h->thread, h->op, put->comm, UM_TOLD);
            return;
        }
    }
}

/*
 * 3. The next call
 */

/* The target's first call after the put was started, but not before call number `least`. */
static uint32_t find_next(const struct um_program *p, const struct put *put, size_t least)
{
    const struct um_thread *t = &p->threads[put->thread];
    size_t low = least, high = t->num_ops;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (t->ops[middle].first < put->lands)
            low = middle + 1;
        else
            high = middle;
    }
    return (uint32_t)low;
}

/*
 * 2. Repetitions
 */

static uint64_t likeness_of_comm(const struct um_comm *c)
{
    uint64_t h = ut_hash_word(UT_HASH_FIRST, (uint64_t)c->vcq << 32 | c->remote);

    return ut_hash_word(ut_hash_word(h, c->stadd), (uint64_t)c->kind << 32 | c->length);
}

/* The same, whatever the peer and the address. */
static uint64_t kind_of_comm(const struct um_comm *c)
{
    return ut_hash_word(UT_HASH_FIRST, (uint64_t)c->kind << 32 | c->length);
}

static uint64_t kind_of(const struct um_program *p, const struct um_op *op)
{
    uint64_t kind = (uint64_t)op->kind << 8 | op->notice;

    if (op->kind == UM_OP_MPI)
        return um_mpi_likeness(p, op);
    if (op->kind == UM_OP_COMM || op->has_notice)
        return ut_hash_word(kind_of_comm(&p->comms[op->which]), kind);
    return ut_hash_word(kind, op->kind == UM_OP_ENTER || op->kind == UM_OP_LEAVE ? op->which : 0);
}

static uint64_t likeness_of(const struct um_program *p, const struct um_op *op)
{
    uint64_t kind = (uint64_t)op->kind << 8 | op->notice;

    if (op->kind == UM_OP_MPI)
        return um_mpi_likeness(p, op);
    if (op->kind == UM_OP_COMM || (op->has_notice && op->kind != UM_OP_MRQ))
        return ut_hash_word(likeness_of_comm(&p->comms[op->which]), kind);
    if (op->kind == UM_OP_MRQ)
        return ut_hash_word(ut_hash_word(kind, op->edata), (uint64_t)op->vcq << 32 | op->far);
    return ut_hash_word(kind, op->which);
}

/* The first place at or after `from` in a list of calls that is not before a time. */
static uint32_t first_after(const struct um_thread *t, const struct calls *c, uint32_t from,
                            uint64_t time)
{
    uint32_t low = from, high = c->num;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (t->ops[c->at[middle]].first < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* How puts and calls repeat: put k belongs to the call k * up / down, plus a shift. */
struct pace {
    uint32_t up, down, shift;
};

static uint32_t call_of(const struct pace *pace, uint32_t k)
{
    return (uint32_t)((uint64_t)k * pace->up / pace->down) + pace->shift;
}

/* Where call `number` is, or would be if the calls went on to repeat: the least place, where the
 * thread has not come so far. */
static size_t place_of(const struct calls *c, const struct pace *pace, uint32_t number)
{
    uint32_t last = c->num - 1;

    if (number <= last)
        return c->at[number];
    if (last < pace->up)
        return c->at[last] + 1ul;
    uint32_t more = (number - last + pace->up - 1) / pace->up;
    uint32_t back = number - more * pace->up; /* in the last repetition */
    return c->at[back] + (size_t)more * (c->at[last] - c->at[last - pace->up]);
}

/* The numbers of calls and puts are one a multiple of the other, but for a repetition. */
static bool find_ratio(uint32_t calls, uint32_t puts, struct pace *pace)
{
    uint32_t more = calls > puts ? calls : puts, less = calls > puts ? puts : calls;
    uint32_t ratio = (more + less / 2) / less, exact = ratio * less;

    *pace = (struct pace){calls > puts ? ratio : 1, calls > puts ? 1 : ratio, 0};
    return ratio <= MOST_A_REPETITION && (exact > more ? exact - more : more - exact) <= ratio;
}

/* Finds by how many calls they follow the puts at least; false: they do not belong together. */
static bool find_pace(const struct um_thread *t, const struct calls *c, const struct put *puts,
                      uint32_t num, struct pace *pace)
{
    uint32_t from = 0;

    if (!find_ratio(c->num, num, pace))
        return false;
    for (uint32_t k = 0; k < num; k++) {
        from = first_after(t, c, from, puts[k].after);
        uint32_t now = call_of(pace, k);
        if (from > now)
            pace->shift += from - now;
        if (pace->shift > MOST_LATER * pace->up)
            return false;
    }
    return true;
}

/* Sum of the places of the calls; those after the end count as the end. */
static uint64_t sum_places(const struct um_thread *t, const struct calls *c, uint32_t num,
                           const struct pace *pace)
{
    uint64_t sum = 0;

    for (uint32_t k = 0; k < num; k++) {
        uint32_t call = call_of(pace, k);
        sum += call < c->num ? c->at[call] : t->num_ops;
    }
    return sum;
}

/* Does a phase of the program end here? */
static bool is_boundary(const struct um_program *p, const struct um_op *op)
{
    return op->kind == UM_OP_ENTER || op->kind == UM_OP_LEAVE || op->kind == UM_OP_START ||
           op->kind == UM_OP_RESULT || (op->kind == UM_OP_MPI && um_mpi_is_collective(p, op));
}

/* The last call that may wait for a put: a repetition behind the start of the last one. Where the
 * origin is ahead in the end, so that the last puts were all started before the same call: the end
 * of the phase. */
static uint64_t last_that_waits(const struct um_program *p, const struct put *puts, uint32_t num)
{
    const struct um_thread *t = &p->threads[puts->thread];
    uint32_t gap = 1, last = puts[num - 1].next, ahead = num - 1;

    for (uint32_t k = 1; k < num; k++)
        if (puts[k].next > puts[k - 1].next && puts[k].next - puts[k - 1].next > gap)
            gap = puts[k].next - puts[k - 1].next;
    while (ahead > 0 && puts[ahead - 1].next == last)
        ahead--;
    if (ahead < LEAST_REPEATS || num - ahead < 2)
        return (uint64_t)last + gap;
    uint32_t end = last;
    while (end < t->num_ops && !is_boundary(p, &t->ops[end]))
        end++;
    return end > last + gap ? end : (uint64_t)last + gap;
}

/* The calls of a group from the first one that may wait for the first put to the last one that may
 * wait for any. Others have to do with something else, and must not be counted. */
static struct calls cut_calls(const struct um_thread *t, const struct calls *c,
                              const struct put *puts, uint64_t end)
{
    uint32_t from = first_after(t, c, 0, puts[0].after), to = from;

    while (to < c->num && c->at[to] <= end)
        to++;
    return (struct calls){.like = c->like, .at = c->at + from, .num = to - from};
}

/* The calls that puts wait for, as far as repetitions tell: their places; NULL: none. To be freed.
 * *down: of so many puts that a call waits for. */
static size_t *find_places(const struct um_program *p, const struct put *puts, uint32_t num,
                           const struct groups *groups, unsigned int but, uint32_t *down)
{
    const struct um_thread *t = &p->threads[puts->thread];
    struct calls best = {.num = 0};
    uint64_t best_places = UINT64_MAX;
    struct pace best_pace = {1, 1, 0}, pace;
    uint64_t end = num >= LEAST_REPEATS ? last_that_waits(p, puts, num) : 0;

    for (size_t i = 0; num >= LEAST_REPEATS && i < groups->num; i++) {
        if (groups->calls[i].num < LEAST_REPEATS - 1 || t->ops[groups->calls[i].at[0]].kind == but)
            continue;
        struct calls calls = cut_calls(t, &groups->calls[i], puts, end);
        if (calls.num < LEAST_REPEATS - 1 || !find_pace(t, &calls, puts, num, &pace))
            continue;
        uint64_t sum = sum_places(t, &calls, num, &pace);
        if (sum < best_places) {
            best = calls;
            best_places = sum;
            best_pace = pace;
        }
    }
    size_t *places = best.num ? um_calloc(num, sizeof(*places)) : NULL;
    *down = best.num ? best_pace.down : 1;
    for (uint32_t k = 0; best.num && k < num; k++) {
        uint32_t number = call_of(&best_pace, k);
        places[k] = place_of(&best, &best_pace, number);
        if (number >= best.num)
            places[k] = places[k] < t->num_ops ? find_next(p, &puts[k], places[k]) : t->num_ops;
        if (places[k] < puts[k].next)
            places[k] = puts[k].next;
    }
    return places;
}

/* Counts calls that are alike back from a place: the first of its group before it is 1... */
struct counting {
    const struct um_thread *t;
    const struct groups *groups;
    unsigned int but; /* calls that do not matter */
    uint32_t *counts; /* of each group */
    struct um_table
        shown;     /* 1: such a call does not wait for the put that a later call waits for */
    uint32_t turn; /* of the puts that one call waits for, which is this? */
};

static uint32_t *shown_at(struct counting *c, size_t call, uint32_t number)
{
    return um_table_at(&c->shown, (uint64_t)c->turn << 32 | c->groups->of[call], number, 0);
}

/* The number of a call, of those that are alike; 0: it does not matter. */
static uint32_t count_call(struct counting *c, size_t call)
{
    return c->t->ops[call].kind == c->but ? 0 : ++c->counts[c->groups->of[call]];
}

static void end_count(struct counting *c, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        c->counts[c->groups->of[i]] = 0;
}

/* Notes which of the last `depth` calls before a place were once made before the put of that place
 * was started. */
static void note_shown(struct counting *c, const struct put *put, size_t from, size_t place,
                       size_t depth)
{
    size_t call = place;

    while (depth && call > from) {
        uint32_t number = count_call(c, --call);
        if (number)
            depth--;
        if (number && call < put->next) {
            *shown_at(c, call, number) = 1;
            *shown_at(c, call, 0) = 1; /* one of any number */
        }
    }
    end_count(c, call, place);
}

/* The first call that a put may be waited for by: of those before the place, it was not shown that
 * they do not wait. `far`: it is enough that this was shown of a call behind it, since the thread
 * made it earlier, and of any one that is alike. */
static size_t first_not_shown(struct counting *c, const struct put *put, size_t place, bool far)
{
    size_t call = place, first = place;
    bool before = false; /* a call behind it does not wait */

    while (call > put->next) {
        uint32_t number = count_call(c, --call);
        if (!number)
            continue;
        if (*shown_at(c, call, number))
            before = far;
        else if (!before || !*shown_at(c, call, 0))
            first = call;
    }
    end_count(c, call, place);
    return first;
}

/* No put is waited for later than has been shown. Where puts are to one address (not `far`), only
 * calls behind the one that waits for the put before show anything. */
static void keep_shown(const struct um_program *p, const struct put *puts, uint32_t num,
                       const struct groups *groups, unsigned int but, bool far, uint32_t down,
                       size_t *places)
{
    struct counting c = {.t = &p->threads[puts->thread],
                         .groups = groups,
                         .but = but,
                         .counts = um_calloc(groups->num, sizeof(*c.counts))};
    size_t depth = 0, before = SIZE_MAX;

    for (uint32_t k = 0; k < num; k++)
        if (places[k] > puts[k].next && places[k] - puts[k].next > depth)
            depth = places[k] - puts[k].next;
    depth = depth < MOST_BACK ? depth : MOST_BACK;
    for (uint32_t k = 0; depth && k < num; k++) {
        if (k && places[k - 1] < places[k])
            before = far ? places[0] : places[k - 1] + (down > 1);
        if (before == SIZE_MAX)
            continue;
        c.turn = k % down;
        note_shown(&c, &puts[k], before, places[k], depth);
    }
    for (uint32_t k = 0; depth && k < num; k++) {
        c.turn = k % down;
        places[k] = first_not_shown(&c, &puts[k], places[k], far);
    }
    um_table_free(&c.shown);
    free(c.counts);
}

/* What repeats may be several puts: a thread that waits for three and then passes all three on does
 * so before the first of its calls. In repetitions of 2, 3... puts, a put is waited for no later
 * than the same one of a repetition was shown to be. found: before keep_shown(). */
static void keep_periods(const struct put *puts, uint32_t num, const size_t *found, size_t *places)
{
    for (uint32_t period = 2; period <= MOST_IN_PERIOD && period <= num / 2; period++) {
        for (uint32_t first = 0; first < period; first++) {
            size_t least = SIZE_MAX;
            for (uint32_t k = first; k < num; k += period)
                if (found[k] - puts[k].next < least)
                    least = found[k] - puts[k].next;
            for (uint32_t k = first; k < num; k += period)
                if (found[k] - least < places[k])
                    places[k] = found[k] - least;
        }
    }
}

enum { EACH_KIND = 255 };

/* Finds the calls that puts which repeat are waited for by; a later one than is known counts. */
static void find_repeated(const struct um_program *p, struct put *puts, uint32_t num,
                          const struct groups *groups, unsigned int but, bool near)
{
    uint32_t down;
    size_t *places = find_places(p, puts, num, groups, but, &down);

    if (!places)
        return;
    bool far = !near && down == 1;
    size_t *found = um_calloc(num, sizeof(*found));
    memcpy(found, places, num * sizeof(*found));
    keep_shown(p, puts, num, groups, but, far, down, places);
    if (far && but == EACH_KIND)
        keep_periods(puts, num, found, places);
    free(found);
    for (uint32_t k = 0; k < num; k++)
        if (puts[k].call == UM_NONE || places[k] > puts[k].call)
            puts[k].call = (uint32_t)places[k];
    free(places);
}

/*
 * 0. Puts that a notice tells of
 */

/* Does a call wait for another process, so that what the thread starts behind it is something new?
 * TCQ entries are waited for to have room for more. */
static bool is_turn(const struct um_op *op)
{
    return op->kind == UM_OP_MRQ || op->kind == UM_OP_RESULT || op->kind == UM_OP_SEEN ||
           op->kind == UM_OP_MPI;
}

static bool has_remote_notice(const struct um_comm *c)
{
    return (c->flags & UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE) != 0;
}

/* Marks the communications that the same thread follows, on the same VCQ and before its next turn,
 * by one to the same VCQ with a notice behind them. By their numbers; to be freed. */
static bool *find_announced(const struct um_program *p)
{
    bool *announced = um_calloc(p->num_comms, sizeof(*announced));
    struct um_table turns = {.entries = NULL};

    for (size_t t = 0; t < p->num_threads; t++) {
        uint32_t turn = 1; /* counted from the end */
        for (size_t i = p->threads[t].num_ops; i-- > 0;) {
            const struct um_op *op = &p->threads[t].ops[i];
            turn += is_turn(op);
            if (op->kind != UM_OP_COMM)
                continue;
            const struct um_comm *c = &p->comms[op->which];
            uint32_t *told = um_table_at(&turns, (uint64_t)c->vcq << 32 | c->remote, t, 0);
            if (has_remote_notice(c) && c->flags & UTOFU_ONESIDED_FLAG_STRONG_ORDER)
                *told = turn;
            else
                announced[op->which] = *told == turn;
        }
    }
    um_table_free(&turns);
    return announced;
}

/*
 * All puts
 */

static void collect_puts(struct seeing *s)
{
    struct um_program *p = s->program;
    uint64_t *starts = um_starts_find(p);
    bool *announced = find_announced(p);

    for (size_t i = 0; i < p->num_comms; i++) {
        const struct um_comm *c = &p->comms[i];
        if (starts[i] == UINT64_MAX || announced[i] || has_remote_notice(c) ||
            (c->kind != UM_PUT && c->kind != UM_ARMW))
            continue;
        const struct um_vcq *v = &p->vcqs[c->remote];
        if (c->sps && v->session)
            continue; /* it is for the TNI: a relay */
        if (v->process == UM_NONE || v->thread == UM_NONE)
            continue;
        const struct um_process *from = &p->processes[c->process], *to = &p->processes[v->process];
        uint64_t lands = starts[i] + 1; /* a put to oneself does not wait for itself */
        if (from->host != to->host)
            lands += (uint64_t)(from->to_realtime - to->to_realtime);
        s->puts = um_grow(s->puts, s->num_puts, &s->room_puts, sizeof(*s->puts));
        s->puts[s->num_puts++] = (struct put){
            .thread = v->thread,
            .comm = (uint32_t)i,
            .call = UM_NONE,
            .lands = lands,
            .after = from == to ? lands : lands - CLOCKS_NS,
            .stream = likeness_of_comm(c),
            .pair = ut_hash_word(kind_of_comm(c), (uint64_t)c->thread << 32 | c->remote)};
        struct put *put = &s->puts[s->num_puts - 1];
        put->next = find_next(p, put, 0);
    }
    free(announced);
    free(starts);
}

static int compare_landings(const void *a, const void *b)
{
    const struct put *x = a, *y = b;

    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    if (x->pair != y->pair)
        return x->pair < y->pair ? -1 : 1;
    if (x->lands != y->lands)
        return x->lands < y->lands ? -1 : 1;
    return x->comm < y->comm ? -1 : x->comm > y->comm;
}

static int compare_puts(const void *a, const void *b)
{
    const struct put *x = a, *y = b;

    if (x->thread == y->thread && x->pair == y->pair && x->stream != y->stream)
        return x->stream < y->stream ? -1 : 1;
    return compare_landings(a, b);
}

/* Groups the calls of a thread by likeness. */
static struct groups group_calls(const struct um_program *p, uint32_t thread,
                                 uint64_t (*likeness)(const struct um_program *,
                                                      const struct um_op *))
{
    const struct um_thread *t = &p->threads[thread];
    struct um_table by_likeness = {.entries = NULL};
    struct groups g = {.of = um_calloc(t->num_ops, sizeof(*g.of)),
                       .places = um_calloc(t->num_ops, sizeof(*g.places))};
    uint32_t *at = g.places;
    size_t room = 0;

    for (size_t i = 0; i < t->num_ops; i++) {
        uint64_t like = likeness(p, &t->ops[i]);
        uint32_t *index = um_table_at(&by_likeness, like, 0, (uint32_t)g.num);
        if (*index == g.num) {
            g.calls = um_grow(g.calls, g.num, &room, sizeof(*g.calls));
            g.calls[g.num++] = (struct calls){.like = like};
        }
        g.of[i] = *index;
        g.calls[*index].num++;
    }
    for (size_t i = 0; i < g.num; i++) {
        g.calls[i].at = at;
        at += g.calls[i].num;
        g.calls[i].num = 0;
    }
    for (size_t i = 0; i < t->num_ops; i++) {
        struct calls *c = &g.calls[g.of[i]];
        c->at[c->num++] = (uint32_t)i;
    }
    um_table_free(&by_likeness);
    return g;
}

static void free_groups(struct groups *g)
{
    free(g->calls);
    free(g->of);
    free(g->places);
}

/* Puts to one address, of the `num` of a thread, with the calls that are alike. */
static void find_in_streams(struct seeing *s, struct put *puts, size_t num)
{
    struct groups groups = group_calls(s->program, puts->thread, likeness_of);
    size_t n;

    for (size_t i = 0; i < num; i += n) {
        for (n = 1; i + n < num && puts[i + n].pair == puts[i].pair &&
                    puts[i + n].stream == puts[i].stream;
             n++)
            ;
        bool hinted = is_hinted(s, &s->program->comms[puts[i].comm]);
        for (size_t k = 0; k < n; k++)
            puts[i + k].hinted = hinted;
        if (!hinted)
            find_repeated(s->program, &puts[i], (uint32_t)n, &groups, EACH_KIND, true);
    }
    free_groups(&groups);
}

/* The same, of all addresses where there are many. */
static void find_in_pairs(struct seeing *s, struct put *puts, size_t num)
{
    struct groups groups = group_calls(s->program, puts->thread, kind_of);
    size_t n;

    for (size_t i = 0; i < num; i += n) {
        unsigned int addresses = 1;
        bool hinted = puts[i].hinted;
        for (n = 1; i + n < num && puts[i + n].pair == puts[i].pair; n++) {
            addresses += puts[i + n].stream != puts[i + n - 1].stream;
            hinted |= puts[i + n].hinted;
        }
        if (addresses < MANY_ADDRESSES || hinted)
            continue;
        qsort(&puts[i], n, sizeof(*puts), compare_landings);
        find_repeated(s->program, &puts[i], (uint32_t)n, &groups, EACH_KIND, false);
    }
    free_groups(&groups);
}

/* A region does not begin later because of a put, which would make the region seem shorter: its
 * beginning and the result of a barrier before it have no effect on others, and the next call
 * waits.
 */
static uint32_t skip_entry(const struct um_thread *t, uint32_t call)
{
    if (call + 1 < t->num_ops && t->ops[call].kind == UM_OP_RESULT &&
        t->ops[call + 1].kind == UM_OP_ENTER)
        call++;
    while (call < t->num_ops && t->ops[call].kind == UM_OP_ENTER)
        call++;
    return call;
}

static void attach_thread(struct seeing *s, struct put *puts, size_t num)
{
    const struct um_program *p = s->program;

    find_in_streams(s, puts, num);
    find_in_pairs(s, puts, num);
    for (size_t i = 0; i < num; i++) {
        if (puts[i].hinted) {
            attach_hinted(s, &puts[i]);
            continue;
        }
        uint32_t call = puts[i].call == UM_NONE ? find_next(p, &puts[i], 0) : puts[i].call;
        uint32_t behind = skip_entry(&p->threads[puts[i].thread], call);
        if (behind >= p->threads[puts[i].thread].num_ops)
            continue;
        wait_for(s->program, puts[i].thread, behind, puts[i].comm, UM_CONCLUDED);
        p->seen[p->num_seen - 1].early = behind > call;
    }
}

/*
 * Notices that were polled early
 */

/* The first call from `at` on that is no poll of an MRQ; num_ops: none. */
static uint32_t skip_notices(const struct um_thread *t, uint32_t at)
{
    while (at < t->num_ops && t->ops[at].kind == UM_OP_MRQ)
        at++;
    return at;
}

/* Notices of a thread that other processes cause, as puts that are seen by their polls. */
static struct put *collect_polls(const struct um_program *p, uint32_t thread, size_t *num)
{
    const struct um_thread *t = &p->threads[thread];
    struct put *polls = NULL;
    size_t room = 0;

    *num = 0;
    for (size_t i = 0; i < t->num_ops; i++) {
        const struct um_op *op = &t->ops[i];
        if (op->kind != UM_OP_MRQ || !op->has_notice || !has_remote_notice(&p->comms[op->which]) ||
            p->comms[op->which].vcq == op->vcq)
            continue;
        polls = um_grow(polls, *num, &room, sizeof(*polls));
        polls[(*num)++] = (struct put){.thread = thread,
                                       .comm = op->which,
                                       .call = UM_NONE,
                                       .lands = op->begin,
                                       .after = op->begin,
                                       .stream = likeness_of(p, op),
                                       .pair = (uint64_t)op->vcq << 32 | op->far,
                                       .op = (uint32_t)i,
                                       .next = skip_notices(t, (uint32_t)i),
                                       .latest = UM_NONE};
    }
    return polls;
}

/* A notice that in other repetitions was polled behind a call is not needed for this call, and is
 * waited for by the earliest one that it may be needed for. */
static void put_off(struct um_program *p, const struct put *poll)
{
    struct um_thread *t = &p->threads[poll->thread];
    uint32_t call = poll->call < poll->latest ? poll->call : poll->latest;

    if (poll->call == UM_NONE || call >= t->num_ops || call <= skip_notices(t, poll->op))
        return;
    t->ops[poll->op].has_notice = false;
    wait_for(p, poll->thread, call, poll->comm, UM_NOTICED);
}

/* Would a notice be needed only behind the poll of the alike notice after the next one? Then the
 * calls that were found do not belong to these notices, and repeat as often by chance. */
static bool do_polls_overtake(const struct put *polls, size_t n)
{
    for (size_t k = 0; k + 2 < n; k++)
        if (polls[k].call != UM_NONE && polls[k].call > polls[k + 2].op)
            return true;
    return false;
}

/* All notices of a sender together: where each of them has an EDATA of its own, few are alike. */
static void limit_in_pairs(const struct um_program *p, struct put *polls, size_t num,
                           const struct groups *groups)
{
    size_t n;

    if (num)
        qsort(polls, num, sizeof(*polls), compare_landings);
    for (size_t i = 0; i < num; i += n) {
        for (n = 1; i + n < num && polls[i + n].pair == polls[i].pair; n++)
            ;
        find_repeated(p, &polls[i], (uint32_t)n, groups, UM_OP_MRQ, false);
        bool good = !do_polls_overtake(&polls[i], n);
        for (size_t k = i; k < i + n; k++) {
            if (good)
                polls[k].latest = polls[k].call;
            polls[k].call = UM_NONE;
        }
    }
}

static void put_off_early(struct um_program *p, uint32_t thread)
{
    size_t num, n;
    struct put *polls = collect_polls(p, thread, &num);
    struct groups groups = group_calls(p, thread, likeness_of);

    limit_in_pairs(p, polls, num, &groups);
    if (num)
        qsort(polls, num, sizeof(*polls), compare_puts);
    for (size_t i = 0; i < num; i += n) {
        for (n = 1; i + n < num && polls[i + n].stream == polls[i].stream; n++)
            ;
        find_repeated(p, &polls[i], (uint32_t)n, &groups, UM_OP_MRQ, true);
        bool good = !do_polls_overtake(&polls[i], n);
        for (size_t k = 0; good && k < n; k++)
            put_off(p, &polls[i + k]);
    }
    free(polls);
    free_groups(&groups);
}

void um_match_seen(struct um_program *program)
{
    struct seeing s = {.program = program};
    size_t n;

    for (uint32_t t = 0; t < program->num_threads; t++)
        put_off_early(program, t);
    find_threads(program);
    collect_hints(&s);
    collect_puts(&s);
    if (s.num_puts)
        qsort(s.puts, s.num_puts, sizeof(*s.puts), compare_puts);
    for (size_t i = 0; i < s.num_puts; i += n) {
        for (n = 1; i + n < s.num_puts && s.puts[i + n].thread == s.puts[i].thread; n++)
            ;
        attach_thread(&s, &s.puts[i], n);
    }
    free(s.puts);
    free(s.hints);
}
