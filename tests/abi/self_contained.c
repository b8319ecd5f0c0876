/* SPDX-License-Identifier: Apache-2.0 */
/* The profiling header, included first, declares all types that it needs. */
#include <utofu_profile.h>

int main(void)
{
    struct utofu_mrq_notice notice;

    return sizeof(notice.rmt_stadd) == sizeof(utofu_stadd_t) ? 0 : 1;
}
