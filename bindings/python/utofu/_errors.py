# SPDX-License-Identifier: Apache-2.0
"""Return codes as exceptions"""
from __future__ import annotations

import enum
from typing import NoReturn

from ._cffi import ffi, lib
from ._constants import ReturnCode
from ._notice import MrqNotice

TEXT_SIZE = 1024  # of utofu_get_last_error()


def name_of(code: int) -> str:
    """The name of a return code in utofu.h.

    >>> name_of(-4)
    'UTOFU_ERR_BUSY'
    >>> name_of(-99)
    'unknown code'
    """
    try:
        return "UTOFU_" + ReturnCode(code).name
    except ValueError:
        return "unknown code"


def get_last_error() -> str:
    """The text of utofu_get_last_error() on this thread's last error."""
    text = ffi.new("char[]", TEXT_SIZE)
    lib.utofu_get_last_error(text)
    return ffi.string(text).decode(errors="replace")


def check_flags(flags: int, group: type[enum.IntFlag]) -> None:
    """Refuses flags of another group, whose bits mean something else here."""
    if isinstance(flags, enum.Enum) and not isinstance(flags, group):
        raise TypeError(f"{flags!r} is no {group.__name__}")


class Error(Exception):
    """A call of the library failed.

    code  the return code: a ReturnCode
    name  its name: "UTOFU_ERR_INVALID_VCQ_ID"
    call  the function of C: "utofu_put"

    Its text is that of utofu_get_last_error().
    """

    def __init__(self, code: int, call: str, text: str):
        super().__init__(code, call, text)
        self.code = ReturnCode(code) if code in ReturnCode._value2member_map_ else code
        self.name = name_of(code)
        self.call = call
        self.text = text

    def __str__(self) -> str:
        return self.text


class Busy(Error):
    """UTOFU_ERR_BUSY: nothing was submitted or started; later it may work."""


class TcqError(Error):
    """A communication could not be sent: what poll_tcq() found. cbdata is that of the communication."""

    def __init__(self, code: int, call: str, text: str, cbdata: int):
        super().__init__(code, call, text)
        self.args = (code, call, text, cbdata)
        self.cbdata = cbdata


class MrqError(Error):
    """A communication failed after it was sent: what poll_mrq() found. notice is its notice."""

    def __init__(self, code: int, call: str, text: str, notice: MrqNotice):
        super().__init__(code, call, text)
        self.args = (code, call, text, notice)
        self.notice = notice


def text_of(code: int, call: str) -> str:
    """The library's text, if it is of this code: another thread's is not."""
    text, start = get_last_error(), f"{name_of(code)} ({code})"
    return text if text.startswith(start) else f"{start}: {call}"


def raise_error(code: int, call: str) -> NoReturn:
    kind = Busy if code == ReturnCode.ERR_BUSY else Error
    raise kind(code, call, text_of(code, call))


def raise_tcq(code: int, cbdata: int) -> NoReturn:
    if ReturnCode.ERR_MRQ_OTHER < code <= ReturnCode.ERR_TCQ_OTHER:
        raise TcqError(code, "utofu_poll_tcq", text_of(code, "utofu_poll_tcq"), cbdata)
    raise_error(code, "utofu_poll_tcq")


def raise_mrq(code: int, notice: MrqNotice) -> NoReturn:
    if ReturnCode.ERR_BARRIER_OTHER < code <= ReturnCode.ERR_MRQ_OTHER:
        raise MrqError(code, "utofu_poll_mrq", text_of(code, "utofu_poll_mrq"), notice)
    raise_error(code, "utofu_poll_mrq")


def check(code: int, call: str) -> None:
    if code:
        raise_error(code, call)
