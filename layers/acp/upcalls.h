/* SPDX-License-Identifier: Apache-2.0 */
/* Calls from lower files to higher files. */
#ifndef AL_UPCALLS_H
#define AL_UPCALLS_H

#pragma GCC visibility push(hidden)

void al_upcalls_set(void); /* called before anything is opened */

#pragma GCC visibility pop

#endif
