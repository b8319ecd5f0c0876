/* SPDX-License-Identifier: Apache-2.0 */
/* See relay.h. */
#include "relay.h"

void relay_open_all(struct ut_end *end, bool session, size_t size, struct ut_peer peers[])
{
    ut_end_open(end, 0, session ? UTOFU_VCQ_FLAG_SESSION_MODE : 0, size);
    ut_end_gather(end, peers);
}

struct ut_comm relay_put(const struct ut_end *from, const struct ut_peer *to, size_t offset,
                         size_t length, unsigned long int flags)
{
    return (struct ut_comm){.kind = UT_PUT,
                            .vcq = from->vcq,
                            .rmt = to->id,
                            .lcl_stadd = from->stadd + offset,
                            .rmt_stadd = to->stadd + offset,
                            .length = length,
                            .flags = flags};
}

void relay_compute_until(int cell)
{
    volatile uint64_t x = 1;

    while (*ut_cell(cell) == 0) {
        for (int i = 0; i < 100000; i++)
            x = x * 3 + 1;
        ut_relax(); /* other processes may need this core */
    }
}

void relay_expect(utofu_vcq_hdl_t vcq, uint8_t type, uint64_t edata)
{
    struct utofu_mrq_notice notice;

    CHECK_OK(ut_await_mrq(vcq, &notice));
    CHECK_EQ(notice.notice_type, type);
    CHECK_EQ(notice.edata, edata);
}

void relay_submit(const struct ut_comm *comm)
{
    int rc;

    while ((rc = ut_start(comm)) == UTOFU_ERR_BUSY) {
        void *cbdata;

        CHECK_RC(utofu_poll_tcq(comm->vcq, 0, &cbdata), UTOFU_ERR_NOT_FOUND);
        ut_relax();
    }
    CHECK_RC(rc, UTOFU_SUCCESS);
}

static uint8_t byte_of(size_t i, uint64_t round)
{
    return (uint8_t)((i * 31 + round * 7 + (i >> 8)) % 251 + 1);
}

void relay_fill(uint8_t *at, size_t length, uint64_t round)
{
    for (size_t i = 0; i < length; i++)
        at[i] = byte_of(i, round);
}

void relay_check(const uint8_t *at, size_t length, uint64_t round)
{
    for (size_t i = 0; i < length; i++)
        CHECK(at[i] == byte_of(i, round), "round %llu, byte %zu of %zu: %u",
              (unsigned long long)round, i, length, at[i]);
}
