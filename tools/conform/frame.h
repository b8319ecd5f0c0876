/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of utofu-conform share, and cases do not see. */
#ifndef CONFORM_FRAME_H
#define CONFORM_FRAME_H

#include "conform.h"

enum {
    CF_WORDS = 16,     /* different outcomes and numbers of a case */
    CF_WORD_SIZE = 64, /* bytes of a word, with the 0 */
    CF_TEXTS = 3,      /* failures of a process that are kept */
    CF_TEXT_SIZE = 240,
    CF_OPENED = 16,  /* ends that a case may have open at a time */
    CF_MAX_SIZE = 48 /* processes */
};

struct cf_count {
    char word[CF_WORD_SIZE];
    uint64_t count;
};

struct cf_range {
    char name[CF_WORD_SIZE];
    double min, max;
};

/* What a process, or all of them, saw in a case; travels between processes as it is */
struct cf_seen {
    int failures; /* how many, those that are not kept, too */
    int skipped;
    int left; /* this process left the case because another one did */
    int texts, counts, ranges;
    char text[CF_TEXTS][CF_TEXT_SIZE];
    char skip[CF_TEXT_SIZE];
    struct cf_count count[CF_WORDS];
    struct cf_range range[CF_WORDS];
};

struct cf {
    const struct cf_case *now;
    int rank, size;
    unsigned round; /* how many cases have been run, with this one */
    unsigned steps; /* calls of cf_share() in this case */
    unsigned closes;
    int left; /* cf_share() has returned 0 */
    uint64_t random;
    struct cf_seen seen;
    struct cf_ends opened[CF_OPENED];
    int num_opened;
};

struct cf_options {
    const char **only; /* names or globs */
    int num_only;
    const char *group, *from, *output;
    int quick, risky, verbose, time;
    unsigned long seed, repeat;
};

/* How many times as long as usual everything is waited for: --timeout-scale */
extern double cf_timeout_scale;

#endif
