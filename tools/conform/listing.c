/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of the cases, and of the manual's sentences with their cases. */
#include "listing.h"
#include "groups.h"
#include "sentences.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *kind_name(enum cf_kind kind)
{
    return kind == CF_PROMISED ? "promised" : kind == CF_OPEN ? "left open" : "not said";
}

static int is_named_twice(const struct cf_case *it)
{
    size_t g, i;
    int times = 0;
    for (g = 0; g < cf_num_groups; g++)
        for (i = 0; i < cf_groups[g]->count; i++)
            times += strcmp(cf_groups[g]->cases[i].name, it->name) == 0;
    return times != 1;
}

int cf_listing_cases(void)
{
    size_t g, i;
    int bad = 0;
    for (g = 0; g < cf_num_groups; g++)
        for (i = 0; i < cf_groups[g]->count; i++) {
            const struct cf_case *it = &cf_groups[g]->cases[i];
            printf("%-12s %-44s %-9s %s %d%s%s\n", cf_groups[g]->name, it->name,
                   kind_name(it->kind), it->section, it->sentence,
                   it->needs & CF_RISKY ? " risky" : "", it->needs & CF_SLOW ? " slow" : "");
            if (is_named_twice(it)) {
                fprintf(stderr, "utofu-conform: two cases have the name %s\n", it->name);
                bad = 1;
            }
        }
    return bad;
}

/* Section by section, then by number */
static int compare_sentences(const void *a, const void *b)
{
    const struct cf_sentence *x = *(const struct cf_sentence *const *)a;
    const struct cf_sentence *y = *(const struct cf_sentence *const *)b;
    const char *s = x->section, *t = y->section;
    while (*s != '\0' && *t != '\0') {
        char *s_end, *t_end;
        long m = strtol(s, &s_end, 10), n = strtol(t, &t_end, 10);
        if (m != n)
            return m < n ? -1 : 1;
        s = *s_end == '.' ? s_end + 1 : s_end;
        t = *t_end == '.' ? t_end + 1 : t_end;
    }
    if (*s != *t)
        return *s == '\0' ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static size_t count_sentences(void)
{
    size_t t, count = 0;
    for (t = 0; t < cf_num_sentence_tables; t++)
        count += cf_sentence_tables[t]->count;
    return count;
}

/* All sentences, in order; to be freed */
static const struct cf_sentence **sorted_sentences(size_t count)
{
    const struct cf_sentence **all = malloc((count + 1) * sizeof(*all));
    size_t t, i, n = 0;
    if (all == NULL)
        exit(2);
    for (t = 0; t < cf_num_sentence_tables; t++)
        for (i = 0; i < cf_sentence_tables[t]->count; i++)
            all[n++] = &cf_sentence_tables[t]->sentences[i];
    qsort(all, count, sizeof(*all), compare_sentences);
    return all;
}

static int is_of(const struct cf_case *it, const struct cf_sentence *s)
{
    return it->sentence == s->number && strcmp(it->section, s->section) == 0;
}

/* Prints the names of its cases; how many there are */
static int print_cases_of(const struct cf_sentence *s)
{
    size_t g, i;
    int count = 0;
    for (g = 0; g < cf_num_groups; g++)
        for (i = 0; i < cf_groups[g]->count; i++)
            if (is_of(&cf_groups[g]->cases[i], s))
                printf("%s`%s`", count++ ? ", " : "", cf_groups[g]->cases[i].name);
    return count;
}

/* Whether the reason begins with the name of a case, or refers to one: then that case, of another
   sentence, sees this one, too */
static int begins_with_case(const char *reason)
{
    size_t g, i, length = strcspn(reason, " ,:;");
    if (strncmp(reason, "shown by the case of ", 21) == 0)
        return 1;
    for (g = 0; g < cf_num_groups; g++)
        for (i = 0; i < cf_groups[g]->count; i++) {
            const char *name = cf_groups[g]->cases[i].name;
            if (strlen(name) == length && strncmp(name, reason, length) == 0)
                return 1;
        }
    return 0;
}

/* Cases whose sentence is in no table */
static int check_cases(const struct cf_sentence **all, size_t count)
{
    size_t g, i, n;
    int bad = 0;
    for (g = 0; g < cf_num_groups; g++)
        for (i = 0; i < cf_groups[g]->count; i++) {
            const struct cf_case *it = &cf_groups[g]->cases[i];
            for (n = 0; n < count && !is_of(it, all[n]); n++)
                ;
            if (it->sentence == 0 ? it->kind == CF_UNSAID : n < count)
                continue;
            fprintf(stderr, "utofu-conform: no table has the sentence %s %d of the case %s\n",
                    it->section, it->sentence, it->name);
            bad = 1;
        }
    return bad;
}

int cf_listing_sentences(void)
{
    size_t n, beside = 0, without = 0, count = count_sentences();
    const struct cf_sentence **all = sorted_sentences(count);
    int bad = check_cases(all, count);
    puts("# The manual's sentences\n\n"
         "The sentences of the uTofu manual that promise or forbid something, in our words, with "
         "the cases of `utofu-conform`\n"
         "that ask a machine for them. Sentences are counted within their section. Made by "
         "`utofu-conform --sentences`.");
    for (n = 0; n < count; n++) {
        int cases;
        if (n == 0 || strcmp(all[n]->section, all[n - 1]->section) != 0)
            printf("\n## %s\n\n| sentence | promises or forbids | cases |\n| --- | --- | --- |\n",
                   all[n]->section);
        if (n > 0 && compare_sentences(&all[n], &all[n - 1]) == 0) {
            fprintf(stderr, "utofu-conform: the sentence %s %d is there twice\n", all[n]->section,
                    all[n]->number);
            bad = 1;
        }
        printf("| %d | %s | ", all[n]->number, all[n]->says);
        cases = print_cases_of(all[n]);
        if (cases == 0 && all[n]->no_case != NULL && begins_with_case(all[n]->no_case)) {
            beside++;
            printf("seen by another: %s", all[n]->no_case);
        } else if (cases == 0) {
            without++;
            printf("none: %s", all[n]->no_case ? all[n]->no_case : "?");
        }
        puts(" |");
        if (cases == 0 && all[n]->no_case == NULL) {
            fprintf(stderr, "utofu-conform: the sentence %s %d has neither a case nor a reason\n",
                    all[n]->section, all[n]->number);
            bad = 1;
        }
    }
    printf("\n%lu sentences: %lu have cases, %lu are seen by a case of another sentence, and %lu "
           "have none.\n",
           (unsigned long)count, (unsigned long)(count - beside - without), (unsigned long)beside,
           (unsigned long)without);
    free(all);
    return bad;
}
