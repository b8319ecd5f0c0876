/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the public interface share: a VCQ with a registered buffer, one structure that
 * stands for a call of any start or prepare function, and ways to wait for what comes of it. Uses
 * the harness and utofu.h.
 */
#ifndef UT_TEST_ENDS_H
#define UT_TEST_ENDS_H

#include "harness.h"
#include "utofu.h"

enum { UT_TNIS = 6, UT_CQS = 9, UT_VCQS_PER_CQ = 8, UT_PATHS = 12, UT_DESC = 64 };
#define UT_MAX_PUTGET ((size_t)16777215)

#define UT_TCQ    UTOFU_ONESIDED_FLAG_TCQ_NOTICE
#define UT_LCL    UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE
#define UT_RMT    UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE
#define UT_STRONG UTOFU_ONESIDED_FLAG_STRONG_ORDER

#define NUM(array) (sizeof(array) / sizeof((array)[0]))

/* Return codes */

const char *ut_rc_name(int rc);

#define CHECK_RC(expr, expected)                                                                   \
    do {                                                                                           \
        int ut_rc = (expr);                                                                        \
        int ut_want = (expected);                                                                  \
        if (ut_rc != ut_want)                                                                      \
            ut_fail(__FILE__, __LINE__, #expr, " gave %s, not %s", ut_rc_name(ut_rc),              \
                    ut_rc_name(ut_want));                                                          \
    } while (0)
#define CHECK_OK(expr) CHECK_RC(expr, UTOFU_SUCCESS)

/* A VCQ of this process with a buffer registered on it */
struct ut_end {
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t id;
    uint8_t *mem; /* page-aligned, zeroed */
    size_t size;
    utofu_stadd_t stadd;
};

/* What another process needs of it. */
struct ut_peer {
    utofu_vcq_id_t id;
    utofu_stadd_t stadd;
    utofu_stadd_t scratch; /* eight bytes that ut_flush() writes: behind the buffer */
};

void ut_end_open(struct ut_end *end, utofu_tni_id_t tni, unsigned long int flags, size_t size);
/* For a VCQ that exists already. */
void ut_end_attach(struct ut_end *end, utofu_vcq_hdl_t vcq, size_t size);
/* The caller sees to it that nobody uses the end any more. */
void ut_end_close(struct ut_end *end);
struct ut_peer ut_end_peer(const struct ut_end *end);
void ut_end_gather(const struct ut_end *end, struct ut_peer peers[]);
/* Both at once: opens an end on TNI 0 and learns of those of all others. */
void ut_open_all(struct ut_end *end, size_t size, struct ut_peer peers[]);
/* Waits for all, then closes. */
void ut_close_all(struct ut_end *end);

/* Zeroed pages. */
void *ut_pages(size_t size);

/* One call of a start or a prepare function */
enum ut_kind {
    UT_PUT,
    UT_PUT_GAP,
    UT_PUT_STRIDE,
    UT_PUT_STRIDE_GAP,
    UT_PIGGYBACK,
    UT_PIGGYBACK8,
    UT_GET,
    UT_GET_GAP,
    UT_GET_STRIDE,
    UT_GET_STRIDE_GAP,
    UT_NOP,
    UT_NUM_KINDS
};

struct ut_comm {
    enum ut_kind kind;
    bool prepared; /* by way of a prepare function and utofu_post_toq() */
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t rmt;
    utofu_stadd_t lcl_stadd; /* put, get */
    void *data;              /* the two piggyback kinds */
    utofu_stadd_t rmt_stadd;
    size_t length, stride, blocks, mtu, gap;
    uint64_t edata;
    unsigned long int flags;
    void *cbdata;
};

const char *ut_kind_name(enum ut_kind kind);
bool ut_is_get(enum ut_kind kind);
bool ut_is_put(enum ut_kind kind); /* Put or Put Piggyback */
bool ut_is_piggyback(enum ut_kind kind);
bool ut_is_stride(enum ut_kind kind);
bool ut_has_gap(enum ut_kind kind);
size_t ut_max_length(enum ut_kind kind);
/* Descriptors that the call submits. */
size_t ut_num_blocks(const struct ut_comm *comm);

/* Calls the start function; with `prepared` the prepare function and utofu_post_toq(). */
int ut_start(const struct ut_comm *comm);
int ut_prepare(const struct ut_comm *comm, void *desc, size_t *desc_size);
/* Has to succeed, as soon as the TOQ has room. */
void ut_submit(const struct ut_comm *comm);
/* Has to succeed in the end; polls the TCQ while it is busy. Returns how many entries that took. */
size_t ut_start_busy(const struct ut_comm *comm);

/* Waiting. All have the deadline of the run. */
int ut_await_tcq(utofu_vcq_hdl_t vcq, void **cbdata);
int ut_await_mrq(utofu_vcq_hdl_t vcq, struct utofu_mrq_notice *notice);
void ut_await_byte(const uint8_t *at, uint8_t value);
void ut_await_word(const uint64_t *at, uint64_t value);

/* The next TCQ entry has this callback data and comes with this code. */
void ut_expect_tcq(utofu_vcq_hdl_t vcq, int rc, const void *cbdata);

/* The next notice is this one, in all fields that its type sets. */
void ut_expect_notice(utofu_vcq_hdl_t vcq, const struct utofu_mrq_notice *want);
void ut_check_notice(const struct utofu_mrq_notice *got, const struct utofu_mrq_notice *want);

/* The next notice is the error of a communication, with code, type, peer and EDATA. */
void ut_expect_error(utofu_vcq_hdl_t vcq, int rc, uint8_t type, utofu_vcq_id_t peer,
                     uint64_t edata);

/* Block number `block` of a communication has these notices at its two ends. */
struct utofu_mrq_notice ut_lcl_notice(const struct ut_comm *comm, size_t block);
struct utofu_mrq_notice ut_rmt_notice(const struct ut_comm *comm, size_t block,
                                      utofu_vcq_id_t origin);

/* Nothing is in the TCQ and the MRQ now. */
void ut_expect_nothing(utofu_vcq_hdl_t vcq);

/* All that was started before with this peer (and path) is complete when this returns: a put
 * with STRONG_ORDER is waited for. Nothing may be in the origin's queues before; what else arrives
 * fails the test. */
void ut_flush(const struct ut_end *end, const struct ut_peer *peer);

/* Two barrier gates of this process, on TNI 0, that send each other a packet. */
void ut_pair_gates(utofu_vbg_id_t gates[2]);

#endif
