/* SPDX-License-Identifier: Apache-2.0 */
/* The little of JSON that utofu-conform writes and reads: one object a line. */
#ifndef CONFORM_JSON_H
#define CONFORM_JSON_H

#include <stddef.h>
#include <stdio.h>

void cf_json_text(FILE *f, const char *text); /* with its quotation marks */

/* Finds the member of the object that begins at 'object'; NULL: it has none. What is returned
 * points to the value. */
const char *cf_json_member(const char *object, const char *name);
/* Behind a value, or NULL if it is cut off or wrong */
const char *cf_json_behind(const char *value);
/* Copies the text of a string value; not 0 if it is one */
int cf_json_string(const char *value, char *text, size_t size);
/* The first element of an array, or member of an object, and the one behind a value; NULL: there is
   none. For an object, 'name' gets the name of the member; for an array it is NULL. */
const char *cf_json_first(const char *list, char *name, size_t size);
const char *cf_json_next(const char *value, char *name, size_t size);

#endif
