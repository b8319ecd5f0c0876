/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the connection state machine (src/link/fsm.h) as the table of docs/design/connections.md.
 */
#include <stdio.h>

#include "link/fsm.h"

static void print_cell(enum ut_link_state state, enum ut_fsm_event event)
{
    struct ut_fsm_step step = ut_fsm_step(state, event);

    if (step.action == UT_FSM_IMPOSSIBLE)
        printf("  |");
    else if (step.next == state)
        printf(" %s |", ut_fsm_action_name(step.action));
    else
        printf(" %s, %s |", ut_fsm_action_name(step.action), ut_fsm_state_name(step.next));
}

int main(void)
{
    printf("| event |");
    for (unsigned int s = 0; s < UT_LINK_STATES; s++)
        printf(" %s |", ut_fsm_state_name(s));
    printf("\n| --- |");
    for (unsigned int s = 0; s < UT_LINK_STATES; s++)
        printf(" --- |");
    for (unsigned int e = 0; e < UT_FSM_EVENTS; e++) {
        printf("\n| %s |", ut_fsm_event_name(e));
        for (unsigned int s = 0; s < UT_LINK_STATES; s++)
            print_cell((enum ut_link_state)s, (enum ut_fsm_event)e);
    }
    printf("\n");
    return 0;
}
