/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Barrier gates (manual 2.3): automata with two inputs and two outputs. A relay gate waits for a
 * signal and a packet, combines their values, and sends the result as a signal and a packet. A
 * start/end gate sends the value of its process when a barrier communication starts, and later
 * receives the result. Each input and each output is optional.
 *
 * The gates of a TNI belong to the library's own VCQ of that TNI: its lock guards them, and its
 * links carry their packets. Signals stay within a TNI. A packet for a gate of the same process on
 * another TNI goes through the inbox of that TNI, so that a thread never holds two VCQ locks.
 *
 * The right circuit: the inputs are queues, so the n-th packet meets the n-th signal, however far
 * one process is ahead of another. Gate ids are reused, so each gate has an epoch, which grows when
 * the gate is allocated, set or freed. Packets carry the epoch of their gate. A gate that is set
 * queries the current epoch of its packet source (UT_GATE_QUERY, UT_GATE_REPLY). It drops older
 * packets, and uses no packet before the reply. No packet of an earlier circuit is used, because
 * connections keep order, and a program sets a gate after it has learned the ids of the circuit.
 * Packets are numbered within an epoch, so that a lost packet breaks the circuit instead of
 * shifting it.
 *
 * Failures: a value has a status, MISMATCH or BROKEN, which combining keeps. When the process of a
 * gate's source is gone, the gate continues as if a BROKEN value had arrived. A relay gate whose
 * inputs have all failed sends one last value, with the flag `last`, to the gates behind it, and
 * nothing after it.
 *
 * Uses util, ident, wire, process, peers, vcq, link, stats, engine, runtime.
 */
#ifndef UT_BARRIER_GATE_H
#define UT_BARRIER_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "barrier/value.h"
#include "utofu.h"

/* Return enum utofu_return_code, and log errors. */
int ut_gate_alloc(unsigned int tni, size_t count, utofu_vbg_id_t *ids);
int ut_gate_free(const utofu_vbg_id_t *ids, size_t count);
int ut_gate_set(const struct utofu_vbg_setting *settings, size_t count);

/* The name of a gate in log lines: its number and its process. */
struct ut_gate_name {
    char text[80];
};
struct ut_gate_name ut_gate_name(utofu_vbg_id_t id);

/* Starts a barrier communication with this value. */
int ut_gate_start(utofu_vbg_id_t id, const struct ut_value *value);

/* The start functions have three kinds, each with its own poll function. */
enum ut_gate_kind { UT_KIND_BARRIER, UT_KIND_UINT64, UT_KIND_DOUBLE };
/* Makes progress. After UTOFU_SUCCESS *result is the result. */
int ut_gate_poll(utofu_vbg_id_t id, enum ut_gate_kind kind, struct ut_value *result);

#endif
