/* SPDX-License-Identifier: Apache-2.0 */
/* The texts of the return codes. */
#include "lapi.h"

#include <stdio.h>

static const struct {
    int code;
    const char *name, *text;
} texts[] = {
#define T(name, text)                                                                              \
    {                                                                                              \
        name, #name, text                                                                          \
    }
    T(LAPI_SUCCESS, "success"),
    T(LAPI_ERR_HNDL_INVALID, "the handle is not valid: LAPI_Init() comes first, LAPI_Term() last"),
    T(LAPI_ERR_ALL_HNDL_IN_USE, "LAPI_Init() was called before, without LAPI_Term()"),
    T(LAPI_ERR_INIT_FAILED, "the task has not joined its job; standard error says why"),
    T(LAPI_ERR_IN_HNDLR, "a handler that runs in the dispatcher may not wait"),
    T(LAPI_ERR_MEMORY_EXHAUSTED, "no memory, or it cannot be registered"),
    T(LAPI_ERR_TGT, "there is no such task"),
    T(LAPI_ERR_TGT_PURGED, "LAPI_Purge_totask() was called for the task, or it is gone"),
    T(LAPI_ERR_TIMEOUT, "a task is gone or cannot be reached"),
    T(LAPI_ERR_DATA_LEN, "the length of the data is more than LAPI_MAX_MSG_SZ"),
    T(LAPI_ERR_UHDR_LEN, "the user header is longer than MAX_UHDR_SZ, or no multiple of 4 bytes"),
    T(LAPI_ERR_UHDR_NULL, "the user header is NULL, and its length is not 0"),
    T(LAPI_ERR_HDR_HNDLR_NULL, "the header handler is NULL"),
    T(LAPI_ERR_ORG_ADDR_NULL, "the origin's address is NULL, and the length is not 0"),
    T(LAPI_ERR_TGT_ADDR_NULL, "the target's address is NULL, and the length is not 0"),
    T(LAPI_ERR_TGT_ADDR, "the target's memory cannot be used"),
    T(LAPI_ERR_CNTR_NULL, "the counter is NULL"),
    T(LAPI_ERR_CNTR_VAL, "the value for a counter is negative"),
    T(LAPI_ERR_RET_PTR_NULL, "the pointer to a result is NULL"),
    T(LAPI_ERR_QUERY_TYPE, "there is no such query, or it cannot be set"),
    T(LAPI_ERR_SET_VAL, "the value cannot be set"),
    T(LAPI_ERR_ADDR_HNDL_RANGE, "the index is not 1 to LAPI_ADDRTBL_SZ - 1"),
    T(LAPI_ERR_ADDR_TBL_NULL, "the table of addresses is NULL"),
    T(LAPI_ERR_MSG_STRING, "there is no such code"),
    T(LAPI_ERR_MSG_INFO_NULL, "the pointer to lapi_msg_info_t is NULL"),
    T(LAPI_ERR_INFO_NULL, "the pointer to lapi_info_t is NULL"),
    T(LAPI_ERR_INFO_NONZERO, "a reserved field of lapi_info_t is not zero"),
    T(LAPI_ERR_RMW_OP, "there is no such operation"),
    T(LAPI_ERR_TGT_VAR_NULL, "the target variable is NULL"),
    T(LAPI_ERR_TGT_VAR_ALIGN, "the target variable is not aligned to its size"),
    T(LAPI_ERR_IN_VAL_NULL, "the operand is NULL"),
    T(LAPI_ERR_OP_SZ, "the operand has neither 32 nor 64 bits"),
    T(LAPI_ERR_ORG_VEC_NULL, "the origin's vector is NULL"),
    T(LAPI_ERR_TGT_VEC_NULL, "the target's vector is NULL"),
    T(LAPI_ERR_ORG_VEC_TYPE, "the origin's vector has no such type"),
    T(LAPI_ERR_TGT_VEC_TYPE, "the target's vector has no such type"),
    T(LAPI_ERR_ORG_VEC_ADDR, "an address in the origin's vector is NULL"),
    T(LAPI_ERR_TGT_VEC_ADDR, "an address in the target's vector is NULL"),
    T(LAPI_ERR_ORG_VEC_LEN, "the lengths in the origin's vector are too large"),
    T(LAPI_ERR_TGT_VEC_LEN, "the lengths in the target's vector are too large"),
    T(LAPI_ERR_VEC_TYPE_DIFF, "the two vectors are of different types"),
    T(LAPI_ERR_VEC_NUM_DIFF, "the two vectors have different numbers of elements"),
    T(LAPI_ERR_VEC_LEN_DIFF, "the elements of the two vectors have different lengths"),
    T(LAPI_ERR_ORG_STRIDE, "the origin's stride is less than its block"),
    T(LAPI_ERR_TGT_STRIDE, "the target's stride is less than its block"),
    T(LAPI_ERR_XFER_CMD, "there is no such type of transfer"),
    T(LAPI_ERR_UTIL_CMD, "there is no such utility"),
    T(LAPI_ERR_NOT_LOCKED, "the lock is not held by this thread: mutex_lock() comes first"),
#undef T
};

int LAPI_Msg_string(int error_code, void *buf)
{
    if (buf == NULL)
        return LAPI_ERR_RET_PTR_NULL;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (texts[i].code == error_code) {
            snprintf(buf, LAPI_MSG_STRING, "%s: %s", texts[i].name, texts[i].text);
            return LAPI_SUCCESS;
        }
    snprintf(buf, LAPI_MSG_STRING, "%d: there is no such code", error_code);
    return LAPI_ERR_MSG_STRING;
}
