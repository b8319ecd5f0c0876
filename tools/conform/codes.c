/* SPDX-License-Identifier: Apache-2.0 */
/* Names of the return codes. */
#include "conform.h"
#include <stdio.h>

#define CODE(code)                                                                                 \
    {                                                                                              \
        code, #code                                                                                \
    }
static const struct {
    int code;
    const char *name;
} codes[] = {CODE(UTOFU_SUCCESS),
             CODE(UTOFU_ERR_NOT_FOUND),
             CODE(UTOFU_ERR_NOT_COMPLETED),
             CODE(UTOFU_ERR_NOT_PROCESSED),
             CODE(UTOFU_ERR_BUSY),
             CODE(UTOFU_ERR_USED),
             CODE(UTOFU_ERR_FULL),
             CODE(UTOFU_ERR_NOT_AVAILABLE),
             CODE(UTOFU_ERR_NOT_SUPPORTED),
             CODE(UTOFU_ERR_TCQ_OTHER),
             CODE(UTOFU_ERR_TCQ_DESC),
             CODE(UTOFU_ERR_TCQ_MEMORY),
             CODE(UTOFU_ERR_TCQ_STADD),
             CODE(UTOFU_ERR_TCQ_LENGTH),
             CODE(UTOFU_ERR_MRQ_OTHER),
             CODE(UTOFU_ERR_MRQ_PEER),
             CODE(UTOFU_ERR_MRQ_LCL_MEMORY),
             CODE(UTOFU_ERR_MRQ_RMT_MEMORY),
             CODE(UTOFU_ERR_MRQ_LCL_STADD),
             CODE(UTOFU_ERR_MRQ_RMT_STADD),
             CODE(UTOFU_ERR_MRQ_LCL_LENGTH),
             CODE(UTOFU_ERR_MRQ_RMT_LENGTH),
             CODE(UTOFU_ERR_BARRIER_OTHER),
             CODE(UTOFU_ERR_BARRIER_MISMATCH),
             CODE(UTOFU_ERR_INVALID_ARG),
             CODE(UTOFU_ERR_INVALID_POINTER),
             CODE(UTOFU_ERR_INVALID_FLAGS),
             CODE(UTOFU_ERR_INVALID_COORDS),
             CODE(UTOFU_ERR_INVALID_PATH),
             CODE(UTOFU_ERR_INVALID_TNI_ID),
             CODE(UTOFU_ERR_INVALID_CQ_ID),
             CODE(UTOFU_ERR_INVALID_BG_ID),
             CODE(UTOFU_ERR_INVALID_CMP_ID),
             CODE(UTOFU_ERR_INVALID_VCQ_HDL),
             CODE(UTOFU_ERR_INVALID_VCQ_ID),
             CODE(UTOFU_ERR_INVALID_VBG_ID),
             CODE(UTOFU_ERR_INVALID_PATH_ID),
             CODE(UTOFU_ERR_INVALID_STADD),
             CODE(UTOFU_ERR_INVALID_ADDRESS),
             CODE(UTOFU_ERR_INVALID_SIZE),
             CODE(UTOFU_ERR_INVALID_STAG),
             CODE(UTOFU_ERR_INVALID_EDATA),
             CODE(UTOFU_ERR_INVALID_NUMBER),
             CODE(UTOFU_ERR_INVALID_OP),
             CODE(UTOFU_ERR_INVALID_DESC),
             CODE(UTOFU_ERR_INVALID_DATA),
             CODE(UTOFU_ERR_OUT_OF_RESOURCE),
             CODE(UTOFU_ERR_OUT_OF_MEMORY),
             CODE(UTOFU_ERR_FATAL)};

/* In turn one of a few texts, so that two codes may stand in one message */
const char *cf_code(int code)
{
    static char texts[4][64];
    static unsigned turn;
    char *text = texts[turn++ % 4];
    size_t i;
    for (i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        if (codes[i].code == code) {
            snprintf(text, sizeof(texts[0]), "%s (%d)", codes[i].name, code);
            return text;
        }
    snprintf(text, sizeof(texts[0]), "unknown code (%d)", code);
    return text;
}
