/* SPDX-License-Identifier: Apache-2.0 */
/* Reads recordings (record/format.h) into a program. An error ends utofu-model, with the file and
 * the place in it. */
#ifndef UM_RECORDING_H
#define UM_RECORDING_H

#include "model/program.h"

/* Reads the recordings of all ranks of one job, in any order. */
void um_recordings_read(struct um_program *program, char *const paths[], int num_paths);

#endif
