#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the Spack recipe against a replacement for Spack, with each set of variants: the directives
exist in Spack, and the options for meson are this project's.

usage: check_recipe.py PACKAGE.PY MESON-OPTIONS

Also the rules of "spack audit packages" that need no other recipe: a description without FIXME, a homepage with https,
a checksum for each version or manual_download, descriptions of variants, no reserved names.
"""

import itertools
import re
import sys
import types

directives = []


def directive(name, *, many=()):
    def record(first, **words):
        if not isinstance(first, str) or set(words) - set(many):
            sys.exit("%s(%r, %s): Spack does not take that" % (name, first, ", ".join(words)))
        directives.append((name, first, words))
    return record


class MesonPackage:
    """The base class of a recipe, as far as this recipe uses it."""

    def __init__(self, variants):
        self.spec = types.SimpleNamespace(satisfies=lambda text: text in variants)


def passes(*_, **__):
    return lambda function: function


def load(path):
    spack = types.ModuleType("spack.package")
    spack.version = directive("version", many=("sha256", "branch", "tag", "preferred"))
    spack.license = directive("license", many=("checked_by", "when"))
    spack.variant = directive("variant", many=("default", "description", "when", "values", "multi"))
    spack.depends_on = directive("depends_on", many=("type", "when"))
    spack.conflicts = directive("conflicts", many=("when", "msg"))
    spack.MesonPackage = MesonPackage
    spack.run_after = spack.on_package_attributes = passes
    spack.Executable = spack.join_path = None
    sys.modules.update({"spack": types.ModuleType("spack"), "spack.package": spack})
    with open(path, encoding="utf-8") as f:
        names = {}
        exec(compile(f.read(), path, "exec"), names)  # pylint: disable=exec-used
    return names["UtofuVerbs"]


def audit(package):
    """What "spack audit packages" refuses."""
    names = [name for name, _, _ in directives]
    if not package.__doc__ or "FIXME" in package.__doc__ or "version" not in names:
        sys.exit("the recipe has no description, or FIXME in it, or no version")
    if not re.match(r"https://(?!.*example\.com)", getattr(package, "homepage", "")):
        sys.exit("the recipe has no homepage with https")
    for name, first, words in directives:
        if name == "version" and "sha256" not in words and not getattr(package, "manual_download", False):
            sys.exit("version %s has no checksum" % first)
        if name == "variant" and not words.get("description"):
            sys.exit("the variant %s has no description" % first)
        if name == "variant" and first in ("patches", "dev_path", "arch", "os", "target"):
            sys.exit("the variant %s has a reserved name" % first)


def main():
    recipe, options = sys.argv[1:]
    with open(options, encoding="utf-8") as f:
        text = f.read()
    known = dict(re.findall(r"^option\('(\w+)', type: '(\w+)'", text, re.M))
    layers = re.findall(r"'(\w+)'", re.search(r"'layers'.*?choices: \[([^]]*)\]", text).group(1))
    values = {"feature": ("enabled", "disabled", "auto"), "boolean": ("true", "false")}
    package = load(recipe)
    audit(package)
    variants = [first for name, first, _ in directives if name == "variant"]
    for _, first, words in directives:
        for variant in re.findall(r"[+~](\w+)", words.get("when", "")):
            if variant not in variants:
                sys.exit("%s depends on the variant %s, which there is not" % (first, variant))
    for chosen in itertools.product((True, False), repeat=len(variants)):
        given = {("+" if on else "~") + name for name, on in zip(variants, chosen)}
        for argument in package(given).meson_args():
            found = re.fullmatch(r"-D(\w+)=([\w,]*)", argument)
            if not found or found.group(1) not in known:
                sys.exit("%s: there is no such option" % argument)
            if known[found.group(1)] == "array":
                if set(filter(None, found.group(2).split(","))) - set(layers):
                    sys.exit("%s: there is no such layer" % argument)
                continue
            if found.group(2) not in values[known[found.group(1)]]:
                sys.exit("%s: the option does not take that" % argument)
    print("ok: %d directives, options with %s" % (len(directives), ", ".join(variants)))


main()
