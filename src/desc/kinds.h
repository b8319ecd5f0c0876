/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kinds of one-sided operations, one row each: docs/design/adding-an-operation.md.
 *
 *   KIND(NAME, FAMILY, traits, text)
 *     NAME    UT_DESC_<NAME>, the kind in a descriptor
 *     FAMILY  UT_STATS_<FAMILY>: counters add up all kinds of a family
 *     traits  enum ut_kind_trait
 *     text    the name of the operation in messages
 *
 * A switch over the kinds handles what differs between them.
 */
#ifndef UT_DESC_KINDS_H
#define UT_DESC_KINDS_H

#define UT_KINDS(KIND)                                                                             \
    KIND(NOP, NOP, UT_KIND_IN_SESSION | UT_KIND_NO_PEER, "NOP")                                    \
    KIND(PUT, PUT, UT_KIND_IN_SESSION, "put")                                                      \
    KIND(PIGGYBACK, PUT, 0, "put")                                                                 \
    KIND(GET, GET, UT_KIND_TO_LOCAL, "get")                                                        \
    KIND(ARMW, ARMW, UT_KIND_SLOW_END, "ARMW")

enum ut_kind_trait {
    UT_KIND_IN_SESSION = 1, /* allowed in a session-mode TOQ, because an arrival can start it */
    UT_KIND_NO_PEER = 2,    /* has no peer, and completes when it starts */
    UT_KIND_TO_LOCAL = 4,   /* writes local memory, so errors of local memory are reported in the
                             * MRQ */
    UT_KIND_SLOW_END = 8,   /* end_completed() does more than complete_usual() */
};

enum ut_desc_kind {
    UT_DESC_NONE, /* no descriptor */
#define UT_KIND_NUMBER(NAME, FAMILY, traits, text) UT_DESC_##NAME,
    UT_KINDS(UT_KIND_NUMBER)
#undef UT_KIND_NUMBER
};

/* A constant if `kind` is one. */
static inline __attribute__((always_inline)) unsigned int ut_kind_traits(unsigned int kind)
{
    switch (kind) {
#define UT_KIND_TRAITS(NAME, FAMILY, traits, text)                                                 \
case UT_DESC_##NAME:                                                                               \
    return traits;
        UT_KINDS(UT_KIND_TRAITS)
#undef UT_KIND_TRAITS
    default:
        return 0;
    }
}

#endif
