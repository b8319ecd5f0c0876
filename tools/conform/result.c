/* SPDX-License-Identifier: Apache-2.0 */
/* The file with the results. It is valid JSON after each case: what closes the lists is written
   behind each line, and overwritten by the next one. So a job that hangs or crashes loses nothing
   but the case under way, whose name is there as "running". */
#include "result.h"
#include "json.h"
#include "seen.h"
#include "text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct {
    FILE *f;
    long end;      /* where the next line is written */
    long furthest; /* where the file ends: blanks reach there */
    const char *list;
    int lines; /* of the list */
    char running[128];
    char *kept; /* the lines of cases that were taken over */
} result;

static void write_tail(void)
{
    long at;
    result.end = ftell(result.f);
    fprintf(result.f, "\n  ]");
    if (result.running[0] != '\0') {
        fprintf(result.f, ",\n  \"running\": ");
        cf_json_text(result.f, result.running);
    }
    fprintf(result.f, "\n}");
    for (at = ftell(result.f); at < result.furthest - 1; at++)
        putc(' ', result.f);
    putc('\n', result.f);
    result.furthest = ftell(result.f);
    fflush(result.f);
    fseek(result.f, result.end, SEEK_SET);
}

static void begin_line(const char *list)
{
    if (result.list == NULL || strcmp(result.list, list) != 0) {
        if (result.list != NULL)
            fprintf(result.f, "\n  ]");
        fprintf(result.f, ",\n  \"%s\": [", list);
        result.list = list;
        result.lines = 0;
    }
    fprintf(result.f, "%s\n    ", result.lines++ ? "," : "");
}

static const char *name_compiler(void)
{
#if defined(__CLANG_FUJITSU)
    return "Fujitsu, clang mode";
#elif defined(__FUJITSU)
    return "Fujitsu, trad mode";
#elif defined(__clang__)
    return "clang " __clang_version__;
#elif defined(__VERSION__)
    return "gcc " __VERSION__;
#else
    return "unknown";
#endif
}

static void write_versions(void)
{
    int tofu_major = 0, tofu_minor = 0;
    int major = 0, minor = 0;
    utofu_query_tofu_version(&tofu_major, &tofu_minor);
    utofu_query_utofu_version(&major, &minor);
    fprintf(result.f, "    \"tofu_version\": \"%d.%d\",\n    \"utofu_version\": \"%d.%d\",\n",
            tofu_major, tofu_minor, major, minor);
}

static void write_machine(const struct cf_options *o, const struct cf_place *places, int size)
{
    time_t now = time(NULL);
    char date[64];
    int rank;
    strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    fprintf(result.f,
            "{\n  \"program\": \"utofu-conform\",\n  \"format\": %d,\n  \"version\": \"%s\",\n",
            CF_FORMAT, CF_VERSION);
    fprintf(result.f, "  \"machine\": {\n    \"date\": \"%s\",\n    \"processes\": %d,\n", date,
            size);
    write_versions();
    fprintf(result.f, "    \"compiler\": ");
    cf_json_text(result.f, name_compiler());
    fprintf(
        result.f,
        ",\n    \"seed\": %lu, \"repeat\": %lu, \"quick\": %s, \"risky\": %s,\n    \"places\": [",
        o->seed, o->repeat, o->quick ? "true" : "false", o->risky ? "true" : "false");
    for (rank = 0; rank < size; rank++) {
        const struct cf_place *p = &places[rank];
        fprintf(result.f, "%s\n      {\"rank\": %d, \"host\": ", rank ? "," : "", rank);
        cf_json_text(result.f, p->host);
        if (p->coords_known)
            fprintf(result.f, ", \"coords\": [%u, %u, %u, %u, %u, %u]", p->coords[0], p->coords[1],
                    p->coords[2], p->coords[3], p->coords[4], p->coords[5]);
        putc('}', result.f);
    }
    fprintf(result.f, "\n    ]\n  }");
}

/* The cases of an earlier file, a line each */
static void take_over(const char *text)
{
    char name[128];
    const char *list = cf_json_member(text, "cases");
    const char *running = cf_json_member(text, "running");
    const char *at = list ? cf_json_first(list, NULL, 0) : NULL;
    size_t room = strlen(text) + 512, used = 0;
    result.kept = malloc(room);
    if (result.kept == NULL)
        return;
    result.kept[0] = '\0';
    while (at != NULL) {
        const char *behind = cf_json_behind(at);
        if (behind == NULL)
            break;
        memcpy(result.kept + used, at, (size_t)(behind - at));
        used += (size_t)(behind - at);
        result.kept[used++] = '\n';
        result.kept[used] = '\0';
        at = cf_json_next(at, NULL, 0);
    }
    if (running != NULL && cf_json_string(running, name, sizeof(name)) && strlen(name) < 100)
        sprintf(result.kept + used, "{\"case\": \"%s\", \"outcome\": \"ended the job\"}\n", name);
}

int cf_result_keep(const char *path)
{
    char *text = cf_text_of_file(path);
    if (text == NULL)
        return 0;
    take_over(text);
    free(text);
    return 1;
}

int cf_result_open(const struct cf_options *o, const struct cf_place *places, int size)
{
    char *line;
    result.f = fopen(o->output, "wb+");
    if (result.f == NULL) {
        fprintf(stderr, "utofu-conform: cannot write %s\n", o->output);
        return 0;
    }
    write_machine(o, places, size);
    begin_line("cases");
    result.lines = 0;
    for (line = result.kept; line != NULL && *line != '\0';) {
        char *end = strchr(line, '\n');
        fprintf(result.f, "%s", result.lines++ ? ",\n    " : "");
        fwrite(line, 1, (size_t)(end - line), result.f);
        line = end + 1;
    }
    write_tail();
    return 1;
}

int cf_result_has(const char *name)
{
    char start[160];
    if (result.kept == NULL || strlen(name) > 120)
        return 0;
    sprintf(start, "{\"case\": \"%s\"", name);
    return strstr(result.kept, start) != NULL;
}

void cf_result_running(const char *name)
{
    if (result.f == NULL)
        return;
    strncpy(result.running, name, sizeof(result.running) - 1);
    write_tail();
}

static const char *kind_name(enum cf_kind kind)
{
    return kind == CF_PROMISED ? "promised" : kind == CF_OPEN ? "open" : "not said";
}

static void write_seen(const struct cf_seen *all)
{
    int i;
    if (all->counts > 0) {
        fprintf(result.f, ", \"saw\": {");
        for (i = 0; i < all->counts; i++) {
            fprintf(result.f, "%s", i ? ", " : "");
            cf_json_text(result.f, all->count[i].word);
            fprintf(result.f, ": %lu", (unsigned long)all->count[i].count);
        }
        putc('}', result.f);
    }
    if (all->ranges > 0) {
        fprintf(result.f, ", \"numbers\": {");
        for (i = 0; i < all->ranges; i++) {
            fprintf(result.f, "%s", i ? ", " : "");
            cf_json_text(result.f, all->range[i].name);
            fprintf(result.f, ": [%.9g, %.9g]", all->range[i].min, all->range[i].max);
        }
        putc('}', result.f);
    }
    if (all->failures > 0 || all->left > 0 || all->skipped) {
        fprintf(result.f, ", \"why\": [");
        for (i = 0; i < all->texts; i++) {
            fprintf(result.f, "%s", i ? ", " : "");
            cf_json_text(result.f, all->text[i]);
        }
        if (all->skipped) {
            fprintf(result.f, "%s", i ? ", " : "");
            cf_json_text(result.f, all->skip);
        } else if (all->failures == 0) {
            cf_json_text(result.f, "the processes lost each other");
        }
        putc(']', result.f);
    }
}

void cf_result_case(const struct cf_case *it, const char *group, const struct cf_seen *all,
                    double seconds)
{
    if (result.f == NULL)
        return;
    begin_line("cases");
    fprintf(result.f,
            "{\"case\": \"%s\", \"group\": \"%s\", \"section\": \"%s\", \"sentence\": %d, "
            "\"kind\": \"%s\"",
            it->name, group, it->section, it->sentence, kind_name(it->kind));
    fprintf(result.f, ", \"outcome\": \"%s\"", cf_seen_outcome(it, all));
    write_seen(all);
    fprintf(result.f, ", \"says\": ");
    cf_json_text(result.f, it->says);
    fprintf(result.f, ", \"seconds\": %.3f}", seconds);
    result.running[0] = '\0';
    write_tail();
}

void cf_result_line(const char *list, const char *line)
{
    if (result.f == NULL)
        return;
    begin_line(list);
    fprintf(result.f, "%s", line);
    write_tail();
}

void cf_result_silent(int rank, const char *host, const char *name)
{
    if (result.f == NULL)
        return;
    begin_line("lost");
    fprintf(result.f, "{\"rank\": %d, \"host\": ", rank);
    cf_json_text(result.f, host);
    fprintf(result.f, ", \"case\": ");
    cf_json_text(result.f, name);
    putc('}', result.f);
    write_tail();
}

int cf_result_close(void)
{
    int bad;
    if (result.f == NULL)
        return 1;
    result.running[0] = '\0';
    write_tail();
    bad = ferror(result.f);
    bad |= fclose(result.f) != 0;
    result.f = NULL;
    free(result.kept);
    return !bad;
}
