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

struct walk_scenario {
    const char *name;
    void (*run)(void); /* makes everything anew, and frees everything if it returns */
};

/* Returns a number below `n`, in the end each of them. */
unsigned int walk_choose(unsigned int n);
/* True if the walk was in this state before: the run ends. `state` has all that the rest of the run
 * depends on, and no more than that. */
bool walk_was_here(const void *state, size_t size);
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
/* How often walk_reached() was called in the last walk. */
extern uint64_t walk_num_reached[WALK_MAX_REACHED];

/* Walks through the scenario and prints the number of its states and runs. More than `max_states`
 * are a failure: nothing is left out without being told. Returns the number of states. */
uint64_t walk_all(const struct walk_scenario *scenario, uint64_t max_states);

#endif
