/* SPDX-License-Identifier: Apache-2.0 */
/* What a process saw in a case, and what all saw. */
#include "seen.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void cf_fail(struct cf *c, const char *format, ...)
{
    va_list values;
    if (c->seen.texts < CF_TEXTS) {
        va_start(values, format);
        vsnprintf(c->seen.text[c->seen.texts++], CF_TEXT_SIZE, format, values);
        va_end(values);
    }
    c->seen.failures++;
}

void cf_skip(struct cf *c, const char *format, ...)
{
    va_list values;
    if (!c->seen.skipped) {
        va_start(values, format);
        vsnprintf(c->seen.skip, CF_TEXT_SIZE, format, values);
        va_end(values);
    }
    c->seen.skipped = 1;
}

int cf_failed(const struct cf *c)
{
    return c->seen.failures > 0;
}

static void copy_word(char *to, const char *from)
{
    size_t i;
    for (i = 0; from[i] != '\0' && i + 1 < CF_WORD_SIZE; i++)
        to[i] = from[i];
    to[i] = '\0';
}

static void add_count(struct cf_seen *s, const char *word, uint64_t count)
{
    char kept[CF_WORD_SIZE];
    int i;
    copy_word(kept, word);
    for (i = 0; i < s->counts && strcmp(s->count[i].word, kept) != 0; i++)
        ;
    if (i == CF_WORDS)
        return;
    if (i == s->counts) {
        copy_word(s->count[s->counts].word, kept);
        s->count[s->counts++].count = 0;
    }
    s->count[i].count += count;
}

static void add_range(struct cf_seen *s, const char *name, double min, double max)
{
    char kept[CF_WORD_SIZE];
    int i;
    copy_word(kept, name);
    for (i = 0; i < s->ranges && strcmp(s->range[i].name, kept) != 0; i++)
        ;
    if (i == CF_WORDS)
        return;
    if (i == s->ranges) {
        copy_word(s->range[s->ranges++].name, kept);
        s->range[i].min = min;
        s->range[i].max = max;
    }
    if (min < s->range[i].min)
        s->range[i].min = min;
    if (max > s->range[i].max)
        s->range[i].max = max;
}

void cf_saw(struct cf *c, const char *outcome)
{
    add_count(&c->seen, outcome, 1);
}

void cf_number(struct cf *c, const char *name, double value)
{
    add_range(&c->seen, name, value, value);
}

void cf_seen_add(struct cf_seen *all, const struct cf_seen *one, int rank)
{
    int i;
    for (i = 0; i < one->texts; i++) {
        if (all->texts == CF_TEXTS)
            break;
        if (rank >= 0)
            snprintf(all->text[all->texts++], CF_TEXT_SIZE, "rank %d: %.*s", rank,
                     CF_TEXT_SIZE - 20, one->text[i]);
        else
            snprintf(all->text[all->texts++], CF_TEXT_SIZE, "%s", one->text[i]);
    }
    all->failures += one->failures;
    all->left += one->left;
    if (one->skipped && !all->skipped) {
        memcpy(all->skip, one->skip, CF_TEXT_SIZE);
        all->skipped = 1;
    }
    for (i = 0; i < one->counts; i++)
        add_count(all, one->count[i].word, one->count[i].count);
    for (i = 0; i < one->ranges; i++)
        add_range(all, one->range[i].name, one->range[i].min, one->range[i].max);
}

const char *cf_seen_outcome(const struct cf_case *it, const struct cf_seen *all)
{
    if (all->failures > 0)
        return "fails";
    if (all->skipped)
        return "not tried";
    if (all->left > 0)
        return "fails";
    return it->kind == CF_PROMISED ? "holds" : "seen";
}
