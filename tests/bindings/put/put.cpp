/* SPDX-License-Identifier: Apache-2.0 */
#include <utofu.hpp>

#include "put.h"

void put_words(utofu_vcq_hdl_t vcq, utofu_vcq_id_t peer, utofu_stadd_t lcl, utofu_stadd_t rmt,
               long number)
{
    const utofu::VcqView view(vcq);
    const utofu::Stadd<std::uint64_t> from(lcl), to(rmt);

    for (long i = 0; i < number; i++) {
        void *cbdata;

        if (!view.put(static_cast<utofu::VcqId>(peer), from, to, 1, 0,
                      utofu::onesided_flag::tcq_notice))
            end_with_error(UTOFU_ERR_BUSY);
        while (!view.poll_tcq(cbdata))
            continue;
    }
}
