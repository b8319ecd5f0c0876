# SPDX-License-Identifier: Apache-2.0
"""uTofu for Python

Names are those of utofu.h without "utofu_", and a call is the call of the C function: its manual page says what it
does. What is different:

  Objects    Vcq, Memory and Vbg are closed by close(), by a with statement, and at the end of the interpreter.
             Memory holds the buffer that is registered. What a put or get takes is a Local and a Remote of the same
             size in bytes; a Remote names memory of a peer and can be sent to other processes.
  Errors     Error has the code, its name, and the text of utofu_get_last_error(). Polls return None where there is
             nothing; start functions raise Busy where there is no room. TcqError and MrqError are of a communication
             that failed, and have its callback data or its notice.
  Threads    All calls release Python's lock. VCQs and VBGs are thread-safe unless thread_safe=False is given.

>>> import utofu
>>> source, target = bytearray(b"ten bytes."), bytearray(10)
>>> with utofu.Vcq() as vcq, vcq.reg_mem(source) as lcl, vcq.reg_mem(target) as rmt:
...     vcq.put(lcl, rmt.remote, edata=7, flags=utofu.OnesidedFlag.REMOTE_MRQ_NOTICE)
...     vcq.wait_mrq().edata
7
>>> target
bytearray(b'ten bytes.')
"""
from . import _constants
from ._constants import *  # noqa: F401,F403
from ._errors import Busy, Error, MrqError, TcqError, get_last_error, name_of
from ._meeting import Meeting
from ._memory import Descriptors, Local, Memory, Part, Remote, aligned
from ._notice import MrqNotice
from ._query import (RankNode, VbgInfo, VcqInfo, Version, compat_job, compat_rank_node, construct_vcq_id,
                     get_barrier_tnis, get_onesided_tnis, get_path_coords, get_path_id, query_barrier_caps, query_job,
                     query_my_coords, query_onesided_caps, query_rank_node, query_stadd, query_tofu_version,
                     query_utofu_version, query_vbg_info, query_vcq_info, region, seen, set_vcq_id_path)
from ._vbg import Vbg
from ._vcq import Vcq, wait_vcqs
from .aio import AsyncVcq

__all__ = [
    "AsyncVcq", "Busy", "Descriptors", "Error", "Local", "Meeting", "Memory", "MrqError", "MrqNotice", "Part",
    "RankNode", "Remote", "TcqError", "Vbg", "VbgInfo", "Vcq", "VcqInfo", "Version", "aligned", "compat_job",
    "compat_rank_node", "construct_vcq_id", "get_barrier_tnis", "get_last_error", "get_onesided_tnis",
    "get_path_coords", "get_path_id", "name_of", "query_barrier_caps", "query_job", "query_my_coords",
    "query_onesided_caps", "query_rank_node", "query_stadd", "query_tofu_version", "query_utofu_version",
    "query_vbg_info", "query_vcq_info", "region", "seen", "set_vcq_id_path", "wait_vcqs",
]
__all__ += _constants.__all__
