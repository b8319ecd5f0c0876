/* SPDX-License-Identifier: Apache-2.0 */
/* Connect requests of the verbs provider whose tags, of 8 bits, are the same:
 * provider/verbs/connect/ passive.c itself. */
#include "../../provider/verbs/connect/passive.c"

#include "../harness/check.h"

enum { TAG = 7, ORIGIN = 5 };

static struct vp_ep ep;
static struct vp_conn established;

static struct vp_hello_req request(uint8_t attempt, uint8_t serial)
{
    return (struct vp_hello_req){
        .kind = 4, .tag = TAG, .attempt = attempt, .origin_id = ORIGIN, .hello = {serial}};
}

int main(void)
{
    const struct vp_hello_req late_copy = request(1, 3), next_attempt = request(2, 3),
                              another_request_with_the_same_tag = request(1, 4);

    established.ep = &ep;
    established.phase = VP_ESTABLISHED;
    established.req = request(1, 3);
    CHECK(ut_hash_reserve(&ep.by_origin));
    ut_hash_insert(&ep.by_origin, &established.by_origin, ORIGIN);
    CHECK(!fail_older_requests_locked(&ep, &late_copy));
    CHECK(fail_older_requests_locked(&ep, &next_attempt));
    CHECK(fail_older_requests_locked(&ep, &another_request_with_the_same_tag));
    CHECK(established.phase == VP_ESTABLISHED);
    ut_hash_free(&ep.by_origin);
    return 0;
}
