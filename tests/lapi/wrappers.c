/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The subroutines of LAPI's Fortran binding (fortran.c) pass each argument on, LAPI_ADDR_NULL as
 * NULL, and the result back. The functions that they call are played.
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../harness/check.h"

#include "../../layers/lapi/hdr_handlers.h"

enum { MOST = 12, RESULT = 423, ENCODED = 0x7000, NULLS = 8 + 2 * 4 + 8 };

static const char *called;
static uint64_t values[MOST];
static int num_values;

static int note(const char *name, int count, const uint64_t *list)
{
    called = name;
    num_values = count;
    memcpy(values, list, (size_t)count * sizeof(*list));
    return RESULT;
}

#define V(value) (uint64_t)(value)
#define PLAY(name, parameters, ...)                                                                \
    int name parameters                                                                            \
    {                                                                                              \
        const uint64_t list[] = {__VA_ARGS__};                                                     \
        return note(#name, (int)(sizeof(list) / sizeof(list[0])), list);                           \
    }

PLAY(LAPI_Init, (lapi_handle_t * a, lapi_info_t *b), V(a), V(b))
PLAY(LAPI_Term, (lapi_handle_t a), V(a))
PLAY(LAPI_Qenv, (lapi_handle_t a, lapi_query_t b, int *c), V(a), V(b), V(c))
PLAY(LAPI_Senv, (lapi_handle_t a, lapi_query_t b, int c), V(a), V(b), V(c))
PLAY(LAPI_Purge_totask, (lapi_handle_t a, uint b), V(a), V(b))
PLAY(LAPI_Resume_totask, (lapi_handle_t a, uint b), V(a), V(b))
PLAY(LAPI_Address, (void *a, lapi_long_t *b), V(a), V(b))
PLAY(LAPI_Address_init64, (lapi_handle_t a, lapi_long_t b, lapi_long_t *c), V(a), V(b), V(c))
PLAY(LAPI_Addr_set, (lapi_handle_t a, void *b, int c), V(a), V(b), V(c))
PLAY(LAPI_Addr_get, (lapi_handle_t a, void **b, int c), V(a), V(b), V(c))
PLAY(LAPI_Fence, (lapi_handle_t a), V(a))
PLAY(LAPI_Gfence, (lapi_handle_t a), V(a))
PLAY(LAPI_Setcntr, (lapi_handle_t a, lapi_cntr_t *b, int c), V(a), V(b), V(c))
PLAY(LAPI_Getcntr, (lapi_handle_t a, lapi_cntr_t *b, int *c), V(a), V(b), V(c))
PLAY(LAPI_Waitcntr, (lapi_handle_t a, lapi_cntr_t *b, int c, int *d), V(a), V(b), V(c), V(d))
PLAY(LAPI_Nopoll_wait, (lapi_handle_t a, lapi_cntr_t *b, int c, int *d), V(a), V(b), V(c), V(d))
PLAY(LAPI_Probe, (lapi_handle_t a), V(a))
PLAY(LAPI_Msgpoll, (lapi_handle_t a, uint b, lapi_msg_info_t *c), V(a), V(b), V(c))
PLAY(LAPI_Put,
     (lapi_handle_t a, uint b, ulong c, void *d, void *e, lapi_cntr_t *f, lapi_cntr_t *g,
      lapi_cntr_t *h),
     V(a), V(b), V(c), V(d), V(e), V(f), V(g), V(h))
PLAY(LAPI_Get, (lapi_handle_t a, uint b, ulong c, void *d, void *e, lapi_cntr_t *f, lapi_cntr_t *g),
     V(a), V(b), V(c), V(d), V(e), V(f), V(g))
PLAY(LAPI_Rmw, (lapi_handle_t a, RMW_ops_t b, uint c, int *d, int *e, int *f, lapi_cntr_t *g), V(a),
     V(b), V(c), V(d), V(e), V(f), V(g))
PLAY(LAPI_Rmw64,
     (lapi_handle_t a, RMW_ops_t b, uint c, long long *d, long long *e, long long *f,
      lapi_cntr_t *g),
     V(a), V(b), V(c), V(d), V(e), V(f), V(g))
PLAY(LAPI_Amsend,
     (lapi_handle_t a, uint b, void *c, void *d, uint e, void *f, ulong g, lapi_cntr_t *h,
      lapi_cntr_t *i, lapi_cntr_t *j),
     V(a), V(b), V(c), V(d), V(e), V(f), V(g), V(h), V(i), V(j))
PLAY(LAPI_Putv,
     (lapi_handle_t a, uint b, lapi_vec_t *c, lapi_vec_t *d, lapi_cntr_t *e, lapi_cntr_t *f,
      lapi_cntr_t *g),
     V(a), V(b), V(c), V(d), V(e), V(f), V(g))
PLAY(LAPI_Getv,
     (lapi_handle_t a, uint b, lapi_vec_t *c, lapi_vec_t *d, lapi_cntr_t *e, lapi_cntr_t *f), V(a),
     V(b), V(c), V(d), V(e), V(f))
PLAY(LAPI_Amsendv,
     (lapi_handle_t a, uint b, void *c, void *d, uint e, lapi_vec_t *f, lapi_cntr_t *g,
      lapi_cntr_t *h, lapi_cntr_t *i),
     V(a), V(b), V(c), V(d), V(e), V(f), V(g), V(h), V(i))
PLAY(LAPI_Xfer, (lapi_handle_t a, lapi_xfer_t *b), V(a), V(b))
PLAY(LAPI_Util, (lapi_handle_t a, lapi_util_t *b), V(a), V(b))

static const char *text;

int LAPI_Msg_string(int code, void *to)
{
    strcpy(to, text);
    return note("LAPI_Msg_string", 1, (const uint64_t[]){V(code)});
}

static char program[16]; /* the code of the program */

bool la_hdr_handlers_encode(uintptr_t address, uint64_t *encoded)
{
    *encoded = ENCODED;
    return address == (uintptr_t)program;
}

/* What Fortran sees. Each kind of argument of a subroutine: by a letter */
extern char lapi_null_[];
typedef void subroutine(void *, ...);
#define DECLARE(name) extern subroutine name##_;
DECLARE(lapi_init)
DECLARE(lapi_term)
DECLARE(lapi_qenv)
DECLARE(lapi_senv)
DECLARE(lapi_purge_totask)
DECLARE(lapi_resume_totask)
DECLARE(lapi_address)
DECLARE(lapi_address_init)
DECLARE(lapi_addr_set)
DECLARE(lapi_addr_get)
DECLARE(lapi_fence)
DECLARE(lapi_gfence)
DECLARE(lapi_setcntr)
DECLARE(lapi_getcntr)
DECLARE(lapi_waitcntr)
DECLARE(lapi_nopoll_wait)
DECLARE(lapi_probe)
DECLARE(lapi_msgpoll)
DECLARE(lapi_put)
DECLARE(lapi_get)
DECLARE(lapi_rmw)
DECLARE(lapi_rmw64)
DECLARE(lapi_amsend)
DECLARE(lapi_putv)
DECLARE(lapi_getv)
DECLARE(lapi_amsendv)
DECLARE(lapi_xfer)
DECLARE(lapi_util)
DECLARE(lapi_msg_string)

/* v: a value; a: an address in a variable; p: a pointer that may be NULL; r: one that may not;
 * h: a header handler. */
static const struct {
    subroutine *call;
    const char *name, *arguments;
} table[] = {
    {lapi_init_, "LAPI_Init", "rp"},
    {lapi_term_, "LAPI_Term", "v"},
    {lapi_qenv_, "LAPI_Qenv", "vvp"},
    {lapi_senv_, "LAPI_Senv", "vvv"},
    {lapi_purge_totask_, "LAPI_Purge_totask", "vv"},
    {lapi_resume_totask_, "LAPI_Resume_totask", "vv"},
    {lapi_address_, "LAPI_Address", "rr"},
    {lapi_address_init_, "LAPI_Address_init64", "vvp"},
    {lapi_addr_set_, "LAPI_Addr_set", "vav"},
    {lapi_addr_get_, "LAPI_Addr_get", "vrv"},
    {lapi_fence_, "LAPI_Fence", "v"},
    {lapi_gfence_, "LAPI_Gfence", "v"},
    {lapi_setcntr_, "LAPI_Setcntr", "vpv"},
    {lapi_getcntr_, "LAPI_Getcntr", "vpr"},
    {lapi_waitcntr_, "LAPI_Waitcntr", "vpvp"},
    {lapi_nopoll_wait_, "LAPI_Nopoll_wait", "vpvp"},
    {lapi_probe_, "LAPI_Probe", "v"},
    {lapi_msgpoll_, "LAPI_Msgpoll", "vvp"},
    {lapi_put_, "LAPI_Put", "vvvapapp"},
    {lapi_get_, "LAPI_Get", "vvvapap"},
    {lapi_rmw_, "LAPI_Rmw", "vvvappp"},
    {lapi_rmw64_, "LAPI_Rmw64", "vvvappp"},
    {lapi_amsend_, "LAPI_Amsend", "vvhpvavapp"},
    {lapi_putv_, "LAPI_Putv", "vvppapp"},
    {lapi_getv_, "LAPI_Getv", "vvppap"},
    {lapi_amsendv_, "LAPI_Amsendv", "vvhpvpapp"},
    {lapi_xfer_, "LAPI_Xfer", "vp"},
    {lapi_util_, "LAPI_Util", "vp"},
};

/* null: the argument that is LAPI_ADDR_NULL, or -1. kind: of header handlers. */
static void call_one(size_t row, int null, int kind)
{
    static uint64_t variables[MOST];
    int count = (int)strlen(table[row].arguments), error = 0;
    void *in[MOST + 1];

    for (int i = 0; i < count; i++) {
        char c = table[row].arguments[i];
        variables[i] = 100 + (uint64_t)i;
        in[i] = &variables[i];
        if (c == 'h' && kind == 1)
            in[i] = program;
        if (i == null)
            in[i] = lapi_null_ + (kind ? NULLS - 1 : 0);
    }
    in[count] = &error;
    called = "";
    table[row].call(in[0], in[1], in[2], in[3], in[4], in[5], in[6], in[7], in[8], in[9], in[10]);
    CHECK(strcmp(called, table[row].name) == 0 && num_values == count && error == RESULT);
    for (int i = 0; i < count; i++) {
        char c = table[row].arguments[i];
        uint64_t wanted = c == 'p' || c == 'r' ? (uintptr_t)in[i] : variables[i];
        if (c == 'h' && kind == 1)
            wanted = ENCODED;
        if (i == null)
            wanted = 0;
        if (values[i] != wanted)
            printf("%s, argument %d\n", called, i);
        CHECK(values[i] == wanted);
    }
}

static void texts_are_padded(void)
{
    char buf[12];
    int code = 5, error = 0;

    memset(buf, 'x', sizeof(buf));
    text = "abc";
    lapi_msg_string_(&code, buf, &error, (size_t)10);
    CHECK(memcmp(buf, "abc       xx", 12) == 0 && error == RESULT && values[0] == 5);
    text = "abcdefghijk";
    lapi_msg_string_(&code, buf, &error, (size_t)10);
    CHECK(memcmp(buf, "abcdefghijxx", 12) == 0);
}

int main(void)
{
    for (size_t row = 0; row < sizeof(table) / sizeof(table[0]); row++) {
        for (int kind = 0; kind < 2; kind++) {
            call_one(row, -1, kind);
            for (int i = 0; table[row].arguments[i]; i++)
                if (table[row].arguments[i] == 'p' || table[row].arguments[i] == 'h')
                    call_one(row, i, kind);
        }
    }
    texts_are_padded();
    lapi_xfer_t *behind = (void *)(lapi_null_ + NULLS); /* is another object */
    int error;
    lapi_handle_t handle = 1;
    lapi_xfer_(&handle, behind, &error);
    CHECK(values[1] == (uintptr_t)behind);
    return 0;
}
