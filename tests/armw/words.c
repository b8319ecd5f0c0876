/* SPDX-License-Identifier: Apache-2.0 */
#include "words.h"

#include <string.h>

const char *word_op_name(enum word_op op)
{
    static const char *const names[] = {"?", "swap", "add", "xor", "and", "or", "cswap"};

    return names[op];
}

/* Calls utofu_NAME or utofu_prepare_NAME; the arguments in which they differ come last. */
#define CALL(prefix, a, ...)                                                                       \
    do {                                                                                           \
        enum utofu_armw_op op = (enum utofu_armw_op)(a)->op;                                       \
        uint32_t operand = (uint32_t)(a)->operand, compare = (uint32_t)(a)->compare;               \
        if ((a)->op == WORD_CSWAP && (a)->size == 4)                                               \
            return prefix##cswap4((a)->vcq, (a)->rmt, compare, operand, (a)->rmt_stadd,            \
                                  (a)->edata, (a)->flags, __VA_ARGS__);                            \
        if ((a)->op == WORD_CSWAP)                                                                 \
            return prefix##cswap8((a)->vcq, (a)->rmt, (a)->compare, (a)->operand, (a)->rmt_stadd,  \
                                  (a)->edata, (a)->flags, __VA_ARGS__);                            \
        if ((a)->size == 4)                                                                        \
            return prefix##armw4((a)->vcq, (a)->rmt, op, operand, (a)->rmt_stadd, (a)->edata,      \
                                 (a)->flags, __VA_ARGS__);                                         \
        return prefix##armw8((a)->vcq, (a)->rmt, op, (a)->operand, (a)->rmt_stadd, (a)->edata,     \
                             (a)->flags, __VA_ARGS__);                                             \
    } while (0)

static int start_now(const struct word_armw *armw)
{
    CALL(utofu_, armw, armw->cbdata);
}

int word_prepare(const struct word_armw *armw, void *desc, size_t *desc_size)
{
    CALL(utofu_prepare_, armw, desc, desc_size);
}

int word_start(const struct word_armw *armw)
{
    uint64_t desc[UT_DESC / 8];
    size_t size = 0;

    if (!armw->prepared)
        return start_now(armw);
    int rc = word_prepare(armw, desc, &size);
    if (rc != UTOFU_SUCCESS)
        return rc;
    CHECK(size > 0 && size <= sizeof(desc));
    return utofu_post_toq(armw->vcq, desc, size, armw->cbdata);
}

void word_submit(const struct word_armw *armw)
{
    int rc;

    while ((rc = word_start(armw)) == UTOFU_ERR_BUSY) {
        void *cbdata;
        int tcq = utofu_poll_tcq(armw->vcq, 0, &cbdata);

        if (tcq != UTOFU_ERR_NOT_FOUND)
            CHECK(tcq == UTOFU_SUCCESS && cbdata == armw->cbdata, "%s", ut_rc_name(tcq));
        ut_relax();
    }
    CHECK(rc == UTOFU_SUCCESS, "%s of %u bytes gave %s", word_op_name(armw->op), armw->size,
          ut_rc_name(rc));
}

uint64_t word_load(const void *at, unsigned int size)
{
    return size == 4 ? __atomic_load_n((const uint32_t *)at, __ATOMIC_SEQ_CST)
                     : __atomic_load_n((const uint64_t *)at, __ATOMIC_SEQ_CST);
}

void word_store(void *at, unsigned int size, uint64_t value)
{
    if (size == 4)
        __atomic_store_n((uint32_t *)at, (uint32_t)value, __ATOMIC_SEQ_CST);
    else
        __atomic_store_n((uint64_t *)at, value, __ATOMIC_SEQ_CST);
}

uint64_t word_old(const struct word_armw *armw, uint64_t before)
{
    return armw->size == 4 ? (uint32_t)before : before;
}

uint64_t word_after(const struct word_armw *armw, uint64_t before)
{
    uint64_t old = word_old(armw, before), compare = word_old(armw, armw->compare);
    uint64_t operand = word_old(armw, armw->operand), now = old;

    switch (armw->op) {
    case WORD_SWAP:
        now = operand;
        break;
    case WORD_ADD:
        now = old + operand;
        break;
    case WORD_XOR:
        now = old ^ operand;
        break;
    case WORD_AND:
        now = old & operand;
        break;
    case WORD_OR:
        now = old | operand;
        break;
    default:
        now = old == compare ? operand : old;
    }
    return word_old(armw, now);
}

static struct utofu_mrq_notice notice_of(const struct word_armw *armw, uint8_t type,
                                         utofu_vcq_id_t peer)
{
    return (struct utofu_mrq_notice){
        .notice_type = type, .vcq_id = peer, .edata = armw->edata, .rmt_stadd = armw->rmt_stadd};
}

uint64_t word_await(const struct word_armw *armw)
{
    struct utofu_mrq_notice got, want = notice_of(armw, UTOFU_MRQ_TYPE_LCL_ARMW, armw->rmt);

    memset(&got, 0xee, sizeof(got));
    CHECK_OK(ut_await_mrq(armw->vcq, &got));
    ut_check_notice(&got, &want);
    if (armw->size == 4)
        CHECK_EQ(got.rmt_value >> 32, 0);
    return got.rmt_value;
}

void word_expect_remote(utofu_vcq_hdl_t vcq, const struct word_armw *armw, utofu_vcq_id_t origin)
{
    struct utofu_mrq_notice want = notice_of(armw, UTOFU_MRQ_TYPE_RMT_ARMW, origin);

    ut_expect_notice(vcq, &want);
}
