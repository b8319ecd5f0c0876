/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kinds of one-sided operations, one row each: docs/design/adding-an-operation.md. Modules
 * expand the rows to calls of functions that are named after the kind:
 *
 *   KIND(NAME, name, FAMILY, family, traits, called)
 *     NAME    UT_DESC_<NAME>, the kind in a descriptor
 *     name    check_<name>() and encode_<name>() of a request (api/request.h, desc/request.h);
 *             valid_<name>() of a prepared descriptor (desc.c)
 *     FAMILY  UT_STATS_<FAMILY>, as which it is counted
 *     family  the functions of the engine: post_<family>() (engine/post.c, armw.c),
 *             reported_<family>() by the provider (complete.c), notice_<family>() for the MRQ
 *             (inner.h), resume_<family>() on a new connection (arrive.c)
 *     traits  enum ut_kind_trait
 *     called  its name in messages
 */
#ifndef UT_DESC_KINDS_H
#define UT_DESC_KINDS_H

#define UT_KINDS(KIND)                                                                             \
    KIND(NOP, nop, NOP, nop, UT_KIND_IN_SESSION | UT_KIND_NO_PEER, "NOP")                          \
    KIND(PUT, put, PUT, put, UT_KIND_IN_SESSION, "put")                                            \
    KIND(PIGGYBACK, piggyback, PUT, put, 0, "put")                                                 \
    KIND(GET, get, GET, get, UT_KIND_TO_LOCAL, "get")                                              \
    KIND(ARMW, armw, ARMW, armw, UT_KIND_SLOW_END, "ARMW")

enum ut_kind_trait {
    UT_KIND_IN_SESSION = 1, /* allowed in a session-mode TOQ: an arrival can start it */
    UT_KIND_NO_PEER = 2,    /* has no peer, and completes when it starts */
    UT_KIND_TO_LOCAL = 4,   /* writes local memory: errors of local memory are errors of the MRQ */
    UT_KIND_SLOW_END = 8,   /* its reported_<family>() does more than usual_done() */
};

enum ut_desc_kind {
    UT_DESC_NONE, /* no descriptor */
#define UT_KIND_NUMBER(NAME, name, FAMILY, family, traits, called) UT_DESC_##NAME,
    UT_KINDS(UT_KIND_NUMBER)
#undef UT_KIND_NUMBER
};

/* A constant if `kind` is one. */
static inline __attribute__((always_inline)) unsigned int ut_kind_traits(unsigned int kind)
{
    switch (kind) {
#define UT_KIND_TRAITS(NAME, name, FAMILY, family, traits, called)                                 \
case UT_DESC_##NAME:                                                                               \
    return traits;
        UT_KINDS(UT_KIND_TRAITS)
#undef UT_KIND_TRAITS
    default:
        return 0;
    }
}

#endif
