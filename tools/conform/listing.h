/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of the cases, and of the manual's sentences with their cases. */
#ifndef CONFORM_LISTING_H
#define CONFORM_LISTING_H

int cf_listing_cases(void); /* 0, or 1 if the tables contradict each other */
int cf_listing_sentences(
    void); /* as a page in Markdown; 0, or 1 if a case or a sentence lacks the other one */

#endif
