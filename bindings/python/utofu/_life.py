# SPDX-License-Identifier: Apache-2.0
"""The end of what is still open: at the end of the interpreter, and in a child made by fork().

At the end of the interpreter Python frees objects in no certain order, and before the library's own end: memory would
be freed while peers write to it. So everything is closed before that. A child has none of its parent's VCQs, and has
lost pages with registered memory: there everything is closed without a call, and the memory is kept for ever.
"""
from __future__ import annotations

import atexit
import os
import weakref
from typing import Protocol

from ._errors import Error


class Owner(Protocol):
    def close(self) -> None: ...

    def _forget(self) -> None: ...


_owners: weakref.WeakSet[Owner] = weakref.WeakSet()


def remember(owner: Owner) -> None:
    _owners.add(owner)


def forget(owner: Owner) -> None:
    _owners.discard(owner)


def close_all() -> None:
    for owner in list(_owners):
        try:
            owner.close()
        except Error:  # there is nobody left to do anything about it; the library has logged what is serious
            pass


def forget_all() -> None:
    for owner in list(_owners):
        owner._forget()


atexit.register(close_all)
os.register_at_fork(after_in_child=forget_all)
