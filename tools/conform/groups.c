/* SPDX-License-Identifier: Apache-2.0 */
/* The list of the groups of cases, in the order in which they run, and of the tables of sentences.
 */
#include "groups.h"
#include "sentences.h"

/* clang-format off */
#define GROUPS(GROUP)                                                                              \
    GROUP(first)                                                                                   \
    /* one-sided: */                                                                               \
    GROUP(put)                                                                                     \
    GROUP(piggyback)                                                                               \
    GROUP(get)                                                                                     \
    GROUP(stride)                                                                                  \
    GROUP(gap)                                                                                     \
    GROUP(armw)                                                                                    \
    GROUP(cswap)                                                                                   \
    GROUP(nop)                                                                                     \
    GROUP(prepare)                                                                                 \
    GROUP(edata)                                                                                   \
    GROUP(tcq)                                                                                     \
    GROUP(mrq)                                                                                     \
    GROUP(flags)                                                                                   \
    GROUP(order)                                                                                   \
    GROUP(errors)                                                                                  \
    GROUP(limits)                                                                                  \
    /* the rest: */                                                                                \
    GROUP(constants)                                                                       \
    GROUP(version)                                                                         \
    GROUP(tni)                                                                             \
    GROUP(caps)                                                                            \
    GROUP(vcq)                                                                             \
    GROUP(vcqid)                                                                           \
    GROUP(path)                                                                            \
    GROUP(stadd)                                                                           \
    GROUP(stag)                                                                            \
    GROUP(freemode)                                                                        \
    GROUP(session)                                                                         \
    GROUP(vbg)                                                                             \
    GROUP(barrier)                                                                         \
    GROUP(reduce)                                                                          \
    GROUP(threads)                                                                         \
    GROUP(environ)                                                                         \
    GROUP(believed)                                                                                \
    /* end of the groups */

#define SENTENCES(TABLE)                                                                           \
    TABLE(onesided)                                                                                \
    TABLE(rest)                                                                                    \
    /* end of the tables of sentences */
/* clang-format on */

#define DECLARE_GROUP(name) extern const struct cf_group name##_group;
#define REFER_GROUP(name)   &name##_group,
GROUPS(DECLARE_GROUP)
const struct cf_group *const cf_groups[] = {GROUPS(REFER_GROUP)};
const size_t cf_num_groups = sizeof(cf_groups) / sizeof(cf_groups)[0];

#define DECLARE_TABLE(name) extern const struct cf_sentences name##_sentences;
#define REFER_TABLE(name)   &name##_sentences,
SENTENCES(DECLARE_TABLE)
/* with one at the end that is none: C99 has no empty arrays */
const struct cf_sentences *const cf_sentence_tables[] = {SENTENCES(REFER_TABLE) NULL};
const size_t cf_num_sentence_tables =
    sizeof(cf_sentence_tables) / sizeof(cf_sentence_tables)[0] - 1;
