/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every file of this module needs. The functions check their arguments, and leave the rest to
 * the modules below.
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

/* Before the definition of a public function: makes it weak, and its profiling name putofu_* a
 * strong alias, so that a tool can wrap it. */
#define UT_PUBLIC(name) UT_PUBLIC_AS(name, )
/* As UT_PUBLIC, placed with the other hot functions. */
#define UT_PUBLIC_HOT(name) UT_PUBLIC_AS(name, __attribute__((hot)))
#define UT_PUBLIC_AS(name, attributes)                                                             \
    extern __typeof__(name) name __attribute__((weak)) attributes;                                 \
    extern __typeof__(name) p##name __attribute__((alias(#name))) attributes

/* A bad argument. The text is kept for utofu_get_last_error(), and logged at level warning. */
#define UT_REFUSE(rc, ...) ut_log_refuse(rc, UT_LOG_WARNING, "api", __VA_ARGS__)
/* An error that a correct program may get, perhaps often: logged at level debug. */
#define UT_DECLINE(rc, ...) ut_log_refuse(rc, UT_LOG_DEBUG, "api", __VA_ARGS__)

/* The result of a function below the API that was called after ut_last_error_begin(). For a
 * failure, utofu_get_last_error() gives the text recorded by that function, or this text if there
 * is none. */
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

/* UTOFU_ERR_INVALID_VCQ_ID. The text says what the value is instead. */
int ut_refuse_vcq_id(utofu_vcq_id_t vcq_id) __attribute__((cold));
/* Finds the job, whose mark is in all its ids. 0 or a return code. */
int ut_find_job(void);
/* Unpacks an id that the program gives. 0 or a return code. */
int ut_take_vcq_id(utofu_vcq_id_t vcq_id, struct ut_vcq_ident *ident);

/* UTOFU_ERR_INVALID_VCQ_HDL. The text says what the value is instead. Logged at level debug, as
 * programs may poll with a bad handle in a loop. */
int ut_refuse_handle(utofu_vcq_hdl_t vcq_hdl) __attribute__((cold));

#endif
