/* SPDX-License-Identifier: Apache-2.0 */
/* What the cases of one-sided communication share: a communication as data, whatever function
   starts it, and a box for the entries that come out of the queues of a VCQ. Uses utofu.h,
   conform.h and the waits of the frame. */
#ifndef CONFORM_ONESIDED_H
#define CONFORM_ONESIDED_H

#include "conform.h"

enum cf_function {
    CF_PUT,
    CF_PUT_GAP,
    CF_PUT_STRIDE,
    CF_PUT_STRIDE_GAP,
    CF_PIGGYBACK,
    CF_PIGGYBACK8,
    CF_GET,
    CF_GET_GAP,
    CF_GET_STRIDE,
    CF_GET_STRIDE_GAP,
    CF_ARMW4,
    CF_ARMW8,
    CF_CSWAP4,
    CF_CSWAP8,
    CF_NOP,
    CF_FUNCTIONS
};

/* The flags of notices: all three, or those of the MRQs */
#define CF_TCQ UTOFU_ONESIDED_FLAG_TCQ_NOTICE
#define CF_LCL UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE
#define CF_RMT UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE
#define CF_ALL (CF_TCQ | CF_LCL | CF_RMT)

/* One communication: the arguments of its start function. Those that the function has not are
 * ignored. */
struct cf_comm {
    enum cf_function function;
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t target;
    utofu_stadd_t local, remote;
    size_t lcl_at, rmt_at; /* offsets of local and remote in the buffers of struct cf_ends */
    void *data;            /* of utofu_put_piggyback() */
    uint64_t data8;        /* of utofu_put_piggyback8() */
    size_t length, stride, blocks, mtu, gap;
    enum utofu_armw_op op;
    uint64_t operand, compare; /* of ARMW; the new and the old value of a compare and swap */
    uint64_t before; /* the remote word before an ARMW, as its local notice should have it */
    uint64_t edata;
    unsigned long flags;
    void *cbdata;
};

int cf_is_get(enum cf_function f);
int cf_is_armw(enum cf_function f);      /* compare and swap, too */
size_t cf_width(enum cf_function f);     /* bytes of the word of an ARMW, 0 for others */
const char *cf_name(enum cf_function f); /* "utofu_put" */

/* A communication with the next process, between the buffers of both: a put from 'send' to 'recv',
   a get from 'send' there to 'recv' here, an ARMW on a word of 'recv' there. The defaults have
   length, stride, gap and operand so that each argument matters; the buffers have at least 8192
   bytes. */
struct cf_comm cf_comm_to_next(const struct cf_ends *e, enum cf_function f);
/* The same, with other places and another length */
struct cf_comm cf_comm_at(const struct cf_ends *e, enum cf_function f, size_t lcl_at, size_t rmt_at,
                          size_t length);
int cf_start(const struct cf_comm *m);
int cf_prepare(const struct cf_comm *m, void *desc, size_t *desc_size);

/* Checks the whole of 'recv' after every process has carried out these communications: their bytes,
   and 0 elsewhere. Not 0 if it is so. */
int cf_check_recv(struct cf *c, const struct cf_ends *e, const struct cf_comm *m, size_t count);
/* The same of one communication, after as much waiting as it takes */
struct cf_box;
int cf_wait_recv(struct cf_box *b, const struct cf_ends *e, const struct cf_comm *m);
/* Checks that a word of 'recv' has the value */
int cf_check_word(struct cf *c, const struct cf_ends *e, size_t at, uint64_t value);

/* ---- Entries of the queues ---- */
enum { CF_BOX = 256 }; /* entries of each kind that are kept; more are counted */

struct cf_tcq_entry {
    int code;
    void *cbdata;
};

struct cf_mrq_entry {
    int code;
    struct utofu_mrq_notice notice;
};

/* What has come out of the queues of a VCQ so far, in order */
struct cf_box {
    struct cf *c;
    utofu_vcq_hdl_t vcq;
    int errors_allowed; /* else an entry with an error fails the case */
    size_t tcqs, lcls, rmts, bads;
    struct cf_tcq_entry tcq[CF_BOX];
    struct cf_mrq_entry lcl[CF_BOX], rmt[CF_BOX],
        bad[CF_BOX]; /* local and remote notices, and errors of the MRQ */
};

void cf_box_open(struct cf_box *b, struct cf *c, utofu_vcq_hdl_t vcq);
size_t cf_box_look(struct cf_box *b); /* polls each queue once: how many entries there were */
void cf_box_watch(struct cf_box *b, double seconds); /* collects for so long */
/* Collects until so many TCQ entries, local and remote notices have come. Not 0 if they have,
 * without an error. */
int cf_box_wait(struct cf_box *b, size_t tcqs, size_t lcls, size_t rmts);
/* Waits for so many, meets the others, and sees that no more come. 0 if the case cannot go on. */
int cf_box_exact(struct cf_box *b, size_t tcqs, size_t lcls, size_t rmts);
/* Starts the communication, and as often as the TOQ is full collects entries and tries again. The
 * code at last. */
int cf_box_start(struct cf_box *b, const struct cf_comm *m);
int cf_box_post(struct cf_box *b, void *desc, size_t desc_size, void *cbdata);
/* Starts it, and fails the case unless it is accepted. Not 0 if it is. */
int cf_box_begin(struct cf_box *b, const struct cf_comm *m);
/* Carries it out with a local notice that is waited for. Not 0 if it is complete. */
int cf_box_complete(struct cf_box *b, struct cf_comm m);

/* Check every field that the manual sets in the notice of block i of the communication: with the
   next process, or of the same communication of the previous process with this one */
void cf_check_lcl(struct cf *c, const struct cf_ends *e, const struct cf_comm *m, size_t i,
                  const struct utofu_mrq_notice *n);
void cf_check_rmt(struct cf *c, const struct cf_ends *e, const struct cf_comm *m, size_t i,
                  const struct utofu_mrq_notice *n);

/* ---- The case ---- */
double cf_deadline(void); /* the time of cf_now() at which a wait ends: ten seconds, and as many
                             more as --timeout-scale says */
/* cf_open() on the first TNI, and a box for its VCQ */
int cf_begin(struct cf *c, struct cf_ends *e, struct cf_box *b, size_t bytes);
const struct utofu_onesided_caps *cf_caps(
    struct cf *c); /* of the first TNI; NULL after a failure */
uint64_t cf_max_edata(struct cf *c);

#endif
