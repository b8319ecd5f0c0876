# SPDX-License-Identifier: Apache-2.0
# For mypy: it is not run.
import utofu
from utofu import OnesidedFlag, RegMemFlag, VcqFlag


def program(vcq: utofu.Vcq, memory: utofu.Memory, peer: utofu.Remote) -> None:
    vcq.put(memory, peer)
    vcq.put(peer, memory)  # wrong
    vcq.put(memory, memory)  # wrong
    vcq.put(memory, peer, flags=VcqFlag.THREAD_SAFE)  # wrong
    vcq.put(memory, peer, flags=OnesidedFlag.STRONG_ORDER)
    vcq.get_gap(peer, peer)  # wrong
    utofu.Vcq(0, RegMemFlag.READ_ONLY)  # wrong
    peer.size = 5  # wrong
    peer[0]  # wrong
    entry: int = vcq.poll_tcq()  # wrong
    vcq.poll_mrq().edata  # wrong
    vcq.armw4(peer, 7, 1)  # wrong
    print(entry, vcq.wait_mrq().edate)  # wrong
