/* SPDX-License-Identifier: Apache-2.0 */
/* What the manual says alike of every start function is a family: one function here, and a case of
   its own for each start function, made by the macros below. */
#ifndef CONFORM_FAMILIES_H
#define CONFORM_FAMILIES_H

#include "onesided.h"

void cf_try_moves(struct cf *c, enum cf_function f);
void cf_try_silent(struct cf *c, enum cf_function f);
void cf_try_tcq_notice(struct cf *c, enum cf_function f);
void cf_try_local_notice(struct cf *c, enum cf_function f);
void cf_try_remote_notice(struct cf *c, enum cf_function f);
void cf_try_row(struct cf *c, enum cf_function f);
void cf_try_busy(struct cf *c, enum cf_function f);
void cf_try_edata(struct cf *c, enum cf_function f);
void cf_try_prepared(struct cf *c, enum cf_function f);
void cf_try_delayed(struct cf *c, enum cf_function f);
void cf_try_paths(struct cf *c, enum cf_function f);
void cf_try_itself(struct cf *c, enum cf_function f);

/* clang-format off */
/* A case that is one call: CF_RUN(run_zero, cf_see_zero(c, CF_PUT)); */
#define CF_RUN(name, call)                                                                         \
    static void name(struct cf *c) { call; }                                                       \
    static void name(struct cf *c)

/* The functions of the cases of a start function: CF_FAMILY(put, CF_PUT); */
#define CF_FAMILY(fn, function)                                                                    \
    CF_RUN(run_##fn##_moves, cf_try_moves(c, function));                                           \
    CF_RUN(run_##fn##_silent, cf_try_silent(c, function));                                         \
    CF_RUN(run_##fn##_tcq_notice, cf_try_tcq_notice(c, function));                                 \
    CF_RUN(run_##fn##_local_notice, cf_try_local_notice(c, function));                             \
    CF_RUN(run_##fn##_remote_notice, cf_try_remote_notice(c, function));                           \
    CF_RUN(run_##fn##_row, cf_try_row(c, function));                                               \
    CF_RUN(run_##fn##_busy, cf_try_busy(c, function));                                             \
    CF_RUN(run_##fn##_itself, cf_try_itself(c, function))

/* Their rows in the table of a group: the name of the cases, the section of the function and its sentence that tells of
   UTOFU_ERR_BUSY, what the cases need, what it moves, and how many TCQ entries sentence of 3.7 tells */
#define CF_FAMILY_CASES(fn, name, section, busy, needs, what, count_sentence)                      \
    {name "-moves", section, 1, CF_PROMISED, needs,                                                \
     "The function " what " at the STADDs, and changes no other byte.", run_##fn##_moves},         \
    {name "-silent", "3.7.9.1", 4, CF_PROMISED, needs,                                             \
     "Without a flag that asks for it no notice comes, though it " what ".", run_##fn##_silent},   \
    {name "-tcq-notice", "3.7", count_sentence, CF_PROMISED, needs,                                \
     "With TCQ_NOTICE alone each descriptor has one TCQ entry, with the callback data, and no "    \
     "other notice.", run_##fn##_tcq_notice},                                                      \
    {name "-local-notice", "3.7", 9, CF_PROMISED, needs,                                           \
     "With LOCAL_MRQ_NOTICE alone each descriptor has one local notice with all its fields, and "  \
     "no other.", run_##fn##_local_notice},                                                        \
    {name "-remote-notice", "3.7", 13, CF_PROMISED, needs,                                         \
     "With REMOTE_MRQ_NOTICE alone each descriptor has one remote notice with all its fields, "    \
     "and no other.", run_##fn##_remote_notice},                                                   \
    {name "-row", "2.2.10", 22, CF_PROMISED, needs,                                                \
     "Of a row of these communications each queue has the entries in the order of the starts.",    \
     run_##fn##_row},                                                                              \
    {name "-busy", section, busy, CF_PROMISED, needs,                                              \
     "A full TOQ is UTOFU_ERR_BUSY, and after utofu_poll_tcq() takes more; each communication "    \
     "that was accepted is carried out once.", run_##fn##_busy},                                   \
    {name "-itself", "2.2.1", 0, CF_UNSAID, needs,                                                 \
     "May the remote VCQ be the local one, so that it " what " in this process?",                  \
     run_##fn##_itself}
/* clang-format on */

#endif
