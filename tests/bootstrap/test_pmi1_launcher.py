#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A launcher with errors in PMI-1: job_probe (named by PROBE) must report each error and end in
time."""
import os
import re
import socket
import subprocess
import sys
import threading
import time

GOOD = {
    'init': 'cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0',
    'get_maxes': 'cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024',
    'get_my_kvsname': 'cmd=my_kvsname kvsname=k1',
    'get': 'cmd=get_result rc=0 msg=success value=(vector,(0,1,2))',
    'publish_name': 'cmd=publish_result info=ok rc=0 msg=success',
    'lookup_name': 'cmd=lookup_result info=fail rc=1 msg=service_not_found',
    'finalize': 'cmd=finalize_ack',
}
FAILURES = []


def answer(sock, answers, pieces):
    """Answers requests; None is silence, b'' hangs up. pieces: of so many bytes, with pauses."""
    try:
        for line in sock.makefile('r'):
            command = line.split()[0].split('=')[1]
            reply = answers.get(command)
            if reply is None:
                continue
            if not reply:
                sock.shutdown(socket.SHUT_RDWR)
                return
            reply = reply if isinstance(reply, bytes) else reply.encode() + b'\n'
            for at in range(0, len(reply), pieces):
                sock.sendall(reply[at:at + pieces])
                if pieces < len(reply):
                    time.sleep(0.01)
    except OSError:
        pass  # the probe has hung up


def check(name, status, pattern, size=2, pieces=100000, kind=socket.SOCK_STREAM, **changes):
    ours, theirs = socket.socketpair(type=kind)
    env = dict(os.environ, PMI_FD=str(theirs.fileno()), PMI_RANK='0', PMI_SIZE=str(size),
               UTOFU_JOB_TIMEOUT='1', UTOFU_LOG_LEVEL='warning')
    for variable in ('PMIX_NAMESPACE', 'UTOFU_RANK', 'UTOFU_SIZE', 'UTOFU_ROOT'):
        env.pop(variable, None)
    probe = subprocess.Popen([os.environ['PROBE'], '--wait', '100', '--delay', '0'], env=env,
                             pass_fds=[theirs.fileno()], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, errors='replace')
    theirs.close()
    threading.Thread(target=answer, args=(ours, {**GOOD, **changes}, pieces), daemon=True).start()
    try:
        out = probe.communicate(timeout=30)[0]
    except subprocess.TimeoutExpired:
        probe.kill()
        out = 'does not end'
    if probe.returncode != status or not re.search(pattern, out):
        FAILURES.append(name)
        print(f'FAIL {name}: status {probe.returncode}, not {status}, or no {pattern!r} in:\n{out}')


os.environ['ASAN_OPTIONS'] = 'detect_leaks=0'
check('good', 0, 'pmi1 rank 0/1 node 0/1 local 0/1 id k1: ok', size=1)
check('in pieces', 0, 'pmi1 rank 0/1 node 0/1 local 0/1 id k1: ok', size=1, pieces=13)
check('a socket of another kind is none of a launcher', 0, 'solo rank 0/1', size=1, kind=socket.SOCK_DGRAM)
check('silence', 3, 'does not answer on PMI_FD .*timed out to .cmd=init', init=None)
check('hangs up', 3, 'does not answer on PMI_FD', init='')
check('refuses', 3, 'does not speak PMI-1', init='cmd=response_to_init rc=-1')
check('garbage', 3, 'does not speak PMI-1', init=os.urandom(64).replace(b'\n', b'') + b'\n')
check('endless line', 3, 'does not answer on PMI_FD', init=b'x' * 10000)
check('no name', 3, 'does not report the name of the job', get_my_kvsname='cmd=my_kvsname rc=-1')
check('long name', 3, 'does not report the name of the job', get_my_kvsname='kvsname=' + 'k' * 1000)
check('no mapping', 3, 'does not report the node of rank', get='cmd=get_result rc=-1 msg=key_not_found')
check('bad mapping', 3, 'does not report the node of rank', get='cmd=get_result value=(vector,(0,1')
check('no publishing', 4, 'refuses to publish', publish_name='cmd=publish_result info=fail')
check('published as hydra of MPICH 4.1 says it', 1, 'FAIL lookup: 1 -11', publish_name='cmd=publish_result rc=0',
      lookup_name='cmd=lookup_result rc=1')
check('published as Slurm says it', 1, 'FAIL lookup: 1 -11', publish_name='cmd=publish_result info=ok',
      lookup_name='cmd=lookup_result info=fail')
check('not published as hydra of MPICH 4.0 says it', 4, 'refuses to publish',
      publish_name='cmd=publish_result info=ok rc=1 msg=key_already_present')
check('found as hydra of MPICH 4.1 says it', 1, 'answer about rank 1 is damaged',
      lookup_name='cmd=lookup_result rc=0 port=zz')
check('not there yet', 1, 'FAIL lookup: 1 -11')
check('no bytes', 1, 'answer about rank 1 is damaged', lookup_name='info=ok port=zz')
check('too many bytes', 1, 'answer about rank 1 is damaged', lookup_name='info=ok port=' + 'ab' * 300)
check('silence later', 1, 'timed out to .cmd=lookup_name', lookup_name=None)

# the user's variables say otherwise
OVERRIDES = (
    ({'LOCAL_RANK': '3'}, 'node 0/1 local 3/4'),
    ({'LOCAL_RANK': '3', 'LOCAL_SIZE': '9'}, 'node 0/1 local 3/9'),
    ({'NODE': '5'}, 'node 5/0 local 0/1'),
    ({'NODE': '5', 'LOCAL_RANK': '2'}, 'node 5/0 local 2/3'),
    ({'NODE': '0'}, 'node 0/0 local 0/1'),
)
for variables, said in OVERRIDES:
    env = os.environ | {f'UTOFU_{key}': text for key, text in variables.items()}
    out = subprocess.run([os.environ['PROBE'], '--wait', '100', '--delay', '0'], env=env, capture_output=True,
                         text=True, timeout=30, check=False).stdout
    if f'solo rank 0/1 {said}' not in out:
        FAILURES.append(str(variables))
        print(f'FAIL {variables}: no {said!r} in {out}')
print(f'{len(FAILURES)} failures')
sys.exit(1 if FAILURES else 0)
