/* SPDX-License-Identifier: Apache-2.0 */
#include "model/toml.h"

#include <stdlib.h>
#include <string.h>

#include "model/fail.h"
#include "util/ascii.h"

enum { LINE_MOST = 512 };

static void __attribute__((noreturn)) refuse_line(const struct um_toml *at, const char *why)
{
    um_fail(UM_EXIT_BAD, "%s:%u: %s", at->path, at->line, why);
}

static char *skip_blanks(char *c)
{
    while (*c == ' ' || *c == '\t' || *c == '\r')
        c++;
    return c;
}

static void expect_end(const struct um_toml *at, char *c)
{
    c = skip_blanks(c);
    if (*c && *c != '#')
        refuse_line(
            at, "something follows the value; one key a line is read, and '#' begins a comment");
}

/* A bare name; returns its end. */
static char *take_name(const struct um_toml *at, char *c, char *name, size_t size)
{
    size_t n = 0;

    while (ut_is_alnum(*c) || *c == '_' || *c == '-') {
        if (n + 1 == size)
            refuse_line(at, "a name of more than 63 characters");
        name[n++] = *c++;
    }
    name[n] = '\0';
    if (n == 0)
        refuse_line(at, "expected a name of letters, digits, '_' and '-'");
    return c;
}

static void take_string(struct um_toml *at, char *c)
{
    char *end = strpbrk(c, "\"\\");

    if (!end || *end == '\\')
        refuse_line(at,
                    end ? "a '\\' in a string: escapes are not read" : "a string without its end");
    if ((size_t)(end - c) >= sizeof(at->text))
        refuse_line(at, "a string of more than 127 characters");
    memcpy(at->text, c, (size_t)(end - c));
    at->text[end - c] = '\0';
    at->kind = UM_TOML_STRING;
    expect_end(at, end + 1);
}

static void take_value(struct um_toml *at, char *c)
{
    char *end;

    at->number = 0;
    at->text[0] = '\0';
    if (*c == '"') {
        take_string(at, c + 1);
    } else if (strncmp(c, "true", 4) == 0 || strncmp(c, "false", 5) == 0) {
        at->kind = UM_TOML_BOOL;
        at->number = *c == 't';
        expect_end(at, c + (*c == 't' ? 4 : 5));
    } else {
        at->kind = UM_TOML_NUMBER;
        at->number = strtod(c, &end);
        if (end == c || !(ut_is_digit(*c) || *c == '-' || *c == '+' || *c == '.') ||
            !(at->number > -1e18 && at->number < 1e18))
            refuse_line(at, "expected a number, a string in double quotes, true or false");
        expect_end(at, end);
    }
}

static void read_line(struct um_toml *at, char *c, void (*visit)(const struct um_toml *, void *),
                      void *arg)
{
    c = skip_blanks(c);
    if (!*c || *c == '#')
        return;
    if (*c == '[') {
        c = skip_blanks(take_name(at, skip_blanks(c + 1), at->table, sizeof(at->table)));
        if (*c != ']')
            refuse_line(at, "expected [NAME]");
        expect_end(at, c + 1);
        return;
    }
    c = skip_blanks(take_name(at, c, at->key, sizeof(at->key)));
    if (*c != '=')
        refuse_line(at, "expected '=' after the key");
    take_value(at, skip_blanks(c + 1));
    visit(at, arg);
}

void um_toml_read(FILE *file, const char *path, void (*visit)(const struct um_toml *at, void *arg),
                  void *arg)
{
    struct um_toml at = {.path = path};
    char line[LINE_MOST];

    while (fgets(line, sizeof(line), file)) {
        at.line++;
        size_t n = strlen(line);
        if (n + 1 == sizeof(line) && line[n - 1] != '\n')
            refuse_line(&at, "a line of more than 510 bytes");
        if (n && line[n - 1] == '\n')
            line[n - 1] = '\0';
        read_line(&at, line, visit, arg);
    }
    if (ferror(file))
        um_fail(UM_EXIT_BAD, "%s: cannot be read", path);
}
