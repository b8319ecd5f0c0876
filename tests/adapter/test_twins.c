/* SPDX-License-Identifier: Apache-2.0 */
/* Two devices of the software adapter: what is atomic on one of them is not on both, unless they
 * say so. */
#include "check_verbs.h"

enum { ROUNDS = 8, ADDS = ROUNDS * DEPTH };

/* Two ends of one device, and where the second one has the word that is added to. */
struct adder {
    struct end a, b;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_mr *mr;
};

static void device_close(struct ibv_pd *pd, struct ibv_context *context)
{
    CHECK(ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0);
}

static void adder_open(struct adder *adder, int device, uint8_t *word)
{
    const struct wishes w = {0};

    memset(&dev, 0, sizeof(dev));
    open_nth(device);
    adder->context = dev.context;
    adder->pd = dev.pd;
    pair_open(&adder->a, &adder->b, &w);
    CHECK((adder->mr =
               ibv_reg_mr(dev.pd, word, 8, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC)));
}

static void adder_close(struct adder *adder)
{
    CHECK(ibv_dereg_mr(adder->mr) == 0);
    end_close(&adder->a);
    end_close(&adder->b);
    device_close(adder->pd, adder->context);
}

/* All of a round's requests are under way at once. */
static void add_ones(struct adder *adder, const uint8_t *word)
{
    struct request r = request(&adder->a, &adder->b, IBV_WR_ATOMIC_FETCH_AND_ADD, 8);

    r.wr.wr.atomic.remote_addr = (uintptr_t)word;
    r.wr.wr.atomic.rkey = adder->mr->rkey;
    r.wr.wr.atomic.compare_add = 1;
    for (int i = 0; i < DEPTH; i++)
        CHECK(post(&adder->a, &r) == 0);
}

static uint64_t sum_of(int first, int second)
{
    static struct adder adders[2];
    static _Alignas(8) uint8_t word[8];
    uint64_t sum;

    device_close(dev.pd, dev.context); /* that of run_test() */
    adder_open(&adders[0], first, word);
    adder_open(&adders[1], second, word);
    for (int i = 0; i < ROUNDS; i++) {
        add_ones(&adders[0], word);
        add_ones(&adders[1], word);
        for (int k = 0; k < 2 * DEPTH; k++)
            expect_status(adders[k % 2].a.send_cq, IBV_WC_SUCCESS);
    }
    adder_close(&adders[0]);
    adder_close(&adders[1]);
    memcpy(&sum, word, sizeof(sum));
    return sum;
}

static void one_device_is_atomic_to_itself(void)
{
    CHECK(sum_of(1, 1) == 2 * ADDS);
}

static void two_devices_are_atomic_together_if_they_say_so(void)
{
    uint64_t sum = sum_of(0, 1);

    CHECK(sum >= ADDS && sum <= 2 * ADDS);
    CHECK((sum == 2 * ADDS) == (dev.attr.atomic_cap == IBV_ATOMIC_GLOB));
}

int main(int argc, char **argv)
{
    static const struct named_test tests[] = {
        TEST(one_device_is_atomic_to_itself),
        TEST(two_devices_are_atomic_together_if_they_say_so),
    };

    return run_tests(tests, sizeof(tests) / sizeof(tests[0]), argc > 1 ? argv[1] : NULL);
}
