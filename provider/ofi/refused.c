/* SPDX-License-Identifier: Apache-2.0 */
/* Probe of the peer's TCP port: a connection that is closed as soon as the host of the peer has
 * replied. See refused.h. */
#include "refused.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "util/fd.h"

/* True if the name of an endpoint is the address at which the fabric listens: `tcp`, also below
 * ofi_rxm, and `net`, the earlier name of `tcp`. */
static bool is_over_tcp(const struct fp_prov *prov)
{
    const char *name = prov->info->fabric_attr->prov_name;

    return strncmp(name, "tcp", 3) == 0 || strncmp(name, "net", 3) == 0;
}

/* Gets the socket address of the peer's control endpoint. Returns its size; 0: not over TCP. */
static socklen_t read_name(const struct fp_peer *peer, struct sockaddr_storage *to)
{
    const struct fp_address *address = &peer->address;
    socklen_t size = 0;

    memcpy(to, address->name, address->name_size);
    if (to->ss_family == AF_INET)
        size = sizeof(struct sockaddr_in);
    else if (to->ss_family == AF_INET6)
        size = sizeof(struct sockaddr_in6);
    return is_over_tcp(peer->prov) && size <= address->name_size ? size : 0;
}

/* True if the connection is refused at once. */
static bool request_connection(struct fp_peer *peer)
{
    struct sockaddr_storage to = {0};
    socklen_t size = read_name(peer, &to);

    if (size == 0)
        return false;
    peer->port_fd =
        ut_fd_open_ours(socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (peer->port_fd < 0)
        return false;
    return connect(peer->port_fd, (const struct sockaddr *)&to, size) != 0 && errno == ECONNREFUSED;
}

/* Returns the error of the connection; 0: established, or no reply yet. */
static int read_error(int fd)
{
    socklen_t size = sizeof(int);
    int error = 0;

    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    return error;
}

bool fp_peer_port_is_refused(struct fp_peer *peer)
{
    bool refused = false;

    if (peer->port_fd < 0) {
        refused = request_connection(peer);
    } else {
        struct pollfd p = {.fd = peer->port_fd, .events = POLLOUT};
        if (poll(&p, 1, 0) == 0)
            return false; /* the host has not replied */
        refused = read_error(peer->port_fd) == ECONNREFUSED;
        fp_peer_drop_port_probe(peer);
    }
    if (refused)
        fp_peer_drop_port_probe(peer);
    return refused;
}

void fp_peer_drop_port_probe(struct fp_peer *peer)
{
    ut_fd_close(peer->port_fd);
    peer->port_fd = -1;
}
