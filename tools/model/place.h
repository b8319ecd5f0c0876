/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the processes are, and the links between: nodes, ports, routes.
 *
 * Tofu: a node has ten ports, x+ x- y+ y- z+ z- a b+ b- c; link number: node * 10 + port, the
 * outgoing direction. A packet goes to the a, b, c of its path in the order b, c, a, then along x,
 * y, z, then to the target's a, c, b; along a torus the shorter way, + if both are as long.
 *
 * Fat tree: a node has a link to its leaf and one back; each leaf has one to and from each spine.
 * The spine is the target's number modulo the number of spines, as with static routing.
 */
#ifndef UM_PLACE_H
#define UM_PLACE_H

#include <stddef.h>
#include <stdint.h>

#include "model/machine.h"
#include "model/program.h"

enum { UM_PORTS = 10, UM_MOST_HOPS = 64 + 3 * 256 };

struct um_place {
    const struct um_machine *machine;
    uint32_t extent[6];
    uint32_t num_nodes, num_links, num_ranks;
    uint32_t *node_of_process;
    uint8_t (*coords)[6]; /* of each process */
};

/* The coordinates of the recording; or an allocation "2x3x2": three axes as of a job on Fugaku, x
 * and a, y and b, z and c together, ranks in order along the first axis; or "12": so many nodes in
 * a circle, neighbours in rank being neighbours; or a file with a line of
 * six coordinates for each rank. NULL: not given. */
void um_place_processes(struct um_place *place, const struct um_machine *machine,
                        const struct um_program *program, const char *allocation, const char *map);

/* The links from node to node, by a, b, c of the path. Returns their number. */
unsigned int um_route(const struct um_place *place, uint32_t from, uint32_t to,
                      const uint8_t path[3], uint32_t links[UM_MOST_HOPS]);

/* Classes of the links of a route: no circle of routes waits for links of one class. The way to the
 * a, b, c of the path; x, y, z; the same behind the end of a torus; the way to the target. */
enum { UM_CLASSES = 4 };
void um_route_classes(const struct um_place *place, const uint32_t *links, unsigned int num,
                      uint8_t *classes);

/* "link b+ of node 4 (0,0,0,0,2,0)" */
void um_link_name(const struct um_place *place, uint32_t link, char *text, size_t size);
void um_node_coords(const struct um_place *place, uint32_t node, uint8_t coords[6]);

#endif
