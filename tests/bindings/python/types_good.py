# SPDX-License-Identifier: Apache-2.0
# For mypy: it is not run.
from typing import Optional

import utofu
from utofu import ArmwOp, OnesidedFlag, VcqFlag


def program() -> list[float]:
    with utofu.Vcq(0, VcqFlag.SESSION_MODE) as vcq, vcq.reg_mem(bytearray(100)) as memory:
        peer: utofu.Remote = memory.remote.at(0, 8)
        vcq.put(memory.at(0, 8), peer, 1, OnesidedFlag.TCQ_NOTICE | OnesidedFlag.sps(1), cbdata=5)
        vcq.armw8(peer, ArmwOp.ADD, 1)
        entry: Optional[int] = vcq.poll_tcq()
        notice: utofu.MrqNotice = vcq.wait_mrq(timeout=0.5)
        print(entry, notice.edata, notice.notice_type.name)
    with utofu.Vbg() as gate:
        gate.reduce_double(utofu.ReduceOp.BFPSUM, [1, 2.5])
        return gate.wait_reduce_double()
