/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Macros and helpers of all files of this module. The functions of the API check their arguments,
 * and call the modules below.
 */
#ifndef UT_API_API_H
#define UT_API_API_H

#include <stdint.h>

#include "utofu.h"
#include "utofu_profile.h"

#include "ident/ident.h"
#include "process/process.h"
#include "util/last_error.h"
#include "util/log.h"
#include "vcq/vcq.h"

/* Stands before the definition of a public function. Makes it weak, and its profiling name putofu_*
 * a strong alias, so that a tool can wrap the function. */
#define UT_PUBLIC(name) UT_PUBLIC_AS(name, )
/* The same as UT_PUBLIC, placed with the other hot functions. */
#define UT_PUBLIC_HOT(name) UT_PUBLIC_AS(name, __attribute__((hot)))
#define UT_PUBLIC_AS(name, attributes)                                                             \
    extern __typeof__(name) name __attribute__((weak)) attributes;                                 \
    extern __typeof__(name) p##name __attribute__((alias(#name))) attributes

/* Refuses a bad argument. Stores the text for utofu_get_last_error(), and logs it at level warning.
 */
#define UT_REFUSE(rc, ...) ut_log_refuse(rc, UT_LOG_WARNING, "api", __VA_ARGS__)
/* Refuses a call in a way that a correct program may see, perhaps often: logged at level debug. */
#define UT_DECLINE(rc, ...) ut_log_refuse(rc, UT_LOG_DEBUG, "api", __VA_ARGS__)

/* The result of a function below the API. The caller has called ut_last_error_begin() before. After
 * a failure, utofu_get_last_error() returns the text of that function, or this text if there is
 * none. */
#define UT_RESULT(rc_, ...)                                                                        \
    ({                                                                                             \
        int ut_rc = (rc_);                                                                         \
        if (__builtin_expect(ut_rc != 0, 0)) {                                                     \
            if (ut_last_error_has_text())                                                          \
                ut_last_error_code(ut_rc);                                                         \
            else                                                                                   \
                UT_DECLINE(ut_rc, __VA_ARGS__);                                                    \
        }                                                                                          \
        ut_rc;                                                                                     \
    })

/* Returns UTOFU_ERR_INVALID_VCQ_ID. The text says what the value is instead. */
int ut_refuse_vcq_id(utofu_vcq_id_t vcq_id) __attribute__((cold));
/* Finds the job, whose mark is in all ids of its VCQs. 0 or a return code. */
int ut_find_job(void);
/* Unpacks an id from the program. 0 or a return code. */
int ut_take_vcq_id(utofu_vcq_id_t vcq_id, struct ut_vcq_ident *ident);

/* Returns UTOFU_ERR_INVALID_VCQ_HDL. The text says what the value is instead. Logged at level
 * debug, because programs may poll a bad handle in a loop. */
int ut_refuse_handle(utofu_vcq_hdl_t vcq_hdl) __attribute__((cold));

#endif
