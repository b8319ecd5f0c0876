#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A PMI-1 launcher that counts the questions of a job's processes (job_probe, named by PROBE) for
one another's records, and checks that names and values are within the launcher's limits."""
import os
import socket
import subprocess
import sys
import tempfile
import threading

KVSNAME = 'kvs_4711_0_a_rather_long_name_of_a_host'
FAILURES = []


class Launcher:
    """Serves all processes of a job. A process's publication waits for that of its node's first
    process, and job_probe waits for all: so the number of questions does not depend on timing."""

    def __init__(self, nodes, per_node, keylen, vallen, forge, refuse):
        self.nodes, self.per_node, self.keylen, self.vallen = nodes, per_node, keylen, vallen
        self.forge, self.refuse = forge, refuse
        self.names, self.longest, self.asked = {}, [0, 0], {}
        self.changed = threading.Condition()

    def publish(self, rank, name, value):
        with self.changed:
            self.longest = [max(self.longest[0], len(name)), max(self.longest[1], len(value))]
            what = next((w for w in ('board', 'node') if f'.{w}.' in name), 'rank')
            if what in self.refuse:
                return 'cmd=publish_result info=fail rc=1'
            if what in self.forge:
                value = value[:2] + 'f' * (len(value) - 2)
            self.names[name] = value
            self.changed.notify_all()
            if what == 'rank' and rank % self.per_node:  # the first of the node makes its board
                board = f'.board.{rank // self.per_node}'
                self.changed.wait_for(lambda: 'board' in self.refuse or
                                      any(name.endswith(board) for name in self.names), timeout=20)
            return 'cmd=publish_result info=ok rc=0 msg=success'

    def look_up(self, rank, name):
        with self.changed:
            self.asked.setdefault(rank, []).append(name)
            if name in self.names:
                return f'cmd=lookup_result port={self.names[name]} info=ok rc=0 msg=success'
            return 'cmd=lookup_result info=fail rc=1 msg=service_not_found'

    def answer(self, rank, line):
        words = dict(word.split('=', 1) for word in line.split())
        command = words['cmd']
        if command == 'publish_name':
            return self.publish(rank, words['service'], words['port'])
        if command == 'lookup_name':
            return self.look_up(rank, words['service'])
        return {'init': 'cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0',
                'get_maxes': f'cmd=maxes kvsname_max=256 keylen_max={self.keylen} vallen_max={self.vallen}',
                'get_my_kvsname': f'cmd=my_kvsname kvsname={KVSNAME}',
                'get': f'cmd=get_result rc=0 value=(vector,(0,{self.nodes},{self.per_node}))',
                'finalize': 'cmd=finalize_ack'}[command]

    def serve(self, rank, sock):
        try:
            for line in sock.makefile('r'):
                sock.sendall(self.answer(rank, line).encode() + b'\n')
        except OSError:
            pass  # the process has ended


def start(launcher, rank, size, folder):
    ours, theirs = socket.socketpair()
    env = dict(os.environ, PMI_FD=str(theirs.fileno()), PMI_RANK=str(rank), PMI_SIZE=str(size),
               UTOFU_JOB_TIMEOUT='20', UTOFU_LOG_LEVEL='warning')
    for variable in ('PMIX_NAMESPACE', 'UTOFU_RANK', 'UTOFU_SIZE', 'UTOFU_ROOT'):
        env.pop(variable, None)
    probe = subprocess.Popen([os.environ['PROBE'], '--delay', '1', '--layout', '--wait', '20000', '--no-fork',
                              '--meet', folder],
                             env=env, pass_fds=[theirs.fileno()], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
    theirs.close()
    threading.Thread(target=launcher.serve, args=(rank, ours), daemon=True).start()
    return probe


def check(name, nodes, per_node, expected, keylen=64, vallen=1024, forge=(), refuse=()):
    """expected(rank): questions of that rank."""
    launcher = Launcher(nodes, per_node, keylen, vallen, set(forge), set(refuse))
    size = nodes * per_node
    with tempfile.TemporaryDirectory() as folder:
        probes = [start(launcher, rank, size, folder) for rank in range(size)]
        outs = [probe.communicate(timeout=60)[0] for probe in probes]
    faults = [out for out, probe in zip(outs, probes) if probe.returncode or not out.endswith(': ok\n')]
    asked = [len(launcher.asked.get(rank, [])) for rank in range(size)]
    for rank, count in enumerate(asked):
        if count != expected(rank):
            faults.append(f'rank {rank} asked {count} times, not {expected(rank)}: {launcher.asked.get(rank)}')
    # mpiexec of MPICH 4.2 aborts if a value takes more than some 970 of the 1024 characters that it allows
    if launcher.longest[0] >= keylen or launcher.longest[1] >= min(vallen, 900):
        faults.append(f'a name of {launcher.longest[0]} characters, a value of {launcher.longest[1]}')
    # records of a node are for other nodes, and for more than two processes
    nodes_published = len({published.split('.node.')[1].split('.')[0] for published in launcher.names
                           if '.node.' in published})
    if nodes_published != (nodes if nodes > 1 and per_node > 2 and 'node' not in refuse else 0):
        faults.append(f'{nodes_published} nodes were published')
    print(f'{name}: questions {asked}, longest name and value {launcher.longest}')
    if faults:
        FAILURES.append(name)
        print(f'FAIL {name}: ' + '\n'.join(faults))


os.environ['ASAN_OPTIONS'] = 'detect_leaks=0'
# the own node: one question, for the board made by the first process. Without a board, a question
# for each process, and four for the board
check('one node', 1, 6, lambda rank: int(rank > 0))
check('no board', 1, 6, lambda rank: 5 + 4 * int(rank > 0), refuse=['board'])
check('forged board', 1, 6, lambda rank: 5 + 4 * int(rank > 0), forge=['board'])
check('alone on a node', 4, 1, lambda rank: 3)
check('two on a node', 2, 2, lambda rank: int(rank % 2 > 0) + 2)
# of the other node: the first process, then all in the pieces for records of 255 bytes
check('two nodes', 2, 4, lambda rank: int(rank % 4 > 0) + 1 + 3)
check('node not published', 2, 4, lambda rank: int(rank % 4 > 0) + 4 + 2, refuse=['node'])
check('forged node', 2, 4, lambda rank: int(rank % 4 > 0) + 4 + 3, forge=['node'])
# short names and values: six pieces per rank, one for the board
check('short values', 1, 3, lambda rank: int(rank > 0), keylen=48, vallen=100)
check('short values, no board', 1, 3, lambda rank: 2 * 6 + 3 * int(rank > 0), keylen=48, vallen=100, refuse=['board'])
# if the node takes more questions than it has processes, single processes are asked for
check('short values, two nodes', 2, 4, lambda rank: int(rank % 4 > 0) + 4 * 6, keylen=48, vallen=100)
# two processes of two pieces each, then the node's seven
check('pieces of a node', 2, 4, lambda rank: int(rank % 4 > 0) + 2 * 2 + 7, vallen=300)
print(f'{len(FAILURES)} failures')
sys.exit(1 if FAILURES else 0)
