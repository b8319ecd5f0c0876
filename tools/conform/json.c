/* SPDX-License-Identifier: Apache-2.0 */
/* The little of JSON that utofu-conform writes and reads. */
#include "json.h"
#include <string.h>

void cf_json_text(FILE *f, const char *text)
{
    putc('"', f);
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte == '"' || byte == '\\')
            fprintf(f, "\\%c", byte);
        else if (byte < 0x20 || byte >= 0x7f)
            fprintf(f, "\\u%04x", byte);
        else
            putc(byte, f);
    }
    putc('"', f);
}

static const char *skip_blanks(const char *at)
{
    while (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r')
        at++;
    return at;
}

static const char *behind_string(const char *at)
{
    for (at++; *at != '"'; at++) {
        if (*at == '\\')
            at++;
        if (*at == '\0')
            return NULL;
    }
    return at + 1;
}

const char *cf_json_behind(const char *at)
{
    int depth = 0;
    at = skip_blanks(at);
    do {
        if (*at == '"') {
            at = behind_string(at);
            if (at == NULL)
                return NULL;
            continue;
        }
        if (*at == '{' || *at == '[')
            depth++;
        else if (*at == '}' || *at == ']')
            depth--;
        else if (*at == '\0')
            return NULL;
        else if (depth == 0) {
            while (*at != '\0' && strchr(",]} \n\t\r", *at) == NULL)
                at++;
            return *at != '\0' ? at : NULL;
        }
        at++;
    } while (depth > 0);
    return at;
}

int cf_json_string(const char *value, char *text, size_t size)
{
    size_t length = 0;
    value = skip_blanks(value);
    if (*value != '"')
        return 0;
    for (value++; *value != '"'; value++) {
        char byte = *value;
        if (byte == '\0')
            return 0;
        if (byte == '\\') {
            byte = *++value;
            if (byte == 'u') {
                int i;
                for (i = 0; i < 4; i++)
                    if (value[1] != '\0')
                        value++;
                byte = '?';
            } else if (byte == '\0') {
                return 0;
            }
        }
        if (length + 1 < size)
            text[length++] = byte;
    }
    text[length] = '\0';
    return 1;
}

/* The element or member behind the '[', '{' or ',' */
static const char *find_element(const char *at, char *name, size_t size)
{
    at = skip_blanks(at + 1);
    if (*at == ']' || *at == '}' || *at == '\0')
        return NULL;
    if (name == NULL)
        return at;
    if (!cf_json_string(at, name, size) || (at = cf_json_behind(at)) == NULL)
        return NULL;
    at = skip_blanks(at);
    return *at == ':' ? skip_blanks(at + 1) : NULL;
}

const char *cf_json_first(const char *list, char *name, size_t size)
{
    list = skip_blanks(list);
    return *list == '[' || *list == '{' ? find_element(list, name, size) : NULL;
}

const char *cf_json_next(const char *value, char *name, size_t size)
{
    const char *at = cf_json_behind(value);
    if (at == NULL)
        return NULL;
    at = skip_blanks(at);
    return *at == ',' ? find_element(at, name, size) : NULL;
}

const char *cf_json_member(const char *object, const char *name)
{
    char found[64];
    const char *at = cf_json_first(object, found, sizeof(found));
    while (at != NULL && strcmp(found, name) != 0)
        at = cf_json_next(at, found, sizeof(found));
    return at;
}
