/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parameters of a machine, from a file (machines/tofud.toml says what each of them means, and
 * where its value is from). Times in ns, rates in bytes per ns (GB/s).
 */
#ifndef UM_MACHINE_H
#define UM_MACHINE_H

#include <stdbool.h>
#include <stddef.h>

enum { UM_ANY = 0, UM_MOST_COUNT = 65535 };

/* PARAMETER(table, name, least, most): every machine file gives all of them. With a `most` other
 * than UM_ANY it is a whole number. */
#define UM_PARAMETERS(PARAMETER)                                                                   \
    PARAMETER(cpu, call_ns, 0, UM_ANY)                                                             \
    PARAMETER(cpu, poll_ns, 0, UM_ANY)                                                             \
    PARAMETER(cpu, see_ns, 0, UM_ANY)                                                              \
    PARAMETER(tni, number, 1, 64)                                                                  \
    PARAMETER(tni, rate, 1e-6, UM_ANY)                                                             \
    PARAMETER(tni, gap_ns, 0, UM_ANY)                                                              \
    PARAMETER(tni, send_ns, 0, UM_ANY)                                                             \
    PARAMETER(tni, receive_ns, 0, UM_ANY)                                                          \
    PARAMETER(tni, packet_rate, 1e-6, UM_ANY)                                                      \
    PARAMETER(tni, tcq_ns, 0, UM_ANY)                                                              \
    PARAMETER(tni, mrq_ns, 0, UM_ANY)                                                              \
    PARAMETER(tni, ack_ns, 0, UM_ANY)                                                              \
    PARAMETER(tni, get_ns, 0, UM_ANY)                                                              \
    PARAMETER(tni, armw_ns, 0, UM_ANY)                                                             \
    PARAMETER(tni, schedule_ns, 0, UM_ANY)                                                         \
    PARAMETER(link, rate, 1e-6, UM_ANY)                                                            \
    PARAMETER(link, hop_ns, 0, UM_ANY)                                                             \
    PARAMETER(packet, mtu, 1, UM_ANY)                                                              \
    PARAMETER(packet, overhead, 0, UM_ANY)                                                         \
    PARAMETER(packet, buffered, 1, UM_ANY)                                                         \
    PARAMETER(packet, queued, 1, UM_ANY)                                                           \
    PARAMETER(barrier, start_ns, 0, UM_ANY)                                                        \
    PARAMETER(barrier, gate_ns, 0, UM_ANY)                                                         \
    PARAMETER(barrier, signal_ns, 0, UM_ANY)                                                       \
    PARAMETER(barrier, result_ns, 0, UM_ANY)                                                       \
    PARAMETER(noise, late_ns, 0, UM_ANY)                                                           \
    PARAMETER(noise, interval_ns, 0, UM_ANY)                                                       \
    PARAMETER(noise, longest_ns, 0, UM_ANY)                                                        \
    PARAMETER(mpi, post_ns, 0, UM_ANY)                                                             \
    PARAMETER(mpi, take_ns, 0, UM_ANY)                                                             \
    PARAMETER(mpi, short_bytes, 0, UM_ANY)                                                         \
    PARAMETER(mpi, buffer_ns, 0, UM_ANY)                                                           \
    PARAMETER(mpi, copy_rate, 1e-6, UM_ANY)                                                        \
    PARAMETER(mpi, eager_bytes, 0, UM_ANY)                                                         \
    PARAMETER(mpi, rendezvous_ns, 0, UM_ANY)                                                       \
    PARAMETER(mpi, node_ns, 0, UM_ANY)                                                             \
    PARAMETER(mpi, node_rate, 1e-6, UM_ANY)                                                        \
    PARAMETER(mpi, offload_elements, -1, UM_MOST_COUNT)                                            \
    PARAMETER(mpi, round_ns, 0, UM_ANY)                                                            \
    PARAMETER(mpi, round_rate, 1e-6, UM_ANY)                                                       \
    PARAMETER(mpi, pipeline_bytes, 1, UM_ANY)                                                      \
    PARAMETER(mpi, pipeline_ns, 0, UM_ANY)                                                         \
    PARAMETER(mpi, pipeline_rate, 1e-6, UM_ANY)                                                    \
    PARAMETER(mpi, block_ns, 0, UM_ANY)                                                            \
    PARAMETER(mpi, block_rate, 1e-6, UM_ANY)

enum um_topology { UM_TOFU, UM_FAT_TREE };

struct um_machine {
    char name[64];
    enum um_topology topology;
    bool has_mpi;                /* the table [mpi], which a file may leave out */
    bool torus[3];               /* x, y and z: torus or mesh, of a Tofu machine */
    double nodes_a_leaf, spines; /* of a fat tree */
#define UM_FIELD(table, name, least, most) double table##_##name;
    UM_PARAMETERS(UM_FIELD)
#undef UM_FIELD
};

/* Reads a file; a name without '/' and '.' is one of the machines that are installed, in `folder`.
 * Ends the program on an error. */
void um_machine_read(struct um_machine *machine, const char *name, const char *folder);

/* Sets "table.key", the first `length` characters of the text; false: there is no such key, or it
 * cannot have that value: `why` tells. */
bool um_machine_set(struct um_machine *machine, const char *text, size_t length, double value,
                    char *why, size_t size);

#endif
