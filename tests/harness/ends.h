/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the tests of the public interface: a VCQ with a registered buffer, one structure for a
 * call of any start or prepare function, and functions that wait for its results. Uses the harness
 * and utofu.h.
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

/* The addresses that another process needs. */
struct ut_peer {
    utofu_vcq_id_t id;
    utofu_stadd_t stadd;
    utofu_stadd_t scratch; /* eight bytes after the buffer, which ut_flush() writes */
};

void ut_end_open(struct ut_end *end, utofu_tni_id_t tni, unsigned long int flags, size_t size);
/* For an existing VCQ. */
void ut_end_attach(struct ut_end *end, utofu_vcq_hdl_t vcq, size_t size);
/* The caller makes sure that the end is no longer used. */
void ut_end_close(struct ut_end *end);
struct ut_peer ut_end_peer(const struct ut_end *end);
void ut_end_gather(const struct ut_end *end, struct ut_peer peers[]);
/* Opens an end on TNI 0 and gets those of all other processes. */
void ut_open_all(struct ut_end *end, size_t size, struct ut_peer peers[]);
/* Waits for all processes, then closes. */
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
    bool prepared; /* with a prepare function and utofu_post_toq() */
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
/* The number of descriptors of the call. */
size_t ut_num_blocks(const struct ut_comm *comm);

/* Calls the start function; with `prepared` the prepare function and utofu_post_toq(). */
int ut_start(const struct ut_comm *comm);
int ut_prepare(const struct ut_comm *comm, void *desc, size_t *desc_size);
/* Must succeed, as soon as the TOQ has room. */
void ut_submit(const struct ut_comm *comm);
/* Must succeed in the end; polls the TCQ while it is busy. Returns the number of entries taken. */
size_t ut_start_busy(const struct ut_comm *comm);

/* Waiting functions. All have the deadline of the run. */
int ut_await_tcq(utofu_vcq_hdl_t vcq, void **cbdata);
int ut_await_mrq(utofu_vcq_hdl_t vcq, struct utofu_mrq_notice *notice);
void ut_await_byte(const uint8_t *at, uint8_t value);
void ut_await_word(const uint64_t *at, uint64_t value);

/* The next TCQ entry has this callback data and this code. */
void ut_expect_tcq(utofu_vcq_hdl_t vcq, int rc, const void *cbdata);

/* The next notice is this one, in all fields that its type sets. */
void ut_expect_notice(utofu_vcq_hdl_t vcq, const struct utofu_mrq_notice *want);
void ut_check_notice(const struct utofu_mrq_notice *got, const struct utofu_mrq_notice *want);

/* The next notice is the error of a communication, with code, type, peer and EDATA. */
void ut_expect_error(utofu_vcq_hdl_t vcq, int rc, uint8_t type, utofu_vcq_id_t peer,
                     uint64_t edata);

/* The notices of block number `block` of a communication, at its two ends. */
struct utofu_mrq_notice ut_lcl_notice(const struct ut_comm *comm, size_t block);
struct utofu_mrq_notice ut_rmt_notice(const struct ut_comm *comm, size_t block,
                                      utofu_vcq_id_t origin);

/* The TCQ and the MRQ are empty now. */
void ut_expect_nothing(utofu_vcq_hdl_t vcq);

/* When this returns, all earlier communications with this peer (and path) are complete: it waits
 * for a put with STRONG_ORDER. The origin's queues must be empty before; any other entry fails the
 * test. */
void ut_flush(const struct ut_end *end, const struct ut_peer *peer);

/* Two barrier gates of this process, on TNI 0, that send each other a packet. */
void ut_pair_gates(utofu_vbg_id_t gates[2]);

#endif
