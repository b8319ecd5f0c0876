/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --json: one object with facts and an array "results". A row is printed as soon as it is measured,
 * so the object around the rows is written in pieces; jansson writes the facts and each row.
 */
#include "perf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned int rows_written;

/* With 15 digits jansson shows what perf_json_real() has rounded. */
static char *dump_object(json_t *object)
{
    char *text = json_dumps(object, JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(15));

    json_decref(object);
    if (!text)
        party_fail(1, "no memory, or a number that JSON does not have");
    return text;
}

json_t *perf_json_real(double value, int digits)
{
    double unit = pow(10, digits);

    return json_real(round(value * unit) / unit);
}

void perf_json_begin(json_t *facts)
{
    char *text = dump_object(facts);
    size_t length = strlen(text);

    printf("%.*s, \"results\": [", (int)length - 1, text); /* without its last brace */
    rows_written = 0;
    free(text);
}

void perf_json_row(json_t *row)
{
    char *text = dump_object(row);

    printf("%s\n  %s", rows_written++ ? "," : "", text);
    free(text);
}

void perf_json_end(void)
{
    printf("\n]}\n");
}
