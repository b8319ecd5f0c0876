/* SPDX-License-Identifier: Apache-2.0 */
#include "put.h"

#ifdef ONE_MORE /* instruction for each put: the count shows it */
volatile int put_last_code;
#    define KEEP(rc) (put_last_code = (rc))
#else
#    define KEEP(rc) ((void)0)
#endif

void put_words(utofu_vcq_hdl_t vcq, utofu_vcq_id_t peer, utofu_stadd_t lcl, utofu_stadd_t rmt,
               long number)
{
    for (long i = 0; i < number; i++) {
        void *cbdata;
        int rc = utofu_put(vcq, peer, lcl, rmt, 8, 0, UTOFU_ONESIDED_FLAG_TCQ_NOTICE, NULL);

        KEEP(rc);
        if (rc != UTOFU_SUCCESS)
            end_with_error(rc);
        while ((rc = utofu_poll_tcq(vcq, 0, &cbdata)) != UTOFU_SUCCESS)
            if (rc != UTOFU_ERR_NOT_FOUND)
                end_with_error(rc);
    }
}
