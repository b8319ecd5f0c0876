/* SPDX-License-Identifier: Apache-2.0 */
/* The file with the results: rank 0 writes it. */
#ifndef CONFORM_RESULT_H
#define CONFORM_RESULT_H

#include "frame.h"

/* What a process tells of the machine at the start */
struct cf_place {
    char host[64];
    uint8_t coords[6];
    uint8_t coords_known;
};

#define CF_FORMAT 1

/* Takes over the cases of an earlier file, which may be the one that is opened then; its running
   case is recorded as "ended the job". 0 after a message. */
int cf_result_keep(const char *path);
/* Opens the file. 0 after a message. */
int cf_result_open(const struct cf_options *o, const struct cf_place *places, int size);
void cf_result_running(const char *name); /* the case that begins */
void cf_result_case(const struct cf_case *it, const char *group, const struct cf_seen *all,
                    double seconds);
/* A line of another list than that of the cases, such as "timing" */
void cf_result_line(const char *list, const char *line);
void cf_result_silent(int rank, const char *host, const char *name); /* a process that was lost */
int cf_result_close(void);
/* Whether the file that was kept has the case */
int cf_result_has(const char *name);

#endif
