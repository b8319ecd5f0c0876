/* SPDX-License-Identifier: Apache-2.0 */
#include "events.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util/ascii.h"

static int next_token(FILE *f)
{
    int c = fgetc(f);

    while (c != EOF && ut_is_space(c))
        c = fgetc(f);
    return c;
}

static json_t *not_json(struct tr_events *ev, const char *what)
{
    snprintf(ev->error, sizeof(ev->error), "at byte %ld: %s", ftell(ev->file), what);
    return NULL;
}

/* The file of a killed process: all events up to the end are valid. */
static json_t *ends_early(struct tr_events *ev)
{
    if (ferror(ev->file))
        return not_json(ev, strerror(errno));
    ev->cut = true;
    return NULL;
}

json_t *tr_events_next(struct tr_events *ev)
{
    json_error_t error;
    bool first = !ev->begun;
    int c = next_token(ev->file);

    if (first && c != '[')
        return not_json(ev, "expected a JSON array");
    ev->begun = true;
    if (c == ']')
        return next_token(ev->file) == EOF ? NULL
                                           : not_json(ev, "text behind the end of the array");
    if (!first && c != EOF && c != ',')
        return not_json(ev, "expected ',' or ']'");
    c = c == EOF ? EOF : next_token(ev->file);
    if (first && c == ']')
        return NULL;
    if (c == EOF)
        return ends_early(ev);
    ungetc(c, ev->file);
    if (c != '{')
        return not_json(ev, "expected an event, '{'");
    json_t *event = json_loadf(ev->file, JSON_DISABLE_EOF_CHECK, &error);
    if (!event)
        return json_error_code(&error) == json_error_premature_end_of_input || feof(ev->file)
                   ? ends_early(ev)
                   : not_json(ev, error.text);
    return event;
}

char tr_phase(const json_t *event)
{
    const char *phase = json_string_value(json_object_get(event, "ph"));

    return phase ? phase[0] : '\0';
}

bool tr_nanoseconds(const json_t *event, const char *key, int64_t *ns)
{
    const json_t *value = json_object_get(event, key);

    if (!json_is_number(value))
        return false;
    *ns = llround(json_number_value(value) * 1e3);
    return true;
}

uint64_t tr_arrow_id(const json_t *event)
{
    const char *id = json_string_value(json_object_get(event, "id"));

    return id ? strtoull(id, NULL, 16) : 0;
}
