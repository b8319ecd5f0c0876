/* SPDX-License-Identifier: Apache-2.0 */
/* Small things with texts. */
#ifndef CONFORM_TEXT_H
#define CONFORM_TEXT_H

#ifndef CF_VERSION
#    define CF_VERSION "1.0.0"
#endif

char *cf_text_of_file(const char *path);                 /* to be freed; NULL after a message */
int cf_text_matches(const char *text, const char *glob); /* '*' and '?' */

#endif
