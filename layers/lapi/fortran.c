/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Fortran binding: the subroutines of lapif.h, with the names that gfortran and most other
 * compilers generate. All arguments are passed by reference. LAPI_ADDR_NULL is an object whose
 * address means NULL.
 */
#include "hdr_handlers.h"

#include <string.h>

#pragma GCC visibility push(default)
#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* lapif.h has the interfaces, in Fortran */

struct addr {
    uint64_t addr;
};
struct null {
    struct addr addr;
    lapi_cntr_t cntr;
    int uhdr[2];
};
struct null lapi_null_; /* COMMON /LAPI_NULL/, whose members stand for NULL */

/* NULL if the argument is LAPI_ADDR_NULL. */
static void *ptr_or_null(const void *p)
{
    return (uintptr_t)p - (uintptr_t)&lapi_null_ < sizeof(lapi_null_) ? NULL : (void *)(uintptr_t)p;
}

/* The address in a TYPE (LAPI_ADDR_T). */
static void *address_in(const struct addr *a)
{
    return (void *)(uintptr_t)a->addr;
}

/* The header handler as LAPI_Amsend() sends it: a function of the program is an offset from the
 * load address, since tasks may have other load addresses; anything else is an address in a
 * variable. */
static void *handler_for_wire(const void *hdr_hdl)
{
    uint64_t encoded;

    if (ptr_or_null(hdr_hdl) == NULL)
        return NULL;
    if (la_hdr_handlers_encode((uintptr_t)hdr_hdl, &encoded))
        return (void *)encoded;
    return address_in(hdr_hdl);
}

void lapi_init_(lapi_handle_t *hndl, lapi_info_t *info, int *ierror)
{
    *ierror = LAPI_Init(hndl, ptr_or_null(info));
}

void lapi_term_(lapi_handle_t *hndl, int *ierror)
{
    *ierror = LAPI_Term(*hndl);
}

void lapi_qenv_(lapi_handle_t *hndl, int *query, int *ret_val, int *ierror)
{
    *ierror = LAPI_Qenv(*hndl, (lapi_query_t)*query, ptr_or_null(ret_val));
}

void lapi_senv_(lapi_handle_t *hndl, int *query, int *set_val, int *ierror)
{
    *ierror = LAPI_Senv(*hndl, (lapi_query_t)*query, *set_val);
}

/* Pads the text with blanks, as Fortran requires. */
void lapi_msg_string_(int *code, char *buf, int *ierror, size_t length)
{
    char text[LAPI_MSG_STRING];
    size_t size;

    *ierror = LAPI_Msg_string(*code, text);
    size = strlen(text) < length ? strlen(text) : length;
    memset(buf, ' ', length);
    memcpy(buf, text, size);
}

void lapi_address_(void *my_addr, lapi_long_t *ret_addr, int *ierror)
{
    *ierror = LAPI_Address(my_addr, ret_addr);
}

void lapi_address_init_(lapi_handle_t *hndl, lapi_long_t *my_addr, lapi_long_t *table, int *ierror)
{
    *ierror = LAPI_Address_init64(*hndl, *my_addr, ptr_or_null(table));
}

void lapi_addr_set_(lapi_handle_t *hndl, struct addr *addr, int *index, int *ierror)
{
    *ierror = LAPI_Addr_set(*hndl, address_in(addr), *index);
}

void lapi_addr_get_(lapi_handle_t *hndl, void **addr, int *index, int *ierror)
{
    *ierror = LAPI_Addr_get(*hndl, addr, *index);
}

void lapi_fence_(lapi_handle_t *hndl, int *ierror)
{
    *ierror = LAPI_Fence(*hndl);
}

void lapi_gfence_(lapi_handle_t *hndl, int *ierror)
{
    *ierror = LAPI_Gfence(*hndl);
}

void lapi_setcntr_(lapi_handle_t *hndl, lapi_cntr_t *cntr, int *val, int *ierror)
{
    *ierror = LAPI_Setcntr(*hndl, ptr_or_null(cntr), *val);
}

void lapi_getcntr_(lapi_handle_t *hndl, lapi_cntr_t *cntr, int *val, int *ierror)
{
    *ierror = LAPI_Getcntr(*hndl, ptr_or_null(cntr), val);
}

void lapi_waitcntr_(lapi_handle_t *hndl, lapi_cntr_t *cntr, int *val, int *cur, int *ierror)
{
    *ierror = LAPI_Waitcntr(*hndl, ptr_or_null(cntr), *val, ptr_or_null(cur));
}

void lapi_nopoll_wait_(lapi_handle_t *hndl, lapi_cntr_t *cntr, int *val, int *cur, int *ierror)
{
    *ierror = LAPI_Nopoll_wait(*hndl, ptr_or_null(cntr), *val, ptr_or_null(cur));
}

void lapi_probe_(lapi_handle_t *hndl, int *ierror)
{
    *ierror = LAPI_Probe(*hndl);
}

void lapi_msgpoll_(lapi_handle_t *hndl, uint *cnt, lapi_msg_info_t *info, int *ierror)
{
    *ierror = LAPI_Msgpoll(*hndl, *cnt, ptr_or_null(info));
}

void lapi_put_(lapi_handle_t *hndl, uint *tgt, ulong *len, struct addr *tgt_addr, void *org_addr,
               struct addr *tgt_cntr, lapi_cntr_t *org_cntr, lapi_cntr_t *cmpl_cntr, int *ierror)
{
    *ierror = LAPI_Put(*hndl, *tgt, *len, address_in(tgt_addr), ptr_or_null(org_addr),
                       address_in(tgt_cntr), ptr_or_null(org_cntr), ptr_or_null(cmpl_cntr));
}

void lapi_get_(lapi_handle_t *hndl, uint *tgt, ulong *len, struct addr *tgt_addr, void *org_addr,
               struct addr *tgt_cntr, lapi_cntr_t *org_cntr, int *ierror)
{
    *ierror = LAPI_Get(*hndl, *tgt, *len, address_in(tgt_addr), ptr_or_null(org_addr),
                       address_in(tgt_cntr), ptr_or_null(org_cntr));
}

void lapi_rmw_(lapi_handle_t *hndl, int *op, uint *tgt, struct addr *tgt_var, int *in_val,
               int *prev_tgt_val, lapi_cntr_t *org_cntr, int *ierror)
{
    *ierror = LAPI_Rmw(*hndl, (RMW_ops_t)*op, *tgt, address_in(tgt_var), ptr_or_null(in_val),
                       ptr_or_null(prev_tgt_val), ptr_or_null(org_cntr));
}

void lapi_rmw64_(lapi_handle_t *hndl, int *op, uint *tgt, struct addr *tgt_var, long long *in_val,
                 long long *prev_tgt_val, lapi_cntr_t *org_cntr, int *ierror)
{
    *ierror = LAPI_Rmw64(*hndl, (RMW_ops_t)*op, *tgt, address_in(tgt_var), ptr_or_null(in_val),
                         ptr_or_null(prev_tgt_val), ptr_or_null(org_cntr));
}

void lapi_amsend_(lapi_handle_t *hndl, uint *tgt, void *hdr_hdl, void *uhdr, uint *uhdr_len,
                  struct addr *udata, ulong *udata_len, struct addr *tgt_cntr,
                  lapi_cntr_t *org_cntr, lapi_cntr_t *cmpl_cntr, int *ierror)
{
    *ierror = LAPI_Amsend(*hndl, *tgt, handler_for_wire(hdr_hdl), ptr_or_null(uhdr), *uhdr_len,
                          address_in(udata), *udata_len, address_in(tgt_cntr),
                          ptr_or_null(org_cntr), ptr_or_null(cmpl_cntr));
}

void lapi_putv_(lapi_handle_t *hndl, uint *tgt, lapi_vec_t *tgt_vec, lapi_vec_t *org_vec,
                struct addr *tgt_cntr, lapi_cntr_t *org_cntr, lapi_cntr_t *cmpl_cntr, int *ierror)
{
    *ierror = LAPI_Putv(*hndl, *tgt, ptr_or_null(tgt_vec), ptr_or_null(org_vec),
                        address_in(tgt_cntr), ptr_or_null(org_cntr), ptr_or_null(cmpl_cntr));
}

void lapi_getv_(lapi_handle_t *hndl, uint *tgt, lapi_vec_t *tgt_vec, lapi_vec_t *org_vec,
                struct addr *tgt_cntr, lapi_cntr_t *org_cntr, int *ierror)
{
    *ierror = LAPI_Getv(*hndl, *tgt, ptr_or_null(tgt_vec), ptr_or_null(org_vec),
                        address_in(tgt_cntr), ptr_or_null(org_cntr));
}

void lapi_amsendv_(lapi_handle_t *hndl, uint *tgt, void *hdr_hdl, void *uhdr, uint *uhdr_len,
                   lapi_vec_t *org_vec, struct addr *tgt_cntr, lapi_cntr_t *org_cntr,
                   lapi_cntr_t *cmpl_cntr, int *ierror)
{
    *ierror = LAPI_Amsendv(*hndl, *tgt, handler_for_wire(hdr_hdl), ptr_or_null(uhdr), *uhdr_len,
                           ptr_or_null(org_vec), address_in(tgt_cntr), ptr_or_null(org_cntr),
                           ptr_or_null(cmpl_cntr));
}

void lapi_xfer_(lapi_handle_t *hndl, lapi_xfer_t *xfer_struct, int *ierror)
{
    *ierror = LAPI_Xfer(*hndl, ptr_or_null(xfer_struct));
}

void lapi_util_(lapi_handle_t *hndl, lapi_util_t *util_struct, int *ierror)
{
    *ierror = LAPI_Util(*hndl, ptr_or_null(util_struct));
}

void lapi_purge_totask_(lapi_handle_t *hndl, uint *dest, int *ierror)
{
    *ierror = LAPI_Purge_totask(*hndl, *dest);
}

void lapi_resume_totask_(lapi_handle_t *hndl, uint *dest, int *ierror)
{
    *ierror = LAPI_Resume_totask(*hndl, *dest);
}
