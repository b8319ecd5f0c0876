/* SPDX-License-Identifier: Apache-2.0 */
/* Says how two files with answers differ, case by case, and which beliefs fall. A file may be cut
 * off: what is whole counts. */
#include "compare.h"
#include "beliefs.h"
#include "json.h"
#include "text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD = 256, NAME = 128 };

struct answers {
    const char *path;
    char *text;
    const char *cases; /* the list, or NULL */
};

/* What a case of a file is: the texts of its members */
struct answer {
    const char *object;
    char outcome[NAME], kind[NAME], says[WORD];
};

static int read_answers(struct answers *a, const char *path)
{
    char program[NAME];
    const char *value;
    a->path = path;
    a->text = cf_text_of_file(path);
    if (a->text == NULL)
        return 0;
    value = cf_json_member(a->text, "program");
    a->cases = cf_json_member(a->text, "cases");
    if (value == NULL || !cf_json_string(value, program, sizeof(program)) ||
        strcmp(program, "utofu-conform") != 0 || a->cases == NULL) {
        fprintf(stderr, "utofu-conform: %s is no file of utofu-conform\n", path);
        free(a->text);
        return 0;
    }
    return 1;
}

static const char *first_case(const struct answers *a)
{
    const char *at = cf_json_first(a->cases, NULL, 0);
    return at != NULL && cf_json_behind(at) != NULL ? at : NULL;
}

static const char *next_case(const char *at)
{
    at = cf_json_next(at, NULL, 0);
    return at != NULL && cf_json_behind(at) != NULL ? at : NULL;
}

static void copy_member(const char *object, const char *name, char *text, size_t size)
{
    const char *value = cf_json_member(object, name);
    if (value == NULL || !cf_json_string(value, text, size))
        text[0] = '\0';
}

static int find_answer(const struct answers *a, const char *name, struct answer *found)
{
    const char *at;
    char its[NAME];
    for (at = first_case(a); at != NULL; at = next_case(at)) {
        copy_member(at, "case", its, sizeof(its));
        if (strcmp(its, name) != 0)
            continue;
        found->object = at;
        copy_member(at, "outcome", found->outcome, sizeof(found->outcome));
        copy_member(at, "kind", found->kind, sizeof(found->kind));
        copy_member(at, "says", found->says, sizeof(found->says));
        return 1;
    }
    return 0;
}

static int saw_word(const char *object, const char *word)
{
    const char *list = cf_json_member(object, "saw");
    return list != NULL && cf_json_member(list, word) != NULL;
}

static int sees_all_of(const char *object, const char *other)
{
    const char *list = cf_json_member(other, "saw");
    char word[NAME];
    const char *at = list ? cf_json_first(list, word, sizeof(word)) : NULL;
    for (; at != NULL; at = cf_json_next(at, word, sizeof(word)))
        if (!saw_word(object, word))
            return 0;
    return 1;
}

static void print_saw(const char *object)
{
    const char *list = cf_json_member(object, "saw");
    char word[NAME];
    const char *at = list ? cf_json_first(list, word, sizeof(word)) : NULL;
    int count = 0;
    for (; at != NULL; at = cf_json_next(at, word, sizeof(word)))
        printf("%s\"%s\" %ld times", count++ ? ", " : "", word, strtol(at, NULL, 10));
    if (count == 0)
        printf("nothing");
}

static int read_range(const char *value, double *min, double *max)
{
    const char *at = cf_json_first(value, NULL, 0);
    if (at == NULL)
        return 0;
    *min = strtod(at, NULL);
    at = cf_json_next(at, NULL, 0);
    if (at == NULL)
        return 0;
    *max = strtod(at, NULL);
    return 1;
}

/* Numbers whose ranges do not meet. How many; they are printed if asked for. */
static int numbers_apart(const struct answer *a, const struct answer *b, int print)
{
    const char *numbers = cf_json_member(a->object, "numbers");
    const char *others = cf_json_member(b->object, "numbers");
    char name[NAME];
    const char *at = numbers ? cf_json_first(numbers, name, sizeof(name)) : NULL;
    int count = 0;
    for (; at != NULL && others != NULL; at = cf_json_next(at, name, sizeof(name))) {
        const char *other = cf_json_member(others, name);
        double a_min, a_max, b_min, b_max;
        if (other == NULL || !read_range(at, &a_min, &a_max) ||
            !read_range(other, &b_min, &b_max) || (a_min <= b_max && b_min <= a_max))
            continue;
        count++;
        if (print)
            printf("    %s: A %g to %g, B %g to %g\n", name, a_min, a_max, b_min, b_max);
    }
    return count;
}

static void print_why(char side, const struct answer *a)
{
    const char *list = cf_json_member(a->object, "why");
    const char *at = list ? cf_json_first(list, NULL, 0) : NULL;
    char text[WORD];
    for (; at != NULL; at = cf_json_next(at, NULL, 0))
        if (cf_json_string(at, text, sizeof(text)))
            printf("    %c: %s\n", side, text);
}

/* Not 0 if the answers of the case differ */
static int compare_case(const char *name, const struct answer *a, const struct answer *b)
{
    int outcomes = strcmp(a->outcome, b->outcome) != 0;
    int words =
        !outcomes && (!sees_all_of(a->object, b->object) || !sees_all_of(b->object, a->object));
    int numbers = !outcomes && numbers_apart(a, b, 0) > 0;
    if (!outcomes && !words && !numbers)
        return 0;
    printf("%s (%s): %s\n", name, a->kind, a->says);
    if (outcomes) {
        printf("    A: %s; B: %s\n", a->outcome, b->outcome);
        print_why('A', a);
        print_why('B', b);
    }
    if (words) {
        printf("    A saw ");
        print_saw(a->object);
        printf("; B saw ");
        print_saw(b->object);
        printf("\n");
    }
    if (numbers)
        numbers_apart(a, b, 1);
    return 1;
}

/* Whether the word stands in the list, with '|' between words */
static int is_among(const char *word, const char *list)
{
    size_t length = strlen(word);
    while (list != NULL) {
        if (strncmp(list, word, length) == 0 && (list[length] == '|' || list[length] == '\0'))
            return 1;
        list = strchr(list, '|');
        if (list != NULL)
            list++;
    }
    return 0;
}

/* Whether the answer is not what the belief expects; then what was seen instead is copied. */
static int is_refuted(const struct answer *a, const struct cf_belief *b, char *instead, size_t size)
{
    const char *list = cf_json_member(a->object, "saw");
    const char *at = list ? cf_json_first(list, instead, size) : NULL;
    if (strcmp(a->outcome, "not tried") == 0 || strcmp(a->outcome, "ended the job") == 0)
        return 0;
    if (strcmp(a->outcome, "fails") == 0) {
        strcpy(instead, "fails");
        return 1;
    }
    if (strcmp(b->expected, "holds") == 0)
        return 0;
    for (; at != NULL; at = cf_json_next(at, instead, size))
        if (!is_among(instead, b->expected))
            return 1;
    return 0;
}

static int print_fallen(char side, const struct answers *answers)
{
    size_t i;
    int count = 0;
    for (i = 0; i < cf_num_beliefs; i++) {
        const struct cf_belief *b = &cf_beliefs[i];
        struct answer a;
        char instead[NAME];
        if (!find_answer(answers, b->case_name, &a) || !is_refuted(&a, b, instead, sizeof(instead)))
            continue;
        printf(
            "The belief \"%s\" falls in %c: %s\n    %s: expected \"%s\", saw \"%s\". Used in: %s\n",
            b->id, side, b->assumed, b->case_name, b->expected, instead, b->used);
        count++;
    }
    return count;
}

static int print_missing(char side, const struct answers *from, const struct answers *in)
{
    const char *at;
    int count = 0;
    for (at = first_case(from); at != NULL; at = next_case(at)) {
        char name[NAME];
        struct answer found;
        copy_member(at, "case", name, sizeof(name));
        if (find_answer(in, name, &found))
            continue;
        if (count++ < 10)
            printf("%s: %c does not have it\n", name, side);
    }
    if (count > 10)
        printf("... and %d more that %c does not have\n", count - 10, side);
    return count;
}

int cf_compare(const char *a_path, const char *b_path)
{
    struct answers a, b;
    const char *at;
    int cases = 0, differ = 0, missing, fallen_a, fallen_b;
    if (!read_answers(&a, a_path))
        return 2;
    if (!read_answers(&b, b_path)) {
        free(a.text);
        return 2;
    }
    printf("A: %s\nB: %s\n", a.path, b.path);
    for (at = first_case(&a); at != NULL; at = next_case(at)) {
        char name[NAME];
        struct answer mine, other;
        copy_member(at, "case", name, sizeof(name));
        if (!find_answer(&b, name, &other) || !find_answer(&a, name, &mine))
            continue;
        cases++;
        differ += compare_case(name, &mine, &other);
    }
    missing = print_missing('B', &a, &b) + print_missing('A', &b, &a);
    fallen_a = print_fallen('A', &a);
    fallen_b = print_fallen('B', &b);
    printf("%d cases are in both, %d of them differ; %d are in one file alone. Beliefs that fall: "
           "%d in A, %d in B.\n",
           cases, differ, missing, fallen_a, fallen_b);
    free(a.text);
    free(b.text);
    return differ > 0 || missing > 0;
}
