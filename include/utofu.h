/* SPDX-License-Identifier: Apache-2.0 */
/**
 * utofu.h - the uTofu interface for one-sided and barrier communication
 *
 * uTofu gives a process direct use of a Tofu network interface (TNI). This library offers the same
 * interface, with the same names, numbers and layouts, on InfiniBand verbs and within one host. A
 * program includes this header, links with -ltofucom, and needs no change.
 *
 * WORDS. "Local" is the side that starts a communication and "remote" the side whose memory it
 * reads or writes. A VCQ (virtual control queue) is a communication context on a TNI; it has three
 * queues: the TOQ takes descriptors that say what to do, the TCQ reports that something was sent,
 * the MRQ that something is complete. A VCQ handle means the VCQ in its own process; a VCQ id means
 * it everywhere. A STADD (steering address) is the address of registered memory on one VCQ; an STag
 * is the part of it that names the region. A VBG (virtual barrier gate) is a building block of a
 * barrier circuit. CQs (control queues) and BGs (barrier gates) are the parts of a TNI that VCQs
 * and VBGs stand on.
 *
 * ONE-SIDED COMMUNICATION. List the TNIs, create a VCQ, register memory, send the VCQ id and the
 * STADDs to the peers by other means (or let them work them out: utofu_construct_vcq_id(),
 * utofu_query_stadd()), start puts, gets and ARMWs (atomic read-modify-write), and poll the TCQ and
 * the MRQ. In free mode a descriptor is executed when it is submitted. In session mode
 * (UTOFU_VCQ_FLAG_SESSION_MODE) it waits until puts of others that carry an SPS have arrived.
 *
 * BARRIER COMMUNICATION. List the TNIs, allocate VBGs, send their ids to the peers, wire them with
 * utofu_set_vbg(), make sure that all processes have done so, then start and poll barriers and
 * reductions.
 *
 * RESULTS. A function returns an enum utofu_return_code value: UTOFU_SUCCESS is 0, all other codes
 * are negative, and not every negative code is an error. Each comment below lists the codes of its
 * function. If several codes apply, any of them may be returned. Any function may also return
 * UTOFU_ERR_OUT_OF_RESOURCE, UTOFU_ERR_OUT_OF_MEMORY or UTOFU_ERR_FATAL. The start functions only
 * check their arguments; errors of the local TNI in sending are reported by utofu_poll_tcq()
 * (UTOFU_ERR_TCQ_*), and all later errors by utofu_poll_mrq() (UTOFU_ERR_MRQ_*).
 * utofu_get_last_error() describes the error of the call that failed last.
 *
 * THREADS. "@threads" says which calls may run at the same time:
 *   any      This function and any other one, from any number of threads.
 *   vcq_hdl  Not at the same time as another "vcq_hdl" function on the same VCQ, or on a VCQ that
 *            shares its CQ, unless the VCQ was created with UTOFU_VCQ_FLAG_THREAD_SAFE. A VCQ
 *            created with UTOFU_VCQ_FLAG_EXCLUSIVE shares its CQ with none.
 *   vbg_id   Not at the same time as another "vbg_id" function on the same VBG, unless the VBG was
 *            allocated with UTOFU_VBG_FLAG_THREAD_SAFE.
 * A communication that one thread starts may be polled by another.
 *
 * AFTER FORK. A child process does not use uTofu, nor memory that is registered at the time of the
 * fork (6.1.4.1).
 *
 * ENVIRONMENT. Read once, at the first call: UTOFU_NUM_EXCLUSIVE_CQS and UTOFU_NUM_SESSION_MODE_CQS
 * (CQs per TNI that are set aside for these kinds of VCQ; 0 and 3 unless set),
 * UTOFU_NUM_MRQ_ENTRIES and UTOFU_NUM_MRQ_ENTRIES_SESSION (MRQ entries of a free-mode and of a
 * session-mode VCQ: 2048, 8192, 32768, 131072, 524288 or 2097152, and 131072 unless set), and
 * UTOFU_SWAP_PROTECT (0 or 1). See 4.3.2 of the manual for these, and the documentation of this
 * library for the ones it adds.
 *
 * FORM OF THE COMMENTS. Every function has one comment, which scripts read: "name - purpose", text
 * in paragraphs, then tags that each begin a line and may run on in indented lines:
 *   @param name [in|out|in,out] meaning, unit, range
 *   @flags  the flag macros that have an effect, "none", or the name of an @flaggroup
 *   @return code: when              one for each return code
 *   @threads any|vcq_hdl|vbg_id     see above
 *   @manual section                 of the uTofu manual, or "none"
 * Tags inside the comments of flags: @flaggroup name: flag macros.
 */
#ifndef UTOFU_H
#define UTOFU_H

#if defined(__SIZEOF_POINTER__) && __SIZEOF_POINTER__ != 8
#    error                                                                                         \
        "uTofu is for 64-bit machines only: STADDs hold 64-bit addresses, and words of 8 bytes are read, written and changed in one piece (8-byte atomic operations)"
#endif

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/**
 * UTOFU_WARN_UNUSED - the compiler warns of calls whose return code is ignored
 *
 * Defined by the program before this header is included, as with cc -DUTOFU_WARN_UNUSED, it makes
 * GCC and clang warn (-Wunused-result) of every call of a function of this header whose return code
 * is not used. Nothing else changes, and other compilers ignore it. The manual names no function
 * whose code may be ignored: functions that free a resource fail, too, with a stale handle. With
 * GCC a cast to void does not count as using the code.
 * @manual none (extension, not in the manual)
 */
#if defined(UTOFU_WARN_UNUSED) && defined(__GNUC__)
#    define UTOFU_MUST_USE __attribute__((__warn_unused_result__))
#else
#    define UTOFU_MUST_USE
#endif

/*
 * Common definitions
 */

/**
 * UTOFU_VERSION_* - the version of the interface at compile time
 *
 * utofu_query_utofu_version() gives the version at run time.
 * @manual 3.9.3.1
 */
#define UTOFU_VERSION_MAJOR 1
#define UTOFU_VERSION_MINOR 0

/**
 * utofu_*_t - types of ids, handles and addresses
 * @manual 3.1.1.1
 */
typedef uint16_t utofu_tni_id_t;   /* a TNI of a node: 0 to the number of TNIs - 1 */
typedef uint16_t utofu_cq_id_t;    /* a CQ of a TNI: 0 to the number of CQs - 1 */
typedef uint16_t utofu_bg_id_t;    /* a BG of a TNI: 0 to the number of BGs - 1 */
typedef uint16_t utofu_cmp_id_t;   /* a component: distinguishes the VCQs that share a CQ */
typedef uintptr_t utofu_vcq_hdl_t; /* a VCQ of this process, in this process */
typedef uint64_t utofu_vcq_id_t;   /* a VCQ, in the whole network; carries a default path too */
typedef uint64_t utofu_vbg_id_t;   /* a VBG, in the whole network */
typedef uint8_t utofu_path_id_t;   /* a path to a remote VCQ; for one-sided communication only */
typedef uint64_t utofu_stadd_t;    /* an address of registered memory; offsets may be added */

/**
 * enum utofu_return_code - what functions return
 *
 * The codes before UTOFU_ERR_INVALID_ARG are results that a correct program may meet. The codes
 * from there on name the argument that is wrong, or a failure of the system.
 * @manual 3.1.2.1
 */
enum utofu_return_code {
    UTOFU_SUCCESS = 0,            /* done, without any problem */
    UTOFU_ERR_NOT_FOUND = -1,     /* there is no new entry */
    UTOFU_ERR_NOT_COMPLETED = -2, /* not complete yet */
    UTOFU_ERR_NOT_PROCESSED = -3, /* was not carried out */
    UTOFU_ERR_BUSY = -4,          /* in use at the moment; later it may work */
    UTOFU_ERR_USED = -5,          /* taken; another one may be free */
    UTOFU_ERR_FULL = -6,          /* all are taken; there are no more */
    UTOFU_ERR_NOT_AVAILABLE = -7, /* cannot be had */
    UTOFU_ERR_NOT_SUPPORTED = -8, /* is not offered */

    /* from utofu_poll_tcq(): the local TNI met an error when it sent */
    UTOFU_ERR_TCQ_OTHER = -128,  /* none of those below */
    UTOFU_ERR_TCQ_DESC = -129,   /* wrong TOQ descriptor, perhaps for wrong arguments */
    UTOFU_ERR_TCQ_MEMORY = -130, /* memory access failed; the STADD may be invalid */
    UTOFU_ERR_TCQ_STADD = -131,  /* the STADD lies in no registered memory */
    UTOFU_ERR_TCQ_LENGTH = -132, /* STADD + length runs out of the registered memory */

    /* from utofu_poll_mrq(): an error after sending */
    UTOFU_ERR_MRQ_OTHER = -192,      /* none of those below */
    UTOFU_ERR_MRQ_PEER = -193,       /* the other process failed, perhaps it ended */
    UTOFU_ERR_MRQ_LCL_MEMORY = -194, /* local memory access failed; the STADD may be invalid */
    UTOFU_ERR_MRQ_RMT_MEMORY = -195, /* remote memory access failed; the STADD may be invalid */
    UTOFU_ERR_MRQ_LCL_STADD = -196,  /* the local STADD lies in no registered memory */
    UTOFU_ERR_MRQ_RMT_STADD = -197,  /* the remote STADD lies in no registered memory */
    UTOFU_ERR_MRQ_LCL_LENGTH = -198, /* local STADD + length runs out of registered memory */
    UTOFU_ERR_MRQ_RMT_LENGTH = -199, /* remote STADD + length runs out of registered memory */

    /* from the functions that poll barrier communication */
    UTOFU_ERR_BARRIER_OTHER = -256,    /* none of those below */
    UTOFU_ERR_BARRIER_MISMATCH = -257, /* the processes did not start the same operation */

    /* a wrong argument */
    UTOFU_ERR_INVALID_ARG = -512,     /* none of those below */
    UTOFU_ERR_INVALID_POINTER = -513, /* a pointer */
    UTOFU_ERR_INVALID_FLAGS = -514,   /* flags */
    UTOFU_ERR_INVALID_COORDS = -515,  /* node coordinates */
    UTOFU_ERR_INVALID_PATH = -516,    /* path coordinates */
    UTOFU_ERR_INVALID_TNI_ID = -517,  /* a TNI id */
    UTOFU_ERR_INVALID_CQ_ID = -518,   /* a CQ id */
    UTOFU_ERR_INVALID_BG_ID = -519,   /* a BG id */
    UTOFU_ERR_INVALID_CMP_ID = -520,  /* a component id */
    UTOFU_ERR_INVALID_VCQ_HDL = -521, /* a VCQ handle */
    UTOFU_ERR_INVALID_VCQ_ID = -522,  /* a VCQ id */
    UTOFU_ERR_INVALID_VBG_ID = -523,  /* a VBG id */
    UTOFU_ERR_INVALID_PATH_ID = -524, /* a path id */
    UTOFU_ERR_INVALID_STADD = -525,   /* a STADD */
    UTOFU_ERR_INVALID_ADDRESS = -526, /* a memory address */
    UTOFU_ERR_INVALID_SIZE = -527,    /* a size or a length */
    UTOFU_ERR_INVALID_STAG = -528,    /* an STag */
    UTOFU_ERR_INVALID_EDATA = -529,   /* an EDATA */
    UTOFU_ERR_INVALID_NUMBER = -530,  /* a number of things */
    UTOFU_ERR_INVALID_OP = -531,      /* an operation */
    UTOFU_ERR_INVALID_DESC = -532,    /* a descriptor */
    UTOFU_ERR_INVALID_DATA = -533,    /* the contents of a structure */

    /* the system */
    UTOFU_ERR_OUT_OF_RESOURCE = -640, /* something else than memory ran out */
    UTOFU_ERR_OUT_OF_MEMORY = -641,   /* memory ran out */
    UTOFU_ERR_FATAL = -768            /* the library cannot go on */
};

/*
 * TNIs: which there are and what they can do
 */

/**
 * UTOFU_ONESIDED_CAP_FLAG_* - bits of utofu_onesided_caps::flags
 * @manual 3.2.3.1
 */
#define UTOFU_ONESIDED_CAP_FLAG_SESSION_MODE (1UL << 0) /* session-mode VCQs */
#define UTOFU_ONESIDED_CAP_FLAG_ARMW         (1UL << 1) /* ARMW communication */

/**
 * UTOFU_ONESIDED_CAP_ARMW_OP_* - bits of utofu_onesided_caps::armw_ops
 * @manual 3.2.3.3
 */
#define UTOFU_ONESIDED_CAP_ARMW_OP_CSWAP (1UL << 0) /* compare and swap */
#define UTOFU_ONESIDED_CAP_ARMW_OP_SWAP  (1UL << 1) /* swap */
#define UTOFU_ONESIDED_CAP_ARMW_OP_ADD   (1UL << 2) /* add, as unsigned integers */
#define UTOFU_ONESIDED_CAP_ARMW_OP_XOR   (1UL << 3) /* bitwise exclusive or */
#define UTOFU_ONESIDED_CAP_ARMW_OP_AND   (1UL << 4) /* bitwise and */
#define UTOFU_ONESIDED_CAP_ARMW_OP_OR    (1UL << 5) /* bitwise or */

/**
 * UTOFU_BARRIER_CAP_REDUCE_OP_* - bits of utofu_barrier_caps::reduce_ops
 *
 * Bit n stands for the enum utofu_reduce_op value n.
 * @manual 3.2.3.4
 */
#define UTOFU_BARRIER_CAP_REDUCE_OP_BARRIER (1UL << 1) /* barrier without a reduction */
#define UTOFU_BARRIER_CAP_REDUCE_OP_BAND    (1UL << 2) /* uint64_t: bitwise and */
#define UTOFU_BARRIER_CAP_REDUCE_OP_BOR     (1UL << 3) /* uint64_t: bitwise or */
#define UTOFU_BARRIER_CAP_REDUCE_OP_BXOR    (1UL << 4) /* uint64_t: bitwise exclusive or */
#define UTOFU_BARRIER_CAP_REDUCE_OP_MAX     (1UL << 5) /* uint64_t: greatest */
#define UTOFU_BARRIER_CAP_REDUCE_OP_MAXLOC  (1UL << 6) /* uint64_t: greatest, and its place */
#define UTOFU_BARRIER_CAP_REDUCE_OP_SUM     (1UL << 7) /* uint64_t: sum */
#define UTOFU_BARRIER_CAP_REDUCE_OP_BFPSUM  (1UL << 8) /* double: sum */

/**
 * struct utofu_onesided_caps - what a TNI can do in one-sided communication
 * @manual 3.2.2.1, 6.1.2
 */
struct utofu_onesided_caps {
    unsigned long int flags;         /* UTOFU_ONESIDED_CAP_FLAG_* joined by bitwise OR */
    unsigned long int armw_ops;      /* UTOFU_ONESIDED_CAP_ARMW_OP_* joined by bitwise OR */
    unsigned int num_cmp_ids;        /* component ids there are: utofu_create_vcq_with_cmp_id() */
    unsigned int num_reserved_stags; /* STags per VCQ that callers may choose */
    size_t cache_line_size;          /* bytes in a line of the last-level cache */
    size_t stag_address_alignment;   /* bytes; for utofu_reg_mem_with_stag() */
    size_t max_toq_desc_size;        /* bytes; of one descriptor, for the prepare functions */
    size_t max_putget_size;          /* bytes; of one put or get */
    size_t max_piggyback_size;       /* bytes; of one put that travels in its descriptor */
    size_t max_edata_size;           /* bytes of EDATA that are carried */
    size_t max_mtu;                  /* bytes; of a packet */
    size_t max_gap;                  /* the longest pause between packets */
};

/**
 * struct utofu_barrier_caps - what a TNI can do in barrier communication
 * @manual 3.2.2.2, 6.1.2
 */
struct utofu_barrier_caps {
    unsigned long int flags;      /* UTOFU_BARRIER_CAP_FLAG_*: none is defined in this version */
    unsigned long int reduce_ops; /* UTOFU_BARRIER_CAP_REDUCE_OP_* joined by bitwise OR */
    size_t max_uint64_reduction;  /* uint64_t values in one reduction */
    size_t max_double_reduction;  /* double values in one reduction */
};

/**
 * utofu_get_onesided_tnis - list the TNIs usable for one-sided communication
 *
 * Gives the ids of the TNIs of this node with which this process can do one-sided communication.
 * There may be fewer of them than the node has TNIs. The ids are the ones to pass to
 * utofu_query_onesided_caps() and utofu_create_vcq().
 *
 * The array comes from malloc() and belongs to the caller, who frees it with free(). If there is no
 * usable TNI the call succeeds, *tni_ids is NULL and *num_tnis is 0.
 *
 * @param tni_ids  [out] The array of TNI ids, *num_tnis long, or NULL.
 * @param num_tnis [out] How many TNI ids the array has; 0 or more.
 * @return UTOFU_SUCCESS: The TNIs are listed, or there are none.
 * @return UTOFU_ERR_INVALID_POINTER: tni_ids or num_tnis is NULL.
 * @return UTOFU_ERR_OUT_OF_MEMORY: No memory for the array.
 * @threads any
 * @manual 3.2.1.1
 */
int utofu_get_onesided_tnis(utofu_tni_id_t **tni_ids, size_t *num_tnis) UTOFU_MUST_USE;

/**
 * utofu_get_barrier_tnis - list the TNIs usable for barrier communication
 *
 * Gives the ids of the TNIs of this node with which this process can do barrier communication.
 * There may be fewer of them than the node has TNIs. The ids are the ones to pass to
 * utofu_query_barrier_caps() and utofu_alloc_vbg().
 *
 * The array comes from malloc() and belongs to the caller, who frees it with free(). If there is no
 * usable TNI the call succeeds, *tni_ids is NULL and *num_tnis is 0.
 *
 * @param tni_ids  [out] The array of TNI ids, *num_tnis long, or NULL.
 * @param num_tnis [out] How many TNI ids the array has; 0 or more.
 * @return UTOFU_SUCCESS: The TNIs are listed, or there are none.
 * @return UTOFU_ERR_INVALID_POINTER: tni_ids or num_tnis is NULL.
 * @return UTOFU_ERR_OUT_OF_MEMORY: No memory for the array.
 * @threads any
 * @manual 3.2.1.2
 */
int utofu_get_barrier_tnis(utofu_tni_id_t **tni_ids, size_t *num_tnis) UTOFU_MUST_USE;

/**
 * utofu_query_onesided_caps - get what a TNI can do in one-sided communication, and its limits
 *
 * The structure belongs to the library and stays valid until the process ends. The caller neither
 * frees nor changes it.
 *
 * @param tni_id   [in] A TNI id from utofu_get_onesided_tnis().
 * @param tni_caps [out] A pointer to the capabilities; see struct utofu_onesided_caps.
 * @return UTOFU_SUCCESS: *tni_caps points to the capabilities.
 * @return UTOFU_ERR_INVALID_POINTER: tni_caps is NULL.
 * @return UTOFU_ERR_INVALID_TNI_ID: tni_id is not one that utofu_get_onesided_tnis() gives.
 * @threads any
 * @manual 3.2.1.3
 */
int utofu_query_onesided_caps(utofu_tni_id_t tni_id,
                              struct utofu_onesided_caps **tni_caps) UTOFU_MUST_USE;

/**
 * utofu_query_barrier_caps - get what a TNI can do in barrier communication, and its limits
 *
 * The structure belongs to the library and stays valid until the process ends. The caller neither
 * frees nor changes it.
 *
 * @param tni_id   [in] A TNI id from utofu_get_barrier_tnis().
 * @param tni_caps [out] A pointer to the capabilities; see struct utofu_barrier_caps.
 * @return UTOFU_SUCCESS: *tni_caps points to the capabilities.
 * @return UTOFU_ERR_INVALID_POINTER: tni_caps is NULL.
 * @return UTOFU_ERR_INVALID_TNI_ID: tni_id is not one that utofu_get_barrier_tnis() gives.
 * @threads any
 * @manual 3.2.1.4
 */
int utofu_query_barrier_caps(utofu_tni_id_t tni_id,
                             struct utofu_barrier_caps **tni_caps) UTOFU_MUST_USE;

/*
 * VCQs
 */

/**
 * UTOFU_VCQ_FLAG_* - the kind of VCQ to create
 *
 * THREAD_SAFE: several threads may use the VCQ at once, and at the same time as other VCQs, even
 * ones on the same CQ. Calls may take a little longer.
 *
 * EXCLUSIVE: the VCQ shares its CQ with no other VCQ, so threads with such a VCQ each do not delay
 * each other. The flag alone does not allow several threads to use one VCQ at once.
 * UTOFU_NUM_EXCLUSIVE_CQS sets CQs aside for these. For utofu_create_vcq() only.
 *
 * SESSION_MODE: descriptors wait for arriving puts. Only Put and NOP descriptors may be submitted
 * to such a VCQ; the effect of other kinds is unspecified. UTOFU_NUM_SESSION_MODE_CQS sets CQs
 * aside for these. For utofu_create_vcq() only, and not together with EXCLUSIVE.
 * @manual 3.3.4.1, 2.2.8
 */
#define UTOFU_VCQ_FLAG_THREAD_SAFE  (1UL << 0)
#define UTOFU_VCQ_FLAG_EXCLUSIVE    (1UL << 1)
#define UTOFU_VCQ_FLAG_SESSION_MODE (1UL << 2)

/**
 * utofu_create_vcq - create a VCQ on a TNI of this node
 *
 * Every VCQ has a TOQ, a TCQ and an MRQ of its own and is a communication context of its own. One
 * VCQ can talk to any number of VCQs of other processes, any number of times. Several may be
 * created on one TNI. The VCQ gets a component id that no other VCQ of its CQ has; a program that
 * wants to choose it calls utofu_create_vcq_with_cmp_id(). utofu_free_vcq() ends the VCQ.
 *
 * May enter the operating system.
 *
 * @param tni_id  [in] The TNI; an id from utofu_get_onesided_tnis().
 * @param flags   [in] UTOFU_VCQ_FLAG_* values joined by bitwise OR, or 0 for a free-mode VCQ used
 *     by one thread at a time.
 * @param vcq_hdl [out] The handle of the new VCQ. It means something in this process only.
 * @flags UTOFU_VCQ_FLAG_THREAD_SAFE UTOFU_VCQ_FLAG_EXCLUSIVE UTOFU_VCQ_FLAG_SESSION_MODE
 * @return UTOFU_SUCCESS: The VCQ is created.
 * @return UTOFU_ERR_FULL: This TNI has no room for another VCQ.
 * @return UTOFU_ERR_NOT_AVAILABLE: A VCQ of the kind that flags asks for cannot be had now: the CQs
 *     set aside for it are used up.
 * @return UTOFU_ERR_NOT_SUPPORTED: This TNI does not offer the kind of VCQ that flags asks for.
 * @return UTOFU_ERR_INVALID_POINTER: vcq_hdl is NULL.
 * @return UTOFU_ERR_INVALID_TNI_ID: tni_id is not one that utofu_get_onesided_tnis() gives.
 * @return UTOFU_ERR_INVALID_FLAGS: flags has a bit set that is not listed under @flags, or has both
 *     EXCLUSIVE and SESSION_MODE.
 * @threads any
 * @manual 3.3.1.1
 */
int utofu_create_vcq(utofu_tni_id_t tni_id, unsigned long int flags,
                     utofu_vcq_hdl_t *vcq_hdl) UTOFU_MUST_USE;

/**
 * utofu_create_vcq_with_cmp_id - create a VCQ with a chosen component id
 *
 * Works as utofu_create_vcq(), except that the caller chooses the component id: the number that
 * distinguishes the VCQs that software components of one process have on one CQ. The caller makes
 * sure that no other component uses this id, now or later. Such a VCQ has an id that every process
 * can work out with utofu_construct_vcq_id(). All statements on utofu_create_vcq() in this header
 * also hold for this function. utofu_free_vcq() ends the VCQ.
 *
 * May enter the operating system.
 *
 * @param tni_id  [in] The TNI; an id from utofu_get_onesided_tnis().
 * @param cmp_id  [in] The component id, from 0 to utofu_onesided_caps::num_cmp_ids - 1.
 * @param flags   [in] UTOFU_VCQ_FLAG_THREAD_SAFE or 0. The EXCLUSIVE and SESSION_MODE flags cannot
 *     be used here.
 * @param vcq_hdl [out] The handle of the new VCQ. It means something in this process only.
 * @flags UTOFU_VCQ_FLAG_THREAD_SAFE
 * @return UTOFU_SUCCESS: The VCQ is created.
 * @return UTOFU_ERR_USED: The component id is taken on this TNI.
 * @return UTOFU_ERR_FULL: This TNI has no room for another VCQ.
 * @return UTOFU_ERR_NOT_AVAILABLE: A VCQ of the kind that flags asks for cannot be had now: the CQs
 *     set aside for it are used up.
 * @return UTOFU_ERR_NOT_SUPPORTED: This TNI does not offer the kind of VCQ that flags asks for.
 * @return UTOFU_ERR_INVALID_POINTER: vcq_hdl is NULL.
 * @return UTOFU_ERR_INVALID_TNI_ID: tni_id is not one that utofu_get_onesided_tnis() gives.
 * @return UTOFU_ERR_INVALID_CMP_ID: cmp_id is num_cmp_ids or more.
 * @return UTOFU_ERR_INVALID_FLAGS: flags has a bit set that is not listed under @flags.
 * @threads any
 * @manual 3.3.1.2
 */
int utofu_create_vcq_with_cmp_id(utofu_tni_id_t tni_id, utofu_cmp_id_t cmp_id,
                                 unsigned long int flags, utofu_vcq_hdl_t *vcq_hdl) UTOFU_MUST_USE;

/**
 * utofu_free_vcq - free a VCQ
 *
 * A VCQ is freed once. Its handle and, once the peers know of it, its id are not used
 * afterwards. Communication that is still in flight on the VCQ, and memory that is still registered
 * on it, should be brought to an end first, and no other thread may be using the VCQ.
 *
 * May enter the operating system.
 *
 * @param vcq_hdl [in] The handle from utofu_create_vcq().
 * @return UTOFU_SUCCESS: The VCQ is freed.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @threads any
 * @manual 3.3.1.3
 */
int utofu_free_vcq(utofu_vcq_hdl_t vcq_hdl) UTOFU_MUST_USE;

/**
 * utofu_query_vcq_id - get the id of a VCQ of this process
 *
 * A handle is good in this process only. The id is good in every process and belongs to this VCQ
 * alone. The id's default path is the A, B, C coordinates of this node.
 *
 * @param vcq_hdl [in] The handle from utofu_create_vcq().
 * @param vcq_id  [out] The id of the VCQ.
 * @return UTOFU_SUCCESS: *vcq_id is the id.
 * @return UTOFU_ERR_INVALID_POINTER: vcq_id is NULL.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @threads any
 * @manual 3.3.2.1
 */
int utofu_query_vcq_id(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t *vcq_id) UTOFU_MUST_USE;

/**
 * utofu_construct_vcq_id - work out a VCQ id from where the VCQ lives
 *
 * Gives the id of a VCQ that was, or will be, made with utofu_create_vcq_with_cmp_id() on this node
 * or any other. Nothing is sent; the VCQ need not exist yet. The id's default path is the A, B, C
 * coordinates given, so the result equals what utofu_query_vcq_id() gives the owner.
 *
 * @param coords [in] Node coordinates in the order X, Y, Z, A, B, C; 6 elements.
 * @param tni_id [in] TNI id, from 0 to one less than the TNIs of a node.
 * @param cq_id  [in] CQ id, from 0 to one less than the CQs of a TNI.
 * @param cmp_id [in] Component id, from 0 to utofu_onesided_caps::num_cmp_ids - 1.
 * @param vcq_id [out] The VCQ id.
 * @return UTOFU_SUCCESS: *vcq_id is the id; the existence of the VCQ is not checked.
 * @return UTOFU_ERR_INVALID_POINTER: coords or vcq_id is NULL.
 * @return UTOFU_ERR_INVALID_COORDS: coords lies outside the coordinate space.
 * @return UTOFU_ERR_INVALID_TNI_ID: No node has a TNI tni_id.
 * @return UTOFU_ERR_INVALID_CQ_ID: No TNI has a CQ cq_id.
 * @return UTOFU_ERR_INVALID_CMP_ID: cmp_id is num_cmp_ids or more.
 * @threads any
 * @manual 3.3.2.2
 */
int utofu_construct_vcq_id(uint8_t coords[], utofu_tni_id_t tni_id, utofu_cq_id_t cq_id,
                           utofu_cmp_id_t cmp_id, utofu_vcq_id_t *vcq_id) UTOFU_MUST_USE;

/**
 * utofu_set_vcq_id_path - change the default path in a VCQ id
 *
 * A VCQ id carries the path that communication to it takes unless the flags of a call name another
 * one. This function rewrites that part of one variable and nothing else: other copies of the id
 * keep their path, and nothing inside the library changes. It may be called again and again; the
 * last path counts. With the same arguments it gives the same id each time.
 *
 * @param vcq_id      [in,out] The VCQ id to change.
 * @param path_coords [in] Path coordinates in the order A, B, C; 3 elements. NULL chooses a
 *     suitable path from this node.
 * @return UTOFU_SUCCESS: *vcq_id has the path.
 * @return UTOFU_ERR_INVALID_POINTER: vcq_id is NULL.
 * @return UTOFU_ERR_INVALID_VCQ_ID: *vcq_id is not a VCQ id.
 * @return UTOFU_ERR_INVALID_PATH: path_coords lies outside the A, B, C coordinate space.
 * @threads any
 * @manual 3.3.2.3
 */
int utofu_set_vcq_id_path(utofu_vcq_id_t *vcq_id, uint8_t path_coords[]) UTOFU_MUST_USE;

/**
 * utofu_query_vcq_info - get where the VCQ of an id lives
 *
 * Works for the VCQs of this node and of all others. Useful for tuning and for debugging: several
 * processes of one node can see, for example, whether they use different TNIs.
 *
 * @param vcq_id    [in] The VCQ id.
 * @param coords    [out] Node coordinates in the order X, Y, Z, A, B, C; room for 6 elements or
 *     more.
 * @param tni_id    [out] TNI id, from 0 to one less than the TNIs of a node.
 * @param cq_id     [out] CQ id, from 0 to one less than the CQs of a TNI.
 * @param extra_val [out] A value for the library itself; it means nothing to the caller.
 * @return UTOFU_SUCCESS: The four results are written.
 * @return UTOFU_ERR_INVALID_POINTER: coords, tni_id, cq_id or extra_val is NULL.
 * @return UTOFU_ERR_INVALID_VCQ_ID: vcq_id is not a VCQ id.
 * @threads any
 * @manual 3.3.3.1
 */
int utofu_query_vcq_info(utofu_vcq_id_t vcq_id, uint8_t coords[], utofu_tni_id_t *tni_id,
                         utofu_cq_id_t *cq_id, uint16_t *extra_val) UTOFU_MUST_USE;

/*
 * VBGs
 */

/**
 * UTOFU_VBG_FLAG_* - the kind of VBG to allocate
 *
 * THREAD_SAFE: several threads may use one VBG at once.
 * @manual 3.4.5.1
 */
#define UTOFU_VBG_FLAG_THREAD_SAFE (1UL << 0)

/**
 * UTOFU_VBG_ID_NULL - in struct utofu_vbg_setting: there is no such signal or packet
 * @manual 3.4.6.1
 */
#define UTOFU_VBG_ID_NULL ((utofu_vbg_id_t)-1)

/**
 * UTOFU_PATH_COORD_NULL - in utofu_vbg_setting::dst_path_coords[0]: choose a suitable path
 * @manual 3.5.2.1
 */
#define UTOFU_PATH_COORD_NULL ((uint8_t)-1)

/**
 * struct utofu_vbg_setting - how one barrier gate is wired
 * @manual 3.4.4.1
 */
struct utofu_vbg_setting {
    utofu_vbg_id_t vbg_id;         /* the gate to set */
    utofu_vbg_id_t src_lcl_vbg_id; /* the signal comes from this gate of the same TNI, or NULL id */
    utofu_vbg_id_t src_rmt_vbg_id; /* the packet comes from this gate of any TNI, or NULL id */
    utofu_vbg_id_t dst_lcl_vbg_id; /* the signal goes to this gate of the same TNI, or NULL id */
    utofu_vbg_id_t dst_rmt_vbg_id; /* the packet goes to this gate of any TNI, or NULL id */
    uint8_t dst_path_coords[3];    /* the packet's path in the order A, B, C */
};

/**
 * utofu_alloc_vbg - allocate barrier gates on a TNI of this node
 *
 * Allocates num_vbgs VBGs at once and writes their ids to vbg_ids. The first one is a start/end
 * gate, all others are relay gates. A call gives all of the gates or none. utofu_free_vbg() gives
 * them back, all together.
 *
 * May enter the operating system.
 *
 * @param tni_id   [in] The TNI; an id from utofu_get_barrier_tnis().
 * @param num_vbgs [in] How many VBGs; 1 or more.
 * @param flags    [in] UTOFU_VBG_FLAG_* values joined by bitwise OR, or 0.
 * @param vbg_ids  [out] The VBG ids; room for num_vbgs elements or more.
 * @flags UTOFU_VBG_FLAG_THREAD_SAFE
 * @return UTOFU_SUCCESS: All of the gates are allocated.
 * @return UTOFU_ERR_FULL: This TNI does not have that many gates left. Another TNI may.
 * @return UTOFU_ERR_NOT_AVAILABLE: VBGs of the kind that flags asks for cannot be had now.
 * @return UTOFU_ERR_NOT_SUPPORTED: This TNI does not offer the kind of VBG that flags asks for.
 * @return UTOFU_ERR_INVALID_POINTER: vbg_ids is NULL.
 * @return UTOFU_ERR_INVALID_TNI_ID: tni_id is not one that utofu_get_barrier_tnis() gives.
 * @return UTOFU_ERR_INVALID_NUMBER: num_vbgs is 0.
 * @return UTOFU_ERR_INVALID_FLAGS: flags has a bit set that is not listed under @flags.
 * @threads any
 * @manual 3.4.1.1
 */
int utofu_alloc_vbg(utofu_tni_id_t tni_id, size_t num_vbgs, unsigned long int flags,
                    utofu_vbg_id_t vbg_ids[]) UTOFU_MUST_USE;

/**
 * utofu_free_vbg - free barrier gates
 *
 * Frees all VBGs of one call of utofu_alloc_vbg() of this process. A VBG is freed once, and not
 * while another thread is using it.
 *
 * May enter the operating system.
 *
 * @param vbg_ids  [in] The VBG ids, as utofu_alloc_vbg() wrote them; num_vbgs elements.
 * @param num_vbgs [in] The number that was given to utofu_alloc_vbg().
 * @return UTOFU_SUCCESS: All of the gates are freed.
 * @return UTOFU_ERR_INVALID_POINTER: vbg_ids is NULL.
 * @return UTOFU_ERR_INVALID_VBG_ID: vbg_ids holds an id that is not allocated by this process, or
 *     not by that call.
 * @return UTOFU_ERR_INVALID_NUMBER: num_vbgs is not the number that was allocated.
 * @threads any
 * @manual 3.4.1.2
 */
int utofu_free_vbg(utofu_vbg_id_t vbg_ids[], size_t num_vbgs) UTOFU_MUST_USE;

/**
 * utofu_set_vbg - wire barrier gates into a barrier circuit
 *
 * A gate waits for one signal from another gate of its TNI and for one packet from a gate anywhere;
 * then it sends one signal to another gate of its TNI and one packet to a gate anywhere. A
 * start/end gate sends first, when a barrier communication is started, and waits afterwards. Each
 * of these two inputs and two outputs can be left out. A circuit is the sum of the settings of all
 * its gates on all its nodes, and it is ready when every process in it has made this call: the
 * processes make sure of that themselves, before the first barrier communication. A circuit that is
 * set can be used any number of times.
 *
 * VALUES. In a reduction a start/end gate sends the value of its process, with its signal and with
 * its packet. A relay gate combines the values of its signal and its packet, and sends the combined
 * value on, with both. The result at a start/end gate is the combined value of the signal and the
 * packet that it receives: the process's own value is part of the result only if that value comes
 * back along some path of gates. So each value must reach each end gate, and, for SUM, BXOR and
 * BFPSUM, along one path only, or it counts twice. A gate without one of the inputs passes on the
 * value of the other one.
 *
 * The signals of a process's gates go around: from the start/end gate through all relay gates and
 * back. A start/end gate that is the only gate of its process therefore signals itself, with its
 * own id as src_lcl_vbg_id and dst_lcl_vbg_id: otherwise the result is the value of the packet,
 * without its own value. A gate with neither input nor output is a circuit of one process, whose
 * result is its own value.
 *
 * Two processes, one gate each; the result is a + b in both:
 *
 *         signal                             signal
 *        +-----+                             +-----+
 *        |     v       packet, value a       v     |
 *        |   +----+ --------------------> +----+   |
 *        +---| A0 |                       | B0 |---+
 *            +----+ <-------------------- +----+
 *                      packet, value b
 *
 * Four processes with the values a, b, c, d, a start/end gate S and a relay gate R each. Values go
 * downwards; upright lines are signals, all others packets:
 *
 *     process 0       process 1       process 2       process 3
 *      S  a            S  b            S  c            S  d
 *      |  \         /  |               |  \         /  |
 *      |     \   /     |               |     \   /     |
 *      |       X       |               |       X       |
 *      |     /   \     |               |     /   \     |
 *      |  /         \  |               |  /         \  |
 *      R  a+b          R  a+b          R  c+d          R  c+d
 *      |               |               |               |
 *      |   packets: R of 0 and 2 to S of 2 and 0,      |
 *      |            R of 1 and 3 to S of 3 and 1       |
 *      |               |               |               |
 *      S  a+b+c+d      S  a+b+c+d      S  a+b+c+d      S  a+b+c+d
 *
 * The settings of process 0, where S1 is gate S of process 1:
 *
 *     vbg_id   src_lcl   src_rmt   dst_lcl   dst_rmt
 *       S0       R0        R2        R0        R1
 *       R0       S0        S1        S0        S2
 *
 * One call sets gates that came from one call of utofu_alloc_vbg(): all of them or some of them.
 * vbg_settings[0] is the start/end gate, the first id that utofu_alloc_vbg() gave; the others may
 * come in any order. If a gate is set again the last setting counts.
 *
 * May enter the operating system.
 *
 * @param vbg_settings     [in] The settings; num_vbg_settings elements. See struct
 *     utofu_vbg_setting.
 * @param num_vbg_settings [in] How many gates to set: from 1 to the number that was allocated.
 * @return UTOFU_SUCCESS: All of the gates are set.
 * @return UTOFU_ERR_INVALID_POINTER: vbg_settings is NULL.
 * @return UTOFU_ERR_INVALID_VBG_ID: A vbg_id was not allocated by this process in the call that
 *     gave vbg_settings[0].vbg_id; the first is not that call's start/end gate; a local source or
 *     destination is on another TNI; or an id is neither a VBG id nor UTOFU_VBG_ID_NULL.
 * @return UTOFU_ERR_INVALID_NUMBER: num_vbg_settings is 0 or more than the number that was
 *     allocated.
 * @return UTOFU_ERR_INVALID_PATH: A dst_path_coords lies outside the A, B, C coordinate space.
 * @return UTOFU_ERR_INVALID_DATA: One gate is set twice in the same call.
 * @threads any
 * @manual 3.4.2.1
 */
int utofu_set_vbg(struct utofu_vbg_setting vbg_settings[], size_t num_vbg_settings) UTOFU_MUST_USE;

/**
 * utofu_query_vbg_info - get where a VBG lives
 *
 * Works for the VBGs of this node and of all others. Meant for debugging.
 *
 * @param vbg_id    [in] The VBG id.
 * @param coords    [out] Node coordinates in the order X, Y, Z, A, B, C; room for 6 elements or
 *     more.
 * @param tni_id    [out] TNI id, from 0 to one less than the TNIs of a node.
 * @param bg_id     [out] BG id, from 0 to one less than the BGs of a TNI.
 * @param extra_val [out] A value for the library itself; it means nothing to the caller.
 * @return UTOFU_SUCCESS: The four results are written.
 * @return UTOFU_ERR_INVALID_POINTER: coords, tni_id, bg_id or extra_val is NULL.
 * @return UTOFU_ERR_INVALID_VBG_ID: vbg_id is not a VBG id.
 * @threads any
 * @manual 3.4.3.1
 */
int utofu_query_vbg_info(utofu_vbg_id_t vbg_id, uint8_t coords[], utofu_tni_id_t *tni_id,
                         utofu_bg_id_t *bg_id, uint16_t *extra_val) UTOFU_MUST_USE;

/*
 * Paths
 *
 * One-sided communication takes the path in its flags, if there is one, and else the one in the
 * remote VCQ id. The path back is the same in reverse.
 */

/**
 * utofu_get_path_id - make a path id from path coordinates
 *
 * A path id belongs to the VCQ id it was made for, and to the default path inside that id: a path
 * id made for one VCQ id is not used with another, nor with the same one after
 * utofu_set_vcq_id_path() has changed it. Pass the path id to a start or prepare function inside
 * UTOFU_ONESIDED_FLAG_PATH(). Path ids are for one-sided communication only.
 *
 * @param vcq_id      [in] The remote VCQ id; the remote process learns it from
 *     utofu_query_vcq_id().
 * @param path_coords [in] Path coordinates in the order A, B, C; 3 elements. NULL chooses a
 *     suitable path from this node.
 * @param path_id     [out] The path id.
 * @return UTOFU_SUCCESS: *path_id is the path id.
 * @return UTOFU_ERR_INVALID_POINTER: path_id is NULL.
 * @return UTOFU_ERR_INVALID_VCQ_ID: vcq_id is not a VCQ id.
 * @return UTOFU_ERR_INVALID_PATH: path_coords lies outside the A, B, C coordinate space.
 * @threads any
 * @manual 3.5.1.1
 */
int utofu_get_path_id(utofu_vcq_id_t vcq_id, uint8_t path_coords[],
                      utofu_path_id_t *path_id) UTOFU_MUST_USE;

/**
 * utofu_get_path_coords - get the path coordinates of a path id
 *
 * The reverse of utofu_get_path_id().
 *
 * @param vcq_id      [in] The remote VCQ id that the path id was made for.
 * @param path_id     [in] A path id from utofu_get_path_id().
 * @param path_coords [out] Path coordinates in the order A, B, C; room for 3 elements or more.
 * @return UTOFU_SUCCESS: path_coords is written.
 * @return UTOFU_ERR_INVALID_POINTER: path_coords is NULL.
 * @return UTOFU_ERR_INVALID_VCQ_ID: vcq_id is not a VCQ id.
 * @return UTOFU_ERR_INVALID_PATH_ID: path_id is not a path id.
 * @threads any
 * @manual 3.5.1.2
 */
int utofu_get_path_coords(utofu_vcq_id_t vcq_id, utofu_path_id_t path_id,
                          uint8_t path_coords[]) UTOFU_MUST_USE;

/*
 * STADDs
 */

/**
 * UTOFU_REG_MEM_FLAG_* - how memory is registered
 *
 * READ_ONLY: no one-sided communication, local or remote, writes the memory. One that tries fails,
 * with an error from utofu_poll_tcq() or utofu_poll_mrq(). Needed for memory that the process
 * cannot write.
 * @manual 3.6.2.1
 */
#define UTOFU_REG_MEM_FLAG_READ_ONLY (1UL << 0)

/**
 * utofu_reg_mem - register memory on a VCQ
 *
 * Makes the memory reachable by one-sided communication on the VCQ and gives its STADD. Adding a
 * byte offset to the STADD gives the STADD of a place inside the region.
 *
 * The region has to be readable by this process and, unless UTOFU_REG_MEM_FLAG_READ_ONLY is given,
 * writable. It stays registered, and must stay mapped, until utofu_dereg_mem(). Memory that is used
 * on several VCQs is registered on each; its STADDs may differ.
 *
 * Regions may overlap, and one region may be registered more than once: it then gets the same STADD
 * each time. Either way each registration takes one utofu_dereg_mem(). Writable memory may be
 * registered with and without the read-only flag at once.
 *
 * May enter the operating system.
 *
 * @param vcq_hdl [in] The VCQ to register on.
 * @param addr    [in] The start of the region; any alignment.
 * @param size    [in] The size of the region in bytes; 1 or more.
 * @param flags   [in] UTOFU_REG_MEM_FLAG_* values joined by bitwise OR, or 0.
 * @param stadd   [out] The STADD of the start of the region. Its low 16 bits are those of addr.
 * @flags UTOFU_REG_MEM_FLAG_READ_ONLY
 * @return UTOFU_SUCCESS: The region is registered.
 * @return UTOFU_ERR_FULL: This VCQ has no STADD left. The call may succeed after utofu_dereg_mem().
 * @return UTOFU_ERR_NOT_AVAILABLE: A STADD of the kind that flags asks for cannot be had now.
 * @return UTOFU_ERR_NOT_SUPPORTED: STADDs of the kind that flags asks for are not offered.
 * @return UTOFU_ERR_INVALID_POINTER: stadd is NULL.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @return UTOFU_ERR_INVALID_ADDRESS: addr is NULL, or the region is not memory that this process
 *     may use as flags says.
 * @return UTOFU_ERR_INVALID_SIZE: size is 0, or the region runs past the end of the address space.
 * @return UTOFU_ERR_INVALID_FLAGS: flags has a bit set that is not listed under @flags.
 * @return UTOFU_ERR_OUT_OF_MEMORY: The memory could not be locked (see ulimit -l), or there is no
 *     memory for the record of it.
 * @threads vcq_hdl
 * @manual 3.6.1.1
 */
int utofu_reg_mem(utofu_vcq_hdl_t vcq_hdl, void *addr, size_t size, unsigned long int flags,
                  utofu_stadd_t *stadd) UTOFU_MUST_USE;

/**
 * utofu_reg_mem_with_stag - register memory on a VCQ under a chosen STag
 *
 * Works as utofu_reg_mem(), except that the caller chooses the STag from the ones reserved for
 * callers. The STADD can then be worked out by any process with utofu_query_stadd(). An STag names
 * one region at a time: it can be used again, for the same region or another, after
 * utofu_dereg_mem().
 *
 * The region has to be readable by this process and, unless UTOFU_REG_MEM_FLAG_READ_ONLY is given,
 * writable. It stays registered, and must stay mapped, until utofu_dereg_mem(). Memory that is used
 * on several VCQs is registered on each; its STADDs may differ.
 *
 * May enter the operating system.
 *
 * @param vcq_hdl [in] The VCQ to register on.
 * @param addr    [in] The start of the region; a multiple of
 *     utofu_onesided_caps::stag_address_alignment.
 * @param size    [in] The size of the region in bytes; 1 or more times
 *     utofu_onesided_caps::stag_address_alignment.
 * @param stag    [in] The STag, from 0 to utofu_onesided_caps::num_reserved_stags - 1.
 * @param flags   [in] UTOFU_REG_MEM_FLAG_* values joined by bitwise OR, or 0.
 * @param stadd   [out] The STADD of the start of the region.
 * @flags UTOFU_REG_MEM_FLAG_READ_ONLY
 * @return UTOFU_SUCCESS: The region is registered.
 * @return UTOFU_ERR_USED: The STag is in use on this VCQ.
 * @return UTOFU_ERR_NOT_AVAILABLE: An STag of the kind that flags asks for cannot be had now.
 * @return UTOFU_ERR_NOT_SUPPORTED: STags of the kind that flags asks for are not offered.
 * @return UTOFU_ERR_INVALID_POINTER: stadd is NULL.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @return UTOFU_ERR_INVALID_ADDRESS: addr is NULL or not aligned, or the region is not memory that
 *     this process may use as flags says.
 * @return UTOFU_ERR_INVALID_SIZE: size is 0 or not a multiple of the alignment, or the region runs
 *     past the end of the address space.
 * @return UTOFU_ERR_INVALID_STAG: stag is num_reserved_stags or more.
 * @return UTOFU_ERR_INVALID_FLAGS: flags has a bit set that is not listed under @flags.
 * @return UTOFU_ERR_OUT_OF_MEMORY: The memory could not be locked (see ulimit -l), or there is no
 *     memory for the record of it.
 * @threads vcq_hdl
 * @manual 3.6.1.2
 */
int utofu_reg_mem_with_stag(utofu_vcq_hdl_t vcq_hdl, void *addr, size_t size, unsigned int stag,
                            unsigned long int flags, utofu_stadd_t *stadd) UTOFU_MUST_USE;

/**
 * utofu_query_stadd - work out the STADD of memory registered under a chosen STag
 *
 * Gives the STADD that utofu_reg_mem_with_stag() gives, or will give, the owner of the VCQ, be it
 * this process or another. Nothing is sent; the memory need not be registered yet. May be called
 * any number of times.
 *
 * @param vcq_id [in] The id of the VCQ on which the memory is registered.
 * @param stag   [in] The STag, from 0 to utofu_onesided_caps::num_reserved_stags - 1.
 * @param stadd  [out] The STADD of the start of the region.
 * @return UTOFU_SUCCESS: *stadd is the STADD; the existence of the memory is not checked.
 * @return UTOFU_ERR_INVALID_POINTER: stadd is NULL.
 * @return UTOFU_ERR_INVALID_VCQ_ID: vcq_id is not a VCQ id.
 * @return UTOFU_ERR_INVALID_STAG: stag is num_reserved_stags or more.
 * @threads any
 * @manual 3.6.1.3
 */
int utofu_query_stadd(utofu_vcq_id_t vcq_id, unsigned int stag,
                      utofu_stadd_t *stadd) UTOFU_MUST_USE;

/**
 * utofu_dereg_mem - end one registration of memory on a VCQ
 *
 * Every registration is ended once, and before the memory is freed. When may that be? Source of a
 * put: after its TCQ entry or its local MRQ notice. Destination of a get: after its local MRQ
 * notice. Remote memory of any communication: after its remote MRQ notice there, or its local MRQ
 * notice here.
 *
 * May enter the operating system.
 *
 * @param vcq_hdl [in] The VCQ the memory was registered on.
 * @param stadd   [in] The STADD of the start of the region, as the registration gave it.
 * @param flags   [in] 0: no UTOFU_DEREG_MEM_FLAG_* value is defined in this version.
 * @flags none
 * @return UTOFU_SUCCESS: The registration is ended.
 * @return UTOFU_ERR_NOT_AVAILABLE: A STADD of the kind that flags names cannot be ended now.
 * @return UTOFU_ERR_NOT_SUPPORTED: STADDs of the kind that flags names are not offered.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @return UTOFU_ERR_INVALID_STADD: stadd is not the start of a region that is registered on the
 *     VCQ.
 * @return UTOFU_ERR_INVALID_FLAGS: flags is not 0.
 * @threads vcq_hdl
 * @manual 3.6.1.4
 */
int utofu_dereg_mem(utofu_vcq_hdl_t vcq_hdl, utofu_stadd_t stadd,
                    unsigned long int flags) UTOFU_MUST_USE;

/*
 * One-sided communication
 */

/**
 * UTOFU_ONESIDED_FLAG_* - how a communication is done
 *
 * TCQ_NOTICE: utofu_poll_tcq() gives an entry when the communication has been sent. Errors are
 * given with and without the flag.
 *
 * REMOTE_MRQ_NOTICE: utofu_poll_mrq() on the remote VCQ gives a notice: of a put or an ARMW when
 * the remote memory has been changed, of a get when it has been read.
 *
 * LOCAL_MRQ_NOTICE: utofu_poll_mrq() on the local VCQ gives a notice: of a put or an ARMW when the
 * remote memory has been changed (for an ARMW with the previous value), of a get when the local
 * memory has been written. Errors are given with and without the flag.
 *
 * STRONG_ORDER: the reads and writes of this communication come after those of the earlier ones of
 * the same local VCQ, remote VCQ and path. Within one put or get the last cache line is read, and
 * written, after all others, so that polling the last byte shows that all has arrived (6.1.3.1).
 *
 * CACHE_INJECTION: a hint to write the data into the last-level cache too.
 *
 * PADDING: for a piggyback put with CACHE_INJECTION: the rest of the cache lines that it touches
 * may be overwritten with any values. This library leaves the rest as it is.
 *
 * PACKET_RESPONSE: accepted as a hint without effect. It is in the published header, not in the
 * manual.
 *
 * DELAY_START: the communication may be held back until the next start function on this VCQ without
 * this flag, or the next utofu_post_toq(); or it may start at once, so everything has to be ready
 * when the call is made. Saves time in a row of calls.
 *
 * Flags that are not in the group of a function have no effect there, except for an SPS: in
 * anything but a put, and in a piggyback put, its results are unspecified, and this library returns
 * UTOFU_ERR_INVALID_FLAGS.
 *
 * @flaggroup onesided-put: UTOFU_ONESIDED_FLAG_TCQ_NOTICE UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE
 *     UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE UTOFU_ONESIDED_FLAG_STRONG_ORDER
 *     UTOFU_ONESIDED_FLAG_CACHE_INJECTION UTOFU_ONESIDED_FLAG_PACKET_RESPONSE
 *     UTOFU_ONESIDED_FLAG_DELAY_START UTOFU_ONESIDED_FLAG_SPS UTOFU_ONESIDED_FLAG_PATH
 * @flaggroup onesided-piggyback: UTOFU_ONESIDED_FLAG_TCQ_NOTICE
 *     UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE
 *     UTOFU_ONESIDED_FLAG_STRONG_ORDER UTOFU_ONESIDED_FLAG_CACHE_INJECTION
 *     UTOFU_ONESIDED_FLAG_PADDING UTOFU_ONESIDED_FLAG_PACKET_RESPONSE
 *     UTOFU_ONESIDED_FLAG_DELAY_START UTOFU_ONESIDED_FLAG_PATH
 * @flaggroup onesided-get: UTOFU_ONESIDED_FLAG_TCQ_NOTICE UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE
 *     UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE UTOFU_ONESIDED_FLAG_STRONG_ORDER
 *     UTOFU_ONESIDED_FLAG_CACHE_INJECTION UTOFU_ONESIDED_FLAG_PACKET_RESPONSE
 *     UTOFU_ONESIDED_FLAG_DELAY_START UTOFU_ONESIDED_FLAG_PATH
 * @flaggroup onesided-armw: UTOFU_ONESIDED_FLAG_TCQ_NOTICE UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE
 *     UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE UTOFU_ONESIDED_FLAG_STRONG_ORDER
 *     UTOFU_ONESIDED_FLAG_PACKET_RESPONSE UTOFU_ONESIDED_FLAG_DELAY_START
 *     UTOFU_ONESIDED_FLAG_PATH
 * @flaggroup onesided-nop: UTOFU_ONESIDED_FLAG_TCQ_NOTICE UTOFU_ONESIDED_FLAG_DELAY_START
 * @manual 3.7.9.1
 */
#define UTOFU_ONESIDED_FLAG_STRONG_ORDER      (1UL << 0)
#define UTOFU_ONESIDED_FLAG_PACKET_RESPONSE   (1UL << 1)
#define UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE (1UL << 2)
#define UTOFU_ONESIDED_FLAG_PADDING           (1UL << 3)
#define UTOFU_ONESIDED_FLAG_CACHE_INJECTION   (1UL << 5)
#define UTOFU_ONESIDED_FLAG_DELAY_START       (1UL << 8)
#define UTOFU_ONESIDED_FLAG_TCQ_NOTICE        (1UL << 14)
#define UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE  (1UL << 15)

/**
 * UTOFU_ONESIDED_FLAG_SPS - flag bits: the session progress step of a put
 *
 * sps, from 0 to 15, is how many waiting descriptors of the remote session-mode VCQ the put starts
 * once its data is in place; missing ones start as soon as they are submitted. Without it the step
 * is 0. A remote VCQ in free mode ignores it. A failing put starts none. A larger sps gives
 * unspecified results.
 * @manual 3.7.9.3, 2.2.8
 */
#define UTOFU_ONESIDED_FLAG_SPS(sps) ((unsigned long int)(sps) << 24)

/**
 * UTOFU_ONESIDED_FLAG_PATH - flag bits: the path of a communication
 *
 * path_id comes from utofu_get_path_id() and takes precedence over the path in the remote VCQ id.
 * @manual 3.7.9.2
 */
#define UTOFU_ONESIDED_FLAG_PATH(path_id) ((unsigned long int)(path_id) << 28)

/**
 * enum utofu_armw_op - what utofu_armw4() and utofu_armw8() do with the remote word
 *
 * Compare and swap has functions of its own.
 * @manual 3.7.7.1
 */
enum utofu_armw_op {
    UTOFU_ARMW_OP_SWAP = 1, /* store the operand */
    UTOFU_ARMW_OP_ADD = 2,  /* add, as unsigned integers; wraps around */
    UTOFU_ARMW_OP_XOR = 3,  /* bitwise exclusive or */
    UTOFU_ARMW_OP_AND = 4,  /* bitwise and */
    UTOFU_ARMW_OP_OR = 5    /* bitwise or */
};

/**
 * enum utofu_mrq_notice_type - utofu_mrq_notice::notice_type
 * @manual 3.7.8.1
 */
enum utofu_mrq_notice_type {
    UTOFU_MRQ_TYPE_LCL_PUT = 0,  /* local notice of a put */
    UTOFU_MRQ_TYPE_RMT_PUT = 1,  /* remote notice of a put */
    UTOFU_MRQ_TYPE_LCL_GET = 2,  /* local notice of a get */
    UTOFU_MRQ_TYPE_RMT_GET = 3,  /* remote notice of a get */
    UTOFU_MRQ_TYPE_LCL_ARMW = 4, /* local notice of an ARMW */
    UTOFU_MRQ_TYPE_RMT_ARMW = 5  /* remote notice of an ARMW */
};

/**
 * struct utofu_mrq_notice - a notice from the MRQ
 *
 * vcq_id is the peer's: of the remote VCQ in a local notice, of the VCQ that started the
 * communication in a remote notice. Its default path is always the peer's own A, B, C coordinates,
 * as in the result of utofu_query_vcq_id(), whatever path the communication took.
 *
 * lcl_stadd is set for LCL_GET and RMT_GET, rmt_stadd for all types but LCL_GET, rmt_value for
 * LCL_ARMW. As an extension RMT_PUT and RMT_ARMW have the value of rmt_stadd in rmt_value too. The
 * other fields mean nothing.
 * @manual 3.7.6.1
 */
struct utofu_mrq_notice {
    uint8_t notice_type;     /* an enum utofu_mrq_notice_type value */
    uint8_t padding1[7];     /* not for use */
    utofu_vcq_id_t vcq_id;   /* the peer */
    uint64_t edata;          /* the EDATA given when the communication was started */
    uint64_t rmt_value;      /* the remote word before the ARMW, zero-extended to 64 bits */
    utofu_stadd_t lcl_stadd; /* put, get: one past the last local byte */
    utofu_stadd_t rmt_stadd; /* put, get: one past the last remote byte; ARMW: the remote word */
    uint64_t reserved[2];    /* not for use */
};

/*
 * Start functions: submit one descriptor, or one for each block, to the TOQ.
 */

/**
 * utofu_put - put memory of this process into memory of another
 *
 * Copies length bytes from local to remote memory. The remote TNI writes them without help of the
 * remote process.
 *
 * The source may be changed after the TCQ entry; the data is in place after the local or the remote
 * MRQ notice. Without notices, a remote process may also watch the memory: with
 * UTOFU_ONESIDED_FLAG_STRONG_ORDER the last byte is written last. A wrong local STADD is reported
 * by utofu_poll_tcq(), a wrong remote STADD by utofu_poll_mrq(); neither is reported by this call.
 *
 * @param vcq_hdl    [in] The local VCQ.
 * @param rmt_vcq_id [in] The id of the remote VCQ; its owner learns it from utofu_query_vcq_id().
 * @param lcl_stadd  [in] The STADD of the local memory to read.
 * @param rmt_stadd  [in] The STADD of the remote memory to write.
 * @param length     [in] The size of the data in bytes, 0 to utofu_onesided_caps::max_putget_size.
 * @param edata      [in] A value handed out in the MRQ notices; utofu_onesided_caps::max_edata_size
 *     bytes (0 to 255).
 * @param flags      [in] UTOFU_ONESIDED_FLAG_* values joined by bitwise OR; the group onesided-put
 *     lists the flags with an effect.
 * @param cbdata     [in] A value that utofu_poll_tcq() hands out for this communication; any value.
 * @flags onesided-put
 * @return UTOFU_SUCCESS: The communication is submitted.
 * @return UTOFU_ERR_BUSY: The TOQ or the TCQ has no room. Nothing was submitted. Call
 *     utofu_poll_tcq() and try again.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @return UTOFU_ERR_INVALID_VCQ_ID: rmt_vcq_id is not a VCQ id.
 * @return UTOFU_ERR_INVALID_SIZE: length is more than max_putget_size.
 * @return UTOFU_ERR_INVALID_EDATA: edata does not fit in max_edata_size bytes.
 * @return UTOFU_ERR_INVALID_FLAGS: flags has a bit set that no UTOFU_ONESIDED_FLAG_* value has.
 * @return UTOFU_ERR_INVALID_PATH_ID: UTOFU_ONESIDED_FLAG_PATH() in flags holds no path id.
 * @threads vcq_hdl
 * @manual 3.7.1.1
 */
int utofu_put(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t lcl_stadd,
              utofu_stadd_t rmt_stadd, size_t length, uint64_t edata, unsigned long int flags,
              void *cbdata) UTOFU_MUST_USE;

/**
 * utofu_put_gap - put memory of this process into memory of another, at a chosen pace
 *
 * Works as utofu_put(), with the packet size and the pause between packets chosen by the caller.
 *
 * mtu and gap shape the traffic on a network where several communications are known to share a
 * link; they do not change the result.
 *
 * @param vcq_hdl    [in] The local VCQ.
 * @param rmt_vcq_id [in] The id of the remote VCQ; its owner learns it from utofu_query_vcq_id().
 * @param lcl_stadd  [in] The STADD of the local memory to read.
 * @param rmt_stadd  [in] The STADD of the remote memory to write.
 * @param length     [in] The size of the data in bytes, 0 to utofu_onesided_caps::max_putget_size.
 * @param edata      [in] A value handed out in the MRQ notices; utofu_onesided_caps::max_edata_size
 *     bytes (0 to 255).
 * @param flags      [in] UTOFU_ONESIDED_FLAG_* values joined by bitwise OR; the group onesided-put
 *     lists the flags with an effect.
 * @param mtu        [in] The maximum bytes in a packet, up to utofu_onesided_caps::max_mtu; 0 means
 *     max_mtu.
 * @param gap        [in] The pause after each packet, 0 to utofu_onesided_caps::max_gap. The
 *     sending rate falls to 8 / (gap + 8) of the full one.
 * @param cbdata     [in] A value that utofu_poll_tcq() hands out for this communication; any value.
 * @flags onesided-put
 * @return UTOFU_SUCCESS: The communication is submitted.
 * @return UTOFU_ERR_BUSY: The TOQ or the TCQ has no room. Nothing was submitted. Call
 *     utofu_poll_tcq() and try again.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @return UTOFU_ERR_INVALID_VCQ_ID: rmt_vcq_id is not a VCQ id.
 * @return UTOFU_ERR_INVALID_SIZE: length is more than max_putget_size, or mtu is more than max_mtu.
 * @return UTOFU_ERR_INVALID_EDATA: edata does not fit in max_edata_size bytes.
 * @return UTOFU_ERR_INVALID_FLAGS: flags has a bit set that no UTOFU_ONESIDED_FLAG_* value has.
 * @return UTOFU_ERR_INVALID_PATH_ID: UTOFU_ONESIDED_FLAG_PATH() in flags holds no path id.
 * @return UTOFU_ERR_INVALID_NUMBER: gap is more than max_gap.
 * @threads vcq_hdl
 * @manual 3.7.1.2
 */
int utofu_put_gap(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t lcl_stadd,
                  utofu_stadd_t rmt_stadd, size_t length, uint64_t edata, unsigned long int flags,
                  size_t mtu, size_t gap, void *cbdata) UTOFU_MUST_USE;

/**
 * utofu_put_stride - put blocks that lie at equal distances
 *
 * Submits num_blocks Put descriptors at once. Block i, counted from 0, moves length bytes between
 * lcl_stadd + i * stride and rmt_stadd + i * stride, in the direction of utofu_put(). Every block
 * is a communication of its own: with edata and flags as given, including the SPS, and with notices
 * of its own, so that UTOFU_ONESIDED_FLAG_TCQ_NOTICE gives num_blocks TCQ entries. All blocks are
 * submitted or none.
 *
 * @param vcq_hdl    [in] The local VCQ.
 * @param rmt_vcq_id [in] The id of the remote VCQ; its owner learns it from utofu_query_vcq_id().
 * @param lcl_stadd  [in] The STADD of the first block of local memory to read.
 * @param rmt_stadd  [in] The STADD of the first block of remote memory to write.
 * @param length     [in] The size of each block in bytes, 0 to
 *     utofu_onesided_caps::max_putget_size.
 * @param stride     [in] The distance in bytes from the start of one block to the start of the
 *     next, on both sides.
 * @param num_blocks [in] How many blocks, each a descriptor; 0 submits none.
 * @param edata      [in] A value handed out in the MRQ notices; utofu_onesided_caps::max_edata_size
 *     bytes (0 to 255).
 * @param flags      [in] UTOFU_ONESIDED_FLAG_* values joined by bitwise OR; the group onesided-put
 *     lists the flags with an effect.
 * @param cbdata     [in] A value that utofu_poll_tcq() hands out for each of the communications;
 *     any value.
 * @flags onesided-put
 * @return UTOFU_SUCCESS: The blocks are submitted.
 * @return UTOFU_ERR_BUSY: The TOQ or the TCQ has no room for all the blocks. Nothing was submitted.
 *     Call utofu_poll_tcq() and try again.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @return UTOFU_ERR_INVALID_VCQ_ID: rmt_vcq_id is not a VCQ id.
 * @return UTOFU_ERR_INVALID_SIZE: length is more than max_putget_size.
 * @return UTOFU_ERR_INVALID_EDATA: edata does not fit in max_edata_size bytes.
 * @return UTOFU_ERR_INVALID_FLAGS: flags has a bit set that no UTOFU_ONESIDED_FLAG_* value has.
 * @return UTOFU_ERR_INVALID_PATH_ID: UTOFU_ONESIDED_FLAG_PATH() in flags holds no path id.
 * @return UTOFU_ERR_INVALID_NUMBER: num_blocks is more than the TOQ has entries.
 * @threads vcq_hdl
 * @manual 3.7.1.3
 */
int utofu_put_stride(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t lcl_stadd,
                     utofu_stadd_t rmt_stadd, size_t length, size_t stride, size_t num_blocks,
                     uint64_t edata, unsigned long int flags, void *cbdata) UTOFU_MUST_USE;

/**
 * utofu_put_stride_gap - put blocks that lie at equal distances, at a chosen pace
 *
 * Submits num_blocks Put descriptors at once. Block i, counted from 0, moves length bytes between
 * lcl_stadd + i * stride and rmt_stadd + i * stride, in the direction of utofu_put(). Every block
 * is a communication of its own: with edata and flags as given, including the SPS, and with notices
 * of its own, so that UTOFU_ONESIDED_FLAG_TCQ_NOTICE gives num_blocks TCQ entries. All blocks are
 * submitted or none.
 *
 * mtu and gap are as in utofu_put_gap() and hold for every block.
 *
 * @param vcq_hdl    [in] The local VCQ.
 * @param rmt_vcq_id [in] The id of the remote VCQ; its owner learns it from utofu_query_vcq_id().
 * @param lcl_stadd  [in] The STADD of the first block of local memory to read.
 * @param rmt_stadd  [in] The STADD of the first block of remote memory to write.
 * @param length     [in] The size of each block in bytes, 0 to
 *     utofu_onesided_caps::max_putget_size.
 * @param stride     [in] The distance in bytes from the start of one block to the start of the
 *     next, on both sides.
 * @param num_blocks [in] How many blocks, each a descriptor; 0 submits none.
 * @param edata      [in] A value handed out in the MRQ notices; utofu_onesided_caps::max_edata_size
 *     bytes (0 to 255).
 * @param flags      [in] UTOFU_ONESIDED_FLAG_* values joined by bitwise OR; the group onesided-put
 *     lists the flags with an effect.
 * @param mtu        [in] The maximum bytes in a packet, up to utofu_onesided_caps::max_mtu; 0 means
 *     max_mtu.
 * @param gap        [in] The pause after each packet, 0 to utofu_onesided_caps::max_gap. The
 *     sending rate falls to 8 / (gap + 8) of the full one.
 * @param cbdata     [in] A value that utofu_poll_tcq() hands out for each of the communications;
 *     any value.
 * @flags onesided-put
 * @return UTOFU_SUCCESS: The blocks are submitted.
 * @return UTOFU_ERR_BUSY: The TOQ or the TCQ has no room for all the blocks. Nothing was submitted.
 *     Call utofu_poll_tcq() and try again.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @return UTOFU_ERR_INVALID_VCQ_ID: rmt_vcq_id is not a VCQ id.
 * @return UTOFU_ERR_INVALID_SIZE: length is more than max_putget_size, or mtu is more than max_mtu.
 * @return UTOFU_ERR_INVALID_EDATA: edata does not fit in max_edata_size bytes.
 * @return UTOFU_ERR_INVALID_FLAGS: flags has a bit set that no UTOFU_ONESIDED_FLAG_* value has.
 * @return UTOFU_ERR_INVALID_PATH_ID: UTOFU_ONESIDED_FLAG_PATH() in flags holds no path id.
 * @return UTOFU_ERR_INVALID_NUMBER: num_blocks is more than the TOQ has entries, or gap is more
 *     than max_gap.
 * @threads vcq_hdl
 * @manual 3.7.1.4
 */
int utofu_put_stride_gap(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id,
                         utofu_stadd_t lcl_stadd, utofu_stadd_t rmt_stadd, size_t length,
                         size_t stride, size_t num_blocks, uint64_t edata, unsigned long int flags,
                         size_t mtu, size_t gap, void *cbdata) UTOFU_MUST_USE;

/**
 * utofu_put_piggyback - put a few bytes that travel inside the descriptor
 *
 * Writes length bytes, taken from anywhere in the memory of this process, to remote memory. The
 * data travels inside the descriptor: it needs no registered memory, and the source may be changed
 * as soon as the call returns. Notices and errors of the remote side are those of utofu_put().
 *
 * @param vcq_hdl    [in] The local VCQ.
 * @param rmt_vcq_id [in] The id of the remote VCQ; its owner learns it from utofu_query_vcq_id().
 * @param lcl_data   [in] The data; any address. Ignored when length is 0.
 * @param rmt_stadd  [in] The STADD of the remote memory to write.
 * @param length     [in] The size of the data in bytes, 0 to
 *     utofu_onesided_caps::max_piggyback_size.
 * @param edata      [in] A value handed out in the MRQ notices; utofu_onesided_caps::max_edata_size
 *     bytes (0 to 255).
 * @param flags      [in] UTOFU_ONESIDED_FLAG_* values joined by bitwise OR; the group
 *     onesided-piggyback lists the flags with an effect.
 * @param cbdata     [in] A value that utofu_poll_tcq() hands out for this communication; any value.
 * @flags onesided-piggyback
 * @return UTOFU_SUCCESS: The communication is submitted.
 * @return UTOFU_ERR_BUSY: The TOQ or the TCQ has no room. Nothing was submitted. Call
 *     utofu_poll_tcq() and try again.
 * @return UTOFU_ERR_INVALID_POINTER: lcl_data is NULL while length is not 0.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @return UTOFU_ERR_INVALID_VCQ_ID: rmt_vcq_id is not a VCQ id.
 * @return UTOFU_ERR_INVALID_SIZE: length is more than max_piggyback_size.
 * @return UTOFU_ERR_INVALID_EDATA: edata does not fit in max_edata_size bytes.
 * @return UTOFU_ERR_INVALID_FLAGS: flags has a bit set that no UTOFU_ONESIDED_FLAG_* value has.
 * @return UTOFU_ERR_INVALID_PATH_ID: UTOFU_ONESIDED_FLAG_PATH() in flags holds no path id.
 * @threads vcq_hdl
 * @manual 3.7.1.5
 */
int utofu_put_piggyback(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, void *lcl_data,
                        utofu_stadd_t rmt_stadd, size_t length, uint64_t edata,
                        unsigned long int flags, void *cbdata) UTOFU_MUST_USE;

/**
 * utofu_put_piggyback8 - put a value of up to 8 bytes that travels inside the descriptor
 *
 * Writes the low length bytes of lcl_data to remote memory, in the byte order of the machine. The
 * data travels inside the descriptor and needs no registered memory. Notices and errors of the
 * remote side are those of utofu_put().
 *
 * @param vcq_hdl    [in] The local VCQ.
 * @param rmt_vcq_id [in] The id of the remote VCQ; its owner learns it from utofu_query_vcq_id().
 * @param lcl_data   [in] The value; of fewer than 8 bytes, the less significant ones.
 * @param rmt_stadd  [in] The STADD of the remote memory to write.
 * @param length     [in] The size of the data in bytes, 0 to 8.
 * @param edata      [in] A value handed out in the MRQ notices; utofu_onesided_caps::max_edata_size
 *     bytes (0 to 255).
 * @param flags      [in] UTOFU_ONESIDED_FLAG_* values joined by bitwise OR; the group
 *     onesided-piggyback lists the flags with an effect.
 * @param cbdata     [in] A value that utofu_poll_tcq() hands out for this communication; any value.
 * @flags onesided-piggyback
 * @return UTOFU_SUCCESS: The communication is submitted.
 * @return UTOFU_ERR_BUSY: The TOQ or the TCQ has no room. Nothing was submitted. Call
 *     utofu_poll_tcq() and try again.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @return UTOFU_ERR_INVALID_VCQ_ID: rmt_vcq_id is not a VCQ id.
 * @return UTOFU_ERR_INVALID_SIZE: length is more than 8.
 * @return UTOFU_ERR_INVALID_EDATA: edata does not fit in max_edata_size bytes.
 * @return UTOFU_ERR_INVALID_FLAGS: flags has a bit set that no UTOFU_ONESIDED_FLAG_* value has.
 * @return UTOFU_ERR_INVALID_PATH_ID: UTOFU_ONESIDED_FLAG_PATH() in flags holds no path id.
 * @threads vcq_hdl
 * @manual 3.7.1.6
 */
int utofu_put_piggyback8(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, uint64_t lcl_data,
                         utofu_stadd_t rmt_stadd, size_t length, uint64_t edata,
                         unsigned long int flags, void *cbdata) UTOFU_MUST_USE;

/**
 * utofu_get - get memory of another process into memory of this one
 *
 * Copies length bytes from remote to local memory. The remote TNI reads them without help of the
 * remote process.
 *
 * The data is in place after the local MRQ notice. The remote memory may be changed after the
 * remote MRQ notice, or after the local one. The TCQ entry only says that the request was sent. A
 * wrong STADD, local or remote, is reported by utofu_poll_tcq() or utofu_poll_mrq(), not by this
 * call.
 *
 * @param vcq_hdl    [in] The local VCQ.
 * @param rmt_vcq_id [in] The id of the remote VCQ; its owner learns it from utofu_query_vcq_id().
 * @param lcl_stadd  [in] The STADD of the local memory to write.
 * @param rmt_stadd  [in] The STADD of the remote memory to read.
 * @param length     [in] The size of the data in bytes, 0 to utofu_onesided_caps::max_putget_size.
 * @param edata      [in] A value handed out in the MRQ notices; utofu_onesided_caps::max_edata_size
 *     bytes (0 to 255).
 * @param flags      [in] UTOFU_ONESIDED_FLAG_* values joined by bitwise OR; the group onesided-get
 *     lists the flags with an effect.
 * @param cbdata     [in] A value that utofu_poll_tcq() hands out for this communication; any value.
 * @flags onesided-get
 * @return UTOFU_SUCCESS: The communication is submitted.
 * @return UTOFU_ERR_BUSY: The TOQ or the TCQ has no room. Nothing was submitted. Call
 *     utofu_poll_tcq() and try again.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @return UTOFU_ERR_INVALID_VCQ_ID: rmt_vcq_id is not a VCQ id.
 * @return UTOFU_ERR_INVALID_SIZE: length is more than max_putget_size.
 * @return UTOFU_ERR_INVALID_EDATA: edata does not fit in max_edata_size bytes.
 * @return UTOFU_ERR_INVALID_FLAGS: flags has a bit set that no UTOFU_ONESIDED_FLAG_* value has.
 * @return UTOFU_ERR_INVALID_PATH_ID: UTOFU_ONESIDED_FLAG_PATH() in flags holds no path id.
 * @threads vcq_hdl
 * @manual 3.7.1.7
 */
int utofu_get(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t lcl_stadd,
              utofu_stadd_t rmt_stadd, size_t length, uint64_t edata, unsigned long int flags,
              void *cbdata) UTOFU_MUST_USE;

/**
 * utofu_get_gap - get memory of another process into memory of this one, at a chosen pace
 *
 * Works as utofu_get(), with the packet size and the pause between packets chosen by the caller.
 *
 * mtu and gap shape the traffic on a network where several communications are known to share a
 * link; they do not change the result.
 *
 * @param vcq_hdl    [in] The local VCQ.
 * @param rmt_vcq_id [in] The id of the remote VCQ; its owner learns it from utofu_query_vcq_id().
 * @param lcl_stadd  [in] The STADD of the local memory to write.
 * @param rmt_stadd  [in] The STADD of the remote memory to read.
 * @param length     [in] The size of the data in bytes, 0 to utofu_onesided_caps::max_putget_size.
 * @param edata      [in] A value handed out in the MRQ notices; utofu_onesided_caps::max_edata_size
 *     bytes (0 to 255).
 * @param flags      [in] UTOFU_ONESIDED_FLAG_* values joined by bitwise OR; the group onesided-get
 *     lists the flags with an effect.
 * @param mtu        [in] The maximum bytes in a packet, up to utofu_onesided_caps::max_mtu; 0 means
 *     max_mtu.
 * @param gap        [in] The pause after each packet, 0 to utofu_onesided_caps::max_gap. The
 *     sending rate falls to 8 / (gap + 8) of the full one.
 * @param cbdata     [in] A value that utofu_poll_tcq() hands out for this communication; any value.
 * @flags onesided-get
 * @return UTOFU_SUCCESS: The communication is submitted.
 * @return UTOFU_ERR_BUSY: The TOQ or the TCQ has no room. Nothing was submitted. Call
 *     utofu_poll_tcq() and try again.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @return UTOFU_ERR_INVALID_VCQ_ID: rmt_vcq_id is not a VCQ id.
 * @return UTOFU_ERR_INVALID_SIZE: length is more than max_putget_size, or mtu is more than max_mtu.
 * @return UTOFU_ERR_INVALID_EDATA: edata does not fit in max_edata_size bytes.
 * @return UTOFU_ERR_INVALID_FLAGS: flags has a bit set that no UTOFU_ONESIDED_FLAG_* value has.
 * @return UTOFU_ERR_INVALID_PATH_ID: UTOFU_ONESIDED_FLAG_PATH() in flags holds no path id.
 * @return UTOFU_ERR_INVALID_NUMBER: gap is more than max_gap.
 * @threads vcq_hdl
 * @manual 3.7.1.8
 */
int utofu_get_gap(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t lcl_stadd,
                  utofu_stadd_t rmt_stadd, size_t length, uint64_t edata, unsigned long int flags,
                  size_t mtu, size_t gap, void *cbdata) UTOFU_MUST_USE;

/**
 * utofu_get_stride - get blocks that lie at equal distances
 *
 * Submits num_blocks Get descriptors at once. Block i, counted from 0, moves length bytes between
 * lcl_stadd + i * stride and rmt_stadd + i * stride, in the direction of utofu_get(). Every block
 * is a communication of its own: with edata and flags as given, and with notices of its own, so
 * that UTOFU_ONESIDED_FLAG_TCQ_NOTICE gives num_blocks TCQ entries. All blocks are submitted or
 * none.
 *
 * @param vcq_hdl    [in] The local VCQ.
 * @param rmt_vcq_id [in] The id of the remote VCQ; its owner learns it from utofu_query_vcq_id().
 * @param lcl_stadd  [in] The STADD of the first block of local memory to write.
 * @param rmt_stadd  [in] The STADD of the first block of remote memory to read.
 * @param length     [in] The size of each block in bytes, 0 to
 *     utofu_onesided_caps::max_putget_size.
 * @param stride     [in] The distance in bytes from the start of one block to the start of the
 *     next, on both sides.
 * @param num_blocks [in] How many blocks, each a descriptor; 0 submits none.
 * @param edata      [in] A value handed out in the MRQ notices; utofu_onesided_caps::max_edata_size
 *     bytes (0 to 255).
 * @param flags      [in] UTOFU_ONESIDED_FLAG_* values joined by bitwise OR; the group onesided-get
 *     lists the flags with an effect.
 * @param cbdata     [in] A value that utofu_poll_tcq() hands out for each of the communications;
 *     any value.
 * @flags onesided-get
 * @return UTOFU_SUCCESS: The blocks are submitted.
 * @return UTOFU_ERR_BUSY: The TOQ or the TCQ has no room for all the blocks. Nothing was submitted.
 *     Call utofu_poll_tcq() and try again.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @return UTOFU_ERR_INVALID_VCQ_ID: rmt_vcq_id is not a VCQ id.
 * @return UTOFU_ERR_INVALID_SIZE: length is more than max_putget_size.
 * @return UTOFU_ERR_INVALID_EDATA: edata does not fit in max_edata_size bytes.
 * @return UTOFU_ERR_INVALID_FLAGS: flags has a bit set that no UTOFU_ONESIDED_FLAG_* value has.
 * @return UTOFU_ERR_INVALID_PATH_ID: UTOFU_ONESIDED_FLAG_PATH() in flags holds no path id.
 * @return UTOFU_ERR_INVALID_NUMBER: num_blocks is more than the TOQ has entries.
 * @threads vcq_hdl
 * @manual 3.7.1.9
 */
int utofu_get_stride(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t lcl_stadd,
                     utofu_stadd_t rmt_stadd, size_t length, size_t stride, size_t num_blocks,
                     uint64_t edata, unsigned long int flags, void *cbdata) UTOFU_MUST_USE;

/**
 * utofu_get_stride_gap - get blocks that lie at equal distances, at a chosen pace
 *
 * Submits num_blocks Get descriptors at once. Block i, counted from 0, moves length bytes between
 * lcl_stadd + i * stride and rmt_stadd + i * stride, in the direction of utofu_get(). Every block
 * is a communication of its own: with edata and flags as given, and with notices of its own, so
 * that UTOFU_ONESIDED_FLAG_TCQ_NOTICE gives num_blocks TCQ entries. All blocks are submitted or
 * none.
 *
 * mtu and gap are as in utofu_get_gap() and hold for every block.
 *
 * @param vcq_hdl    [in] The local VCQ.
 * @param rmt_vcq_id [in] The id of the remote VCQ; its owner learns it from utofu_query_vcq_id().
 * @param lcl_stadd  [in] The STADD of the first block of local memory to write.
 * @param rmt_stadd  [in] The STADD of the first block of remote memory to read.
 * @param length     [in] The size of each block in bytes, 0 to
 *     utofu_onesided_caps::max_putget_size.
 * @param stride     [in] The distance in bytes from the start of one block to the start of the
 *     next, on both sides.
 * @param num_blocks [in] How many blocks, each a descriptor; 0 submits none.
 * @param edata      [in] A value handed out in the MRQ notices; utofu_onesided_caps::max_edata_size
 *     bytes (0 to 255).
 * @param flags      [in] UTOFU_ONESIDED_FLAG_* values joined by bitwise OR; the group onesided-get
 *     lists the flags with an effect.
 * @param mtu        [in] The maximum bytes in a packet, up to utofu_onesided_caps::max_mtu; 0 means
 *     max_mtu.
 * @param gap        [in] The pause after each packet, 0 to utofu_onesided_caps::max_gap. The
 *     sending rate falls to 8 / (gap + 8) of the full one.
 * @param cbdata     [in] A value that utofu_poll_tcq() hands out for each of the communications;
 *     any value.
 * @flags onesided-get
 * @return UTOFU_SUCCESS: The blocks are submitted.
 * @return UTOFU_ERR_BUSY: The TOQ or the TCQ has no room for all the blocks. Nothing was submitted.
 *     Call utofu_poll_tcq() and try again.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @return UTOFU_ERR_INVALID_VCQ_ID: rmt_vcq_id is not a VCQ id.
 * @return UTOFU_ERR_INVALID_SIZE: length is more than max_putget_size, or mtu is more than max_mtu.
 * @return UTOFU_ERR_INVALID_EDATA: edata does not fit in max_edata_size bytes.
 * @return UTOFU_ERR_INVALID_FLAGS: flags has a bit set that no UTOFU_ONESIDED_FLAG_* value has.
 * @return UTOFU_ERR_INVALID_PATH_ID: UTOFU_ONESIDED_FLAG_PATH() in flags holds no path id.
 * @return UTOFU_ERR_INVALID_NUMBER: num_blocks is more than the TOQ has entries, or gap is more
 *     than max_gap.
 * @threads vcq_hdl
 * @manual 3.7.1.10
 */
int utofu_get_stride_gap(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id,
                         utofu_stadd_t lcl_stadd, utofu_stadd_t rmt_stadd, size_t length,
                         size_t stride, size_t num_blocks, uint64_t edata, unsigned long int flags,
                         size_t mtu, size_t gap, void *cbdata) UTOFU_MUST_USE;

/**
 * utofu_armw4 - change a 4-byte word of remote memory atomically
 *
 * Applies armw_op to the 32-bit word at rmt_stadd, with op_value as the other operand, and stores
 * the result there: swap stores op_value itself. The read, the operation and the write are one
 * step: no other ARMW on that word, from any VCQ, and no atomic instruction of the remote CPU can
 * come between them. The previous value of the word is utofu_mrq_notice::rmt_value of the local MRQ
 * notice, whose upper 32 bits are 0. A wrong remote STADD is reported by utofu_poll_mrq().
 *
 * @param vcq_hdl    [in] The local VCQ.
 * @param rmt_vcq_id [in] The id of the remote VCQ; its owner learns it from utofu_query_vcq_id().
 * @param armw_op    [in] The operation; an enum utofu_armw_op value that
 *     utofu_onesided_caps::armw_ops lists.
 * @param op_value   [in] The local operand.
 * @param rmt_stadd  [in] The STADD of the remote word, whose address is a multiple of 4.
 * @param edata      [in] A value handed out in the MRQ notices; utofu_onesided_caps::max_edata_size
 *     bytes (0 to 255).
 * @param flags      [in] UTOFU_ONESIDED_FLAG_* values joined by bitwise OR; the group onesided-armw
 *     lists the flags with an effect.
 * @param cbdata     [in] A value that utofu_poll_tcq() hands out for this communication; any value.
 * @flags onesided-armw
 * @return UTOFU_SUCCESS: The communication is submitted.
 * @return UTOFU_ERR_BUSY: The TOQ or the TCQ has no room. Nothing was submitted. Call
 *     utofu_poll_tcq() and try again.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @return UTOFU_ERR_INVALID_VCQ_ID: rmt_vcq_id is not a VCQ id.
 * @return UTOFU_ERR_INVALID_STADD: rmt_stadd is not a multiple of 4.
 * @return UTOFU_ERR_INVALID_EDATA: edata does not fit in max_edata_size bytes.
 * @return UTOFU_ERR_INVALID_OP: armw_op is not an enum utofu_armw_op value.
 * @return UTOFU_ERR_INVALID_FLAGS: flags has a bit set that no UTOFU_ONESIDED_FLAG_* value has.
 * @return UTOFU_ERR_INVALID_PATH_ID: UTOFU_ONESIDED_FLAG_PATH() in flags holds no path id.
 * @threads vcq_hdl
 * @manual 3.7.1.11
 */
int utofu_armw4(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, enum utofu_armw_op armw_op,
                uint32_t op_value, utofu_stadd_t rmt_stadd, uint64_t edata, unsigned long int flags,
                void *cbdata) UTOFU_MUST_USE;

/**
 * utofu_armw8 - change an 8-byte word of remote memory atomically
 *
 * Applies armw_op to the 64-bit word at rmt_stadd, with op_value as the other operand, and stores
 * the result there: swap stores op_value itself. The read, the operation and the write are one
 * step: no other ARMW on that word, from any VCQ, and no atomic instruction of the remote CPU can
 * come between them. The previous value of the word is utofu_mrq_notice::rmt_value of the local MRQ
 * notice. A wrong remote STADD is reported by utofu_poll_mrq().
 *
 * @param vcq_hdl    [in] The local VCQ.
 * @param rmt_vcq_id [in] The id of the remote VCQ; its owner learns it from utofu_query_vcq_id().
 * @param armw_op    [in] The operation; an enum utofu_armw_op value that
 *     utofu_onesided_caps::armw_ops lists.
 * @param op_value   [in] The local operand.
 * @param rmt_stadd  [in] The STADD of the remote word, whose address is a multiple of 8.
 * @param edata      [in] A value handed out in the MRQ notices; utofu_onesided_caps::max_edata_size
 *     bytes (0 to 255).
 * @param flags      [in] UTOFU_ONESIDED_FLAG_* values joined by bitwise OR; the group onesided-armw
 *     lists the flags with an effect.
 * @param cbdata     [in] A value that utofu_poll_tcq() hands out for this communication; any value.
 * @flags onesided-armw
 * @return UTOFU_SUCCESS: The communication is submitted.
 * @return UTOFU_ERR_BUSY: The TOQ or the TCQ has no room. Nothing was submitted. Call
 *     utofu_poll_tcq() and try again.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @return UTOFU_ERR_INVALID_VCQ_ID: rmt_vcq_id is not a VCQ id.
 * @return UTOFU_ERR_INVALID_STADD: rmt_stadd is not a multiple of 8.
 * @return UTOFU_ERR_INVALID_EDATA: edata does not fit in max_edata_size bytes.
 * @return UTOFU_ERR_INVALID_OP: armw_op is not an enum utofu_armw_op value.
 * @return UTOFU_ERR_INVALID_FLAGS: flags has a bit set that no UTOFU_ONESIDED_FLAG_* value has.
 * @return UTOFU_ERR_INVALID_PATH_ID: UTOFU_ONESIDED_FLAG_PATH() in flags holds no path id.
 * @threads vcq_hdl
 * @manual 3.7.1.12
 */
int utofu_armw8(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, enum utofu_armw_op armw_op,
                uint64_t op_value, utofu_stadd_t rmt_stadd, uint64_t edata, unsigned long int flags,
                void *cbdata) UTOFU_MUST_USE;

/**
 * utofu_cswap4 - compare and swap a 4-byte word of remote memory
 *
 * Stores new_value in the 32-bit word at rmt_stadd if the word equals old_value, and leaves it
 * alone otherwise. The swap happened if the previous value equals old_value. The read, the
 * operation and the write are one step: no other ARMW on that word, from any VCQ, and no atomic
 * instruction of the remote CPU can come between them. The previous value of the word is
 * utofu_mrq_notice::rmt_value of the local MRQ notice, whose upper 32 bits are 0. A wrong remote
 * STADD is reported by utofu_poll_mrq().
 *
 * @param vcq_hdl    [in] The local VCQ.
 * @param rmt_vcq_id [in] The id of the remote VCQ; its owner learns it from utofu_query_vcq_id().
 * @param old_value  [in] The value to compare with.
 * @param new_value  [in] The value to store.
 * @param rmt_stadd  [in] The STADD of the remote word, whose address is a multiple of 4.
 * @param edata      [in] A value handed out in the MRQ notices; utofu_onesided_caps::max_edata_size
 *     bytes (0 to 255).
 * @param flags      [in] UTOFU_ONESIDED_FLAG_* values joined by bitwise OR; the group onesided-armw
 *     lists the flags with an effect.
 * @param cbdata     [in] A value that utofu_poll_tcq() hands out for this communication; any value.
 * @flags onesided-armw
 * @return UTOFU_SUCCESS: The communication is submitted.
 * @return UTOFU_ERR_BUSY: The TOQ or the TCQ has no room. Nothing was submitted. Call
 *     utofu_poll_tcq() and try again.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @return UTOFU_ERR_INVALID_VCQ_ID: rmt_vcq_id is not a VCQ id.
 * @return UTOFU_ERR_INVALID_STADD: rmt_stadd is not a multiple of 4.
 * @return UTOFU_ERR_INVALID_EDATA: edata does not fit in max_edata_size bytes.
 * @return UTOFU_ERR_INVALID_FLAGS: flags has a bit set that no UTOFU_ONESIDED_FLAG_* value has.
 * @return UTOFU_ERR_INVALID_PATH_ID: UTOFU_ONESIDED_FLAG_PATH() in flags holds no path id.
 * @threads vcq_hdl
 * @manual 3.7.1.13
 */
int utofu_cswap4(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, uint32_t old_value,
                 uint32_t new_value, utofu_stadd_t rmt_stadd, uint64_t edata,
                 unsigned long int flags, void *cbdata) UTOFU_MUST_USE;

/**
 * utofu_cswap8 - compare and swap an 8-byte word of remote memory
 *
 * Stores new_value in the 64-bit word at rmt_stadd if the word equals old_value, and leaves it
 * alone otherwise. The swap happened if the previous value equals old_value. The read, the
 * operation and the write are one step: no other ARMW on that word, from any VCQ, and no atomic
 * instruction of the remote CPU can come between them. The previous value of the word is
 * utofu_mrq_notice::rmt_value of the local MRQ notice. A wrong remote STADD is reported by
 * utofu_poll_mrq().
 *
 * @param vcq_hdl    [in] The local VCQ.
 * @param rmt_vcq_id [in] The id of the remote VCQ; its owner learns it from utofu_query_vcq_id().
 * @param old_value  [in] The value to compare with.
 * @param new_value  [in] The value to store.
 * @param rmt_stadd  [in] The STADD of the remote word, whose address is a multiple of 8.
 * @param edata      [in] A value handed out in the MRQ notices; utofu_onesided_caps::max_edata_size
 *     bytes (0 to 255).
 * @param flags      [in] UTOFU_ONESIDED_FLAG_* values joined by bitwise OR; the group onesided-armw
 *     lists the flags with an effect.
 * @param cbdata     [in] A value that utofu_poll_tcq() hands out for this communication; any value.
 * @flags onesided-armw
 * @return UTOFU_SUCCESS: The communication is submitted.
 * @return UTOFU_ERR_BUSY: The TOQ or the TCQ has no room. Nothing was submitted. Call
 *     utofu_poll_tcq() and try again.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @return UTOFU_ERR_INVALID_VCQ_ID: rmt_vcq_id is not a VCQ id.
 * @return UTOFU_ERR_INVALID_STADD: rmt_stadd is not a multiple of 8.
 * @return UTOFU_ERR_INVALID_EDATA: edata does not fit in max_edata_size bytes.
 * @return UTOFU_ERR_INVALID_FLAGS: flags has a bit set that no UTOFU_ONESIDED_FLAG_* value has.
 * @return UTOFU_ERR_INVALID_PATH_ID: UTOFU_ONESIDED_FLAG_PATH() in flags holds no path id.
 * @threads vcq_hdl
 * @manual 3.7.1.14
 */
int utofu_cswap8(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, uint64_t old_value,
                 uint64_t new_value, utofu_stadd_t rmt_stadd, uint64_t edata,
                 unsigned long int flags, void *cbdata) UTOFU_MUST_USE;

/**
 * utofu_nop - submit a descriptor that does nothing
 *
 * Takes a TOQ entry and communicates nothing. In session mode it fills up the count of descriptors
 * that an arriving put starts; in free mode it only costs the entry. It can have a TCQ entry, and
 * never an MRQ notice.
 *
 * @param vcq_hdl [in] The local VCQ.
 * @param flags   [in] UTOFU_ONESIDED_FLAG_* values joined by bitwise OR; the group onesided-nop
 *     lists the flags with an effect.
 * @param cbdata  [in] A value that utofu_poll_tcq() hands out for this communication; any value.
 * @flags onesided-nop
 * @return UTOFU_SUCCESS: The descriptor is submitted.
 * @return UTOFU_ERR_BUSY: The TOQ or the TCQ has no room. Nothing was submitted. Call
 *     utofu_poll_tcq() and try again.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @return UTOFU_ERR_INVALID_FLAGS: flags has a bit set that no UTOFU_ONESIDED_FLAG_* value has.
 * @threads vcq_hdl
 * @manual 3.7.1.15
 */
int utofu_nop(utofu_vcq_hdl_t vcq_hdl, unsigned long int flags, void *cbdata) UTOFU_MUST_USE;

/*
 * Prepare functions: the same descriptors, written to memory of the caller.
 */

/**
 * utofu_prepare_put - write a descriptor for a put
 *
 * Does all that utofu_put() does except submitting: the descriptor can be submitted later, and any
 * number of times, with utofu_post_toq() on the same VCQ. Callback data is given there. Nothing is
 * started, so UTOFU_ONESIDED_FLAG_DELAY_START has no effect.
 *
 * @param vcq_hdl    [in] The local VCQ.
 * @param rmt_vcq_id [in] The id of the remote VCQ; its owner learns it from utofu_query_vcq_id().
 * @param lcl_stadd  [in] The STADD of the local memory to read.
 * @param rmt_stadd  [in] The STADD of the remote memory to write.
 * @param length     [in] The size of the data in bytes, 0 to utofu_onesided_caps::max_putget_size.
 * @param edata      [in] A value handed out in the MRQ notices; utofu_onesided_caps::max_edata_size
 *     bytes (0 to 255).
 * @param flags      [in] UTOFU_ONESIDED_FLAG_* values joined by bitwise OR; the group onesided-put
 *     lists the flags with an effect.
 * @param desc       [out] The descriptor, written to memory of the caller: room for
 *     utofu_onesided_caps::max_toq_desc_size bytes, 8-byte aligned.
 * @param desc_size  [out] The number of bytes written, which may be less than the room required.
 * @flags onesided-put
 * @return UTOFU_SUCCESS: The descriptor is written.
 * @return UTOFU_ERR_INVALID_POINTER: desc or desc_size is NULL, or desc is not 8-byte aligned.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @return UTOFU_ERR_INVALID_VCQ_ID: rmt_vcq_id is not a VCQ id.
 * @return UTOFU_ERR_INVALID_SIZE: length is more than max_putget_size.
 * @return UTOFU_ERR_INVALID_EDATA: edata does not fit in max_edata_size bytes.
 * @return UTOFU_ERR_INVALID_FLAGS: flags has a bit set that no UTOFU_ONESIDED_FLAG_* value has.
 * @return UTOFU_ERR_INVALID_PATH_ID: UTOFU_ONESIDED_FLAG_PATH() in flags holds no path id.
 * @threads vcq_hdl
 * @manual 3.7.2.1
 */
int utofu_prepare_put(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t lcl_stadd,
                      utofu_stadd_t rmt_stadd, size_t length, uint64_t edata,
                      unsigned long int flags, void *desc, size_t *desc_size) UTOFU_MUST_USE;

/**
 * utofu_prepare_put_gap - write a descriptor for a put at a chosen pace
 *
 * Does all that utofu_put_gap() does except submitting: the descriptor can be submitted later, and
 * any number of times, with utofu_post_toq() on the same VCQ. Callback data is given there. Nothing
 * is started, so UTOFU_ONESIDED_FLAG_DELAY_START has no effect.
 *
 * @param vcq_hdl    [in] The local VCQ.
 * @param rmt_vcq_id [in] The id of the remote VCQ; its owner learns it from utofu_query_vcq_id().
 * @param lcl_stadd  [in] The STADD of the local memory to read.
 * @param rmt_stadd  [in] The STADD of the remote memory to write.
 * @param length     [in] The size of the data in bytes, 0 to utofu_onesided_caps::max_putget_size.
 * @param edata      [in] A value handed out in the MRQ notices; utofu_onesided_caps::max_edata_size
 *     bytes (0 to 255).
 * @param flags      [in] UTOFU_ONESIDED_FLAG_* values joined by bitwise OR; the group onesided-put
 *     lists the flags with an effect.
 * @param mtu        [in] The maximum bytes in a packet, up to utofu_onesided_caps::max_mtu; 0 means
 *     max_mtu.
 * @param gap        [in] The pause after each packet, 0 to utofu_onesided_caps::max_gap. The
 *     sending rate falls to 8 / (gap + 8) of the full one.
 * @param desc       [out] The descriptor, written to memory of the caller: room for
 *     utofu_onesided_caps::max_toq_desc_size bytes, 8-byte aligned.
 * @param desc_size  [out] The number of bytes written, which may be less than the room required.
 * @flags onesided-put
 * @return UTOFU_SUCCESS: The descriptor is written.
 * @return UTOFU_ERR_INVALID_POINTER: desc or desc_size is NULL, or desc is not 8-byte aligned.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @return UTOFU_ERR_INVALID_VCQ_ID: rmt_vcq_id is not a VCQ id.
 * @return UTOFU_ERR_INVALID_SIZE: length is more than max_putget_size, or mtu is more than max_mtu.
 * @return UTOFU_ERR_INVALID_EDATA: edata does not fit in max_edata_size bytes.
 * @return UTOFU_ERR_INVALID_FLAGS: flags has a bit set that no UTOFU_ONESIDED_FLAG_* value has.
 * @return UTOFU_ERR_INVALID_PATH_ID: UTOFU_ONESIDED_FLAG_PATH() in flags holds no path id.
 * @return UTOFU_ERR_INVALID_NUMBER: gap is more than max_gap.
 * @threads vcq_hdl
 * @manual 3.7.2.2
 */
int utofu_prepare_put_gap(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id,
                          utofu_stadd_t lcl_stadd, utofu_stadd_t rmt_stadd, size_t length,
                          uint64_t edata, unsigned long int flags, size_t mtu, size_t gap,
                          void *desc, size_t *desc_size) UTOFU_MUST_USE;

/**
 * utofu_prepare_put_stride - write descriptors for puts of blocks at equal distances
 *
 * Does all that utofu_put_stride() does except submitting: descriptors can be submitted later, and
 * any number of times, with utofu_post_toq() on the same VCQ. Callback data is given there. Nothing
 * is started, so UTOFU_ONESIDED_FLAG_DELAY_START has no effect.
 *
 * @param vcq_hdl    [in] The local VCQ.
 * @param rmt_vcq_id [in] The id of the remote VCQ; its owner learns it from utofu_query_vcq_id().
 * @param lcl_stadd  [in] The STADD of the first block of local memory to read.
 * @param rmt_stadd  [in] The STADD of the first block of remote memory to write.
 * @param length     [in] The size of each block in bytes, 0 to
 *     utofu_onesided_caps::max_putget_size.
 * @param stride     [in] The distance in bytes from the start of one block to the start of the
 *     next, on both sides.
 * @param num_blocks [in] How many blocks, each a descriptor; 0 submits none.
 * @param edata      [in] A value handed out in the MRQ notices; utofu_onesided_caps::max_edata_size
 *     bytes (0 to 255).
 * @param flags      [in] UTOFU_ONESIDED_FLAG_* values joined by bitwise OR; the group onesided-put
 *     lists the flags with an effect.
 * @param desc       [out] The descriptors, one after the other, written to memory of the caller:
 *     room for num_blocks times utofu_onesided_caps::max_toq_desc_size bytes, 8-byte aligned.
 * @param desc_size  [out] The number of bytes written, which may be less than the room required.
 * @flags onesided-put
 * @return UTOFU_SUCCESS: The descriptors are written.
 * @return UTOFU_ERR_INVALID_POINTER: desc or desc_size is NULL, or desc is not 8-byte aligned.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @return UTOFU_ERR_INVALID_VCQ_ID: rmt_vcq_id is not a VCQ id.
 * @return UTOFU_ERR_INVALID_SIZE: length is more than max_putget_size.
 * @return UTOFU_ERR_INVALID_EDATA: edata does not fit in max_edata_size bytes.
 * @return UTOFU_ERR_INVALID_FLAGS: flags has a bit set that no UTOFU_ONESIDED_FLAG_* value has.
 * @return UTOFU_ERR_INVALID_PATH_ID: UTOFU_ONESIDED_FLAG_PATH() in flags holds no path id.
 * @return UTOFU_ERR_INVALID_NUMBER: num_blocks is more than the TOQ has entries.
 * @threads vcq_hdl
 * @manual 3.7.2.3
 */
int utofu_prepare_put_stride(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id,
                             utofu_stadd_t lcl_stadd, utofu_stadd_t rmt_stadd, size_t length,
                             size_t stride, size_t num_blocks, uint64_t edata,
                             unsigned long int flags, void *desc, size_t *desc_size) UTOFU_MUST_USE;

/**
 * utofu_prepare_put_stride_gap - write descriptors for puts of blocks at equal distances and at a
 * chosen pace
 *
 * Does all that utofu_put_stride_gap() does except submitting: descriptors can be submitted later,
 * and any number of times, with utofu_post_toq() on the same VCQ. Callback data is given there.
 * Nothing is started, so UTOFU_ONESIDED_FLAG_DELAY_START has no effect.
 *
 * @param vcq_hdl    [in] The local VCQ.
 * @param rmt_vcq_id [in] The id of the remote VCQ; its owner learns it from utofu_query_vcq_id().
 * @param lcl_stadd  [in] The STADD of the first block of local memory to read.
 * @param rmt_stadd  [in] The STADD of the first block of remote memory to write.
 * @param length     [in] The size of each block in bytes, 0 to
 *     utofu_onesided_caps::max_putget_size.
 * @param stride     [in] The distance in bytes from the start of one block to the start of the
 *     next, on both sides.
 * @param num_blocks [in] How many blocks, each a descriptor; 0 submits none.
 * @param edata      [in] A value handed out in the MRQ notices; utofu_onesided_caps::max_edata_size
 *     bytes (0 to 255).
 * @param flags      [in] UTOFU_ONESIDED_FLAG_* values joined by bitwise OR; the group onesided-put
 *     lists the flags with an effect.
 * @param mtu        [in] The maximum bytes in a packet, up to utofu_onesided_caps::max_mtu; 0 means
 *     max_mtu.
 * @param gap        [in] The pause after each packet, 0 to utofu_onesided_caps::max_gap. The
 *     sending rate falls to 8 / (gap + 8) of the full one.
 * @param desc       [out] The descriptors, one after the other, written to memory of the caller:
 *     room for num_blocks times utofu_onesided_caps::max_toq_desc_size bytes, 8-byte aligned.
 * @param desc_size  [out] The number of bytes written, which may be less than the room required.
 * @flags onesided-put
 * @return UTOFU_SUCCESS: The descriptors are written.
 * @return UTOFU_ERR_INVALID_POINTER: desc or desc_size is NULL, or desc is not 8-byte aligned.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @return UTOFU_ERR_INVALID_VCQ_ID: rmt_vcq_id is not a VCQ id.
 * @return UTOFU_ERR_INVALID_SIZE: length is more than max_putget_size, or mtu is more than max_mtu.
 * @return UTOFU_ERR_INVALID_EDATA: edata does not fit in max_edata_size bytes.
 * @return UTOFU_ERR_INVALID_FLAGS: flags has a bit set that no UTOFU_ONESIDED_FLAG_* value has.
 * @return UTOFU_ERR_INVALID_PATH_ID: UTOFU_ONESIDED_FLAG_PATH() in flags holds no path id.
 * @return UTOFU_ERR_INVALID_NUMBER: num_blocks is more than the TOQ has entries, or gap is more
 *     than max_gap.
 * @threads vcq_hdl
 * @manual 3.7.2.4
 */
int utofu_prepare_put_stride_gap(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id,
                                 utofu_stadd_t lcl_stadd, utofu_stadd_t rmt_stadd, size_t length,
                                 size_t stride, size_t num_blocks, uint64_t edata,
                                 unsigned long int flags, size_t mtu, size_t gap, void *desc,
                                 size_t *desc_size) UTOFU_MUST_USE;

/**
 * utofu_prepare_put_piggyback - write a descriptor for a put of a few bytes
 *
 * Does all that utofu_put_piggyback() does except submitting: the descriptor can be submitted
 * later, and any number of times, with utofu_post_toq() on the same VCQ. Callback data is given
 * there. Nothing is started, so UTOFU_ONESIDED_FLAG_DELAY_START has no effect.
 *
 * The data is copied into the descriptor now, not when it is submitted.
 *
 * @param vcq_hdl    [in] The local VCQ.
 * @param rmt_vcq_id [in] The id of the remote VCQ; its owner learns it from utofu_query_vcq_id().
 * @param lcl_data   [in] The data; any address. Ignored when length is 0.
 * @param rmt_stadd  [in] The STADD of the remote memory to write.
 * @param length     [in] The size of the data in bytes, 0 to
 *     utofu_onesided_caps::max_piggyback_size.
 * @param edata      [in] A value handed out in the MRQ notices; utofu_onesided_caps::max_edata_size
 *     bytes (0 to 255).
 * @param flags      [in] UTOFU_ONESIDED_FLAG_* values joined by bitwise OR; the group
 *     onesided-piggyback lists the flags with an effect.
 * @param desc       [out] The descriptor, written to memory of the caller: room for
 *     utofu_onesided_caps::max_toq_desc_size bytes, 8-byte aligned.
 * @param desc_size  [out] The number of bytes written, which may be less than the room required.
 * @flags onesided-piggyback
 * @return UTOFU_SUCCESS: The descriptor is written.
 * @return UTOFU_ERR_INVALID_POINTER: lcl_data is NULL while length is not 0; desc or desc_size is
 *     NULL, or desc is not 8-byte aligned.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @return UTOFU_ERR_INVALID_VCQ_ID: rmt_vcq_id is not a VCQ id.
 * @return UTOFU_ERR_INVALID_SIZE: length is more than max_piggyback_size.
 * @return UTOFU_ERR_INVALID_EDATA: edata does not fit in max_edata_size bytes.
 * @return UTOFU_ERR_INVALID_FLAGS: flags has a bit set that no UTOFU_ONESIDED_FLAG_* value has.
 * @return UTOFU_ERR_INVALID_PATH_ID: UTOFU_ONESIDED_FLAG_PATH() in flags holds no path id.
 * @threads vcq_hdl
 * @manual 3.7.2.5
 */
int utofu_prepare_put_piggyback(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, void *lcl_data,
                                utofu_stadd_t rmt_stadd, size_t length, uint64_t edata,
                                unsigned long int flags, void *desc,
                                size_t *desc_size) UTOFU_MUST_USE;

/**
 * utofu_prepare_put_piggyback8 - write a descriptor for a put of a value of up to 8 bytes
 *
 * Does all that utofu_put_piggyback8() does except submitting: the descriptor can be submitted
 * later, and any number of times, with utofu_post_toq() on the same VCQ. Callback data is given
 * there. Nothing is started, so UTOFU_ONESIDED_FLAG_DELAY_START has no effect.
 *
 * The data is copied into the descriptor now, not when it is submitted.
 *
 * @param vcq_hdl    [in] The local VCQ.
 * @param rmt_vcq_id [in] The id of the remote VCQ; its owner learns it from utofu_query_vcq_id().
 * @param lcl_data   [in] The value; of fewer than 8 bytes, the less significant ones.
 * @param rmt_stadd  [in] The STADD of the remote memory to write.
 * @param length     [in] The size of the data in bytes, 0 to 8.
 * @param edata      [in] A value handed out in the MRQ notices; utofu_onesided_caps::max_edata_size
 *     bytes (0 to 255).
 * @param flags      [in] UTOFU_ONESIDED_FLAG_* values joined by bitwise OR; the group
 *     onesided-piggyback lists the flags with an effect.
 * @param desc       [out] The descriptor, written to memory of the caller: room for
 *     utofu_onesided_caps::max_toq_desc_size bytes, 8-byte aligned.
 * @param desc_size  [out] The number of bytes written, which may be less than the room required.
 * @flags onesided-piggyback
 * @return UTOFU_SUCCESS: The descriptor is written.
 * @return UTOFU_ERR_INVALID_POINTER: desc or desc_size is NULL, or desc is not 8-byte aligned.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @return UTOFU_ERR_INVALID_VCQ_ID: rmt_vcq_id is not a VCQ id.
 * @return UTOFU_ERR_INVALID_SIZE: length is more than 8.
 * @return UTOFU_ERR_INVALID_EDATA: edata does not fit in max_edata_size bytes.
 * @return UTOFU_ERR_INVALID_FLAGS: flags has a bit set that no UTOFU_ONESIDED_FLAG_* value has.
 * @return UTOFU_ERR_INVALID_PATH_ID: UTOFU_ONESIDED_FLAG_PATH() in flags holds no path id.
 * @threads vcq_hdl
 * @manual 3.7.2.6
 */
int utofu_prepare_put_piggyback8(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id,
                                 uint64_t lcl_data, utofu_stadd_t rmt_stadd, size_t length,
                                 uint64_t edata, unsigned long int flags, void *desc,
                                 size_t *desc_size) UTOFU_MUST_USE;

/**
 * utofu_prepare_get - write a descriptor for a get
 *
 * Does all that utofu_get() does except submitting: the descriptor can be submitted later, and any
 * number of times, with utofu_post_toq() on the same VCQ. Callback data is given there. Nothing is
 * started, so UTOFU_ONESIDED_FLAG_DELAY_START has no effect.
 *
 * @param vcq_hdl    [in] The local VCQ.
 * @param rmt_vcq_id [in] The id of the remote VCQ; its owner learns it from utofu_query_vcq_id().
 * @param lcl_stadd  [in] The STADD of the local memory to write.
 * @param rmt_stadd  [in] The STADD of the remote memory to read.
 * @param length     [in] The size of the data in bytes, 0 to utofu_onesided_caps::max_putget_size.
 * @param edata      [in] A value handed out in the MRQ notices; utofu_onesided_caps::max_edata_size
 *     bytes (0 to 255).
 * @param flags      [in] UTOFU_ONESIDED_FLAG_* values joined by bitwise OR; the group onesided-get
 *     lists the flags with an effect.
 * @param desc       [out] The descriptor, written to memory of the caller: room for
 *     utofu_onesided_caps::max_toq_desc_size bytes, 8-byte aligned.
 * @param desc_size  [out] The number of bytes written, which may be less than the room required.
 * @flags onesided-get
 * @return UTOFU_SUCCESS: The descriptor is written.
 * @return UTOFU_ERR_INVALID_POINTER: desc or desc_size is NULL, or desc is not 8-byte aligned.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @return UTOFU_ERR_INVALID_VCQ_ID: rmt_vcq_id is not a VCQ id.
 * @return UTOFU_ERR_INVALID_SIZE: length is more than max_putget_size.
 * @return UTOFU_ERR_INVALID_EDATA: edata does not fit in max_edata_size bytes.
 * @return UTOFU_ERR_INVALID_FLAGS: flags has a bit set that no UTOFU_ONESIDED_FLAG_* value has.
 * @return UTOFU_ERR_INVALID_PATH_ID: UTOFU_ONESIDED_FLAG_PATH() in flags holds no path id.
 * @threads vcq_hdl
 * @manual 3.7.2.7
 */
int utofu_prepare_get(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t lcl_stadd,
                      utofu_stadd_t rmt_stadd, size_t length, uint64_t edata,
                      unsigned long int flags, void *desc, size_t *desc_size) UTOFU_MUST_USE;

/**
 * utofu_prepare_get_gap - write a descriptor for a get at a chosen pace
 *
 * Does all that utofu_get_gap() does except submitting: the descriptor can be submitted later, and
 * any number of times, with utofu_post_toq() on the same VCQ. Callback data is given there. Nothing
 * is started, so UTOFU_ONESIDED_FLAG_DELAY_START has no effect.
 *
 * @param vcq_hdl    [in] The local VCQ.
 * @param rmt_vcq_id [in] The id of the remote VCQ; its owner learns it from utofu_query_vcq_id().
 * @param lcl_stadd  [in] The STADD of the local memory to write.
 * @param rmt_stadd  [in] The STADD of the remote memory to read.
 * @param length     [in] The size of the data in bytes, 0 to utofu_onesided_caps::max_putget_size.
 * @param edata      [in] A value handed out in the MRQ notices; utofu_onesided_caps::max_edata_size
 *     bytes (0 to 255).
 * @param flags      [in] UTOFU_ONESIDED_FLAG_* values joined by bitwise OR; the group onesided-get
 *     lists the flags with an effect.
 * @param mtu        [in] The maximum bytes in a packet, up to utofu_onesided_caps::max_mtu; 0 means
 *     max_mtu.
 * @param gap        [in] The pause after each packet, 0 to utofu_onesided_caps::max_gap. The
 *     sending rate falls to 8 / (gap + 8) of the full one.
 * @param desc       [out] The descriptor, written to memory of the caller: room for
 *     utofu_onesided_caps::max_toq_desc_size bytes, 8-byte aligned.
 * @param desc_size  [out] The number of bytes written, which may be less than the room required.
 * @flags onesided-get
 * @return UTOFU_SUCCESS: The descriptor is written.
 * @return UTOFU_ERR_INVALID_POINTER: desc or desc_size is NULL, or desc is not 8-byte aligned.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @return UTOFU_ERR_INVALID_VCQ_ID: rmt_vcq_id is not a VCQ id.
 * @return UTOFU_ERR_INVALID_SIZE: length is more than max_putget_size, or mtu is more than max_mtu.
 * @return UTOFU_ERR_INVALID_EDATA: edata does not fit in max_edata_size bytes.
 * @return UTOFU_ERR_INVALID_FLAGS: flags has a bit set that no UTOFU_ONESIDED_FLAG_* value has.
 * @return UTOFU_ERR_INVALID_PATH_ID: UTOFU_ONESIDED_FLAG_PATH() in flags holds no path id.
 * @return UTOFU_ERR_INVALID_NUMBER: gap is more than max_gap.
 * @threads vcq_hdl
 * @manual 3.7.2.8
 */
int utofu_prepare_get_gap(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id,
                          utofu_stadd_t lcl_stadd, utofu_stadd_t rmt_stadd, size_t length,
                          uint64_t edata, unsigned long int flags, size_t mtu, size_t gap,
                          void *desc, size_t *desc_size) UTOFU_MUST_USE;

/**
 * utofu_prepare_get_stride - write descriptors for gets of blocks at equal distances
 *
 * Does all that utofu_get_stride() does except submitting: descriptors can be submitted later, and
 * any number of times, with utofu_post_toq() on the same VCQ. Callback data is given there. Nothing
 * is started, so UTOFU_ONESIDED_FLAG_DELAY_START has no effect.
 *
 * @param vcq_hdl    [in] The local VCQ.
 * @param rmt_vcq_id [in] The id of the remote VCQ; its owner learns it from utofu_query_vcq_id().
 * @param lcl_stadd  [in] The STADD of the first block of local memory to write.
 * @param rmt_stadd  [in] The STADD of the first block of remote memory to read.
 * @param length     [in] The size of each block in bytes, 0 to
 *     utofu_onesided_caps::max_putget_size.
 * @param stride     [in] The distance in bytes from the start of one block to the start of the
 *     next, on both sides.
 * @param num_blocks [in] How many blocks, each a descriptor; 0 submits none.
 * @param edata      [in] A value handed out in the MRQ notices; utofu_onesided_caps::max_edata_size
 *     bytes (0 to 255).
 * @param flags      [in] UTOFU_ONESIDED_FLAG_* values joined by bitwise OR; the group onesided-get
 *     lists the flags with an effect.
 * @param desc       [out] The descriptors, one after the other, written to memory of the caller:
 *     room for num_blocks times utofu_onesided_caps::max_toq_desc_size bytes, 8-byte aligned.
 * @param desc_size  [out] The number of bytes written, which may be less than the room required.
 * @flags onesided-get
 * @return UTOFU_SUCCESS: The descriptors are written.
 * @return UTOFU_ERR_INVALID_POINTER: desc or desc_size is NULL, or desc is not 8-byte aligned.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @return UTOFU_ERR_INVALID_VCQ_ID: rmt_vcq_id is not a VCQ id.
 * @return UTOFU_ERR_INVALID_SIZE: length is more than max_putget_size.
 * @return UTOFU_ERR_INVALID_EDATA: edata does not fit in max_edata_size bytes.
 * @return UTOFU_ERR_INVALID_FLAGS: flags has a bit set that no UTOFU_ONESIDED_FLAG_* value has.
 * @return UTOFU_ERR_INVALID_PATH_ID: UTOFU_ONESIDED_FLAG_PATH() in flags holds no path id.
 * @return UTOFU_ERR_INVALID_NUMBER: num_blocks is more than the TOQ has entries.
 * @threads vcq_hdl
 * @manual 3.7.2.9
 */
int utofu_prepare_get_stride(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id,
                             utofu_stadd_t lcl_stadd, utofu_stadd_t rmt_stadd, size_t length,
                             size_t stride, size_t num_blocks, uint64_t edata,
                             unsigned long int flags, void *desc, size_t *desc_size) UTOFU_MUST_USE;

/**
 * utofu_prepare_get_stride_gap - write descriptors for gets of blocks at equal distances and at a
 * chosen pace
 *
 * Does all that utofu_get_stride_gap() does except submitting: descriptors can be submitted later,
 * and any number of times, with utofu_post_toq() on the same VCQ. Callback data is given there.
 * Nothing is started, so UTOFU_ONESIDED_FLAG_DELAY_START has no effect.
 *
 * @param vcq_hdl    [in] The local VCQ.
 * @param rmt_vcq_id [in] The id of the remote VCQ; its owner learns it from utofu_query_vcq_id().
 * @param lcl_stadd  [in] The STADD of the first block of local memory to write.
 * @param rmt_stadd  [in] The STADD of the first block of remote memory to read.
 * @param length     [in] The size of each block in bytes, 0 to
 *     utofu_onesided_caps::max_putget_size.
 * @param stride     [in] The distance in bytes from the start of one block to the start of the
 *     next, on both sides.
 * @param num_blocks [in] How many blocks, each a descriptor; 0 submits none.
 * @param edata      [in] A value handed out in the MRQ notices; utofu_onesided_caps::max_edata_size
 *     bytes (0 to 255).
 * @param flags      [in] UTOFU_ONESIDED_FLAG_* values joined by bitwise OR; the group onesided-get
 *     lists the flags with an effect.
 * @param mtu        [in] The maximum bytes in a packet, up to utofu_onesided_caps::max_mtu; 0 means
 *     max_mtu.
 * @param gap        [in] The pause after each packet, 0 to utofu_onesided_caps::max_gap. The
 *     sending rate falls to 8 / (gap + 8) of the full one.
 * @param desc       [out] The descriptors, one after the other, written to memory of the caller:
 *     room for num_blocks times utofu_onesided_caps::max_toq_desc_size bytes, 8-byte aligned.
 * @param desc_size  [out] The number of bytes written, which may be less than the room required.
 * @flags onesided-get
 * @return UTOFU_SUCCESS: The descriptors are written.
 * @return UTOFU_ERR_INVALID_POINTER: desc or desc_size is NULL, or desc is not 8-byte aligned.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @return UTOFU_ERR_INVALID_VCQ_ID: rmt_vcq_id is not a VCQ id.
 * @return UTOFU_ERR_INVALID_SIZE: length is more than max_putget_size, or mtu is more than max_mtu.
 * @return UTOFU_ERR_INVALID_EDATA: edata does not fit in max_edata_size bytes.
 * @return UTOFU_ERR_INVALID_FLAGS: flags has a bit set that no UTOFU_ONESIDED_FLAG_* value has.
 * @return UTOFU_ERR_INVALID_PATH_ID: UTOFU_ONESIDED_FLAG_PATH() in flags holds no path id.
 * @return UTOFU_ERR_INVALID_NUMBER: num_blocks is more than the TOQ has entries, or gap is more
 *     than max_gap.
 * @threads vcq_hdl
 * @manual 3.7.2.10
 */
int utofu_prepare_get_stride_gap(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id,
                                 utofu_stadd_t lcl_stadd, utofu_stadd_t rmt_stadd, size_t length,
                                 size_t stride, size_t num_blocks, uint64_t edata,
                                 unsigned long int flags, size_t mtu, size_t gap, void *desc,
                                 size_t *desc_size) UTOFU_MUST_USE;

/**
 * utofu_prepare_armw4 - write a descriptor for an atomic change of a 4-byte word
 *
 * Does all that utofu_armw4() does except submitting: the descriptor can be submitted later, and
 * any number of times, with utofu_post_toq() on the same VCQ. Callback data is given there. Nothing
 * is started, so UTOFU_ONESIDED_FLAG_DELAY_START has no effect.
 *
 * @param vcq_hdl    [in] The local VCQ.
 * @param rmt_vcq_id [in] The id of the remote VCQ; its owner learns it from utofu_query_vcq_id().
 * @param armw_op    [in] The operation; an enum utofu_armw_op value that
 *     utofu_onesided_caps::armw_ops lists.
 * @param op_value   [in] The local operand.
 * @param rmt_stadd  [in] The STADD of the remote word, whose address is a multiple of 4.
 * @param edata      [in] A value handed out in the MRQ notices; utofu_onesided_caps::max_edata_size
 *     bytes (0 to 255).
 * @param flags      [in] UTOFU_ONESIDED_FLAG_* values joined by bitwise OR; the group onesided-armw
 *     lists the flags with an effect.
 * @param desc       [out] The descriptor, written to memory of the caller: room for
 *     utofu_onesided_caps::max_toq_desc_size bytes, 8-byte aligned.
 * @param desc_size  [out] The number of bytes written, which may be less than the room required.
 * @flags onesided-armw
 * @return UTOFU_SUCCESS: The descriptor is written.
 * @return UTOFU_ERR_INVALID_POINTER: desc or desc_size is NULL, or desc is not 8-byte aligned.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @return UTOFU_ERR_INVALID_VCQ_ID: rmt_vcq_id is not a VCQ id.
 * @return UTOFU_ERR_INVALID_STADD: rmt_stadd is not a multiple of 4.
 * @return UTOFU_ERR_INVALID_EDATA: edata does not fit in max_edata_size bytes.
 * @return UTOFU_ERR_INVALID_OP: armw_op is not an enum utofu_armw_op value.
 * @return UTOFU_ERR_INVALID_FLAGS: flags has a bit set that no UTOFU_ONESIDED_FLAG_* value has.
 * @return UTOFU_ERR_INVALID_PATH_ID: UTOFU_ONESIDED_FLAG_PATH() in flags holds no path id.
 * @threads vcq_hdl
 * @manual 3.7.2.11
 */
int utofu_prepare_armw4(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id,
                        enum utofu_armw_op armw_op, uint32_t op_value, utofu_stadd_t rmt_stadd,
                        uint64_t edata, unsigned long int flags, void *desc,
                        size_t *desc_size) UTOFU_MUST_USE;

/**
 * utofu_prepare_armw8 - write a descriptor for an atomic change of an 8-byte word
 *
 * Does all that utofu_armw8() does except submitting: the descriptor can be submitted later, and
 * any number of times, with utofu_post_toq() on the same VCQ. Callback data is given there. Nothing
 * is started, so UTOFU_ONESIDED_FLAG_DELAY_START has no effect.
 *
 * @param vcq_hdl    [in] The local VCQ.
 * @param rmt_vcq_id [in] The id of the remote VCQ; its owner learns it from utofu_query_vcq_id().
 * @param armw_op    [in] The operation; an enum utofu_armw_op value that
 *     utofu_onesided_caps::armw_ops lists.
 * @param op_value   [in] The local operand.
 * @param rmt_stadd  [in] The STADD of the remote word, whose address is a multiple of 8.
 * @param edata      [in] A value handed out in the MRQ notices; utofu_onesided_caps::max_edata_size
 *     bytes (0 to 255).
 * @param flags      [in] UTOFU_ONESIDED_FLAG_* values joined by bitwise OR; the group onesided-armw
 *     lists the flags with an effect.
 * @param desc       [out] The descriptor, written to memory of the caller: room for
 *     utofu_onesided_caps::max_toq_desc_size bytes, 8-byte aligned.
 * @param desc_size  [out] The number of bytes written, which may be less than the room required.
 * @flags onesided-armw
 * @return UTOFU_SUCCESS: The descriptor is written.
 * @return UTOFU_ERR_INVALID_POINTER: desc or desc_size is NULL, or desc is not 8-byte aligned.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @return UTOFU_ERR_INVALID_VCQ_ID: rmt_vcq_id is not a VCQ id.
 * @return UTOFU_ERR_INVALID_STADD: rmt_stadd is not a multiple of 8.
 * @return UTOFU_ERR_INVALID_EDATA: edata does not fit in max_edata_size bytes.
 * @return UTOFU_ERR_INVALID_OP: armw_op is not an enum utofu_armw_op value.
 * @return UTOFU_ERR_INVALID_FLAGS: flags has a bit set that no UTOFU_ONESIDED_FLAG_* value has.
 * @return UTOFU_ERR_INVALID_PATH_ID: UTOFU_ONESIDED_FLAG_PATH() in flags holds no path id.
 * @threads vcq_hdl
 * @manual 3.7.2.12
 */
int utofu_prepare_armw8(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id,
                        enum utofu_armw_op armw_op, uint64_t op_value, utofu_stadd_t rmt_stadd,
                        uint64_t edata, unsigned long int flags, void *desc,
                        size_t *desc_size) UTOFU_MUST_USE;

/**
 * utofu_prepare_cswap4 - write a descriptor for a compare-and-swap of a 4-byte word
 *
 * Does all that utofu_cswap4() does except submitting: the descriptor can be submitted later, and
 * any number of times, with utofu_post_toq() on the same VCQ. Callback data is given there. Nothing
 * is started, so UTOFU_ONESIDED_FLAG_DELAY_START has no effect.
 *
 * @param vcq_hdl    [in] The local VCQ.
 * @param rmt_vcq_id [in] The id of the remote VCQ; its owner learns it from utofu_query_vcq_id().
 * @param old_value  [in] The value to compare with.
 * @param new_value  [in] The value to store.
 * @param rmt_stadd  [in] The STADD of the remote word, whose address is a multiple of 4.
 * @param edata      [in] A value handed out in the MRQ notices; utofu_onesided_caps::max_edata_size
 *     bytes (0 to 255).
 * @param flags      [in] UTOFU_ONESIDED_FLAG_* values joined by bitwise OR; the group onesided-armw
 *     lists the flags with an effect.
 * @param desc       [out] The descriptor, written to memory of the caller: room for
 *     utofu_onesided_caps::max_toq_desc_size bytes, 8-byte aligned.
 * @param desc_size  [out] The number of bytes written, which may be less than the room required.
 * @flags onesided-armw
 * @return UTOFU_SUCCESS: The descriptor is written.
 * @return UTOFU_ERR_INVALID_POINTER: desc or desc_size is NULL, or desc is not 8-byte aligned.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @return UTOFU_ERR_INVALID_VCQ_ID: rmt_vcq_id is not a VCQ id.
 * @return UTOFU_ERR_INVALID_STADD: rmt_stadd is not a multiple of 4.
 * @return UTOFU_ERR_INVALID_EDATA: edata does not fit in max_edata_size bytes.
 * @return UTOFU_ERR_INVALID_FLAGS: flags has a bit set that no UTOFU_ONESIDED_FLAG_* value has.
 * @return UTOFU_ERR_INVALID_PATH_ID: UTOFU_ONESIDED_FLAG_PATH() in flags holds no path id.
 * @threads vcq_hdl
 * @manual 3.7.2.13
 */
int utofu_prepare_cswap4(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, uint32_t old_value,
                         uint32_t new_value, utofu_stadd_t rmt_stadd, uint64_t edata,
                         unsigned long int flags, void *desc, size_t *desc_size) UTOFU_MUST_USE;

/**
 * utofu_prepare_cswap8 - write a descriptor for a compare-and-swap of an 8-byte word
 *
 * Does all that utofu_cswap8() does except submitting: the descriptor can be submitted later, and
 * any number of times, with utofu_post_toq() on the same VCQ. Callback data is given there. Nothing
 * is started, so UTOFU_ONESIDED_FLAG_DELAY_START has no effect.
 *
 * @param vcq_hdl    [in] The local VCQ.
 * @param rmt_vcq_id [in] The id of the remote VCQ; its owner learns it from utofu_query_vcq_id().
 * @param old_value  [in] The value to compare with.
 * @param new_value  [in] The value to store.
 * @param rmt_stadd  [in] The STADD of the remote word, whose address is a multiple of 8.
 * @param edata      [in] A value handed out in the MRQ notices; utofu_onesided_caps::max_edata_size
 *     bytes (0 to 255).
 * @param flags      [in] UTOFU_ONESIDED_FLAG_* values joined by bitwise OR; the group onesided-armw
 *     lists the flags with an effect.
 * @param desc       [out] The descriptor, written to memory of the caller: room for
 *     utofu_onesided_caps::max_toq_desc_size bytes, 8-byte aligned.
 * @param desc_size  [out] The number of bytes written, which may be less than the room required.
 * @flags onesided-armw
 * @return UTOFU_SUCCESS: The descriptor is written.
 * @return UTOFU_ERR_INVALID_POINTER: desc or desc_size is NULL, or desc is not 8-byte aligned.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @return UTOFU_ERR_INVALID_VCQ_ID: rmt_vcq_id is not a VCQ id.
 * @return UTOFU_ERR_INVALID_STADD: rmt_stadd is not a multiple of 8.
 * @return UTOFU_ERR_INVALID_EDATA: edata does not fit in max_edata_size bytes.
 * @return UTOFU_ERR_INVALID_FLAGS: flags has a bit set that no UTOFU_ONESIDED_FLAG_* value has.
 * @return UTOFU_ERR_INVALID_PATH_ID: UTOFU_ONESIDED_FLAG_PATH() in flags holds no path id.
 * @threads vcq_hdl
 * @manual 3.7.2.14
 */
int utofu_prepare_cswap8(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id, uint64_t old_value,
                         uint64_t new_value, utofu_stadd_t rmt_stadd, uint64_t edata,
                         unsigned long int flags, void *desc, size_t *desc_size) UTOFU_MUST_USE;

/**
 * utofu_prepare_nop - write a descriptor for doing nothing
 *
 * Does all that utofu_nop() does except submitting: the descriptor can be submitted later, and any
 * number of times, with utofu_post_toq() on the same VCQ. Callback data is given there. Nothing is
 * started, so UTOFU_ONESIDED_FLAG_DELAY_START has no effect.
 *
 * @param vcq_hdl   [in] The local VCQ.
 * @param flags     [in] UTOFU_ONESIDED_FLAG_* values joined by bitwise OR; the group onesided-nop
 *     lists the flags with an effect.
 * @param desc      [out] The descriptor, written to memory of the caller: room for
 *     utofu_onesided_caps::max_toq_desc_size bytes, 8-byte aligned.
 * @param desc_size [out] The number of bytes written, which may be less than the room required.
 * @flags onesided-nop
 * @return UTOFU_SUCCESS: The descriptor is written.
 * @return UTOFU_ERR_INVALID_POINTER: desc or desc_size is NULL, or desc is not 8-byte aligned.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @return UTOFU_ERR_INVALID_FLAGS: flags has a bit set that no UTOFU_ONESIDED_FLAG_* value has.
 * @threads vcq_hdl
 * @manual 3.7.2.15
 */
int utofu_prepare_nop(utofu_vcq_hdl_t vcq_hdl, unsigned long int flags, void *desc,
                      size_t *desc_size) UTOFU_MUST_USE;

/*
 * Submitting what was prepared, and completion.
 */

/**
 * utofu_post_toq - submit prepared descriptors
 *
 * Submits one descriptor or several, of any kinds, that prepare functions wrote one after the
 * other. All are submitted or none. The descriptors stay as they are and can be submitted again.
 * The call also starts the communications on this VCQ that UTOFU_ONESIDED_FLAG_DELAY_START has
 * delayed; with a desc_size of 0 it does nothing else.
 *
 * @param vcq_hdl   [in] The local VCQ; the one all the descriptors were prepared for.
 * @param desc      [in] The descriptors. Ignored when desc_size is 0.
 * @param desc_size [in] The size of all descriptors together, in bytes: the sum of the sizes that
 *     the prepare functions returned; or 0.
 * @param cbdata    [in] A value that utofu_poll_tcq() hands out for every one of the
 *     communications; any value. Not used when desc_size is 0.
 * @return UTOFU_SUCCESS: The descriptors are submitted.
 * @return UTOFU_ERR_BUSY: The TOQ or the TCQ has no room for all the descriptors. Nothing was
 *     submitted. Call utofu_poll_tcq() and try again.
 * @return UTOFU_ERR_INVALID_POINTER: desc is NULL or not 8-byte aligned, while desc_size is not 0.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @return UTOFU_ERR_INVALID_SIZE: desc_size does not end where a descriptor ends, or covers more
 *     descriptors than the TOQ has entries.
 * @return UTOFU_ERR_INVALID_DESC: desc holds something that no prepare function wrote for this VCQ.
 * @threads vcq_hdl
 * @manual 3.7.3.1
 */
int utofu_post_toq(utofu_vcq_hdl_t vcq_hdl, void *desc, size_t desc_size,
                   void *cbdata) UTOFU_MUST_USE;

/**
 * utofu_poll_tcq - take the next entry from the TCQ
 *
 * Entries come in the order in which the descriptors were submitted, for those with
 * UTOFU_ONESIDED_FLAG_TCQ_NOTICE. An error that the local TNI meets has an entry whether the flag
 * was given or not. The call also makes room in the TOQ and the TCQ, so a program without notices
 * has to call it from time to time, too: to make as much room as possible, until it returns
 * UTOFU_ERR_NOT_FOUND or UTOFU_ERR_TCQ_*.
 *
 * For a put the entry says that the source may be changed; for a get or an ARMW, that the request
 * was sent; for a NOP, that it was passed.
 *
 * @param vcq_hdl [in] The local VCQ.
 * @param flags   [in] 0: no UTOFU_POLL_FLAG_* value is defined in this version.
 * @param cbdata  [out] The callback data of the communication. Written when an entry was found,
 *     good or bad; left alone otherwise.
 * @flags none
 * @return UTOFU_SUCCESS: An entry was found; its communication was sent without error.
 * @return UTOFU_ERR_NOT_FOUND: There is no new entry.
 * @return UTOFU_ERR_TCQ_DESC: An entry was found: the descriptor is wrong, perhaps for wrong
 *     arguments.
 * @return UTOFU_ERR_TCQ_MEMORY: An entry was found: the local memory could not be accessed.
 * @return UTOFU_ERR_TCQ_STADD: An entry was found: the local STADD lies in no registered memory.
 * @return UTOFU_ERR_TCQ_LENGTH: An entry was found: the local STADD plus the length runs out of the
 *     registered memory.
 * @return UTOFU_ERR_TCQ_OTHER: An entry was found: another error.
 * @return UTOFU_ERR_INVALID_POINTER: cbdata is NULL.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @return UTOFU_ERR_INVALID_FLAGS: flags is not 0.
 * @threads vcq_hdl
 * @manual 3.7.4.1
 */
int utofu_poll_tcq(utofu_vcq_hdl_t vcq_hdl, unsigned long int flags, void **cbdata) UTOFU_MUST_USE;

/**
 * utofu_poll_mrq - take the next notice from the MRQ
 *
 * Gives local notices, of communication that this VCQ started, and remote notices, of communication
 * that others directed at it; utofu_mrq_notice::notice_type says which. The local notices of one
 * remote VCQ and path come in the order of submission; so do the remote notices of one origin VCQ
 * and path. A communication that fails has a local notice with an error, whether a notice was asked
 * for or not.
 *
 * The MRQ must not run full: a program with more unread notices than MRQ entries
 * (UTOFU_NUM_MRQ_ENTRIES) is ended with the message "MRQ Overflow". To empty it, call until the
 * result is UTOFU_ERR_NOT_FOUND or UTOFU_ERR_MRQ_*.
 *
 * @param vcq_hdl [in] The local VCQ.
 * @param flags   [in] 0: no UTOFU_POLL_FLAG_* value is defined in this version.
 * @param notice  [out] The notice; see struct utofu_mrq_notice. Written when a notice was found,
 *     good or bad; left alone otherwise.
 * @flags none
 * @return UTOFU_SUCCESS: A notice was found; its communication completed without error.
 * @return UTOFU_ERR_NOT_FOUND: There is no new notice.
 * @return UTOFU_ERR_MRQ_PEER: A notice was found: the other process failed, perhaps because it
 *     ended.
 * @return UTOFU_ERR_MRQ_LCL_MEMORY: A notice was found: the local memory could not be accessed.
 * @return UTOFU_ERR_MRQ_RMT_MEMORY: A notice was found: the remote memory could not be accessed.
 * @return UTOFU_ERR_MRQ_LCL_STADD: A notice was found: the local STADD lies in no registered
 *     memory.
 * @return UTOFU_ERR_MRQ_RMT_STADD: A notice was found: the remote STADD lies in no registered
 *     memory.
 * @return UTOFU_ERR_MRQ_LCL_LENGTH: A notice was found: the local STADD plus the length runs out of
 *     the registered memory.
 * @return UTOFU_ERR_MRQ_RMT_LENGTH: A notice was found: the remote STADD plus the length runs out
 *     of the registered memory.
 * @return UTOFU_ERR_MRQ_OTHER: A notice was found: another error.
 * @return UTOFU_ERR_INVALID_POINTER: notice is NULL.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @return UTOFU_ERR_INVALID_FLAGS: flags is not 0.
 * @threads vcq_hdl
 * @manual 3.7.4.2
 */
int utofu_poll_mrq(utofu_vcq_hdl_t vcq_hdl, unsigned long int flags,
                   struct utofu_mrq_notice *notice) UTOFU_MUST_USE;

/**
 * utofu_query_num_unread_tcq - count the descriptors that have no TCQ entry read yet
 *
 * Counts the TOQ descriptors whose TCQ entries the library has not read: roughly the communications
 * that are submitted and not sent. 0 means that the next start function can begin at once. The
 * count is of the CQ, because a TNI works CQ by CQ: if several VCQs share a CQ, all of them are
 * counted. Useful to estimate the load of a TNI.
 *
 * @param vcq_hdl [in] The local VCQ.
 * @param count   [out] The number of unread TCQ entries; 0 or more.
 * @return UTOFU_SUCCESS: *count is the number.
 * @return UTOFU_ERR_INVALID_POINTER: count is NULL.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @threads vcq_hdl
 * @manual 3.7.5.1
 */
int utofu_query_num_unread_tcq(utofu_vcq_hdl_t vcq_hdl, size_t *count) UTOFU_MUST_USE;

/**
 * utofu_query_num_unread_mrq - count the unread MRQ notices
 *
 * Counts the notices that have arrived and that utofu_poll_mrq() has not given out. As with
 * utofu_query_num_unread_tcq(), the count is of the CQ.
 *
 * @param vcq_hdl [in] The local VCQ.
 * @param count   [out] The number of unread MRQ notices; 0 or more.
 * @return UTOFU_SUCCESS: *count is the number.
 * @return UTOFU_ERR_INVALID_POINTER: count is NULL.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: vcq_hdl names no VCQ of this process, or one that was freed.
 * @threads vcq_hdl
 * @manual none (the MRQ twin of 3.7.5.1; in the published header, not in the manual)
 */
int utofu_query_num_unread_mrq(utofu_vcq_hdl_t vcq_hdl, size_t *count) UTOFU_MUST_USE;

/*
 * Barrier communication
 */

/**
 * enum utofu_reduce_op - what a barrier communication does with the values
 *
 * UTOFU_REDUCE_OP_BARRIER is what utofu_barrier() does; the reduction functions do not take it.
 * @manual 3.8.3.1, 2.3.4
 */
enum utofu_reduce_op {
    UTOFU_REDUCE_OP_BARRIER = 1, /* barrier without a reduction */
    UTOFU_REDUCE_OP_BAND = 2,    /* uint64_t: bitwise and */
    UTOFU_REDUCE_OP_BOR = 3,     /* uint64_t: bitwise or */
    UTOFU_REDUCE_OP_BXOR = 4,    /* uint64_t: bitwise exclusive or */
    UTOFU_REDUCE_OP_MAX = 5,     /* uint64_t: greatest, as unsigned integers */
    UTOFU_REDUCE_OP_MAXLOC = 6,  /* uint64_t: greatest, as unsigned integers, and its place */
    UTOFU_REDUCE_OP_SUM = 7,     /* uint64_t: sum, as unsigned integers; wraps around */
    UTOFU_REDUCE_OP_BFPSUM = 8   /* double: sum */
};

/**
 * utofu_barrier - start a barrier on a circuit
 *
 * Returns at once; utofu_poll_barrier() reports when all processes of the circuit have arrived. One
 * circuit does one barrier communication at a time; several circuits work independently.
 *
 * @param vbg_id [in] The start/end gate of the circuit in this process: the first id that
 *     utofu_alloc_vbg() gave.
 * @param flags  [in] 0: no UTOFU_BARRIER_FLAG_* value is defined in this version. The same in all
 *     processes of the circuit.
 * @flags none
 * @return UTOFU_SUCCESS: The barrier is started.
 * @return UTOFU_ERR_BUSY: A barrier communication of this circuit is running. Poll it to its end
 *     first.
 * @return UTOFU_ERR_INVALID_VBG_ID: vbg_id is not the start/end gate of a circuit that
 *     utofu_set_vbg() has set in this process.
 * @return UTOFU_ERR_INVALID_FLAGS: flags is not 0.
 * @threads vbg_id
 * @manual 3.8.1.1
 */
int utofu_barrier(utofu_vbg_id_t vbg_id, unsigned long int flags) UTOFU_MUST_USE;

/**
 * utofu_reduce_uint64 - start a reduction of uint64_t values on a circuit
 *
 * A barrier that also combines the values of all processes, element by element. Returns at once;
 * utofu_poll_reduce_uint64() reports when it is done and gives the result. data may be changed when
 * the call returns. Every process of the circuit calls this function, with the same op, num_data
 * and flags; otherwise the poll functions return UTOFU_ERR_BARRIER_MISMATCH.
 *
 * MAXLOC works on pairs, an even number of elements in all: of each pair the first element is the
 * value and the second its place. The result is the pair with the greatest value and, among equal
 * values, with the lowest place.
 *
 * @param vbg_id   [in] The start/end gate of the circuit in this process: the first id that
 *     utofu_alloc_vbg() gave.
 * @param op       [in] The operation; the same in all processes: UTOFU_REDUCE_OP_ with BAND, BOR,
 *     BXOR, MAX, MAXLOC or SUM.
 * @param data     [in] The values; num_data elements.
 * @param num_data [in] How many values, 1 to utofu_barrier_caps::max_uint64_reduction; the same in
 *     all processes.
 * @param flags    [in] 0: no UTOFU_BARRIER_FLAG_* value is defined in this version. The same in all
 *     processes of the circuit.
 * @flags none
 * @return UTOFU_SUCCESS: The reduction is started.
 * @return UTOFU_ERR_BUSY: A barrier communication of this circuit is running. Poll it to its end
 *     first.
 * @return UTOFU_ERR_INVALID_POINTER: data is NULL.
 * @return UTOFU_ERR_INVALID_VBG_ID: vbg_id is not the start/end gate of a circuit that
 *     utofu_set_vbg() has set in this process.
 * @return UTOFU_ERR_INVALID_NUMBER: num_data is 0 or more than max_uint64_reduction, or odd with
 *     MAXLOC.
 * @return UTOFU_ERR_INVALID_OP: op is not an operation on uint64_t values.
 * @return UTOFU_ERR_INVALID_FLAGS: flags is not 0.
 * @threads vbg_id
 * @manual 3.8.1.2
 */
int utofu_reduce_uint64(utofu_vbg_id_t vbg_id, enum utofu_reduce_op op, uint64_t data[],
                        size_t num_data, unsigned long int flags) UTOFU_MUST_USE;

/**
 * utofu_reduce_double - start a reduction of double values on a circuit
 *
 * A barrier that also combines the values of all processes, element by element. Returns at once;
 * utofu_poll_reduce_double() reports when it is done and gives the result. data may be changed when
 * the call returns. Every process of the circuit calls this function, with the same op, num_data
 * and flags; otherwise the poll functions return UTOFU_ERR_BARRIER_MISMATCH.
 *
 * Every process gets the same result, bit for bit, whatever the shape of the circuit: the exact
 * sum, rounded once to nearest even. It is NaN (0x7ff8000000000000) if a value is NaN or both
 * infinities occur, an infinity if one occurs or the rounded sum overflows, and -0 only if all
 * values are -0. Subnormal values count in full. No floating-point exception flag is raised.
 *
 * @param vbg_id   [in] The start/end gate of the circuit in this process: the first id that
 *     utofu_alloc_vbg() gave.
 * @param op       [in] The operation; the same in all processes: UTOFU_REDUCE_OP_ with BFPSUM.
 * @param data     [in] The values; num_data elements.
 * @param num_data [in] How many values, 1 to utofu_barrier_caps::max_double_reduction; the same in
 *     all processes.
 * @param flags    [in] 0: no UTOFU_BARRIER_FLAG_* value is defined in this version. The same in all
 *     processes of the circuit.
 * @flags none
 * @return UTOFU_SUCCESS: The reduction is started.
 * @return UTOFU_ERR_BUSY: A barrier communication of this circuit is running. Poll it to its end
 *     first.
 * @return UTOFU_ERR_INVALID_POINTER: data is NULL.
 * @return UTOFU_ERR_INVALID_VBG_ID: vbg_id is not the start/end gate of a circuit that
 *     utofu_set_vbg() has set in this process.
 * @return UTOFU_ERR_INVALID_NUMBER: num_data is 0 or more than max_double_reduction.
 * @return UTOFU_ERR_INVALID_OP: op is not an operation on double values.
 * @return UTOFU_ERR_INVALID_FLAGS: flags is not 0.
 * @threads vbg_id
 * @manual 3.8.1.3
 */
int utofu_reduce_double(utofu_vbg_id_t vbg_id, enum utofu_reduce_op op, double data[],
                        size_t num_data, unsigned long int flags) UTOFU_MUST_USE;

/**
 * utofu_poll_barrier - ask whether a barrier is complete
 *
 * Returns at once. Call it again until it returns something else than UTOFU_ERR_NOT_COMPLETED; then
 * the circuit is free for the next barrier communication.
 *
 * @param vbg_id [in] The start/end gate of the circuit in this process: the first id that
 *     utofu_alloc_vbg() gave.
 * @param flags  [in] 0: no UTOFU_POLL_FLAG_* value is defined in this version. The same in all
 *     processes of the circuit.
 * @flags none
 * @return UTOFU_SUCCESS: The barrier is complete: every process of the circuit has started it.
 * @return UTOFU_ERR_NOT_COMPLETED: The barrier is not complete.
 * @return UTOFU_ERR_BUSY: No barrier communication of this kind was started on this circuit.
 * @return UTOFU_ERR_BARRIER_MISMATCH: The processes of the circuit did not all start the same
 *     operation.
 * @return UTOFU_ERR_BARRIER_OTHER: The barrier communication failed in another way, perhaps because
 *     a process of the circuit ended. The circuit stays broken until it is set anew.
 * @return UTOFU_ERR_INVALID_VBG_ID: vbg_id is not the start/end gate of a circuit that
 *     utofu_set_vbg() has set in this process.
 * @return UTOFU_ERR_INVALID_FLAGS: flags is not 0.
 * @threads vbg_id
 * @manual 3.8.2.1
 */
int utofu_poll_barrier(utofu_vbg_id_t vbg_id, unsigned long int flags) UTOFU_MUST_USE;

/**
 * utofu_poll_reduce_uint64 - ask whether a reduction of uint64_t values is complete, and take its
 * result
 *
 * The counterpart of utofu_reduce_uint64(). Returns at once. Call it again until it returns
 * something else than UTOFU_ERR_NOT_COMPLETED; then the circuit is free for the next barrier
 * communication.
 *
 * @param vbg_id [in] The start/end gate of the circuit in this process: the first id that
 *     utofu_alloc_vbg() gave.
 * @param flags  [in] 0: no UTOFU_POLL_FLAG_* value is defined in this version. The same in all
 *     processes of the circuit.
 * @param data   [out] The result: the first num_data elements, as many as utofu_reduce_uint64() was
 *     given, are written on UTOFU_SUCCESS, and only then.
 * @flags none
 * @return UTOFU_SUCCESS: The reduction is complete and data holds the result.
 * @return UTOFU_ERR_NOT_COMPLETED: The reduction is not complete.
 * @return UTOFU_ERR_BUSY: No barrier communication of this kind was started on this circuit.
 * @return UTOFU_ERR_BARRIER_MISMATCH: The processes of the circuit did not all start the same
 *     operation.
 * @return UTOFU_ERR_BARRIER_OTHER: The barrier communication failed in another way, perhaps because
 *     a process of the circuit ended. The circuit stays broken until it is set anew.
 * @return UTOFU_ERR_INVALID_POINTER: data is NULL.
 * @return UTOFU_ERR_INVALID_VBG_ID: vbg_id is not the start/end gate of a circuit that
 *     utofu_set_vbg() has set in this process.
 * @return UTOFU_ERR_INVALID_FLAGS: flags is not 0.
 * @threads vbg_id
 * @manual 3.8.2.2
 */
int utofu_poll_reduce_uint64(utofu_vbg_id_t vbg_id, unsigned long int flags,
                             uint64_t data[]) UTOFU_MUST_USE;

/**
 * utofu_poll_reduce_double - ask whether a reduction of double values is complete, and take its
 * result
 *
 * The counterpart of utofu_reduce_double(). Returns at once. Call it again until it returns
 * something else than UTOFU_ERR_NOT_COMPLETED; then the circuit is free for the next barrier
 * communication.
 *
 * @param vbg_id [in] The start/end gate of the circuit in this process: the first id that
 *     utofu_alloc_vbg() gave.
 * @param flags  [in] 0: no UTOFU_POLL_FLAG_* value is defined in this version. The same in all
 *     processes of the circuit.
 * @param data   [out] The result: the first num_data elements, as many as utofu_reduce_double() was
 *     given, are written on UTOFU_SUCCESS, and only then.
 * @flags none
 * @return UTOFU_SUCCESS: The reduction is complete and data holds the result.
 * @return UTOFU_ERR_NOT_COMPLETED: The reduction is not complete.
 * @return UTOFU_ERR_BUSY: No barrier communication of this kind was started on this circuit.
 * @return UTOFU_ERR_BARRIER_MISMATCH: The processes of the circuit did not all start the same
 *     operation.
 * @return UTOFU_ERR_BARRIER_OTHER: The barrier communication failed in another way, perhaps because
 *     a process of the circuit ended. The circuit stays broken until it is set anew.
 * @return UTOFU_ERR_INVALID_POINTER: data is NULL.
 * @return UTOFU_ERR_INVALID_VBG_ID: vbg_id is not the start/end gate of a circuit that
 *     utofu_set_vbg() has set in this process.
 * @return UTOFU_ERR_INVALID_FLAGS: flags is not 0.
 * @threads vbg_id
 * @manual 3.8.2.3
 */
int utofu_poll_reduce_double(utofu_vbg_id_t vbg_id, unsigned long int flags,
                             double data[]) UTOFU_MUST_USE;

/*
 * Versions, this node, errors
 */

/**
 * utofu_query_tofu_version - get the version of the Tofu interconnect
 *
 * uTofu has a version number for each kind of interconnect. This library reports version 3.0
 * (6.1.1), and has the limits of that version. A pointer that is NULL is skipped.
 *
 * @param major_ver [out] The major version: 3.
 * @param minor_ver [out] The minor version: 0.
 * @return none: The function has no result and cannot fail.
 * @threads any
 * @manual 3.9.1.1
 */
void utofu_query_tofu_version(int *major_ver, int *minor_ver);

/**
 * utofu_query_utofu_version - get the version of the uTofu interface at run time
 *
 * To be compared with UTOFU_VERSION_MAJOR and UTOFU_VERSION_MINOR, the version at compile time. A
 * pointer that is NULL is skipped.
 *
 * @param major_ver [out] The major version.
 * @param minor_ver [out] The minor version.
 * @return none: The function has no result and cannot fail.
 * @threads any
 * @manual 3.9.1.2
 */
void utofu_query_utofu_version(int *major_ver, int *minor_ver);

/**
 * utofu_query_my_coords - get the coordinates of this node
 *
 * All processes of a node get the same coordinates.
 *
 * @param coords [out] Node coordinates in the order X, Y, Z, A, B, C; room for 6 elements or more.
 * @return UTOFU_SUCCESS: coords is written.
 * @return UTOFU_ERR_INVALID_POINTER: coords is NULL.
 * @threads any
 * @manual 3.9.2.1
 */
int utofu_query_my_coords(uint8_t coords[]) UTOFU_MUST_USE;

/**
 * utofu_get_last_error - give a text on the last error in this thread
 *
 * Writes a text of one line, ended by a zero byte, on the last uTofu call of this thread that
 * failed. It begins with the name and the number of the code that was returned:
 *   "UTOFU_ERR_MRQ_RMT_LENGTH (-199): put of 64 bytes with EDATA 7 from VCQ 0000000000701d09 to VCQ
 *   0000000002708bfc (rank 1, node 0,0,0,0,0,0, TNI 0, CQ 4, component 7): remote STADD
 *   0x10000000005ff8: 8 bytes are left from there to the end of its region"
 *
 * Every failing call, including the poll functions, sets the text. For a failed communication the
 * text identifies the communication, the wrong memory and the exceeded limit, or gives the reason
 * why the peer cannot be reached. A successful call does not change the text, nor do
 * UTOFU_ERR_NOT_FOUND and UTOFU_ERR_NOT_COMPLETED, which are answers and not errors. A warning or
 * an error that the library logs in a call of this thread, for instance on a long wait in a
 * barrier, replaces the text. If no call of this thread has failed, the text is the last log line
 * of another thread, or else empty.
 *
 * This call takes some microseconds; a failing poll or start function takes almost no extra time,
 * as the text is only made in this call. The parameter is declared const, as some programs declare
 * it, although the function writes the memory.
 *
 * @param buf [out] Memory for the text: 1,024 bytes. NULL does nothing.
 * @return none: The function has no result and cannot fail.
 * @threads any
 * @manual none (extension, not in the manual)
 */
void utofu_get_last_error(const char *buf);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
