/* SPDX-License-Identifier: Apache-2.0 */
/* Parses UTOFU_ROOT. */
#include "bootstrap/root.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { HOST_MAX = 256 };

static const char unix_prefix[] = "unix:@", nodes_option[] = ",nodes=";

static int parse_unix(struct ut_job_root *root, const char *name)
{
    struct sockaddr_un *un = (struct sockaddr_un *)&root->address;
    const char *option = strstr(name, nodes_option);
    size_t len = option ? (size_t)(option - name) : strlen(name);

    if (len == 0 || len > sizeof(un->sun_path) - 1)
        return -EINVAL;
    if (option) {
        const char *digits = option + strlen(nodes_option);
        char *end;
        unsigned long nodes = strtoul(digits, &end, 10);
        if (*digits < '1' || *digits > '9' || *end || nodes > 1u << 24)
            return -EINVAL;
        root->nodes = (uint32_t)nodes;
    }
    root->kind = UT_JOB_ROOT_UNIX;
    root->one_machine = true;
    un->sun_family = AF_UNIX;
    /* the leading zero byte makes an abstract name, which disappears with the socket */
    memcpy(un->sun_path + 1, name, len);
    root->address_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
    return 0;
}

/* Splits host:port or [host]:port. */
static int split_host(const char *text, char host[HOST_MAX], const char **port)
{
    const char *colon = strrchr(text, ':');
    size_t len;

    if (!colon || colon == text)
        return -EINVAL;
    len = (size_t)(colon - text);
    if (*text == '[') {
        if (text[len - 1] != ']')
            return -EINVAL;
        text++;
        len -= 2;
    } else if (memchr(text, ':', len)) {
        return -EINVAL;
    }
    if (len == 0 || len >= HOST_MAX || memchr(text, '/', len))
        return -EINVAL;
    memcpy(host, text, len);
    host[len] = '\0';

    char *end;
    unsigned long number = strtoul(colon + 1, &end, 10);
    if (colon[1] < '0' || colon[1] > '9' || *end || number == 0 || number > 65535)
        return -EINVAL;
    *port = colon + 1;
    return 0;
}

/* True for a loopback address. Decided by the text, not by the resolved address: all processes of
 * the job must agree, and a host may resolve its own name to 127.0.1.1. */
static bool says_loopback(const char *host)
{
    return strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
           strcmp(host, "::1") == 0;
}

static int parse_tcp(struct ut_job_root *root, const char *text)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    char host[HOST_MAX];
    const char *port;

    if (split_host(text, host, &port) != 0)
        return -EINVAL;
    /* "localhost" may resolve to ::1 or to 127.0.0.1: all processes use 127.0.0.1 */
    if (getaddrinfo(strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, port, &hints, &found) != 0)
        return -EHOSTUNREACH;
    root->kind = UT_JOB_ROOT_TCP;
    root->one_machine = says_loopback(host);
    root->port = (uint16_t)strtoul(port, NULL, 10);
    memcpy(&root->address, found->ai_addr, found->ai_addrlen);
    root->address_len = found->ai_addrlen;
    freeaddrinfo(found);
    return 0;
}

int ut_job_root_parse(struct ut_job_root *root, const char *text)
{
    struct stat st;

    memset(root, 0, sizeof(*root));
    root->text = text;
    if (strncmp(text, unix_prefix, strlen(unix_prefix)) == 0)
        return parse_unix(root, text + strlen(unix_prefix));
    if (stat(text, &st) == 0) {
        root->kind = UT_JOB_ROOT_FOLDER;
        root->one_machine = true;
        return S_ISDIR(st.st_mode) ? 0 : -EINVAL;
    }
    return parse_tcp(root, text);
}

bool ut_job_root_is_utofurun(const char *text)
{
    static const char beginning[] = "unix:@utofurun.";

    return strncmp(text, beginning, strlen(beginning)) == 0;
}

bool ut_job_root_same_user(int fd, struct ucred *peer)
{
    socklen_t len = sizeof(*peer);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, peer, &len) != 0)
        *peer = (struct ucred){.pid = -1, .uid = (uid_t)-1, .gid = (gid_t)-1};
    return peer->uid == geteuid();
}
