/* SPDX-License-Identifier: Apache-2.0 */
/* What files call that stand above them. */
#ifndef AL_UPCALLS_H
#define AL_UPCALLS_H

#pragma GCC visibility push(hidden)

void al_upcalls_set(void); /* before anything is opened */

#pragma GCC visibility pop

#endif
