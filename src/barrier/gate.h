/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Barrier gates (manual 2.3): automata with two inputs and two outputs. A relay gate waits for a
 * signal and a packet, combines their values, and sends the result on as a signal and a packet. A
 * start/end gate sends the process's own value when a barrier communication is started, and then
 * receives the result. Each of the two inputs and two outputs is optional.
 *
 * Uses util, ident, wire, process, peers, vcq, link, stats, engine, runtime. The gates of a TNI
 * belong to the library's own VCQ of that TNI: its lock guards them, its links carry their packets.
 * Signals stay within a TNI. A packet for a gate of the same process on another TNI goes through
 * that TNI's inbox, so that a thread never holds two VCQ locks.
 *
 * How packets find the right circuit
 *   The inputs are queues, so the n-th packet meets the n-th signal, however far one process is
 *   ahead of another. Gate ids are used again, so each gate has an epoch, which grows when it is
 *   allocated, set or freed, and which its packets carry. A gate that is set asks its packet source
 *   for its current epoch (UT_GATE_QUERY, UT_GATE_ANSWER); older packets are dropped, and none is
 *   used before the answer. As connections keep order, and a program sets a gate after it has
 *   learned the ids of the circuit, no packet of an earlier circuit is used. Packets are numbered
 *   within an epoch, so that a lost one breaks the circuit and does not shift it.
 *
 * How failures propagate
 *   A value has a status, MISMATCH or BROKEN, which combining keeps. When the process that a gate
 *   receives from is gone, the gate goes on as if a BROKEN value had come. A relay whose inputs
 * have all failed sends one last value, with the flag `last`, to the gates behind it, and sends
 * nothing after it.
 */
#ifndef UT_BARRIER_GATE_H
#define UT_BARRIER_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "barrier/value.h"
#include "utofu.h"

/* The results are enum utofu_return_code; errors are logged here. */
int ut_gate_alloc(unsigned int tni, size_t count, utofu_vbg_id_t *ids);
int ut_gate_free(const utofu_vbg_id_t *ids, size_t count);
int ut_gate_set(const struct utofu_vbg_setting *settings, size_t count);

/* A gate's name for log lines: its number and its process. */
struct ut_gate_name {
    char text[80];
};
struct ut_gate_name ut_gate_name(utofu_vbg_id_t id);

/* Starts a barrier communication with this value. */
int ut_gate_start(utofu_vbg_id_t id, const struct ut_value *value);

/* The start functions come in three kinds, each with a poll function of its own. */
enum ut_gate_kind { UT_KIND_BARRIER, UT_KIND_UINT64, UT_KIND_DOUBLE };
/* Makes progress; on UTOFU_SUCCESS *result is the result. */
int ut_gate_poll(utofu_vbg_id_t id, enum ut_gate_kind kind, struct ut_value *result);

#endif
