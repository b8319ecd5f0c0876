/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UTOFU_ROOT: the rendezvous of the processes of a job without a launcher. One of
 *
 *     host:port, [address]:port      rank 0 listens there
 *     unix:@name[,nodes=K]           an abstract unix socket of this machine; utofurun serves it.
 *                                    nodes=K: the ranks are distributed over K nodes in blocks
 *     an existing folder             one file per process
 */
#ifndef UT_BOOTSTRAP_ROOT_H
#define UT_BOOTSTRAP_ROOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum ut_job_root_kind { UT_JOB_ROOT_FOLDER, UT_JOB_ROOT_TCP, UT_JOB_ROOT_UNIX };

struct ut_job_root {
    enum ut_job_root_kind kind;
    const char *text; /* the environment's text, not copied */
    bool one_machine; /* by the text, all processes are on one machine */
    uint32_t nodes;   /* K of nodes=K, or 0 */
    struct sockaddr_storage address;
    socklen_t address_len;
    uint16_t port; /* port of host:port */
};

/* 0; -EINVAL: none of the forms, or no such folder; -EHOSTUNREACH: the host has no address. */
int ut_job_root_parse(struct ut_job_root *root, const char *text);

/* True if utofurun made this text. Then utofurun serves the rendezvous, else rank 0 does. */
bool ut_job_root_is_utofurun(const char *text);

/* True if the peer of a unix socket is a process of this user. *peer identifies the peer; -1:
 * unknown. */
bool ut_job_root_same_user(int fd, struct ucred *peer);

#endif
