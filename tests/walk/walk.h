/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exhaustive walks: a scenario runs again and again, each time with other choices, depth first,
 * until every choice was taken in every state. The scenario consists of functions of the library,
 * and makes its choices by walk_choose(): who goes on, what arrives, what is lost.
 * docs/design/verifier.md describes the walks.
 */
#ifndef UT_TEST_WALK_H
#define UT_TEST_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What may happen next, to whom: the action is a number of the program's own, or WALK_FINISH. */
struct walk_choice {
    unsigned int action;
    int side;
    unsigned int i;
};

struct walk_choices {
    struct walk_choice of[128];
    unsigned int num;
};

/* A state: all that the rest of the run depends on, and no more than that. */
struct walk_bytes {
    uint8_t of[4096];
    size_t size;
};

/* Numbers that somebody still knows: in a state their ranks stand for them. */
struct walk_numbers {
    uint32_t of[64];
    unsigned int num;
};

/* The last choice of a run, which each state has: what has to hold in the end is checked. */
enum { WALK_FINISH = 0 };

/*
 * A protocol. A run opens everything anew, makes choices until it finishes or comes to a state
 * where the walk was before, and closes everything.
 */
struct walk_protocol {
    void *rules; /* of the scenario that runs: its rules are copied to this place */
    size_t rules_size;
    uint64_t max_states; /* of a scenario */
    void (*open)(void);
    void (*put_state)(struct walk_bytes *bytes);
    void (*add_choices)(struct walk_choices *choices); /* but WALK_FINISH */
    void (*do_choice)(const struct walk_choice *choice);
    void (*close)(void);
};

/* `tier`: 0 for all runs, 1 for long ones, 2 for longer ones. `reached`: what some run of it has to
 * reach. */
struct walk_scenario {
    const char *name;
    int tier;
    const void *rules;
    unsigned int reached;
};

/* One with the program's `struct rules`, and `enum reached`. */
#define SCENARIO(name, tier, reached, ...)                                                         \
    {                                                                                              \
        name, tier, &(const struct rules){__VA_ARGS__}, REACHED_##reached                          \
    }

/* The program: walks through the scenarios of tier 0; an argument: a number, up to this tier, or
 * the name of a scenario. The list ends with a scenario without a name. */
int walk_main(int argc, char **argv, const struct walk_protocol *protocol,
              const struct walk_scenario *scenarios);

void walk_add_choice(struct walk_choices *choices, unsigned int action, int side, unsigned int i);
void walk_put_byte(struct walk_bytes *bytes, unsigned int value);
/* A number relative to another one, or a number that is small in a walk. */
void walk_put_small(struct walk_bytes *bytes, uint64_t number);

/* Adds a number, unless it is 0, which is none. */
void walk_add_number(struct walk_numbers *numbers, uint32_t number);
/* From 1; 0: no number. */
uint8_t walk_rank_of(const struct walk_numbers *numbers, uint32_t number);

/* Returns a number below `n`, in the end each of them. */
unsigned int walk_choose(unsigned int n);
/* Tells what the run does next: a format with up to three numbers. It is printed after a failure.
 */
void walk_step(const char *format, unsigned int a, unsigned int b, unsigned int c);
/* Counts something that the scenario wants to have reached. */
void walk_reached(unsigned int what);

/* Prints the steps of the run and the format with its numbers, and ends the program. */
__attribute__((noreturn)) void walk_fail(const char *file, int line, const char *what);
#define WALK_CHECK(cond)                                                                           \
    do {                                                                                           \
        if (!(cond))                                                                               \
            walk_fail(__FILE__, __LINE__, #cond);                                                  \
    } while (0)

enum { WALK_MAX_REACHED = 64 };

#endif
