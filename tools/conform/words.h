/* SPDX-License-Identifier: Apache-2.0 */
/* Words that ARMWs change: those of the next process, one by one, and one of process 0 that all
 * change. */
#ifndef CONFORM_WORDS_H
#define CONFORM_WORDS_H

#include "onesided.h"

/* One ARMW on a word with a value, and the value that it should leave */
struct cf_change {
    uint64_t before, operand, compare, after;
};

/* Carries each change out on a word of the next process, 16 bytes apart and 'at' bytes behind, and
   checks the words, their neighbours, and the values before in the notices */
void cf_try_changes(struct cf *c, enum cf_function f, enum utofu_armw_op op,
                    const struct cf_change *changes, size_t count, size_t at);

/* An ARMW on the first word of 'recv' of process 0, through that of its ends; the same in all
 * processes */
int cf_word_of_first(struct cf *c, const struct cf_ends *e, enum cf_function f, struct cf_comm *m);
/* Carries it out and gives the value before. Not 0 if it is complete. */
int cf_change_word(struct cf_box *b, const struct cf_comm *m, uint64_t *before);
/* The sum of a number of each process. Not 0 if all have given theirs. */
int cf_add_up(struct cf *c, uint64_t mine, uint64_t *sum);

#endif
