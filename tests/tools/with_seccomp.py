#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a command under a seccomp profile in the format of docker and podman, like a container of an
ordinary user: with_seccomp.py --profile FILE [options] COMMAND...

--without NAME   NAME is forbidden (EPERM), whatever the profile says; may be repeated --check
FILE     runs nothing; FILE is what `strace -f` wrote: every system call there must be allowed by
the profile. Those that --without forbids are printed.

Exit status 77: libseccomp is not installed; 99: the profile is not valid."""
import ctypes
import ctypes.util
import errno
import json
import os
import re
import sys

# docker's capabilities of a container; none affects the library's calls
CAPABILITIES = {"CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID",
                "CAP_KILL", "CAP_MKNOD", "CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SETFCAP",
                "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT"}
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
COMPARE = {"SCMP_CMP_NE": 1, "SCMP_CMP_LT": 2, "SCMP_CMP_LE": 3, "SCMP_CMP_EQ": 4,
           "SCMP_CMP_GE": 5, "SCMP_CMP_GT": 6, "SCMP_CMP_MASKED_EQ": 7}
NO_SUCH_CALL = -1  # __NR_SCMP_ERROR


class Argument(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64),
                ("b", ctypes.c_uint64)]


def load_library():
    name = ctypes.util.find_library("seccomp") or "libseccomp.so.2"
    try:
        lib = ctypes.CDLL(name)
    except OSError:
        print("skipped: libseccomp is not installed")
        sys.exit(77)
    lib.seccomp_init.restype = ctypes.c_void_p
    lib.seccomp_rule_add_array.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int,
                                           ctypes.c_uint, ctypes.POINTER(Argument)]
    lib.seccomp_load.argtypes = [ctypes.c_void_p]
    return lib


def bad(text):
    print("with_seccomp.py: " + text, file=sys.stderr)
    sys.exit(99)


def applies(rule):
    includes, excludes = rule.get("includes") or {}, rule.get("excludes") or {}
    arch = MACHINES.get(os.uname().machine, os.uname().machine)
    if set(includes) | set(excludes) > {"caps", "arches", "minKernel"}:
        bad("unknown condition in %s" % rule)
    return ((not includes.get("caps") or CAPABILITIES & set(includes["caps"])) and
            (not includes.get("arches") or arch in includes["arches"]) and
            not CAPABILITIES & set(excludes.get("caps") or []) and
            arch not in (excludes.get("arches") or []))


def action_of(word, error):
    if word == "SCMP_ACT_ALLOW":
        return 0x7fff0000
    if word == "SCMP_ACT_ERRNO":
        return 0x00050000 | (error if error is not None else 1)
    return bad("unknown action %s" % word)


def read_profile(lib, path, without):
    """The default action, and the list of (name, action, arguments) that apply here."""
    try:
        with open(path, encoding="utf-8") as f:
            profile = json.load(f)
    except ValueError as error:
        bad("%s is no JSON: %s" % (path, error))
    rules = []
    for rule in profile["syscalls"]:
        action = action_of(rule["action"], rule.get("errnoRet"))
        args = [Argument(a["index"], COMPARE[a["op"]], a["value"], a.get("valueTwo", 0))
                for a in rule.get("args") or []]
        for name in rule["names"]:
            if lib.seccomp_syscall_resolve_name(name.encode()) == NO_SUCH_CALL:
                bad("%s: there is no system call %s" % (path, name))
            if applies(rule) and name not in without:
                rules.append((name, action, args))
    rules += [(name, action_of("SCMP_ACT_ERRNO", 1), []) for name in without]
    return action_of(profile["defaultAction"], profile.get("defaultErrnoRet")), rules


def install(lib, default, rules):
    context = lib.seccomp_init(default)
    for name, action, args in rules:
        number = lib.seccomp_syscall_resolve_name(name.encode())
        if action == default or number < 0:  # a negative number: not on this machine
            continue
        rc = lib.seccomp_rule_add_array(context, action, number, len(args),
                                        (Argument * len(args))(*args))
        if rc != 0:
            bad("the rule of %s: %s" % (name, os.strerror(-rc)))
    rc = lib.seccomp_load(context)
    if rc != 0:
        bad("cannot install the filter: %s" % os.strerror(-rc))


def check(rules, without, path):
    # a rule with ENOSYS means that the caller has an alternative
    fine = {action_of("SCMP_ACT_ALLOW", None), action_of("SCMP_ACT_ERRNO", errno.ENOSYS)}
    allowed = {name for name, action, _ in rules if action in fine}
    with open(path, encoding="utf-8", errors="replace") as f:
        made = {m.group(1) for m in re.finditer(r"^(?:\d+ +)?(\w+)\(", f.read(), re.M)}
    for name in sorted(made - allowed):
        print(name)
    if not made - allowed <= set(without):
        bad("not allowed, and made: %s" % ", ".join(sorted(made - allowed - set(without))))
    if "memfd_create" not in made or not set(without) <= made:
        bad("%s does not show what the library does" % path)


def main(words):
    profile, without, trace = None, [], None
    while words and words[0].startswith("--"):
        if words[0] == "--profile":
            profile = words[1]
        elif words[0] == "--without":
            without.append(words[1])
        elif words[0] == "--check":
            trace = words[1]
        else:
            bad("there is no option %s" % words[0])
        words = words[2:]
    lib = load_library()
    default, rules = read_profile(lib, profile, without)
    if trace:
        check(rules, without, trace)
        return
    install(lib, default, rules)
    os.execvp(words[0], words)


main(sys.argv[1:])
