/* SPDX-License-Identifier: Apache-2.0 */
/**
 * lapi.h - LAPI on uTofu: active messages, one-sided transfers and counters
 *
 * A task sends a message to another task with the address of a function there, the header handler,
 * which returns the address for the data. A completion handler may run when the data have arrived.
 * Put, get and read-modify-write take plain addresses: no memory needs registration. Three counters
 * tell that memory of the origin may be reused (origin counter), and that the message is complete
 * (target counter at the target, completion counter at the origin). Each of them may be NULL.
 *
 * Messages arrive in any order, also those from one task to another. Header handlers, and
 * completion handlers that run inline (LAPI_LOCAL_STATE, LAPI_SEND_REPLY), run inside the
 * dispatcher: they may send messages, and must not wait. Other completion handlers run in a thread
 * of the library, one after the other, and may call any function.
 *
 * With INTERRUPT_SET 1, the default, a thread makes progress also while the program computes; with
 * 0, only calls handle messages.
 *
 * Functions return LAPI_SUCCESS or a LAPI_ERR_* code. scripts/make-man makes the manual page of a
 * function from its comment: purpose, text, parameters, result. LAPI_Init(), LAPI_Term(),
 * LAPI_Address_init(), LAPI_Address_init64() and LAPI_Gfence() are collective. Any number of
 * threads may call the other functions at once.
 */
#ifndef LAPI_H
#define LAPI_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/*
 * Types and constants
 */

typedef unsigned int uint; /* where <sys/types.h> does not have them */
typedef unsigned long ulong;

typedef unsigned int lapi_handle_t;
typedef unsigned long long lapi_long_t; /* an address of any task */
typedef struct {                        /* used through functions only */
    int value;
    int reserved;
} lapi_cntr_t;

#define LAPI_ADDR_NULL      ((void *)0)
#define LAPI_MAX_MSG_SZ     0x7fffffffffffffffUL /* bytes of the data of a message */
#define LAPI_ADDRTBL_SZ     64  /* indices of LAPI_Addr_set(): 1 to LAPI_ADDRTBL_SZ - 1 */
#define LAPI_MSG_STRING     160 /* maximum bytes that LAPI_Msg_string() writes */
#define LAPI_MAX_ERR_STRING LAPI_MSG_STRING

typedef enum {
    LAPI_SUCCESS = 0,
    LAPI_ERR_HNDL_INVALID = 400,     /* not of LAPI_Init(), or after LAPI_Term() */
    LAPI_ERR_ALL_HNDL_IN_USE = 401,  /* LAPI_Init() was called before, without LAPI_Term() */
    LAPI_ERR_INIT_FAILED = 402,      /* a line on standard error says why */
    LAPI_ERR_IN_HNDLR = 403,         /* a handler that runs in the dispatcher may not wait */
    LAPI_ERR_MEMORY_EXHAUSTED = 404, /* no memory, or it cannot be registered */
    LAPI_ERR_TGT = 405,              /* no such task */
    LAPI_ERR_TGT_PURGED = 406,       /* LAPI_Purge_totask() was called, or the task is gone */
    LAPI_ERR_TIMEOUT = 407,          /* a task is gone or cannot be reached */
    LAPI_ERR_DATA_LEN = 408,         /* the length of the data: more than LAPI_MAX_MSG_SZ */
    LAPI_ERR_UHDR_LEN = 409,         /* more than MAX_UHDR_SZ, or no multiple of 4 */
    LAPI_ERR_UHDR_NULL = 410,        /* uhdr is NULL, and its length is not 0 */
    LAPI_ERR_HDR_HNDLR_NULL = 411,   /* the header handler is NULL */
    LAPI_ERR_ORG_ADDR_NULL = 412,    /* the origin's address is NULL, and the length is not 0 */
    LAPI_ERR_TGT_ADDR_NULL = 413,    /* the target's address is NULL, and the length is not 0 */
    LAPI_ERR_TGT_ADDR = 414,         /* the target's memory cannot be used */
    LAPI_ERR_CNTR_NULL = 415,        /* the counter is NULL */
    LAPI_ERR_CNTR_VAL = 416,         /* a negative value */
    LAPI_ERR_RET_PTR_NULL = 417,     /* a pointer to a result is NULL */
    LAPI_ERR_QUERY_TYPE = 418,       /* no such query, or it cannot be set */
    LAPI_ERR_SET_VAL = 419,          /* a value that cannot be set */
    LAPI_ERR_ADDR_HNDL_RANGE = 420,  /* an index that is not 1 to LAPI_ADDRTBL_SZ - 1 */
    LAPI_ERR_ADDR_TBL_NULL = 421,    /* the table of addresses is NULL */
    LAPI_ERR_MSG_STRING = 422,       /* no such code */
    LAPI_ERR_MSG_INFO_NULL = 423,    /* info is NULL */
    LAPI_ERR_INFO_NULL = 424,        /* info of LAPI_Init() is NULL */
    LAPI_ERR_INFO_NONZERO = 425,     /* a reserved field of lapi_info_t is not zero */
    LAPI_ERR_RMW_OP = 426,           /* no such operation */
    LAPI_ERR_TGT_VAR_NULL = 427,     /* the target variable is NULL */
    LAPI_ERR_TGT_VAR_ALIGN = 428,    /* the target variable is not aligned to its size */
    LAPI_ERR_IN_VAL_NULL = 429,      /* the operand is NULL */
    LAPI_ERR_OP_SZ = 430,            /* neither 32 nor 64 bits */
    LAPI_ERR_ORG_VEC_NULL = 431,     /* vectors: see LAPI_Putv() */
    LAPI_ERR_TGT_VEC_NULL = 432,
    LAPI_ERR_ORG_VEC_TYPE = 433,
    LAPI_ERR_TGT_VEC_TYPE = 434,
    LAPI_ERR_ORG_VEC_ADDR = 435,
    LAPI_ERR_TGT_VEC_ADDR = 436,
    LAPI_ERR_ORG_VEC_LEN = 437,
    LAPI_ERR_TGT_VEC_LEN = 438,
    LAPI_ERR_VEC_TYPE_DIFF = 439,
    LAPI_ERR_VEC_NUM_DIFF = 440,
    LAPI_ERR_VEC_LEN_DIFF = 441,
    LAPI_ERR_ORG_STRIDE = 442,
    LAPI_ERR_TGT_STRIDE = 443,
    LAPI_ERR_XFER_CMD = 444,   /* no such type of transfer */
    LAPI_ERR_UTIL_CMD = 445,   /* no such utility */
    LAPI_ERR_NOT_LOCKED = 446, /* mutex_unlock(): this thread does not have the lock */
    LAPI_ERR_CODE_END
} lapi_err_code_t;

typedef enum { INT_ERR, EXT_ERR } lapi_err_t;

/* Called when a task is gone or a message cannot be executed; code is a LAPI_ERR_* code, src the
 * task that is gone or has sent it. It runs in the dispatcher. */
typedef void(LAPI_err_hndlr)(lapi_handle_t *hndl, int *code, lapi_err_t *type, int *task_id,
                             int *src);

typedef struct {
    LAPI_err_hndlr *err_hndlr; /* or NULL */
    void *reserved[7];         /* zero */
} lapi_info_t;

typedef void(compl_hndlr_t)(lapi_handle_t *hndl, void *user_info);
typedef void *(hdr_hndlr_t)(lapi_handle_t *hndl, void *uhdr, uint *uhdr_len, ulong *msg_len,
                            compl_hndlr_t **comp_h, void **user_info);

typedef enum {
    LAPI_NORMAL,      /* the completion handler runs in a thread of the library */
    LAPI_SEND_REPLY,  /* inline, and sends a message */
    LAPI_LOCAL_STATE, /* inline, and sends no message */
} lapi_ret_flags_t;
typedef enum { LAPI_CTL_NONE, LAPI_BURY_MSG /* the handler has consumed the data */ } lapi_ctl_t;

/* The argument msg_len of a header handler points to this struct: cast it. */
typedef struct {
    ulong msg_len;
    lapi_ret_flags_t ret_flags; /* written by the handler */
    lapi_ctl_t ctl_flags;       /* written by the handler */
    void *udata_one_pkt_ptr;    /* the data, if all came with the header; or NULL */
    ulong dgsp_handle;          /* not used */
    uint src;                   /* the origin task */
} lapi_return_info_t;

typedef enum {
    TASK_ID,       /* of this task */
    NUM_TASKS,     /* of the job */
    MAX_UHDR_SZ,   /* bytes of a user header */
    MAX_DATA_SZ,   /* of a message: INT_MAX, though it may be longer */
    MAX_PKT_SZ,    /* header and data that travel together */
    ERROR_CHK,     /* 0 or 1; can be set, without effect */
    TIMEOUT,       /* seconds after which a task counts as gone: UTOFU_PEER_TIMEOUT */
    INTERRUPT_SET, /* 0 or 1; can be set */
    LOC_ADDRTBL_SZ,
    EPOCH_NUM, /* number of successful calls of LAPI_Init() in this process */
    NUM_LOST,  /* tasks that are gone */
    LAST_QUERY,
} lapi_query_t;

typedef enum {
    LAPI_DISP_CNTR,     /* cnt polls, and nothing has happened */
    LAPI_SEND_COMPLETE, /* a message of this task has left */
    LAPI_RECV_COMPLETE, /* a message has arrived */
    LAPI_BOTH_COMPLETE,
} lapi_msg_state_t;
typedef struct {
    lapi_msg_state_t status;
    ulong reserved[3];
} lapi_msg_info_t;

typedef enum { FETCH_AND_ADD, FETCH_AND_OR, SWAP, COMPARE_AND_SWAP, LAPI_RMW_END } RMW_ops_t;

/* Called when the origin's memory may be reused, like the origin counter. */
typedef struct {
    uint src; /* the task that the message is for */
    ulong reserved[3];
} lapi_sh_info_t;
typedef void(scompl_hndlr_t)(lapi_handle_t *hndl, void *sinfo, lapi_sh_info_t *info);

typedef enum {
    LAPI_GEN_IOVECTOR,     /* info: num_vecs addresses; len: their lengths */
    LAPI_GEN_STRIDED_XFER, /* info: address, bytes of a block, bytes from block to block */
    LAPI_LAST_VECTYPE
} lapi_vectype_t;
typedef struct {
    lapi_vectype_t vec_type;
    uint num_vecs; /* number of segments, or of blocks */
    void **info;
    ulong *len; /* not for LAPI_GEN_STRIDED_XFER */
} lapi_vec_t;

typedef enum {
    LAPI_GET_XFER,
    LAPI_AM_XFER,
    LAPI_RMW_XFER,
    LAPI_PUT_XFER,
    LAPI_GETV_XFER,
    LAPI_PUTV_XFER,
    LAPI_AMV_XFER,
    LAPI_AM_LW_XFER, /* lapi_am_t up to udata_len: see LAPI_Xfer() */
    LAPI_RDMA_XFER,
    LAPI_LAST_XFER
} lapi_xfer_type_t;

/* Each begins with Xfer_type. Addresses at the target are lapi_long_t. */
typedef struct {
    lapi_xfer_type_t Xfer_type;
    int flags; /* 0 */
    uint tgt;
    lapi_long_t tgt_addr;
    void *org_addr;
    ulong len;
    compl_hndlr_t *chndlr; /* or NULL: called when the data have arrived */
    void *cinfo;
    lapi_long_t tgt_cntr;
    lapi_cntr_t *org_cntr;
} lapi_get_t;
typedef struct {
    lapi_xfer_type_t Xfer_type;
    int flags;
    uint tgt;
    lapi_long_t hdr_hdl;
    uint uhdr_len;
    void *uhdr;
    void *udata;
    ulong udata_len;
    scompl_hndlr_t *shdlr; /* or NULL */
    void *sinfo;
    lapi_long_t tgt_cntr;
    lapi_cntr_t *org_cntr, *cmpl_cntr;
} lapi_am_t;
typedef struct {
    lapi_xfer_type_t Xfer_type;
    RMW_ops_t op;
    uint tgt;
    uint size; /* bits: 32 or 64 */
    lapi_long_t tgt_var;
    void *in_val;
    void *prev_tgt_val;
    lapi_cntr_t *org_cntr;
    scompl_hndlr_t *shdlr;
    void *sinfo;
} lapi_rmw_t;
typedef struct {
    lapi_xfer_type_t Xfer_type;
    int flags;
    uint tgt;
    lapi_long_t tgt_addr;
    void *org_addr;
    ulong len;
    scompl_hndlr_t *shdlr;
    void *sinfo;
    lapi_long_t tgt_cntr;
    lapi_cntr_t *org_cntr, *cmpl_cntr;
} lapi_put_t;
typedef struct {
    lapi_xfer_type_t Xfer_type;
    int flags;
    uint tgt;
    lapi_vec_t *tgt_vec, *org_vec;
    compl_hndlr_t *chndlr;
    void *cinfo;
    lapi_long_t tgt_cntr;
    lapi_cntr_t *org_cntr;
} lapi_getv_t;
typedef struct {
    lapi_xfer_type_t Xfer_type;
    int flags;
    uint tgt;
    lapi_vec_t *tgt_vec, *org_vec;
    scompl_hndlr_t *shdlr;
    void *sinfo;
    lapi_long_t tgt_cntr;
    lapi_cntr_t *org_cntr, *cmpl_cntr;
} lapi_putv_t;
typedef struct {
    lapi_xfer_type_t Xfer_type;
    int flags;
    uint tgt;
    lapi_long_t hdr_hdl;
    uint uhdr_len;
    void *uhdr;
    lapi_vec_t *org_vec;
    scompl_hndlr_t *shdlr;
    void *sinfo;
    lapi_long_t tgt_cntr;
    lapi_cntr_t *org_cntr, *cmpl_cntr;
} lapi_amv_t;
/* A put or get between memory handles (PVO), which LAPI_Util() gives to both tasks. */
typedef unsigned int lapi_user_cxt_t;
typedef unsigned long long lapi_user_pvo_t;
typedef unsigned short lapi_rdma_tag_t;
typedef unsigned short lapi_rdma_op_t;
#define LAPI_RDMA_GET     0x1
#define LAPI_RDMA_PUT     0x2
#define LAPI_RCALLBACK    0x4 /* a notification of the target: not supported */
#define LAPI_RCNTR_UPDATE 0x8 /* not supported */
typedef struct {
    lapi_xfer_type_t Xfer_type;
    int flags;
    uint tgt;
    lapi_rdma_op_t op;        /* LAPI_RDMA_GET or LAPI_RDMA_PUT */
    lapi_rdma_tag_t rdma_tag; /* without effect */
    lapi_user_cxt_t remote_cxt;
    lapi_user_pvo_t src_pvo, tgt_pvo; /* memory of this task; of the target */
    uint src_offset, tgt_offset;      /* bytes from the start of the memory */
    uint len;
    lapi_cntr_t *org_cntr;
    scompl_hndlr_t *shdlr;
    void *sinfo;
} lapi_hwxfer_t;
typedef union {
    lapi_xfer_type_t Xfer_type;
    lapi_get_t Get;
    lapi_am_t Am;
    lapi_rmw_t Rmw;
    lapi_put_t Put;
    lapi_getv_t Getv;
    lapi_putv_t Putv;
    lapi_amv_t Amv;
    lapi_hwxfer_t HwXfer;
} lapi_xfer_t;

typedef enum {
    LAPI_GET_THREAD_FUNC,
    LAPI_XLATE_ADDRESS, /* lapi_get_pvo_t */
    LAPI_REMOTE_RCXT,   /* lapi_remote_cxt_t */
    LAPI_LAST_UTIL
} lapi_util_type_t;

/* The lock of the library, which is recursive. Its owner may call any function. Calls that wait or
 * make progress release it completely meanwhile, as pthread_cond_wait() does, and take it again
 * before they return. LAPI_Term() releases it. */
typedef struct {
    lapi_util_type_t Util_type;
    int (*mutex_lock)(lapi_handle_t hndl);
    int (*mutex_unlock)(lapi_handle_t hndl);
    int (*mutex_trylock)(lapi_handle_t hndl, int *locked);
    int (*mutex_getowner)(lapi_handle_t hndl, int *is_mine);
} lapi_thread_func_t;
typedef enum { LAPI_RDMA_ACQUIRE, LAPI_RDMA_RELEASE } lapi_rdma_req_t;
/* A handle of memory of this task. */
typedef struct {
    lapi_util_type_t Util_type;
    uint length;
    lapi_user_pvo_t usr_pvo; /* written, or released */
    void *address;
    lapi_rdma_req_t operation;
} lapi_get_pvo_t;
/* A handle of a task. */
typedef struct {
    lapi_util_type_t Util_type;
    lapi_rdma_req_t operation;
    int dest;
    lapi_user_cxt_t usr_rcxt; /* written, or released */
} lapi_remote_cxt_t;
typedef union {
    lapi_util_type_t Util_type;
    lapi_thread_func_t Thread;
    lapi_get_pvo_t Pvo;
    lapi_remote_cxt_t Rcxt;
} lapi_util_t;

/*
 * The job
 */

/**
 * LAPI_Init - join the job
 *
 * Collective. Task id and number of tasks are those of the launcher: mpirun, mpiexec, srun or
 * utofurun. LAPI_Init() may be called again after LAPI_Term(). Only LAPI_Msg_string() and
 * LAPI_Address() may be called before it.
 *
 * @param hndl [out] The handle, which all other functions take.
 * @param info [in] The error handler, or NULL; all other fields are zero.
 * @return LAPI_SUCCESS: The process is task LAPI_Qenv(TASK_ID) of the job.
 * @return LAPI_ERR_RET_PTR_NULL: hndl is NULL.
 * @return LAPI_ERR_INFO_NULL: info is NULL.
 * @return LAPI_ERR_INFO_NONZERO: A reserved field is not zero.
 * @return LAPI_ERR_ALL_HNDL_IN_USE: LAPI_Init() was called before, without LAPI_Term().
 * @return LAPI_ERR_INIT_FAILED: A line on standard error says why.
 */
int LAPI_Init(lapi_handle_t *hndl, lapi_info_t *info);

/**
 * LAPI_Term - leave the job
 *
 * Collective. Waits until the targets have received the messages of this task, and for all tasks;
 * then releases everything. The handle becomes invalid.
 *
 * @param hndl [in] The handle from LAPI_Init().
 * @return LAPI_SUCCESS: Everything is released.
 * @return LAPI_ERR_HNDL_INVALID: The handle is not that of LAPI_Init(), or LAPI_Term() was called.
 * @return LAPI_ERR_IN_HNDLR: Called by a handler that runs in the dispatcher.
 * @return LAPI_ERR_TIMEOUT: Everything is released, but a task was gone before.
 */
int LAPI_Term(lapi_handle_t hndl);

/**
 * LAPI_Qenv - query the environment
 *
 * @param hndl [in] The handle from LAPI_Init().
 * @param query [in] TASK_ID, NUM_TASKS, MAX_UHDR_SZ, MAX_DATA_SZ, MAX_PKT_SZ, ERROR_CHK, TIMEOUT,
 *     INTERRUPT_SET, LOC_ADDRTBL_SZ, EPOCH_NUM or NUM_LOST.
 * @param ret_val [out] The value.
 * @return LAPI_SUCCESS: The value is written.
 * @return LAPI_ERR_HNDL_INVALID: The handle is not that of LAPI_Init(), or LAPI_Term() was called.
 * @return LAPI_ERR_QUERY_TYPE: There is no such query.
 * @return LAPI_ERR_RET_PTR_NULL: ret_val is NULL.
 */
int LAPI_Qenv(lapi_handle_t hndl, lapi_query_t query, int *ret_val);

/**
 * LAPI_Senv - change the environment
 *
 * INTERRUPT_SET 1 starts the thread that makes progress, 0 ends it. ERROR_CHK has an
 * effect on LAPI_Qenv() only: arguments are checked in any case.
 *
 * @param hndl [in] The handle from LAPI_Init().
 * @param query [in] INTERRUPT_SET or ERROR_CHK.
 * @param set_val [in] The value.
 * @return LAPI_SUCCESS: The value is set.
 * @return LAPI_ERR_HNDL_INVALID: The handle is not that of LAPI_Init(), or LAPI_Term() was called.
 * @return LAPI_ERR_QUERY_TYPE: The query cannot be set.
 * @return LAPI_ERR_SET_VAL: The value is neither 0 nor 1.
 * @return LAPI_ERR_IN_HNDLR: Called by a handler that runs in the dispatcher.
 * @return LAPI_ERR_MEMORY_EXHAUSTED: No memory, or it cannot be registered.
 */
int LAPI_Senv(lapi_handle_t hndl, lapi_query_t query, int set_val);

/**
 * LAPI_Msg_string - get the text of a code
 *
 * @param error_code [in] The code that a function returned.
 * @param buf [out] At least LAPI_MSG_STRING bytes, for the text and a null byte.
 * @return LAPI_SUCCESS: The text is written.
 * @return LAPI_ERR_RET_PTR_NULL: buf is NULL.
 * @return LAPI_ERR_MSG_STRING: There is no such code; the text says so.
 */
int LAPI_Msg_string(int error_code, void *buf);

/**
 * LAPI_Purge_totask - abandon a task
 *
 * Drops the messages to the task that wait here; their counters do not rise. Functions with the
 * task as target return LAPI_ERR_TGT_PURGED until LAPI_Resume_totask(). Messages of the task are
 * still executed.
 *
 * @param hndl [in] The handle from LAPI_Init().
 * @param dest [in] The task.
 * @return LAPI_SUCCESS: The task is abandoned.
 * @return LAPI_ERR_HNDL_INVALID: The handle is not that of LAPI_Init(), or LAPI_Term() was called.
 * @return LAPI_ERR_TGT: There is no such task.
 */
int LAPI_Purge_totask(lapi_handle_t hndl, uint dest);

/**
 * LAPI_Resume_totask - use a task again after LAPI_Purge_totask()
 *
 * @param hndl [in] The handle from LAPI_Init().
 * @param dest [in] The task.
 * @return LAPI_SUCCESS: The task may be used again.
 * @return LAPI_ERR_HNDL_INVALID: The handle is not that of LAPI_Init(), or LAPI_Term() was called.
 * @return LAPI_ERR_TGT: There is no such task.
 * @return LAPI_ERR_TGT_PURGED: The task is gone.
 */
int LAPI_Resume_totask(lapi_handle_t hndl, uint dest);

/*
 * Addresses
 */

/**
 * LAPI_Address - get an address as a number
 *
 * For languages without pointers.
 *
 * @param my_addr [in] Any address.
 * @param ret_addr [out] The number.
 * @return LAPI_SUCCESS: The number is written.
 * @return LAPI_ERR_RET_PTR_NULL: ret_addr is NULL.
 */
int LAPI_Address(void *my_addr, lapi_long_t *ret_addr);

/**
 * LAPI_Address_init, LAPI_Address_init64 - exchange addresses
 *
 * Collective. Every task gets the values of all tasks, in the order of task ids. The values
 * need not be addresses.
 *
 * @param hndl [in] The handle from LAPI_Init().
 * @param my_addr [in] This task's value.
 * @param add_tab [out] NUM_TASKS values.
 * @return LAPI_SUCCESS: The table is filled.
 * @return LAPI_ERR_HNDL_INVALID: The handle is not that of LAPI_Init(), or LAPI_Term() was called.
 * @return LAPI_ERR_ADDR_TBL_NULL: add_tab is NULL.
 * @return LAPI_ERR_IN_HNDLR: Called by a handler that runs in the dispatcher.
 * @return LAPI_ERR_MEMORY_EXHAUSTED: No memory, or it cannot be registered.
 * @return LAPI_ERR_TIMEOUT: A task of the job is gone.
 */
int LAPI_Address_init(lapi_handle_t hndl, void *my_addr, void *add_tab[]);
int LAPI_Address_init64(lapi_handle_t hndl, lapi_long_t my_addr, lapi_long_t *add_tab);

/**
 * LAPI_Addr_set, LAPI_Addr_get - set and get an address by an index
 *
 * LAPI_Amsend() and LAPI_Amsendv() take an index instead of the address of a header handler: the
 * target calls the handler that it has set under this index.
 *
 * @param hndl [in] The handle from LAPI_Init().
 * @param addr [in,out] The address; NULL unless set.
 * @param addr_hndl [in] The index, 1 to LAPI_ADDRTBL_SZ - 1.
 * @return LAPI_SUCCESS: The address is set, or written to *addr.
 * @return LAPI_ERR_HNDL_INVALID: The handle is not that of LAPI_Init(), or LAPI_Term() was called.
 * @return LAPI_ERR_ADDR_HNDL_RANGE: The index is too small or too large.
 * @return LAPI_ERR_RET_PTR_NULL: addr is NULL, in LAPI_Addr_get().
 */
int LAPI_Addr_set(lapi_handle_t hndl, void *addr, int addr_hndl);
int LAPI_Addr_get(lapi_handle_t hndl, void **addr, int addr_hndl);

/*
 * Order and counters
 */

/**
 * LAPI_Fence - wait until the messages of this task have arrived
 *
 * Then the data of all transfers that this task has started are at their targets, or, of gets,
 * here. Completion handlers may still have to run.
 *
 * @param hndl [in] The handle from LAPI_Init().
 * @return LAPI_SUCCESS: The messages have arrived.
 * @return LAPI_ERR_HNDL_INVALID: The handle is not that of LAPI_Init(), or LAPI_Term() was called.
 * @return LAPI_ERR_IN_HNDLR: Called by a handler that runs in the dispatcher.
 * @return LAPI_ERR_TIMEOUT: A task of the job is gone.
 */
int LAPI_Fence(lapi_handle_t hndl);

/**
 * LAPI_Gfence - wait until the messages of all tasks have arrived
 *
 * Collective. LAPI_Fence() in every task, and a barrier.
 *
 * @param hndl [in] The handle from LAPI_Init().
 * @return LAPI_SUCCESS: The messages of all tasks have arrived.
 * @return LAPI_ERR_HNDL_INVALID: The handle is not that of LAPI_Init(), or LAPI_Term() was called.
 * @return LAPI_ERR_IN_HNDLR: Called by a handler that runs in the dispatcher.
 * @return LAPI_ERR_TIMEOUT: A task of the job is gone.
 */
int LAPI_Gfence(lapi_handle_t hndl);

/**
 * LAPI_Setcntr, LAPI_Getcntr - set and read a counter
 *
 * LAPI_Getcntr() makes progress.
 *
 * @param hndl [in] The handle from LAPI_Init().
 * @param cntr [in,out] The counter.
 * @param val [in,out] Its value.
 * @return LAPI_SUCCESS: The value is set, or written to *val.
 * @return LAPI_ERR_HNDL_INVALID: The handle is not that of LAPI_Init(), or LAPI_Term() was called.
 * @return LAPI_ERR_CNTR_NULL: cntr is NULL.
 * @return LAPI_ERR_CNTR_VAL: The value is negative.
 * @return LAPI_ERR_RET_PTR_NULL: val is NULL, in LAPI_Getcntr().
 */
int LAPI_Setcntr(lapi_handle_t hndl, lapi_cntr_t *cntr, int val);
int LAPI_Getcntr(lapi_handle_t hndl, lapi_cntr_t *cntr, int *val);

/**
 * LAPI_Waitcntr, LAPI_Nopoll_wait - wait for a counter
 *
 * Waits until the counter is val or more, and subtracts val. LAPI_Waitcntr() makes progress
 * meanwhile; LAPI_Nopoll_wait() leaves that to the thread of INTERRUPT_SET, or to other threads of
 * the program.
 *
 * @param hndl [in] The handle from LAPI_Init().
 * @param cntr [in,out] The counter.
 * @param val [in] The value to wait for, and to subtract.
 * @param cur_cntr_val [out] The value afterwards, or NULL.
 * @return LAPI_SUCCESS: The counter had reached val.
 * @return LAPI_ERR_HNDL_INVALID: The handle is not that of LAPI_Init(), or LAPI_Term() was called.
 * @return LAPI_ERR_CNTR_NULL: cntr is NULL.
 * @return LAPI_ERR_CNTR_VAL: val is negative.
 * @return LAPI_ERR_IN_HNDLR: Called by a handler that runs in the dispatcher.
 * @return LAPI_ERR_TIMEOUT: A task is gone, and no call has returned this before. The counter is
 *     unchanged.
 */
int LAPI_Waitcntr(lapi_handle_t hndl, lapi_cntr_t *cntr, int val, int *cur_cntr_val);
int LAPI_Nopoll_wait(lapi_handle_t hndl, lapi_cntr_t *cntr, int val, int *cur_cntr_val);

/**
 * LAPI_Probe - make progress once
 *
 * @param hndl [in] The handle from LAPI_Init().
 * @return LAPI_SUCCESS: Progress was made.
 * @return LAPI_ERR_HNDL_INVALID: The handle is not that of LAPI_Init(), or LAPI_Term() was called.
 */
int LAPI_Probe(lapi_handle_t hndl);

/**
 * LAPI_Msgpoll - make progress until something has happened
 *
 * @param hndl [in] The handle from LAPI_Init().
 * @param cnt [in] Maximum number of polls.
 * @param info [out] Its status says what has happened.
 * @return LAPI_SUCCESS: info->status is written.
 * @return LAPI_ERR_HNDL_INVALID: The handle is not that of LAPI_Init(), or LAPI_Term() was called.
 * @return LAPI_ERR_MSG_INFO_NULL: info is NULL.
 */
int LAPI_Msgpoll(lapi_handle_t hndl, uint cnt, lapi_msg_info_t *info);

/*
 * Transfers
 */

/**
 * LAPI_Amsend - send an active message
 *
 * The target runs the header handler once, when the header has arrived. The handler gets uhdr, in
 * memory that it may write to, and the length of udata, and returns the address for udata; it may
 * name a completion handler and its argument. If udata has come with the header, lapi_return_info_t
 * points to it: the handler may consume it, set LAPI_BURY_MSG and return NULL. When all data have
 * arrived, the completion handler runs, then tgt_cntr rises, then cmpl_cntr.
 *
 * @param hndl [in] The handle from LAPI_Init().
 * @param tgt [in] The target task, 0 to NUM_TASKS - 1.
 * @param hdr_hdl [in] The header handler: its address at the target, or an index of
 *     LAPI_Addr_set().
 * @param uhdr [in] The user header, or NULL.
 * @param uhdr_len [in] Its length, a multiple of 4 up to MAX_UHDR_SZ.
 * @param udata [in] The data, or NULL.
 * @param udata_len [in] Their length in bytes.
 * @param tgt_cntr [in] Address of a counter at the target, or NULL: rises when the message is
 *     complete there.
 * @param org_cntr [in,out] Counter here, or NULL: rises when the origin's memory may be reused.
 * @param cmpl_cntr [in,out] Counter here, or NULL: rises when the message is complete at the
 *     target.
 * @return LAPI_SUCCESS: The message is sent, or will be.
 * @return LAPI_ERR_HNDL_INVALID: The handle is not that of LAPI_Init(), or LAPI_Term() was called.
 * @return LAPI_ERR_TGT: There is no such task.
 * @return LAPI_ERR_TGT_PURGED: LAPI_Purge_totask() was called for the task, or it is gone.
 * @return LAPI_ERR_HDR_HNDLR_NULL: hdr_hdl is NULL.
 * @return LAPI_ERR_UHDR_LEN: uhdr_len is more than MAX_UHDR_SZ or no multiple of 4.
 * @return LAPI_ERR_UHDR_NULL: uhdr is NULL, and uhdr_len is not 0.
 * @return LAPI_ERR_ORG_ADDR_NULL: The origin's address is NULL, and the length is not 0.
 * @return LAPI_ERR_DATA_LEN: The length is more than LAPI_MAX_MSG_SZ.
 * @return LAPI_ERR_MEMORY_EXHAUSTED: No memory, or it cannot be registered.
 */
int LAPI_Amsend(lapi_handle_t hndl, uint tgt, void *hdr_hdl, void *uhdr, uint uhdr_len, void *udata,
                ulong udata_len, lapi_cntr_t *tgt_cntr, lapi_cntr_t *org_cntr,
                lapi_cntr_t *cmpl_cntr);

/**
 * LAPI_Put - write memory of another task
 *
 * @param hndl [in] The handle from LAPI_Init().
 * @param tgt [in] The target task, 0 to NUM_TASKS - 1.
 * @param len [in] Bytes; with 0 only the counters rise.
 * @param tgt_addr [in] Destination, at the target.
 * @param org_addr [in] Source, at this task.
 * @param tgt_cntr [in] Address of a counter at the target, or NULL: rises when the message is
 *     complete there.
 * @param org_cntr [in,out] Counter here, or NULL: rises when the origin's memory may be reused.
 * @param cmpl_cntr [in,out] Counter here, or NULL: rises when the message is complete at the
 *     target.
 * @return LAPI_SUCCESS: The transfer is started.
 * @return LAPI_ERR_HNDL_INVALID: The handle is not that of LAPI_Init(), or LAPI_Term() was called.
 * @return LAPI_ERR_TGT: There is no such task.
 * @return LAPI_ERR_TGT_PURGED: LAPI_Purge_totask() was called for the task, or it is gone.
 * @return LAPI_ERR_ORG_ADDR_NULL: The origin's address is NULL, and the length is not 0.
 * @return LAPI_ERR_TGT_ADDR_NULL: The target's address is NULL, and the length is not 0.
 * @return LAPI_ERR_DATA_LEN: The length is more than LAPI_MAX_MSG_SZ.
 * @return LAPI_ERR_MEMORY_EXHAUSTED: No memory, or it cannot be registered.
 */
int LAPI_Put(lapi_handle_t hndl, uint tgt, ulong len, void *tgt_addr, void *org_addr,
             lapi_cntr_t *tgt_cntr, lapi_cntr_t *org_cntr, lapi_cntr_t *cmpl_cntr);

/**
 * LAPI_Get - read memory of another task
 *
 * @param hndl [in] The handle from LAPI_Init().
 * @param tgt [in] The target task, 0 to NUM_TASKS - 1.
 * @param len [in] Bytes; with 0 only the counters rise.
 * @param tgt_addr [in] Source, at the target.
 * @param org_addr [in] Destination, at this task.
 * @param tgt_cntr [in] Address of a counter at the target, or NULL: rises when its memory has been
 *     read.
 * @param org_cntr [in,out] Counter here, or NULL: rises when the data have arrived.
 * @return LAPI_SUCCESS: The transfer is started.
 * @return LAPI_ERR_HNDL_INVALID: The handle is not that of LAPI_Init(), or LAPI_Term() was called.
 * @return LAPI_ERR_TGT: There is no such task.
 * @return LAPI_ERR_TGT_PURGED: LAPI_Purge_totask() was called for the task, or it is gone.
 * @return LAPI_ERR_ORG_ADDR_NULL: The origin's address is NULL, and the length is not 0.
 * @return LAPI_ERR_TGT_ADDR_NULL: The target's address is NULL, and the length is not 0.
 * @return LAPI_ERR_DATA_LEN: The length is more than LAPI_MAX_MSG_SZ.
 * @return LAPI_ERR_MEMORY_EXHAUSTED: No memory, or it cannot be registered.
 */
int LAPI_Get(lapi_handle_t hndl, uint tgt, ulong len, void *tgt_addr, void *org_addr,
             lapi_cntr_t *tgt_cntr, lapi_cntr_t *org_cntr);

/**
 * LAPI_Rmw, LAPI_Rmw64 - change a variable of another task atomically
 *
 * Atomic with respect to all tasks and to atomic instructions of the target's own threads.
 *
 * @param hndl [in] The handle from LAPI_Init().
 * @param op [in] FETCH_AND_ADD, FETCH_AND_OR, SWAP or COMPARE_AND_SWAP.
 * @param tgt [in] The target task, 0 to NUM_TASKS - 1.
 * @param tgt_var [in] The variable at the target.
 * @param in_val [in] The operand; of COMPARE_AND_SWAP two: expected and new value.
 * @param prev_tgt_val [out] The value before, or NULL.
 * @param org_cntr [in,out] Counter here, or NULL: rises when the operation is complete.
 * @return LAPI_SUCCESS: The transfer is started.
 * @return LAPI_ERR_HNDL_INVALID: The handle is not that of LAPI_Init(), or LAPI_Term() was called.
 * @return LAPI_ERR_TGT: There is no such task.
 * @return LAPI_ERR_TGT_PURGED: LAPI_Purge_totask() was called for the task, or it is gone.
 * @return LAPI_ERR_RMW_OP: There is no such operation.
 * @return LAPI_ERR_TGT_VAR_NULL: tgt_var is NULL.
 * @return LAPI_ERR_TGT_VAR_ALIGN: tgt_var is not aligned to its size.
 * @return LAPI_ERR_IN_VAL_NULL: in_val is NULL.
 */
int LAPI_Rmw(lapi_handle_t hndl, RMW_ops_t op, uint tgt, int *tgt_var, int *in_val,
             int *prev_tgt_val, lapi_cntr_t *org_cntr);
int LAPI_Rmw64(lapi_handle_t hndl, RMW_ops_t op, uint tgt, long long *tgt_var, long long *in_val,
               long long *prev_tgt_val, lapi_cntr_t *org_cntr);

/**
 * LAPI_Putv - write segments of memory of another task
 *
 * Both vectors have the same type, and segments of the same lengths.
 *
 * @param hndl [in] The handle from LAPI_Init().
 * @param tgt [in] The target task, 0 to NUM_TASKS - 1.
 * @param tgt_vec [in] The segments at the target.
 * @param org_vec [in] The segments at this task.
 * @param tgt_cntr [in] Address of a counter at the target, or NULL.
 * @param org_cntr [in,out] Counter here, or NULL: rises when the origin's memory may be reused.
 * @param cmpl_cntr [in,out] Counter here, or NULL: rises when the message is complete.
 * @return LAPI_SUCCESS: The transfer is started.
 * @return LAPI_ERR_HNDL_INVALID: The handle is not that of LAPI_Init(), or LAPI_Term() was called.
 * @return LAPI_ERR_TGT: There is no such task.
 * @return LAPI_ERR_TGT_PURGED: LAPI_Purge_totask() was called for the task, or it is gone.
 * @return LAPI_ERR_ORG_VEC_NULL, LAPI_ERR_TGT_VEC_NULL: A vector is NULL.
 * @return LAPI_ERR_ORG_VEC_TYPE, LAPI_ERR_TGT_VEC_TYPE: There is no such type of vector.
 * @return LAPI_ERR_ORG_VEC_ADDR, LAPI_ERR_TGT_VEC_ADDR: An address in the vector is NULL.
 * @return LAPI_ERR_ORG_VEC_LEN, LAPI_ERR_TGT_VEC_LEN: The vector is longer than LAPI_MAX_MSG_SZ.
 * @return LAPI_ERR_ORG_STRIDE, LAPI_ERR_TGT_STRIDE: The blocks of the vector overlap.
 * @return LAPI_ERR_VEC_TYPE_DIFF, LAPI_ERR_VEC_NUM_DIFF, LAPI_ERR_VEC_LEN_DIFF: The vectors differ.
 * @return LAPI_ERR_MEMORY_EXHAUSTED: No memory, or it cannot be registered.
 */
int LAPI_Putv(lapi_handle_t hndl, uint tgt, lapi_vec_t *tgt_vec, lapi_vec_t *org_vec,
              lapi_cntr_t *tgt_cntr, lapi_cntr_t *org_cntr, lapi_cntr_t *cmpl_cntr);

/**
 * LAPI_Getv - read segments of memory of another task
 *
 * @param hndl [in] The handle from LAPI_Init().
 * @param tgt [in] The target task, 0 to NUM_TASKS - 1.
 * @param tgt_vec [in] The segments at the target.
 * @param org_vec [in] The segments at this task.
 * @param tgt_cntr [in] Address of a counter at the target, or NULL.
 * @param org_cntr [in,out] Counter here, or NULL: rises when the data have arrived.
 * @return LAPI_SUCCESS: The transfer is started.
 * @return others: As of LAPI_Putv().
 */
int LAPI_Getv(lapi_handle_t hndl, uint tgt, lapi_vec_t *tgt_vec, lapi_vec_t *org_vec,
              lapi_cntr_t *tgt_cntr, lapi_cntr_t *org_cntr);

/**
 * LAPI_Amsendv - send an active message with segments of memory
 *
 * As LAPI_Amsend(), but the header handler returns a pointer to a lapi_vec_t for the data, which
 * stays valid until the data have arrived. Data longer than that vector are truncated.
 *
 * @param hndl [in] The handle from LAPI_Init().
 * @param tgt [in] The target task, 0 to NUM_TASKS - 1.
 * @param hdr_hdl [in] The header handler: its address at the target, or an index.
 * @param uhdr [in] The user header, or NULL.
 * @param uhdr_len [in] Its length, a multiple of 4 up to MAX_UHDR_SZ.
 * @param org_vec [in] The segments at this task.
 * @param tgt_cntr [in] Address of a counter at the target, or NULL.
 * @param org_cntr [in,out] Counter here, or NULL: rises when the origin's memory may be reused.
 * @param cmpl_cntr [in,out] Counter here, or NULL: rises when the message is complete.
 * @return LAPI_SUCCESS: The transfer is started.
 * @return others: As of LAPI_Amsend(), and of LAPI_Putv() for org_vec.
 */
int LAPI_Amsendv(lapi_handle_t hndl, uint tgt, void *hdr_hdl, void *uhdr, uint uhdr_len,
                 lapi_vec_t *org_vec, lapi_cntr_t *tgt_cntr, lapi_cntr_t *org_cntr,
                 lapi_cntr_t *cmpl_cntr);

/**
 * LAPI_Xfer - start a transfer of any kind
 *
 * As the function of the kind, with a handler that runs in the dispatcher when the origin's memory
 * may be reused or, of gets, when the data have arrived.
 *
 * LAPI_AM_LW_XFER is a lightweight active message: Am.uhdr and Am.udata, together at most
 * MAX_PKT_SZ bytes, may be reused when the function returns, and the header handler gets all data
 * at once. Fields of Am behind udata_len are not read: there are no counters and no handler of the
 * origin.
 *
 * LAPI_RDMA_XFER (HwXfer) is a put or get between memory handles of LAPI_Util().
 *
 * @param hndl [in] The handle from LAPI_Init().
 * @param xfer_struct [in] The arguments; Xfer_type says which.
 * @return LAPI_SUCCESS: The transfer is started.
 * @return LAPI_ERR_RET_PTR_NULL: xfer_struct is NULL.
 * @return LAPI_ERR_XFER_CMD: There is no such kind, or HwXfer.op is neither LAPI_RDMA_GET nor
 *     LAPI_RDMA_PUT.
 * @return LAPI_ERR_OP_SZ: size of an atomic operation is neither 32 nor 64.
 * @return others: As of the function of the kind.
 */
int LAPI_Xfer(lapi_handle_t hndl, lapi_xfer_t *xfer_struct);

/**
 * LAPI_Util - get functions for the lock of the library, or handles for LAPI_RDMA_XFER
 *
 * LAPI_GET_THREAD_FUNC writes functions that take and release the lock, which is recursive. Its
 * owner may call any function. Functions that wait or make progress (LAPI_Waitcntr(),
 * LAPI_Gfence(), LAPI_Getcntr(), LAPI_Probe()...), and LAPI_Xfer() while there is no room for its
 * message, release it meanwhile, so that the threads of the library make progress. LAPI_Term()
 * releases it. mutex_unlock() without it returns LAPI_ERR_NOT_LOCKED.
 *
 * LAPI_XLATE_ADDRESS (lapi_get_pvo_t) writes a handle of memory, LAPI_REMOTE_RCXT
 * (lapi_remote_cxt_t) a handle of a task; LAPI_RDMA_RELEASE releases it, which has no effect here.
 *
 * @param hndl [in] The handle from LAPI_Init().
 * @param util_struct [in,out] Util_type selects the utility.
 * @return LAPI_SUCCESS: The result is written.
 * @return LAPI_ERR_HNDL_INVALID: The handle is not that of LAPI_Init(), or LAPI_Term() was called.
 * @return LAPI_ERR_RET_PTR_NULL: util_struct is NULL.
 * @return LAPI_ERR_UTIL_CMD: There is no such utility, or operation is neither LAPI_RDMA_ACQUIRE
 *     nor LAPI_RDMA_RELEASE.
 * @return LAPI_ERR_ORG_ADDR_NULL: address is NULL, with LAPI_RDMA_ACQUIRE.
 * @return LAPI_ERR_TGT: There is no task dest.
 */
int LAPI_Util(lapi_handle_t hndl, lapi_util_t *util_struct);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
