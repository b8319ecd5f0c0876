# SPDX-License-Identifier: Apache-2.0
"""Notices of the MRQ"""
from __future__ import annotations

from . import _fast
from ._constants import MrqType


class MrqNotice(_fast.MrqNotice):
    """struct utofu_mrq_notice; it does not change

    >>> MrqNotice(MrqType.RMT_PUT, 0x1d09, 7, 0, 0, 0x5ff8)
    MrqNotice(RMT_PUT, vcq_id=0x1d09, edata=7, rmt_value=0, lcl_stadd=0x0, rmt_stadd=0x5ff8)
    """

    __slots__ = ()

    def _fields(self) -> tuple[MrqType, int, int, int, int, int]:
        return self.notice_type, self.vcq_id, self.edata, self.rmt_value, self.lcl_stadd, self.rmt_stadd

    def __reduce__(self) -> tuple[type[MrqNotice], tuple[MrqType, int, int, int, int, int]]:
        return MrqNotice, self._fields()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MrqNotice):
            return NotImplemented
        return self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        return (f"MrqNotice({self.notice_type.name}, vcq_id={self.vcq_id:#x}, edata={self.edata}, "
                f"rmt_value={self.rmt_value}, lcl_stadd={self.lcl_stadd:#x}, rmt_stadd={self.rmt_stadd:#x})")
