/* SPDX-License-Identifier: Apache-2.0 */
/* The sentences of the uTofu manual that promise or forbid something, in our words. */
#ifndef CONFORM_SENTENCES_H
#define CONFORM_SENTENCES_H

#include <stddef.h>

struct cf_sentence {
    const char *section; /* "3.7.1.1" */
    int number;          /* from 1, as cf_case.sentence */
    const char *says;    /* what it promises or forbids, in one short sentence of our own */
    const char *no_case; /* why there is no case, or NULL: there is one */
};

/* Each table in its own file: sentences_onesided.c, sentences_rest.c; listed in groups.c */
struct cf_sentences {
    const struct cf_sentence *sentences;
    size_t count;
};
#define CF_SENTENCES(variable, table)                                                              \
    const struct cf_sentences variable = {table, sizeof(table) / sizeof(table)[0]}

extern const struct cf_sentences *const cf_sentence_tables[];
extern const size_t cf_num_sentence_tables;

#endif
