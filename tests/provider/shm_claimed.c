/* SPDX-License-Identifier: Apache-2.0 */
/* A producer loses its core between the claim of a slot and its publication: the endpoint's owner,
 * who may be on that core with a higher priority, goes to sleep, and is woken. */
#include <poll.h>
#include <stdlib.h>

#include "../harness/check.h"
#include "providers.h"
#include "shm/types.h"
#include "shm/ring.h"

enum { MANY = 10000, SOON_MS = 60000 };

static int wakes;

static void count_wake(void *owner)
{
    (void)owner;
    wakes++;
}

/* Polls and arms as the background thread does; false: it would never sleep. */
static bool goes_to_sleep(struct prov_ep *ep)
{
    for (int i = 0; i < MANY; i++) {
        shm_provider.ep_poll(ep);
        if (!shm_provider.ep_arm(ep, PROV_ARM_SOLICITED))
            return true;
    }
    return false;
}

static void await_wake(struct prov *prov)
{
    struct pollfd p = {.fd = shm_provider.fd(prov), .events = POLLIN};

    for (wakes = 0; wakes == 0;) {
        CHECK(poll(&p, 1, SOON_MS) == 1);
        shm_provider.progress(prov);
    }
}

int main(void)
{
    const struct prov_config config = {.wake = count_wake, .num_tnis = 1, .peer_timeout_ms = 2000};
    const struct prov_callbacks callbacks = {0};
    const struct prov_ep_attr attr = {.id = 1, .callbacks = &callbacks, .depth = 16};
    struct prov *prov;
    struct prov_ep *base;
    uint64_t pos, head;

    CHECK(shm_provider.open(&config, &prov) == 0);
    CHECK(shm_provider.ep_open(prov, &attr, &base) == 0);
    struct sp_ep *ep = sp_ep_of(base);
    for (int attention = 0; attention < 2; attention++) {
        CHECK(goes_to_sleep(base));
        head = ep->head;
        struct sp_slot *slot = sp_ring_claim(ep->ring, 0, &pos);
        CHECK(slot && pos == head);
        ep->must_check_peers = (uint32_t)attention;
        CHECK(shm_provider.ep_arm(base, PROV_ARM_SOLICITED)); /* it is published soon, mostly */
        CHECK(goes_to_sleep(base) && ep->head == head);
        await_wake(prov); /* by the timer, even if the producer does not ring */
        slot->kind = SP_KIND_NOTICE;
        sp_ring_publish(ep->ring, slot, pos, 0);
        CHECK(shm_provider.ep_arm(base, PROV_ARM_SOLICITED));
        CHECK(goes_to_sleep(base) && ep->head == head + 1);
    }
    shm_provider.ep_close(base);
    shm_provider.close(prov);
    return 0;
}
