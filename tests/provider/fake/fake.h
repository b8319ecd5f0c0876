/* SPDX-License-Identifier: Apache-2.0 */
/* What tests that are linked with the fake provider set and read of it. */
#ifndef UT_TEST_FAKE_H
#define UT_TEST_FAKE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(c)                                                                                   \
    do {                                                                                           \
        if (!(c)) {                                                                                \
            printf("FAILED: %s:%d: %s\n", __FILE__, __LINE__, #c);                                 \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

extern bool fake_refuses_messages; /* send() returns -EIO */
extern uint32_t fake_unanswered;   /* operations of this process under way, all connections */
extern bool fake_hears_nothing; /* the connections that it asks for go down: PROV_REASON_SILENT */
extern bool fake_breaks;   /* the next connection that it asked for, and that is polled, breaks;
                            * then this is false again */
extern uint32_t fake_asks; /* requests for connections that were sent */
extern uint32_t fake_ups;  /* connections that it asked for, and that came up */
extern bool fake_saves_reports; /* what is not signalled is answered with something later that is */
extern bool fake_peer_lives;    /* who hangs up without a word is not dead: PROV_REASON_BROKEN */

#endif
