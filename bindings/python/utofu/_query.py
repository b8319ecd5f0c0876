# SPDX-License-Identifier: Apache-2.0
"""TNIs, ids, versions, the job"""
from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator, NamedTuple, Optional, Sequence, TypeVar

from ._cffi import ffi, lib
from ._constants import BarrierCapReduceOp, BarrierCaps, Job, OnesidedCapArmwOp, OnesidedCapFlag, OnesidedCaps
from ._errors import check
from ._memory import Local, Remote

T = TypeVar("T", OnesidedCaps, BarrierCaps, Job)


class Version(NamedTuple):
    major_ver: int
    minor_ver: int


class VcqInfo(NamedTuple):
    coords: tuple[int, ...]
    tni_id: int
    cq_id: int
    extra_val: int


class VbgInfo(NamedTuple):
    coords: tuple[int, ...]
    tni_id: int
    bg_id: int
    extra_val: int


class RankNode(NamedTuple):
    node: int
    coords: tuple[int, ...]


def _fields(kind: type[T], structure: Any, **classes: type[int]) -> T:
    """A structure of C as a named tuple."""
    values: dict[str, Any] = {name: classes.get(name, int)(getattr(structure, name)) for name in kind._fields}
    return kind(**values)


def _tnis(list_them: Callable[[Any, Any], int], call: str) -> list[int]:
    ids, number = ffi.new("utofu_tni_id_t **"), ffi.new("size_t *")
    check(list_them(ids, number), call)
    found = [int(ids[0][i]) for i in range(number[0])]
    lib.free(ids[0])
    return found


def get_onesided_tnis() -> list[int]:
    return _tnis(lib.utofu_get_onesided_tnis, "utofu_get_onesided_tnis")


def get_barrier_tnis() -> list[int]:
    return _tnis(lib.utofu_get_barrier_tnis, "utofu_get_barrier_tnis")


def query_onesided_caps(tni_id: int) -> OnesidedCaps:
    """What a TNI can do, and its limits.

    >>> OnesidedCapArmwOp.ADD in query_onesided_caps(0).armw_ops
    True
    """
    caps = ffi.new("struct utofu_onesided_caps **")
    check(lib.utofu_query_onesided_caps(tni_id, caps), "utofu_query_onesided_caps")
    return _fields(OnesidedCaps, caps[0], flags=OnesidedCapFlag, armw_ops=OnesidedCapArmwOp)


def query_barrier_caps(tni_id: int) -> BarrierCaps:
    caps = ffi.new("struct utofu_barrier_caps **")
    check(lib.utofu_query_barrier_caps(tni_id, caps), "utofu_query_barrier_caps")
    return _fields(BarrierCaps, caps[0], reduce_ops=BarrierCapReduceOp)


def _coords(values: Optional[Sequence[int]], number: int) -> Any:
    """Coordinates for C, which does not know their number; None: NULL."""
    if values is None:
        return ffi.NULL
    if len(values) != number:
        raise ValueError(f"{len(values)} coordinates, not {number}")
    return ffi.new("uint8_t[]", list(values))


def construct_vcq_id(coords: Sequence[int], tni_id: int, cq_id: int, cmp_id: int) -> int:
    """The id of a VCQ with a component id, from where it is."""
    vcq_id = ffi.new("utofu_vcq_id_t *")
    check(lib.utofu_construct_vcq_id(_coords(coords, 6), tni_id, cq_id, cmp_id, vcq_id), "utofu_construct_vcq_id")
    return int(vcq_id[0])


def set_vcq_id_path(vcq_id: int, path_coords: Optional[Sequence[int]] = None) -> int:
    """The id with another path; without coordinates, with a suitable one."""
    changed = ffi.new("utofu_vcq_id_t *", vcq_id)
    check(lib.utofu_set_vcq_id_path(changed, _coords(path_coords, 3)), "utofu_set_vcq_id_path")
    return int(changed[0])


def query_vcq_info(vcq_id: int) -> VcqInfo:
    coords, tni, cq, extra = ffi.new("uint8_t[6]"), ffi.new("uint16_t *"), ffi.new("uint16_t *"), ffi.new("uint16_t *")
    check(lib.utofu_query_vcq_info(vcq_id, coords, tni, cq, extra), "utofu_query_vcq_info")
    return VcqInfo(tuple(coords), tni[0], cq[0], extra[0])


def query_vbg_info(vbg_id: int) -> VbgInfo:
    coords, tni, bg, extra = ffi.new("uint8_t[6]"), ffi.new("uint16_t *"), ffi.new("uint16_t *"), ffi.new("uint16_t *")
    check(lib.utofu_query_vbg_info(vbg_id, coords, tni, bg, extra), "utofu_query_vbg_info")
    return VbgInfo(tuple(coords), tni[0], bg[0], extra[0])


def get_path_id(vcq_id: int, path_coords: Optional[Sequence[int]] = None) -> int:
    """A path to a VCQ, for OnesidedFlag.path(); without coordinates, a suitable one."""
    path_id = ffi.new("utofu_path_id_t *")
    check(lib.utofu_get_path_id(vcq_id, _coords(path_coords, 3), path_id), "utofu_get_path_id")
    return int(path_id[0])


def get_path_coords(vcq_id: int, path_id: int) -> tuple[int, ...]:
    coords = ffi.new("uint8_t[3]")
    check(lib.utofu_get_path_coords(vcq_id, path_id, coords), "utofu_get_path_coords")
    return tuple(coords)


def query_stadd(vcq_id: int, stag: int, size: int) -> Remote:
    """Memory of this size that the owner of a VCQ registers with this STag; its existence is not checked."""
    stadd = ffi.new("utofu_stadd_t *")
    check(lib.utofu_query_stadd(vcq_id, stag, stadd), "utofu_query_stadd")
    return Remote(vcq_id, stadd[0], size)


def query_tofu_version() -> Version:
    numbers = ffi.new("int *"), ffi.new("int *")
    lib.utofu_query_tofu_version(*numbers)
    return Version(numbers[0][0], numbers[1][0])


def query_utofu_version() -> Version:
    """The version of the interface.

    >>> query_utofu_version()
    Version(major_ver=1, minor_ver=0)
    """
    numbers = ffi.new("int *"), ffi.new("int *")
    lib.utofu_query_utofu_version(*numbers)
    return Version(numbers[0][0], numbers[1][0])


def query_my_coords() -> tuple[int, ...]:
    coords = ffi.new("uint8_t[6]")
    check(lib.utofu_query_my_coords(coords), "utofu_query_my_coords")
    return tuple(coords)


@contextlib.contextmanager
def region(name: str) -> Iterator[None]:
    """A region of the program, for UTOFU_STATS and UTOFU_TRACE: utofu_profile_start() and utofu_profile_stop().

    >>> with region("solver"):
    ...     pass
    """
    check(lib.utofu_profile_start(name.encode()), "utofu_profile_start")
    try:
        yield
    finally:
        check(lib.utofu_profile_stop(name.encode()), "utofu_profile_stop")


def seen(memory: Local) -> None:
    """Memory that was waited for by reading it has changed, for utofu-model: utofu_profile_seen()."""
    check(lib.utofu_profile_seen(memory.stadd, memory.size), "utofu_profile_seen")


def query_job() -> Job:
    """Rank and size of the job, and the place of this process: utofu_query_job().

    >>> query_job().size
    1
    """
    job = ffi.new("struct utofu_job *")
    check(lib.utofu_query_job(job), "utofu_query_job")
    return _fields(Job, job)


def query_rank_node(rank: int) -> RankNode:
    """Node and coordinates of a process of the job."""
    node, coords = ffi.new("uint32_t *"), ffi.new("uint8_t[6]")
    check(lib.utofu_query_rank_node(rank, node, coords), "utofu_query_rank_node")
    return RankNode(node[0], tuple(coords))


def compat_job() -> Job:
    """query_job() for libraries that Fugaku has, too."""
    job = ffi.new("struct utofu_job *")
    check(lib.utofu_compat_job(job), "utofu_compat_job")
    return _fields(Job, job)


def compat_rank_node(rank: int) -> RankNode:
    """query_rank_node() for libraries that Fugaku has, too."""
    node, coords = ffi.new("uint32_t *"), ffi.new("uint8_t[6]")
    check(lib.utofu_compat_rank_node(rank, node, coords), "utofu_compat_rank_node")
    return RankNode(node[0], tuple(coords))
