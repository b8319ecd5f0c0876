/* SPDX-License-Identifier: Apache-2.0 */
/* Exhaustive walks: see walk.h. The states are in a table of hashes of 64 bits. */
#include "walk.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../harness/limit.h"

enum { MAX_CHOICES = 4096, MAX_STEPS = 4096, FIRST_TABLE = 1 << 16 };

struct choice {
    unsigned int taken, num;
};

struct step {
    const char *format;
    unsigned int a, b, c;
};

static struct {
    const struct walk_scenario *scenario;
    const struct walk_protocol *protocol;
    struct choice choices[MAX_CHOICES];
    unsigned int num_choices; /* of this run so far */
    unsigned int num_old;     /* choices that an earlier run has made, too */
    struct step steps[MAX_STEPS];
    unsigned int num_steps, longest;
    uint64_t *table; /* 0: free */
    uint64_t table_size, num_states, num_runs, num_reached[WALK_MAX_REACHED];
} walk;

static void print_steps(void)
{
    fprintf(stderr, "%s, run %llu:\n", walk.scenario->name, (unsigned long long)walk.num_runs + 1);
    for (unsigned int i = 0; i < walk.num_steps; i++) {
        const struct step *step = &walk.steps[i];
        fprintf(stderr, "  ");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        fprintf(stderr, step->format, step->a, step->b, step->c);
#pragma GCC diagnostic pop
        fprintf(stderr, "\n");
    }
}

void walk_fail(const char *file, int line, const char *what)
{
    signal(SIGABRT, SIG_DFL);
    print_steps();
    fprintf(stderr, "%s:%d: failed: %s\n", file, line, what);
    exit(1);
}

/* An assertion of the library has failed. */
static void on_abort(int sig)
{
    (void)sig;
    signal(SIGABRT, SIG_DFL);
    print_steps();
}

unsigned int walk_choose(unsigned int n)
{
    struct choice *choice = &walk.choices[walk.num_choices];

    if (n < 2)
        return 0;
    WALK_CHECK(walk.num_choices < MAX_CHOICES);
    if (walk.num_choices++ < walk.num_old) {
        WALK_CHECK(choice->num == n); /* otherwise the run depends on more than its choices */
        return choice->taken;
    }
    walk.num_old = walk.num_choices;
    *choice = (struct choice){.taken = 0, .num = n};
    return 0;
}

static uint64_t hash_of(const void *state, size_t size)
{
    const unsigned char *bytes = state;
    uint64_t hash = 0x9e3779b97f4a7c15;

    while (size > 0) {
        uint64_t word = 0;
        size_t n = size < sizeof(word) ? size : sizeof(word);
        memcpy(&word, bytes, n);
        hash = (hash ^ word) * 0xff51afd7ed558ccd;
        hash ^= hash >> 32;
        bytes += n;
        size -= n;
    }
    hash = (hash ^ hash >> 29) * 0xc4ceb9fe1a85ec53;
    hash ^= hash >> 32;
    return hash ? hash : 1;
}

/*
 * With WALK_TWICE: a run goes a step further from a state where the walk was before, and may come
 * only to states to which a step has led from there before. Otherwise put_state() leaves out
 * something on which the rest depends. WALK_TWICE=N prints run N.
 */
enum { NONE = MAX_CHOICES };

static struct {
    unsigned long long print; /* this run; 0: WALK_TWICE is not set */
    struct way {
        uint64_t hash; /* of two states; 0: free */
        uint64_t run;  /* which has gone further; 0: there is none */
        bool is_first; /* a run has come this way that was not here before */
    } * ways;
    uint64_t size, num;
    uint64_t last;     /* the state before; 0: none */
    unsigned int step; /* choices of the run before it goes further; NONE */
    unsigned int made; /* choices of the run before the last state */
} twice;

static struct way *find_way(uint64_t hash)
{
    uint64_t i = hash & (twice.size - 1);

    while (twice.ways[i].hash && twice.ways[i].hash != hash)
        i = (i + 1) & (twice.size - 1);
    return &twice.ways[i];
}

static void grow_ways(void)
{
    struct way *old = twice.ways;
    uint64_t n = twice.size;

    twice.size = n ? 2 * n : FIRST_TABLE;
    twice.ways = calloc(twice.size, sizeof(*twice.ways));
    WALK_CHECK(twice.ways);
    for (uint64_t i = 0; i < n; i++)
        if (old[i].hash)
            *find_way(old[i].hash) = old[i];
    free(old);
}

/* The run has come from the state before to this one. */
static void note_way(uint64_t state)
{
    const uint64_t both[] = {twice.last, state};

    if (2 * twice.num >= twice.size)
        grow_ways();
    if (twice.last) {
        struct way *way = find_way(hash_of(both, sizeof(both)));
        twice.num += !way->hash;
        way->hash = hash_of(both, sizeof(both));
        if (twice.made == twice.step)
            way->run = way->run ? way->run : walk.num_runs + 1;
        else
            way->is_first = true;
    }
    twice.last = state;
    twice.made = walk.num_choices;
    if (twice.made > twice.step && twice.print == walk.num_runs + 1)
        walk_fail(__FILE__, __LINE__, "WALK_TWICE names this run");
}

static void check_ways(void)
{
    uint64_t num = 0, run = UINT64_MAX;

    for (uint64_t i = 0; i < twice.size; i++) {
        const struct way *way = &twice.ways[i];
        if (way->hash && !way->is_first) {
            num++;
            run = way->run < run ? way->run : run;
        }
    }
    if (num > 0)
        printf("%s: %llu steps from known states lead elsewhere; the first one is in run %llu\n",
               walk.scenario->name, (unsigned long long)num, (unsigned long long)run);
    free(twice.ways);
    WALK_CHECK(num == 0);
}

/* False: it was there before. */
static bool add_hash(uint64_t hash)
{
    uint64_t i = hash & (walk.table_size - 1);

    while (walk.table[i] && walk.table[i] != hash)
        i = (i + 1) & (walk.table_size - 1);
    if (walk.table[i])
        return false;
    walk.table[i] = hash;
    return true;
}

static void grow_table(void)
{
    uint64_t *old = walk.table, n = walk.table_size;

    walk.table_size = n ? 2 * n : FIRST_TABLE;
    walk.table = calloc(walk.table_size, sizeof(*walk.table));
    WALK_CHECK(walk.table);
    for (uint64_t i = 0; i < n; i++)
        if (old[i])
            add_hash(old[i]);
    free(old);
}

/* True if the walk was in this state before: the run ends. */
static bool was_here(void)
{
    struct walk_bytes state = {.size = 0};

    walk.protocol->put_state(&state);
    if (walk.num_choices < walk.num_old && !twice.print)
        return false;
    uint64_t hash = hash_of(state.of, state.size);
    if (twice.print)
        note_way(hash);
    if (walk.num_choices < walk.num_old)
        return false;
    if (2 * walk.num_states >= walk.table_size)
        grow_table();
    if (!add_hash(hash)) {
        if (!twice.print || twice.step != NONE)
            return true;
        twice.step = walk.num_choices;
        return false;
    }
    walk.num_states++;
    if (walk.num_states > walk.protocol->max_states)
        walk_fail(__FILE__, __LINE__, "the scenario has no more states than its limit");
    return false;
}

void walk_step(const char *format, unsigned int a, unsigned int b, unsigned int c)
{
    WALK_CHECK(walk.num_steps < MAX_STEPS);
    walk.steps[walk.num_steps++] = (struct step){format, a, b, c};
}

void walk_reached(unsigned int what)
{
    WALK_CHECK(what < WALK_MAX_REACHED);
    walk.num_reached[what]++;
}

/* Takes the next choice instead of the last one. False: there is none. */
static bool choose_next(void)
{
    while (walk.num_choices > 0) {
        struct choice *last = &walk.choices[walk.num_choices - 1];
        if (++last->taken < last->num)
            break;
        walk.num_choices--;
    }
    walk.num_old = walk.num_choices;
    if (twice.step >= walk.num_old)
        twice.step = NONE;
    return walk.num_old > 0;
}

void walk_add_choice(struct walk_choices *choices, unsigned int action, int side, unsigned int i)
{
    WALK_CHECK(choices->num < sizeof(choices->of) / sizeof(choices->of[0]));
    choices->of[choices->num++] = (struct walk_choice){action, side, i};
}

void walk_put_byte(struct walk_bytes *bytes, unsigned int value)
{
    WALK_CHECK(bytes->size < sizeof(bytes->of) && value < 256);
    bytes->of[bytes->size++] = (uint8_t)value;
}

void walk_put_small(struct walk_bytes *bytes, uint64_t number)
{
    walk_put_byte(bytes, (unsigned int)(number & 0xff));
}

void walk_add_number(struct walk_numbers *numbers, uint32_t number)
{
    unsigned int i = 0;

    while (i < numbers->num && numbers->of[i] < number)
        i++;
    if (!number || (i < numbers->num && numbers->of[i] == number))
        return;
    WALK_CHECK(numbers->num < sizeof(numbers->of) / sizeof(numbers->of[0]));
    memmove(&numbers->of[i + 1], &numbers->of[i], (numbers->num - i) * sizeof(numbers->of[0]));
    numbers->of[i] = number;
    numbers->num++;
}

uint8_t walk_rank_of(const struct walk_numbers *numbers, uint32_t number)
{
    unsigned int i = 0;

    if (!number)
        return 0;
    while (i < numbers->num && numbers->of[i] != number)
        i++;
    return (uint8_t)(i + 1);
}

static void run_once(const struct walk_protocol *protocol)
{
    struct walk_choice choice = {.action = WALK_FINISH + 1};

    walk.num_choices = walk.num_steps = 0;
    twice.last = 0;
    protocol->open();
    while (choice.action != WALK_FINISH && !was_here()) {
        struct walk_choices choices = {.num = 0};
        walk_add_choice(&choices, WALK_FINISH, 0, 0);
        protocol->add_choices(&choices);
        choice = choices.of[walk_choose(choices.num)];
        protocol->do_choice(&choice);
    }
    protocol->close();
    if (walk.num_steps > walk.longest)
        walk.longest = walk.num_steps;
    walk.num_runs++;
}

/* More states than the protocol's limit are a failure: nothing is left out without being told. */
static void walk_all(const struct walk_protocol *protocol, const struct walk_scenario *scenario)
{
    memset(&walk, 0, sizeof(walk));
    memset(&twice, 0, sizeof(twice));
    twice.print = getenv("WALK_TWICE") ? strtoull(getenv("WALK_TWICE"), NULL, 10) : 0;
    twice.step = NONE;
    walk.scenario = scenario;
    walk.protocol = protocol;
    memcpy(protocol->rules, scenario->rules, protocol->rules_size);
    signal(SIGABRT, on_abort);
    do
        run_once(protocol);
    while (choose_next());
    free(walk.table);
    walk.table = NULL;
    printf("%s: %llu states, %llu runs, at most %u steps\n", scenario->name,
           (unsigned long long)walk.num_states, (unsigned long long)walk.num_runs, walk.longest);
    fflush(stdout);
    WALK_CHECK(walk.num_reached[scenario->reached] > 0);
    check_ways();
}

int walk_main(int argc, char **argv, const struct walk_protocol *protocol,
              const struct walk_scenario *scenarios)
{
    const char *which = argc > 1 ? argv[1] : "0";
    bool is_tier = which[0] >= '0' && which[0] <= '9' && !which[1], any = false;

    for (const struct walk_scenario *s = scenarios; s->name; s++) {
        if (is_tier ? s->tier > which[0] - '0' : strcmp(s->name, which) != 0)
            continue;
        any = true;
        walk_all(protocol, s);
    }
    if (!any)
        fprintf(stderr, "there is no scenario '%s'\n", which);
    return any ? 0 : 1;
}
