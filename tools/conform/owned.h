/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that a case creates by itself, apart from cf_open(): what a case has not given back when
   it ends, however it ends, cf_give_back() gives back. The functions return what the function of
   utofu.h of the same name has returned. */
#ifndef UTOFU_CONFORM_OWNED_H
#define UTOFU_CONFORM_OWNED_H

#include "conform.h"

int cf_create_vcq(utofu_tni_id_t tni, unsigned long flags, utofu_vcq_hdl_t *vcq);
int cf_create_vcq_with_cmp_id(utofu_tni_id_t tni, utofu_cmp_id_t component, unsigned long flags,
                              utofu_vcq_hdl_t *vcq);
int cf_free_vcq(utofu_vcq_hdl_t vcq); /* its memory is deregistered before */
int cf_reg_mem(utofu_vcq_hdl_t vcq, void *address, size_t size, unsigned long flags,
               utofu_stadd_t *stadd);
int cf_reg_mem_with_stag(utofu_vcq_hdl_t vcq, void *address, size_t size, unsigned stag,
                         unsigned long flags, utofu_stadd_t *stadd);
int cf_dereg_mem(utofu_vcq_hdl_t vcq, utofu_stadd_t stadd);
void cf_dereg_all(
    utofu_vcq_hdl_t vcq); /* what cf_reg_mem() and cf_reg_mem_with_stag() have registered with it */
int cf_alloc_vbg(utofu_tni_id_t tni, size_t count, unsigned long flags, utofu_vbg_id_t ids[]);
int cf_free_vbg(utofu_vbg_id_t ids[], size_t count);
void *cf_keep(size_t bytes); /* cf_alloc(), and cf_free() when the case has ended */
void cf_give_back(void);     /* called by the frame behind each case */

/* The TNI with that place among those of utofu_get_onesided_tnis(), modulo their number. 0 if there
   is none: then the case has failed. */
int cf_tni(struct cf *c, size_t place, utofu_tni_id_t *tni);
int cf_barrier_tni(struct cf *c, size_t place,
                   utofu_tni_id_t *tni); /* the same of utofu_get_barrier_tnis() */
size_t cf_count_tnis(struct cf *c);      /* of utofu_get_onesided_tnis() */
struct utofu_onesided_caps *cf_caps_of(struct cf *c,
                                       utofu_tni_id_t tni); /* NULL: the case has failed */
struct utofu_barrier_caps *cf_barrier_caps_of(struct cf *c,
                                              utofu_tni_id_t tni); /* NULL: the case has failed */
/* Creates a VCQ with the component id. 0: the case has failed, or is skipped as another component
 * uses the id */
int cf_create_component(struct cf *c, utofu_tni_id_t tni, unsigned component, unsigned long flags,
                        utofu_vcq_hdl_t *vcq);
/* A put with a TCQ notice whose entry is awaited: UTOFU_SUCCESS, or what the put or the poll
 * returned */
int cf_put_sent(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id, utofu_stadd_t local, utofu_stadd_t remote,
                size_t length, uint64_t edata, unsigned long flags);
/* Awaits a notice: not 0 if it is of the type and has the EDATA, else the case has failed */
int cf_expect(struct cf *c, utofu_vcq_hdl_t vcq, int type, uint64_t edata);
void cf_saw_code(struct cf *c, int code); /* cf_saw() of the name of a return code */

#endif
