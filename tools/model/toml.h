/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reader of the part of TOML that machine files use: comments, [tables], and keys with a number,
 * a string in double quotes without escapes, or true and false. Everything else is an error that
 * names file and line.
 */
#ifndef UM_TOML_H
#define UM_TOML_H

#include <stdbool.h>
#include <stdio.h>

struct um_toml {
    const char *path;
    unsigned int line;
    char table[64], key[64], text[128]; /* text: of a string */
    enum { UM_TOML_NUMBER, UM_TOML_STRING, UM_TOML_BOOL } kind;
    double number; /* or 0 and 1 */
};

/* Calls visit() for each key; ends the program on an error. */
void um_toml_read(FILE *file, const char *path, void (*visit)(const struct um_toml *at, void *arg),
                  void *arg);

#endif
